"""The comparison in short: a mean with its interval, how many runs, how many stuck, and what is published."""

from typing import Any

from . import published
from .bootstrap import estimate
from .cells import Cell, Comparison, Row
from .parts import Part
from .results import key, lead, lead_of, mean_of, words_of
from .statistics import mean
from .stuck import stuck_below, stuck_runs
from .tables import DASH, Entry, Table, marked, shown, shown_interval

CAPTION = (
    "Mean of the final returns with its 95 % bootstrap interval (of three or more runs), and n, the finished runs."
)


def in_short(part: Part) -> Table:
    """A line for each task, a column for each method, then what is published."""
    comparison = part.comparison
    labels = comparison.labels
    beside = {} if part.about else _published(comparison)
    rows, records = [], []
    for row in comparison.rows:
        cells = [comparison.cell(row, label) for label in labels]
        records += [_record(cell) for cell in cells if cell]
        digits = comparison.digits(row)
        entries = [_entry(cell, digits) if cell else Entry(DASH) for cell in cells]
        line = marked(entries, [mean_of(cell, digits) for cell in cells])
        rows.append(lead_of(row) + line + [Entry(column[row], css="printed") for column in beside.values()])
    return Table(
        f"{comparison.kind}-main{part.ending}", f"In short, {comparison.kind} source{part.about}", CAPTION,
        [*lead(comparison), *labels, *beside], rows, records, _notes(beside), words=words_of(comparison),
        tinted=frozenset(beside),
    )  # fmt: skip


def _entry(cell: Cell, digits: int) -> Entry:
    if not len(cell.finals):
        return Entry(DASH, (f"n 0 of {len(cell.runs)}",), "missing")
    found = estimate(cell.finals, mean)
    n = len(cell.finals)
    count = f"n {n}" if n == len(cell.runs) else f"n {n} of {len(cell.runs)}"
    stuck = stuck_runs(cell)
    small = (shown_interval(found.interval, digits).strip(), f"{count}, {stuck} stuck" if stuck else count)
    return Entry(shown(found.value, digits), tuple(filter(None, small)), "missing" if n < len(cell.runs) else "")


def _record(cell: Cell) -> dict[str, Any]:
    record = key(cell.row, cell.label) | {"finished": len(cell.finals), "runs": len(cell.runs)}
    if not len(cell.finals):
        return record
    found = estimate(cell.finals, mean)
    low, high = found.interval or (None, None)
    numbers = {"mean": float(found.value), "mean low": low, "mean high": high}
    returns = " ".join(f"{value:.3f}" for value in cell.finals)
    return record | numbers | _stuck_record(cell) | {"every run": returns}


def _stuck_record(cell: Cell) -> dict[str, Any]:
    level = stuck_below(cell.row)
    return {} if level is None else {"stuck below": level, "stuck": stuck_runs(cell)}


OFFLINE = "par as published, from datasets"
RERUN = "par, rerun by others"


def _published(comparison: Comparison) -> dict[str, dict[Row, str]]:
    """By head of the column, what stands beside each row; columns without any number are left out."""
    if comparison.kind == "online":
        if "par" not in {cell.method for cell in comparison.cells}:
            return {}
        columns = {
            OFFLINE: {row: published.all_qualities(row.task, "par") for row in comparison.rows},
            RERUN: {row: published.RERUN.get(row.task, "") for row in comparison.rows},
        }
    else:
        methods = dict.fromkeys(cell.method for cell in comparison.cells)
        columns = {
            f"{method} as published": {
                row: str(published.find(row.source, row.task, method) or "") for row in comparison.rows
            }
            for method in methods
        }
    filled = {head: column for head, column in columns.items() if any(column.values())}
    return {head: {row: text or DASH for row, text in column.items()} for head, column in filled.items()}


def _notes(beside: dict[str, dict[Row, str]]) -> list[str]:
    printed = "".join(text for column in beside.values() for text in column.values())
    suspicions = [published.REASONS[kind] for kind, mark in published.MARKS.items() if mark and mark in printed]
    own = [published.QUALITIES_NOTE] * (OFFLINE in beside) + [published.RERUN_NOTE] * (RERUN in beside)
    return [*own, *suspicions]
