"""Networks: what they compute, how they start and how they move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import SOURCE, TARGET
from offdyn.algos import par
from offdyn.algos import sac as core
from offdyn.algos.backbones import normed, residual
from offdyn.algos.networks import EMBEDDING, Inputs, Network, descend, drift, fresh, mlp
from offdyn.algos.sac import Sac, actor_network, critic_network
from offdyn.envs.robots import ROBOTS

from .in_numpy import Adam, Net, clipped

SIZES = (5, 7, 6, 3)
NETWORKS: dict[str, tuple[Network, Net]] = {
    f"{activation}, norm {norm}": (mlp(SIZES, 5, activation, norm), Net(SIZES, norm, activation))
    for activation in ("relu", "elu", "swish")
    for norm in ("none", "before", "after")
}
NETWORKS["the ensemble's critic"] = normed(SIZES, 5), Net(SIZES, "before")
NETWORKS["one residual block"] = residual((5, 4, 3), 5), Net((5, 4, 3), blocks=True)
NETWORKS["two residual blocks"] = residual((5, 4, 4, 3), 5), Net((5, 4, 4, 3), blocks=True)


@pytest.mark.parametrize("domain", ["none", "flag", "embedding"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_its_steps_say(name, domain):
    network, net = NETWORKS[name]
    network, net = network.sees_domain(domain), net._replace(domain=domain)
    assert network.length == net.length
    generator = np.random.default_rng(1)
    vector, x = generator.normal(size=net.length), generator.normal(size=(11, 5))  # scales and shifts random too
    for of_row in (TARGET, SOURCE, np.arange(11) % 2.0):
        ours = jax.jit(network.apply)(net.parameters(vector), x, of_row)
        np.testing.assert_allclose(ours, net.apply(vector, x, of_row), rtol=5e-4, atol=5e-5)
    both = [net.apply(vector, x, of_row) for of_row in (TARGET, SOURCE)]
    assert np.allclose(*both) == (domain == "none")


@pytest.mark.parametrize("name", NETWORKS)
def test_first_parameters_have_the_shapes_that_the_steps_take(name):
    network, net = NETWORKS[name]
    for domain in ("none", "flag", "embedding"):
        made = jax.eval_shape(network.sees_domain(domain).init, jax.random.key(0))
        assert [array.shape for array in made] == net._replace(domain=domain).shapes()


def test_blocks_of_unequal_widths_are_refused():
    with pytest.raises(OffdynError, match="equally wide, got 8, 4"):
        residual((5, 8, 4, 1), 5)


def bounds(network: Network) -> list[tuple[float, np.ndarray]]:
    """For each weight and bias its allowed size, from torch's rule, and its first values."""
    arrays = [np.asarray(array) for array in jax.jit(network.init)(jax.random.key(3))]
    found, fan_in = [], network.initial_fan_in
    for array in arrays:
        if array.ndim == 2 and found:
            fan_in = array.shape[0]
        found.append((1 / np.sqrt(fan_in), array))
    return found


@pytest.mark.parametrize("robot", ["hopper", "ant"])
def test_weights_and_biases_start_uniform_within_one_over_the_root_of_the_fan_in(robot):
    spec = ROBOTS[robot].spec
    for network in (actor_network(Sac(), spec), critic_network(Sac(), spec)):
        for bound, array in bounds(network):
            assert np.abs(array).max() <= bound
            if array.size >= 64:  # enough numbers to see that the whole range is used, evenly
                assert np.abs(array).max() > 0.9 * bound
                assert abs(array.std() - bound / np.sqrt(3)) < 6 * bound / np.sqrt(array.size)


def test_the_ants_first_layers_start_as_if_it_observed_its_84_dropped_entries_too():
    ant = ROBOTS["ant"].spec
    encoders, others = (par.shapes(par.Hyper(objective=name), ant) for name in ("par", "par-b"))
    first = {
        "actor": (actor_network(Sac(), ant), 111),
        "actor that sees the domain": (actor_network(Sac(domain_input="flag"), ant), 112),
        "critic": (critic_network(Sac(), ant), 111 + 8),
        "f": (encoders.f, 111),
        "g": (encoders.g, 256 + 8),  # sees a code, not the observation
        "g of PAR-B": (others.g, 111 + 8),
    }
    for name, (network, fan_in) in first.items():
        largest = np.abs(bounds(network)[0][1]).max()
        assert 0.98 / np.sqrt(fan_in) < largest <= 1 / np.sqrt(fan_in), name


def test_a_residual_networks_weights_start_normal_as_he_has_them_its_ends_smaller_and_biases_at_zero():
    network = residual((60, 64, 64, 40), 60)
    inner = [2 / fan_in for _ in "12" for fan_in in (64, 256)]
    expected = [1 / 60, *inner, 1 / 64]
    made = network.init(jax.random.key(0))
    found = [array for array in made if array.ndim == 2]
    for weight, variance in zip(found, expected, strict=True):
        assert abs(weight.var() / variance - 1) < 6 * np.sqrt(2 / weight.size)
        assert abs((np.abs(weight) > 2 * weight.std()).mean() - 0.0455) < 0.01  # a Gaussian's tails
    norms = 3
    assert sum(np.array_equal(array, np.ones_like(array)) for array in made) == norms
    zeros = [array for array in made if np.array_equal(array, np.zeros_like(array))]
    assert len(zeros) == norms + len(expected)


@pytest.mark.parametrize("norm", ["before", "after"])
def test_a_layer_norm_starts_with_scale_one_and_shift_zero(norm):
    _, _, scale, shift, _, _ = mlp((4, 6, 1), 4, norm=norm).init(jax.random.key(0))
    assert np.array_equal(scale, np.ones(6))
    assert np.array_equal(shift, np.zeros(6))


def test_the_two_domains_start_with_embeddings_of_their_own_of_length_about_one():
    table = mlp((4, 6, 1), 4).sees_domain("embedding").init(jax.random.key(0))[0]
    assert table.shape == (2, EMBEDDING)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, atol=0.5)
    assert np.abs(table[0] - table[1]).min() > 0


@pytest.mark.parametrize("domain", ["none", "flag", "embedding"])
@pytest.mark.parametrize("build", [mlp, residual], ids=["mlp", "residual"])
def test_inputs_that_only_fill_up_start_with_weights_of_zero_and_the_domains_do_not(build, domain):
    inputs = Inputs(jnp.array([1.0, 0.0, 1.0, 0.0]), jnp.asarray(2.0))
    network = build((4, 300, 1), 4).sees_domain(domain)
    weight = next(a for a in network.init(jax.random.key(0), inputs) if a.shape[-1] == 300)
    seen = np.abs(weight).max(1) > 0
    assert np.array_equal(seen, [True, False, True, False, *[True] * (len(weight) - 4)])
    fan_in = len(weight) - 2
    if build is mlp:
        assert 0.95 / np.sqrt(fan_in) < np.abs(weight).max() <= 1 / np.sqrt(fan_in)
    else:
        assert abs(weight[seen].var() * fan_in - 1) < 0.2


@pytest.mark.parametrize(
    "sac",
    [Sac(critic_widths=(8, 8)), Sac(backbone="ensemble", critics=10, critic_widths=(8, 8))],
    ids=["classic", "ensemble"],
)
def test_critics_start_apart_and_their_targets_equal_to_them(sac):
    agent = jax.jit(core.init, static_argnums=2)(jax.random.key(0), sac, ROBOTS["hopper"].spec)
    for array, target in zip(agent.critic.value, agent.target_critic, strict=True):
        assert len(array) == sac.critics
        assert np.array_equal(array, target)
    for weight in (array for array in agent.critic.value if array.ndim == 3):
        assert len({float(one[0, 0]) for one in weight}) == sac.critics
        assert not np.isclose(weight[0], weight[1], rtol=1e-6, atol=0).any()


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("bound", [None, 0.5])
def test_descent_is_torchs_adam_step_by_step_and_adamw_where_parameters_decay(bound, decay):
    generator = np.random.default_rng(2)
    scale = 10.0 ** generator.integers(-3, 3, 6)  # gradients of very different sizes
    start = generator.normal(size=6)
    with jax.enable_x64(True):
        trained, reference = fresh(jnp.asarray(start)), Adam(start, 0.01, decay)
        down = jax.jit(lambda trained: descend(lambda v: ((scale * v**2).sum(), None), trained, 0.01, bound, decay))
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


@pytest.mark.parametrize("build", [mlp, residual], ids=["mlp", "residual"])
def test_half_precision_moves_values_and_gradients_by_its_roundings_alone_and_gives_float32(build):
    exact = build((23, 64, 64, 4), 23)
    half = exact._replace(rounds=True)
    parameters, x = exact.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (32, 23))

    def loss(parameters, network):
        return jnp.square(network.apply(parameters, x) - 1.0).mean()

    expected, ours = exact.apply(parameters, x), half.apply(parameters, x)
    assert ours.dtype == jnp.float32
    error = np.abs(ours - expected).max() / np.abs(expected).max()
    assert 1e-4 < error < 0.02  # bfloat16 has 8 bits: a relative 2^-9, some layers and many terms
    slopes = [jax.grad(loss)(parameters, network) for network in (half, exact)]
    for slope, wanted in zip(*slopes, strict=True):
        assert slope.dtype == jnp.float32
        cosine = (slope * wanted).sum() / (jnp.linalg.norm(slope) * jnp.linalg.norm(wanted))
        assert cosine > 0.995


def test_the_last_product_keeps_its_digits_in_half_precision():
    value = mlp((1, 1), 1)._replace(rounds=True).apply((jnp.array([[3.0]]), jnp.array([0.25])), jnp.array([[100.1]]))
    np.testing.assert_allclose(value, [[300.55]], rtol=1e-6)  # rounded, 300.3 is 300


@pytest.mark.parametrize("precision", ["float32", "full", "bfloat16"])
def test_actor_and_critics_round_in_half_precision_and_in_no_other(precision):
    sac, spec = Sac(precision=precision, domain_input="flag"), ROBOTS["hopper"].spec
    rounds = [build(sac, spec).rounds for build in (actor_network, critic_network)]
    assert rounds == [precision == "bfloat16"] * 2
