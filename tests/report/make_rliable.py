"""Makes rliable.json: what rliable says about a fixed matrix of scores, for test_rliable.py to compare with.

Once, in an environment to throw away, with Python 3.11:

    python -m venv throwaway
    throwaway/bin/pip install rliable==1.2.0 arch==7.2.0 pandas==2.3.3 "numpy<2.3"
    throwaway/bin/python tests/report/make_rliable.py
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rliable import library, metrics

RESAMPLES = 20000
THRESHOLDS = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2]


def scores(seed: int, runs: int, lift: float) -> np.ndarray:
    """[runs, tasks]: four unlike tasks, one skewed, one with stuck runs; rounded, so that some runs tie."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(0.5 + lift, 0.2, runs),
        rng.normal(0.9, 0.1, runs),
        rng.exponential(0.4, runs) + lift,
        np.where(rng.random(runs) < 0.3, 0.05, rng.normal(0.8 + lift, 0.15, runs)),
    ]
    return np.round(np.stack(columns, axis=1), 2)


def all_averages(runs: np.ndarray) -> np.ndarray:
    return np.array(
        [
            metrics.aggregate_mean(runs),
            metrics.aggregate_median(runs),
            metrics.aggregate_iqm(runs),
            metrics.aggregate_optimality_gap(runs),
        ]
    )


def improvement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.array([metrics.probability_of_improvement(first, second)])


def main() -> None:
    first, second = scores(1, runs=10, lift=0.15), scores(2, runs=7, lift=0.0)
    np.random.seed(0)  # noqa: NPY002  rliable draws from NumPy's global generator
    names = ["mean", "median_task", "iqm", "optimality_gap"]
    values, intervals = library.get_interval_estimates({"x": first, "y": second}, all_averages, reps=RESAMPLES)
    better, better_interval = library.get_interval_estimates({"xy": [first, second]}, improvement, reps=RESAMPLES)
    profile, band = library.create_performance_profile({"x": first}, THRESHOLDS, reps=2000)
    found = {
        "versions": {name: version(name) for name in ("rliable", "arch", "pandas", "numpy", "scipy")},
        "scores": {"x": first.tolist(), "y": second.tolist()},
        "averages": {
            method: {
                name: {"value": values[method][k], "interval": intervals[method][:, k].tolist()}
                for k, name in enumerate(names)
            }
            for method in "xy"
        },
        "probability_of_improvement": {"value": better["xy"][0], "interval": better_interval["xy"][:, 0].tolist()},
        "performance_profile": {
            "thresholds": THRESHOLDS,
            "value": profile["x"].tolist(),
            "interval": band["x"].tolist(),
        },
    }
    Path(__file__).with_name("rliable.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
