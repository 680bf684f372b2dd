"""Rows on their way to the disk, kept until a file of them is written, without a copy that a training waits for."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from .._util.errors import OffdynError, check_format
from .._util.files import write_atomically, write_pieces

_DTYPES = {"float32": "F32", "uint8": "U8"}  # as safetensors names them


class NewRows:
    """Those of one domain that nobody took yet, with their flags.

    There are two buffers: while what was taken is written, the other one fills. What is taken is good until the take
    after it. Memory that was used before costs a tenth of what fresh memory does, whose pages the system has to find.
    """

    def __init__(self, lanes: int, width: int) -> None:
        self._lanes, self._width, self._count = lanes, width, 0
        self._filling, self._other = self._room_for(0), self._room_for(0)

    def _room_for(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty((self._lanes, rows, self._width), np.float32), np.empty((self._lanes, rows), np.uint8)

    @property
    def nbytes(self) -> int:
        return self._lanes * self._count * (4 * self._width + 1)

    def append(self, rows: np.ndarray, flags: np.ndarray) -> None:
        """Rows [lanes, n, width] and their flags [lanes, n]."""
        end = self._count + rows.shape[1]
        if end > self._filling[0].shape[1]:
            larger = self._room_for(2 * end)
            for new, old in zip(larger, self._filling, strict=True):
                new[:, : self._count] = old[:, : self._count]
            self._filling = larger
        for kept, new in zip(self._filling, (rows, flags), strict=True):
            kept[:, self._count : end] = new
        self._count = end

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        """All of them, [lanes, n, width] and [lanes, n]."""
        rows, flags = (kept[:, : self._count] for kept in self._filling)
        self._filling, self._other, self._count = self._other, self._filling, 0
        return rows, flags


def pieces(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """A safetensors file piece by piece, each a view of an array's entry: nothing is copied, no other thread waits."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)  # aligned, as readers may expect
    said, offset = {}, 0
    for name, array in ordered:
        place = [offset, offset + array.nbytes]
        said[name] = {"dtype": _DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": place}
        offset = place[1]
    header = json.dumps(said).encode()
    header += b" " * (-len(header) % 8)
    yield len(header).to_bytes(8, "little") + header
    for _, array in ordered:
        for part in array:
            yield np.ascontiguousarray(part).data.cast("B")


FORMAT = 1
NEWEST, PREVIOUS = "manifest.json", "manifest.previous.json"


class Saved(NamedTuple):
    """What a checkpoint gives back."""

    clock: int
    state: dict[str, np.ndarray]
    host: dict[str, Any]
    segments: list[dict[str, np.ndarray]]  # in the order in which they were written


class Damaged(Exception):
    """A file of a checkpoint is missing or not what was written."""


class CohortFolder:
    """`OUT/cohorts/<id>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._segments: list[str] = []  # files, in order, that the next manifest names
        self._hashes: dict[str, str] = {}
        # By file and domain: its first row and the one after its last.
        self._ranges: dict[str, dict[str, list[int]]] = {}
        self._manifest: bytes | None = None  # the newest whole one, which becomes the one before
        self._writer = ThreadPoolExecutor(1, "offdyn-writer")
        self._writing: tuple[Future[str], Mapping[str, np.ndarray]] | None = None  # the next file, beside the training

    @classmethod
    def create(cls, path: Path, runs: Mapping[str, str], keep_replay: bool = False) -> "CohortFolder":
        """A new folder for these runs (names and configurations); `keep_replay`: the rows stay when they are done."""
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.lock()
        content = {"format": FORMAT, "keep_replay": keep_replay, "runs": dict(runs)}
        write_atomically(path / "cohort.json", json.dumps(content, indent=2).encode())
        return folder

    def runs(self) -> dict[str, str]:
        """The runs' configurations by name, in the order of their lanes."""
        return self._about()["runs"]

    def _about(self) -> dict[str, Any]:
        path = self.path / "cohort.json"
        try:
            read = json.loads(path.read_text())
            check_format(read["format"], FORMAT, path)
            return {"runs": dict(read["runs"]), "keep_replay": bool(read["keep_replay"])}
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise OffdynError(f"{path}: not readable ({error})") from None

    def lock(self) -> None:
        """Refuse a second process in this folder; the lock goes with the process, however it ends."""
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = None
            raise OffdynError(f"{self.path}: another process is training here; wait for it or stop it first") from None

    @property
    def locked(self) -> bool:
        """Whether this process is training here."""
        return self._lock is not None

    def unlock(self) -> None:
        with suppress(OSError):  # no manifest will name that file
            self._finish_writing()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(
        self, clock: int, state: Mapping[str, np.ndarray], host: Mapping[str, Any], rows: Mapping[str, np.ndarray]
    ) -> None:
        """Write a checkpoint; if that fails (a full disk), all that was there before is still there."""
        self._finish_writing()
        segments, hashes, ranges = list(self._segments), dict(self._hashes), dict(self._ranges)
        try:
            if rows:
                # Named by what it follows: written again after a resume from an older checkpoint, it replaces itself.
                segments.append(_segment(len(segments)))
                hashes[segments[-1]] = self._write_segment(segments[-1], rows)
                ranges[segments[-1]] = _next_ranges(ranges, rows)
            name = f"step-{clock:09d}"
            beside = self.path / (name + ".tmp")
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            files = {
                f"{name}/state.safetensors": to_bytes(dict(state)),
                f"{name}/host.json": json.dumps(host).encode(),
            }
            for file, content in files.items():
                write_atomically(beside / Path(file).name, content)
            shutil.rmtree(self.path / name, ignore_errors=True)
            os.replace(beside, self.path / name)
            _sync_folder(self.path)
            named = hashes | {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
            said = {"format": FORMAT, "clock": clock, "step": name, "segments": segments, "sha256": named}
            said["rows"] = ranges
            manifest = json.dumps(said | {"checksum": _checksum(said)}, indent=2).encode()
            if self._manifest is not None:
                write_atomically(self.path / PREVIOUS, self._manifest)
            write_atomically(self.path / NEWEST, manifest)
            _sync_folder(self.path)
        except OSError:
            for leftover in self.path.glob("step-*.tmp"):
                shutil.rmtree(leftover, ignore_errors=True)
            raise
        before = self._manifest
        self._segments, self._hashes, self._ranges, self._manifest = segments, hashes, ranges, manifest
        self._forget_steps_other_than({json.loads(kept)["step"] for kept in (before, manifest) if kept is not None})

    def add_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        """Begin to write these; the next checkpoint will name them. One file at a time: the disk sets the pace."""
        self._finish_writing()
        self._writing = self._writer.submit(self._write_segment, _segment(len(self._segments)), rows), rows

    def _finish_writing(self) -> None:
        if self._writing is not None:
            (written, rows), self._writing = self._writing, None
            sha256, file = written.result(), _segment(len(self._segments))
            self._ranges[file] = _next_ranges(self._ranges, rows)
            self._hashes[file] = sha256
            self._segments.append(file)

    def _write_segment(self, file: str, rows: Mapping[str, np.ndarray]) -> str:
        path = self.path / file
        path.parent.mkdir(exist_ok=True)
        sha256 = write_pieces(path, pieces(rows))
        _sync_folder(path.parent)
        return sha256

    def _forget_steps_other_than(self, named: set[str]) -> None:
        for step in self.path.glob("step-*"):
            if step.name not in named:
                shutil.rmtree(step, ignore_errors=True)

    def load(self) -> tuple[Saved | None, list[str]]:
        """The newest checkpoint that is whole (None: there never was one), and what is wrong with newer ones."""
        complaints: list[str] = []
        found = [name for name in (NEWEST, PREVIOUS) if (self.path / name).exists()]
        if found == [PREVIOUS]:
            complaints.append(f"{self.path / NEWEST} is missing")
        for name in found:
            try:
                return self._load(self.path / name), complaints
            except Damaged as error:
                complaints.append(str(error))
        if found:
            raise OffdynError(f"no whole checkpoint is left: {'; '.join(complaints)}")
        return None, complaints

    def _load(self, manifest_path: Path) -> Saved:
        try:
            content = manifest_path.read_bytes()
            manifest = json.loads(content)
            check_format(manifest["format"], FORMAT, manifest_path)
            if manifest.pop("checksum") != _checksum(manifest):
                raise Damaged(f"{manifest_path} is damaged: its contents are not what was written")
            hashes, step = manifest["sha256"], manifest["step"]
            state = self._read(f"{step}/state.safetensors", hashes)
            host = json.loads(self._bytes(f"{step}/host.json", hashes))
            segments = [self._read(file, hashes) for file in manifest["segments"]]
            ranges = manifest["rows"]
        except (OSError, json.JSONDecodeError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
            raise Damaged(f"{manifest_path} is damaged ({error})") from None
        self._manifest = content
        self._segments = list(manifest["segments"])
        self._hashes = {file: hashes[file] for file in self._segments}
        self._ranges = ranges
        return Saved(manifest["clock"], state, host, segments)

    def _bytes(self, file: str, hashes: Mapping[str, str]) -> bytes:
        path = self.path / file
        try:
            content = path.read_bytes()
        except OSError:
            raise Damaged(f"{path} is missing") from None
        if hashlib.sha256(content).hexdigest() != hashes[file]:
            raise Damaged(f"{path} is damaged: its contents are not what was written")
        return content

    def _read(self, file: str, hashes: Mapping[str, str]) -> dict[str, np.ndarray]:
        try:
            return from_bytes(self._bytes(file, hashes))
        except SafetensorError as error:
            raise Damaged(f"{self.path / file} is damaged ({error})") from None

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are to stay when the runs are done."""
        return bool(self._about()["keep_replay"])

    def keep_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        """Those since the last checkpoint."""
        self._finish_writing()
        if rows:
            self._write_segment(_segment(len(self._segments)), rows)

    def finish(self) -> None:
        """The runs are done: their checkpoints, and their rows unless asked for, go."""
        self._finish_writing()
        for step in self.path.glob("step-*"):
            shutil.rmtree(step, ignore_errors=True)
        for manifest in (NEWEST, PREVIOUS):
            (self.path / manifest).unlink(missing_ok=True)
        if not self.keeps_rows:
            shutil.rmtree(self.path / "segments", ignore_errors=True)
        self.unlock()


def _segment(number: int) -> str:
    return f"segments/rows-{number:05d}.safetensors"


def _next_ranges(ranges: Mapping[str, dict[str, list[int]]], rows: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """Where the rows of a new segment stand among all that each domain gave."""
    following = {}
    for domain in ("source", "target"):
        start = max((found[domain][1] for found in ranges.values()), default=0)
        following[domain] = [start, start + (rows[domain].shape[1] if domain in rows else 0)]
    return following


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
