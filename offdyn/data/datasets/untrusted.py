"""What anybody may have written: sizes and cards, looked at before anything believes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._util import plain_json
from ..._util.errors import shown
from ..._util.files import free_memory
from .dataset import DataError

# Bytes of numbers that are never too many; how many times a file's size they may be at most, as deflate packs them.
SMALL, TIGHTEST = 2**26, 1100


def read_json(path: Path) -> Any:
    """What the file holds."""
    try:
        if not path.is_file():
            raise OSError("no such file")
        return plain_json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError("unreadable", f"{path}: cannot be read ({error}); fetch or make it again") from None


def check_size(path: Path, what: str, claimed: int) -> None:
    """Refuse more bytes than a file of this size can hold, or this machine."""
    size, free = path.stat().st_size, free_memory()
    if claimed < 0 or claimed > max(SMALL, TIGHTEST * size):
        raise DataError("unreadable", f"{path}: {what}: {_gib(claimed)}, which a file of {size} bytes cannot hold")
    if free is not None and claimed > free // 2:
        raise DataError("unreadable", f"{path}: {what}: {_gib(claimed)}, this machine has {_gib(free)} free")


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def checked_card(said: Any, where: Path | str) -> dict[str, Any]:
    """The card, where whatever is used of it is of the right kind."""
    if not isinstance(said, dict):
        raise DataError("unreadable", f"{where}: its card is {shown(said)}; expected an object of JSON")
    for name, (fits, expected) in ENTRIES.items():
        if (value := said.get(name)) is not None and not fits(value):
            raise DataError("unreadable", f"{where}: its card has {name} {shown(value)}; expected {expected}")
    return said


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


def _numbers(value: Any) -> bool:
    return all(type(each) is float or _whole(each) for each in (value if isinstance(value, list) else [value]))


TEXT = (lambda value: isinstance(value, str), "text")
NUMBERS = (_numbers, "numbers")
ENTRIES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": TEXT,
    "robot": TEXT,
    "shift": TEXT,
    "action_low": NUMBERS,
    "action_high": NUMBERS,
    "time_limit": (lambda value: _whole(value) and value > 0, "a whole number of at least 1"),
    "cut_by_stops": (lambda value: isinstance(value, list) and all(map(_whole, value)), "a list of whole numbers"),
    "reading": (lambda value: isinstance(value, dict), "an object of JSON"),
}
