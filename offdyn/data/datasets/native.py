"""Our own file: one safetensors file that holds the columns and, as JSON, the card."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ... import __version__
from ..._util import plain_json
from ..._util.errors import OffdynError, check_format
from ...envs.tasks import Task
from .actions import known_bounds
from .dataset import COLUMNS, DataError, Dataset
from .untrusted import checked_card

FORMAT = 1
LICENCE = "CC0-1.0"  # of rows that were made with offdyn: simulated numbers, free for any use
# What every card says, in this order; null where it is not known. Other entries follow and are kept.
CARD = (
    "format", "name", "robot", "shift", "made", "policy_sha256", "seed", "licence", "mujoco", "model", "offdyn",
    "action_low", "action_high", "time_limit", "steps", "episodes", "return_mean", "return_std", "sha256",
)  # fmt: skip


def made_here(task: Task) -> dict[str, Any]:
    """What the card of rows simulated now, with this body, says of body and engine."""
    import mujoco

    shift = None if task.name == task.robot.name else task.name
    body = {"robot": task.robot.name, "shift": shift, "model": task.fingerprint()}
    return body | {"mujoco": mujoco.__version__, "licence": LICENCE}


def full_card(dataset: Dataset) -> dict[str, Any]:
    """The card with everything that can be counted from the rows."""
    returns, bounds = dataset.returns(), known_bounds(dataset)
    logged = "cut_by_stops" in dataset.card
    counted = {
        "format": FORMAT,
        "offdyn": __version__,
        "steps": len(dataset),
        "episodes": len(dataset.whole_episodes() if logged else dataset.episodes()),
        "return_mean": float(returns.mean()) if len(returns) else None,
        "return_std": float(returns.std()) if len(returns) else None,
        "sha256": hash_of(dataset.arrays()),
    }
    if bounds is not None:
        counted |= {"action_low": bounds.low.tolist(), "action_high": bounds.high.tolist()}
    return dict.fromkeys(CARD) | dict(dataset.card) | counted


def save(dataset: Dataset, path: Path | str) -> Dataset:
    """Write the file, whole or not at all; the dataset with its full card."""
    path = Path(path)
    card = full_card(dataset)
    card["name"] = card["name"] or path.name.removesuffix(".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.touch()
        mode = beside.stat().st_mode  # as for any new file; safetensors would hide it from other users
        # One entry: safetensors writes several in an order of its own, other bytes every time.
        save_file(dataset.arrays(), beside, {"card": json.dumps(card)})
        os.chmod(beside, mode)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return dataset.described(**card)


def load(path: Path | str) -> Dataset:
    """Read the file; one that is damaged, or that a newer offdyn wrote, is refused."""
    with _readable(path) as file:
        card = _card(file, path)
        arrays = {name: file.get_tensor(name) for name in COLUMNS}
    if (found := hash_of(arrays)) != card.get("sha256"):
        raise DataError(
            "hash-mismatch",
            f"{path}: its transitions are not those its card speaks of (sha256 {found[:12]}…, the card says "
            f"{str(card.get('sha256'))[:12]}…): damaged or changed since; fetch or make it again",
        )
    return Dataset(**arrays, card=card)


def card_of(path: Path | str) -> dict[str, Any]:
    """The card alone; its rows are not looked at."""
    with _readable(path) as file:
        return _card(file, path)


@contextlib.contextmanager
def _readable(path: Path | str) -> Iterator[Any]:
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except OffdynError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError("unreadable", f"{path}: cannot be read ({error}); fetch or make it again") from None


def _card(file: Any, path: Path | str) -> dict[str, Any]:
    said = (file.metadata() or {}).get("card")
    if said is None or set(file.keys()) != set(COLUMNS):
        raise DataError("unreadable", f"{path}: a safetensors file, but not one that `offdyn collect` writes")
    card = checked_card(plain_json.loads(said), path)
    check_format(card.get("format"), FORMAT, path)
    return card


def hash_of(arrays: Mapping[str, np.ndarray]) -> str:
    """One hash of the six columns: their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in COLUMNS:
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.data)
    return digest.hexdigest()
