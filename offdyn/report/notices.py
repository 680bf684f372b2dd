"""What a reader must know before believing a table: what is missing, failed, damaged, or not alike."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .bootstrap import FEWEST_RUNS
from .cells import Comparison, said
from .runs import STATES, Apart, Run
from .tables import shown

PACKAGES = ("offdyn", "jax", "mujoco-core")  # whose version changes results
UNFINISHED = {
    "running": "still running, or killed without a word",
    "stopped": "stopped; `offdyn resume` continues it",
    "not started": "not started",
}


class Notice(NamedTuple):
    """One thing to know, with its details."""

    what: str
    details: tuple[str, ...] = ()


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def summary(runs: Sequence[Run]) -> str:
    """How many runs there are and how they are."""
    states = Counter(run.state for run in runs)
    said_states = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    read = [run for run in runs if run.method]
    tasks, methods = {run.task for run in read}, {run.method for run in read}
    return (
        f"{count(len(runs), 'run')}: {said_states}. {count(len(tasks), 'task')}, {count(len(methods), 'method')}, "
        f"{count(len({run.seed for run in read}), 'seed')}."
    )


def notices(
    runs: Sequence[Run],
    comparisons: Iterable[Comparison],
    dropped: Sequence[tuple[Run, Run]] = (),
    planned: Mapping[str, Sequence[str]] | None = None,
    apart: Sequence[Apart] = (),
) -> list[Notice]:
    """The gravest first."""
    found = [_damaged(runs), _failed(runs), _repeated(dropped), _unfinished(runs)]
    found += [_not_begun(study, names, runs) for study, names in (planned or {}).items()]
    for comparison in comparisons:
        found += [_other_bodies(comparison), _other_data(comparison), _seeds(comparison), _gaps(comparison)]
        found += [_few(comparison), _budgets(comparison), _chosen_by_task(comparison), *_versions(comparison)]
    found.append(_apart(apart))
    return [notice for notice in found if notice is not None]


def _notice(what: str, details: Iterable[str]) -> Notice | None:
    """Nothing to say where there is nothing."""
    listed = tuple(details)
    return (
        Notice(what.format(n=len(listed), runs=count(len(listed), "run"), tasks=count(len(listed), "task")), listed)
        if listed
        else None
    )


def _damaged(runs: Sequence[Run]) -> Notice | None:
    complaints = [complaint for run in runs for complaint in run.complaints]
    return _notice("Missing or damaged files: {n}; what depends on them is left out", complaints)


def _failed(runs: Sequence[Run]) -> Notice | None:
    failed = [f"{run.shown_as}: {run.failure}" for run in runs if run.state == "failed"]
    return _notice("{runs} failed: in no average, so that what is left flatters the method", failed)


def _repeated(dropped: Sequence[tuple[Run, Run]]) -> Notice | None:
    pairs = [f"{run.shown_as}: {_again(run, kept)} {kept.shown_as}, which counts" for run, kept in dropped]
    return _notice("{runs} left out: the task, settings and seed of another, made again or copied", pairs)


def _again(run: Run, kept: Run) -> str:
    """In what a run differs from the one of the same configuration that counts."""
    about = [
        {"state": r.state, "final return": shown(r.final_return), "device": r.device}
        | {package: r.version(package) for package in PACKAGES}
        for r in (run, kept)
    ]
    told = [
        f"{name} {about[0][name]} against {about[1][name]}" for name in about[0] if about[0][name] != about[1][name]
    ]
    return f"made again ({', '.join(told)}); first there is" if told else "a copy of"


def _apart(apart: Sequence[Apart]) -> Notice | None:
    total = count(sum(left.runs for left in apart), "run")
    details = [f"{left.folder} ({count(left.runs, 'run')}): {left.reason}" for left in apart]
    return _notice(f"{total} not shown: their folders stand apart; name one to see its runs", details)


def _unfinished(runs: Sequence[Run]) -> Notice | None:
    waiting = [run for run in runs if run.state in UNFINISHED]
    steps = [f"{run.target_steps} of {run.target_budget} target steps" for run in waiting]
    details = [f"{r.shown_as}: {UNFINISHED[r.state]}, {done}" for r, done in zip(waiting, steps, strict=True)]
    return _notice("{runs} not finished: drawn as far as they came, in no average", details)


def _not_begun(study: str, names: Sequence[str], runs: Sequence[Run]) -> Notice | None:
    begun = {run.path.name for run in runs}
    return _notice(f"Study {study}: {{n}} of {len(names)} runs are not there yet", [n for n in names if n not in begun])


def _seeds(comparison: Comparison) -> Notice | None:
    details = []
    for row in comparison.rows:
        by_label = {cell.label: [r.seed for r in cell.finished] for cell in comparison.cells if cell.row == row}
        if len({tuple(seeds) for seeds in by_label.values()}) > 1:
            told = "; ".join(f"{label}: {' '.join(map(str, seeds)) or 'none'}" for label, seeds in by_label.items())
            details.append(f"{row.name}: {told}")
    return _notice(f"{comparison.kind}: finished seeds differ between the methods on {{tasks}}", details)


def _gaps(comparison: Comparison) -> Notice | None:
    details = []
    for row in comparison.rows:
        if absent := [label for label in comparison.labels if comparison.cell(row, label) is None]:
            details.append(f"{row.name}: {'; '.join(absent)}")
    return _notice(f"{comparison.kind}: {{tasks}} without runs of some methods", details)


def _few(comparison: Comparison) -> Notice | None:
    few = [cell for cell in comparison.cells if len(cell.finished) < FEWEST_RUNS]
    details = [f"{cell.row.name}, {cell.label}: {len(cell.finished)}" for cell in few]
    what = f"{comparison.kind}: fewer than {FEWEST_RUNS} finished runs in {{n}} case(s), too few for an interval"
    return _notice(what, details)


def _budgets(comparison: Comparison) -> Notice | None:
    details = []
    for row in comparison.rows:
        # A run that never acts in the target, having no budget, is compared on other terms anyway.
        budgets = {r.target_budget for c in comparison.cells if c.row == row for r in c.runs} - {0}
        if len(budgets) > 1:
            details.append(f"{row.name}: {', '.join(map(str, sorted(budgets)))}")
    return _notice(f"{comparison.kind}: target steps differ between the runs on {{tasks}}", details)


def _chosen_by_task(comparison: Comparison) -> Notice | None:
    details = []
    for label in comparison.labels:
        cells = comparison.column(label)
        for name in sorted({name for cell in cells for name in cell.chosen if name in cell.settings}):
            values = dict.fromkeys(said(name, cell.settings.get(name)) for cell in cells)
            if len(values) > 1:
                details.append(f"{label}: {', '.join(values)}")
    return _notice(f"{comparison.kind}: {{n}} setting(s) given by hand differ between the tasks of a method", details)


def _other_bodies(comparison: Comparison) -> Notice | None:
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in comparison.runs:
        for role, found in (run.provenance.get("models") or {}).items():
            hashes[run.task, role].add(str(found))
    details = [f"{task}, {role}: {', '.join(sorted(some))}" for (task, role), some in hashes.items() if len(some) > 1]
    return _notice(f"{comparison.kind}: runs of one task had different robot models; do not compare them", details)


def _other_data(comparison: Comparison) -> Notice | None:
    hashes: dict[str, set[str]] = defaultdict(set)
    for run in comparison.runs:
        if data := run.provenance.get("source_data"):
            hashes[run.source].add(str(data.get("sha256")))
    details = [f"{name}: {len(some)} different contents" for name, some in hashes.items() if len(some) > 1]
    return _notice(f"{comparison.kind}: datasets of one name differ; do not compare runs on them", details)


def _versions(comparison: Comparison) -> list[Notice | None]:
    begun = [run for run in comparison.runs if run.provenance]
    made: list[Notice | None] = []
    for package in PACKAGES:
        made.append(_differ(comparison, f"versions of {package}", [run.version(package) for run in begun]))
    made.append(_differ(comparison, "precisions", [run.settings.get("precision") for run in begun]))
    return [*made, _differ(comparison, "devices", [run.device for run in begun])]


def _differ(comparison: Comparison, what: str, values: list[Any]) -> Notice | None:
    counts = Counter(values)
    if len(counts) < 2:
        return None
    told = (f"{value or 'not recorded'}: {count(number, 'run')}" for value, number in counts.most_common())
    return _notice(f"{comparison.kind}: {{n}} {what} among the runs compared", told)
