"""Faults that single rows show, whatever robot they are of."""

from collections.abc import Iterator

import numpy as np

from ..datasets.actions import Bounds, unit
from ..datasets.dataset import Dataset
from .finding import Finding, found
from .subject import Subject, hashes

FEW = 0.001  # share of rows that may repeat: the simulator repeats a row where physics breaks
ENOUGH = 10  # rows to call a column constant
SMALL = 0.5  # of the way to a bound: a policy that learned goes farther at times


def check_numbers(subject: Subject) -> Iterator[Finding]:
    rows = subject.dataset
    if not subject.finite.all():
        bad = np.flatnonzero(~subject.finite)
        columns = [name for name, array in rows.arrays().items() if not np.isfinite(array).all()]
        yield found(
            "nan-or-infinity", True, f"{len(bad)} transitions have NaN or infinity in {', '.join(columns)}", bad
        )


def check_actions(rows: Dataset, bounds: Bounds | None, recorded: Bounds | None = None) -> Iterator[Finding]:
    """Actions beyond their bounds, or so far inside those they were recorded within that they may be of other units."""
    bounds = unit(rows.action.shape[1]) if bounds is None else bounds
    size = np.where(np.isfinite(rows.action), np.abs(rows.action), 0.0)
    outside = np.flatnonzero((size > 1 + bounds.slack).any(axis=1))
    largest = np.unravel_index(size.argmax(), size.shape)
    if len(outside):
        value = bounds.in_units(rows.action)[largest]
        said = f"{len(outside)} actions leave {bounds}; the farthest out is {value:.3g}, in entry {largest[1]}"
        yield found("action-out-of-range", True, said, outside)
    elif len(rows) >= ENOUGH:
        theirs = bounds if recorded is None else recorded
        shares = np.abs(theirs.normalised(bounds.in_units(rows.action)))
        share = shares[np.isfinite(rows.action)].max(initial=0.0)
        if 0 < share <= SMALL:
            yield found("small-actions", False, f"no action goes beyond {share:.0%} of its bounds {theirs}")


def check_rewards(subject: Subject) -> Iterator[Finding]:
    if len(subject.dataset) >= ENOUGH and not subject.dataset.reward.any():
        yield found("no-rewards", True, f"the rewards of all {len(subject.dataset)} transitions are zero")


def check_constants(subject: Subject) -> Iterator[Finding]:
    rows = subject.dataset
    if len(rows) >= ENOUGH:
        still = _still(rows.action)
        if still:
            every = len(still) == rows.action.shape[1]
            yield found("constant-action", every, f"action entries that never change: {_listed(still)}")
        still = _still(rows.observation)
        if still:
            fatal = subject.task is not None  # a toy environment may have such an entry
            yield found("constant-column", fatal, f"observation entries that never change: {_listed(still)}")
    same = (rows.observation == rows.next_observation).all(axis=1)
    if (rows.card.get("reading") or {}).get("ends_without_successor"):
        same &= ~rows.terminated
    frozen = np.flatnonzero(same)
    if len(frozen):
        said = f"{len(frozen)} transitions see exactly the same before and after the step"
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
        said = f"{len(alone)} of {len(rows)} transitions are copies of earlier ones"
        yield found("duplicated-rows", len(alone) >= 0.5 * len(rows), said, alone)


def row_hashes(rows: Dataset) -> np.ndarray:
    """[n] uint64: one number for each row."""
    return hashes(rows.observation, rows.action, rows.reward[:, None], rows.next_observation)


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
