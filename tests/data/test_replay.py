"""Stored rows: what goes in comes out, sampled evenly, and normalised alike wherever observations are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from offdyn.data.replay import Moments, Replay, no_moments, unpack
from offdyn.data.transition import pack, row_width
from offdyn.envs.domain import Rows
from offdyn.policies.trained import Policy
from offdyn.training.cohort import Cohort
from offdyn.training.evaluation import write_policy
from offdyn.training.run_folder import RunFolder

from ..algos.core.in_numpy import flat
from ..algos.core.twin import Formulas
from ..probes import FAR, short_run, small_spec

SPEC = small_spec(observation_size=3, action_size=2)
LANES, TICKS, BODIES, KEPT = 2, 30, 10, 100


def some_rows(count: int) -> Rows:
    draw = np.random.default_rng(0)
    ends = draw.random((3, count)) < 0.3
    state, action, after = (draw.normal(size=(count, size)) for size in (3, 2, 3))
    return Rows(state, action, draw.normal(size=count), after, *ends)


def test_unpacked_rows_are_those_that_were_packed():
    rows = some_rows(20)
    packed = pack(rows)
    assert packed.shape == (20, row_width(SPEC))
    assert packed.dtype == np.float32
    batch = unpack(jnp.asarray(packed), SPEC)
    for name in ("observation", "action", "reward", "next_observation", "terminated"):
        np.testing.assert_allclose(getattr(batch, name), getattr(rows, name), rtol=1e-6)
    assert np.array_equal(batch.weight, np.ones(20))
    assert not np.array_equal(rows.terminated, rows.truncated)  # a time limit is not stored as an end


def test_sampling_covers_exactly_the_filled_part_evenly_and_keeps_rows_whole():
    capacity, filled, count = 64, 37, 37 * 500
    rows = jnp.tile(jnp.arange(capacity, dtype=jnp.float32)[:, None], (1, row_width(SPEC)))
    replay = Replay(rows, jnp.int32(filled), SPEC, None)
    batch = jax.jit(lambda key: replay.sample(key, count))(jax.random.key(4))
    for column in (batch.observation, batch.action, batch.next_observation, batch.terminated[:, None]):
        assert (np.asarray(column) == np.asarray(batch.reward)[:, None]).all()
    seen = np.bincount(np.asarray(batch.reward, int), minlength=capacity)
    assert seen[filled:].sum() == 0
    assert stats.chisquare(seen[:filled]).pvalue > 0.001


def weighted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of all rows and of the one of mean 0 and deviation 1 that moments begin with."""
    ones = np.ones((1, rows.shape[1]))
    everything, weights = np.vstack((-ones, ones, rows)), np.r_[0.5, 0.5, np.ones(len(rows))]
    mean = np.average(everything, axis=0, weights=weights)
    return mean, np.sqrt(np.average((everything - mean) ** 2, axis=0, weights=weights))


def test_running_moments_are_those_of_all_rows_however_they_arrived():
    rows = np.random.default_rng(3).normal((5.0, -2.0, 100.0), (1.0, 0.1, 20.0), (400, 3))
    moments: Moments = no_moments(SPEC)
    include = jax.jit(lambda m, new: m.include(new))
    for part in np.split(rows, (1, 3, 10, 11, 200)):
        moments = include(moments, part)
    mean, deviation = weighted(rows)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-4)
    np.testing.assert_allclose(moments.normalise(rows[:50]), (rows[:50] - mean) / deviation, rtol=2e-3, atol=2e-3)
    normalised = moments.normalise(rows)
    assert np.abs(np.asarray(normalised)[:, 2].mean()) < 0.03  # the first, made-up row weighs little by now


def test_before_the_first_row_nothing_is_normalised():
    rows = np.random.default_rng(3).normal(size=(5, 3))
    np.testing.assert_allclose(no_moments(SPEC).normalise(rows), rows, rtol=1e-6)


@pytest.fixture(scope="module")
def cohort():
    # A log-std this low leaves nothing random in an action: what acts is the mean policy.
    settings = {"normalise_observations": True, "log_std_low": -21.0, "log_std_high": -20.0, "learning_starts": 10}
    settings |= {"replay_size": KEPT, "penalty": 3.0, "actor_learning_rate": 0.01}
    cohort = Cohort([short_run(FAR, "par", seed=seed, **settings) for seed in range(LANES)], threads=1)
    for _ in range(TICKS):
        cohort.tick()
    assert cohort.updates > 100
    assert not cohort.failures
    return cohort


@pytest.fixture(scope="module")
def stored(cohort):
    """All rows by role; they can be taken once."""
    return {role: new.take()[0].copy() for role, new in cohort.new_rows.items()}


def test_a_full_ring_holds_the_newest_rows_and_a_young_one_all_of_them(cohort, stored):
    source, target = stored["source"], stored["target"]
    assert cohort.plan.capacities == (KEPT, KEPT)
    assert (source.shape[1], target.shape[1]) == (TICKS * BODIES, TICKS)
    order = np.argsort(np.arange(TICKS * BODIES)[-KEPT:] % KEPT)
    assert np.array_equal(cohort.learner.experience.source, source[:, -KEPT:][:, order])
    assert np.array_equal(cohort.learner.experience.target[:, :TICKS], target)
    assert not np.asarray(cohort.learner.experience.target[:, TICKS:]).any()


def test_stored_rewards_are_the_worlds_own_without_the_penalty(cohort):
    batch = unpack(cohort.learner.experience.source, FAR.spec)
    assert np.array_equal(batch.reward, batch.observation[..., 0])  # this world pays its first coordinate
    noted = dict(zip(cohort.learner.programs.metrics, np.asarray(cohort.learner.lanes.sums).T, strict=True))
    assert noted["reward penalty"].min() > 0


def test_a_cohorts_moments_are_those_of_all_rows_it_ever_stored(cohort, stored):
    rows = np.concatenate((stored["source"], stored["target"]), axis=1)[..., :2]
    for lane in range(LANES):
        mean, deviation = weighted(rows[lane].astype(float))
        moments = jax.tree.map(lambda leaf, lane=lane: leaf[lane], cohort.learner.lanes.moments)
        assert moments.rows == 1 + TICKS * (BODIES + 1)
        np.testing.assert_allclose(moments.mean, mean, rtol=1e-4)
        np.testing.assert_allclose(np.sqrt(moments.spread / moments.rows), deviation, rtol=1e-3)


def test_acting_sampling_and_the_exported_policy_normalise_alike(cohort, tmp_path):
    seen = np.random.default_rng(5).normal((50.0, -3.0), (10.0, 0.1), (LANES, BODIES, 2)).astype(np.float32)
    source, target, _ = cohort.learner.programs.act(
        cohort.learner.keys, cohort.learner.lanes, seen, seen[:, :1], np.int32(7), np.zeros(LANES, np.int32)
    )
    policies = cohort.policies()
    for lane, run in enumerate(cohort.runs):
        moments = jax.tree.map(lambda leaf, lane=lane: np.asarray(leaf[lane], float), cohort.learner.lanes.moments)
        normal = (seen[lane] - moments.mean) / np.sqrt(moments.spread / moments.rows)
        actor = flat(array[lane] for array in cohort.learner.lanes.agent.actor.value)
        expected, _ = Formulas(FAR.spec, run.sac).policy(actor, normal, np.zeros((BODIES, 2)))
        assert np.abs(expected).max() < 0.999  # not all saturated, so that a mistake would show
        for actions in (source[lane], policies(seen)[lane]):
            np.testing.assert_allclose(actions, expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(target[lane], expected[:1], rtol=1e-3, atol=1e-4)
        folder = RunFolder.begin(tmp_path / run.name, run)
        write_policy(folder, policies, lane)
        exported = Policy(folder.path / "policy.safetensors")
        np.testing.assert_allclose(exported(seen[lane]), expected, rtol=1e-3, atol=1e-4)

        stored = cohort.learner.experience.source[lane]
        replay = Replay(stored, jnp.int32(KEPT), FAR.spec, jax.tree.map(jnp.float32, moments))
        drawn, raw = replay.sample(jax.random.key(1), 50), replay._replace(moments=None).sample(jax.random.key(1), 50)
        for name in ("observation", "next_observation"):
            by_hand = (getattr(raw, name) - moments.mean) / np.sqrt(moments.spread / moments.rows)
            np.testing.assert_allclose(getattr(drawn, name), by_hand, rtol=1e-3, atol=1e-3)
        assert np.array_equal(drawn.reward, raw.reward)
