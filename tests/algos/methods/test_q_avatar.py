"""Q Avatar's mixture against NumPy, and where it is known which critic is right in the target."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import Batch, Context
from offdyn.algos import q_avatar
from offdyn.algos import sac as core
from offdyn.algos.q_avatar import MEASURED, Hyper, Learned
from offdyn.algos.sac import Policy, Sac, hook_key
from offdyn.data.replay import Replay
from offdyn.training.config import build

from ...probes import HALF_FLIPPED, SAME, learn, programs_of, random_rows, short_run, small_spec
from ..core.in_numpy import flat, flat_stack, least
from ..core.twin import Formulas
from .test_ensemble import draw

SPEC = small_spec(observation_size=2, action_size=1)
SAC = Sac(actor_widths=(6,), critic_widths=(5,), discount=0.9, temperature=0.3)
MATHS = Formulas(SPEC, SAC)
ROWS = 24


def rows() -> Batch:
    ended = (np.arange(ROWS) % 5 == 0).astype(float)
    one, none = np.ones(ROWS), np.zeros(ROWS)
    return Batch(draw(1, ROWS, 2), np.tanh(draw(2, ROWS, 1)), draw(3, ROWS), draw(4, ROWS, 2), ended, one, none)


def context(step: int = 0, errors: Any = (0.0, 0.0), interval: int = 1000) -> Context:
    source = core.init(jax.random.key(2), SAC, SPEC)
    learned = Learned(source, jnp.asarray(errors, jnp.float32))
    agent = core.init(jax.random.key(1), SAC, SPEC)
    return Context(SPEC, agent, learned, SAC, Hyper(interval), jax.random.key(5), jnp.asarray(step))


def error_in_numpy(actor: np.ndarray, critics: np.ndarray, batch: Batch, key: jax.Array) -> float:
    """mean |min Q(s, a) - r - discount (1 - d) (min Q(s', a') - temperature log pi(a'|s'))|."""
    y = MATHS.backup(actor, critics, 0.3, batch, MATHS.draws(key, len(batch.reward)))
    return float(np.abs(least(MATHS.values(critics, batch.observation, batch.action)) - y).mean())


def test_the_error_of_a_critic_is_numpys() -> None:
    ctx, batch = context(), rows()
    actor = flat(ctx.agent.actor.value)
    for critic in (ctx.agent.critic.value, ctx.learned.source.critic.value):
        found = q_avatar.bellman_error(critic, batch, ctx.key, ctx)
        np.testing.assert_allclose(found, error_in_numpy(actor, flat_stack(critic), batch, ctx.key), rtol=1e-5)


@pytest.mark.parametrize(
    ("errors", "expected"), [((0, 0), 0), ((1, 3), 0.25), ((3, 1), 0.75), ((0, 2), 0), ((2, 0), 1)]
)
def test_the_weight_is_each_critics_inverse_error_over_the_sum_of_both(errors, expected) -> None:
    assert q_avatar.weight(jnp.asarray(errors, jnp.float32)) == pytest.approx(expected)
    if min(errors) > 0:
        target, source = errors
        assert expected == pytest.approx((1 / source) / (1 / target + 1 / source))


def test_the_actor_climbs_the_mixture() -> None:
    ctx, batch = context(errors=(1.0, 3.0)), rows()
    action, log_pi = np.tanh(draw(6, ROWS, 1)), draw(7, ROWS)
    critics = [flat_stack(agent.critic.value) for agent in (ctx.agent, ctx.learned.source)]
    of_target, of_source = (least(MATHS.values(each, batch.observation, action)) for each in critics)
    loss = np.mean(0.3 * log_pi - of_target)
    found = q_avatar.actor_loss(loss, (), Policy(action, log_pi, of_target), batch, ctx)
    np.testing.assert_allclose(found, np.mean(0.3 * log_pi - 0.75 * of_target - 0.25 * of_source), rtol=1e-5)
    assert abs(found - loss) > 0.01


def replay(role: str, seed: int, world: Any = HALF_FLIPPED) -> Replay:
    packed = random_rows(world, role, 300, seed)
    return Replay(jnp.asarray(packed), jnp.asarray(300), world.spec, None, float(role == "source"))


def test_errors_are_measured_on_target_transitions_after_every_interval_and_kept_between() -> None:
    run = short_run(HALF_FLIPPED, "q-avatar", backbone="classic", weight_interval=3)
    sac, spec = run.sac, run.spec
    agent = core.init(jax.random.key(1), sac, spec)
    learned = q_avatar.init(jax.random.key(2), run.hyper, spec, sac)
    source, target = replay("source", 1), replay("target", 2)
    maths = Formulas(spec, sac)
    one = jax.jit(lambda learned, step: q_avatar.learn(
        source, target, Context(spec, agent, learned, sac, run.hyper, jax.random.key(9), step)))  # fmt: skip
    for step in range(7):
        before = learned
        learned, metrics = one(before, jnp.asarray(step))
        if step % 3 != 2:
            np.testing.assert_array_equal(learned.errors, before.errors)
            continue
        key = jax.random.key(9)
        seen = Batch(*map(np.asarray, target.sample(hook_key(key, "measured"), MEASURED)))
        draws = maths.draws(hook_key(key, "errors"), MEASURED)
        for critic, found in zip((agent, learned.source), learned.errors, strict=True):
            critics = flat_stack(critic.critic.value)
            y = maths.backup(flat(agent.actor.value), critics, float(sac.temperature), seen, draws)
            off = np.abs(least(maths.values(critics, seen.observation, seen.action)) - y).mean()
            np.testing.assert_allclose(found, off, rtol=1e-4)
        assert metrics["weight of the source critics"] == pytest.approx(
            float(learned.errors[0] / learned.errors.sum()), rel=1e-5
        )


def test_the_source_critics_count_more_where_the_domains_are_the_same(trains: None) -> None:
    """Both are trained alike there; where half of the plane is flipped, the source's err more."""
    weights = []
    for world in (SAME, HALF_FLIPPED):
        run = short_run(world, "q-avatar", backbone="classic", weight_interval=100, critic_learning_rate=3e-3)
        programs, lanes = programs_of([run], updates=300)
        source, target = (random_rows(world, role, 600, seed)[None] for role, seed in (("source", 1), ("target", 2)))
        lanes = learn(programs, lanes, [run], source, target, calls=3)
        weights.append(float(q_avatar.weight(np.asarray(lanes.learned.errors)[0])))
    assert 0.4 < weights[0] < 0.6
    assert weights[1] < weights[0] - 0.05


def test_the_agent_proper_learns_from_the_target_alone_and_that_cannot_be_changed() -> None:
    config, _ = build("hopper-big-head", "q-avatar", settings={"source_data": "some-rows"})
    assert (config.schedule.collects, config.schedule.learns_from, config.sac.batch_size) == ("target", "target", 256)
    assert config.sac.backbone == "simba"
    for settings in ({"learns_from": "both"}, {"learns_from": "source"}):
        assert build("hopper-big-head", "q-avatar", settings=settings)[0].schedule.learns_from == "target"
    with pytest.raises(OffdynError, match="setting domain_input"):
        build("hopper-big-head", "q-avatar", settings={"domain_input": "flag"})
    with pytest.raises(OffdynError, match="setting collects"):
        build("hopper-big-head", "q-avatar", settings={"collects": "target"})
