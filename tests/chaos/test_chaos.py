"""The chaos suite in short, and that it notices what it looks for."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from . import inputs, runner
from .__main__ import surroundings
from .runner import Case
from .suite import BAD, Suite
from .trainings import differing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def quick(shared_programs: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The programs that all tests share."""
    before = dict(os.environ)
    surroundings(Path(os.environ["JAX_COMPILATION_CACHE_DIR"]))
    yield
    os.environ.clear()
    os.environ |= before


@pytest.mark.usefixtures("quick")
def test_a_short_disturbance_finds_nothing(tmp_path: Path) -> None:
    suite = Suite(tmp_path, seed=1, seconds=0, jobs=1, say=print)
    suite.run_some({"commands": 25, "datasets": 6, "folders": 6, "kills": 1})
    assert suite.findings == []
    assert suite.totals["kills"] >= 1
    assert [suite.totals[f"{part} tried"] for part in ("commands", "datasets", "folders")] == [25, 6, 6]


def ill(draw: Random, place: Path, case: Case) -> None:
    """Case 0 is well, 1 hangs, 2 dies, 3 ends in a traceback, 4 is well."""
    if case.number == 1:
        time.sleep(60)
    if case.number == 2:
        os.kill(os.getpid(), 11)
    if case.number == 3:
        inputs.main = raising
        inputs.call(["list"], case, place)


def nothing() -> int:
    return 0


def raising(words: list[str]) -> int:
    from offdyn.cli import crash

    try:
        raise ZeroDivisionError("for this test")
    except ZeroDivisionError as error:
        return crash.report(error, words)


@pytest.mark.usefixtures("quick")
def test_hangs_deaths_and_tracebacks_are_found_and_the_cases_after_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runner.end(runner.begin(nothing, tmp_path / "said.txt")) == 0  # the server of processes is there
    monkeypatch.setattr(runner, "HANG", 8.0)
    cases = list(runner.in_processes(ill, "ill", 0, range(5), tmp_path))
    assert [[kind for kind in BAD if case.counts[kind]] for case in cases] == [
        [],
        ["hangs"],
        ["crashes"],
        ["tracebacks"],
        [],
    ]
    assert "ZeroDivisionError: for this test" in cases[3].findings[0]


def test_one_byte_more_is_a_difference() -> None:
    one: dict[str, Any] = {"a/policy.safetensors": b"12", "a files": ["x"]}
    assert differing(one, one | {"a/policy.safetensors": b"13"}) == ["a/policy.safetensors"]
    assert differing(one, {"a files": ["x"]}) == ["a/policy.safetensors"]


def test_a_case_is_the_same_whenever_it_is_drawn() -> None:
    for part in ("commands", "kills"):
        assert inputs.mutated_line(runner.draws(3, part, 7)) == inputs.mutated_line(runner.draws(3, part, 7))
    assert inputs.mutated_line(runner.draws(3, "commands", 7)) != inputs.mutated_line(runner.draws(4, "commands", 7))


def test_the_page_says_what_was_counted() -> None:
    counts = json.loads((ROOT / "results" / "tables" / "trust.json").read_text())
    page = (ROOT / "docs" / "trust.md").read_text()
    told = {
        "kills": "kills",
        "stops": "stops",
        "differ": "differing",
        "folders tried": "folders",
        "datasets tried": "datasets",
        "commands tried": "command lines",
        "starved tried": "trainings",
        "failing jobs": "failing jobs",
        "hangs": "hangs",
        "tracebacks": "traceback",
        "escapes": "changed",
    }
    for name, word in told.items():
        assert f"{counts[name]:,} {word}" in page, name
