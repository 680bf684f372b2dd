"""Weights & Biases beside a training: asked for or not there, without a network, and never in the training's way."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.envs import pairs
from offdyn.training import progress as mirror
from offdyn.training.config import build
from offdyn.training.run_folder import RunFolder, from_yaml, to_yaml

from . import small

BLOCK, HEADER = 32768, 7  # bytes: of a block of W&B's file, and before each piece of a record (checksum, length, kind)


@pytest.fixture(autouse=True)
def here_and_offline(monkeypatch: pytest.MonkeyPatch, shared_programs: None) -> None:
    monkeypatch.setitem(pairs.WORLDS, small.PUSH.name, small.PUSH)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(mirror, "_absent", [])


def records(path: Path) -> list[Any]:
    """What W&B wrote: a log in the format of LevelDB whose records are protocol buffers."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, piece, found = path.read_bytes(), HEADER, b"", []
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        piece += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (1, 4):  # whole, or last of several pieces
            found.append(Record.FromString(piece))
            piece = b""
    return found


def logged(folder: Path) -> list[dict[str, Any]]:
    """All lines of numbers that W&B has of a run, in order."""
    lines = []
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for record in records(path):
            if record.HasField("history"):
                items = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
                lines.append({k: v for k, v in items.items() if not k.startswith("_")})
    return lines


def test_an_offline_run_holds_the_curve_and_a_resume_goes_on_in_it(tmp_path: Path) -> None:
    runs = [small.run("sac", seed, wandb="team/project") for seed in (0, 1)]
    small.train(runs, tmp_path, stop_at=240)
    begun = time.time()
    while int(time.time()) == int(begun):  # W&B names its folders by the second
        time.sleep(0.05)
    small.resume(tmp_path)
    ids = set()
    for run in runs:
        folder = RunFolder.open(tmp_path / run.name)
        assert folder.state == "finished"
        parts = sorted(folder.path.glob("wandb/offline-run-*/run-*.wandb"))
        assert len(parts) == 2
        kept = json.loads((folder.path / "wandb.json").read_text())["id"]
        for part in parts:
            (about,) = [record.run for record in records(part) if record.HasField("run")]
            assert (about.run_id, about.entity, about.project) == (kept, "team", "project")
            assert about.display_name == run.name
        ids.add(kept)
        sent = [line for line in logged(folder.path) if "curve/updates" in line]
        expected = [{f"curve/{k}": v for k, v in line.items() if v == v} for line in folder.curve()]
        assert sent == expected
        assert len(expected) == 5
        metrics = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
        others = [line for line in logged(folder.path) if "curve/updates" not in line]
        assert others == [{f"metrics/{k}".replace(" ", "_"): v for k, v in m.items() if v is not None} for m in metrics]
        summary = [item for r in records(parts[-1]) for item in r.summary.update]
        final = json.loads((folder.path / "final.json").read_text())
        assert json.loads(next(i.value_json for i in summary if i.key == "final_mean")) == final["final_mean"]
    assert len(ids) == 2


def test_nothing_of_it_is_imported_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    small.train([small.run("sac")], tmp_path, stop_at=20)
    assert "wandb" not in sys.modules
    assert not list(tmp_path.glob("*/wandb*"))


def test_where_the_extra_is_missing_training_says_so_and_does_not_begin(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "--task", "jetpack", "--out", str(tmp_path / "out"), "--wandb", "mine"]) == 2
    assert "pip install 'offdyn[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_a_key_training_says_so_and_does_not_begin(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "_may_send", lambda wandb: False)
    assert main(["train", "--task", "jetpack", "--out", str(tmp_path / "out"), "--wandb", "mine"]) == 2
    assert "run `wandb login`, or set WANDB_MODE=offline" in capsys.readouterr().err


@pytest.mark.parametrize("project", ["a/b/c", "a:b", "/a", "a/", "a" * 129])
def test_a_project_that_cannot_be_is_refused(project: str) -> None:
    with pytest.raises(OffdynError, match="expected PROJECT or TEAM/PROJECT"):
        mirror.check_wandb([small.run("sac", wandb=project)])


class Broken:
    """A W&B in which one thing fails; notes what it was asked to do."""

    class Settings:
        model_fields: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, what: str) -> None:
        self.what, self.asked, self.lines = what, list[str](), list[dict[str, Any]]()
        self.offline, self.summary = True, {}

    def init(self, **arguments: Any) -> "Broken":
        return self._do("init")

    def log(self, numbers: dict[str, Any]) -> "Broken":
        self.lines.append(numbers)
        return self._do("log")

    def finish(self, exit_code: int) -> "Broken":
        return self._do(f"finish {exit_code}")

    def define_metric(self, *arguments: Any, **options: Any) -> None: ...

    def mark_preempting(self) -> None:
        self._do("preempting")

    def _do(self, name: str) -> "Broken":
        self.asked.append(name)
        if name.startswith(self.what):
            raise RuntimeError(f"no\n{self.what}")
        return self


def test_a_failing_wandb_costs_one_notice_and_no_training(tmp_path: Path, capsys, monkeypatch) -> None:
    broken = Broken("log")
    monkeypatch.setitem(sys.modules, "wandb", broken)
    runs = [small.run("sac", seed, wandb="mine") for seed in (0, 1)]
    small.train(runs, tmp_path)
    assert [RunFolder.open(tmp_path / run.name).state for run in runs] == ["finished"] * 2
    assert capsys.readouterr().err.count("W&B gets no more numbers") == 1
    assert broken.asked == ["init", "log"]


@pytest.mark.parametrize("what", ["init", "log", "finish"])
def test_whatever_fails_is_said_and_the_runs_files_are_whole(what: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", Broken(what))
    config = build("jetpack", "sac", settings={"wandb": "mine"})[0]
    folder = RunFolder.begin(tmp_path / config.name, config)
    folder.write_json("provenance.json", {"format": 1, "state": "finished"})
    for clock in (10, 20):
        folder.append_metrics(clock, {"loss": 1.0})
    folder.close()
    assert len((folder.path / "metrics.jsonl").read_text().splitlines()) == 2
    said = capsys.readouterr().err
    assert said.count("W&B") == 1
    assert f"(RuntimeError: no {what}); the training goes on" in said


@pytest.mark.parametrize(
    ("state", "told"),
    [("finished", ["finish 0"]), ("failed", ["finish 1"]), ("stopped", ["preempting", "finish 75"])],
)
def test_wandb_is_told_how_a_run_ended(state: str, told: list[str], tmp_path: Path, monkeypatch) -> None:
    broken = Broken("nothing")
    monkeypatch.setitem(sys.modules, "wandb", broken)
    config = build("jetpack", "sac", settings={"wandb": "mine"})[0]
    folder = RunFolder.begin(tmp_path / config.name, config)
    folder.append_metrics(10, {"loss": 1.0})
    failure = {"failure": {"quantity": "critic loss", "step": 10}} if state == "failed" else {}
    folder.write_json("provenance.json", {"format": 1, "state": state, **failure})
    folder.close()
    assert broken.asked == ["init", "log", *told]


def test_after_a_crash_the_numbers_that_wandb_may_lack_are_sent_again(tmp_path: Path, monkeypatch) -> None:
    config = build("jetpack", "sac", settings={"wandb": "mine"})[0]
    folder = RunFolder.begin(tmp_path / config.name, config)
    monkeypatch.setitem(sys.modules, "wandb", Broken("nothing"))
    folder.append_curve({"target_steps": 1, "normalised": None})
    folder.append_metrics(10, {"a loss": 1.0})  # and then it dies
    after = Broken("nothing")
    monkeypatch.setitem(sys.modules, "wandb", after)
    again = RunFolder.open(folder.path)
    again.append_metrics(20, {"a loss": 2.0})
    assert after.lines == [
        {"curve/target_steps": 1.0},
        {"metrics/source_steps": 10, "metrics/a_loss": 1.0},
        {"metrics/source_steps": 20, "metrics/a_loss": 2.0},
    ]


def test_watching_changes_neither_the_runs_name_nor_its_program() -> None:
    watched, plain = small.run("sac", wandb="mine"), small.run("sac")
    assert watched.name == plain.name
    assert watched.cohort_key() == plain.cohort_key()
    assert watched.computes_as(plain)
    assert from_yaml(to_yaml(watched), Path("config.yaml")).schedule.wandb == "mine"
