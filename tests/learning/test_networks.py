"""Networks: what they compute, how they start and how they move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.domains.robots import ROBOTS
from offdyn.learning import sac as core
from offdyn.learning.networks import Layout, descend, drift, fresh
from offdyn.learning.sac import Sac, actor_layout, critic_layout
from offdyn.methods import par, par_b
from offdyn.methods.parts.encoders import Hyper

from .in_numpy import ACTIVATION, Adam, clipped, forward, network, parameters


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_a_layout_computes_what_its_layers_say(layer_norm, activation):
    sizes = (5, 7, 6, 3)
    layout = Layout(sizes, 5, layer_norm, activation)
    generator = np.random.default_rng(1)
    vector, x = generator.normal(size=layout.length), generator.normal(size=(11, 5))  # scales and shifts random too
    expected = forward(network(vector, sizes, layer_norm), x, ACTIVATION[activation])
    ours = jax.jit(layout.apply)(parameters(vector, sizes, layer_norm), x)
    np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-5)


def bounds(layout: Layout) -> list[tuple[float, np.ndarray]]:
    """For each weight and bias its allowed size, from torch's rule, and its first values."""
    arrays = [np.asarray(array) for array in jax.jit(layout.init)(jax.random.key(3))]
    found, fan_in = [], layout.initial_fan_in
    for array in arrays:
        if array.ndim == 2 and found:
            fan_in = array.shape[0]
        found.append((1 / np.sqrt(fan_in), array))
    return found


@pytest.mark.parametrize("robot", ["hopper", "ant"])
def test_weights_and_biases_start_uniform_within_one_over_the_root_of_the_fan_in(robot):
    spec = ROBOTS[robot].spec
    for layout in (actor_layout(Sac(), spec), critic_layout(Sac(), spec)):
        for bound, array in bounds(layout):
            assert np.abs(array).max() <= bound
            if array.size >= 64:  # enough numbers to see that the whole range is used, evenly
                assert np.abs(array).max() > 0.9 * bound
                assert abs(array.std() - bound / np.sqrt(3)) < 6 * bound / np.sqrt(array.size)


def test_the_ants_first_layers_start_as_if_it_observed_its_84_dropped_entries_too():
    ant, hyper = ROBOTS["ant"].spec, Hyper()
    first = {
        "actor": (actor_layout(Sac(), ant), 111),
        "critic": (critic_layout(Sac(), ant), 111 + 8),
        "f": (par.layouts(hyper, ant).state, 111),
        "g": (par.layouts(hyper, ant).prediction, 256 + 8),  # sees a code, not the observation
        "g of PAR-B": (par_b.layouts(hyper, ant).prediction, 111 + 8),
    }
    for name, (layout, fan_in) in first.items():
        largest = np.abs(bounds(layout)[0][1]).max()
        assert 0.98 / np.sqrt(fan_in) < largest <= 1 / np.sqrt(fan_in), name


def test_a_layer_norm_starts_with_scale_one_and_shift_zero():
    layout = Layout((4, 6, 1), 4, layer_norm=True)
    _, _, scale, shift, _, _ = layout.init(jax.random.key(0))
    assert np.array_equal(scale, np.ones(6))
    assert np.array_equal(shift, np.zeros(6))


def test_the_twin_critics_start_apart_and_their_targets_equal_to_them():
    agent = jax.jit(core.init, static_argnums=2)(jax.random.key(0), Sac(critic_widths=(8, 8)), ROBOTS["hopper"].spec)
    for array, target in zip(agent.critic.value, agent.target_critic, strict=True):
        assert not np.isclose(array[0], array[1]).any()
        assert np.array_equal(array, target)


@pytest.mark.parametrize("bound", [None, 0.5])
def test_descent_is_torchs_adam_step_by_step(bound):
    generator = np.random.default_rng(2)
    scale = 10.0 ** generator.integers(-3, 3, 6)  # gradients of very different sizes
    start = generator.normal(size=6)
    with jax.enable_x64(True):
        trained, reference = fresh(jnp.asarray(start)), Adam(start, 0.01)
        down = jax.jit(lambda trained: descend(lambda v: ((scale * v**2).sum(), None), trained, 0.01, bound))
        for _ in range(6):
            trained, value, _ = down(trained)
            assert np.isclose(value, (scale * reference.value**2).sum())
            reference.step(clipped(2 * scale * reference.value, bound))
            np.testing.assert_allclose(trained.value, reference.value, rtol=1e-10)


def test_clipping_shortens_a_gradient_to_the_bound_and_leaves_a_shorter_one_alone():
    # Adam's first moment is a tenth of the first gradient: it shows what reached the optimiser.
    def reached(slope: tuple[float, float]) -> np.ndarray:
        trained, _, _ = descend(lambda v: (v @ jnp.asarray(slope), None), fresh(jnp.zeros(2)), 0.1, 5.0)
        return 10 * np.asarray(trained.adam.mu)

    np.testing.assert_allclose(reached((30.0, 40.0)), (3.0, 4.0), rtol=1e-5)
    np.testing.assert_allclose(reached((0.3, 0.4)), (0.3, 0.4), rtol=1e-5)


def test_drifting_moves_the_slow_copy_a_fraction_of_the_way():
    assert np.allclose(drift(jnp.array([1.0, 0.0]), jnp.array([3.0, -1.0]), 0.25), [1.5, -0.25])


@pytest.mark.parametrize("activation", ["relu", "elu", "swish"])
def test_rows_that_do_not_learn_are_computed_and_send_no_gradient(activation):
    layout = Layout((5, 7, 6, 3), 5, activation=activation)
    network, x = layout.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (8, 5))
    np.testing.assert_array_equal(layout.apply(network, x, 3), layout.apply(network, x))

    def loss(network, x, rows):
        return jnp.square(layout.apply(network, x, rows)).sum()

    first = jax.grad(loss, (0, 1))(network, x[:3], None)
    some = jax.grad(loss, (0, 1))(network, x, 3)
    for ours, expected in zip(some[0], first[0], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(some[1], np.concatenate((first[1], np.zeros((5, 5)))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_half_precision_moves_values_and_gradients_by_its_roundings_alone_and_gives_float32(layer_norm):
    layout = Layout((23, 64, 64, 4), 23, layer_norm)
    half = layout._replace(precision="bfloat16")
    network, x = layout.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (32, 23))

    def loss(network, layout):
        return jnp.square(layout.apply(network, x) - 1.0).mean()

    exact, ours = layout.apply(network, x), half.apply(network, x)
    assert ours.dtype == jnp.float32
    error = np.abs(ours - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < 0.02  # bfloat16 has 8 bits: a relative 2^-9, some layers and many terms
    slopes, expected = jax.grad(loss)(network, half), jax.grad(loss)(network, layout)
    for slope, wanted in zip(slopes, expected, strict=True):
        assert slope.dtype == jnp.float32
        cosine = (slope * wanted).sum() / (jnp.linalg.norm(slope) * jnp.linalg.norm(wanted))
        assert cosine > 0.995


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_sum_of_rows_is_made_in_float32_whatever_the_rows_are(precision):
    # In bfloat16 a sum of 600 ones would not come past 256.
    drawn = np.random.default_rng(0).normal((1.0, -1.0, 0.0, 100.0, 1e-3), size=(600, 5))
    rows = jnp.asarray(drawn, precision)
    ours = jax.jit(Layout((5, 1), 5, precision=precision).sum_of_rows)(rows)
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, np.asarray(rows, np.float64).sum(0), rtol=1e-5, atol=1e-3)
