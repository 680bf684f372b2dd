"""Trainings whose actions move those of a base policy: exact resume, and padding."""

from functools import partial

import numpy as np
import pytest

from offdyn.envs import pairs
from offdyn.envs.padding import ACTION_SIZE
from offdyn.envs.pairs import open_bodies
from offdyn.envs.residual import Residual, ResidualBodies
from offdyn.training.config import build

from .small import differing, outcome, resume, run, train


def leaning(observation: np.ndarray) -> np.ndarray:
    """A base policy for the world PUSH."""
    return -0.5 * observation


def halves(size: int, observation: np.ndarray) -> np.ndarray:
    return np.full((len(observation), size), 0.5)


@pytest.mark.usefixtures("shared_programs")
def test_a_stopped_training_ends_with_the_same_bytes_as_an_unbroken_one(tmp_path):
    runs = [run(seed=seed, base_policy=f"{__name__}:leaning", residual=0.3 * (1 + seed)) for seed in (0, 1)]
    train(runs, tmp_path / "whole")
    train(runs, tmp_path / "stopped", stop_at=130)
    resume(tmp_path / "stopped", stop_at=290)
    resume(tmp_path / "stopped")
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "stopped")) == []


def test_padded_robots_get_their_own_entries_of_the_base():
    tasks = [pairs.find("hopper-big-head"), pairs.find("halfcheetah-no-thighs")]
    bodies, seeds = [(task, "target") for task in tasks], [(0, 1), (0, 2)]
    sizes = [pairs.spec_of(task)[:2] for task in tasks]
    residuals = [Residual(partial(halves, size), 0.3, seen, size) for seen, size in sizes]
    padded, plain = open_bodies(bodies, seeds, 1, padded=True), open_bodies(bodies, seeds, 1, padded=True)
    moved = ResidualBodies(padded, residuals)
    chosen = np.random.default_rng(0).uniform(-1, 1, (2, ACTION_SIZE))
    rows, expected = moved.step(np.arange(2), chosen), plain.step(np.arange(2), 0.5 + 0.3 * chosen)
    np.testing.assert_array_equal(rows.next_observation, expected.next_observation)
    for body, task in enumerate(tasks):
        size = pairs.spec_of(task).action_size
        np.testing.assert_array_equal(rows.action[body, :size], chosen[body, :size])
        assert not rows.action[body, size:].any()


def test_bodies_without_a_base_are_left_alone():
    task = pairs.find("hopper-big-head")
    bodies, seeds = [(task, "target")] * 2, [(0, 1), (0, 2)]
    residuals = [None, Residual(lambda seen: np.zeros((len(seen), 3)), 0.5, 11, 3)]
    mixed, plain = ResidualBodies(open_bodies(bodies, seeds, 1), residuals), open_bodies(bodies, seeds, 1)
    chosen = np.full((2, 3), 0.8)
    rows, expected = mixed.step(np.arange(2), chosen), plain.step(np.arange(2), chosen * [[1.0], [0.5]])
    np.testing.assert_array_equal(rows.next_observation, expected.next_observation)
    np.testing.assert_array_equal(rows.action, chosen)


def test_a_base_that_is_named_by_seed_is_each_seeds_own(tmp_path):
    for seed in (0, 1):
        (tmp_path / f"base-{seed}").mkdir()
        (tmp_path / f"base-{seed}" / "policy.onnx").write_text(str(seed))
    runs = [
        build("hopper-big-head", "sac", seed=seed, settings={"base_policy": f"{tmp_path}/base-{{seed}}"})[0]
        for seed in (0, 1)
    ]
    assert [one.schedule.base_policy for one in runs] == [str(tmp_path / f"base-{seed}") for seed in (0, 1)]
    assert runs[0].schedule.base_sha256 != runs[1].schedule.base_sha256
    assert {one.schedule.residual for one in runs} == {0.3}
