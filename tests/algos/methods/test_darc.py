"""DARC and DARC-weight: what they do to source rows, from when on, and that they do nothing where there is no shift."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn._util.types import Batch
from offdyn.algos import darc
from offdyn.algos.common import classifiers
from offdyn.algos.common.classifiers import Classifiers, Networks
from offdyn.algos.networks import Trained
from offdyn.algos.registry import METHODS
from offdyn.data.replay import Replay, unpack
from offdyn.training.config import build
from offdyn.training.preparation import group, methods_of

from ...probes import HALF_FLIPPED, SAME, learn, programs_of, random_rows, short_run, small_spec
from ..core.in_numpy import Net, flat
from .classifier_probe import context, lane, lanes_of, trained, updated

SPEC = small_spec(observation_size=3, action_size=2)
HYPER = {
    "darc": darc.Hyper(classifier_widths=(6,), penalty=0.7, warm_up=100),
    "darc-weight": darc.Hyper(classifier_widths=(6,), penalty=0.0, warm_up=100, weight_low=0.3, weight_high=1.5),
}
every_method = pytest.mark.parametrize("method", HYPER)
TASK = "walker-no-right-thigh"


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def rows(count: int = 40) -> Batch:
    columns = draw(1, count, 3), np.tanh(draw(2, count, 2)), draw(3, count), draw(4, count, 3)
    return Batch(*(column.astype(np.float32) for column in (*columns, np.zeros(count), np.ones(count))))


def known_classifiers(hyper: Any) -> tuple[Classifiers, np.ndarray]:
    """Classifiers of given weights, and their log ratio of the rows in NumPy, by way of probabilities."""
    nets = [Net((inputs, *hyper.classifier_widths, 2)) for inputs in (5, 8)]
    vectors = [0.7 * draw(20 + i, net.length) for i, net in enumerate(nets)]
    batch = rows()
    inputs = np.hstack((batch.observation, batch.action, batch.next_observation))
    sa, own = (
        net.apply(vector, inputs[:, : net.sizes[0]].astype(float)) for net, vector in zip(nets, vectors, strict=True)
    )
    p_sa, p_sas = (np.exp(x) / np.exp(x).sum(1)[:, None] for x in (sa, sa + own))
    ratio = np.log(p_sas[:, 1] / p_sas[:, 0]) - np.log(p_sa[:, 1] / p_sa[:, 0])
    made = Networks(*(net.parameters(vector) for net, vector in zip(nets, vectors, strict=True)))
    return Classifiers(Trained(made, None), None), ratio


def corrected(method: str, step: int, hyper: Any = None) -> tuple[Batch, dict, np.ndarray]:
    hyper = HYPER[method] if hyper is None else hyper
    learned, ratio = known_classifiers(hyper)
    batch, notes = METHODS[method].correct(rows(), context(learned, hyper, SPEC, step=step))
    return batch, {name: float(value) for name, value in notes.items()}, ratio


def test_darc_adds_the_weighted_log_ratio_to_source_rewards_and_notes_what_it_deducted():
    batch, notes, ratio = corrected("darc", step=100)
    np.testing.assert_allclose(batch.reward, rows().reward + 0.7 * ratio, rtol=1e-3, atol=1e-4)
    assert np.isclose(notes["reward penalty"], -0.7 * ratio.mean(), rtol=1e-3)
    assert np.isclose(notes["dynamics gap"], -ratio.mean(), rtol=1e-3)
    assert np.isclose(notes["source reward size"], np.abs(rows().reward).mean())
    assert np.array_equal(batch.weight, np.ones(40))


def test_darc_weight_weighs_source_rows_by_the_clipped_ratio_and_leaves_rewards_alone():
    batch, notes, ratio = corrected("darc-weight", step=100)
    expected = np.minimum(np.maximum(np.exp(ratio), 0.3), 1.5)
    assert set(expected) > {0.3, 1.5}  # some weights are clipped at either end, others not at all
    assert len(set(expected)) > 5
    np.testing.assert_allclose(batch.weight, expected, rtol=1e-3)
    assert np.array_equal(batch.reward, rows().reward)
    assert np.isclose(notes["mean weight of source transitions"], expected.mean(), rtol=1e-3)
    share = expected.sum() ** 2 / (40 * (expected**2).sum())
    assert 0.1 < share < 0.95
    assert np.isclose(notes["effective sample size"], share, rtol=1e-3)


@every_method
def test_nothing_is_corrected_before_the_warm_up_ends(method):
    batch, notes, ratio = corrected(method, step=99)
    assert np.array_equal(batch.reward, rows().reward)
    assert np.array_equal(batch.weight, rows().weight)
    nothing = {"darc": {"reward penalty": 0.0}}.get(method, {"mean weight of source transitions": 1.0})
    assert nothing.items() <= notes.items()
    assert np.isclose(notes["dynamics gap"], -ratio.mean(), rtol=1e-3)  # which is watched all the same
    assert METHODS[method].hyper().warm_up == 100_000


def test_classifiers_learn_from_the_first_update_on():
    hyper = darc.Hyper(classifier_widths=(6,), classifier_batch=8)
    start = classifiers.init(jax.random.key(0), hyper, SPEC)
    replays = [Replay(draw(seed, 30, 10).astype(np.float32), np.int32(30), None, None) for seed in (1, 2)]
    after, _ = updated(start, hyper, *replays, SPEC, 0)
    pairs = zip(jax.tree.leaves(after.live.value), jax.tree.leaves(start.live.value), strict=True)
    assert min(np.abs(new - old).max() for new, old in pairs) > 1e-4


@pytest.fixture(scope="module")
def course(trains: None) -> dict[str, Any]:
    """Classifiers of a pair without shift and of one whose target pushes backwards on half of the plane."""
    hyper = classifiers.Hyper(classifier_widths=(32,), classifier_batch=128)
    found = {}
    for name, world in (("same", SAME), ("flipped", HALF_FLIPPED)):
        stored = [random_rows(world, role, 4000, seed) for seed, role in enumerate(("source", "target"))]
        learned, lanes = lanes_of(hyper, world.spec, classifier_noise=[0.2])
        learned, notes = trained(
            learned, lanes, *stored, spec=world.spec, rates=np.float32([1e-2] * 500 + [1e-3] * 300)
        )
        fresh = unpack(random_rows(world, "source", 1000, seed=7), world.spec)
        found[name] = lane(learned, 0), fresh, lane(notes, 0)
    return found


def test_darcs_correction_goes_to_zero_where_there_is_no_shift_and_not_where_there_is(course):
    hyper = darc.Hyper(classifier_widths=(32,), penalty=1.0)
    sizes = {}
    for name, (learned, fresh, _) in course.items():
        batch, _ = METHODS["darc"].correct(fresh, context(learned, hyper, SAME.spec, step=hyper.warm_up))
        sizes[name] = np.abs(np.asarray(batch.reward - fresh.reward))
    flipped = np.asarray(course["flipped"][1].observation)[:, 0] > 0
    assert sizes["same"].mean() < 0.1
    assert sizes["flipped"][flipped].mean() > 1.0
    batch, notes = METHODS["darc"].correct(
        course["flipped"][1], context(course["flipped"][0], hyper, SAME.spec, step=hyper.warm_up)
    )
    assert notes["reward penalty"] > 0.5  # deducted, not added


def test_darc_weights_go_to_one_where_there_is_no_shift_and_not_where_there_is(course):
    hyper = darc.Hyper(classifier_widths=(32,), penalty=0.0, weight_low=1e-4, weight_high=10.0)
    found = {}
    for name, (learned, fresh, _) in course.items():
        batch, notes = METHODS["darc-weight"].correct(fresh, context(learned, hyper, SAME.spec, step=hyper.warm_up))
        found[name] = np.asarray(batch.weight), float(notes["effective sample size"])
    flipped = np.asarray(course["flipped"][1].observation)[:, 0] > 0
    assert np.abs(found["same"][0] - 1).mean() < 0.1
    assert found["same"][1] > 0.97
    assert np.median(found["flipped"][0][flipped]) < 0.3
    assert found["flipped"][1] < 0.8


def test_accuracies_are_chance_where_there_is_no_shift_and_sas_alone_is_better_where_there_is(course):
    accuracy = {
        (name, which): float(notes[f"accuracy of the {which} classifier"])
        for name, (_, _, notes) in course.items()
        for which in ("SA", "SAS")
    }
    assert abs(accuracy["same", "SA"] - 0.5) < 0.05
    assert abs(accuracy["same", "SAS"] - 0.5) < 0.05
    assert abs(accuracy["flipped", "SA"] - 0.5) < 0.05
    assert accuracy["flipped", "SAS"] > 0.6


@pytest.mark.parametrize(
    ("weight", "share"), [([1, 1, 1, 1], 1.0), ([0, 0, 5, 0], 0.25), ([3, 1, 0, 0], 0.4), ([0, 0, 0, 0], 0.0)]
)
def test_effective_sample_size_of_known_weights(weight, share):
    for unit in (1.0, 1e-6, 1e25):  # squares of the last overflow a float32
        assert np.isclose(darc.effective_share(unit * np.float32(weight)), share)


def test_a_task_outside_the_table_gets_one_and_a_notice_unless_the_user_chose():
    config, notices = build(SAME, "darc")
    assert config.hyper.penalty == 1.0
    assert len(notices) == 1
    assert "penalty=1.0" in notices[0]
    assert build(SAME, "darc", settings={"penalty": 0.3})[1] == []
    assert build(SAME, "darc", "original")[1] == build(SAME, "darc-weight")[1] == []


@every_method
def test_critics_learn_from_source_rows_alone_where_asked_but_both_domains_are_collected(method):
    assert build(TASK, method, settings={"learns_from": "source"})[0].schedule.learns_from == "source"
    with pytest.raises(OffdynError, match="compares the two domains"):
        build(TASK, method, settings={"learns_from": "source", "collects": "source"})


def test_both_methods_share_a_program_and_each_learns_what_it_learns_alone(trains):
    shared = {"warm_up": 20, "classifier_noise": 0.3, "classifier_batch": 16, "batch_size": 16}
    runs = [short_run(HALF_FLIPPED, method, **shared) for method in HYPER]
    assert len(group(runs)) == 1
    assert methods_of(runs) == "darc and darc-weight"
    rows = [random_rows(HALF_FLIPPED, role, 200, seed=1)[None] for role in ("source", "target")]

    def learned(runs: list[Any]) -> list[np.ndarray]:
        programs, lanes = programs_of(runs, updates=60)
        lanes = learn(programs, lanes, runs, *(np.repeat(r, len(runs), axis=0) for r in rows), calls=1)
        return [flat(array[lane] for array in lanes.agent.critic.value) for lane in range(len(runs))]

    together, alone = learned(runs), [learned([run])[0] for run in runs]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_unclipped_weights_of_rows_that_cannot_be_stay_finite():
    hyper = dataclasses.replace(HYPER["darc-weight"], weight_low=0.0, weight_high=1e6)
    learned, _ = known_classifiers(hyper)
    wild = Networks(learned.live.value.sa, tuple(1e3 * array for array in learned.live.value.sas))
    ctx = context(Classifiers(Trained(wild, None), None), hyper, SPEC, step=100)
    batch, notes = METHODS["darc-weight"].correct(rows(), ctx)
    assert {0.0, 1e6} <= set(map(float, batch.weight))
    assert np.isfinite(list(notes.values())).all()
    assert flat([batch.weight]).sum() > 0
