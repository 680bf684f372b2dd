"""The model's outcomes against NumPy, and where the right ones are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import Batch, Context, Spec
from offdyn.algos import model_backup
from offdyn.algos.common.ensemble import Ensemble
from offdyn.algos.common.scaling import Scale
from offdyn.algos.model_backup import Hyper, Learned
from offdyn.algos.networks import Trained
from offdyn.data.replay import unpack

from ...probes import HALF_FLIPPED, learn, programs_of, random_rows, short_run
from .test_ensemble import draw, members, prediction


def falls(next_observation: Any) -> Any:
    return next_observation[..., 0] > -0.5


SPEC = Spec(2, 1, 2, 20, falls)
SMALL = Hyper(members=3, ensemble_widths=(5, 4), warm_up=0)
SCALE = Scale(np.array([0.2, -0.3, 0.1]), np.array([1.5, 0.7, 0.9]))
ROWS = 24


def rows() -> Batch:
    ended = (np.arange(ROWS) % 5 == 0).astype(float)
    ones = np.ones(ROWS)
    return Batch(draw(1, ROWS, 2), np.tanh(draw(2, ROWS, 1)), draw(3, ROWS), draw(4, ROWS, 2), ended, 0.5 * ones, ones)


def context(step: int = 0, usual: float = 2.0, hyper: Hyper = SMALL) -> Context:
    learned = Learned(Ensemble(Trained(members()[1], None), SCALE), jnp.asarray(usual))
    return Context(SPEC, None, learned, None, hyper, jax.random.key(5), jnp.asarray(step))


def test_outcomes_ends_and_weights_are_numpys() -> None:
    source, ctx = rows(), context()
    found, metrics = model_backup.correct(source, ctx)
    inputs = (np.hstack((source.observation, source.action)) - SCALE.mean) / SCALE.deviation
    means, log_variances = (np.stack(part) for part in zip(*(prediction(m, inputs) for m in members()[0]), strict=True))
    member_key, noise_key = jax.random.split(ctx.key)
    member = np.asarray(jax.random.randint(member_key, (ROWS,), 0, 3))
    noise = np.asarray(jax.random.normal(noise_key, (ROWS, 3)), float)
    at = member, np.arange(ROWS)
    outcome = means[at] + np.sqrt(np.exp(log_variances[at])) * noise
    np.testing.assert_allclose(found.reward, outcome[:, 0], rtol=1e-4, atol=1e-5)
    after = source.observation + outcome[:, 1:]
    np.testing.assert_allclose(found.next_observation, after, rtol=1e-4, atol=1e-5)
    ended = (source.terminated > 0) | (after[:, 0] > -0.5)
    np.testing.assert_array_equal(found.terminated, ended)
    assert ended.sum() > source.terminated.sum()
    apart = (means.var(0) / np.exp(log_variances).mean(0)).mean(1)
    weight = np.minimum(1, 2.0 / apart)
    np.testing.assert_allclose(found.weight, 0.5 * weight, rtol=1e-4)
    assert 0.05 < (weight < 1).mean() < 1.0
    assert metrics["mean weight of source transitions"] == pytest.approx(weight.mean(), rel=1e-4)
    np.testing.assert_array_equal(found.observation, source.observation)
    np.testing.assert_array_equal(found.action, source.action)


def test_no_source_transition_counts_before_the_warm_up_ends() -> None:
    hyper = Hyper(members=3, ensemble_widths=(5, 4), warm_up=10)
    assert not model_backup.correct(rows(), context(9, hyper=hyper))[0].weight.any()
    assert model_backup.correct(rows(), context(10, hyper=hyper))[0].weight.all()


@pytest.fixture(scope="module")
def course(trains: None) -> Any:
    """Trained where actions push backwards on half of the plane of the target."""
    chosen = {"ensemble_widths": (64,), "ensemble_learning_rate": 3e-3, "ensemble_interval": 1, "ensemble_batch": 64}
    run = short_run(HALF_FLIPPED, "model-backup", backbone="classic", members=3, warm_up=0, **chosen)
    source, target = (random_rows(HALF_FLIPPED, role, 600, seed)[None] for role, seed in (("source", 1), ("target", 2)))
    programs, lanes = programs_of([run], updates=400)
    lanes = learn(programs, lanes, [run], source, target, calls=3)
    return run, jax.tree.map(lambda leaf: leaf[0], lanes)


def test_source_transitions_lead_where_the_target_would_have_led(course: Any) -> None:
    run, lane = course
    packed = random_rows(HALF_FLIPPED, "source", 1000, 7)
    source = Batch(*map(np.asarray, unpack(packed, HALF_FLIPPED.spec, 1.0)))
    ctx = Context(run.spec, None, lane.learned, run.sac, run.hyper, jax.random.key(3), jnp.asarray(10))
    found, _ = model_backup.correct(source, ctx)
    flipped = source.observation[:, 0] > 0
    right = np.clip(source.observation + 0.5 * np.where(flipped, -1, 1)[:, None] * source.action, -1.5, 1.5)
    off, was = (np.abs(after - right).mean(1)[flipped] for after in (found.next_observation, source.next_observation))
    assert off.mean() < 0.35 * was.mean()
    pays = -np.square(right).sum(1)
    assert np.abs(found.reward - pays)[flipped].mean() < 0.5 * np.abs(source.reward - pays)[flipped].mean()
    assert found.weight.mean() > 0.5


def test_transitions_far_from_any_of_the_target_count_less(course: Any) -> None:
    run, lane = course
    source = Batch(*map(np.asarray, unpack(random_rows(HALF_FLIPPED, "source", 500, 7), HALF_FLIPPED.spec, 1.0)))
    ctx = Context(run.spec, None, lane.learned, run.sac, run.hyper, jax.random.key(3), jnp.asarray(10))
    near, _ = model_backup.correct(source, ctx)
    far, _ = model_backup.correct(source._replace(observation=source.observation + 6.0), ctx)
    assert far.weight.mean() < 0.5 * near.weight.mean()


def test_the_usual_disagreement_follows_that_on_target_transitions(course: Any) -> None:
    run, lane = course
    target = Batch(*map(np.asarray, unpack(random_rows(HALF_FLIPPED, "target", 500, 2), HALF_FLIPPED.spec)))
    ctx = Context(run.spec, None, lane.learned, run.sac, run.hyper, jax.random.key(3), jnp.asarray(10))
    now = model_backup.disagreement(model_backup.expect(lane.learned, target, ctx), run.spec).mean()
    assert 0.3 * now < lane.learned.usual < 3 * now
