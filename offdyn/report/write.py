"""`offdyn report`: from folders of runs to a folder with a page, figures and tables."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from .._util.errors import OffdynError
from . import brief, costs, results
from .cells import compare, first_phases, once_each
from .drawing import Figure, save
from .figures import figures_of
from .listing import listing, record
from .notices import Notice, notices, summary
from .overview import overviews
from .page import MARK, page
from .parts import parts
from .runs import Run, gather, planned, standing_apart
from .stuck import rule_for
from .tables import Table, to_csv

NO_MATPLOTLIB = "Figures as files (PNG, PDF) need the Python package matplotlib, which is not installed."


def write(folders: Sequence[Path], out: Path) -> tuple[str, list[Notice]]:
    """Make the report; what it says first, and what is missing or not alike."""
    _check_out(out, folders)
    runs = sorted(gather(folders), key=lambda run: (run.task, run.source, run.method, run.preset, run.shown_as))
    read, dropped = once_each([run for run in runs if run.method])
    begun = first_phases(read)
    comparisons = compare([run for run in read if run.path not in begun])
    for name in ("figures", "tables"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
    main = [brief.in_short(part) for comparison in comparisons for part in parts(comparison)]
    main += [table for comparison in comparisons for table in results.tables_of(comparison)]
    other = [table for comparison in comparisons for table in costs.tables_of(comparison)]
    _write_tables(out / "tables", [*main, *other], runs)
    figures = [figure for comparison in comparisons for figure in figures_of(comparison)]
    seen_first = [one for comparison in comparisons for one in overviews(parts(comparison))]
    no_files = _save([*(one.figure for one in seen_first), *figures], out / "figures")
    left_out = standing_apart(folders, [run.path for run in runs])
    told = notices(runs, comparisons, dropped, planned(folders), left_out)
    said = summary(runs)
    shown_folders = [str(folder) for folder in folders]
    rule = rule_for(comparisons)
    text = page(said, seen_first, told, main, figures, no_files, other, listing(runs), rule, shown_folders)
    (out / "index.html").write_text(text, encoding="utf-8")
    return said, told


def _check_out(out: Path, folders: Sequence[Path]) -> None:
    """Never write among someone else's files."""
    if out.exists() and not out.is_dir():
        raise OffdynError(f"--out {out}: a file; name a folder")
    if out.is_dir() and any(out.iterdir()):
        index = out / "index.html"
        if not index.is_file() or MARK not in index.read_text(encoding="utf-8", errors="replace")[:2000]:
            raise OffdynError(f"--out {out}: holds something else than a report; name another folder, or empty it")
    for folder in folders:
        if folder.resolve() == out.resolve():
            raise OffdynError(f"--out {out}: the runs are there; name another folder")


def _write_tables(out: Path, tables: Sequence[Table], runs: Sequence[Run]) -> None:
    for table in tables:
        (out / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
        (out / f"{table.name}.tex").write_text(table.to_latex(), encoding="utf-8")
        (out / f"{table.name}.md").write_text(table.to_markdown(), encoding="utf-8")
    (out / "runs.csv").write_text(to_csv([record(run) for run in runs]), encoding="utf-8")


def _save(figures: Sequence[Figure], out: Path) -> str:
    """Every figure as files, or why there are none."""
    try:
        for figure in figures:
            save(figure, out)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        return NO_MATPLOTLIB
    return ""
