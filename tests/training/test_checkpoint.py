"""A cohort on disk: what a crash, damage or a full disk leaves is always a whole checkpoint, or is named."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from offdyn._util.errors import OffdynError
from offdyn.training import checkpoint
from offdyn.training.checkpoint import CohortFolder

from .full_disk import FullDisk

RUNS = {"a": "config of a", "b": "config of b"}


def contents(clock: int) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    """A state, counters, and the rows that are new at this clock."""
    state = {"weights": np.full((2, 3), clock, np.float32)}
    rows = {"source": np.arange(clock - 10, clock, dtype=np.float32).reshape(1, 10, 1)}
    return state, {"clock": clock}, rows


def saved_at(path: Path, *clocks: int) -> CohortFolder:
    folder = CohortFolder.create(path, RUNS)
    for clock in clocks:
        folder.save(clock, *contents(clock))
    folder.unlock()
    return folder


def check_whole(path: Path, clock: int) -> list[str]:
    """A fresh process finds exactly this checkpoint; the complaints."""
    found, complaints = CohortFolder(path).load()
    assert found is not None
    assert found.clock == found.host["clock"] == clock
    np.testing.assert_array_equal(found.state["weights"], np.full((2, 3), clock, np.float32))
    rows = np.concatenate([segment["source"].ravel() for segment in found.segments])
    np.testing.assert_array_equal(rows, np.arange(clock, dtype=np.float32))
    return complaints


def flip_a_bit(path: Path, bit: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    position = 4 * len(content) if bit is None else bit
    content[position // 8] ^= 1 << position % 8
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: dict[str, Callable[[Path], None]] = {"flipped": flip_a_bit, "truncated": truncate, "missing": Path.unlink}
FILES = ("step-000000030/state.safetensors", "step-000000030/host.json", "segments/rows-00002.safetensors")


def test_the_newest_checkpoint_comes_back(tmp_path: Path) -> None:
    saved_at(tmp_path, 10, 20, 30)
    assert check_whole(tmp_path, 30) == []
    assert CohortFolder(tmp_path).runs() == RUNS


def test_a_folder_without_a_checkpoint_gives_none(tmp_path: Path) -> None:
    saved_at(tmp_path)
    assert CohortFolder(tmp_path).load() == (None, [])


def test_two_checkpoints_are_kept_and_every_row_once(tmp_path: Path) -> None:
    saved_at(tmp_path, 10, 20, 30)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-000000020", "step-000000030"]
    assert len(list((tmp_path / "segments").iterdir())) == 3


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("file", [*FILES, "manifest.json"])
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_used(tmp_path: Path, file: str, how: str) -> None:
    saved_at(tmp_path, 10, 20, 30)
    DAMAGE[how](tmp_path / file)
    (complaint,) = check_whole(tmp_path, 20)
    assert str(tmp_path / file) in complaint


@pytest.mark.parametrize("how", DAMAGE)
def test_what_follows_a_damaged_checkpoint_keeps_a_whole_one_before_it(tmp_path: Path, how: str) -> None:
    saved_at(tmp_path, 10, 20, 30)
    DAMAGE[how](tmp_path / "manifest.json")
    again = CohortFolder(tmp_path)
    again.load()
    again.save(30, *contents(30))
    truncate(tmp_path / "step-000000030" / "state.safetensors")
    check_whole(tmp_path, 20)


def test_damage_to_both_checkpoints_is_an_error_that_names_both_files(tmp_path: Path) -> None:
    saved_at(tmp_path, 10, 20, 30)
    truncate(tmp_path / "step-000000030" / "state.safetensors")
    (tmp_path / "step-000000020" / "host.json").unlink()
    with pytest.raises(OffdynError) as told:
        CohortFolder(tmp_path).load()
    assert "step-000000030/state.safetensors" in str(told.value)
    assert "step-000000020/host.json" in str(told.value)


@pytest.fixture(scope="module")
def three_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("three")
    saved_at(path, 10, 20, 30)
    return path


@given(bit=some.integers(0), file=some.sampled_from([*FILES, "manifest.json"]))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_leaves_a_whole_checkpoint_or_a_clear_error(
    three_checkpoints: Path, bit: int, file: str
) -> None:
    path = three_checkpoints / file
    good = path.read_bytes()
    try:
        flip_a_bit(path, bit % (8 * len(good)))
        (complaint,) = check_whole(three_checkpoints, 20)
    except OffdynError as error:
        complaint = str(error)
        assert "this offdyn reads up to" in complaint  # the one case: the flipped bit made it a newer format
    finally:
        path.write_bytes(good)
    assert str(path) in complaint


def test_a_disk_that_fills_up_at_any_write_loses_nothing_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_at(tmp_path / "before", 10, 20)
    fails_at = 0
    while True:
        fails_at += 1
        path = tmp_path / f"full-{fails_at}"
        shutil.copytree(tmp_path / "before", path)
        folder = CohortFolder(path)
        folder.load()
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, fails_at)
            with contextlib.suppress(OSError):
                folder.save(30, *contents(30))
        if disk.count < fails_at:
            break
        # The last writes may have come through: then the new checkpoint is whole. Otherwise the old one is.
        found, complaints = CohortFolder(path).load()
        assert found is not None
        assert check_whole(path, found.clock) == complaints == []
        assert not list(path.glob("**/*.tmp"))
        # The same process may try again once there is room.
        folder.save(30, *contents(30))
        check_whole(path, 30)
        check_whole_after_losing_the_newest(path)
    assert disk.count == fails_at - 1 > 10


def test_a_disk_that_is_full_beside_the_training_is_told_at_the_next_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CohortFolder.create(tmp_path, RUNS)
    folder.save(10, *contents(10))
    folder.add_rows(contents(20)[2])
    folder._finish_writing()
    with monkeypatch.context() as patch:
        FullDisk(patch, 1)
        folder.add_rows(contents(30)[2])
        with pytest.raises(OSError, match="No space left"):
            folder.save(40, *contents(40))
    check_whole(tmp_path, 10)
    folder.add_rows(contents(30)[2])  # the file that failed is no gap
    folder.save(40, *contents(40))
    check_whole(tmp_path, 40)


def check_whole_after_losing_the_newest(path: Path) -> None:
    truncate(path / "step-000000030" / "state.safetensors")
    check_whole(path, 20)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first = CohortFolder.create(tmp_path, RUNS)
    with pytest.raises(OffdynError, match="another process is training here"):
        CohortFolder(tmp_path).lock()
    first.unlock()
    CohortFolder(tmp_path).lock()


@pytest.mark.parametrize("file", ["manifest.json", "cohort.json"])
def test_a_newer_format_is_refused(tmp_path: Path, file: str) -> None:
    saved_at(tmp_path, 10, 20)
    newer = json.loads((tmp_path / file).read_text()) | {"format": checkpoint.FORMAT + 1}
    (tmp_path / file).write_text(json.dumps(newer))
    with pytest.raises(OffdynError, match=rf"{file}: format 2, this offdyn reads up to 1: update offdyn"):
        (CohortFolder(tmp_path).load if file == "manifest.json" else CohortFolder(tmp_path).runs)()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x"}', "\xff"])
def test_an_unreadable_cohort_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "cohort.json").write_text(content, encoding="latin-1")
    with pytest.raises(OffdynError, match=r"cohort\.json"):
        CohortFolder(tmp_path).runs()


@pytest.mark.parametrize("keep", [True, False])
def test_rows_go_when_the_runs_are_done_unless_asked_for(tmp_path: Path, keep: bool) -> None:
    folder = CohortFolder.create(tmp_path, RUNS, keep_replay=keep)
    folder.save(10, *contents(10))
    folder.finish()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"cohort.json", "lock"} | ({"segments/rows-00000.safetensors"} if keep else set())


def test_bytes_written_grow_with_the_rows_and_not_with_their_square(tmp_path: Path) -> None:
    saved_at(tmp_path, *range(10, 410, 10))
    sizes = {path.stat().st_size for path in (tmp_path / "segments").iterdir()}
    assert len(sizes) == 1
    assert len(list((tmp_path / "segments").iterdir())) == 40
