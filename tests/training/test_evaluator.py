"""Evaluations in processes of their own give what evaluations in this one give."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs.tasks import resolve
from offdyn.policies.trained import Policies
from offdyn.training import evaluation, hardware
from offdyn.training.evaluation import Evaluator, evaluate

from . import small

TASKS = [resolve(name) for name in ("hopper-big-head", "ant-short-feet", "hopper-broken-joints")]
SEEDS = [3, 4, 5]
WANTED = {"target_episodes": 2, "source_episodes": 1, "index": 7, "kept_rows": 20}


def policies() -> Policies:
    rng = np.random.default_rng(0)
    shapes = ((3, 32, 16), (3, 1, 16), (3, 16, 8), (3, 1, 8))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return Policies(("linear", "relu", "linear"), tuple(arrays))


@pytest.fixture
def children(monkeypatch):
    """Two of them, as beside a GPU."""
    monkeypatch.setattr(hardware, "beside_a_gpu", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)))
    evaluator = Evaluator(TASKS, SEEDS, threads=2, padded=True)
    assert len(evaluator.children) == 2
    yield evaluator
    evaluator.close()
    assert all(child.process.returncode is not None for child in evaluator.children)


def test_children_give_every_lane_what_it_gets_in_one_process(children):
    for index in (7, 8):  # one after the other, by the same children
        ours = children(policies(), **(WANTED | {"index": index}))
        alone = evaluate(policies(), TASKS, SEEDS, threads=1, padded=True, **(WANTED | {"index": index}))
        np.testing.assert_array_equal(ours.target_returns, alone.target_returns)
        np.testing.assert_array_equal(ours.source_returns, alone.source_returns)
        for mine, its in zip(ours.held_out, alone.held_out, strict=True):
            np.testing.assert_array_equal(mine, its)
    assert children(policies(), 1, 0, index=9).held_out is None


def test_lanes_of_one_robot_go_together_as_far_as_no_piece_gets_too_long(children):
    children.spent[:] = 4.0, 9.0, 5.0
    assert children._pieces() == [[1], [2], [0]]  # a piece may take 18 / 2 / 3
    children.spent[:] = 1.0, 20.0, 2.0
    assert children._pieces() == [[1], [2, 0]]
    together = children(policies(), **WANTED)
    alone = evaluate(policies(), TASKS, SEEDS, threads=1, padded=True, **WANTED)
    np.testing.assert_array_equal(together.target_returns, alone.target_returns)
    assert children.spent[0] == children.spent[2]


def test_a_child_that_dies_is_told_of(children):
    children.children[1].process.kill()
    with pytest.raises(OffdynError, match="a process that evaluates policies ended with exit code -9"):
        children(policies(), **WANTED)


@pytest.mark.parametrize("module", ["offdyn.training.evaluation", "offdyn.envs.processes"])
def test_a_child_loads_no_jax(module):
    said = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False).returncode == 0


def test_without_a_gpu_there_are_no_children():
    evaluator = Evaluator(TASKS, SEEDS, threads=2, padded=True)
    assert not evaluator.children
    assert evaluator(policies(), **WANTED).target_returns.shape == (3, 2)
    evaluator.close()


def test_a_training_that_waits_long_for_an_evaluation_says_so(tmp_path, monkeypatch):
    evaluates = Evaluator.__call__

    def slowly(*arguments, **named):
        time.sleep(0.2)
        return evaluates(*arguments, **named)

    monkeypatch.setattr(Evaluator, "__call__", slowly)
    monkeypatch.setattr(evaluation, "PATIENCE", 0.05)
    said = small.train(small.two_runs()[:1], tmp_path / "out").said
    assert any("training waits for an evaluation" in line for line in said)
