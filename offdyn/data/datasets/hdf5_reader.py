"""The process that reads one HDF5 file for another: a damaged file may crash or hang it, and nothing else.

Run by its path, so that it loads h5py and NumPy alone. A request is a line of JSON and so is each answer; an array's
bytes follow theirs in pieces. Links, virtual and external storage are refused: they would read other files.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np

PIECE = 2**24  # bytes of an array that are read at a time
TEXT, ENTRIES = 2**20, 1000  # letters of one text, and entries, that are told


class Refused(Exception):
    """What is there cannot be taken."""


def stored(group: Any, path: str) -> Any:
    """What the file itself holds under this path."""
    for name in path.split("/"):
        link = group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
        if link is None:
            raise Refused(f"no {path} there")
        if not isinstance(link, h5py.HardLink):
            raise Refused(f"{path} is a link to {link.path!r}; expected the numbers themselves")
        group = group[name]
    return group


def column(file: h5py.File, path: str) -> Any:
    """An array of numbers in this file."""
    found = stored(file, path)
    if not isinstance(found, h5py.Dataset):
        raise Refused(f"{path} is a {type(found).__name__.lower()}; expected a plain array of numbers")
    if found.shape is None:
        raise Refused(f"{path} is empty; expected an array of numbers")
    if found.is_virtual or found.external:
        raise Refused(f"{path} keeps its numbers in other files; expected them in this one")
    return found


def pieces(found: Any) -> Iterator[np.ndarray]:
    """Some rows at a time, each chunk of the file once."""
    if found.size == 0:
        return
    if found.ndim == 0:
        yield found[...]
        return
    row = max(1, found.size // len(found) * found.dtype.itemsize)
    together = found.chunks[0] if found.chunks else 1
    rows = max(1, PIECE // (row * together)) * together
    for first in range(0, len(found), rows):
        yield found[first : first + rows]


def answer(said: Any) -> None:
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")


def send(file: h5py.File, path: str) -> None:
    found = column(file, path)
    numbers = found.dtype.kind in "fiub"
    answer({"dtype": found.dtype.str if numbers else None, "kind": str(found.dtype)[:80], "shape": found.shape})
    if not numbers:
        return
    sys.stdout.buffer.flush()
    for piece in pieces(found):
        content = np.ascontiguousarray(piece, found.dtype.str).tobytes()
        answer({"bytes": len(content)})
        sys.stdout.buffer.write(content)


def names(group: Any) -> list[str]:
    return [name if isinstance(name, str) else repr(name) for name in group]


def scalars(file: h5py.File, path: str) -> dict[str, Any]:
    """The numbers and texts in a group, of any depth; none where there is no such group."""
    found: dict[str, Any] = {}

    def look(name: str, item: Any) -> bool | None:
        if isinstance(item, h5py.Dataset) and item.shape == () and item.dtype.itemsize <= TEXT:
            found[name] = plain(item[()])
        return True if len(found) >= ENTRIES else None

    if path in file and isinstance(group := stored(file, path), h5py.Group):
        group.visititems(look)
    return found


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return value[:TEXT].decode(errors="replace")
    if isinstance(value, str):
        return value[:TEXT]
    value = np.asarray(value)
    return value.item() if value.ndim == 0 and value.dtype.kind in "fiub" else None


def texts(file: h5py.File) -> dict[str, str]:
    """The file's attributes that are text."""
    return {name: value for name, value in file.attrs.items() if isinstance(name, str) and isinstance(value, str)}


def serve(path: str) -> None:
    asked: dict[str, Callable[..., Any]] = {"send": send, "names": names, "scalars": scalars, "texts": texts}
    with h5py.File(path, "r") as file:
        for line in sys.stdin:
            what, *rest = json.loads(line)
            said = asked[what](file, *rest)
            if what != "send":
                answer(said)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        serve(sys.argv[1])
    except Exception as error:
        answer({"fault": str(error) if isinstance(error, Refused) else f"{error}; fetch or make it again"})
        sys.stdout.buffer.flush()
        os._exit(1)
