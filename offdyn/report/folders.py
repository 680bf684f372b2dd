"""Where the runs below a folder are, and which folders say, in about.yaml, that their runs stand apart from others."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from .._util.files import content

NEVER_RUNS = {"cohorts", "tensorboard", "policies"}  # folders below which no run is looked for
ABOUT = "about.yaml"


class Apart(NamedTuple):
    """A folder whose runs are left out of a report on a folder above it."""

    folder: Path
    reason: str
    runs: int


def run_folders(folder: Path) -> Iterator[Path]:
    """Folders of runs at or below one, less those in a folder below that stands apart."""
    for path, files in _walk(folder):
        # A curve or a provenance alone may be anyone's; the two together are a run that lost its configuration.
        if "config.yaml" in files or {"curve.csv", "provenance.json"} <= files:
            yield path


def standing_apart(folders: Iterable[Path], shown: Iterable[Path] = ()) -> list[Apart]:
    """What `run_folders` leaves out, less the runs that are shown all the same because their own folder was named."""
    seen = {path.resolve() for path in shown}
    found: dict[Path, Apart] = {}
    for path in (path for folder in folders for path, _ in _walk(folder, into_apart=True)):
        if (why := reason(path)) and path.resolve() not in found:
            left = [run for run in run_folders(path) if run.resolve() not in seen]
            found |= {path.resolve(): Apart(path, why, len(left))} if left else {}
    return list(found.values())


def reason(folder: Path) -> str:
    """Why its runs stand apart; "" where they do not. A file that cannot be read may have said so: apart, and told."""
    try:
        read = yaml.safe_load(content(folder / ABOUT))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        return f"its {ABOUT} cannot be read ({' '.join(str(error).split())[:200]})"
    return str(read.get("apart") or "") if isinstance(read, dict) else ""


def _walk(folder: Path, into_apart: bool = False) -> Iterator[tuple[Path, set[str]]]:
    """(folder, names of its files) for every folder that may hold runs, in order; nothing below a run."""
    been: set[str] = set()  # a link may lead back up
    for here, below, files in os.walk(folder, followlinks=True):
        path = Path(here)
        place = os.path.realpath(here)
        if place in been or (path != folder and not into_apart and ABOUT in files and reason(path)):
            below.clear()
            continue
        been.add(place)
        below[:] = sorted(name for name in below if name not in NEVER_RUNS and not name.startswith("."))
        if "config.yaml" in files:
            below.clear()
        yield path, set(files)
