"""Faults that single rows show, whatever robot they are of."""

from collections.abc import Iterator

import numpy as np

from ..datasets.dataset import Dataset
from .finding import Finding, found
from .subject import Subject

MOST = 1.001  # largest action that rounding explains
FEW = 0.001  # share of rows that may repeat: the simulator repeats a row where physics breaks
ENOUGH = 10  # rows to call a column constant


def check_numbers(subject: Subject) -> Iterator[Finding]:
    rows = subject.dataset
    if not subject.finite.all():
        bad = np.flatnonzero(~subject.finite)
        columns = [name for name, array in rows.arrays().items() if not np.isfinite(array).all()]
        yield found("nan-or-infinity", True, f"{len(bad)} rows hold NaN or infinity in {', '.join(columns)}", bad)
    with np.errstate(invalid="ignore"):
        outside = np.flatnonzero((np.abs(rows.action) > MOST).any(axis=1) & subject.finite)
    if len(outside):
        largest = np.abs(rows.action[outside]).max()
        yield found(
            "action-out-of-range", True, f"{len(outside)} actions leave [-1, 1]; the largest is {largest:.3g}", outside
        )


def check_constants(subject: Subject) -> Iterator[Finding]:
    rows = subject.dataset
    if len(rows) >= ENOUGH:
        still = _still(rows.action)
        if still:
            every = len(still) == rows.action.shape[1]
            yield found("constant-action", every, f"action entries that never change: {_listed(still)}")
        still = _still(rows.observation)
        if still:
            fatal = subject.task is not None  # a small world may have such an entry
            yield found("constant-column", fatal, f"observation entries that never change: {_listed(still)}")
    frozen = np.flatnonzero((rows.observation == rows.next_observation).all(axis=1))
    if len(frozen):
        said = f"{len(frozen)} rows see exactly the same before and after the step"
        yield found("constant-rows", len(frozen) > FEW * len(rows), said, frozen)


def check_duplicates(subject: Subject) -> Iterator[Finding]:
    rows = subject.dataset
    hashes = row_hashes(rows)
    copies = repeats(hashes)
    bounds = rows.episodes()
    episodes = np.add.reduceat(hashes, bounds[:, 0])
    again = repeats(episodes) & (bounds[:, 1] - bounds[:, 0] > 1)
    within = np.repeat(again, bounds[:, 1] - bounds[:, 0])
    if again.any():
        said = f"{again.sum()} of {len(bounds)} episodes are copies of earlier ones"
        yield found("duplicated-episodes", bool(within.mean() >= 0.5), said, np.flatnonzero(within))
    alone = np.flatnonzero(copies & ~within)
    if len(alone) > FEW * len(rows):
        said = f"{len(alone)} of {len(rows)} rows are copies of earlier ones"
        yield found("duplicated-rows", len(alone) >= 0.5 * len(rows), said, alone)


def row_hashes(rows: Dataset) -> np.ndarray:
    """[n] uint64: a random sum over the bits of each row."""
    draw = np.random.default_rng(0)
    total = np.zeros(len(rows), np.uint64)
    for array in (rows.observation, rows.action, rows.reward[:, None], rows.next_observation):
        for column in array.T:
            total += column.copy().view(np.uint32).astype(np.uint64) * np.uint64(draw.integers(1, 2**63) | 1)
    return total


def repeats(values: np.ndarray) -> np.ndarray:
    """[n] bool: which values have come before."""
    order = np.argsort(values, kind="stable")
    again = np.zeros(len(values), bool)
    again[order[1:]] = values[order[1:]] == values[order[:-1]]
    return again


def _still(columns: np.ndarray) -> list[int]:
    return np.flatnonzero(columns.min(axis=0) == columns.max(axis=0)).tolist()


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown}, … ({len(numbers)} in all)" if len(numbers) > 10 else shown
