"""Copies what we publish of finished runs from a training's folder to one below results/, and notes how they were made.

    python results/keep.py RUNS results/NAME --study results/evidence-plan/par.yaml --took "26 minutes"

Nothing is copied unless all of it can be: a file that is there already must be the same. Runs that failed are results
too and are kept; runs that are not finished are refused, or with --finished-only left behind and named.
"""

import argparse
import datetime
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import about

from offdyn.errors import OffdynError
from offdyn.report.runs import Run, gather
from offdyn.studies.study import shipped

KEPT = ("config.yaml", "curve.csv", "final.json", "provenance.json")
POLICY = "policy.safetensors"
ENDED = ("finished", "failed")


def keep(runs: Path, out: Path, *, policies: bool = False, finished_only: bool = False) -> tuple[list[Run], list[Run]]:
    """The runs that are in `out` now, and those left behind."""
    found = gather([runs])
    ended = [run for run in found if _is_whole(run)]
    behind = [run for run in found if not _is_whole(run)]
    if behind and not finished_only:
        listed = "".join(f"\n  {run.path.name}: {'; '.join(run.complaints) or run.state}" for run in behind)
        raise OffdynError(f"{runs}: {len(behind)} of {len(found)} runs are not finished; finish them with `offdyn "
                          f"resume`, or leave them behind with --finished-only{listed}")  # fmt: skip
    names = (*KEPT, POLICY) if policies else KEPT
    copies = [(run.path / name, out / run.path.name / name) for run in ended for name in names]
    copies = [(old, new) for old, new in copies if old.exists()]
    clashes = [new for old, new in copies if new.exists() and new.read_bytes() != old.read_bytes()]
    if clashes:
        raise OffdynError(f"{clashes[0]}: there already, with other content; nothing was copied. Choose another folder")
    if len({new for _, new in copies}) < len(copies):
        raise OffdynError(f"{runs}: holds two runs of one name; nothing was copied. Name the folder of one of them")
    for old, new in copies:
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(old.read_bytes())
    return ended, behind


def _is_whole(run: Run) -> bool:
    return run.state in ENDED and not run.complaints


def day_of(runs: Sequence[Run]) -> str:
    """When the last of the runs ended; where none says so, as far as its files tell."""
    said = [json.loads((run.path / "provenance.json").read_text()).get("written_at") for run in runs]
    if all(said):
        return str(max(said)[:10])
    last = max((run.path / "provenance.json").stat().st_mtime for run in runs)
    return datetime.datetime.fromtimestamp(last, datetime.UTC).date().isoformat()


def note(out: Path, asked: argparse.Namespace, made: str) -> None:
    """Add to the folder's about.yaml what is new; what it says already stays unless it is said anew."""
    old = about.read(out)
    said = {name: value for name in ("what", "apart") if (value := getattr(asked, name))}
    studies = list(map(_study, asked.study))
    commands = asked.command or list(map(_command, studies))
    new = replace(
        old,
        **said,
        studies=tuple(dict.fromkeys([*old.studies, *studies])),
        commands=tuple(dict.fromkeys([*old.commands, *commands])),
        made=", ".join(dict.fromkeys([*filter(None, old.made.split(", ")), made])),
        took=" and ".join(filter(None, [old.took, asked.took])),
    )
    about.write(out, new)


def _study(wanted: str) -> str:
    """As about.yaml has it: a file by its path below results/, or the name of one that comes with offdyn."""
    path = Path(wanted).resolve()
    if wanted not in shipped() and not (path.is_file() and path.is_relative_to(about.RESULTS)):
        raise OffdynError(f"--study {wanted}: expected a study's file below results/, or one of {', '.join(shipped())}")
    return wanted if wanted in shipped() else path.relative_to(about.RESULTS).as_posix()


def _command(study: str) -> str:
    """As the study has it now, in its file's first line: a file may change later, and these runs then did not."""
    if study in shipped():
        return f"offdyn study run {study}"
    return (about.RESULTS / study).read_text().partition("\n")[0].removeprefix("# ")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder that a training or a study wrote")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder below results/")
    parser.add_argument("--policies", action="store_true", help=f"also {POLICY}")
    parser.add_argument("--finished-only", action="store_true", help="leave runs behind that are not finished")
    parser.add_argument("--study", action="append", default=[], help="study of the runs: a file in results/, or a name")
    parser.add_argument(
        "--command", action="append", default=[], help="command that made them (default: the study's own)"
    )
    parser.add_argument("--what", help="what the folder holds, in a line")
    parser.add_argument("--made", help="day on which they were made (default: when the last run ended)")
    parser.add_argument("--took", help="how long all of it took; added to what is noted already")
    parser.add_argument("--apart", help="why these runs are not to be compared with those of other folders")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _parser().parse_args(arguments)
    try:
        for wanted in asked.study:
            _study(wanted)
        kept, behind = keep(asked.runs, asked.out, policies=asked.policies, finished_only=asked.finished_only)
        if not kept:
            raise OffdynError(f"{asked.runs}: none of its {len(behind)} runs is finished")
        note(asked.out, asked, asked.made or day_of(kept))
    except OffdynError as error:
        about.stop(error)
    failed = sum(run.state == "failed" for run in kept)
    print(f"{asked.out}: {len(kept)} runs kept{f', {failed} of them failed' if failed else ''}")
    for run in behind:
        print(f"left behind: {run.path.name} ({'; '.join(run.complaints) or run.state})")
    print("Now: python results/index.py")


if __name__ == "__main__":
    main()
