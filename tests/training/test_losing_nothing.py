"""Damage and full disks in the middle of a training: the resumed cohort still ends with the same bytes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.training import trainer
from offdyn.training.trainer import start

from . import small
from .full_disk import FullDisk
from .small import cohort_of, differing, outcome, resume, train
from .test_checkpoint import flip_a_bit, truncate

DAMAGE = (truncate, flip_a_bit, Path.unlink, truncate)
NEWEST = ("step-*315/state.safetensors", "step-*315/host.json", "segments/rows-00003.safetensors", "manifest.json")


def newest(out: Path, pattern: str) -> Path:
    (path,) = cohort_of(out).glob(pattern)
    return path


@pytest.mark.parametrize(("pattern", "damage"), list(zip(NEWEST, DAMAGE, strict=True)))
def test_a_resume_past_a_damaged_file_names_it_and_ends_with_the_same_bytes(
    copy: Path, undisturbed: Path, pattern: str, damage: Callable[[Path], None]
) -> None:
    path = newest(copy, pattern)
    damage(path)
    said = resume(copy).said
    assert any(str(path) in line and "using the checkpoint before it" in line for line in said)
    assert "resumed at step 300" in said
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_damage_to_both_checkpoints_is_an_error_that_changes_nothing(copy: Path) -> None:
    for path in cohort_of(copy).glob("step-*/state.safetensors"):
        truncate(path)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(OffdynError, match=r"no whole checkpoint is left: .*315/state.* is damaged.*300/state"):
        resume(copy)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_a_kill_before_the_first_checkpoint_starts_again(copy: Path, undisturbed: Path) -> None:
    for path in cohort_of(copy).iterdir():
        if path.name not in ("cohort.json", "lock"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert any("starting from the beginning" in line for line in resume(copy).said)
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_a_kill_before_the_run_folders_were_made_loses_no_run(copy: Path, undisturbed: Path) -> None:
    cohort = cohort_of(copy)
    for path in copy.iterdir():
        if path.name != "cohorts":
            shutil.rmtree(path)
    for path in cohort.iterdir():
        if path.name != "cohort.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    resume(copy)
    assert differing(outcome(undisturbed), outcome(copy)) == []


def test_only_new_rows_are_written_and_all_of_them(undisturbed: Path, stopped: Path) -> None:
    finished = [load_file(path) for path in sorted((cohort_of(undisturbed) / "segments").iterdir())]
    # The rows since the last checkpoint too, which no resume would need, but whoever keeps the replay does.
    assert [segment["source"].shape[:2] for segment in finished] == [(2, 100)] * 4 + [(2, 80)]
    assert [segment["target"].shape[:2] for segment in finished] == [(2, 10)] * 4 + [(2, 8)]
    assert [segment["source_flags"].shape for segment in finished] == [(2, 100)] * 4 + [(2, 80)]
    begun = [load_file(path) for path in sorted((cohort_of(stopped) / "segments").iterdir())]
    assert [segment["source"].shape[1] for segment in begun] == [100, 100, 100, 15]
    rows = json.loads((cohort_of(stopped) / "manifest.json").read_text())["rows"]
    assert [found["source"] for found in rows.values()] == [[0, 100], [100, 200], [200, 300], [300, 315]]
    assert [found["target"] for found in rows.values()] == [[0, 10], [10, 20], [20, 30], [30, 32]]


@pytest.fixture
def often_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows do not wait for a checkpoint: a file after every seven ticks of two lanes (360 bytes each, about)."""
    monkeypatch.setattr(trainer, "ROWS_FILE", 2_500)


@pytest.mark.usefixtures("often_written")
def test_rows_written_between_checkpoints_are_the_same_rows(tmp_path: Path, undisturbed: Path) -> None:
    train(small.two_runs(), tmp_path / "whole", keep_replay=True)
    files = [load_file(path) for path in sorted((cohort_of(tmp_path / "whole") / "segments").iterdir())]
    expected = [load_file(path) for path in sorted((cohort_of(undisturbed) / "segments").iterdir())]
    assert len(files) > 2 * len(expected)
    for name in ("source", "target", "source_flags", "target_flags"):
        one, other = (np.concatenate([part[name] for part in parts], axis=1) for parts in (files, expected))
        assert np.array_equal(one, other)
    assert differing(outcome(undisturbed), outcome(tmp_path / "whole")) == []


@pytest.mark.usefixtures("often_written")
def test_a_kill_after_rows_were_written_that_no_checkpoint_names(tmp_path: Path, undisturbed: Path) -> None:
    out = tmp_path / "out"
    train(small.two_runs(), out, stop_at=290)
    named = json.loads((cohort_of(out) / "manifest.json").read_text())
    assert named["rows"][named["segments"][-1]]["source"][1] == 290
    # What a kill at a later step leaves: files of rows that are not in the manifest, the last of them cut short.
    for number in (0, 1):
        file = cohort_of(out) / f"segments/rows-{len(named['segments']) + number:05d}.safetensors"
        file.write_bytes(b"cut short")
    resume(out)
    assert differing(outcome(undisturbed), outcome(out)) == []


@pytest.mark.usefixtures("often_written")
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_disk_that_is_full_while_rows_are_written_beside_the_training(
    share: float, tmp_path: Path, undisturbed: Path
) -> None:
    fill_up(share, writes_of_a_run(tmp_path / "counted"), tmp_path / "out", undisturbed)


def test_a_stopped_cohort_refuses_a_second_process(copy: Path) -> None:
    from offdyn.training.checkpoint import CohortFolder

    held = CohortFolder(cohort_of(copy))
    held.lock()
    with pytest.raises(OffdynError, match="another process is training here"):
        resume(copy)
    held.unlock()


def test_an_existing_run_folder_is_never_overwritten(copy: Path) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(OffdynError, match=r"exists already: continue it with `offdyn resume .*`, choose another"):
        start(small.two_runs()[:1], copy)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def writes_of_a_run(out: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch, None)
        train(small.two_runs(), out)
    return disk.count


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> int:
    return writes_of_a_run(tmp_path_factory.mktemp("counted") / "out")


def fill_up(share: float, writes: int, out: Path, whole: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, max(1, round(share * writes)))
        with pytest.raises(OffdynError, match="No space left on device") as told:
            train(small.two_runs(), out)
    if "nothing was started" in str(told.value):
        train(small.two_runs(), out)
    else:
        assert f"make room and continue with `offdyn resume {out}`" in str(told.value)
        resume(out)
    assert differing(outcome(whole), outcome(out)) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.55, 0.95])
def test_a_full_disk_loses_nothing(share: float, writes: int, tmp_path: Path, undisturbed: Path) -> None:
    fill_up(share, writes, tmp_path / "out", undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("share", [number / 23 for number in range(1, 23)])
def test_a_full_disk_at_any_moment_loses_nothing(share: float, writes: int, tmp_path: Path, undisturbed: Path) -> None:
    fill_up(share, writes, tmp_path / "out", undisturbed)
