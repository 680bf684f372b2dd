"""HDF5 files at arm's length: another process reads them, as the library may crash or hang on a damaged one."""

import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import DataError
from .untrusted import check_size

START = b"\x89HDF\r\n\x1a\n"
READER = Path(__file__).with_name("hdf5_reader.py")
PATIENCE = 30.0  # seconds for the next answer, or the next piece of an array: 16 MB
AT_ONCE = 2**20  # bytes


class Hdf5:
    """One file, open for reading; whatever is wrong with it becomes a `DataError`."""

    def __init__(self, path: Path) -> None:
        self.path, self._rest = path, bytearray()
        command = [sys.executable, "-P", str(READER), str(path)]
        self._reader = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._questions, self._answers = self._reader.stdin, self._reader.stdout

    def __enter__(self) -> "Hdf5":
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.kill()
        self._reader.wait()
        self._questions.close()
        self._answers.close()

    def names(self) -> list[str]:
        """What the file holds at its top."""
        return self._ask("names")

    def scalars(self, group: str) -> dict[str, Any]:
        """The single numbers and texts in that group."""
        return self._ask("scalars", group)

    def texts(self) -> dict[str, str]:
        """The file's attributes that are text."""
        return self._ask("texts")

    def arrays(self, paths: Iterable[str]) -> Iterator[np.ndarray]:
        """Each of these arrays of numbers, in order."""
        for path in paths:
            yield self._array(path, self._ask("send", path))

    def _array(self, path: str, said: Any) -> np.ndarray:
        if said["dtype"] is None:
            raise DataError("wrong-dtype", f"{self.path}: {path}: expected numbers, found {said['kind']}")
        dtype, shape = np.dtype(said["dtype"]), tuple(said["shape"])
        check_size(self.path, f"{path} has the shape {shape}", math.prod(shape) * dtype.itemsize)
        array = np.empty(shape, dtype)
        left = memoryview(array.reshape(-1).view(np.uint8).data)
        while left:
            piece = self._answer()["bytes"]
            self._receive(left[:piece])
            left = left[piece:]
        return array

    def _ask(self, *what: str) -> Any:
        with suppress(BrokenPipeError):  # it has said why, or died
            self._questions.write(json.dumps(what).encode() + b"\n")
        return self._answer()

    def _answer(self) -> Any:
        while (end := self._rest.find(b"\n")) < 0:
            self._rest += self._more()
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        said = json.loads(line)
        if isinstance(said, dict) and "fault" in said:
            raise self._unreadable(said["fault"])
        return said

    def _receive(self, place: memoryview) -> None:
        while place:
            if not self._rest:
                self._rest += self._more()
            taken = min(len(place), len(self._rest))
            place[:taken] = self._rest[:taken]
            del self._rest[:taken]
            place = place[taken:]

    def _more(self) -> bytes:
        if not select.select([self._answers], [], [], PATIENCE)[0]:
            raise self._unreadable(f"no end of reading after {PATIENCE:.0f} s; fetch or make it again")
        if more := os.read(self._answers.fileno(), AT_ONCE):
            return more
        code = self._reader.wait()
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        raise self._unreadable(f"damaged so that reading it ended with {how}; fetch or make it again")

    def _unreadable(self, why: str) -> DataError:
        return DataError("unreadable", f"{self.path}: cannot be read: {' '.join(why.split())}")
