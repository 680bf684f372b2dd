"""VGDF's filter against NumPy and where the right rows are known, and which of its two policies acts where."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import Batch, Context, Spec
from offdyn.algos import sac as core
from offdyn.algos import vgdf
from offdyn.algos.common import ensemble
from offdyn.algos.common.ensemble import Ensemble
from offdyn.algos.common.scaling import Scale
from offdyn.algos.networks import Trained
from offdyn.algos.sac import Agent, Sac
from offdyn.algos.vgdf import COMPARED, IMAGINED, VGDF, Hyper, Learned
from offdyn.data.replay import Moments, Replay, unpack
from offdyn.training.cohort import Cohort
from offdyn.training.config import build

from ...probes import HALF_FLIPPED, random_rows, short_run
from ..core.in_numpy import flat, flat_stack, least
from ..core.twin import Formulas
from .test_ensemble import draw, members, prediction, trained


def falls(next_observation: Any) -> Any:
    return next_observation[..., 0] > 0.5


SPEC = Spec(2, 1, 2, 20, falls)
SAC = Sac(actor_widths=(6,), critic_widths=(5,), discount=0.9)
SMALL = Hyper(members=3, ensemble_widths=(5, 4), optimist_widths=(7,), warm_up=0)
SCALE = Scale(np.array([0.2, -0.3, 0.1]), np.array([1.5, 0.7, 0.9]))
MOMENTS = Moments(np.array(10.0), np.array([0.7, 1.0]), np.array([2.5, 90.0]))  # deviations 0.5 and 3
ROWS = 24


def source_rows() -> Batch:
    ended = (np.arange(ROWS) % 5 == 0).astype(float)
    return Batch(draw(1, ROWS, 2), np.tanh(draw(2, ROWS, 1)), draw(3, ROWS), draw(4, ROWS, 2), ended, np.ones(ROWS))


def agent() -> Agent:
    """With target critics of their own, and values large enough to matter."""
    made = core.init(jax.random.key(1), SAC, SPEC)
    other = core.init(jax.random.key(2), SAC, SPEC).critic.value
    return made._replace(target_critic=tuple(3.0 * array for array in other))


def context(hyper: Hyper = SMALL, moments: Moments | None = None, step: int = 10, **parts: Any) -> Context:
    optimist = vgdf.init(jax.random.key(4), hyper, SPEC).optimist
    learned = Learned(Ensemble(Trained(members()[1], None), SCALE), optimist)
    ctx = Context(SPEC, agent(), learned, SAC, hyper, jax.random.key(5), jnp.asarray(step), moments)
    return ctx._replace(**parts)


def values_in_numpy(rows: Batch, ctx: Context) -> tuple[np.ndarray, np.ndarray]:
    """The imagined values [members, n] and the rows' own, from the formulas; random draws alone are JAX's."""
    hyper, maths, n = ctx.hyper, Formulas(SPEC, SAC), len(rows.reward)
    actor, targets = flat(ctx.agent.actor.value), flat_stack(ctx.agent.target_critic)
    outcome_key, action_key = jax.random.split(ctx.key)
    drawn = np.asarray(jax.random.normal(outcome_key, (3, n, 3)), float)
    sampled = hyper.compared == "next value"
    action_noise = np.asarray(jax.random.normal(action_key, ((4 if sampled else 1) * n, 1)), float)

    def value(states: np.ndarray, noise: np.ndarray, ended: np.ndarray) -> np.ndarray:
        action, _ = maths.policy(actor, states, noise)
        return np.where(ended, 0.0, least(maths.values(targets, states, action)))

    imagined = []
    for k, member in enumerate(members()[0]):
        inputs = (np.hstack((rows.observation, rows.action)) - SCALE.mean) / SCALE.deviation
        mean, log_variance = prediction(member, inputs)
        added = {"mean": 0.0, "mean plus variance": np.exp(log_variance)}
        added["sample"] = np.exp(log_variance / 2) * drawn[k]
        outcome = mean + added[hyper.imagined]
        after = rows.observation + outcome[:, 1:]
        raw = after if ctx.moments is None else after * (0.5, 3.0) + (0.7, 1.0)
        noise = action_noise[k * n : (k + 1) * n] if sampled else np.zeros((n, 1))
        ahead = value(after, noise, raw[:, 0] > 0.5)
        imagined.append(ahead if sampled else outcome[:, 0] + 0.9 * ahead)
    own = value(rows.next_observation, action_noise[-n:], rows.terminated > 0.5)
    return np.array(imagined), own if sampled else rows.reward + 0.9 * own


@pytest.mark.parametrize("moments", [None, MOMENTS], ids=["raw", "normalised"])
@pytest.mark.parametrize("compared", COMPARED)
@pytest.mark.parametrize("imagined", IMAGINED)
def test_imagined_values_their_likelihood_and_the_filter_are_numpys(imagined, compared, moments):
    hyper = dataclasses.replace(SMALL, imagined=imagined, compared=compared)
    ctx, rows = context(hyper, moments), source_rows()
    expected, own = values_in_numpy(rows, ctx)
    outcome_key, action_key = jax.random.split(ctx.key)
    found = vgdf.compare(rows, jax.random.normal(outcome_key, (3, ROWS, 3)), ctx._replace(key=action_key))
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1], own, rtol=1e-3, atol=1e-4)
    deviation = expected.std(0, ddof=1) + 1e-8
    likelihood = -(((own - expected.mean(0)) / deviation) ** 2) / 2 - np.log(deviation * np.sqrt(2 * np.pi))
    plain = deviation > 1e-3  # elsewhere all members see an end, and float32 cannot say how unlikely
    np.testing.assert_allclose(vgdf.log_likelihood(*found)[0][plain], likelihood[plain], rtol=1e-2, atol=1e-2)
    corrected, notes = VGDF.correct(rows, ctx)
    kept = likelihood > np.quantile(likelihood, 0.75)
    assert kept.sum() == ROWS / 4
    assert np.array_equal(corrected.weight, kept)
    assert np.isclose(notes["mean weight of source transitions"], 0.25)
    assert np.isclose(notes["least log likelihood kept"], np.quantile(likelihood, 0.75), rtol=1e-2)
    assert np.isclose(notes["std of imagined values"], deviation.mean(), rtol=1e-3)
    assert all(getattr(corrected, name) is getattr(rows, name) for name in Batch._fields if name != "weight")


def test_an_end_is_judged_by_raw_observations():
    seen: list[np.ndarray] = []
    spec = SPEC._replace(is_terminal=lambda after: seen.append(np.asarray(after)) or falls(after))
    normalised = np.array([[[-1.0, 0.0], [0.0, 0.0]]])  # first coordinates 0.2 and 0.7, of which 0.5 is the bound
    assert np.array_equal(ensemble.goes_on(normalised, context(moments=MOMENTS, spec=spec)), [[True, False]])
    np.testing.assert_allclose(seen[0], [[[0.2, 1.0], [0.7, 1.0]]])
    assert np.array_equal(ensemble.goes_on(normalised, context(spec=spec)), [[True, True]])
    assert np.array_equal(ensemble.goes_on(np.array([[np.nan, 0.0], [0.0, np.inf]]), context()), [False, False])


@pytest.mark.parametrize(("share", "rows"), [(0.25, 6), (0.5, 12), (1.0, 24), (1e-6, 1)])
def test_the_share_that_is_kept(share, rows):
    corrected, notes = VGDF.correct(source_rows(), context(dataclasses.replace(SMALL, kept_share=share)))
    assert corrected.weight.sum() == rows
    assert np.isclose(notes["mean weight of source transitions"], rows / ROWS)


def test_a_control_counts_as_much_in_all_and_not_the_rows_that_are_likely():
    def weights(shuffled: float, averaged: float) -> np.ndarray:
        hyper = dataclasses.replace(SMALL, weight_shuffled=shuffled, weight_averaged=averaged)
        return np.asarray(VGDF.correct(source_rows(), context(hyper))[0].weight)

    own, shuffled, averaged = weights(0, 0), weights(1, 0), weights(0, 1)
    assert own.sum() == shuffled.sum() == ROWS / 4
    assert set(shuffled) == {0.0, 1.0}
    assert abs(np.corrcoef(shuffled, own)[0, 1]) < 0.5
    np.testing.assert_allclose(averaged, 0.25, rtol=1e-6)
    np.testing.assert_allclose(weights(0.2, 0.3), 0.5 * own + 0.2 * shuffled + 0.3 * averaged, rtol=1e-6)


def test_likelihoods_too_small_for_a_density_are_still_ranked():
    """Both densities are 0 in float32, and in float64."""
    likelihood, _ = vgdf.log_likelihood(jnp.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]), jnp.array([1e4, 2e4]))
    assert np.isfinite(likelihood).all()
    assert likelihood[0] > likelihood[1]


def test_every_row_is_kept_until_the_warm_up_is_over():
    hyper = dataclasses.replace(SMALL, warm_up=10)
    for step, weight in ((0, 1.0), (9, 1.0), (10, 0.25)):
        corrected, notes = VGDF.correct(source_rows(), context(hyper, step=step))
        assert corrected.weight.mean() == notes["mean weight of source transitions"] == weight


PROBED = Sac(actor_widths=(4,), critic_widths=(1,))
PROBING = Hyper(members=5, ensemble_widths=(64, 64), ensemble_batch=64, ensemble_interval=2, warm_up=0)


@pytest.fixture(scope="module")
def probe(trains):
    """An ensemble that knows a target in which actions push backwards in the right half, and there alone.

    The critics are set by hand: Q = 50 + s0 + s1 / 2, which the push changes, whatever is done next.
    """
    rows = jnp.asarray(random_rows(HALF_FLIPPED, "target", 2000, seed=2))
    spec = HALF_FLIPPED.spec
    model = trained(Replay(rows, jnp.asarray(2000), spec, None), PROBING, 4000)
    slopes = jnp.array([[1.0], [0.5], [0.0], [0.0]])
    critic = tuple(jnp.stack([x, x]) for x in (slopes, jnp.array([50.0]), jnp.ones((1, 1)), jnp.zeros(1)))
    agent = core.init(jax.random.key(0), PROBED, spec)._replace(target_critic=critic)
    return Context(spec, agent, Learned(model, None), PROBED, PROBING, jax.random.key(0), jnp.asarray(0))


def kept(ctx: Context, role: str) -> tuple[Batch, np.ndarray]:
    """Rows that nobody trained on, and which of them are kept."""
    rows = unpack(jnp.asarray(random_rows(HALF_FLIPPED, role, 2000, seed=9)), HALF_FLIPPED.spec)
    return rows, np.asarray(VGDF.correct(rows, ctx)[0].weight) > 0


def test_the_rows_that_are_kept_follow_the_targets_dynamics(probe):
    """A coin would keep as many rows of one half as of the other."""
    rows, keeps = kept(probe, "source")
    alike = np.asarray(rows.observation[:, 0] <= 0)
    assert 0.45 < alike.mean() < 0.55
    assert alike[keeps].mean() > 0.95
    # Of the other half only rows are kept that the backward push makes no better or worse: on average it is by 0.6.
    worth = np.abs(np.asarray(rows.action) @ (1.0, 0.5))
    assert worth[keeps & ~alike].max(initial=0.0) < 0.1
    # The doing of the dynamics, not of the half: of the target's own rows, those of both halves are kept.
    rows, keeps = kept(probe, "target")
    assert 0.25 < np.mean(np.asarray(rows.observation[:, 0] <= 0)[keeps]) < 0.75


def test_the_optimists_loss_takes_the_larger_critic():
    ctx, states = context(), draw(6, 30, 2)
    key, optimist = jax.random.key(3), ctx.learned.optimist.value
    maths = Formulas(SPEC, dataclasses.replace(SAC, actor_widths=(7,)))
    noise = np.asarray(jax.random.normal(key, (30, 1)), float)
    action, log_pi = maths.policy(flat(optimist), states, noise)
    one, two = maths.values(flat_stack(ctx.agent.critic.value), states, action)
    larger, smaller = ((0.2 * log_pi - pick(one, two)).mean() for pick in (np.maximum, np.minimum))
    assert not np.isclose(larger, smaller, rtol=1e-2)
    np.testing.assert_allclose(vgdf.optimist_loss(optimist, states, key, ctx), larger, rtol=1e-4)


def test_the_optimist_learns_from_both_domains_as_often_as_the_actor():
    target = Replay(jnp.asarray(draw(1, 40, 7), jnp.float32), jnp.asarray(40), SPEC, None)
    elsewhere = target._replace(packed=target.packed + 1.0)

    def after(source: Replay, target: Replay, step: int) -> np.ndarray:
        ctx = context(step=step, sac=dataclasses.replace(SAC, actor_interval=2, batch_size=4))
        moved, note = jax.jit(
            lambda rows, step: vgdf.learn_optimism(
                ctx.learned.optimist,
                source._replace(packed=rows[0]),
                target._replace(packed=rows[1]),
                ctx._replace(step=step),
            )
        )((source.packed, target.packed), ctx.step)
        assert (note != 0) == (step % 2 == 0)
        return flat(moved.adam.mu) if step % 2 == 0 else flat(moved.value) - flat(ctx.learned.optimist.value)

    assert not after(target, target, 1).any()
    both = after(target, target, 2)
    assert not np.allclose(after(elsewhere, target, 2), both)
    assert not np.allclose(after(target, elsewhere, 2), both)


def actions(cohort: Cohort) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is done in the source, in the target and in a test."""
    states = np.ones((1, 1, 2), np.float32)
    source, target, _ = cohort.learner.programs.act(
        cohort.learner.keys, cohort.learner.lanes, states, states, np.int32(0), np.zeros(1, np.int32)
    )
    return np.asarray(source), np.asarray(target), cohort.policies()(states)


def saying(policy: Trained, mean: float) -> Trained:
    """The policy that always wants this, with next to no noise."""
    *rest, bias = (jnp.zeros_like(array) for array in policy.value)
    return policy._replace(value=(*rest, jnp.broadcast_to(jnp.array([mean, mean, -10.0, -10.0]), bias.shape)))


def test_the_ensembles_error_is_in_units_of_the_target_rows_own_deviation():
    stored = Replay(jnp.asarray(draw(1, 40, 7), jnp.float32), jnp.asarray(30), SPEC, None)
    rows, ctx = source_rows(), context()
    none = rows._replace(weight=jnp.zeros(ROWS))
    seen = VGDF.diagnose(stored, stored, rows, none, ctx)
    inputs = (np.hstack((rows.observation, rows.action)) - SCALE.mean) / SCALE.deviation
    mean = np.mean([prediction(member, inputs)[0] for member in members()[0]], axis=0)
    filled = np.asarray(stored.packed[:30], float)
    unit = (filled[:, 4:6] - filled[:, :2]).std(0)
    off = (mean[:, 1:] - (rows.next_observation - rows.observation)) / unit
    assert np.isclose(seen["ensemble error on fresh target transitions"], np.sqrt(np.square(off).mean()), rtol=1e-4)
    assert np.isfinite(seen["ensemble log likelihood on fresh target transitions"])
    assert np.isnan(seen["ensemble error on held-out target transitions"])
    assert np.isnan(seen["ensemble log likelihood on held-out target transitions"])


@pytest.mark.parametrize("optimistic", [True, False])
def test_the_optimist_acts_in_the_source_alone(optimistic):
    cohort = Cohort([short_run(HALF_FLIPPED, "vgdf", optimistic=optimistic)])
    agent, learned = cohort.learner.lanes.agent, cohort.learner.lanes.learned
    assert (learned.optimist is not None) == optimistic
    if optimistic:
        learned = learned._replace(optimist=saying(learned.optimist, 1.0))
    agent = agent._replace(actor=saying(agent.actor, -1.0))
    cohort.learner.lanes = cohort.learner.lanes._replace(agent=agent, learned=learned)
    source, target, test = actions(cohort)
    np.testing.assert_allclose(source, np.tanh(1.0 if optimistic else -1.0), atol=1e-3)
    np.testing.assert_allclose(target, np.tanh(-1.0), atol=1e-3)
    np.testing.assert_allclose(test, np.tanh(-1.0), atol=1e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kept_share", 0.0),
        ("kept_share", 1.5),
        ("weight_shuffled", 1.5),
        ("weight_averaged", -0.1),
        ("members", 1),
        ("imagined", "x"),
        ("compared", "x"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name, value):
    with pytest.raises(OffdynError, match=f"setting {name}: expected"):
        build("hopper-broken-joints", "vgdf", settings={name: value})
