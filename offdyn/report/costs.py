"""The tables beside the results: how fast and how steadily runs learned, and what they cost in time."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .cells import Cell, Comparison, reference, return_digits
from .results import key, lead, lead_of, words_of
from .runs import Run
from .statistics import area_under_curve, median_steps, steps_to_reach
from .stuck import stuck_below, stuck_runs
from .tables import DASH, Entry, Table, shown

HALFWAY = 50.0  # normalised score


def tables_of(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has numbers for."""
    return [table for table in (learning(comparison), run_time(comparison)) if table is not None]


def learning(comparison: Comparison) -> Table | None:
    """How fast, how steadily; columns that no task has numbers for are left out."""
    found = (comparison.cell(row, label) for row in comparison.rows for label in comparison.labels)
    cells = [cell for cell in found if cell and cell.finished]
    records = [_learning_record(cell) for cell in cells]
    entries = [_learning_entries(cell, record) for cell, record in zip(cells, records, strict=True)]
    heads = [head for head in entries[0] if any(line[head].text != DASH for line in entries)] if entries else []
    if not heads:
        return None
    caption = (
        "Area under the curve: the mean return over the target steps of the run. Steps: to the first evaluation at a "
        f"normalised score of {HALFWAY:g}, median over finished runs."
    )
    rows = [
        [*lead_of(cell.row), Entry(cell.label), *(line[head] for head in heads)]
        for cell, line in zip(cells, entries, strict=True)
    ]
    return Table(
        f"{comparison.kind}-learning", f"Learning, {comparison.kind} source", caption,
        [*lead(comparison), "method", *heads], rows, records, words=words_of(comparison) + 1, sortable=True,
    )  # fmt: skip


def _learning_record(cell: Cell) -> dict[str, Any]:
    curves = [_curve(run) for run in cell.finished if drawable(run)]
    areas = [float(area_under_curve(*curve)) for curve in curves if len(curve[0]) > 1]
    record = key(cell.row, cell.label) | {"area under the curve": float(np.mean(areas)) if areas else None}
    if bounds := reference(cell.row.task):
        level = bounds[0] + HALFWAY / 100 * (bounds[1] - bounds[0])
        reached = [steps_to_reach(*curve, level) for curve in curves if len(curve[0])]
        record |= {"level": level, "median target steps to the level": median_steps(reached) if reached else None}
        record |= {
            "runs that reached it": sum(steps is not None for steps in reached),
            "runs with a curve": len(reached),
        }
    if (below := stuck_below(cell.row)) is not None:
        record |= {"stuck below": below, "share of stuck runs": stuck_runs(cell) / len(cell.finals)}
    return record


def _learning_entries(cell: Cell, record: Mapping[str, Any]) -> dict[str, Entry]:
    """By head, what the table shows of a record."""
    arrived = f"{record.get('runs that reached it')} of {record.get('runs with a curve')} runs"
    steps = Entry(
        shown(record.get("median target steps to the level")), (arrived,) * bool(record.get("runs with a curve"))
    )
    below = record.get("stuck below")
    rest = Entry(DASH) if below is None else Entry(f"{stuck_runs(cell)} of {len(cell.finals)}", (f"below {below:.0f}",))
    area = Entry(shown(record["area under the curve"], return_digits(cell.row.task, cell.finals)))
    return {"area under the curve": area, f"target steps to {HALFWAY:g} %": steps, "stuck runs": rest}


def run_time(comparison: Comparison) -> Table | None:
    """What the runs cost."""
    rows, records = [], []
    for row in comparison.rows:
        for label in comparison.labels:
            cell = comparison.cell(row, label)
            timed = [r for r in cell.runs if r.provenance.get("wall_seconds")] if cell else []
            if not timed:
                continue
            seconds = [float(r.provenance["wall_seconds"]) for r in timed]
            rates = [r.provenance.get("updates", 0) / s for r, s in zip(timed, seconds, strict=True)]
            lanes = sorted({int(r.provenance.get("lanes_in_cohort", 1)) for r in timed})
            machines = sorted({_machine(r.provenance) for r in timed})
            texts = [f"{np.mean(seconds):.0f}", f"{np.mean(rates):.0f}", ", ".join(map(str, lanes))]
            rows.append([*lead_of(row), Entry(label), *map(Entry, texts), Entry("; ".join(machines))])
            records.append(
                key(row, label)
                | {"runs": len(timed), "wall seconds": float(np.mean(seconds)), "updates per second": np.mean(rates)}
                | {"runs at once": " ".join(map(str, lanes)), "machine": "; ".join(machines)}
            )
    if not rows:
        return None
    caption = (
        "Wall clock of a run so far, evaluations and compiling included, mean over its seeds. Runs of one cohort share "
        "the device and the clock, so that updates per second are those of each of the runs at once."
    )
    head = [*lead(comparison), "method", "wall seconds", "updates per second", "runs at once", "machine"]
    return Table(
        f"{comparison.kind}-run-time", f"Run time, {comparison.kind} source", caption, head, rows, records,
        words=words_of(comparison) + 1, sortable=True,
    )  # fmt: skip


def drawable(run: Run) -> bool:
    """Whether it learned over target steps, so that its curve has an extent."""
    steps = run.column("target_steps")
    return len(steps) > 1 and bool(steps[-1] > steps[0])


def _curve(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """(target steps, returns), one evaluation for each number of steps."""
    steps, returns = run.column("target_steps"), run.column("target_return_mean")
    kept = np.isfinite(returns) & np.append(np.diff(steps) > 0, True)
    return steps[kept], returns[kept]


def _machine(provenance: Any) -> str:
    device, machine = provenance.get("device") or {}, provenance.get("machine") or {}
    cores = f"{machine.get('cores', '?')} cores of {machine.get('processor', '?')}"
    return f"{device.get('kind', 'device unknown')}, {cores}"
