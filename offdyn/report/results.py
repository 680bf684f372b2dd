"""The tables of a comparison: final returns in the paper's layout, normalised scores, aggregates, who beats whom."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import published
from .bootstrap import Estimate, estimate
from .cells import Cell, Comparison, Row, reference
from .comparison import compare, smallest_p
from .parts import parts
from .statistics import iqm, mean, median_task, normalised, optimality_gap, std
from .tables import DASH, Entry, Table, marked, shown, shown_interval

MEASURE = (
    "Each run counts once, with the mean return of its final policy over fresh target episodes; never its best "
    "checkpoint. Large: mean ± std over seeds (population std). Small: interquartile mean with its 95 % bootstrap "
    "interval, which fewer than 3 runs do not have, and n, the number of finished runs (of all)."
)
LATE = "mean over the last fifth of training"
MANY_COLUMNS = 8  # above which only pairs with PAR are compared
LEVEL = 0.05  # of significance


def tables_of(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has numbers for."""
    made = [
        returns(comparison),
        scores(comparison),
        scores(comparison, "measured"),
        aggregates(comparison),
        improvements(comparison),
    ]
    return [table for table in made if table is not None]


def returns(comparison: Comparison) -> Table:
    """Rows tasks, columns methods, the paper's own column beside ours."""
    head, rows, records, suspicions = lead(comparison), [], [], set[str]()
    columns = _columns(comparison)
    for row in comparison.rows:
        line, digits = [], comparison.digits(row)
        for label, paper_method in columns:
            if paper_method is not None:
                printed = published.find(row.source, row.task, paper_method)
                suspicions |= {printed.suspect} if printed else set()
                line.append(Entry(str(printed) if printed else DASH, ("n 5",) if printed else (), "printed"))
                continue
            cell = comparison.cell(row, label)
            line.append(_entry(cell, cell.finals, digits, raw=True) if cell else Entry(DASH))
            if cell:
                printed = published.find(row.source, row.task, cell.method)
                records.append(_record(cell, label, cell.finals) | _paper_record(printed))
        ours = [None if paper else mean_of(comparison.cell(row, label), digits) for label, paper in columns]
        rows.append([*lead_of(row), *marked(line, ours)])
    head += [f"{method} as published" if method else label for label, method in columns]
    if any(_tuned(cell.runs) is not None for cell in comparison.cells):
        head.append("target steps spent on tuning")
        rows = [[*line, _tuning(comparison, row)] for line, row in zip(rows, comparison.rows, strict=True)]
    notes = [published.REASONS[suspect] for suspect in ("likely", "unclear") if suspect in suspicions]
    if comparison.kind == "online":
        notes.append(published.ONLINE_NOTE)
    else:
        notes.append("The paper's datasets are D4RL's, its numbers mean ± std over 5 seeds; ours are the named ones.")
    return Table(
        f"{comparison.kind}-returns", f"Final return in the target, {comparison.kind} source", MEASURE,
        head, rows, records, notes, words=words_of(comparison),
        tinted=frozenset(f"{method} as published" for _, method in columns if method),
    )  # fmt: skip


def scores(comparison: Comparison, kind: str = "published") -> Table | None:
    """The same on the scale of the references."""
    rows, records, bounds = [], [], []
    for row in comparison.rows:
        low_high = reference(row.task, kind)
        if low_high is None:
            continue
        line = []
        bounds.append(f"{row.task} {low_high[0]:g} and {low_high[1]:g}")
        for label in comparison.labels:
            cell = comparison.cell(row, label)
            values = normalised(cell.finals, *low_high) if cell else np.empty(0)
            line.append(_entry(cell, values, 1) if cell else Entry(DASH))
            records += [_record(cell, label, values)] if cell else []
        best = marked(line, [mean_of(comparison.cell(row, label)) for label in comparison.labels])
        rows.append(lead_of(row) + best)
    if not rows:
        return None
    whose = f"{kind} references of the task" if kind == "published" else "references of the task that we measured"
    caption = f"100 (return - low) / (high - low), with low and high the {whose}; otherwise as above."
    ending, by = ("", "") if kind == "published" else (f"-{kind}", " by our own references")
    return Table(
        f"{comparison.kind}-normalised{ending}", f"Normalised score{by}, {comparison.kind} source", caption,
        [*lead(comparison), *comparison.labels], rows, records,
        [f"References, low and high: {'; '.join(dict.fromkeys(bounds))}."], words=words_of(comparison),
    )  # fmt: skip


def aggregates(comparison: Comparison) -> Table | None:
    """Over the tasks that all columns have finished runs of."""
    comparison = parts(comparison)[0].comparison
    by_label = shared_scores(comparison)
    if not by_label:
        return None
    named = {"IQM": iqm, "mean": mean, "median of tasks": median_task, "optimality gap": optimality_gap}
    late = shared_scores(comparison, late=True)
    if drawn := all(np.isfinite(runs).all() for tasks in late.values() for runs in tasks.values()):
        named[LATE] = mean
    rows, records = [], []
    for label, tasks in by_label.items():
        shared, runs = len(tasks), sum(map(len, tasks.values()))
        found: dict[str, Estimate] = {
            name: estimate(late[label] if name == LATE else tasks, statistic) for name, statistic in named.items()
        }
        entries = [Entry(shown(f.value, 1), (shown_interval(f.interval, 1).strip(),)) for f in found.values()]
        rows.append([Entry(label), Entry(str(shared)), Entry(str(runs)), *entries])
        record: dict[str, Any] = {"method": label, "tasks": shared, "runs": runs}
        for name, f in found.items():
            low, high = f.interval or (None, None)
            record |= {name: float(f.value), f"{name} low": low, f"{name} high": high}
        records.append(record)
    for column, name in enumerate(named, 3):
        values = [round(record[name], 1) for record in records]
        best = marked([row[column] for row in rows], values, lowest=name == "optimality gap")
        rows = [[*row[:column], entry, *row[column + 1 :]] for row, entry in zip(rows, best, strict=True)]
    caption = (
        f"Over the {shared} tasks on which every method here has a finished run; 95 % intervals from a bootstrap "
        "that redraws the seeds within each task. Optimality gap: how far runs fall short of 100 on average."
    ) + drawn * f" {LATE.capitalize()}: of the evaluations there, where a final policy is one draw."
    return Table(
        f"{comparison.kind}-aggregate", f"Normalised score over all tasks, {comparison.kind} source", caption,
        ["method", "tasks", "runs", *named], rows, records,
    )  # fmt: skip


def improvements(comparison: Comparison) -> Table | None:
    """Every two columns on the tasks they share."""
    labels = comparison.labels
    by_label: dict[str, dict[str, np.ndarray]] = {}
    for label in labels:
        finished = {cell.row.name: cell.finals for cell in comparison.column(label) if len(cell.finals)}
        by_label |= {label: finished} if finished else {}
    pairs = compare(by_label)
    if len(labels) > MANY_COLUMNS:
        chief = [label for label in labels if label.split(",")[0] == "par"]
        pairs = [pair for pair in pairs if chief and chief[0] in (pair.first, pair.second)]
    if not pairs:
        return None
    rows, records = [], []
    for first, second, improvement, tests in pairs:
        better = sum(test.p_holm < LEVEL and test.difference > 0 for test in tests)
        worse = sum(test.p_holm < LEVEL and test.difference < 0 for test in tests)
        # Holm multiplies the smallest p-value by the number of tasks: if that one cannot pass, none can.
        hopeless = min(smallest_p(*test.runs) for test in tests) * len(tests) >= LEVEL
        chance = Entry(f"{improvement.value:.2f}", (shown_interval(improvement.interval, 2).strip(),))
        undecided = Entry(str(len(tests) - better - worse), hopeless * ("too few seeds to decide",))
        numbers = [Entry(str(len(tests))), chance, Entry(str(better)), Entry(str(worse)), undecided]
        rows.append([Entry(first), Entry(second), *numbers])
        records += [
            {"first": first, "second": second, "task": t.task, "first runs": t.runs[0], "second runs": t.runs[1]}
            | {"difference of means": t.difference, "improvement": t.improvement, "p": t.p_value, "p Holm": t.p_holm}
            for t in tests
        ]
    caption = (
        "The chance that a run of the first beats a run of the second on the same task (0.5: no difference), averaged "
        "over tasks. Then: on how many tasks the first is better or worse at the 5 % level, by Mann-Whitney tests with "
        "Holm's correction over the tasks."
    )
    return Table(
        f"{comparison.kind}-improvement", f"Is one better than the other? {comparison.kind} source", caption,
        ["first", "second", "tasks", "first beats second", "better on", "worse on", "undecided on"], rows, records,
        words=2,
    )  # fmt: skip


def _columns(comparison: Comparison) -> list[tuple[str, str | None]]:
    """(label, None) for ours; after the last one of a method, (its label, the method) for the paper's."""
    method_of = {cell.label: cell.method for cell in comparison.cells}
    labels = comparison.labels
    columns: list[tuple[str, str | None]] = []
    for index, label in enumerate(labels):
        columns.append((label, None))
        method = method_of[label]
        last = method not in {method_of[later] for later in labels[index + 1 :]}
        if last and any(published.find(row.source, row.task, method) for row in comparison.rows):
            columns.append((label, method))
    return columns


def shared_scores(comparison: Comparison, late: bool = False) -> dict[str, dict[str, np.ndarray]]:
    """By column, normalised scores of the tasks that all these columns have; {} where there is no such task.

    A column that lacks most of the tasks is left out rather than the tasks.
    """
    by_label = {label: scores for label in comparison.labels if (scores := _scores(comparison, label, late))}
    fullest = sorted(by_label, key=lambda label: -len(by_label[label]))
    groups = [fullest[:size] for size in range(min(2, len(fullest)), len(fullest) + 1) if size]
    shared = [set.intersection(*(set(by_label[label]) for label in group)) for group in groups]
    size = max(range(len(groups)), key=lambda n: (len(groups[n]) * len(shared[n]), n), default=None)
    if size is None or not shared[size]:
        return {}
    tasks = sorted(shared[size])
    return {label: {task: by_label[label][task] for task in tasks} for label in by_label if label in groups[size]}


def _scores(comparison: Comparison, label: str, late: bool) -> dict[str, np.ndarray]:
    """Normalised scores by row, where there are any."""
    cells = [(cell, reference(cell.row.task)) for cell in comparison.column(label) if cell.finished]
    return {cell.row.name: normalised(cell.lates if late else cell.finals, *bounds) for cell, bounds in cells if bounds}


def mean_of(cell: Cell | None, digits: int = 0) -> float | None:
    """The mean final return as tables show it."""
    return float(shown(float(mean(cell.finals)), digits)) if cell and len(cell.finals) else None


def words_of(comparison: Comparison) -> int:
    return len(lead(comparison))


def lead(comparison: Comparison) -> list[str]:
    return ["task"] if comparison.kind == "online" else ["source", "task"]


def lead_of(row: Row) -> list[Entry]:
    return [Entry(row.task)] if row.kind == "online" else [Entry(row.source), Entry(row.task)]


def key(row: Row, label: str) -> dict[str, Any]:
    return {"source": row.source, "task": row.task, "method": label}


def _entry(cell: Cell, values: np.ndarray, digits: int, raw: bool = False) -> Entry:
    n = f"n {len(values)}" if len(values) == len(cell.runs) else f"n {len(values)} of {len(cell.runs)}"
    if not len(values):
        so_far = [r.last_return for r in cell.runs if r.last_return is not None]
        last = (f"last evaluations so far: {np.mean(so_far):.{digits}f}",) if so_far and raw else ()
        return Entry(DASH, (n, *last), "missing")
    found = estimate(values, iqm)
    middle = (f"IQM {shown(found.value, digits)}", shown_interval(found.interval, digits).strip())
    css = "missing" if len(values) < len(cell.runs) else ""
    return Entry(f"{mean(values):.{digits}f} ± {std(values):.{digits}f}", (*filter(None, middle), n), css)


def _record(cell: Cell, label: str, values: np.ndarray) -> dict[str, Any]:
    record = key(cell.row, label) | {"preset": cell.preset, "finished": len(values), "runs": len(cell.runs)}
    if not len(values):
        return record
    found = estimate(values, iqm)
    low, high = found.interval or (None, None)
    numbers = {"mean": float(mean(values)), "std": float(std(values)), "iqm": float(found.value)}
    return record | numbers | {"iqm low": low, "iqm high": high, "tuning target steps": _tuned(cell.runs)}


def _paper_record(printed: published.Published | None) -> dict[str, Any]:
    if printed is None:
        return {"paper mean": None, "paper std": None, "paper suspect": None}
    return {"paper mean": printed.mean, "paper std": printed.std, "paper suspect": printed.suspect}


def _tuned(runs: Sequence[Any]) -> int | None:
    known = {run.provenance.get("tuning_target_steps") for run in runs} - {None}
    return max(known) if known else None


def _tuning(comparison: Comparison, row: Row) -> Entry:
    cells = [cell for label in comparison.labels if (cell := comparison.cell(row, label))]
    known = [f"{cell.label}: {steps}" for cell in cells if (steps := _tuned(cell.runs)) is not None]
    return Entry("; ".join(known) or DASH)
