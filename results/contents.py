"""What lies below results/, in words and tables: which runs, how they were made, and what of the plan is missing."""

import csv
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import about
import yaml
from about import RESULTS

from offdyn.experiments.config import WATCHING
from offdyn.report.folders import standing_apart
from offdyn.report.runs import Run, gather
from offdyn.report.tables import markdown
from offdyn.studies.study import load, shipped


@functools.cache
def compared() -> tuple[Run, ...]:
    """The runs of the main comparison."""
    return tuple(gather([RESULTS]))


@functools.cache
def by_folder() -> dict[Path, list[Run]]:
    """All runs, also those that stand apart, by the folder that says what they are, or else the one they lie in."""
    found: dict[Path, list[Run]] = defaultdict(list)
    for run in [*compared(), *(run for left in standing_apart([RESULTS]) for run in gather([left.folder]))]:
        telling = [path for path in run.path.parents if path.is_relative_to(RESULTS) and (path / about.ABOUT).exists()]
        found[telling[0] if telling else run.path.parent].append(run)
    return dict(sorted(found.items()))


def plan() -> str:
    """A line for each part of the plan."""
    lines = ["| step | what | there | missing |", "|---|---|---:|---|"]
    for part in yaml.safe_load((RESULTS / "plan.yaml").read_text()):
        if "study" in part:
            what, there, missing = _of_study(part["study"])
        else:
            exists = (RESULTS / part["file"]).exists()
            what, there, missing = part["what"], "yes" if exists else "no", "" if exists else f"`{part['file']}`"
        lines.append(f"| {part['step']} | {what} | {there} | {missing} |")
    return "\n".join(lines)


def _of_study(study: str) -> tuple[str, str, str]:
    """(what it is, how many of its runs are there, which are missing)."""
    path = RESULTS / study
    read = load(path if path.is_file() else study)
    wanted, _ = read.runs()
    known = set[Any]()
    for folder, runs in by_folder().items():
        said = about.read(folder)
        if not said.apart or study in said.studies:
            ended = [run for run in runs if run.state in ("finished", "failed")]
            known |= {_planned_as(run.task, run, run.settings) for run in ended}
    missing = [run for run in wanted if _planned_as(run.task.name, run, run.settings()) not in known]
    return markdown(read.what), f"{len(wanted) - len(missing)} of {len(wanted)} runs", _missing(missing, wanted)


def _planned_as(task: str, run: Any, settings: Mapping[str, Any]) -> Any:
    """What a plan asks of a run: all but how it was watched, and in which precision it was computed."""
    given = sorted(name for name in run.chosen if name not in WATCHING | {"precision"})
    values = [(name, str(settings[name])) for name in ("source_steps", *given)]
    return task, run.method, run.preset, run.seed, tuple(values)


def _missing(runs: Sequence[Any], of: Sequence[Any]) -> str:
    """In words, method by method: all of it, whole tasks, or seeds."""
    if len(runs) == len(of):
        return "all"

    def sorted_out(some: Iterable[Any]) -> dict[str, dict[str, list[int]]]:
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for run in some:
            column = run.name.removeprefix(f"{run.task.name}.").removesuffix(f".seed-{run.seed}")
            found[column][run.task.name].append(run.seed)
        return found

    lacking, wanted = sorted_out(runs), sorted_out(of)
    told = []
    for column in (column for column in wanted if column in lacking):
        tasks = lacking[column]
        named = [
            task if seeds == wanted[column][task] else f"{task} (seeds {_span(seeds)})" for task, seeds in tasks.items()
        ]
        told.append(f"`{column}`: {'all tasks' if tasks == wanted[column] else ', '.join(named)}")
    return "; ".join(told)


def folders() -> str:
    """A paragraph for each folder with runs."""
    return "\n\n".join(_folder(folder, runs) for folder, runs in by_folder().items())


def _source_steps(run: Run) -> int:
    """That were meant; none where the run acts in the target alone."""
    return int(run.settings["source_steps"]) if run.column("source_steps").max() > 0 else 0


def _folder(folder: Path, runs: Sequence[Run]) -> str:
    said = about.read(folder)
    name = folder.relative_to(RESULTS).as_posix()
    title = f"[{name}]({name}/README.md)" if (folder / "README.md").exists() else f"`{name}`"
    columns = dict.fromkeys(
        re.sub(r"\.seed-\d+$", "", run.path.name).removeprefix(f"{run.task}.") for run in sorted(runs, key=_column)
    )
    tasks, seeds = sorted({run.task for run in runs}), sorted({run.seed for run in runs})
    steps = sorted({(_source_steps(run), run.target_budget) for run in runs})
    states = [
        f"{sum(run.state == state for run in runs)} {state}" for state in dict.fromkeys(run.state for run in runs)
    ]
    lines = [
        f"**{title}**: {_what(said)}",
        f"- {', '.join(states)}: {', '.join(f'`{column}`' for column in columns)}; seeds {_span(seeds)}; "
        + "; ".join(f"{source:,} source and {target:,} target steps" for source, target in steps),
        f"- tasks: {', '.join(tasks)}",
        *(f"- made by `{command}`" for command in said.commands),
        f"- {said.made or 'day not noted'}, on {_machines(runs)}",
        f"- {_times(runs)}{f'; together {said.took}' if said.took else ''}",
    ]
    if said.apart:
        lines.append(f"- stands apart from the comparison: {said.apart}")
    return "\n".join([lines[0], "", *lines[1:]])


def _what(said: about.About) -> str:
    return said.what or "; ".join(load(study if study in shipped() else RESULTS / study).what for study in said.studies)


def _column(run: Run) -> tuple[str, str, str]:
    return run.method, run.preset, run.path.name


def _machines(runs: Sequence[Run]) -> str:
    found = {}
    for run in runs:
        machine = run.provenance.get("machine") or {}
        versions = ", ".join(f"{package} {run.version(package)}" for package in ("offdyn", "jax", "mujoco-core"))
        found[f"{run.device}, {machine.get('cores', '?')} cores; {versions}"] = None
    return "; and on ".join(found)


def _times(runs: Sequence[Run]) -> str:
    seconds = [float(run.provenance["wall_seconds"]) for run in runs if run.provenance.get("wall_seconds")]
    lanes = sorted({int(run.provenance.get("lanes_in_cohort", 1)) for run in runs})
    if not seconds:
        return "time not noted"
    least, most = f"{min(seconds):.0f}", f"{max(seconds):.0f}"
    return f"a run took {least if least == most else f'{least} to {most}'} seconds, {_span(lanes)} in one program"


def _span(numbers: Sequence[int]) -> str:
    """0, 1, 2 as 0 to 2."""
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def others() -> str:
    """The folders without runs, by what their page or their about.yaml calls them."""
    with_runs = by_folder()
    lines = ["| | |", "|---|---|"]
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))):
        if folder.name == "figures" or any(path.is_relative_to(folder) for path in with_runs):
            continue
        page = folder / "README.md"
        heading = page.read_text().splitlines()[0].removeprefix("# ") if page.exists() else about.read(folder).what
        name = f"[{folder.name}]({folder.name}/README.md)" if page.exists() else f"`{folder.name}`"
        lines.append(f"| {name} | {heading} |")
    return "\n".join(lines)


def every_seed(tables: Path) -> str:
    """Final returns run by run, so that no mean hides two kinds of runs."""
    records: list[Mapping[str, str]] = []
    for path in sorted(tables.glob("online-main*.csv")):
        with open(path, newline="") as file:
            records += [row for row in csv.DictReader(file) if row.get("every run")]
    seen = {(row["task"], row["method"]): row for row in records}
    lines = ["| task | method | every seed | stuck | below |", "|---|---|---|---:|---:|"]
    for task, method in sorted(seen):
        row = seen[task, method]
        returns = ", ".join(f"{float(value):.0f}" for value in row["every run"].split())
        lines.append(
            f"| {task} | {markdown(method)} | {returns} | {row['stuck']} of {row['finished']} | "
            f"{float(row['stuck below']):.0f} |"
        )
    return "\n".join(lines)
