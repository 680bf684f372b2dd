"""Every learned part of every method moves on every backbone, and learns from the transitions it may see alone."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from offdyn.algos.backbones import BACKBONES
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import values
from offdyn.envs.toy import World
from offdyn.training.config import RunConfig
from offdyn.training.program import Lane, Programs

from ...probes import HALF_FLIPPED, first_lanes, learn, random_rows, short_run, small_spec, uniform_start

pytestmark = pytest.mark.trains

UPDATES = 60  # past every warm-up, and three times what the rarest part waits for
FIXED = {"learned.usual"}  # PAR's mean deviation is kept only where transitions are weighed


@cache
def transitions(role: str, seed: int) -> np.ndarray:
    return random_rows(HALF_FLIPPED, role, 200, seed)[None]


def small(method: str, backbone: str, **settings: Any) -> RunConfig:
    widths = {"critic_widths": (4,), "actor_widths": (4,)} if backbone == "simba" else {}
    return short_run(HALF_FLIPPED, method, backbone=backbone, **widths, **settings)


@cache
def programs_for(run: RunConfig) -> Programs:
    return Programs(run.recipe.method, run.task.spec, run.sac, run.hyper, run.schedule.learns_from, UPDATES)


def learned(run: RunConfig, source: int = 1, target: int = 2) -> Lane:
    rows = transitions("source", source), transitions("target", target)
    programs = programs_for(run)
    return learn(programs, first_lanes(programs, [run]), [run], *rows, calls=1)


def arrays(lane: Lane) -> dict[str, np.ndarray]:
    """What learns, by where it is: networks, temperatures and what a method has of its own; no optimiser's moments."""

    def agent(one: Any) -> dict[str, Any]:
        named = {"actor": one.actor.value, "critic": one.critic.value, "target critic": one.target_critic}
        return named | {"temperature": one.log_temperature.value}

    tree = {
        **agent(lane.agent),
        "others": [agent(other) for other in lane.others],
        "learned": jax.tree.map(
            lambda part: getattr(part, "value", part), lane.learned, is_leaf=lambda part: hasattr(part, "value")
        ),
    }
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    return {name: leaf for name, leaf in named.items() if np.issubdtype(leaf.dtype, np.floating) and leaf.size}


def pairs() -> Iterator[Any]:
    """Every method on every backbone; a compilation each, so that most are left to the long suite."""
    for method, backbone in product(METHODS, BACKBONES):
        quick = backbone == "simba" or method == "sac"
        yield pytest.param(method, backbone, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("method", "backbone"), list(pairs()))
def test_every_learned_part_moves(method: str, backbone: str) -> None:
    run = small(method, backbone)
    before, after = arrays(first_lanes(programs_for(run), [run])), arrays(learned(run))
    fixed = set(FIXED) if run.sac.tune_temperature else FIXED | {name for name in before if "temperature" in name}
    assert len(before) > 10
    assert {name for name in before if np.array_equal(before[name], after[name])} <= fixed
    assert all(np.isfinite(array).all() for array in after.values())


# What may not depend on the transitions of the other domain: the start of the names of its arrays.
ONLY_FROM = [
    ("par", {}, "learned", "target"),
    ("par-b", {}, "learned", "target"),
    ("vgdf", {}, "learned.ensemble", "target"),
    ("duo", {}, "others", "target"),
    ("q-avatar", {}, "learned.source", "source"),
    ("model-backup", {}, "learned.ensemble", "target"),
    ("sac", {"learns_from": "target"}, "", "target"),
    ("sac", {"learns_from": "source"}, "", "source"),
]


@pytest.mark.parametrize(("method", "settings", "part", "domain"), ONLY_FROM)
def test_a_part_of_one_domain_learns_nothing_from_the_other(method, settings, part, domain) -> None:
    run = small(method, "simba" if method in ("duo", "q-avatar") else "classic", **settings)
    one = arrays(learned(run))
    mine, other = ({"target": 5}, {"source": 5}) if domain == "target" else ({"source": 5}, {"target": 5})
    same, moved = arrays(learned(run, **other)), arrays(learned(run, **mine))
    names = [name for name in one if name.startswith(part)]
    assert len(names) >= 4
    for name in names:
        np.testing.assert_array_equal(one[name], same[name])
    assert not any(np.array_equal(one[name], moved[name]) for name in names if name not in FIXED | {"temperature"})


def _opposite(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state, np.where(shifted, -1.0, 1.0) * action[:, 0], np.ones(len(state), bool)


# One action ends it; it pays the action in the source and its opposite in the target.
OPPOSITE = World("opposite", small_spec(2, 1), uniform_start, _opposite)


@pytest.mark.parametrize(("domain_input", "slopes"), [("none", (0.0, 0.0)), ("flag", (1, -1)), ("embedding", (1, -1))])
def test_critics_that_are_told_the_domain_find_both_values_and_others_their_mean(domain_input, slopes) -> None:
    chosen = {"critic_widths": (32, 32), "batch_size": 64, "critic_learning_rate": 3e-3}
    run = short_run(OPPOSITE, "sac", domain_input=domain_input, **chosen)
    programs = Programs(run.recipe.method, run.task.spec, run.sac, run.hyper, run.schedule.learns_from, 100)
    rows = [random_rows(OPPOSITE, role, 400, 3)[None] for role in ("source", "target")]
    lane = learn(programs, first_lanes(programs, [run]), [run], *rows, calls=5)
    critics = jax.tree.map(lambda leaf: leaf[0], lane.agent.critic.value)
    state = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    for domain, slope in zip((1.0, 0.0), slopes, strict=True):
        low, high = (
            np.mean(values(critics, state, np.full((50, 1), action, np.float32), run.sac, run.spec, domain))
            for action in (-0.8, 0.8)
        )
        assert np.isclose((high - low) / 1.6, slope, atol=0.15)
