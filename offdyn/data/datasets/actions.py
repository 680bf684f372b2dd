"""What the actions of a dataset mean: the bounds, in their environment's units, that -1 and 1 stand for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...envs import pairs
from ...envs.robots import ROBOTS
from .dataset import DataError, Dataset

ROUNDING = 1e-3  # share of half a range by which a recorded action may pass its bound
UNBOUNDED = 1e30  # some spaces write "no bound" as float32's largest number
SAME = 1e-6  # relative: one bound written as float32 and as float64


class Bounds(NamedTuple):
    """Lowest and highest action [A] in the environment's own units."""

    low: np.ndarray
    high: np.ndarray

    @property
    def usable(self) -> bool:
        """Not as wide as float32 goes, and each lower one below its upper one."""
        return bool((np.abs(self) < UNBOUNDED).all() and (self.low < self.high).all())

    @property
    def middle(self) -> np.ndarray:
        return (self.low + self.high) / 2

    @property
    def half(self) -> np.ndarray:
        return (self.high - self.low) / 2

    @property
    def slack(self) -> np.ndarray:
        """[A] how far past -1 and 1 rounding leads: a narrow range far from zero loses most in float32."""
        return ROUNDING + 2 * np.finfo(np.float32).eps * np.abs(self).max(axis=0) / self.half

    def normalised(self, actions: np.ndarray) -> np.ndarray:
        """As [-1, 1]; what rounding took past a bound is put back on it, what lies farther out stays out."""
        scaled = (actions.astype(np.float64) - self.middle) / self.half
        rounded = np.abs(scaled) <= 1 + self.slack
        return np.where(rounded, np.clip(scaled, -1.0, 1.0), scaled)

    def in_units(self, actions: np.ndarray) -> np.ndarray:
        """From [-1, 1] to the environment's units."""
        return self.middle + self.half * actions.astype(np.float64)

    def same(self, other: "Bounds") -> bool:
        return self.low.shape == other.low.shape and np.allclose(self, other, rtol=SAME, atol=0)

    def __str__(self) -> str:
        low, high = ([f"{value:g}" for value in side] for side in self)
        if len(set(low)) == len(set(high)) == 1:
            return f"[{low[0]}, {high[0]}]"
        return f"[{', '.join(low)}] to [{', '.join(high)}]"


def unit(size: int) -> Bounds:
    """Of an environment that acts in [-1, 1] itself, as our robots do."""
    return Bounds(-np.ones(size), np.ones(size))


def bounds_of(pair: pairs.Pair) -> Bounds:
    return Bounds(*pairs.action_bounds(pair))


def known_bounds(dataset: Dataset) -> Bounds | None:
    """As the card says, else those of the robot; None where neither bounds the actions."""
    said = _said(dataset)
    if said is not None and said.usable:
        return said
    return unit(dataset.action.shape[1]) if dataset.robot in ROBOTS or dataset.robot in pairs.WORLDS else None


def with_action_bounds(dataset: Dataset, low: Sequence[float], high: Sequence[float]) -> Dataset:
    """Actions recorded in the environment's units and within these bounds, mapped to [-1, 1]; the card keeps both."""
    return bounded(dataset.described(action_low=list(low), action_high=list(high)), None, in_units=True)


def bounded(dataset: Dataset, target: Bounds | None, *, in_units: bool = False) -> Dataset:
    """Actions as [-1, 1] of the target's bounds, without a target of their own: what each does stays the same.

    `in_units`: they are in their environment's units, as HDF5 files have them; else in [-1, 1] of their own bounds.
    """
    known = known_bounds(dataset)
    bounds = known if target is None else target
    if bounds is None:
        raise _unknown(dataset)
    action = dataset.action
    if in_units:
        action = bounds.normalised(action)
    elif known is not None and not known.same(bounds):
        action = bounds.normalised(known.in_units(action))
    card = {**dataset.card, "action_low": bounds.low.tolist(), "action_high": bounds.high.tolist()}
    if known is not None and not known.same(bounds):
        card |= {"recorded_low": known.low.tolist(), "recorded_high": known.high.tolist()}
    if said := _note(known, bounds, in_units):
        card["reading"] = {**(card.get("reading") or {}), "actions": said}
    return Dataset(**(dataset.arrays() | {"action": action}), card=card)


def _note(known: Bounds | None, bounds: Bounds, in_units: bool) -> str | None:
    """What was done to the actions, where a user should know."""
    if known is not None and not known.same(bounds):
        return f"recorded within {known}, executed within the target's {bounds} at the same physical value"
    if bounds.same(unit(len(bounds.low))) or (known is not None and not in_units):
        return None
    if known is None:
        done = "mapped to [-1, 1] from" if in_units else "in [-1, 1], taken for shares of"
        return f"{done} the target's bounds {bounds}, as the file gives none"
    return f"mapped to [-1, 1] from their bounds {bounds}"


def recorded_bounds(dataset: Dataset) -> Bounds | None:
    """Those of the environment that recorded it, where they are known and not those it is mapped to."""
    guessed = (dataset.card.get("reading") or {}).get("bounds")  # from the actions themselves, which then reach them
    return None if guessed else _said(dataset, "recorded")


def _said(dataset: Dataset, which: str = "action") -> Bounds | None:
    size, low, high = dataset.action.shape[1], dataset.card.get(f"{which}_low"), dataset.card.get(f"{which}_high")
    if low is None or high is None:
        return None
    try:
        bounds = Bounds(np.asarray(low, np.float64).reshape(-1), np.asarray(high, np.float64).reshape(-1))
    except (TypeError, ValueError, OverflowError):
        raise DataError("wrong-dtype", f"action bounds: expected numbers, found {low} and {high}") from None
    if not len(bounds.low) == len(bounds.high) == size:
        sizes = f"{len(bounds.low)} lower and {len(bounds.high)} upper bounds"
        raise DataError("wrong-shape", f"{sizes} of {size} action entries: each entry needs one of both")
    return bounds


def _unknown(dataset: Dataset) -> DataError:
    said = _said(dataset)
    found = "gives no bounds of its actions" if said is None else f"bounds its actions by {said} only"
    return DataError(
        "unknown-action-bounds",
        f"{dataset.card.get('name') or 'this dataset'} {found}, so that nobody knows what a full action is: name the "
        "environment it is for with --target (target= in Python), or write action_low and action_high into its card",
    )
