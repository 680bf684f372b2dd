"""Rows on their way to the disk, kept until a file of them is written, without a copy that a training waits for."""

import json
from collections.abc import Iterator, Mapping

import numpy as np

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
