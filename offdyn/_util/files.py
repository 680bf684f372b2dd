"""Files that are whole or not there."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .errors import OffdynError


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content or the old file: written beside, flushed to the disk, renamed."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> str:
    """As `write_atomically`, one piece after the other; their sha256."""
    sha256 = hashlib.sha256()
    beside = path.with_name(path.name + ".tmp")
    try:
        with open(beside, "wb") as file:
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


def read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        raise OffdynError(f"{path}: not YAML ({' '.join(str(error).split())})") from None
    except UnicodeDecodeError as error:
        raise OffdynError(f"{path}: not text ({error})") from None
