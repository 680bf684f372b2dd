"""What was damaged, changed by hand or crafted in a folder of runs: told, mended or refused, and never a dead end."""

import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from offdyn._util.errors import OffdynError
from offdyn.api import load_policy
from offdyn.cli.main import main
from offdyn.export.contract import stored_target_rows
from offdyn.report.runs import read_run
from offdyn.training import preparation
from offdyn.training.progress import stop_on_signals
from offdyn.training.run_folder import RunFolder

from . import small
from .small import cohort_of, differing, outcome, resume, train
from .test_checkpoint import flip_a_bit, truncate

FIRST_ROWS = "segments/rows-00000.safetensors"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_lost_transitions_are_named_and_nothing_goes_on_without_being_asked(copy: Path) -> None:
    flip_a_bit(cohort_of(copy) / FIRST_ROWS)
    before = contents(copy)
    said = r"rows-00000.* is damaged.*source transitions 0 to 99 and target transitions 0 to 9 of each run are lost"
    with pytest.raises(OffdynError, match=said + rf".*`offdyn resume {copy} --drop-damaged`"):
        resume(copy)
    assert contents(copy) == before


def test_a_training_goes_on_without_damaged_transitions_when_asked_and_says_so(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_a_bit(cohort_of(copy) / FIRST_ROWS)
    assert main(["resume", str(copy), "--drop-damaged", "--threads", "1"]) == 0
    assert "source transitions 0 to 99" in capsys.readouterr().err
    for path in copy.glob("*/provenance.json"):
        about = json.loads(path.read_text())
        assert about["state"] == "finished"
        assert about["source_steps"] == 480
        assert about["dropped_transitions"] == {"source": [[0, 100]], "target": [[0, 10]]}


def change_a_digit(path: Path) -> None:
    text = path.read_text()
    position = max(text.rfind(digit) for digit in "12345678")
    path.write_text(text[:position] + str(int(text[position]) + 1) + text[position + 1 :])


@pytest.mark.parametrize(
    ("name", "damage", "fault"),
    [
        ("curve.csv", change_a_digit, "changed"),
        ("curve.csv", truncate, "shortened"),
        ("metrics.jsonl", change_a_digit, "changed"),
        ("metrics.jsonl", Path.unlink, "missing"),
    ],
)
def test_a_damaged_record_is_kept_aside_and_written_again(
    copy: Path, undisturbed: Path, name: str, damage: Callable[[Path], None], fault: str
) -> None:
    path = sorted(copy.glob(f"*/{name}"))[0]
    damage(path)
    damaged = path.read_bytes() if path.exists() else None
    said = resume(copy).said
    assert any(f"{path} was {fault}" in line and "it is written again" in line for line in said)
    assert differing(outcome(undisturbed), outcome(copy)) == []
    asides = [aside.read_bytes() for aside in path.parent.glob(f"{path.stem}.damaged-1{path.suffix}")]
    assert asides == ([] if damaged is None else [damaged])


@pytest.mark.parametrize(
    ("moment", "command"),
    [
        ("record", "resume"),
        ("cohort folder", "train"),
        ("cohort folder", "resume"),
        ("cohort.json", "resume"),
        ("run folder", "train"),
        ("config.yaml", "resume"),
    ],
)
def test_a_kill_while_folders_are_made_leaves_what_either_command_continues(
    moment: str, command: str, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, out = small.two_runs(), tmp_path / "out"

    class Killed(BaseException):
        pass

    def dying(function: Any, before: bool) -> Any:
        def act(*arguments: Any) -> Any:
            if not before:
                function(*arguments)
            raise Killed

        return act

    def lock(folder: preparation.CohortFolder) -> None:  # which would go with a process that is killed
        (folder.path / "lock").touch()

    with monkeypatch.context() as patch:
        patch.setattr(preparation.CohortFolder, "lock", lock)
        if moment == "record":
            patch.setattr(preparation.CohortFolder, "create", dying(None, True))
        elif moment == "cohort folder":
            patch.setattr("offdyn.training.checkpoint.write_atomically", dying(None, True))
        elif moment == "cohort.json":
            patch.setattr(preparation.RunFolder, "begin", dying(None, True))
        elif moment == "run folder":
            patch.setattr("offdyn.training.run_folder.write_atomically", dying(None, True))
        else:
            patch.setattr(preparation.RunFolder, "begin", dying(preparation.RunFolder.begin, False))
        with pytest.raises(Killed):
            train(runs, out)
    if command == "train":
        train(runs, out)
    else:
        resume(out)
    assert differing(outcome(undisturbed), outcome(out)) == []


def test_a_configuration_that_was_edited_in_a_stopped_run_is_refused_with_both_values(copy: Path) -> None:
    path = sorted(copy.glob("*/config.yaml"))[1]
    said = yaml.safe_load(path.read_text())
    said["settings"]["temperature"] = 0.3
    path.write_text(yaml.safe_dump(said))
    before = contents(copy)
    with pytest.raises(OffdynError, match=r"was changed since this training began: temperature is 0\.3, was 0\.2"):
        resume(copy)
    assert contents(copy) == before
    path.unlink()
    resume(copy)
    assert RunFolder.open(path.parent).config.sac.temperature == 0.2


@pytest.mark.parametrize("begun", [True, False])
def test_a_changed_digit_in_what_says_how_to_train_is_refused(begun: bool, copy: Path) -> None:
    path = cohort_of(copy) / "cohort.json"
    text = path.read_text()
    if begun:  # killed before any run's configuration was written
        for run in [path.parent for path in copy.glob("*/config.yaml")]:
            shutil.rmtree(run)
    assert "source_envs: 5" in text
    path.write_text(text.replace("source_envs: 5", "source_envs: 4"))
    before = contents(copy)
    with pytest.raises(OffdynError, match=r"cohort\.json is damaged: its contents are not what was written"):
        resume(copy)
    assert contents(copy) == before


def test_a_configuration_that_lost_a_default_is_written_again(copy: Path, undisturbed: Path) -> None:
    path = sorted(copy.glob("*/config.yaml"))[0]
    text = path.read_text()
    path.write_text(text.replace("  gradient_clip: null\n", ""))
    resume(copy)
    assert path.read_text() == text
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_a_word_in_a_record_deletes_no_checkpoint(copy: Path, undisturbed: Path) -> None:
    for path in copy.glob("*/provenance.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "finished"}))
    assert any("lacks files that a finished or failed run leaves" in line for line in resume(copy).said)
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_a_cohort_that_names_no_runs_keeps_its_checkpoints(copy: Path) -> None:
    path = cohort_of(copy) / "cohort.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"runs": {}}))
    before = contents(copy)
    with pytest.raises(OffdynError, match=r"cohort\.json: expected the configurations of its runs by name"):
        resume(copy)
    assert contents(copy) == before


def test_a_kill_between_the_result_and_its_cleaning_up_leaves_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def die(*_: Any) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(preparation.CohortFolder, "finish", die)
        with pytest.raises(OffdynError):
            train(small.two_runs(), out)
    assert (cohort_of(out) / "manifest.json").exists()
    assert resume(out).said == []
    assert sorted(path.name for path in cohort_of(out).iterdir()) == ["cohort.json", "lock"]


def test_a_kill_between_two_results_of_a_training_without_checkpoints_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, out = [small.run("sac", seed, checkpoint_interval=10_000) for seed in (0, 1)], tmp_path / "out"
    train(runs, tmp_path / "whole")
    write = RunFolder.write_json

    def die_at_the_second(folder: RunFolder, name: str, content: Any) -> None:
        if folder.config.seed == 1 and content.get("state") == "finished":
            raise KeyboardInterrupt
        write(folder, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_json", die_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            train(runs, out)
    assert [RunFolder.open(out / run.name).state for run in runs] == ["finished", "running"]
    resume(out)
    assert [RunFolder.open(out / run.name).state for run in runs] == ["finished", "finished"]
    assert differing(outcome(tmp_path / "whole"), outcome(out)) == []


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "..", "a/b", "cohorts", "", "x\0", "x" * 300])
def test_the_name_of_a_run_leads_nowhere_else(copy: Path, name: str) -> None:
    path = cohort_of(copy) / "cohort.json"
    said = json.loads(path.read_text())
    said["runs"] = dict.fromkeys([name], next(iter(said["runs"].values())))
    path.write_text(json.dumps(said))
    before = contents(copy.parent)
    with pytest.raises(OffdynError, match=r"cohort\.json: names a run .*, which is not the name of a folder"):
        resume(copy)
    assert contents(copy.parent) == before


@pytest.mark.parametrize("file", ["../../../escaped", "segments/rows-1.safetensors"])
def test_a_manifest_whose_files_lie_elsewhere_gives_way_to_the_one_before(
    copy: Path, undisturbed: Path, file: str
) -> None:
    path = cohort_of(copy) / "manifest.json"
    said = json.loads(path.read_text())
    was = said["segments"][0]
    said["segments"][0] = file
    said["rows"][file], said["sha256"][file] = said["rows"].pop(was), said["sha256"].pop(was)
    del said["checksum"]
    said["checksum"] = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(said))
    assert any(str(path) in line and "using the checkpoint before it" in line for line in resume(copy).said)
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_a_link_in_the_place_of_a_checkpoint_goes_with_it_and_what_it_leads_to_stays(
    copy: Path, undisturbed: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept.txt").write_text("kept")
    older, _ = sorted(cohort_of(copy).glob("step-*"))
    shutil.rmtree(older)
    older.symlink_to(tmp_path / "mine")
    assert "resumed at step 315" in resume(copy).said
    assert differing(outcome(undisturbed), outcome(copy)) == []
    assert not list(cohort_of(copy).glob("step-*"))
    assert (tmp_path / "mine" / "kept.txt").read_text() == "kept"


def test_files_on_their_way_are_not_written_through_links(copy: Path, undisturbed: Path) -> None:
    kept = copy.parent / "kept.txt"
    kept.write_text("mine")
    run = sorted(path.parent for path in copy.glob("*/config.yaml"))[0]
    for place in (run / "policy.safetensors.tmp", cohort_of(copy) / "manifest.json.tmp"):
        place.symlink_to(kept)
    resume(copy)
    assert kept.read_text() == "mine"
    assert differing(outcome(undisturbed), outcome(copy)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_asks_a_training_to_save_itself(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    set_here = {}
    monkeypatch.setattr(signal, "signal", lambda which, handler: set_here.__setitem__(which, handler))
    monkeypatch.setattr(signal, "getsignal", lambda which: signal.SIG_DFL)  # under nohup, too
    stop = stop_on_signals()
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    assert not stop.wanted
    set_here[number](number, None)
    assert stop.wanted


def test_nobody_waits_for_a_pipe_in_the_place_of_a_file(copy: Path) -> None:
    run = sorted(path.parent for path in copy.glob("*/config.yaml"))[0]
    for path in (run / "policy.safetensors", cohort_of(copy) / FIRST_ROWS, run / "curve.csv"):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(OffdynError, match=r"policy\.safetensors: not a readable policy .*not an ordinary file"):
        load_policy(run)
    with pytest.raises(OffdynError, match=r"rows-00000\.safetensors: not readable .*not an ordinary file"):
        stored_target_rows(RunFolder.open(run))
    assert any("curve.csv is damaged" in complaint for complaint in read_run(run).complaints)
