"""Stuck runs: the rule of our robots' tasks, which no other environment meets, whatever its name."""

import sys
from pathlib import Path
from typing import Any

import pytest

from offdyn.report.cells import compare, reference
from offdyn.report.runs import gather
from offdyn.report.stuck import stuck_below, stuck_runs
from offdyn.report.write import write

from .made_up import make_run, make_seeds

BAD = [-900.0, -20.0, 0.0, 1000.0]  # below every level; the last as one that stands still


def custom(name: str) -> dict[str, Any]:
    """A pair of environments that nobody but its user knows."""
    names = {"source": "HalfCheetah-v5", "target": "lab.robots:Heavy"}
    seen = {"time_limit": 1000, "observation": [["", 3]], "action_low": [-1.0], "action_high": [1.0]}
    return {"name": name, **names, **seen}


CUSTOM = ["hopper-mine", "halfcheetah-of-the-lab", "walker", "HalfCheetah-v5-to-Heavy", "hopper-broken-joints"]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.parametrize("name", CUSTOM)
def test_no_run_in_a_custom_environment_is_stuck(tmp_path: Path, name: str) -> None:
    make_seeds(tmp_path, BAD, custom(name), begin=2000.0)
    (comparison,) = compare(gather([tmp_path]))
    (cell,) = comparison.cells
    assert (stuck_below(cell.row), stuck_runs(cell)) == (None, 0)
    assert reference(cell.row.task) is None


def test_a_report_on_custom_environments_does_not_speak_of_stuck_runs(tmp_path: Path) -> None:
    for name in CUSTOM:
        make_seeds(tmp_path / name, BAD, custom(name), begin=2000.0)
    write([tmp_path], tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.*"):
        assert "stuck" not in path.read_text(), path


def test_a_custom_environment_with_the_name_of_a_task_stands_in_a_row_of_its_own(tmp_path: Path) -> None:
    make_seeds(tmp_path / "ours", BAD, "hopper-broken-joints")
    make_seeds(tmp_path / "theirs", BAD, custom("hopper-broken-joints"))
    (comparison,) = compare(gather([tmp_path]))
    counted = {cell.row.task: stuck_runs(cell) for cell in comparison.cells}
    assert counted == {"hopper-broken-joints": 3 + 1, "hopper-broken-joints (custom)": 0}


def test_what_stuck_means_is_said_once(tmp_path: Path) -> None:
    for task in ("hopper-broken-joints", "halfcheetah-no-thighs"):
        make_seeds(tmp_path / "runs", BAD, task)
        make_seeds(tmp_path / "runs", BAD, task, penalty=0.0)
        make_seeds(tmp_path / "runs", BAD, task, source_data="medium")
    make_run(tmp_path / "runs", custom("hopper-mine"), final=-7.0)
    write([tmp_path / "runs"], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("A run is stuck if") == 1
    assert page.count("below 2000 on halfcheetah") == 1
