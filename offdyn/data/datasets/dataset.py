"""A fixed set of transitions in memory, and the card that says where it came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._util.errors import OffdynError

COLUMNS = ("observation", "action", "reward", "next_observation", "terminated", "truncated")
FLAGS = ("terminated", "truncated")
MEANING = ("action_low", "action_high")  # of the card: what the actions are in their environment's units


class DataError(OffdynError):
    """Data that cannot be used at all; `kind` is the name under which the doctor reports it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows in the order of time, episode after episode, each with the observation that followed it.

    Whatever arrays come in, float32 numbers and bool flags are kept. An episode ends where a row is terminated (a true
    end) or truncated (cut, by a time limit or by whoever wrote the file), and at the end of the data.
    """

    observation: np.ndarray  # [n, S]
    action: np.ndarray  # [n, A], in [-1, 1] of the bounds that the card gives, as `actions.py` maps them
    reward: np.ndarray  # [n]
    next_observation: np.ndarray  # [n, S]; the last of its episode where that ended, never the first of the next
    terminated: np.ndarray  # [n] true ends only
    truncated: np.ndarray  # [n]
    card: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in COLUMNS:
            convert = flags if name in FLAGS else numbers
            object.__setattr__(self, name, convert(name, getattr(self, name)))
        _check_shapes(self)

    def __len__(self) -> int:
        return len(self.reward)

    def __repr__(self) -> str:
        sizes = f"{self.observation.shape[1]} observations, {self.action.shape[1]} actions"
        return f"Dataset({self.card.get('name')!r}, {len(self)} transitions, {sizes})"

    @property
    def robot(self) -> str | None:
        """The robot's name, where it is known."""
        return self.card.get("robot")

    def arrays(self) -> dict[str, np.ndarray]:
        """The six columns by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def rows(self) -> np.ndarray:
        """[n, width] float32, as `offdyn.data.replay.pack` packs them."""
        reward, terminated = self.reward[:, None], self.terminated[:, None]
        columns = (self.observation, self.action, reward, self.next_observation, terminated)
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def episodes(self) -> np.ndarray:
        """[k, 2]: the first row of each episode, and the row after its last."""
        if len(self) == 0:
            return np.zeros((0, 2), np.int64)
        ends = self.terminated | self.truncated
        ends[-1] = True
        stops = np.flatnonzero(ends) + 1
        return np.stack((np.r_[0, stops[:-1]], stops), axis=1)

    def whole_episodes(self) -> np.ndarray:
        """[k, 2]: those episodes that ended, truly or at a limit; not one that is open, or that a stop has cut."""
        bounds = self.episodes()
        last = bounds[:, 1] - 1
        return bounds[(self.terminated | self.truncated)[last] & ~np.isin(last, self.card.get("cut_by_stops") or ())]

    def returns(self) -> np.ndarray:
        """The sum of rewards of each episode that ended; of the unfinished one too, where there is no other."""
        bounds = self.whole_episodes()
        if len(bounds) == 0 and "cut_by_stops" not in self.card:
            bounds = self.episodes()
        sums = np.r_[0.0, np.cumsum(self.reward, dtype=np.float64)]
        return sums[bounds[:, 1]] - sums[bounds[:, 0]]

    def described(self, **said: Any) -> "Dataset":
        """The same rows with more, or other, entries in the card."""
        return replace(self, card={**self.card, **said})

    def __getitem__(self, rows: slice | np.ndarray) -> "Dataset":
        """Some of the rows, with the same card."""
        card = dict(self.card)
        if card.get("cut_by_stops"):
            card["cut_by_stops"] = np.flatnonzero(np.isin(np.arange(len(self))[rows], card["cut_by_stops"])).tolist()
        return Dataset(**{name: array[rows] for name, array in self.arrays().items()}, card=card)


def join(parts: Sequence[Dataset], **card: Any) -> Dataset:
    """One after the other, where actions mean the same in all; an episode unfinished at a part's end is cut there."""
    meanings = [{name: np.asarray(part.card.get(name)).tolist() for name in MEANING} for part in parts]
    said = [meaning for meaning in meanings if None not in meaning.values()]
    if any(meaning != said[0] for meaning in said):
        told = " and ".join(f"{meaning['action_low']} to {meaning['action_high']}" for meaning in said)
        raise DataError(
            "unknown-action-bounds",
            f"datasets with the action bounds {told} cannot be joined: open each with target=, which maps all to the "
            "bounds of one environment",
        )
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    ends = np.cumsum([len(part) for part in parts if len(part)]) - 1
    columns["truncated"][ends] |= ~columns["terminated"][ends]
    return Dataset(**columns, card=(said[0] if said and len(said) == len(parts) else {}) | card)


def numbers(name: str, values: Any) -> np.ndarray:
    """As float32."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise DataError("wrong-dtype", f"{name}: expected numbers, found {values.dtype}")
    with np.errstate(over="ignore"):  # too large for float32: an infinity, which the doctor finds
        return np.ascontiguousarray(values, np.float32)


def flags(name: str, values: Any) -> np.ndarray:
    """As bool, from bool or from zeros and ones."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise DataError("wrong-dtype", f"{name}: expected true and false, found {values.dtype}")
    if values.dtype.kind != "b" and not np.isin(values, (0, 1)).all():
        strange = values[~np.isin(values, (0, 1))][0]
        raise DataError("wrong-dtype", f"{name}: expected 0 and 1, found {strange}")
    return np.array(values, bool)


def images(where: str, shape: Sequence[int]) -> DataError:
    """Said of observations that are pictures."""
    return DataError(
        "image-observations",
        f"{where}: images of {' x '.join(map(str, shape))} numbers; policies here see vectors, such as positions and "
        "velocities: use a dataset that holds these, or encode each image as a vector first",
    )


def _check_shapes(dataset: Dataset) -> None:
    shapes = {name: array.shape for name, array in dataset.arrays().items()}
    for name, shape in shapes.items():
        if len(shape) == 4 and name.endswith("observation"):
            raise images(name, shape[1:])
        dimensions = 1 if name in ("reward", *FLAGS) else 2
        if len(shape) != dimensions:
            raise DataError("wrong-shape", f"{name}: expected {dimensions} dimension(s), found the shape {shape}")
        if 0 in shape[1:]:
            raise DataError("wrong-shape", f"{name}: expected one entry at least, found the shape {shape}")
    if len({shape[0] for shape in shapes.values()}) > 1:
        told = ", ".join(f"{name} {shape[0]}" for name, shape in shapes.items())
        raise DataError("wrong-shape", f"the columns differ in length ({told}): each step needs one of each")
    if shapes["observation"] != shapes["next_observation"]:
        seen, after = shapes["observation"][1], shapes["next_observation"][1]
        raise DataError("wrong-shape", f"observation has {seen} entries, next_observation {after}; expected as many")
