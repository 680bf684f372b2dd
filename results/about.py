"""What each folder of results says of itself in its about.yaml."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from offdyn.errors import OffdynError, unknown
from offdyn.report.folders import ABOUT

RESULTS = Path(__file__).parent.resolve()


@dataclass(frozen=True)
class About:
    what: str = ""
    studies: tuple[str, ...] = ()  # files of results/, or names of studies that come with offdyn
    commands: tuple[str, ...] = ()
    made: str = ""  # days
    took: str = ""
    apart: str = ""  # why its runs are not to be compared with others


def read(folder: Path) -> About:
    """Checked in words; a folder without the file says nothing."""
    path = folder / ABOUT
    if not path.is_file():
        return About()
    content = yaml.safe_load(path.read_text()) or {}
    if not isinstance(content, dict):
        raise OffdynError(f"{path}: expected names and values, such as `what: PAR at full length`")
    known = {field.name: field.default for field in fields(About)}
    for name in content:
        if name not in known:
            raise unknown(f"key of {path}", str(name), known)
    return About(**{name: _value(path, name, value, known[name]) for name, value in content.items()})


def _value(path: Path, name: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple) != isinstance(value, list):
        expected = "a list" if isinstance(default, tuple) else "text"
        raise OffdynError(f"{path}: {name}: expected {expected}, found {value!r}")
    return tuple(map(str, value)) if isinstance(value, list) else str(value)


def write(folder: Path, about: About) -> None:
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(about).items() if value}
    (folder / ABOUT).write_text(yaml.safe_dump(said, sort_keys=False, width=110, allow_unicode=True))


def stop(error: OffdynError) -> None:
    """A mistake of the user, without a traceback."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)
