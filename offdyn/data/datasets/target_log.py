"""Every target step as it happens, in a file that a kill leaves whole but for the step under way.

    DIR/<run>.steps         one line of JSON, then rows of float32 of one width, each written before the next step
    DIR/<run>.safetensors   the same rows as a dataset, written whenever training saves itself

`open_dataset` reads both.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._util import plain_json
from ..._util.errors import OffdynError, check_format
from ..._util.fields import WIDEST
from . import native
from .dataset import DataError, Dataset
from .untrusted import checked_card

FORMAT = 2
CUT = 2.0  # a truncated that a stop of the training has set, where the environment and its limit set 1
START = b'{"offdyn target log":'  # by which the file is known
SUFFIX = ".steps"


class TargetLog:
    """One run's log, open for more."""

    def __init__(self, path: Path, sizes: tuple[int, int], card: Mapping[str, Any], first: int = 0) -> None:
        """`sizes`: of an observation and an action. `first`: target steps made before a new log begins."""
        self.path = path
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            said = {"offdyn target log": FORMAT, "sizes": list(sizes), "first": first, "card": dict(card)}
            path.write_bytes(json.dumps(said).encode() + b"\n")
        head, start, rows = _read(path)
        if tuple(head["sizes"]) != tuple(sizes):
            raise OffdynError(f"{path}: holds transitions of sizes {head['sizes']}, expected {list(sizes)}")
        self.first, self.rows = int(head["first"]), len(rows)
        self._file = os.open(path, os.O_RDWR)
        os.ftruncate(self._file, start + rows.nbytes)  # half a row that a kill left
        os.lseek(self._file, 0, os.SEEK_END)

    @property
    def steps(self) -> int:
        """Target steps made when its last row was."""
        return self.first + self.rows

    def append(self, *row: Any) -> None:
        """Observation, action, reward, next observation, terminated, truncated."""
        content = np.concatenate([np.ravel(part) for part in row]).astype("<f4")
        os.write(self._file, content.tobytes())
        self.rows += 1

    def cut(self) -> None:
        """The last episode was left where it is: its last row is a cut, unless it is an end already."""
        _, start, rows = _read(self.path)
        if len(rows) and not rows[-1, -2:].any():
            os.pwrite(self._file, np.float32(CUT).astype("<f4").tobytes(), start + rows.nbytes - 4)

    def since(self, steps: int) -> Dataset:
        """The rows made after that many target steps."""
        return read(self.path)[slice(max(steps - self.first, 0), None)]

    def publish(self) -> None:
        """All rows so far as a dataset beside the log."""
        os.fsync(self._file)
        if self.rows:
            native.save(read(self.path), self.path.with_suffix(".safetensors"))

    def close(self) -> None:
        os.close(self._file)


def path_of(folder: str | Path, run: str) -> Path:
    return Path(folder) / f"{run}{SUFFIX}"


def read(path: Path) -> Dataset:
    """The rows of a log; what a kill left of one more is not among them."""
    head, _, rows = _read(path)
    seen, acted = head["sizes"]
    columns = np.split(rows, np.cumsum([seen, acted, 1, seen, 1]), axis=1)
    observation, action, reward, following, terminated, truncated = columns
    card = {**head["card"], "cut_by_stops": np.flatnonzero(truncated[:, 0] == CUT).tolist()}
    return Dataset(observation, action, reward[:, 0], following, terminated[:, 0], truncated[:, 0] != 0, card)


def _read(path: Path) -> tuple[dict[str, Any], int, np.ndarray]:
    """The first line, where the rows begin, and the rows."""
    try:
        content = path.read_bytes()
        line, _, rest = content.partition(b"\n")
        head = plain_json.loads(line)
        check_format(head["offdyn target log"], FORMAT, path)
        seen, acted = head["sizes"]
        if not 1 <= seen <= WIDEST or not 1 <= acted <= WIDEST:
            raise ValueError(f"sizes {seen} and {acted}")
        checked_card(head["card"], path)
        width = 2 * seen + acted + 3
        whole = len(rest) // (4 * width) * width
        return head, len(line) + 1, np.frombuffer(rest, "<f4", whole).reshape(-1, width)
    except OffdynError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError("unreadable", f"{path}: not a target log that can be read ({error})") from None
