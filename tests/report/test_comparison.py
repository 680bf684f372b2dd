"""Two methods compared: chances, p-values by hand, by enumeration and by SciPy, and Holm's correction."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from offdyn._util.errors import OffdynError
from offdyn.report.comparison import (
    LARGEST_EXACT,
    by_task_tests,
    compare,
    holm,
    mann_whitney,
    probability_of_improvement,
    smallest_p,
)

few_with_ties = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def test_the_probability_of_improvement_counts_pairs_of_runs_and_ties_half():
    assert probability_of_improvement([3, 4], [1, 2]).value == 1
    assert probability_of_improvement([1, 2], [1, 2]).value == 0.5
    assert probability_of_improvement([1, 5, 3], [3, 0]).value == pytest.approx((1 + 2 + 1.5) / 6)


def test_every_task_counts_the_same_in_the_probability_of_improvement():
    first = {"a": [9.0] * 10, "b": [0.0, 0.0, 0.0]}
    second = {"a": [1.0] * 10, "b": [1.0, 1.0, 1.0]}
    assert probability_of_improvement(first, second) == (0.5, (0.5, 0.5))


@given(few_with_ties, few_with_ties)
def test_what_one_method_wins_the_other_loses(first, second):
    one, other = probability_of_improvement(first, second).value, probability_of_improvement(second, first).value
    assert one + other == pytest.approx(1)
    assert mann_whitney(first, second) == pytest.approx(mann_whitney(second, first))


@given(few_with_ties, few_with_ties)
def test_the_p_value_is_the_share_of_relabellings_as_one_sided_as_the_runs(first, second):
    both = first + second

    def one_sidedness(chosen: set[int]) -> float:
        inside, outside = [both[i] for i in chosen], [both[i] for i in range(len(both)) if i not in chosen]
        return abs(sum((x > y) - (x < y) for x in inside for y in outside))

    relabellings = [set(chosen) for chosen in combinations(range(len(both)), len(first))]
    seen = one_sidedness(set(range(len(first))))
    expected = np.mean([one_sidedness(chosen) >= seen for chosen in relabellings])
    assert mann_whitney(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 7), (5, 5), (10, 10), (9, 14), (30, 30)])
def test_the_p_value_is_scipys_where_no_runs_tie(n, m):
    rng = np.random.default_rng(n)
    for lift in (0, 0.5, 2):
        first, second = rng.normal(lift, 1, n), rng.normal(0, 1, m)
        exact = mannwhitneyu(first, second, method="exact").pvalue
        assert mann_whitney(first, second) == pytest.approx(exact, rel=1e-9)


def test_with_very_many_runs_the_approximation_meets_the_exact_value(monkeypatch):
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1, 40), rng.normal(0, 1, LARGEST_EXACT - 30)
    approximate = mann_whitney(first, second)
    monkeypatch.setattr("offdyn.report.comparison.LARGEST_EXACT", 100)
    assert approximate != mann_whitney(first, second)
    assert approximate == pytest.approx(mann_whitney(first, second), rel=0.02)


@pytest.mark.parametrize("runs", [3, LARGEST_EXACT])
def test_runs_that_are_all_equal_show_no_difference(runs):
    assert mann_whitney([5.0] * runs, [5.0] * runs) == 1


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (5, 5), (5, 10)])
def test_the_smallest_p_value_is_that_of_runs_that_do_not_overlap(n, m):
    assert smallest_p(n, m) == pytest.approx(mann_whitney(np.arange(n), 100 + np.arange(m)))


def test_five_seeds_can_never_be_significant_on_eight_tasks_and_six_can():
    assert holm([smallest_p(5, 5)] + [1.0] * 7)[0] > 0.05
    assert holm([smallest_p(6, 6)] + [1.0] * 7)[0] < 0.05


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holms_correction_keeps_the_order_and_never_helps_nor_exceeds_bonferronis(p_values):
    adjusted = holm(p_values)
    by_size = [after for _, after in sorted(zip(p_values, adjusted, strict=True))]
    assert all(smaller <= larger for smaller, larger in pairwise(by_size))
    for before, after in zip(p_values, adjusted, strict=True):
        assert before <= after <= min(1, before * len(p_values)) + 1e-12


@pytest.mark.parametrize("p_values", [[0.5, 1.2], [-0.1], [float("nan")]])
def test_holms_correction_refuses_what_is_no_p_value(p_values):
    with pytest.raises(OffdynError, match="between 0 and 1"):
        holm(p_values)


def test_each_task_has_its_row_with_the_correction_over_all_of_them():
    first = {"b": [1.0, 2.0, 3.0, 4.0, 5.0], "a": [6.0, 7.0, 8.0, 9.0, 10.0]}
    second = {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [1.5, 2.5, 3.5, 4.5]}
    a, b = by_task_tests(first, second)
    assert (a.task, a.runs, a.difference, a.improvement) == ("a", (5, 5), 5, 1)
    assert (b.task, b.runs, b.difference, b.improvement) == ("b", (5, 4), 0, 0.5)
    assert (a.p_value, b.p_value) == pytest.approx((2 / 252, 1))
    assert (a.p_holm, b.p_holm) == pytest.approx((4 / 252, 1))


def test_a_task_that_only_one_method_has_is_refused():
    with pytest.raises(OffdynError, match="runs on b, c;"):
        probability_of_improvement({"a": [1.0], "b": [1.0]}, {"a": [1.0], "c": [1.0]})


def test_methods_are_compared_two_by_two_on_the_tasks_they_share():
    methods = {
        "par": {"a": [5.0, 6.0, 7.0], "b": [1.0, 2.0, 3.0]},
        "darc": {"a": [1.0, 2.0, 3.0]},
        "sac": {"b": [0.0, 0.0, 0.0]},
    }
    rows = compare(methods, resamples=50)
    assert [(row.first, row.second, [test.task for test in row.tasks]) for row in rows] == [
        ("par", "darc", ["a"]),
        ("par", "sac", ["b"]),
    ]
    assert rows[0].improvement == (1, (1, 1))
