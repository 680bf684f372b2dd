"""A real machine as the target: it may fail in mid-episode or take the whole process with it, and nothing is lost."""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from offdyn import OffdynError
from offdyn.cli.main import main
from offdyn.data.datasets import full_card, open_dataset
from offdyn.data.datasets.target_log import TargetLog, read
from offdyn.data.doctor import diagnose_dataset, fatal

tiny = importlib.import_module("tests.custom.tiny")
Failing = tiny.environments.Failing
REAL = {"target": tiny.named("failing"), "eval_episodes": 0, "eval_source_episodes": 0, "final_episodes": 0}


@pytest.fixture(autouse=True)
def whole(monkeypatch):
    """The target works, and has not made a step yet."""
    monkeypatch.setattr(Failing, "steps", 0)
    monkeypatch.setattr(Failing, "broken_at", None)
    monkeypatch.setattr(Failing, "how", "raise")
    monkeypatch.setattr(Failing, "each", False)


def follow_each_other(rows) -> np.ndarray:
    """[n - 1] whether each row goes on where the one before it ended."""
    return (rows.observation[1:] == rows.next_observation[:-1]).all(axis=1)


@pytest.mark.parametrize(("how", "words"), [("raise", "RuntimeError: motor 3 stalled"), ("nan", "not finite")])
@pytest.mark.parametrize("mode", ["steps", "episodic"])
def test_a_target_that_fails_costs_nothing_but_its_episode(tmp_path, how, words, mode):
    Failing.how, Failing.broken_at = how, 24  # at source step 240, where an evaluation is due, too
    log = tmp_path / "log"
    why, watcher = tiny.fails(tmp_path / "runs", **REAL, target_log=str(log), target_mode=mode)
    assert words in why
    assert any(words in text and "Nothing that was done before is lost" in text for text in watcher.said)
    (file,) = log.glob("*.safetensors")
    assert len(open_dataset(file)) == 24
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run) == (480, 48, 445)
    assert Failing.steps == 48  # none was made twice
    rows = open_dataset(file)
    assert len(rows) == 48
    assert rows.truncated[23] or rows.terminated[23]
    ended = rows.terminated | rows.truncated
    assert (follow_each_other(rows) == ~ended[:-1]).all()
    assert not fatal(diagnose_dataset(rows))
    assert main(["check", str(file)]) == 0
    assert [line["source_steps"] for line in run.curve()] == [0, 120, 240, 360, 480]


def test_a_failure_in_an_evaluation_says_so_and_one_in_training_does_not(tmp_path):
    Failing.each, Failing.broken_at = True, 20  # of the 34 of the first evaluation; training waits for it after 12
    why, _ = tiny.fails(tmp_path / "evaluation", **REAL | {"eval_episodes": 2})
    assert re.match(r"in an evaluation: target .*, step \d of episode 2: RuntimeError: motor 3 stalled", why)
    (run,), _ = tiny.resume(tmp_path / "evaluation")
    assert tiny.counts(run)[1] == 48
    Failing.each, Failing.broken_at = True, 20
    why, _ = tiny.fails(tmp_path / "training", **REAL)
    assert why.startswith("target ")


def test_without_a_log_a_failing_target_costs_nothing_either(tmp_path, capsys):
    Failing.broken_at = 13
    tiny.fails(tmp_path / "runs", **REAL)
    assert main(["resume", str(tmp_path / "runs")]) == 0
    assert Failing.steps == 48


def test_the_command_line_says_why_it_stopped_and_how_to_go_on(tmp_path, capsys):
    Failing.broken_at = 0
    settings = [f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
                for name, value in (tiny.SETTINGS | REAL).items() if name != "target"]  # fmt: skip
    asked = [
        "--source",
        tiny.named("source"),
        "--target",
        REAL["target"],
        "--method",
        "sac",
        "--out",
        str(tmp_path / "r"),
    ]
    assert main(["train", *asked, "--set", *settings]) == 75
    said = capsys.readouterr().err
    assert "step 1 of episode 1: RuntimeError: motor 3 stalled" in said
    assert f"offdyn resume {tmp_path / 'r'}" in said


KILLED = """
import os, signal, importlib
from pathlib import Path
tiny = importlib.import_module("tests.custom.tiny")
kind, step = tiny.environments.Failing, tiny.environments.Failing.step
def fatal_step(self, action):
    if kind.steps == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, action)
kind.step = fatal_step
tiny.train(Path({out!r}), target=tiny.named("failing"), eval_episodes=0, eval_source_episodes=0, target_log={log!r},
           final_episodes=0)
"""


def test_kill_9_loses_at_most_the_target_step_under_way(tmp_path):
    out, log = tmp_path / "runs", tmp_path / "log"
    program = KILLED.format(out=str(out), log=str(log))
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    (file,) = log.glob("*.steps")
    before = open_dataset(file)
    assert len(before) == 30
    (run,), watcher = tiny.resume(out)
    assert any("taken from there, not made again" in text for text in watcher.said)
    assert Failing.steps == 48 - 30
    assert tiny.counts(run) == (480, 48, 445)
    rows = open_dataset(file)
    assert len(rows) == 48
    np.testing.assert_array_equal(rows.observation[:30], before.observation)
    assert rows.truncated[29] or rows.terminated[29]


def test_before_the_first_checkpoint_the_log_alone_saves_the_target_steps(tmp_path):
    Failing.broken_at = 21
    tiny.fails(tmp_path / "runs", **REAL, target_log=str(tmp_path / "log"))
    for cohort in (tmp_path / "runs" / "cohorts").iterdir():  # as if it had been killed before
        for manifest in cohort.glob("manifest*.json"):
            manifest.unlink()
        for step in cohort.glob("step-*"):
            shutil.rmtree(step)
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run) == (480, 48, 445)
    assert Failing.steps == 48
    # What an interrupted episode gained so far is no return.
    rows = open_dataset(next((tmp_path / "log").glob("*.steps")))
    whole = [
        (first, end)
        for first, end in rows.episodes()
        if end != 21 and rows.terminated[end - 1] | rows.truncated[end - 1]
    ]
    gained = [rows.reward[first:end].sum() for first, end in whole]
    np.testing.assert_allclose(tiny.read(run, "final.json")["final_returns"], gained[-10:], rtol=1e-5)


def test_half_a_row_is_no_row(tmp_path):
    log = TargetLog(path := tmp_path / "a.steps", (2, 1), {"name": "a", "action_low": [-1], "action_high": [1]})
    for number in range(3):
        log.append(np.full(2, number), np.zeros(1), 0.5, np.full(2, number + 1), False, False)
    log.close()
    with open(path, "ab") as file:
        file.write(b"\0\0\0\0\0")
    assert len(open_dataset(path)) == 3
    again = TargetLog(path, (2, 1), {})
    again.cut()
    again.append(np.zeros(2), np.zeros(1), 1.5, np.ones(2), True, False)
    again.publish()
    again.close()
    rows = open_dataset(tmp_path / "a.safetensors")
    assert rows.reward.tolist() == [0.5, 0.5, 0.5, 1.5]
    assert rows.truncated.tolist() == [False, False, True, False]
    assert read(path).terminated.tolist() == [False, False, False, True]


def test_only_episodes_that_ended_are_counted_as_episodes(tmp_path):
    card = {"name": "a", "action_low": [-1], "action_high": [1]}

    def add(*ends: tuple[bool, bool]) -> list[object]:
        log = TargetLog(tmp_path / "a.steps", (2, 1), card)
        log.cut()
        for number, end in enumerate(ends):
            log.append(np.full(2, number), np.zeros(1), 1.0, np.full(2, number + 1), *end)
        log.publish()
        log.close()
        cards = [full_card(open_dataset(tmp_path / f"a{suffix}")) for suffix in (".steps", ".safetensors")]
        assert cards[0]["episodes"] == cards[1]["episodes"]
        return [cards[1][name] for name in ("steps", "episodes", "return_mean")]

    still, end, limit = (False, False), (True, False), (False, True)
    assert add(still, still) == [2, 0, None]  # open
    assert add(still, end, still) == [5, 1, 2.0]  # what was open is cut, and another is open
    assert add(still, still, limit, still) == [9, 2, 2.5]
    rows = open_dataset(tmp_path / "a.safetensors")
    assert rows.truncated.tolist() == [False, True, False, False, True, False, False, True, False]
    assert rows.card["cut_by_stops"] == [1, 4]
    assert rows[3:].card["cut_by_stops"] == [1]


def test_a_log_is_never_mixed_with_another_trainings(tmp_path):
    tiny.train(tmp_path / "runs", **REAL, target_log=str(tmp_path / "log"))
    with pytest.raises(OffdynError, match="exists already: choose another --target-log"):
        tiny.train(tmp_path / "others", **REAL, target_log=str(tmp_path / "log"))


def test_a_log_that_lost_rows_is_not_gone_on_with(tmp_path):
    Failing.broken_at = 21
    tiny.fails(tmp_path / "runs", **REAL, target_log=str(tmp_path / "log"))
    (file,) = (tmp_path / "log").glob("*.steps")
    with open(file, "rb+") as opened:
        opened.truncate(file.stat().st_size - 200)
    with pytest.raises(OffdynError, match="put the whole log back, or move it away"):
        tiny.resume(tmp_path / "runs")
    file.rename(tmp_path / "elsewhere")
    tiny.resume(tmp_path / "runs")
    assert len(open_dataset(file)) == 48 - 21
