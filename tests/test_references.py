"""The references that scores are normalised by: ours are those that the runs and tables of results/ give."""

import csv
from collections import defaultdict
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from offdyn.envs import tasks
from offdyn.envs.tasks import TASKS, normalised, reference

RESULTS = Path(__file__).parents[1] / "results"
EIGHT = [name for name, task in TASKS.items() if reference(task)]


def lines(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


REFERENCES = {line["task"]: line for line in lines("tables/references.csv")}


@pytest.mark.parametrize("name", EIGHT)
def test_our_own_scale_is_that_of_the_table(name: str) -> None:
    said = REFERENCES[name]
    low, high = reference(TASKS[name], "measured") or (0.0, 0.0)
    assert low == float(said["low"])
    assert high == pytest.approx(float(said["high"]), abs=0.01)
    assert reference(TASKS[name]) == (float(said["published_low"]), float(said["published_high"]))


def test_a_high_reference_is_the_best_of_three_runs_and_within_nine_percent_of_the_published_one() -> None:
    finals = defaultdict(list)
    for row in lines("finals.csv"):
        if row["study"] == "references":
            finals[row["task"]].append(float(row["final_mean"]))
    assert sorted(finals) == sorted(EIGHT)
    for name, runs in finals.items():
        assert len(runs) == 3
        assert float(REFERENCES[name]["high"]) == pytest.approx(max(runs), abs=0.01)
        assert max(runs) == pytest.approx(float(REFERENCES[name]["published_high"]), rel=0.09)


def test_low_references_are_known_to_a_hundredth_of_the_published_span() -> None:
    for name in EIGHT:
        least, most = reference(TASKS[name]) or (0.0, 0.0)
        assert float(REFERENCES[name]["low_standard_error"]) < 0.01 * (most - least)


def test_a_low_reference_can_be_measured_again() -> None:
    name = "walker-no-right-thigh"  # whose random episodes are the shortest
    environment = gymnasium.make(f"offdyn/{name}-v0")
    environment.action_space.seed(0)
    returns = []
    for seed in range(200):
        environment.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert np.mean(returns) == pytest.approx(float(REFERENCES[name]["low"]), abs=4 * error)


def test_scores_can_be_on_our_own_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS["hopper-big-head"]
    (tmp_path / "scores.csv").write_text(f"# made up\ntask,low,high\n{task.name},25,2025\n")
    monkeypatch.setitem(tasks.REFERENCES, "measured", str(tmp_path / "scores.csv"))
    tasks._references.cache_clear()
    try:
        assert normalised(task, 1025.0, "measured") == 50.0
        assert normalised(TASKS["ant-short-feet"], 0.0, "measured") is None
        assert reference(task) != (25.0, 2025.0)
    finally:
        tasks._references.cache_clear()
