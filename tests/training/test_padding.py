"""Robots of different sizes in one program: each learns what it would learn at its own size."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.algos.common import ensemble
from offdyn.algos.registry import METHODS as REGISTRY
from offdyn.data.replay import unpack
from offdyn.data.transition import row_width
from offdyn.envs import padding
from offdyn.envs.padding import ACTION_SIZE, OBSERVATION_SIZE, PaddedBodies
from offdyn.envs.pairs import spec_of
from offdyn.envs.robots import ROBOTS
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import resolve
from offdyn.policies.trained import Policy
from offdyn.training import cohort, hardware, trainer
from offdyn.training.config import build
from offdyn.training.preparation import group
from offdyn.training.program import Lane, Programs, lane_settings, named_leaves, run_keys

TASKS = ("hopper-big-head", "ant-short-feet")
SMALL = {"actor_widths": (16,), "critic_widths": (16,), "batch_size": 16}
ENCODERS = {"encoder_widths": (16,), "code_size": 20, "encoder_batch": 16}
CLASSIFIERS = {"classifier_widths": (16,), "classifier_batch": 16, "warm_up": 0, "standardise_inputs": True}
ENSEMBLE = {"ensemble_widths": (16, 16), "ensemble_batch": 16, "ensemble_interval": 2, "members": 3, "warm_up": 0}
METHODS = {
    "par": ENCODERS,
    "darc": CLASSIFIERS,
    "vgdf": ENSEMBLE | {"optimist_widths": (16,)},
    "sac": {"tune_temperature": True, "source_noise": 0.1},
    "q-avatar": {"backbone": "classic", "weight_interval": 2},
    "model-backup": {k: v for k, v in ENSEMBLE.items() if k != "warm_up"} | {"backbone": "classic", "warm_up": 1},
    "duo": {"backbone": "classic", "domain_input": "none"},
}
UPDATES, ROWS = 5, 50


def columns(parts: str, padded: bool) -> np.ndarray:
    """One number for each column, the same at the hopper's own size and padded."""
    spec = ROBOTS["hopper"].spec
    s, a = (OBSERVATION_SIZE, ACTION_SIZE) if padded else (spec.observation_size, spec.action_size)
    # State, action, next state, code, and the deviation of an action, which the actor says after its mean; reward and
    # change of the state, and after them the variances of both.
    widths = {"s": s, "a": a, "n": s, "c": ENCODERS["code_size"], "d": a, "r": 1, "h": s, "v": 1, "w": s}
    return np.concatenate([100 * list(widths).index(part) + np.arange(widths[part]) for part in parts])


TOGETHER = ("s", "a", "sa", "san", "ca", "ad", "rh", "rhvw")
COMBINED = [columns(parts, padded) for parts in TOGETHER for padded in (True, False)]
BY_WIDTH = {len(numbers): numbers for numbers in COMBINED}


def own_places(wide: int, own: int) -> np.ndarray:
    return np.arange(wide) if wide == own else np.flatnonzero(np.isin(BY_WIDTH[wide], BY_WIDTH[own]))


def cut(padded: Any, own: Any) -> Any:
    """The hopper's padded arrays at its own size."""

    def one(wide: jax.Array, narrow: jax.Array) -> np.ndarray:
        return np.asarray(wide)[np.ix_(*map(own_places, wide.shape, narrow.shape))] if narrow.ndim else np.asarray(wide)

    return jax.tree.map(one, padded, own)


def rows_at_both_sizes(task: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    spec = spec_of(resolve(task))
    drawn = np.random.default_rng(seed).normal(size=(ROWS, row_width(spec))).astype(np.float32)
    drawn[:, -1] = 0.0
    padded = np.zeros((ROWS, 2 * OBSERVATION_SIZE + ACTION_SIZE + 2), np.float32)
    s, a = spec.observation_size, spec.action_size
    padded[:, :s], padded[:, 32 : 32 + a], padded[:, 40] = drawn[:, :s], drawn[:, s : s + a], drawn[:, s + a]
    padded[:, 41 : 41 + s] = drawn[:, s + a + 1 : 2 * s + a + 1]
    return drawn, padded


@pytest.fixture
def noise_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A robot's own columns of a padded draw are what it would draw alone: each column is drawn by its number."""

    def drawn(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        *counts, width = shape
        numbers = BY_WIDTH[width] if width < 100 else np.arange(width)  # so many are first weights
        mixed = jax.random.key_data(key).sum() + 7919 * jnp.arange(np.prod(counts), dtype=jnp.uint32)[:, None]
        return ((mixed + np.uint32(104729) * numbers.astype(np.uint32)) % 1009 / 252 - 2.0).reshape(shape)

    monkeypatch.setattr(jax.random, "normal", drawn)


@pytest.mark.usefixtures("noise_by_column")
@pytest.mark.parametrize("method", METHODS)
def test_a_padded_robot_learns_what_it_learns_at_its_own_size(method: str) -> None:
    """The hopper, which the most is added to, beside an ant in the padded program."""
    settings = SMALL | METHODS[method]
    preset = "paper" if "paper" in REGISTRY[method].presets else None
    runs = [build(task, method, preset, 3, settings | {"padded": True})[0] for task in TASKS]
    assert len(group(runs)) == 1
    keys = run_keys([3, 3])
    learns_from = runs[0].schedule.learns_from
    programs = Programs(runs[0].recipe.method, runs[0].spec, runs[0].sac, runs[0].hyper, learns_from, UPDATES)
    before = programs.init(keys, *lane_settings(runs))
    rows = [[rows_at_both_sizes(task, seed) for task in TASKS] for seed in (1, 2)]
    wide = [np.stack([padded for _, padded in domain]) for domain in rows]
    sizes = np.int32(ROWS), np.int32(ROWS), np.int32(0)
    after = programs.learn(keys, jax.tree.map(np.copy, before), *wide, *sizes, np.ones(2, bool))

    run, _ = build(TASKS[0], method, preset, 3, settings)
    own = Programs(run.recipe.method, run.spec, run.sac, run.hyper, learns_from, UPDATES)
    start = own.init(keys[:1], *lane_settings([run]))
    first, last = (jax.tree.map(lambda x: x[:1], state) for state in (before, after))
    parts = ("agent", "others", "learned")
    start = start._replace(**{name: cut(getattr(first, name), getattr(start, name)) for name in parts})
    narrow = [domain[0][0][None] for domain in rows]
    ended = own.learn(keys[:1], start, *narrow, *sizes, np.ones(1, bool))
    for name in parts:
        ours, alone = named_leaves(cut(getattr(last, name), getattr(ended, name))), named_leaves(getattr(ended, name))
        for path, array in ours.items():
            np.testing.assert_allclose(array, alone[path], rtol=2e-4, atol=1e-5, err_msg=path)
    critic = np.asarray(last.agent.critic.value[0])[0]  # [2, inputs, 16]
    present = np.isin(columns("sa", padded=True), columns("sa", padded=False))
    assert critic[:, present].all()
    assert not critic[:, ~present].any()


@pytest.fixture(scope="module")
def untrained() -> tuple[Programs, Lane]:
    """A padded hopper and a padded ant before their first update."""
    wide = {name: (256,) for name in ("actor_widths", "critic_widths", "encoder_widths")}
    runs = [build(task, "par", "paper", 0, wide | {"padded": True})[0] for task in TASKS]
    programs = Programs(runs[0].recipe.method, runs[0].spec, runs[0].sac, runs[0].hyper, "both", 1)
    return programs, programs.init(run_keys([0, 0]), *lane_settings(runs))


def test_first_weights_are_as_large_as_at_the_robots_own_size_and_zero_beyond_it(untrained: Any) -> None:
    _, lanes = untrained
    for lane, task in enumerate(TASKS):
        spec = spec_of(resolve(task))
        s, a, fan_in = spec.observation_size, spec.action_size, spec.initial_fan_in
        networks = {  # arrays, inputs that the robot has, fan-in
            "actor": (lanes.agent.actor.value, s, fan_in),
            "critic": (lanes.agent.critic.value, s + a, fan_in + a),
            "f": (lanes.learned.live.value.f, s, fan_in),
            "g": (lanes.learned.live.value.g, 256 + a, 256 + a),
        }
        for name, (arrays, inputs, fan_in) in networks.items():
            weight, bias = (np.abs(array[lane]) for array in arrays[:2])
            assert np.all(weight.any(-1).sum(-1) == inputs), name
            # Of many uniform numbers the largest is next to their bound.
            assert weight.max() == pytest.approx(fan_in**-0.5, rel=0.004), name
            assert bias.max() == pytest.approx(fan_in**-0.5, rel=0.02), name


def test_an_ensembles_first_weights_are_as_large_as_at_the_robots_own_size_and_zero_beyond_it() -> None:
    runs = [build(task, "vgdf", "paper", 0, {"ensemble_widths": (200,), "padded": True})[0] for task in TASKS]
    programs = Programs(runs[0].recipe.method, runs[0].spec, runs[0].sac, runs[0].hyper, "both", 1)
    lanes = programs.init(run_keys([0, 0]), *lane_settings(runs))
    first, _, last, _ = lanes.learned.ensemble.live.value
    for lane, task in enumerate(TASKS):
        spec = spec_of(resolve(task))
        inputs = spec.observation_size + spec.action_size
        for weights, own, fan_in in (
            (first[lane], inputs, inputs),
            (last[lane].mT, 2 * (1 + spec.observation_size), 200),
        ):
            there = np.asarray(weights).any((0, 2))  # [members, entries, hidden]
            assert there.sum() == own
            assert np.asarray(weights)[:, there].std() == pytest.approx(0.5 * fan_in**-0.5, rel=0.02)
        actor = lanes.learned.optimist.value[0][lane]
        assert np.asarray(actor).any(-1).sum() == spec.observation_size


def test_an_ensembles_errors_are_those_at_the_robots_own_size() -> None:
    run, _ = build(TASKS[0], "vgdf", "paper", 0, {"ensemble_widths": (16,), "members": 2})
    hyper, own = run.hyper, run.spec
    wide = padding.padded(own)._replace(present=padding.present(own))
    padded = ensemble.init(jax.random.key(0), hyper, wide)
    alone = ensemble.init(jax.random.key(0), hyper, own)
    alone = alone._replace(live=alone.live._replace(value=cut(padded.live.value, alone.live.value)))
    found = []
    for rows, spec, model in zip(rows_at_both_sizes(TASKS[0], 1), (own, wide), (alone, padded), strict=True):
        unit = np.full(spec.observation_size, 0.5)
        found.append(ensemble.errors(model, unpack(rows, spec), unit, hyper, spec))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_a_robot_acts_with_what_it_has_alone(untrained: Any) -> None:
    programs, lanes = untrained
    seen = np.ones((2, 1, OBSERVATION_SIZE), np.float32)
    for actions in programs.act(run_keys([0, 0]), lanes, seen, seen, np.int32(0), np.zeros(2, np.int32))[:2]:
        assert np.all(np.count_nonzero(actions, axis=-1) == [[spec_of(resolve(task)).action_size] for task in TASKS])


def test_bodies_of_several_robots_do_what_each_does_alone() -> None:
    tasks = [resolve(TASKS[i]) for i in (0, 1, 0)]
    seeds = [(1, 0), (2, 0), (3, 0)]
    together = PaddedBodies(tasks, seeds, threads=1)
    alone = [Simulator([task], [seed], threads=1) for task, seed in zip(tasks, seeds, strict=True)]
    together.reset(np.array([2, 1]), np.array([990, 5]))
    alone[2].reset(np.array([0]), 990)
    alone[1].reset(np.array([0]), 5)
    rng = np.random.default_rng(0)
    for step in range(30):
        ids = np.array([[0, 1, 2], [1, 2], [0]][step % 3])
        actions = rng.uniform(-1, 1, (len(ids), ACTION_SIZE))
        rows = together.step(ids, actions)
        for at, body in enumerate(ids):
            s, a = alone[body].spec.observation_size, alone[body].spec.action_size
            own = alone[body].step(np.array([0]), actions[at : at + 1, :a])
            np.testing.assert_array_equal(rows.observation[at], np.pad(own.observation[0], (0, 32 - s)))
            np.testing.assert_array_equal(rows.next_observation[at], np.pad(own.next_observation[0], (0, 32 - s)))
            np.testing.assert_array_equal(rows.action[at], np.pad(own.action[0], (0, 8 - a)))
            for name in ("reward", "terminated", "truncated", "diverged"):
                assert getattr(rows, name)[at] == getattr(own, name)[0], name
            np.testing.assert_array_equal(together.observation[body, :s], alone[body].observation[0])
    saved = together.save()
    other = PaddedBodies(tasks, seeds, threads=1)
    other.load(saved)
    np.testing.assert_array_equal(other.observation, together.observation)


@pytest.mark.parametrize("in_processes", [False, True])
def test_several_robots_train_together_go_on_and_each_policy_has_its_robots_size(
    tmp_path: Path, in_processes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"source_steps": 200, "eval_interval": 100, "eval_episodes": 1, "eval_source_episodes": 1}
    short |= {"final_episodes": 1, "learning_starts": 10, "padded": True, "checkpoint_interval": 100}
    # Two that soon fall.
    runs = [build(task, "sac", "paper", 0, SMALL | short)[0] for task in ("hopper-big-head", "walker-no-right-thigh")]
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    class KilledInTheMiddle(trainer.Quiet):
        def advanced(self, clock: int, total: int, wall: float) -> None:
            if clock == 150:
                shutil.copytree(whole, killed)

    trainer.start(runs, whole, threads=1, progress=KilledInTheMiddle())
    assert list(killed.glob("cohorts/*/manifest.json")), "it was copied before its first checkpoint"
    if in_processes:  # as beside a GPU
        monkeypatch.setattr(cohort, "beside_a_gpu", lambda: True)
        monkeypatch.setattr(hardware, "beside_a_gpu", lambda: True)
    trainer.resume(killed, threads=2)
    for run in runs:
        spec = spec_of(run.task)
        ended, resumed = (Policy(out / run.name / "policy.safetensors") for out in (whole, killed))
        seen = np.random.default_rng(0).normal(size=(4, spec.observation_size))
        assert ended(seen).shape == (4, spec.action_size)
        np.testing.assert_array_equal(ended(seen), resumed(seen))
        finals = [json.loads((out / run.name / "final.json").read_text()) for out in (whole, killed)]
        assert finals[0]["final_returns"] == finals[1]["final_returns"]


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_padded_robot_ends_where_its_own_rule_says(robot: str) -> None:
    spec = ROBOTS[robot].spec
    wide = padding.padded(spec)._replace(present=padding.present(spec))
    near = np.random.default_rng(0).uniform(-0.3, 1.3, (2000, spec.observation_size))
    near[::2, 1:] *= 0.1  # upright, else the hopper hardly ever is
    near[0, 0], near[2, -1] = np.nan, 200.0
    filled = np.pad(near, ((0, 0), (0, OBSERVATION_SIZE - spec.observation_size)))
    ended = spec.ends(near)
    np.testing.assert_array_equal(wide.ends(filled), ended)
    np.testing.assert_array_equal(jax.jit(wide.ends)(filled), spec.ends(near.astype(np.float32)))
    assert ended.any() == (robot != "halfcheetah")
    assert not ended.all()


def test_what_cannot_be_padded_is_refused() -> None:
    with pytest.raises(OffdynError, match="setting padded: expected false"):
        build("jetpack", "par", "paper", 0, {"padded": True})
