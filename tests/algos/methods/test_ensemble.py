"""VGDF's ensemble: its loss and gradient against NumPy, a model whose answer is known, and which rows it sees."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import Batch, Context
from offdyn.algos.common import ensemble, scaling
from offdyn.algos.common.ensemble import Ensemble
from offdyn.algos.networks import Trained
from offdyn.algos.vgdf import Hyper
from offdyn.data.replay import Replay
from offdyn.data.transition import row_width

from ...probes import small_spec
from ..core.in_numpy import Net, flat, slope

SPEC = small_spec(observation_size=2, action_size=1)
SMALL = Hyper(members=3, ensemble_widths=(5, 4), ensemble_batch=8, ensemble_interval=1)
NET = Net((3, 5, 4, 6), activation="swish")


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log(1 + np.exp(x))


def prediction(member: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log-variance of one member, which is a vector, in NumPy."""
    mean, raw = np.split(NET.apply(member, inputs), 2, axis=1)
    return mean, softplus(0.5 - softplus(0.5 - raw) + 10.0) - 10.0


def members(seed: int = 3, count: int = 3) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Vectors [count, P], and the same as offdyn holds them."""
    vectors = 0.7 * draw(seed, count, NET.length)
    return vectors, NET.parameters(vectors)


def context(learned: Any, hyper: Hyper = SMALL, step: int = 0) -> Context:
    return Context(SPEC, None, learned, None, hyper, jax.random.key(7), jnp.asarray(step))


def replay(rows: np.ndarray, size: int) -> Replay:
    return Replay(jnp.asarray(rows, jnp.float32), jnp.asarray(size), SPEC, None)


def test_the_loss_and_its_gradient_are_numpys():
    vectors, arrays = members()
    inputs, outcomes = draw(1, 3, 8, 3), draw(2, 3, 8, 3)

    def in_numpy(vectors: np.ndarray) -> np.ndarray:
        total = 0.0
        for vector, x, y in zip(vectors, inputs, outcomes, strict=True):
            mean, log_variance = prediction(vector, x)
            total = total + np.mean((mean - y) ** 2 / np.exp(log_variance)) + np.mean(log_variance)
            rates = (2.5e-5, 5e-5, 1e-4)
            weights = NET.parameters(vector)[0::2]
            total = total + 100 * sum(r / 2 * np.sum(w**2) for r, w in zip(rates, weights, strict=True))
        return total

    hyper = Hyper(members=3, ensemble_widths=(5, 4), ensemble_decay=100.0)
    value, gradient = jax.jit(
        jax.value_and_grad(lambda members: ensemble.loss(members, inputs, outcomes, hyper, SPEC))
    )(arrays)
    np.testing.assert_allclose(value, in_numpy(vectors), rtol=1e-5)
    found = np.stack([flat(array[k] for array in gradient) for k in range(3)])
    np.testing.assert_allclose(found, slope(in_numpy, vectors), rtol=1e-3, atol=1e-5)


def test_shared_inputs_give_each_member_the_same_rows():
    _, arrays = members()
    inputs = draw(1, 8, 3)
    together = ensemble.predict(arrays, inputs, SMALL, SPEC)
    apart = ensemble.predict(arrays, np.stack([inputs] * 3), SMALL, SPEC)
    np.testing.assert_allclose(together.mean, apart.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(together.log_variance, apart.log_variance, rtol=1e-5)


def test_the_log_variance_stays_within_its_bounds():
    _, arrays = members()
    wild = ensemble.predict(tuple(100 * array for array in arrays), draw(1, 50, 3), SMALL, SPEC).log_variance
    assert -10.0 <= wild.min() < -9.99
    assert 0.49 < wild.max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("layers", "rates"),
    [
        (2, [2.5e-5, 1e-4]),
        (3, [2.5e-5, 5e-5, 1e-4]),
        (5, [2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4]),
        (6, [2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 7.5e-5, 1e-4]),
    ],
)
def test_the_decay_of_each_layer(layers, rates):
    assert ensemble.decays(layers) == rates


def test_first_weights_are_normal_and_first_biases_zero():
    hyper = Hyper(members=4, ensemble_widths=(100, 50))
    arrays = ensemble.init(jax.random.key(0), hyper, small_spec(20, 5)).live.value
    for fan_in, weight, bias in zip((25, 100, 50), arrays[0::2], arrays[1::2], strict=True):
        assert np.std(weight) == pytest.approx(1 / (2 * np.sqrt(fan_in)), rel=0.05)
        assert np.mean(np.abs(weight) > 2 * np.std(weight)) == pytest.approx(0.0455, abs=0.01)  # a Gaussian's tails
        assert not np.any(bias)
        assert not np.allclose(weight[0], weight[1])


# [r, s' - s] = (s, a) A + noise of these deviations.
MATRIX = np.array([[1.0, 0.5, 0.0], [-0.5, 0.0, 0.4], [0.3, -1.0, 0.8]])
NOISE = np.array([0.5, 0.1, 0.25])


def known_rows(seed: int, count: int) -> np.ndarray:
    """Packed rows of the known model, of inputs far from mean 0 and deviation 1."""
    inputs = draw(seed, count, 3) * (1.0, 2.0, 0.5) + (1.0, -1.0, 0.0)
    outcome = inputs @ MATRIX + NOISE * draw(seed + 1, count, 3)
    return np.hstack((inputs, outcome[:, :1], inputs[:, :2] + outcome[:, 1:], np.zeros((count, 1))))


def trained(target: Replay, hyper: Hyper, steps: int) -> Ensemble:
    def one(model: Ensemble, step: jax.Array) -> tuple[Ensemble, jax.Array]:
        key = jax.random.fold_in(jax.random.key(7), step)
        return ensemble.learn(model, target, Context(target.spec, None, model, None, hyper, key, step))

    first = ensemble.init(jax.random.key(0), hyper, target.spec)
    return jax.jit(lambda model: jax.lax.scan(one, model, jnp.arange(steps))[0])(first)


def test_the_ensemble_learns_a_known_models_mean_and_variance():
    hyper = Hyper(members=3, ensemble_widths=(32,), ensemble_batch=64, ensemble_learning_rate=3e-3, ensemble_interval=2)
    rows = np.full((3000, row_width(SPEC)), 1e6)  # the rest of the ring holds what was never stored
    rows[:2500] = known_rows(1, 2500)
    model = trained(replay(rows, 2500), hyper, 2000)
    inputs = known_rows(11, 500)[:, :3]
    guess = ensemble.predict(model.live.value, model.scale.apply(inputs), hyper, SPEC)
    off = np.sqrt(np.square(np.asarray(guess.mean.mean(0)) - inputs @ MATRIX).mean(0))
    assert (off < 0.4 * NOISE).all(), off / NOISE
    deviation = np.exp(0.5 * np.asarray(guess.log_variance)).mean((0, 1))
    np.testing.assert_allclose(deviation, NOISE, rtol=0.2)
    # Its own account of itself agrees: of the best possible likelihood little is missing.
    state, action, reward, after, ended = np.split(known_rows(21, 2000), (2, 3, 4, 6), axis=1)
    fresh = Batch(state, action, reward[:, 0], after, ended[:, 0], np.ones(2000))
    error, likelihood = ensemble.errors(model, fresh, NOISE[1:], hyper, SPEC)
    assert 0.95 < error < 1.1  # in units of the noise
    best = -0.5 * np.mean(1 + 2 * np.log(NOISE) + np.log(2 * np.pi))
    assert best - 0.1 < likelihood < best + 0.05


def test_rows_of_weight_zero_do_not_count_in_the_errors_and_none_at_all_give_no_number():
    _, arrays = members()
    model = Ensemble(Trained(arrays, None), scaling.no_scale(3))
    state, action, reward, after, ended = np.split(known_rows(1, 20), (2, 3, 4, 6), axis=1)
    weight = jnp.repeat(jnp.array((1.0, 0.0)), 10)
    rows = Batch(state, action, reward[:, 0], after, ended[:, 0], weight, np.zeros(20))
    first_ten = Batch(*(column[:10] for column in rows))
    some, all_of_ten = (ensemble.errors(model, r, np.ones(2), SMALL, SPEC) for r in (rows, first_ten))
    np.testing.assert_allclose(some, all_of_ten, rtol=1e-5)
    assert np.isnan(ensemble.errors(model, rows._replace(weight=jnp.zeros(20)), np.ones(2), SMALL, SPEC)).all()


def test_inputs_are_scaled_afresh_every_250_updates_by_the_filled_rows():
    rows = known_rows(1, 40)
    rows[30:] = 1e6
    learn = jax.jit(lambda model, step: ensemble.learn(model, replay(rows, 30), context(None, SMALL, step))[0])
    first = ensemble.init(jax.random.key(0), SMALL, SPEC)
    for step, refits in ((0, True), (1, False), (249, False), (250, True), (500, True)):
        scale = learn(first, jnp.asarray(step)).scale
        expected = (rows[:30, :3].mean(0), rows[:30, :3].std(0)) if refits else (np.zeros(3), np.ones(3))
        np.testing.assert_allclose(scale, expected, rtol=1e-4)


def test_a_step_is_made_at_every_interval_and_the_logged_mean_allows_for_it():
    hyper = Hyper(members=3, ensemble_widths=(5, 4), ensemble_batch=8, ensemble_interval=3)
    learn = jax.jit(
        lambda model, step: ensemble.learn(model, replay(known_rows(1, 40), 40), context(None, hyper, step))
    )
    every = jax.jit(
        lambda model, step: ensemble.learn(model, replay(known_rows(1, 40), 40), context(None, SMALL, step))
    )
    model = ensemble.init(jax.random.key(0), hyper, SPEC)
    for step in range(6):
        after, loss = learn(model, jnp.asarray(step))
        moved = not np.array_equal(after.live.value[0], model.live.value[0])
        assert moved == (step % 3 == 0)
        assert np.isclose(loss, 3 * every(model, jnp.asarray(step))[1] if moved else 0.0)


def test_each_member_trains_on_rows_of_its_own():
    model = ensemble.init(jax.random.key(0), SMALL, SPEC)
    same = Trained(jax.tree.map(lambda x: jnp.stack([x[0]] * 3), model.live.value), model.live.adam)
    after = jax.jit(lambda model: ensemble.learn(model, replay(known_rows(1, 40), 40), context(None))[0])(
        model._replace(live=same)
    )
    gradient = np.asarray(after.live.adam.mu[-1])  # of the last bias
    assert not np.allclose(gradient[0], gradient[1], rtol=1e-2)
    assert not np.allclose(gradient[1], gradient[2], rtol=1e-2)
