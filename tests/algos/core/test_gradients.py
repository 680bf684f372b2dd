"""Gradients of every loss by finite differences on tiny networks, and where they stop."""

import dataclasses

import jax
import numpy as np
import pytest

from offdyn._util.types import Batch
from offdyn.algos import par
from offdyn.algos import sac as core
from offdyn.algos.networks import Trained
from offdyn.algos.par import Hyper, Networks
from offdyn.algos.sac import Agent, Sac

from ...probes import small_spec
from .in_numpy import central_difference, flat, flat_stack, slope
from .twin import Formulas

SPEC = small_spec(observation_size=2, action_size=1)
SAC = Sac(actor_widths=(4, 3), critic_widths=(4, 3), critic_layer_norm=True)
HYPERS = {name: Hyper(encoder_widths=(4, 3), code_size=3, objective=name) for name in ("par", "par-b")}


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def batch(rows: int = 6) -> Batch:
    s, a = SPEC.observation_size, SPEC.action_size
    columns = draw(1, rows, s), np.tanh(draw(2, rows, a)), draw(3, rows), draw(4, rows, s)
    return Batch(*columns, np.zeros(rows), np.linspace(0.0, 2.0, rows))


def agree(ours: object, loss: object, vector: np.ndarray) -> None:
    """jax.grad, real finite differences and imaginary ones of the NumPy loss are one."""
    expected = central_difference(loss, vector)
    assert np.linalg.norm(expected) > 1e-3
    np.testing.assert_allclose(slope(loss, vector), expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-8)


def test_critic_gradient():
    maths = Formulas(SPEC, SAC)
    critics, y = draw(5, 2, maths.critic.length), draw(6, 6)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda networks: core.critic_loss(networks, batch(), y, SAC, SPEC)[0]))
        ours = flat_stack(gradient(maths.critic.parameters(critics)))
    agree(ours, lambda v: maths.critic_loss(v, batch(), y), critics)


def test_actor_gradient_passes_through_the_action_into_log_probability_and_value():
    sac = dataclasses.replace(SAC, temperature=0.3)
    maths, rows = Formulas(SPEC, sac), batch()
    actor, critics = draw(7, maths.actor.length), draw(8, 2, maths.critic.length)
    with jax.enable_x64(True):
        key = jax.random.key(0)
        noise = np.asarray(jax.random.normal(key, (6, 1)))
        agent = Agent(None, Trained(maths.critic.parameters(critics), None), None, Trained(np.log(0.3), None))
        gradient = jax.jit(jax.grad(lambda network: core.actor_loss(network, agent, rows, key, sac, SPEC)[0]))
        ours = flat(gradient(maths.actor.parameters(actor)))
    agree(ours, lambda v: maths.actor_loss(v, critics, 0.3, rows.observation, noise), actor)


def encoder_gradient(method: str, vector: np.ndarray, hyper: Hyper | None = None) -> np.ndarray:
    hyper = HYPERS[method] if hyper is None else hyper
    maths = Formulas(SPEC, SAC, hyper, method)
    f, g = np.split(vector, [maths.f.length])
    networks = Networks(maths.f.parameters(f), maths.g.parameters(g))
    with jax.enable_x64(True):
        gradient = jax.grad(lambda networks: par.deviation(networks, batch(), hyper, SPEC).mean())
        return flat(jax.tree.leaves(jax.jit(gradient)(networks)))


def encoder_vector(method: str) -> np.ndarray:
    maths = Formulas(SPEC, SAC, HYPERS[method], method)
    return draw(9, maths.f.length + maths.g.length)


def test_par_sends_no_gradient_into_the_next_states_code():
    vector = encoder_vector("par")
    maths = Formulas(SPEC, SAC, HYPERS["par"], "par")
    ours = encoder_gradient("par", vector)
    agree(ours, lambda v: maths.encoder_loss(v, batch(), aim=vector), vector)
    assert not np.allclose(ours, slope(lambda v: maths.encoder_loss(v, batch()), vector), rtol=0.01)


def test_par_b_sends_its_gradient_into_the_next_states_code_and_nowhere_else_in_f():
    vector = encoder_vector("par-b")
    maths = Formulas(SPEC, SAC, HYPERS["par-b"], "par-b")
    ours = encoder_gradient("par-b", vector)
    agree(ours, lambda v: maths.encoder_loss(v, batch()), vector)
    assert np.abs(ours[: maths.f.length]).max() > 1e-3  # all of it through f(s'): g sees the state itself


@pytest.mark.parametrize("method", HYPERS)
def test_encoder_gradients_as_printed_without_normalisation_and_with_relu(method):
    hyper = dataclasses.replace(HYPERS[method], encoder_activation="relu", normalise_code=False)
    vector = encoder_vector(method)
    maths = Formulas(SPEC, SAC, hyper, method)
    aim = vector if method == "par" else None
    agree(encoder_gradient(method, vector, hyper), lambda v: maths.encoder_loss(v, batch(), aim), vector)
