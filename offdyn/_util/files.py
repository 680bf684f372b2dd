"""Files that are whole or not there, and what is read of them."""

import errno
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .errors import OffdynError, check_format, shown


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content or the old file: written beside, flushed to the disk, renamed."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> str:
    """As `write_atomically`, one piece after the other; their sha256."""
    sha256 = hashlib.sha256()
    beside = path.with_name(path.name + ".tmp")
    try:
        beside.unlink(missing_ok=True)
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)) as file:
            for piece in pieces:
                sha256.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return sha256.hexdigest()


def content(path: Path) -> bytes:
    """The bytes of an ordinary file: nobody waits for a pipe, or reads a device for ever."""
    return _ordinary(path).read_bytes()


def arrays(path: Path) -> Any:
    """An ordinary safetensors file, open for reading."""
    from safetensors import safe_open

    return safe_open(_ordinary(path), "numpy")


def _ordinary(path: Path) -> Path:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    return path


def read(path: Path) -> Any:
    """What a YAML file says."""
    try:
        return parse_yaml(content(path), path)
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None


def parse_yaml(text: str | bytes, where: object) -> Any:
    """What a text in YAML says; `where` it comes from is named where it is none."""
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise OffdynError(f"{where}: not YAML (nested too deeply)") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or a number that is none
        raise OffdynError(f"{where}: not YAML ({' '.join(str(error).split())[:200]})") from None


def read_json(path: Path, newest: int) -> dict[str, Any]:
    """The object that a JSON file of a format up to `newest` holds."""
    try:
        return parse_json(content(path), path, newest)
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None


def parse_json(text: bytes, where: object, newest: int | None = None) -> dict[str, Any]:
    """As `read_json`; an object without a format where none is asked for."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise OffdynError(f"{where}: not JSON (nested too deeply)") from None
    except ValueError as error:  # no text, no JSON, or a number of thousands of digits
        raise OffdynError(f"{where}: not JSON ({str(error)[:200]})") from None
    if not isinstance(found, dict):
        raise OffdynError(f"{where}: expected names and values, found {shown(found)}")
    if newest is not None:
        check_format(found.get("format"), newest, where)
    return found


def is_plain(name: object) -> bool:
    """Whether a name is that of a file in its own folder, and leads nowhere else."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0") and len(name) < 256


def free_memory() -> int | None:
    """Bytes of memory that a process may still take; None where nobody says."""
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
