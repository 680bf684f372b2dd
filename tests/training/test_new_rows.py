"""Rows on their way to the disk: in order, whole, and left alone while they are written."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some
from safetensors.numpy import load

from offdyn.training.checkpoint import NewRows, pieces


def ticks(generator: np.random.Generator, counts: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (generator.normal(size=(3, n, 5)).astype(np.float32), generator.integers(0, 4, (3, n)).astype(np.uint8))
        for n in counts
    ]


@settings(max_examples=50, deadline=None)
@given(some.lists(some.lists(some.integers(1, 7), min_size=1, max_size=12), min_size=1, max_size=5))
def test_what_is_taken_is_what_came_since_the_take_before_and_stays_until_the_next(rounds: list[list[int]]) -> None:
    new, generator = NewRows(3, 5), np.random.default_rng(0)
    before: tuple[np.ndarray, ...] | None = None
    expected_before: tuple[np.ndarray, ...] | None = None
    for counts in rounds:
        came = ticks(generator, counts)
        for rows, flags in came:
            new.append(rows, flags)
        assert new.nbytes == sum(rows.nbytes + flags.nbytes for rows, flags in came)
        if before is not None and expected_before is not None:  # untouched while the next came
            assert all(np.array_equal(a, b) for a, b in zip(before, expected_before, strict=True))
        before = new.take()
        expected_before = tuple(np.concatenate(parts, axis=1) for parts in zip(*came, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(before, expected_before, strict=True))
        assert new.nbytes == 0


def test_memory_is_used_again() -> None:
    new, generator = NewRows(3, 5), np.random.default_rng(0)
    taken = []
    for _ in range(4):
        for rows, flags in ticks(generator, [4] * 10):
            new.append(rows, flags)
        taken.append(new.take()[0])
    assert np.shares_memory(taken[0], taken[2])
    assert np.shares_memory(taken[1], taken[3])
    assert not np.shares_memory(taken[2], taken[3])


def test_the_pieces_are_a_safetensors_file() -> None:
    generator = np.random.default_rng(0)
    arrays = {
        "target_flags": generator.integers(0, 4, (3, 7)).astype(np.uint8),
        "source": generator.normal(size=(3, 20, 5)).astype(np.float32)[:, :11],  # not contiguous, as of a buffer
        "target": generator.normal(size=(3, 7, 5)).astype(np.float32),
    }
    read = load(b"".join(pieces(arrays)))
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)
