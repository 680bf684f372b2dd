"""The conservative term: both forms and their gradients against NumPy, its scale, and what it does to values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import Batch, Context
from offdyn.algos import cql, cql_sac
from offdyn.algos import sac as core
from offdyn.algos.common import conservative
from offdyn.algos.common.conservative import FORMS
from offdyn.algos.networks import Trained
from offdyn.algos.sac import Agent, Sac
from offdyn.training.config import build

from ...probes import ONE_STEP, SAME, learn, programs_of, random_rows, short_run, small_spec
from ..core.in_numpy import flat_stack, slope
from ..core.twin import Formulas

SPEC = small_spec(observation_size=3, action_size=2)
SAC = Sac(actor_widths=(4, 3), critic_widths=(4, 3), critic_layer_norm=True)
MATHS = Formulas(SPEC, SAC)
ROWS, DRAWN = 5, 3
every_form = pytest.mark.parametrize("form", FORMS)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def batch() -> Batch:
    columns = draw(1, ROWS, 3), np.tanh(draw(2, ROWS, 2)), draw(3, ROWS), draw(4, ROWS, 3)
    return Batch(*columns, np.zeros(ROWS), np.linspace(0.2, 1.0, ROWS), np.ones(ROWS))


ACTOR = draw(5, MATHS.actor.length)
CRITICS = draw(6, 2, MATHS.critic.length)


def context(hyper: Any) -> Context:
    """To be called in float64, as are the draws below."""
    agent = Agent(Trained(MATHS.actor.parameters(ACTOR), None), None, None, None)
    return Context(SPEC, agent, None, SAC, hyper, jax.random.key(8), jnp.zeros((), int))


def draws() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The noise of the policy's actions here and at the next state, and the uniform actions: [DRAWN, ROWS, A] each."""
    here, after, uniform = jax.random.split(jax.random.key(8), 3)
    noise = [np.stack([jax.random.normal(k, (ROWS, 2)) for k in jax.random.split(key, DRAWN)]) for key in (here, after)]
    return *noise, np.asarray(jax.random.uniform(uniform, (DRAWN, ROWS, 2), minval=-1.0, maxval=1.0))


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Over the first axis; shifted by real parts, so that an imaginary step passes."""
    most = x.real.max(0)
    return most + np.log(np.exp(x - most).sum(0))


def numpys_excess(critics: np.ndarray, form: str, noises: Any) -> np.ndarray:
    """[2, n]"""
    rows, (here_noise, next_noise, uniform) = batch(), noises
    here = [MATHS.policy(ACTOR, rows.observation, noise) for noise in here_noise]
    there = [MATHS.policy(ACTOR, rows.next_observation, noise) for noise in next_noise]
    if form == "expectation":
        scored = [(action, 0.0) for action, _ in here]
    else:
        scored = [(action, np.log(0.5**2)) for action in uniform] + here + there
    own = np.stack(MATHS.values(critics, rows.observation, rows.action))
    scores = np.stack(
        [np.stack(MATHS.values(critics, rows.observation, action)) - density for action, density in scored]
    )
    return (scores.mean(0) if form == "expectation" else log_sum_exp(scores)) - own


@every_form
def test_the_term_and_its_gradient_are_numpys(form):
    hyper = cql.Hyper(conservative_weight=3.0, conservatism=form, sampled_actions=DRAWN)
    weight = batch().weight
    with jax.enable_x64(True):
        ctx, noises = context(hyper), draws()
        excess = jax.jit(lambda critic: conservative.excess(critic, batch(), form, ctx))
        ours = jax.jit(jax.value_and_grad(lambda critic: conservative.add(7.0, critic, batch(), 0.5, ctx)))
        critic = MATHS.critic.parameters(CRITICS)
        rows, (value, gradient) = excess(critic), ours(critic)

    def numpys(critics: np.ndarray) -> np.ndarray:
        one, two = numpys_excess(critics, form, noises)
        return 7.0 + 0.5 * 3.0 * ((weight * one).sum() / ROWS + (weight * two).sum() / ROWS)

    np.testing.assert_allclose(rows, numpys_excess(CRITICS, form, noises), rtol=1e-9)
    np.testing.assert_allclose(value, numpys(CRITICS), rtol=1e-9)
    np.testing.assert_allclose(flat_stack(gradient), slope(numpys, CRITICS), rtol=1e-7, atol=1e-11)


def whole_loss(method: Any, hyper: Any, both: bool) -> tuple[float, float, float]:
    """SAC's loss, the method's, and the conservative term alone, where the source's rows are the target's too."""
    rows = batch()._replace(weight=np.ones(ROWS))
    update = core.join(rows, rows) if both else rows
    with jax.enable_x64(True):
        ctx, critic = context(hyper), MATHS.critic.parameters(CRITICS)

        @jax.jit
        def losses(critic: Any) -> tuple[Any, Any, Any]:
            loss, _ = core.critic_loss(critic, update, np.zeros(len(update.reward)), SAC, SPEC)
            term = conservative.excess(critic, rows, hyper.conservatism, ctx).mean(1).sum()
            return loss, method.critic_loss(loss, critic, rows, ctx), term

        plain, ours, term = losses(critic)
        return float(plain), float(ours), float(term)


@every_form
def test_each_source_row_gets_cqls_loss_whether_alone_or_among_target_rows(form):
    choices = {"conservative_weight": 10.0, "conservatism": form, "sampled_actions": DRAWN}
    plain, alone, term = whole_loss(cql.CQL, cql.Hyper(**choices), both=False)
    assert np.isclose(alone, plain + 10 * term)
    # Of both domains, the mean of the two halves' losses: (TD + 10 term) / 2 + TD / 2.
    plain, mixed, term = whole_loss(cql_sac.CQL_SAC, cql_sac.Hyper(**choices), both=True)
    assert np.isclose(mixed, (plain + 10 * term) / 2 + plain / 2)


def test_a_form_that_is_none_is_refused_in_words():
    for method in ("cql", "cql+sac", "h2o"):
        with pytest.raises(OffdynError, match="conservatism: expected logsumexp or expectation, got 'cautious'"):
            build(SAME, method, settings={"conservatism": "cautious"})


@pytest.fixture(scope="module", params=FORMS)
def values(request, trains):
    """Q at the data's actions, which are all negative, and at positive ones, without the term and with it."""
    settings = {
        "critic_widths": (32,),
        "critic_learning_rate": 3e-3,
        "actor_learning_rate": 1e-12,
        "learns_from": "source",
    }
    settings |= {"sampled_actions": 4}
    runs = [
        short_run(ONE_STEP, "cql", conservatism=request.param, conservative_weight=weight, **settings)
        for weight in (0.0, 1.0)
    ]
    rows = random_rows(ONE_STEP, "source", 600, seed=1)
    kept = rows[rows[:, 2] < 0]
    source = np.stack([kept] * 2)
    programs, lanes = programs_of(runs, updates=250)
    lanes = learn(programs, lanes, runs, source, source[:, :1], calls=4)
    assert np.asarray(lanes.fault).max() == 0
    state, action = kept[:, :2], kept[:, 2:3]
    critics = [tuple(array[lane] for array in lanes.agent.critic.value) for lane in (0, 1)]
    spec = ONE_STEP.spec
    seen, unseen = (
        [np.asarray(core.values(critic, state, a, runs[0].sac, spec)).mean() for critic in critics]
        for a in (action, -action)
    )
    return seen, unseen, kept[:, 3].mean()


def test_the_term_lowers_values_of_unseen_actions_and_not_of_the_datas(values):
    (plain, guarded), (plain_unseen, guarded_unseen), reward = values
    assert abs(plain - reward) < 0.05  # the data's values are known without the term ...
    assert plain - 0.02 < guarded < plain + 0.5  # ... and are lowered by none: half the weight is all it can add
    assert guarded_unseen < plain_unseen - 0.5
