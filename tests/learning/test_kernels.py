"""The two GPU kernels of a layer against NumPy: compiled where there is a GPU, elsewhere interpreted by JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.learning import kernels
from offdyn.learning.networks import Layout

from .in_numpy import ACTIVATION

SLOPE = {"relu": lambda h: np.where(h > 0, 1.0, 0.0), "elu": lambda h: np.where(h > 0, 1.0, h + 1.0)}
ULP = 2.0**-8  # of bfloat16: half of the gap between two of them, as a share


def drawn(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape).astype(jnp.bfloat16)


def wide(x: jax.Array) -> np.ndarray:
    return np.asarray(x, np.float64)


@pytest.mark.parametrize("activation", ["relu", "elu"])
@pytest.mark.parametrize("inputs", [17, 23, 256, 262])
def test_a_layer_is_numpys_rounded_once(inputs: int, activation: str) -> None:
    x, weight, bias = (
        drawn(0, 256, inputs),
        drawn(1, inputs, 128) / inputs**0.5,
        jax.random.normal(jax.random.key(2), (128,)),
    )
    found = kernels.layer(x, weight, bias, activation)
    expected = ACTIVATION[activation](wide(x) @ wide(weight) + np.asarray(bias))
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(wide(found), expected, rtol=ULP, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_a_gradient_goes_back_through_a_layer_and_the_activation_before_it(activation: str) -> None:
    delta, weight, entered = drawn(0, 256, 128), drawn(1, 192, 128) / 16, drawn(2, 256, 192)
    found = kernels.pull(delta, weight, entered, activation)
    expected = wide(delta) @ wide(weight).T * SLOPE[activation](wide(entered))
    np.testing.assert_allclose(wide(found), expected, rtol=ULP, atol=1e-5)


def test_lanes_and_twins_are_mapped_over_and_share_what_is_not_theirs() -> None:
    x, weight, bias = drawn(0, 3, 128, 23), drawn(1, 3, 2, 23, 256), jnp.zeros((3, 2, 256))
    layer = jax.vmap(jax.vmap(lambda *arrays: kernels.layer(*arrays, "relu"), in_axes=(None, 0, 0)))
    one_by_one = [[kernels.layer(x[i], weight[i, j], bias[i, j], "relu") for j in range(2)] for i in range(3)]
    assert np.array_equal(wide(layer(x, weight, bias)), wide(jnp.array(one_by_one)))


@pytest.mark.parametrize(
    ("rows", "outputs", "kind", "able"),
    [
        (256, 256, "bfloat16", True),
        (64, 256, "bfloat16", False),
        (256, 12, "bfloat16", False),
        (256, 256, "float32", False),
    ],
)
def test_only_whole_tiles_of_bfloat16_are_for_the_kernels(
    rows: int, outputs: int, kind: str, able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = jnp.zeros((rows, 256), kind), jnp.zeros((256, outputs), kind)
    monkeypatch.setattr(kernels, "_has_bfloat16_units", lambda: False)
    assert not kernels.can_layer(x, weight)
    assert not kernels.can_pull(x, weight.T)
    monkeypatch.setattr(kernels, "_has_bfloat16_units", lambda: True)
    assert kernels.can_layer(x, weight) == able
    assert kernels.can_pull(x, weight.T) == able


@pytest.mark.parametrize(("outputs", "expected"), [(1, ["layer", "pull"]), (12, ["layer", "layer", "pull"])])
@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_a_network_with_the_kernels_has_the_values_and_gradients_of_one_without(
    activation: str, outputs: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout((23, 128, 128, outputs), 23, activation=activation, precision="bfloat16")
    parameters = layout.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (128, 23))

    def loss(parameters, x):
        return jnp.square(layout.apply(parameters, x) - 1).mean()

    monkeypatch.setattr(Layout, "rounded", lambda self, x: x.astype(jnp.bfloat16))  # as on a GPU
    without = jax.value_and_grad(loss, argnums=(0, 1))(parameters, x)
    called = []
    monkeypatch.setattr(kernels, "_has_bfloat16_units", lambda: True)
    for name in ("layer", "pull"):
        kernel = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, name=name, kernel=kernel: called.append(name) or kernel(*a))
    with_them = jax.value_and_grad(loss, argnums=(0, 1))(parameters, x)
    assert called == expected
    for ours, theirs in zip(jax.tree.leaves(with_them), jax.tree.leaves(without), strict=True):
        # As a whole: a single sum that is rounded to zero on one way takes its slope with it.
        assert np.linalg.norm(np.asarray(ours - theirs)) < 0.05 * np.linalg.norm(np.asarray(theirs))
