"""PAR's encoders: their loss and the penalty against NumPy, and what tells a collapsed code from a good one."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from offdyn._util.types import Batch, Context
from offdyn.algos import par
from offdyn.algos.networks import Trained
from offdyn.algos.par import Encoders, Hyper, Networks
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Sac

from ...probes import small_spec
from ..core.in_numpy import average_l1, flat
from ..core.twin import Formulas

SPEC = small_spec(observation_size=4, action_size=2)
SMALL = Hyper(encoder_widths=(7, 6), code_size=5, penalty=0.7)
PRINTED = dataclasses.replace(SMALL, encoder_activation="relu", normalise_code=False)
every_method = pytest.mark.parametrize("method", ["par", "par-b"])


def hyper_of(method: str, hyper: Hyper = SMALL) -> Hyper:
    return dataclasses.replace(hyper, objective=method)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def batch(rows: int = 30, size: int = 4) -> Batch:
    state = draw(1, rows, size), np.tanh(draw(2, rows, 2)), draw(3, rows), draw(4, rows, size)
    return Batch(*state, np.zeros(rows), np.ones(rows))


def networks(method: str, hyper: Hyper = SMALL, seed: int = 5) -> Networks:
    maths = Formulas(SPEC, Sac(), hyper, method)
    return Networks(*(net.parameters(0.6 * draw(seed, net.length)) for net in (maths.f, maths.g)))


def context(live: Networks, hyper: Hyper, slow: Networks | None = None, spec: Any = SPEC) -> Context:
    return Context(spec, None, Encoders(Trained(live, None), slow), Sac(), hyper, None, 0)


@pytest.mark.parametrize("hyper", [SMALL, PRINTED], ids=["normalised", "printed"])
@every_method
def test_encoder_loss_and_penalty_are_numpys(method, hyper):
    hyper, maths = hyper_of(method, hyper), Formulas(SPEC, Sac(), hyper, method)
    live, rows = networks(method, hyper), batch()
    vector = flat(jax.tree.leaves(live))
    off = jax.jit(par.deviation, static_argnums=3)(live, rows, hyper, SPEC)
    np.testing.assert_allclose(off, maths.deviation(vector, rows), rtol=1e-4)
    np.testing.assert_allclose(off.mean(), maths.encoder_loss(vector, rows), rtol=1e-4)
    corrected, notes = METHODS[method].correct(rows, context(live, hyper))
    deducted = rows.reward - corrected.reward
    np.testing.assert_allclose(deducted, 0.7 * maths.deviation(vector, rows), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(notes["reward penalty"], 0.7 * off.mean(), rtol=1e-4)
    assert all(getattr(corrected, name) is getattr(rows, name) for name in Batch._fields if name != "reward")


@every_method
def test_a_control_deducts_as_much_in_all_and_not_from_the_rows_that_earned_it(method):
    live, rows = networks(method), batch()

    def deducted(shuffled: float, averaged: float) -> np.ndarray:
        hyper = dataclasses.replace(hyper_of(method), deviation_shuffled=shuffled, deviation_averaged=averaged)
        corrected, _ = METHODS[method].correct(rows, context(live, hyper))
        return np.asarray(rows.reward - corrected.reward)

    own, shuffled, averaged = deducted(0, 0), deducted(1, 0), deducted(0, 1)
    np.testing.assert_allclose(np.sort(shuffled), np.sort(own), rtol=1e-3, atol=1e-5)
    assert abs(np.corrcoef(shuffled, own)[0, 1]) < 0.5
    np.testing.assert_allclose(averaged, own.mean(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(deducted(0.2, 0.3), 0.5 * own + 0.2 * shuffled + 0.3 * averaged, rtol=1e-3, atol=1e-5)


def test_the_penalty_is_the_mean_over_code_dimensions_not_their_sum():
    hyper = Hyper(encoder_widths=(1,), code_size=4, normalise_code=False)
    zeros = (np.zeros((4, 1)), np.zeros(1), np.zeros((1, 4)))
    live = Networks(
        (*zeros, np.array([1.0, 0.0, 0.0, 1.0])), (np.zeros((6, 1)), *zeros[1:], np.array([3.0, 0.0, 1.0, 0.0]))
    )
    np.testing.assert_allclose(par.deviation(live, batch(2), hyper, SPEC), 6 / 4)


@every_method
def test_the_penalty_is_measured_with_the_slow_encoders_where_there_are_some(method):
    live, slow, rows, hyper = networks(method), networks(method, seed=6), batch(), hyper_of(method)
    correct = METHODS[method].correct
    with_slow, _ = correct(rows, context(live, hyper, slow))
    np.testing.assert_allclose(with_slow.reward, correct(rows, context(slow, hyper))[0].reward, rtol=1e-5)
    assert not np.allclose(with_slow.reward, correct(rows, context(live, hyper))[0].reward)


def test_a_code_is_divided_by_its_mean_size_unless_as_printed():
    f, s = networks("par").f, draw(8, 6, 4)
    plain = par.code(f, s, dataclasses.replace(SMALL, normalise_code=False), SPEC)
    code = par.code(f, s, SMALL, SPEC)
    np.testing.assert_allclose(np.abs(code).mean(1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(code, average_l1(np.asarray(plain, float)), rtol=1e-4)
    nothing = par.code(tuple(0 * array for array in f), s, SMALL, SPEC)
    assert np.array_equal(nothing, np.zeros((6, 5)))  # no division by zero


def test_a_constant_code_is_par_bs_global_minimum_and_the_diagnostics_show_it():
    hyper = hyper_of("par-b")
    flattened = [[0 * array for array in network] for network in networks("par-b")]
    bias = np.array([1.0, -2.0, 0.5, 3.0, -1.0])
    flattened[0][-1], flattened[1][-1] = bias, bias / np.abs(bias).mean()
    collapsed = Networks(*map(tuple, flattened))
    ctx, rows = context(collapsed, hyper), batch()
    corrected, notes = METHODS["par-b"].correct(rows, ctx)
    np.testing.assert_allclose(corrected.reward, rows.reward, atol=1e-6)
    assert notes["deviation on source transitions"] < 1e-12
    seen = METHODS["par-b"].diagnose(None, None, rows, rows, ctx)
    assert seen["variance of the code"] < 1e-12
    assert seen["effective rank of the code"] < 2  # of nothing but rounding
    healthy = METHODS["par-b"].diagnose(None, None, rows, rows, context(networks("par-b"), hyper))
    assert healthy["variance of the code"] > 0.05
    assert healthy["effective rank of the code"] > 2


def effective_rank(codes: np.ndarray) -> tuple[float, float]:
    """Rank and variance that the diagnostics give to these codes: f is the identity of non-negative states."""
    size = codes.shape[1]
    spec = small_spec(size, 1)
    hyper = Hyper(encoder_widths=(size,), code_size=size, encoder_activation="relu", normalise_code=False)
    identity = (np.eye(size), np.zeros(size), np.eye(size), np.zeros(size))
    net = Formulas(spec, Sac(), hyper, "par").g
    g = net.parameters(np.zeros(net.length))
    rows = batch(len(codes), size)._replace(observation=codes, action=np.zeros((len(codes), 1)))
    seen = METHODS["par"].diagnose(None, None, rows, rows, context(Networks(identity, g), hyper, spec=spec))
    return float(seen["effective rank of the code"]), float(seen["variance of the code"])


def both_ways(lengths: list[float]) -> np.ndarray:
    """Points at the given distances up and down each axis around (9, ..., 9): squared singular values 2 length^2."""
    steps = np.diag(lengths)
    return 9.0 + np.concatenate((steps, -steps))


@pytest.mark.parametrize(
    ("codes", "rank"),
    [
        (both_ways([1.0, 1.0, 1.0, 1.0]), 4.0),
        (both_ways([1.0, 1.0, 0.0, 0.0]), 2.0),
        (np.linspace(1, 2, 7)[:, None] * np.array([[1.0, 2.0, 3.0]]), 1.0),
        (both_ways([2.0, 1.0]), np.exp(-(0.8 * np.log(0.8) + 0.2 * np.log(0.2)))),
    ],
    ids=["ball", "disc", "line", "ellipse"],
)
def test_effective_rank_of_known_codes(codes, rank):
    found, variance = effective_rank(codes)
    assert np.isclose(found, rank, rtol=1e-3)
    assert np.isclose(variance, codes.var(0).mean(), rtol=1e-4)


def test_held_out_rows_of_weight_zero_do_not_count():
    live, rows = networks("par"), batch()
    half = rows._replace(weight=np.repeat((1.0, 0.0), 15))
    seen = METHODS["par"].diagnose(None, None, rows, half, context(live, SMALL))
    maths, vector = Formulas(SPEC, Sac(), SMALL, "par"), flat(jax.tree.leaves(live))
    off = maths.deviation(vector, rows)
    np.testing.assert_allclose(seen["deviation on held-out target transitions"], off[:15].mean(), rtol=1e-4)
    np.testing.assert_allclose(seen["deviation on fresh target transitions"], off.mean(), rtol=1e-4)
