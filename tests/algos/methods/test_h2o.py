"""H2O: DARC-weight's weights on the squared errors, and the conservative term beside them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import Batch, Context
from offdyn.algos import sac as core
from offdyn.algos.common import conservative
from offdyn.algos.common.classifiers import Classifiers, Networks
from offdyn.algos.h2o import H2O, Hyper
from offdyn.algos.networks import Trained
from offdyn.algos.sac import Agent, Sac

from ...probes import HALF_FLIPPED, learn, programs_of, random_rows, short_run, small_spec
from ..core.in_numpy import Net, flat, flat_stack, slope
from ..core.twin import Formulas
from .test_conservative import log_sum_exp

SPEC = small_spec(observation_size=2, action_size=1)
SAC = Sac(actor_widths=(4,), critic_widths=(4, 3))
MATHS = Formulas(SPEC, SAC)
HYPER = Hyper(classifier_widths=(5,), warm_up=30, conservative_weight=4.0, sampled_actions=2)
CLASSIFIERS = Net((3, 5, 2)), Net((5, 5, 2))  # SA and SAS
ROWS = 6


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def batch(seed: int) -> Batch:
    columns = draw(seed, ROWS, 2), np.tanh(draw(seed + 1, ROWS, 1)), draw(seed + 2, ROWS), draw(seed + 3, ROWS, 2)
    return Batch(*columns, np.zeros(ROWS), np.ones(ROWS), np.zeros(ROWS))


SOURCE, TARGET = batch(10), batch(20)
ACTOR = draw(1, MATHS.actor.length)
CRITICS = draw(2, 2, MATHS.critic.length)
Y = draw(3, 2 * ROWS)


def context(hyper: Hyper, step: int) -> Context:
    """To be called in float64."""
    nets = Networks(*(net.parameters(draw(4 + i, net.length)) for i, net in enumerate(CLASSIFIERS)))
    agent = Agent(Trained(MATHS.actor.parameters(ACTOR), None), None, None, None)
    return Context(
        SPEC, agent, Classifiers(Trained(nets, None), None), SAC, hyper, jax.random.key(5), jnp.asarray(step)
    )


def numpys_weights(hyper: Hyper) -> np.ndarray:
    """clip(p_target(s'|s, a) / p_source(s'|s, a), low, high) from the classifier of (s, a, s')."""
    sas = CLASSIFIERS[1]
    inputs = np.hstack((SOURCE.observation, SOURCE.action, SOURCE.next_observation))
    source, target = 2 * np.tanh(sas.apply(draw(5, sas.length), inputs)).T  # the official code's bound
    return np.clip(np.exp(target - source), hyper.weight_low, hyper.weight_high)


def numpys_excess(critics: np.ndarray) -> np.ndarray:
    """[2, n], as a log sum of exponentials over two actions of each kind."""
    keys = jax.random.split(jax.random.key(5), 3)
    here, there = ([np.asarray(jax.random.normal(k, (ROWS, 1))) for k in jax.random.split(key, 2)] for key in keys[:2])
    uniform = np.asarray(jax.random.uniform(keys[2], (2, ROWS, 1), minval=-1.0, maxval=1.0))
    scored = [(action, np.log(0.5)) for action in uniform]
    scored += [MATHS.policy(ACTOR, SOURCE.observation, noise) for noise in here]
    scored += [MATHS.policy(ACTOR, SOURCE.next_observation, noise) for noise in there]
    scores = [np.stack(MATHS.values(critics, SOURCE.observation, action)) - density for action, density in scored]
    return log_sum_exp(np.stack(scores)) - np.stack(MATHS.values(critics, SOURCE.observation, SOURCE.action))


@pytest.mark.parametrize("weighed", [False, True])
def test_the_critics_loss_and_its_gradient_are_numpys(weighed):
    hyper = dataclasses.replace(HYPER, weigh_conservatism=weighed)
    with jax.enable_x64(True):
        ctx = context(hyper, step=30)

        def ours(critic: Any) -> Any:
            source, _ = H2O.correct(SOURCE, ctx)
            loss, _ = core.critic_loss(critic, core.join(source, TARGET), Y, SAC, SPEC)
            return H2O.critic_loss(loss, critic, source, ctx)

        value, gradient = jax.jit(jax.value_and_grad(ours))(MATHS.critic.parameters(CRITICS))
        assert (numpys_weights(hyper) < 1).any()
        assert np.ptp(numpys_weights(hyper)) > 0.1
        weight = numpys_weights(hyper)

        def numpys(critics: np.ndarray) -> np.ndarray:
            """Half of: weighted error in the source + error in the target + 4 times the term, for each critic."""
            total = 0.0
            for critic, excess in zip(critics, numpys_excess(critics), strict=True):
                source, target = (MATHS.values([critic], b.observation, b.action)[0] for b in (SOURCE, TARGET))
                total += np.mean(weight * (source - Y[:ROWS]) ** 2) + np.mean((target - Y[ROWS:]) ** 2)
                total += 4.0 * np.mean(weight * excess if weighed else excess)
            return total / 2

        np.testing.assert_allclose(value, numpys(CRITICS), rtol=1e-9)
        np.testing.assert_allclose(flat_stack(gradient), slope(numpys, CRITICS), rtol=1e-7, atol=1e-11)


def test_rows_weigh_alike_until_the_warm_up_ends_but_conservatism_does_not_wait():
    with jax.enable_x64(True):
        before, after = context(HYPER, step=29), context(HYPER, step=30)
        assert np.array_equal(H2O.correct(SOURCE, before)[0].weight, np.ones(ROWS))
        corrected, notes = H2O.correct(SOURCE, after)
        np.testing.assert_allclose(corrected.weight, numpys_weights(HYPER), rtol=1e-9)
        np.testing.assert_allclose(notes["mean weight of source transitions"], corrected.weight.mean())
        assert np.array_equal(corrected.reward, SOURCE.reward)
        critic = MATHS.critic.parameters(CRITICS)
        added = [float(H2O.critic_loss(0.0, critic, SOURCE, ctx)) for ctx in (before, after)]
        term = conservative.excess(critic, SOURCE, "logsumexp", before).mean(1).sum()
    assert added == pytest.approx([2.0 * float(term)] * 2)


def test_without_conservatism_it_is_darc_weight(trains):
    shared = {"warm_up": 20, "classifier_noise": 0.3, "classifier_batch": 16, "batch_size": 16}
    rows = [random_rows(HALF_FLIPPED, role, 200, seed=1)[None] for role in ("source", "target")]
    first = short_run(HALF_FLIPPED, "darc-weight", classifier_bound=2.0, **shared)
    both = [
        short_run(HALF_FLIPPED, "h2o", conservative_weight=weight, sampled_actions=2, **shared) for weight in (0.0, 1.0)
    ]

    def learned(runs: list[Any]) -> list[np.ndarray]:
        programs, lanes = programs_of(runs, updates=60)
        lanes = learn(programs, lanes, runs, *(np.repeat(r, len(runs), axis=0) for r in rows), calls=1)
        return [flat(array[lane] for array in lanes.agent.critic.value) for lane in range(len(runs))]

    (weighted,), (without, conservatively) = learned([first]), learned(both)
    np.testing.assert_allclose(without, weighted, rtol=1e-4, atol=1e-5)
    assert np.abs(conservatively - weighted).max() > 1e-3
