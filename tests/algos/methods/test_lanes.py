"""A run is the same alone and among others."""

import jax
import numpy as np
import pytest

from offdyn.algos.registry import METHODS

from ...probes import HALF_FLIPPED, first_lanes, learn, programs_of, random_rows, short_run

pytestmark = pytest.mark.trains

UPDATES = 200


def members(method: str) -> list:
    """Three runs with their own seeds, rates and, where the method has one, penalties; the last repeats a seed."""
    lanes = [(0, 1e-3, 0.5), (1, 3e-4, 2.0), (0, 1e-3, 1.0)]
    runs = []
    for seed, rate, penalty in lanes:
        own = {"penalty": penalty} if "penalty" in METHODS[method].hyper.__dataclass_fields__ else {}
        runs.append(short_run(HALF_FLIPPED, method, seed=seed, critic_learning_rate=rate, **own))
    return runs


def networks(lanes, lane: int) -> dict[str, np.ndarray]:
    """Every network of one lane as a vector; of what the method learns, all that is not a counter."""
    agent = lanes.agent
    parts = {"actor": agent.actor.value, "critic": agent.critic.value, "target critic": agent.target_critic}
    found = {}
    for name, tree in (parts | {"learned": lanes.learned}).items():
        leaves = [np.ravel(leaf[lane]) for leaf in jax.tree.leaves(tree) if np.issubdtype(leaf.dtype, np.floating)]
        if leaves:
            found[name] = np.concatenate(leaves).astype(float)
    return found


@pytest.fixture(scope="module", params=METHODS)
def cohort(request):
    runs = members(request.param)
    rows = [
        np.stack([random_rows(HALF_FLIPPED, role, 200, seed) for seed in (3, 4, 3)]) for role in ("source", "target")
    ]
    programs, before = programs_of(runs, updates=50)
    start = [networks(before, lane) for lane in range(3)]
    singles = [jax.tree.map(lambda leaf, lane=lane: leaf[lane : lane + 1], before) for lane in range(3)]
    together = learn(programs, before, runs, *rows, calls=UPDATES // 50)
    assert np.asarray(together.fault).max() == 0
    alone = []
    for lane, run in enumerate(runs):
        by_itself = learn(programs, singles[lane], [run], *(r[[lane]] for r in rows), calls=UPDATES // 50)
        alone.append(networks(by_itself, 0))
    penalised = hasattr(runs[0].hyper, "penalty")
    return start, [networks(together, lane) for lane in range(3)], alone, penalised


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def test_a_lane_in_a_cohort_matches_the_same_run_alone(cohort):
    start, together, alone, _ = cohort
    for lane in range(3):
        for name, network in alone[lane].items():
            assert distance(together[lane][name], network) < 1e-4, name
            assert distance(start[lane][name], network) > 1e-2, name  # it did learn


def test_lanes_with_other_seeds_differ_from_the_start(cohort):
    start, together, _, _ = cohort
    for name, network in start[0].items():
        assert distance(start[1][name], network) > 0.1
        assert distance(together[1][name], together[0][name]) > 0.1


def test_lanes_of_one_seed_and_rows_differ_by_their_penalty_alone(cohort):
    start, together, _, penalised = cohort
    for name, network in start[0].items():
        assert np.array_equal(start[2][name], network)
    assert (distance(together[2]["critic"], together[0]["critic"]) > 1e-3) == penalised


def test_a_run_starts_with_the_same_networks_alone_and_among_others():
    runs = members("sac")
    programs, together = programs_of(runs, updates=1)
    alone = networks(first_lanes(programs, runs[1:2]), 0)
    for name, network in networks(together, 1).items():
        np.testing.assert_allclose(network, alone[name], rtol=1e-6)
