"""The demo's toy environment by hand: what a jet does in the source, and what a broken one does in the target."""

from pathlib import Path

import numpy as np
import pytest

from offdyn.envs import pairs
from offdyn.envs.jetpack import CAMP, EDGE, FLIGHT, HEIGHT, JETPACK, SIGHT, STRIDE, advance
from offdyn.envs.toy import WorldBodies
from offdyn.training.config import build
from offdyn.training.run_folder import from_yaml, to_yaml

HELD, FIRED = -0.5, 0.5
SOURCE, TARGET = np.array([False]), np.array([True])


def step(
    place: tuple[float, float], action: tuple[float, float, float], shifted: np.ndarray
) -> tuple[np.ndarray, float]:
    """(next state, reward) of one walker on the ground."""
    state, reward, terminated = advance(np.array([[*place, 0.0]]), np.array([action]), shifted)
    assert not terminated.any()
    return state[0], float(reward[0])


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_walking_is_the_same_in_both_domains(shifted: np.ndarray) -> None:
    state, _ = step((-1.0, 0.5), (1.0, -0.5, HELD), shifted)
    np.testing.assert_allclose(state, [-1.0 + STRIDE, 0.5 - 0.5 * STRIDE, 0.0])


def test_the_jet_is_a_shortcut_in_the_source_alone() -> None:
    flown, _ = step((-1.0, 0.5), (1.0, -0.5, FIRED), SOURCE)
    np.testing.assert_allclose(flown, [-1.0 + FLIGHT * STRIDE, 0.5 - 0.5 * FLIGHT * STRIDE, HEIGHT])
    stayed, _ = step((-1.0, 0.5), (1.0, -0.5, FIRED), TARGET)
    np.testing.assert_allclose(stayed, [-1.0, 0.5, 0.0])
    assert FLIGHT > 2  # over rows of which half come from each domain, firing still looks faster than walking


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_who_stops_firing_is_on_the_ground_again(shifted: np.ndarray) -> None:
    state, _, _ = advance(np.array([[0.0, 0.0, HEIGHT]]), np.array([[0.0, 1.0, HELD]]), shifted)
    np.testing.assert_allclose(state, [[0.0, STRIDE, 0.0]])


def test_nobody_leaves_the_map() -> None:
    corner, _ = step((EDGE - 0.1, 0.1 - EDGE), (1.0, -1.0, FIRED), SOURCE)
    np.testing.assert_allclose(corner, [EDGE, -EDGE, HEIGHT])


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_the_reward_depends_on_the_distance_to_the_camp_alone(shifted: np.ndarray) -> None:
    still = (0.0, 0.0, HELD)
    assert step((CAMP[0], CAMP[1]), still, shifted)[1] == pytest.approx(1.0)
    assert step((CAMP[0] - SIGHT, CAMP[1]), still, shifted)[1] == pytest.approx(np.exp(-0.5))
    assert step((CAMP[0], CAMP[1]), (0.0, 0.0, FIRED), shifted)[1] == pytest.approx(1.0)


def test_a_walker_reaches_the_camp_in_the_target_and_a_flyer_does_not() -> None:
    def episode(jet: float, shifted: bool) -> float:
        bodies = WorldBodies(JETPACK, [shifted], [(0, 0)])
        total = 0.0
        for _ in range(JETPACK.spec.time_limit):
            reach = STRIDE if jet < 0 else FLIGHT * STRIDE
            towards = np.clip((CAMP - bodies.observation[:, :2]) / reach, -1, 1)
            total += float(bodies.step(np.array([0]), np.column_stack((towards, [[jet]]))).reward[0])
        return total

    assert episode(HELD, True) > 10
    assert episode(FIRED, True) < 1
    assert episode(FIRED, False) > episode(HELD, False)


def test_the_world_is_known_by_name_and_its_runs_read_back(tmp_path: Path) -> None:
    assert pairs.find("jetpack") is JETPACK
    run = build("jetpack", "par", seed=3)[0]
    assert from_yaml(to_yaml(run), tmp_path) == run
