"""The user's functions hear of evaluations and checkpoints; one that raises leaves a training that is saved."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import offdyn
from offdyn.training import progress
from offdyn.training.progress import Evaluated

from .small import PUSH, find_runs, outcome, small

ASKED = small("sac") | {"normalise_observations": True}


def test_both_hear_of_every_run_and_what_the_curve_says(tmp_path: Path) -> None:
    heard: list[Evaluated] = []
    saved: list[tuple[Path, int]] = []
    runs = offdyn.train(
        PUSH,
        "sac",
        seeds=[0, 1],
        out=tmp_path,
        on_evaluation=heard.append,
        on_checkpoint=lambda run, step: saved.append((run, step)),
        **ASKED,
    )
    for run in runs:
        mine = [news for news in heard if news.folder == run.path]
        lines = run.curve()
        assert [news.target_steps for news in mine] == [line["target_steps"] for line in lines] == [0, 12, 24, 36, 48]
        assert [news.target_return for news in mine] == pytest.approx([line["target_return_mean"] for line in lines])
        assert [news.source_return for news in mine] == pytest.approx([line["source_return_mean"] for line in lines])
        assert list(mine[-1].metrics) == list(lines[-1])
        assert [step for path, step in saved if path == run.path] == [10, 20, 30, 40, 48]
    shown = repr(heard[-1])
    assert shown.startswith(f"Evaluated('{heard[-1].name}', target step 48, target return ")
    assert "source return" in shown


@pytest.mark.parametrize("at", ["on_evaluation", "on_checkpoint"])
def test_one_that_raises_is_named_and_the_training_saved(at: str, tmp_path: Path) -> None:
    def plot(*about: Any) -> None:
        if at == "on_checkpoint" or about[0].target_steps >= 24:
            raise KeyError("returns")

    whole, out = tmp_path / "whole", tmp_path / "out"
    offdyn.train(PUSH, "sac", out=whole, **ASKED)
    with pytest.raises(offdyn.OffdynError, match=rf"{at}, your .*plot, raised KeyError: 'returns'.*saved at") as told:
        offdyn.train(PUSH, "sac", out=out, **{at: plot}, **ASKED)
    assert isinstance(told.value.__cause__, KeyError)
    assert [run.state for run in find_runs(out)] == ["stopped"]
    heard: list[int] = []
    (run,) = offdyn.resume(out, on_evaluation=lambda news: heard.append(news.target_steps))
    assert run.state == "finished"
    assert heard[-1] == 48
    assert outcome(out) == outcome(whole)


def test_one_that_raises_at_the_end_takes_nothing_back(tmp_path: Path) -> None:
    def at_the_end(run: Path, step: int) -> None:
        assert step < 48, "no room left"

    with pytest.raises(offdyn.OffdynError, match="at_the_end, raised AssertionError: no room left"):
        offdyn.train(PUSH, "sac", out=tmp_path, on_checkpoint=at_the_end, **ASKED)
    (run,) = find_runs(tmp_path)
    assert run.state == "finished"


def test_what_is_no_function_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(offdyn.OffdynError, match="on_evaluation: expected a function, got 'print'"):
        offdyn.train(PUSH, "sac", out=tmp_path / "out", on_evaluation="print", **ASKED)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


class Screen:
    """A notebook's front end."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, shown: dict[str, str], raw: bool, display_id: bool) -> "Screen":
        assert raw
        assert display_id
        self.texts.append("new")
        self.update(shown, raw)
        return self

    def update(self, shown: dict[str, str], raw: bool) -> None:
        self.texts.append(shown["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A Jupyter kernel, as far as it can be seen."""
    screen = Screen()
    shell = types.SimpleNamespace(get_ipython=lambda: "a shell")
    modules = {"ipykernel": shell, "IPython": shell, "IPython.display": types.SimpleNamespace(display=screen.display)}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return screen


def test_a_notebook_has_one_output_that_ends_with_every_run(
    notebook: Screen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offdyn.train(PUSH, "sac", seeds=[0, 1], out=tmp_path, **ASKED)
    printed = capsys.readouterr()
    assert "cohort 1 of 1: 2 runs of sac" in printed.out
    assert printed.err == ""
    assert notebook.texts.count("new") == 1
    assert "step 480 of 480" in notebook.texts[-1]
    assert "seed-0" in notebook.texts[-1]
    assert "seed-1" in notebook.texts[-1]


def test_a_notebook_can_be_silent(notebook: Screen, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offdyn.train(PUSH, "sac", out=tmp_path, progress=False, **ASKED)
    assert notebook.texts == []
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_where_somebody_looks_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(progress, "LiveTable", lambda details: "the live table")
    assert progress.chosen(None) == progress.chosen(True) == "the live table"
    assert isinstance(progress.chosen(False), progress.Quiet)
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: False))
    assert isinstance(progress.chosen(None), progress.Quiet)
    assert isinstance(progress.chosen(True), progress.Lines)


def test_a_terminal_is_given_back_when_nothing_can_be_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    closed: list[bool] = []
    watched = progress.Quiet()
    monkeypatch.setattr(watched, "close", lambda: closed.append(True))
    with pytest.raises(offdyn.OffdynError, match="nothing to resume"):
        offdyn.resume(tmp_path, progress=watched)
    assert closed
