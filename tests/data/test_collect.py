"""Rows from policies: whole episodes in order, the same every time, none of them made of broken physics."""

import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.data.collect import episodes
from offdyn.data.collect.episodes import NOISE, bodies_for, play, uniform, without_unfinished
from offdyn.data.datasets import Dataset
from offdyn.envs import pairs
from offdyn.envs.toy import World

from ..probes import SAME, small_spec


def _age(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state is (how long this episode will be, how long it has been)."""
    after = state + np.array((0.0, 1.0))
    return after, np.where(shifted, -1.0, 1.0), after[:, 1] >= after[:, 0]


def _one_or_sixteen(generator: np.random.Generator) -> np.ndarray:
    return np.array([generator.choice((1.0, 16.0)), 0.0])


LIVES = World("lives", small_spec(2, 1, time_limit=50), _one_or_sixteen, _age)


@pytest.fixture
def many_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "ROWS_PER_BODY", 20)


def test_the_number_of_bodies_follows_from_the_rows_alone() -> None:
    assert [bodies_for(rows) for rows in (1, 4000, 40_000, 1_000_000, 5_000_000)] == [1, 1, 10, 50, 50]


@pytest.mark.usefixtures("many_bodies")
def test_episodes_are_whole_and_laid_one_after_another() -> None:
    dataset = play(LIVES, uniform(1), 500, (0,))
    assert len(dataset) >= 500
    for first, last in dataset.episodes():
        length = int(dataset.observation[first, 0])
        assert last - first == length
        np.testing.assert_array_equal(dataset.observation[first:last, 1], np.arange(length))
        np.testing.assert_array_equal(dataset.next_observation[first:last, 1], np.arange(length) + 1)
    assert dataset.terminated[-1]
    assert not dataset.truncated.any()
    assert (dataset.reward == 1.0).all(), "rows of a world are made in its source"


@pytest.mark.usefixtures("many_bodies")
def test_long_episodes_are_as_frequent_as_they_should_be() -> None:
    dataset = play(LIVES, uniform(1), 1000, (3,))
    lengths = np.diff(dataset.episodes(), axis=1)
    assert 0.4 < (lengths == 16).mean() < 0.6


def test_a_time_limit_is_a_cut_and_no_end() -> None:
    dataset = play(SAME, uniform(2), 50, (0,))
    assert len(dataset) == 60
    assert np.flatnonzero(dataset.truncated).tolist() == [19, 39, 59]
    assert not dataset.terminated.any()


@pytest.mark.usefixtures("many_bodies")
def test_rows_depend_on_the_seed_and_not_on_the_threads() -> None:
    hopper = pairs.find("hopper")
    assert bodies_for(400) == 20, "two threads have something to share"
    one, two, other = (
        play(hopper, uniform(3), 400, seed, threads=threads).rows()
        for seed, threads in (((0, 1), 1), ((0, 1), 2), ((0, 2), 2))
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one[:100], other[:100])


def test_actions_and_starts_draw_from_different_chances() -> None:
    seen: list[np.ndarray] = []

    def act(observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        seen.append(generator.uniform(-1.0, 1.0, 2))
        return np.zeros((len(observation), 2))

    dataset = play(SAME, act, 20, (0,))
    assert not np.array_equal(dataset.observation[0], seen[0].astype(np.float32))
    np.testing.assert_array_equal(seen[0], np.random.default_rng([0, NOISE]).uniform(-1.0, 1.0, 2))


def test_a_row_of_broken_physics_is_left_out_and_its_episode_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = pairs.open_bodies

    def breaking(*arguments):
        domain = opened(*arguments)
        whole, steps = domain.step, [0]

        def step(ids, actions):
            steps[0] += 1
            rows = whole(ids, actions)
            if steps[0] != 8:
                return rows
            domain.reset(ids)
            return rows._replace(reward=rows.reward * np.nan, diverged=np.ones(1, bool), truncated=np.ones(1, bool))

        monkeypatch.setattr(domain, "step", step)
        return domain

    monkeypatch.setattr(pairs, "open_bodies", breaking)
    dataset = play(SAME, uniform(2), 30, (0,))
    assert np.isfinite(dataset.rows()).all()
    assert np.diff(dataset.episodes(), axis=1).ravel().tolist() == [7, 20, 20]
    assert np.flatnonzero(dataset.truncated).tolist() == [6, 26, 46]


def test_a_policy_that_has_failed_is_refused() -> None:
    with pytest.raises(OffdynError, match="not finite"):
        play(SAME, lambda observation, generator: np.full((len(observation), 2), np.nan), 10, (0,))
    with pytest.raises(OffdynError, match=r"expected finite numbers of shape \(1, 2\), got shape \(1, 3\)"):
        play(SAME, uniform(3), 10, (0,))


def test_progress_is_told_in_rows() -> None:
    told: list[int] = []
    dataset = play(SAME, uniform(2), 40, (0,), advanced=told.append)
    assert told == list(range(1, len(dataset) + 1))


def test_the_unfinished_episode_at_the_end_can_be_cut() -> None:
    dataset = play(SAME, uniform(2), 60, (0,))
    assert len(without_unfinished(dataset[:59])) == 40
    assert len(without_unfinished(dataset[:60])) == 60
    assert len(without_unfinished(dataset[:7])) == 0
    assert isinstance(without_unfinished(dataset), Dataset)
