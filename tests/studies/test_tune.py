"""A search stays within its budget of target steps, says what it used, and after a stop is the search it was."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from offdyn._util.errors import OffdynError
from offdyn.api import plan
from offdyn.cli.main import main
from offdyn.studies import job as jobs
from offdyn.studies.tune import BEST, Range, Search, search, spent
from offdyn.training.progress import Quiet, Stop, Stopped

from ..training.small import find_runs
from .tiny import SHORT

TEMPERATURE = Range("temperature", 0.05, 0.5, log=True)


def wanted(**changes: Any) -> Search:
    return Search(**{"task": "jetpack", "ranges": (TEMPERATURE,), "budget": 240, "method": "sac", "trials": 4,
                     "rounds": 2, "settings": SHORT} | changes)  # fmt: skip


class StopOnce(Quiet):
    """Asks to stop as soon as training advances."""

    def __init__(self) -> None:
        self.stop = Stop()

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.stop.wanted = True


def test_trials_are_lanes_of_one_cohort_within_the_budget_and_a_stop_changes_nothing(tmp_path: Path) -> None:
    trials = search(wanted(), tmp_path / "whole", threads=1)
    returns = [trial.target_return for trial in trials]
    assert len(returns) == 4
    assert returns == sorted(returns, key=lambda value: -(value or 0.0))
    assert all(0.05 <= trial.values["temperature"] <= 0.5 for trial in trials)
    assert spent(tmp_path / "whole") == sum(run.provenance["target_steps"] for run in find_runs(tmp_path / "whole"))
    assert 0 < spent(tmp_path / "whole") <= 240
    assert [len(jobs.read(path).runs) for path in (tmp_path / "whole/jobs").glob("*.yaml")] == [2, 2]

    best = yaml.safe_load((tmp_path / "whole" / BEST).read_text())
    assert (best["temperature"], best["tuning_target_steps"]) == (
        trials[0].values["temperature"],
        spent(tmp_path / "whole"),
    )
    (again,), _ = plan(**best, seeds=[7])  # as `offdyn train --config` does
    assert (again.sac.temperature, again.schedule.tuning_target_steps) == (
        best["temperature"],
        spent(tmp_path / "whole"),
    )

    out = tmp_path / "stopped"
    watcher = StopOnce()
    with pytest.raises(Stopped):
        search(wanted(), out, threads=1, progress=watcher, stop=watcher.stop)
    assert search(wanted(), out, threads=1) == trials
    assert search(wanted(), out, threads=1) == trials  # nothing is left to do
    with pytest.raises(OffdynError, match="another budget"):
        search(wanted(budget=480), out)


def test_the_command_searches_on_a_custom_pair_and_its_best_is_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ["--source", "tests.custom.environments:source", "--target", "tests.custom.environments:target"]
    small = [f"{name}={value}".translate({ord(letter): "" for letter in "[]"}) for name, value in SHORT.items()]
    rest = ["--method", "sac", "--search", "temperature=0.05:0.5", "--trials", "2", "--budget-target-steps", "120"]
    asked = ["tune", *pair, *rest, "--set", *small, "--out", str(tmp_path / "out")]
    assert main(asked) == 0
    assert "train with the best" in capsys.readouterr().out
    best = str(tmp_path / "out" / BEST)
    assert main(["train", "--config", best, "--dry-run", "--out", str(tmp_path / "runs")]) == 0
    assert "source-to-target.sac" in capsys.readouterr().out
    assert main(asked) == 0
    assert main([*asked, "--time-limit", "3"]) == 2
    assert "holds a search with another task" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["penalty", "penalty=1", "penalty=1:x", "penalty=1:2:cubic", "=1:2"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OffdynError, match="expected NAME=LOW:HIGH"):
        Range.parse(text)


def test_ranges_are_read_as_they_are_written() -> None:
    assert Range.parse("penalty=0.01:5:log") == Range("penalty", 0.01, 5.0, True)
    assert Range.parse("balance=1:10") == Range("balance", 1.0, 10.0)
    with pytest.raises(OffdynError, match="lower value first"):
        Range.parse("penalty=2:1")
    with pytest.raises(OffdynError, match="more than 0"):
        Range.parse("penalty=0:1:log")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ranges": (Range("penalty", 0, 1),)}, "no scalar setting of method 'sac' 'penalty'"),
        ({"ranges": (Range("batch_size", 8, 16),)}, "no scalar setting"),
        ({"trials": 0}, "--trials: expected at least 1"),
        ({"rounds": 5}, "no more rounds than trials"),
    ],
)
def test_a_search_that_cannot_be_is_refused(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(OffdynError, match=expected):
        search(wanted(**changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_budget_shrinks_the_runs_and_one_that_is_too_small_is_refused() -> None:
    (run,) = wanted().runs({"temperature": 0.1})
    assert run.schedule.target_budget == 60
    (short,) = wanted(budget=120).runs({"temperature": 0.1})
    assert short.schedule.target_budget == 30
    with pytest.raises(OffdynError, match="too few for 4 trials"):
        wanted(budget=4).runs({"temperature": 0.1})
    with pytest.raises(OffdynError, match="takes no target steps"):
        wanted(method="sac-src").runs({"temperature": 0.1})


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["tune", "jetpack", "--search", "penalty=1", "--budget-target-steps", "10", "--out", str(tmp_path / "out")]
    assert main(asked) == 2
    assert "expected NAME=LOW:HIGH" in capsys.readouterr().err
