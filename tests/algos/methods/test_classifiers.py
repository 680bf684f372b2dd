"""The domain classifiers: what they converge to where the dynamics are known, and their loss against NumPy."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.algos.common import classifiers, scaling
from offdyn.algos.common.classifiers import Classifiers, Hyper, Networks
from offdyn.algos.networks import Trained
from offdyn.data.replay import Replay

from ...probes import small_spec
from ..core.in_numpy import Net, flat, slope
from .classifier_probe import as_batch, as_rows, context, empty, gaussian, known_ratio, lane, lanes_of, trained, updated

LINE = small_spec(observation_size=1, action_size=1)
SOURCE, TARGET = gaussian(0.0, 0.3, -0.4, 0.5), gaussian(0.5, 0.0, 0.4, 0.5)
VARIANTS = {
    "joined": Hyper(),
    "separate": Hyper(join_logits=False),
    "joined, two noises": Hyper(join_same_noise=False),
}
TOLERANCE = 0.15  # of the size of the right answer

SPEC = small_spec(observation_size=3, action_size=2)
SMALL = Hyper(classifier_widths=(6, 5))


def size(x: Any) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def learn_gaussians(hyper: Hyper, noises: list[float], unit: float = 1.0) -> tuple[Classifiers, Hyper, Any]:
    """Lanes of classifiers of the two Gaussian domains, measured in this unit; large steps first, then small ones."""
    hyper = dataclasses.replace(hyper, classifier_widths=(24,), classifier_batch=256)
    rows = [unit * as_rows(domain.draw(40_000, seed)) for seed, domain in enumerate((SOURCE, TARGET))]
    learned, lanes = lanes_of(hyper, LINE, classifier_noise=noises)
    learned, notes = trained(learned, lanes, *rows, spec=LINE, rates=np.float32([1e-2] * 500 + [1e-3] * 300))
    return learned, hyper, notes


def points() -> np.ndarray:
    """(s, a, s') that no classifier was trained on."""
    return np.concatenate([domain.draw(300, 9) for domain in (SOURCE, TARGET)])


@pytest.fixture(scope="module")
def estimates(trains: None) -> dict[tuple[str, float], np.ndarray]:
    """Log ratios found by each variant at each noise."""
    found = {}
    for name, variant in VARIANTS.items():
        learned, hyper, _ = learn_gaussians(variant, [0.0, 1.0])
        for which, noise in enumerate((0.0, 1.0)):
            ctx = context(lane(learned, which), hyper, LINE)
            found[name, noise] = np.asarray(classifiers.log_ratio(as_batch(points()), ctx))
    return found


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("variant", ["joined", "separate"])
def test_classifiers_converge_to_the_known_log_ratio_of_the_densities_with_the_noise_added(estimates, variant, noise):
    right = known_ratio(SOURCE, TARGET, points(), noise)
    assert size(estimates[variant, noise] - right) < TOLERANCE * size(right)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_tolerance_tells_the_right_answer_from_likely_wrong_ones(noise):
    x = points()
    right = known_ratio(SOURCE, TARGET, x, noise)
    blurred = x + np.random.default_rng(0).normal(size=x.shape)
    wrong = {
        "sign": -right,
        "no SA term": TARGET.log_density(x, noise) - SOURCE.log_density(x, noise),
        "the other noise": known_ratio(SOURCE, TARGET, x, 1 - noise),
        "noise when scoring": known_ratio(SOURCE, TARGET, blurred, noise),
    }
    for name, answer in wrong.items():
        assert size(answer - right) > 2 * TOLERANCE * size(right), name


def test_joined_logits_with_two_noises_do_not_converge_to_that_ratio(estimates):
    right = known_ratio(SOURCE, TARGET, points(), 1.0)
    assert size(estimates["joined, two noises", 1.0] - right) > 2 * TOLERANCE * size(right)
    clean = known_ratio(SOURCE, TARGET, points())  # where there is no noise, there is no difference
    assert size(estimates["joined, two noises", 0.0] - clean) < TOLERANCE * size(clean)


def test_noise_of_one_hides_a_shift_that_is_small_in_its_unit_unless_inputs_are_standardised():
    """The same two domains in a unit in which they are twenty times smaller, like joint angles beside velocities."""
    found = {}
    for standardised in (False, True):
        learned, hyper, notes = learn_gaussians(Hyper(standardise_inputs=standardised), [1.0], unit=0.05)
        rows = as_batch(0.05 * SOURCE.draw(500, 11))
        gap = -float(classifiers.log_ratio(rows, context(lane(learned, 0), hyper, LINE)).mean())
        found[standardised] = gap, float(notes["accuracy of the SAS classifier"][0])
    known = -known_ratio(SOURCE, TARGET, SOURCE.draw(500, 11)).mean()
    assert abs(found[False][0]) < 0.05 * known
    assert found[False][1] < 0.55
    assert found[True][0] > 4 * abs(found[False][0])
    assert found[True][1] > 0.6


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def networks(hyper: Hyper, seed: int = 3) -> Networks:
    return Networks(*(net.parameters(0.6 * draw(seed + i, net.length)) for i, net in enumerate(nets(hyper))))


def nets(hyper: Hyper) -> tuple[Net, Net]:
    """SA and SAS."""
    return Net((5, *hyper.classifier_widths, 2)), Net((8, *hyper.classifier_widths, 2))


def loss_in_numpy(vector: np.ndarray, inputs: np.ndarray, noise: tuple, hyper: Hyper) -> np.ndarray:
    """Cross-entropies of softmaxes over two logits, label 0 for the first half of the rows and 1 for the second."""
    logits, labels = [], np.repeat((0, 1), len(inputs) // 2)
    sa, sas = nets(hyper)
    of_sa, of_sas = np.split(vector, [sa.length])
    logits.append(sa.apply(of_sa, inputs[:, :5] + noise[0]))
    own = sas.apply(of_sas, inputs + noise[1])
    seen = (inputs + noise[1])[:, :5] if hyper.join_same_noise else inputs[:, :5] + noise[0]
    logits.append(own + sa.apply(of_sa, seen) if hyper.join_logits else own)
    total = np.zeros(())
    for pair in logits:
        probability = np.exp(pair) / np.exp(pair).sum(1)[:, None]
        total = total - np.log(probability[np.arange(len(pair)), labels]).mean()
    return total


@pytest.mark.parametrize("variant", VARIANTS)
def test_classifier_loss_and_its_gradient_are_numpys(variant):
    hyper = dataclasses.replace(VARIANTS[variant], classifier_widths=SMALL.classifier_widths)
    inputs, noise = draw(1, 12, 8), (draw(2, 12, 5), draw(3, 12, 8))
    params = networks(hyper)
    vector = flat(jax.tree.leaves(params))
    (value, notes), gradient = jax.value_and_grad(classifiers.loss, has_aux=True)(params, inputs, noise, hyper, SPEC)
    assert np.isclose(value, loss_in_numpy(vector, inputs, noise, hyper), rtol=1e-5)
    assert np.isclose(value, notes["loss of the SA classifier"] + notes["loss of the SAS classifier"], rtol=1e-5)
    expected = slope(lambda v: loss_in_numpy(v, inputs, noise, hyper), vector)
    np.testing.assert_allclose(flat(jax.tree.leaves(gradient)), expected, rtol=1e-3, atol=1e-5)


def test_joined_logits_send_the_sas_loss_into_the_sa_network_and_separate_ones_do_not():
    inputs, nothing = draw(1, 12, 8), (np.zeros((12, 5)), np.zeros((12, 8)))

    def sas_loss(sa: Any, hyper: Hyper) -> Any:
        params = networks(hyper)._replace(sa=sa)
        return classifiers.loss(params, inputs, nothing, hyper, SPEC)[1]["loss of the SAS classifier"]

    joined = flat(jax.grad(sas_loss)(networks(SMALL).sa, SMALL))
    apart = dataclasses.replace(SMALL, join_logits=False)
    assert np.abs(joined).max() > 1e-3
    assert np.array_equal(flat(jax.grad(sas_loss)(networks(apart).sa, apart)), np.zeros_like(joined))


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("standardised", [True, False])
def test_the_log_ratio_is_numpys_of_the_four_log_probabilities(joined, standardised):
    hyper = dataclasses.replace(SMALL, join_logits=joined)
    inputs = draw(6, 9, 8)
    scale = scaling.Scale(draw(7, 8), np.abs(draw(8, 8)) + 0.1) if standardised else None
    params = networks(hyper)
    rows = as_batch(np.zeros((9, 3)))._replace(
        observation=inputs[:, :3], action=inputs[:, 3:5], next_observation=inputs[:, 5:]
    )
    learned = Classifiers(Trained(params, None), scale)
    found = classifiers.log_ratio(rows, context(learned, hyper, SPEC))
    seen = inputs if scale is None else (inputs - scale.mean) / scale.deviation
    sa, sas = (net.apply(flat(p), x) for net, p, x in zip(nets(hyper), params, (seen[:, :5], seen), strict=True))
    logs = [x - np.log(np.exp(x).sum(1))[:, None] for x in (sa, sas + sa if joined else sas)]
    expected = logs[1][:, 1] - logs[1][:, 0] - logs[0][:, 1] + logs[0][:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_accuracy_counts_the_rows_whose_domain_is_told_rightly():
    hyper = Hyper(classifier_widths=(1,), join_logits=False)
    line = small_spec(1, 1)
    # Logits (0, s) of SA, (0, -s') of SAS for positive s, s'; else (0, 0), which is never right.
    sa = np.array([[1.0], [0.0]]), np.zeros(1), np.array([[0.0, 1.0]]), np.zeros(2)
    sas = np.array([[0.0], [0.0], [1.0]]), np.zeros(1), np.array([[0.0, -1.0]]), np.zeros(2)
    inputs = np.array([[1.0, 0, 2.0], [2.0, 0, -1.0], [-1.0, 0, 1.0], [3.0, 0, 1.0]])
    _, notes = classifiers.loss(Networks(sa, sas), inputs, (np.zeros((4, 2)), np.zeros((4, 3))), hyper, line)
    assert notes["accuracy of the SA classifier"] == 1 / 4  # the last row alone: the first two are source rows
    assert notes["accuracy of the SAS classifier"] == 1 / 4  # the first


def replays() -> list[Replay]:
    """Rows far from zero, and padding of other values behind them."""
    made = []
    for seed, filled in enumerate((40, 25)):
        rows = empty(60, SPEC) + 77.0
        rows[:filled] = 3.0 + np.arange(rows.shape[1]) * draw(seed, filled, rows.shape[1])
        made.append(Replay(jnp.asarray(rows), jnp.int32(filled), None, None))
    return made


def test_a_scale_is_the_mean_and_deviation_of_the_filled_rows_of_both_replays():
    source, target = replays()
    filled = np.concatenate([np.asarray(r.packed[: int(r.size)], float) for r in (source, target)])
    filled = np.delete(filled, (5, 9), axis=1)  # reward and end are no inputs
    hyper = dataclasses.replace(SMALL, standardise_inputs=True)
    learned, _ = updated(classifiers.init(jax.random.key(0), hyper, SPEC), hyper, source, target, SPEC, 0)
    np.testing.assert_allclose(learned.scale.mean, filled.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(learned.scale.deviation, np.maximum(filled.std(0), 1e-3), rtol=1e-4)
    alone = scaling.fit(source.packed, source.size)
    np.testing.assert_allclose(alone.deviation[1:], np.asarray(source.packed[:40]).std(0)[1:], rtol=1e-4)
    np.testing.assert_allclose(alone.apply(source.packed)[:40, 1:].std(0), 1.0, rtol=1e-3)


def test_a_scale_is_fitted_at_the_first_update_and_every_250_from_then_on():
    hyper = dataclasses.replace(SMALL, standardise_inputs=True)
    start = classifiers.init(jax.random.key(0), hyper, SPEC)
    moved = {}
    for step in (0, 1, 249, 250, 251, 500):
        after, _ = updated(start, hyper, *replays(), SPEC, step)
        moved[step] = not np.array_equal(after.scale.mean, start.scale.mean)
    assert moved == {0: True, 1: False, 249: False, 250: True, 251: False, 500: True}


def test_a_constant_input_does_not_blow_up():
    scale = scaling.fit(jnp.full((10, 2), 5.0), jnp.int32(10))
    assert np.array_equal(scale.apply(jnp.full((1, 2), 5.0)), np.zeros((1, 2)))
    assert np.array_equal(scale.deviation, np.float32([1e-3, 1e-3]))


def test_classifiers_step_once_per_interval_and_notes_keep_their_mean():
    hyper = dataclasses.replace(SMALL, classifier_interval=3)
    start = classifiers.init(jax.random.key(0), hyper, SPEC)
    for step in range(5):
        found = {}
        for name, chosen in (("every third", hyper), ("every", SMALL)):
            found[name] = updated(start, chosen, *replays(), SPEC, step)
        (after, notes), (other, full) = found.values()
        weight, before = after.live.value.sas[0], start.live.value.sas[0]
        if step % 3 == 0:
            np.testing.assert_allclose(weight, other.live.value.sas[0], rtol=1e-6)
            for name, value in full.items():
                np.testing.assert_allclose(notes[name], 3 * value, rtol=1e-5)
        else:
            assert np.array_equal(weight, before)
            assert set(map(float, notes.values())) == {0.0}


def test_both_networks_start_apart_and_have_the_promised_sizes():
    learned = classifiers.init(jax.random.key(0), Hyper(classifier_widths=(32,)), SPEC)
    shapes = [[array.shape for array in net] for net in learned.live.value]
    assert shapes == [[(5, 32), (32,), (32, 2), (2,)], [(8, 32), (32,), (32, 2), (2,)]]
    assert learned.scale is None
