"""Tiny pairs of domains whose answers can be written down, and the means to learn in them within seconds."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from offdyn._util.types import Spec
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Sac
from offdyn.data.transition import pack
from offdyn.envs.pairs import open_bodies
from offdyn.envs.toy import World
from offdyn.training.config import RunConfig, build
from offdyn.training.program import Lane, Programs, lane_settings, run_keys


def never(next_observation: Any) -> Any:
    return next_observation[..., 0] != next_observation[..., 0]


def small_spec(observation_size: int = 3, action_size: int = 2, time_limit: int = 20) -> Spec:
    return Spec(observation_size, action_size, observation_size, time_limit, never)


def uniform_start(generator: np.random.Generator) -> np.ndarray:
    return generator.uniform(-1.0, 1.0, 2)


def one_step_reward(observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Best where the action is half the first coordinate; the second is worth what it is."""
    return observation[:, 1] - np.square(action[:, 0] - 0.5 * observation[:, 0])


def _one_step(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state, one_step_reward(state, action), np.ones(len(state), bool)


# Every episode is one action long, and Q(s, a) is the reward itself.
ONE_STEP = World("one-step", small_spec(2, 1), uniform_start, _one_step)


def _chain(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    last = state[:, 0] > 0.5
    reward = np.where(last, 1.0 - np.square(action[:, 0] - 0.5), 0.2 * action[:, 0])
    return np.where(last[:, None], state, 1.0), reward, last


# Two actions: the first pays 0.2 a and always leads on, the second pays 1 - (a - 0.5)^2 and ends it.
# With no entropy bonus: Q(second, a) = 1 - (a - 0.5)^2 and Q(first, a) = 0.2 a + discount * 1.
CHAIN = World("two-step chain", small_spec(2, 1), lambda generator: np.zeros(2), _chain)


def _endless(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state, np.ones(len(state)), np.zeros(len(state), bool)


# Pays 1 for ever; episodes are cut after two steps, which is no end: Q = 1 / (1 - discount) whatever is done.
ENDLESS = World("endless", small_spec(2, 1, time_limit=2), lambda generator: np.zeros(2), _endless)


def _push(state: np.ndarray, action: np.ndarray, flipped: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sign = np.where(flipped, -1.0, 1.0)[:, None]
    after = np.clip(state + 0.5 * sign * action, -1.5, 1.5)
    return after, -np.square(after).sum(1), np.zeros(len(state), bool)


# Actions push a point about. The same dynamics in both domains ...
SAME = World("same", small_spec(2, 2), uniform_start, lambda s, a, shifted: _push(s, a, np.zeros(len(s), bool)))
# ... and a target in which they push backwards wherever the first coordinate is positive.
HALF_FLIPPED = World(
    "half-flipped", small_spec(2, 2), uniform_start, lambda s, a, shifted: _push(s, a, shifted & (s[:, 0] > 0))
)


def far_start(generator: np.random.Generator) -> np.ndarray:
    return generator.normal((50.0, -3.0), (10.0, 0.1))


def _jitter(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state + (3.0, 0.05) * action, state[:, 0], np.zeros(len(state), bool)


# Observations far from zero and of unlike sizes: it shows wherever they are used without being normalised.
FAR = World("far", small_spec(2, 2, time_limit=5), far_start, _jitter)


def random_rows(world: World, role: str, bodies: int, seed: int, steps: int = 1) -> np.ndarray:
    """[bodies * steps, width]: packed rows of uniformly random actions, from fresh bodies of the world."""
    domain = open_bodies([(world, role)] * bodies, [(seed, body) for body in range(bodies)])
    generator = np.random.default_rng(seed)
    ids, size = np.arange(bodies), world.spec.action_size
    return np.concatenate([pack(domain.step(ids, generator.uniform(-1.0, 1.0, (bodies, size)))) for _ in range(steps)])


def first_lanes(programs: Programs, runs: Sequence[RunConfig]) -> Lane:
    """The runs before their first update."""
    keys = run_keys([run.seed for run in runs])
    return programs.init(keys, *lane_settings(runs))


def programs_of(runs: Sequence[RunConfig], updates: int) -> tuple[Programs, Lane]:
    """Compiled programs of some runs of one cohort, and their lanes."""
    run = runs[0]
    programs = Programs(run.recipe.method, run.task.spec, run.sac, run.hyper, run.schedule.learns_from, updates)
    return programs, first_lanes(programs, runs)


def learn(
    programs: Programs, lanes: Lane, runs: Sequence[RunConfig], source: np.ndarray, target: np.ndarray, calls: int
) -> Lane:
    """The lanes after `calls` times the programs' updates on fixed rows [lanes, n, width]."""
    keys, alive = run_keys([run.seed for run in runs]), np.ones(len(runs), bool)
    sizes = np.int32(source.shape[1]), np.int32(target.shape[1])
    for call in range(calls):
        lanes = programs.learn(keys, lanes, source, target, *sizes, np.int32(call * programs.updates), alive)
    return lanes


def tiny(method: str, width: int = 8) -> dict[str, Any]:
    """Settings of small networks for any method in the registry."""
    names = {field.name for part in (Sac, METHODS[method].hyper) for field in dataclasses.fields(part)}
    small: dict[str, Any] = {name: (width,) for name in names if name.endswith("_widths")}
    # A warm-up ends early, so that what follows it is tested too.
    other = {"code_size": width, "warm_up": 50, "weight_interval": 50}
    return small | {name: value for name, value in other.items() if name in names}


def short_run(
    world: World, method: str = "par", preset: str | None = None, seed: int = 0, **settings: Any
) -> RunConfig:
    """A run with tiny networks and batches, 4000 source steps long unless told."""
    brief = {"source_steps": 4000, "eval_interval": 4000, "log_interval": 4000, "checkpoint_interval": 4000}
    chosen = tiny(method) | brief | {"batch_size": 32, "learning_starts": 32} | settings
    preset = preset or ("paper" if "paper" in METHODS[method].presets else None)
    return build(world, method, preset, seed, chosen)[0]
