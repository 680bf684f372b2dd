"""Averages, curves and stuck runs, against numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdyn._util.errors import OffdynError
from offdyn.report.statistics import (
    area_under_curve,
    by_task,
    fewest_runs,
    iqm,
    late_mean,
    mean,
    median_steps,
    median_task,
    normalised,
    optimality_gap,
    sample_std,
    std,
    steps_to_reach,
    stuck_level,
)

TASKS = {"hopper": [10.0, 20.0, 30.0], "ant": [100.0, 300.0], "walker": [0.0]}

runs = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=12)
tasks = st.dictionaries(st.sampled_from("abcde"), runs, min_size=1)


def test_every_task_counts_the_same_in_the_mean_however_many_runs_it_has():
    assert mean(TASKS) == pytest.approx((20 + 200 + 0) / 3)


def test_the_median_is_that_of_the_tasks_means():
    assert median_task(TASKS) == 20


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7], 7),
        ([1, 2, 30], 11),  # three runs are too few to cut any
        ([1, 2, 3, 100], 2.5),
        ([5, 1, 4, 100, 2], 11 / 3),  # a quarter of five, rounded down: one at each end
        (range(1, 9), 4.5),
        ({"a": [1, 2, 3, 4], "b": [50, 60, 70, 80]}, (3 + 4 + 50 + 60) / 4),  # of all runs together, not of each task
    ],
)
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(scores, expected):
    assert iqm(scores) == pytest.approx(expected)


def test_the_optimality_gap_gives_nothing_for_being_above_the_optimum():
    assert optimality_gap([50, 250]) == pytest.approx(25)
    assert optimality_gap({"a": [0.5, 2.0], "b": [1.0]}, optimum=1.0) == pytest.approx(0.125)


def test_the_two_standard_deviations_divide_by_n_and_by_one_less():
    assert std([2, 4, 4, 4, 5, 5, 7, 9]) == 2
    assert sample_std([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx((32 / 7) ** 0.5)
    assert std([3]) == 0
    assert sample_std([3]) is None


def test_a_normalised_score_is_0_at_the_low_reference_and_100_at_the_high_one():
    assert normalised([-280.18, 7065.03], -280.18, 7065.03).tolist() == [0, 100]
    assert normalised(75, 50, 100) == 50
    with pytest.raises(OffdynError, match="low < high"):
        normalised(1, 2, 2)


@given(tasks, st.floats(0.1, 10), st.floats(-100, 100))
def test_averages_move_and_stretch_with_the_scores_and_stay_within_them(scores, stretch, shift):
    moved = {task: stretch * np.array(values) + shift for task, values in scores.items()}
    everything = np.concatenate([np.array(values) for values in scores.values()])
    for statistic in (mean, median_task, iqm):
        value = statistic(scores)
        assert statistic(moved) == pytest.approx(stretch * value + shift, abs=1e-6)
        assert everything.min() - 1e-9 <= value <= everything.max() + 1e-9


@given(tasks, st.randoms(use_true_random=False))
def test_neither_the_order_of_tasks_nor_that_of_runs_matters(scores, random):
    shuffled = {task: random.sample(values, len(values)) for task, values in reversed(list(scores.items()))}
    for statistic in (mean, median_task, iqm, optimality_gap):
        assert statistic(shuffled) == pytest.approx(statistic(scores), abs=1e-7)


def test_curves_are_averaged_point_by_point():
    curves = {"a": [[1.0, 3.0], [10.0, 30.0]], "b": [[5.0], [50.0]]}
    assert mean(curves).tolist() == [3.5, 35.0]
    assert iqm([[1, 2, 3, 100], [4, 5, 6, -100]]).tolist() == [2.5, 4.5]


def test_the_area_under_a_curve_is_its_average_height_whatever_the_spacing():
    assert area_under_curve([0, 10, 20], [0, 10, 20]) == 10
    assert area_under_curve([0, 10, 40], [8, 8, 8]) == pytest.approx(8)
    assert area_under_curve([0, 1, 4], [0, 2, 2]) == pytest.approx((1 + 6) / 4)
    assert area_under_curve([0, 10], [[0, 10], [4, 4]]).tolist() == [5, 4]


@pytest.mark.parametrize(
    ("steps", "values"), [([0], [1]), ([0, 1], [1, 2, 3]), ([0, 2, 2], [1, 2, 3]), ([0, 2, 1], [1, 2, 3])]
)
def test_a_curve_that_has_no_area_is_refused(steps, values):
    with pytest.raises(OffdynError, match="curve: expected"):
        area_under_curve(steps, values)


def test_the_steps_to_reach_a_level_are_those_of_the_first_evaluation_at_or_above_it():
    steps, values = [0, 100, 200, 300], [1, 5, 3, 9]
    assert steps_to_reach(steps, values, 5) == 100
    assert steps_to_reach(steps, values, 6) == 300
    assert steps_to_reach(steps, values, -1) == 0
    assert steps_to_reach(steps, values, 10) is None


def test_runs_that_never_arrived_are_the_slowest_of_the_median():
    assert median_steps([100, None, 300]) == 300
    assert median_steps([100, 200]) == 150
    assert median_steps([100, None, None]) is None
    assert median_steps([100, 200, None, None]) is None
    with pytest.raises(OffdynError, match="found none"):
        median_steps([])


def test_a_run_is_stuck_below_a_quarter_of_the_way_from_the_low_reference_to_the_median():
    assert stuck_level([0, 100, 400]) == 25
    assert stuck_level([-300, -100, 50], low=-300) == -250


def test_where_the_median_run_is_no_better_than_the_low_reference_all_below_it_are_stuck():
    assert stuck_level([-500, -400, 90], low=-300) == -300


@pytest.mark.parametrize("scores", [{}, [], {"a": [1, 2], "b": []}, 3.0, [1, np.nan], {"a": [1, np.inf]}])
def test_missing_and_infinite_scores_are_refused_in_words(scores):
    with pytest.raises(OffdynError, match="scores"):
        mean(scores)


def test_what_belongs_to_one_task_refuses_several():
    with pytest.raises(OffdynError, match="one task"):
        std(TASKS)


def test_the_fewest_runs_are_counted_and_tasks_sorted():
    assert fewest_runs(TASKS) == 1
    assert list(by_task(TASKS)) == ["ant", "hopper", "walker"]


def test_late_is_the_last_fifth_of_the_steps_and_the_last_evaluation_always() -> None:
    assert late_mean([0, 80, 81, 100], [1, 2, 4, 8]) == 6  # exactly four fifths are not late
    assert late_mean([0, 10, 100], [1, 2, 3]) == 3
    assert late_mean([0, 50, 100], [1, 2, 6], share=0.6) == 4
    assert late_mean([0], [7]) == 7  # tested once, before any step
    with pytest.raises(OffdynError, match="each with a value"):
        late_mean([], [])
