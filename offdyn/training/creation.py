"""The folders of new runs: either all are there, or a record in OUT says what is still to be made."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from .._util.errors import OffdynError
from .._util.files import read_json, write_atomically
from .checkpoint import CohortFolder, checked_runs
from .config import RunConfig, to_yaml
from .run_folder import RunFolder, exists_already

FORMAT = 1
COHORTS = "cohorts"  # below OUT
# What a kill may leave: of a cohort whose runs no file names yet, and, where the record is there, of anything.
UNNAMED = {"cohort.json.tmp", "lock"}
BEGUN = UNNAMED | {"cohort.json", "config.yaml", "config.yaml.tmp"}

Runs = list[RunConfig]


def cohort_folder(names: Iterable[str], out: Path) -> Path:
    return out / COHORTS / _id(names)


def check_new(cohorts: Sequence[Runs], out: Path) -> None:
    """Refuse runs that are there already; what is left of making these very runs does not count."""
    leftovers = BEGUN if _record(cohorts, out).exists() else UNNAMED
    for path in _folders(cohorts, out):
        if path.exists() and not (path.is_dir() and {entry.name for entry in path.iterdir()} <= leftovers):
            raise exists_already(path, out)


def create(cohorts: Sequence[Runs], out: Path, keep_replay: bool) -> list[tuple[list[RunFolder], CohortFolder]]:
    """The folders of these runs and cohorts, locked; a kill at any moment loses no run."""
    record, disks = _record(cohorts, out), list[CohortFolder]()
    configs = [{run.name: to_yaml(run) for run in members} for members in cohorts]
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "keep_replay": keep_replay, "cohorts": configs}
        write_atomically(record, json.dumps(content, indent=2).encode())
        for runs in configs:
            disks.append(CohortFolder.create(cohort_folder(runs, out), runs, keep_replay))
        folders = [[RunFolder.begin(out / run.name, run) for run in members] for members in cohorts]
        record.unlink()
    except OSError as error:
        for disk in disks:
            disk.unlock()
        for path in _folders(cohorts, out):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            record.unlink()
        raise OffdynError(f"{out}: cannot be written to ({error}); nothing was started") from None
    return list(zip(folders, disks, strict=True))


def complete(out: Path) -> None:
    """Name the runs of every cohort whose making was interrupted; whoever resumes them makes the rest."""
    for record in sorted((out / COHORTS).glob("begun-*.json")):
        said = read_json(record, FORMAT)
        if not isinstance(said.get("cohorts"), list):
            raise OffdynError(f"{record}: names no cohorts")
        for runs in said["cohorts"]:
            folder = cohort_folder(checked_runs(runs, record), out)
            if not (folder / "cohort.json").exists():
                CohortFolder.create(folder, runs, said.get("keep_replay") is True).unlock()
        record.unlink()


def _record(cohorts: Sequence[Runs], out: Path) -> Path:
    return out / COHORTS / f"begun-{_id(run.name for members in cohorts for run in members)}.json"


def _id(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _folders(cohorts: Sequence[Runs], out: Path) -> list[Path]:
    """All that these cohorts will make."""
    cohort_folders = [cohort_folder((run.name for run in members), out) for members in cohorts]
    return [*(out / run.name for members in cohorts for run in members), *cohort_folders]
