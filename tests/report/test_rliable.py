"""The same numbers as rliable's on a fixed matrix of scores; make_rliable.py says how rliable.json was made."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from offdyn.report.bootstrap import estimate, performance_profile
from offdyn.report.comparison import probability_of_improvement, wins
from offdyn.report.statistics import iqm, mean, median_task, optimality_gap

RLIABLE = json.loads(Path(__file__).with_name("rliable.json").read_text())
STATISTICS = {
    "mean": mean,
    "median_task": median_task,
    "iqm": iqm,
    "optimality_gap": partial(optimality_gap, optimum=1.0),
}
RESAMPLES = 20000
# The end of an interval, from 20000 resamples here and there, wanders by about 1 % of its width; five times that.
WANDER = 0.05


def scores(method: str) -> dict[str, np.ndarray]:
    return {f"task {k}": column for k, column in enumerate(np.array(RLIABLE["scores"][method]).T)}


def assert_same_interval(ours, theirs) -> None:
    assert ours == pytest.approx(theirs, abs=WANDER * (theirs[1] - theirs[0]))


@pytest.mark.parametrize("method", ["x", "y"])
@pytest.mark.parametrize("name", STATISTICS)
def test_averages_and_their_intervals_are_rliables(method, name):
    theirs = RLIABLE["averages"][method][name]
    ours = estimate(scores(method), STATISTICS[name], resamples=RESAMPLES)
    assert ours.value == pytest.approx(theirs["value"], abs=1e-12)
    assert_same_interval(ours.interval, theirs["interval"])


def test_the_probability_of_improvement_and_its_interval_are_rliables():
    pairs = [wins(scores("x")[task], scores("y")[task]) for task in scores("x")]
    assert any((pair == 0.5).any() for pair in pairs), "the matrix should have ties, to compare how they count"
    theirs = RLIABLE["probability_of_improvement"]
    ours = probability_of_improvement(scores("x"), scores("y"), resamples=RESAMPLES)
    assert ours.value == pytest.approx(theirs["value"], abs=1e-12)
    assert_same_interval(ours.interval, theirs["interval"])


def test_the_performance_profile_and_its_band_are_rliables():
    theirs = RLIABLE["performance_profile"]
    ours = performance_profile(scores("x"), theirs["thresholds"])
    assert ours.value.tolist() == pytest.approx(theirs["value"])
    # A share of 40 runs comes in steps of 0.025, and a quantile may fall on either side of one.
    assert np.abs(np.array(ours.interval) - np.array(theirs["interval"])).max() < 0.026
