"""A cohort on disk: its checkpoints, and its rows on their way there, without a copy that a training waits for."""

import fcntl
import hashlib
import json
import os
import re
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

from .._util.errors import OffdynError, shown
from .._util.files import arrays, content, is_plain, parse_json, read_json, write_atomically, write_pieces

_DTYPES = {"float32": "F32", "uint8": "U8"}  # as safetensors names them


class NewRows:
    """Those of one domain that nobody took yet, with their flags.

    There are two buffers: while what was taken is written, the other one fills. What is taken is good until the take
    after it. Memory that was used before costs a tenth of what fresh memory does, whose pages the system has to find.
    """

    def __init__(self, lanes: int, width: int) -> None:
        self._lanes, self._width, self._count = lanes, width, 0
        self.awaited = 0  # the newest, of which only the flags came
        self._filling, self._other = self._room_for(0), self._room_for(0)

    def _room_for(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty((self._lanes, rows, self._width), np.float32), np.empty((self._lanes, rows), np.uint8)

    @property
    def nbytes(self) -> int:
        return self._lanes * self._count * (4 * self._width + 1)

    def append(self, rows: np.ndarray | None, flags: np.ndarray) -> None:
        """Rows [lanes, n, width], or None where they come later, and their flags [lanes, n]."""
        end = self._count + flags.shape[1]
        if end > self._filling[0].shape[1]:
            larger = self._room_for(2 * end)
            for new, old in zip(larger, self._filling, strict=True):
                new[:, : self._count] = old[:, : self._count]
            self._filling = larger
        self._filling[1][:, self._count : end] = flags
        self._count = end
        self.awaited += flags.shape[1]
        if rows is not None:
            self.fill(rows)

    def fill(self, rows: np.ndarray) -> None:
        """All rows that were awaited."""
        self._filling[0][:, self._count - self.awaited : self._count] = rows
        self.awaited = 0

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
COHORTS = "cohorts"  # below OUT
NEWEST, PREVIOUS = "manifest.json", "manifest.previous.json"
DOMAINS = ("source", "target")
Ranges = dict[str, list[int]]  # of each domain its first row and the one after its last


class Saved(NamedTuple):
    """What a checkpoint gives back."""

    clock: int
    state: dict[str, np.ndarray]
    host: dict[str, Any]
    segments: list[dict[str, np.ndarray]]  # in the order in which they were written


class Damaged(Exception):
    """A file of a checkpoint is missing or not what was written."""


class RowsDamaged(Damaged):
    """Files of rows are, and nothing else; their faults by file, and what rows they had."""

    def __init__(self, faults: Mapping[str, str], lost: Mapping[str, Ranges]) -> None:
        self.faults, self.lost = faults, lost
        super().__init__("; ".join(faults.values()))

    @property
    def count(self) -> int:
        return sum(end - first for ranges in self.lost.values() for first, end in ranges.values())


class Manifest(NamedTuple):
    """What a checkpoint consists of."""

    clock: int
    step: str  # the folder of its state
    hashes: dict[str, str]  # of every file
    rows: dict[str, Ranges]  # by file of rows, in order
    dropped: dict[str, Ranges]  # of files that were damaged, and that a resume was told to do without

    def to_bytes(self) -> bytes:
        said = {"format": FORMAT, "clock": self.clock, "step": self.step, "segments": list(self.rows)}
        said |= {"sha256": self.hashes, "rows": self.rows}
        if self.dropped:
            said["dropped"] = self.dropped
        return json.dumps(said | {"checksum": _checksum(said)}, indent=2).encode()

    @classmethod
    def parse(cls, text: bytes, where: Path) -> "Manifest":
        """What `to_bytes` gave; all names lie in the cohort's folder."""
        try:
            said = parse_json(text, where, FORMAT)
        except OffdynError as error:
            if "this offdyn reads up to" in str(error):
                raise
            raise Damaged(f"{where} is damaged: {error}") from None
        try:
            if said.pop("checksum") != _checksum(said):
                raise Damaged(f"{where} is damaged: its contents are not what was written")
            rows = {file: _ranges(said["rows"][file]) for file in said["segments"]}
            dropped = {file: _ranges(ranges) for file, ranges in said.get("dropped", {}).items()}
            read = cls(said["clock"], said["step"], dict(said["sha256"]), rows, dropped)
            named = all(re.fullmatch(r"segments/rows-\d{5,}\.safetensors", file) for file in (*rows, *dropped))
            if not named or not re.fullmatch(r"step-\d{9,}", read.step) or not isinstance(read.clock, int):
                raise ValueError("names of files that no training writes")
            return read
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Damaged(f"{where} is damaged ({shown(error)})") from None

    def following(self, rows: Mapping[str, np.ndarray]) -> Ranges:
        """Where the rows of a new file stand among all that each domain gave."""
        known = (*self.rows.values(), *self.dropped.values())
        starts = {domain: max((ranges[domain][1] for ranges in known), default=0) for domain in DOMAINS}
        return {d: [start, start + (rows[d].shape[1] if d in rows else 0)] for d, start in starts.items()}

    @property
    def next_file(self) -> str:
        """Named by what it follows: written again after a resume from an older checkpoint, it replaces itself."""
        return f"segments/rows-{len(self.rows) + len(self.dropped):05d}.safetensors"

    def with_rows(self, rows: Mapping[str, np.ndarray], sha256: str) -> "Manifest":
        file = self.next_file
        return self._replace(hashes=self.hashes | {file: sha256}, rows=self.rows | {file: self.following(rows)})


NOTHING = Manifest(0, "", {}, {}, {})


class CohortFolder:
    """`OUT/cohorts/<id>/`; `drop_damaged`: do without rows that cannot be read any more."""

    def __init__(self, path: Path, drop_damaged: bool = False) -> None:
        self.path, self.drop_damaged = path, drop_damaged
        self._lock: int | None = None
        self._next = NOTHING  # what the next checkpoint has already: files of rows
        self._newest: bytes | None = None  # the newest whole manifest, which becomes the one before
        self._writer = ThreadPoolExecutor(1, "offdyn-writer")
        self._writing: tuple[Future[str], Mapping[str, np.ndarray]] | None = None  # the next file, beside the training

    @classmethod
    def create(cls, path: Path, runs: Mapping[str, str], keep_replay: bool = False) -> "CohortFolder":
        """A new folder for these runs (names and configurations); `keep_replay`: the rows stay when they are done."""
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.lock()
        about = {"format": FORMAT, "keep_replay": keep_replay, "runs": dict(runs)}
        write_atomically(path / "cohort.json", to_record(about))
        return folder

    def runs(self) -> dict[str, str]:
        """The runs' configurations by name, in the order of their lanes."""
        path = self.path / "cohort.json"
        said = read_json(path, FORMAT)
        runs = checked_runs(said.get("runs"), path)
        check_record(said, path)
        return runs

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are to stay when the runs are done."""
        return read_json(self.path / "cohort.json", FORMAT).get("keep_replay") is not False

    def lock(self) -> None:
        """Refuse a second process in this folder; the lock goes with the process, however it ends."""
        try:
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise OffdynError(f"{self.path / 'lock'}: cannot be opened ({error.strerror})") from None
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

    @property
    def has_checkpoint(self) -> bool:
        """Whether one is named, whole or not."""
        return any((self.path / name).exists() for name in (NEWEST, PREVIOUS))

    @property
    def dropped(self) -> dict[str, list[list[int]]]:
        """Of each domain the ranges of rows that were lost with damaged files."""
        lost = self._next.dropped.values()
        return {d: [ranges[d] for ranges in lost if ranges[d][0] < ranges[d][1]] for d in DOMAINS}

    def save(
        self, clock: int, state: Mapping[str, np.ndarray], host: Mapping[str, Any], rows: Mapping[str, np.ndarray]
    ) -> None:
        """Write a checkpoint; if that fails (a full disk), all that was there before is still there."""
        self._finish_writing()
        following = self._next
        try:
            if rows:
                following = following.with_rows(rows, self._write_rows(following.next_file, rows))
            step = f"step-{clock:09d}"
            beside = self.path / (step + ".tmp")
            _remove(beside)
            beside.mkdir()
            files = {
                f"{step}/state.safetensors": to_bytes(dict(state)),
                f"{step}/host.json": json.dumps(host).encode(),
            }
            for file, written in files.items():
                write_atomically(beside / Path(file).name, written)
            _remove(self.path / step)
            os.replace(beside, self.path / step)
            _sync_folder(self.path)
            named = following.hashes | {file: hashlib.sha256(written).hexdigest() for file, written in files.items()}
            manifest = following._replace(clock=clock, step=step, hashes=named).to_bytes()
            if self._newest is not None:
                write_atomically(self.path / PREVIOUS, self._newest)
            write_atomically(self.path / NEWEST, manifest)
            _sync_folder(self.path)
        except OSError:
            for leftover in self.path.glob("step-*.tmp"):
                _remove(leftover)
            raise
        before, self._next, self._newest = self._newest, following, manifest
        self._forget_steps_other_than({json.loads(kept)["step"] for kept in (before, manifest) if kept is not None})

    def add_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        """Begin to write these; the next checkpoint will name them. One file at a time: the disk sets the pace."""
        self._finish_writing()
        self._writing = self._writer.submit(self._write_rows, self._next.next_file, rows), rows

    def _finish_writing(self) -> None:
        if self._writing is not None:
            (written, rows), self._writing = self._writing, None
            self._next = self._next.with_rows(rows, written.result())

    def _write_rows(self, file: str, rows: Mapping[str, np.ndarray]) -> str:
        path = self.path / file
        path.parent.mkdir(exist_ok=True)
        sha256 = write_pieces(path, pieces(rows))
        _sync_folder(path.parent)
        return sha256

    def _forget_steps_other_than(self, named: set[str]) -> None:
        for step in self.path.glob("step-*"):
            if step.name not in named:
                _remove(step)

    def load(self) -> tuple[Saved | None, list[str]]:
        """The newest checkpoint that is whole (None: there never was one), and what is wrong with newer ones."""
        told: list[str] = []
        partly: list[tuple[Path, RowsDamaged]] = []
        found = [self.path / name for name in (NEWEST, PREVIOUS) if (self.path / name).exists()]
        if found == [self.path / PREVIOUS]:
            told.append(f"{self.path / NEWEST} is missing")
        for path in found:
            try:
                return self._load(path), [f"{fault}; using the checkpoint before it" for fault in told]
            except RowsDamaged as error:
                partly.append((path, error))
                told.append(str(error))
            except Damaged as error:
                told.append(str(error))
        if partly:
            path, damage = min(partly, key=lambda each: each[1].count)
            if not self.drop_damaged:
                raise OffdynError(self._refusal(damage))
            return self._load(path, damage), [f"{fault}; going on without" for fault in _in_words(damage)]
        if found or len([step for step in self.path.glob("step-*") if step.suffix != ".tmp"]) > 1:
            said = "; ".join(told) or f"{self.path / NEWEST} is missing"
            raise OffdynError(
                f"no whole checkpoint is left: {said}; put the files back, or start anew in another --out"
            )
        return None, told

    def _refusal(self, damage: RowsDamaged) -> str:
        out = self.path.parent.parent
        return (
            f"{'; '.join(_in_words(damage))}. Put back what was written, or go on without those transitions: "
            f"`offdyn resume {out} --drop-damaged`"
        )

    def _load(self, path: Path, damage: RowsDamaged | None = None) -> Saved:
        """A checkpoint without the rows of this damage, whose files are set aside."""
        try:
            text = content(path)
        except OSError as error:
            raise Damaged(f"{path} is damaged ({error})") from None
        manifest = Manifest.parse(text, path)
        state = self._read(f"{manifest.step}/state.safetensors", manifest.hashes)
        host = self._host(f"{manifest.step}/host.json", manifest.hashes)
        lost = {} if damage is None else damage.lost
        segments, faults = [], {}
        for file in manifest.rows:
            if file not in lost:
                try:
                    segments.append(self._read(file, manifest.hashes))
                except Damaged as error:
                    faults[file] = str(error)
        if faults:
            raise RowsDamaged(faults, {file: manifest.rows[file] for file in faults})
        self._newest = text
        rows = {file: ranges for file, ranges in manifest.rows.items() if file not in lost}
        hashes = {file: manifest.hashes[file] for file in rows}
        self._next = Manifest(manifest.clock, manifest.step, hashes, rows, manifest.dropped | dict(lost))
        for file in lost:
            with suppress(FileNotFoundError):
                os.replace(self.path / file, (self.path / file).with_name(f"damaged-{Path(file).name}"))
        return Saved(manifest.clock, state, host, segments)

    def _host(self, file: str, hashes: Mapping[str, str]) -> dict[str, Any]:
        try:
            return parse_json(self._bytes(file, hashes), self.path / file)
        except OffdynError as error:
            raise Damaged(f"{self.path / file} is damaged: {error}") from None

    def _bytes(self, file: str, hashes: Mapping[str, str]) -> bytes:
        path = self.path / file
        try:
            read = content(path)
        except FileNotFoundError:
            raise Damaged(f"{path} is missing") from None
        except OSError as error:
            raise Damaged(f"{path} is damaged ({error.strerror})") from None
        if hashlib.sha256(read).hexdigest() != hashes.get(file):
            raise Damaged(f"{path} is damaged: its contents are not what was written")
        return read

    def _read(self, file: str, hashes: Mapping[str, str]) -> dict[str, np.ndarray]:
        try:
            return from_bytes(self._bytes(file, hashes))
        except (SafetensorError, ValueError, KeyError) as error:
            raise Damaged(f"{self.path / file} is damaged ({error})") from None

    def keep_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        """Those since the last checkpoint."""
        self._finish_writing()
        if rows:
            self._write_rows(self._next.next_file, rows)

    def finish(self) -> None:
        """The runs are done: their checkpoints, and their rows unless asked for, go."""
        self._finish_writing()
        keeps_rows = self.keeps_rows
        for step in self.path.glob("step-*"):
            _remove(step)
        for manifest in (NEWEST, PREVIOUS):
            (self.path / manifest).unlink(missing_ok=True)
        if not keeps_rows:
            _remove(self.path / "segments")
        self.unlock()


def kept_rows(run: Path, *names: str) -> Iterator[tuple[np.ndarray, ...]]:
    """Of each file of rows that a run's cohort left, these arrays of the run's lane; of files that have them."""
    for cohort in sorted((run.parent / COHORTS).glob("*/cohort.json")):
        if run.name not in (runs := list(CohortFolder(cohort.parent).runs())):
            continue
        for path in sorted((cohort.parent / "segments").glob("rows-*.safetensors")):
            try:
                with arrays(path) as file:
                    if names[0] in file.keys():  # noqa: SIM118 (not a dict)
                        yield tuple(file.get_slice(name)[runs.index(run.name)] for name in names)
            except (SafetensorError, OSError) as error:
                raise OffdynError(f"{path}: not readable ({error}); move it away to go on without it") from None


def _remove(path: Path) -> None:
    """A folder with all that is in it, or what somebody put in its place; what cannot go stays."""
    if path.is_symlink() or path.is_file():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def to_record(said: Mapping[str, Any]) -> bytes:
    """A file that tells when it is not what was written."""
    return json.dumps({**said, "checksum": _checksum(said)}, indent=2).encode()


def check_record(said: Mapping[str, Any], where: Path) -> None:
    """Refuse what `to_record` did not write; those of older versions say nothing of it."""
    rest = {name: value for name, value in said.items() if name != "checksum"}
    if "checksum" in said and said["checksum"] != _checksum(rest):
        raise OffdynError(
            f"{where} is damaged: its contents are not what was written; put it back, or start anew in another --out"
        )


def checked_runs(runs: Any, where: Path) -> dict[str, str]:
    """The configurations of one or more runs by name, each name that of a folder in OUT."""
    if not isinstance(runs, dict) or not runs or not all(isinstance(text, str) for text in runs.values()):
        raise OffdynError(f"{where}: expected the configurations of its runs by name, found {shown(runs)}")
    for name in runs:
        if not is_plain(name) or name == COHORTS:
            raise OffdynError(f"{where}: names a run {shown(name)}, which is not the name of a folder beside cohorts/")
    return runs


def _ranges(said: Mapping[str, Any]) -> Ranges:
    ranges = {domain: list(said[domain]) for domain in DOMAINS}
    whole = all(type(end) is int for ends in ranges.values() for end in ends)
    if not whole or not all(len(ends) == 2 and 0 <= ends[0] <= ends[1] for ends in ranges.values()):
        raise ValueError("ranges of rows that are none")
    return ranges


def _in_words(damage: RowsDamaged) -> list[str]:
    """Each file's fault, and which transitions went with it; the first of a domain is number 0."""
    said = []
    for file, fault in damage.faults.items():
        ranges = {d: ends for d, ends in damage.lost[file].items() if ends[0] < ends[1]}
        lost = " and ".join(f"{domain} transitions {first} to {end - 1}" for domain, (first, end) in ranges.items())
        said.append(f"{fault}; with it, {lost or 'no transitions'} of each run are lost")
    return said


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
