"""Writes the tables and figures of results/README.md and README.md from the runs beside this file.

    python results/index.py                  # --report REPORT keeps the whole report too; --check only looks

What is between two marks of a page (`<!-- from the runs: NAME -->` to `<!-- end -->`) is replaced, all else stays.
"""

import argparse
import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import about
import contents
from about import RESULTS

from offdyn.errors import OffdynError
from offdyn.report.write import write

FIGURES = RESULTS / "figures"
DRAWN_FROM = FIGURES / "drawn-from.txt"
PAGES = (RESULTS / "README.md", RESULTS.parent / "README.md")
MARKED = re.compile(r"(<!-- from the runs: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
SHOWN = ("online-curves", "online-finals", "online-correction", "online-curves-par", "online-finals-par")
OF_VARIANTS = """
![Target return over target steps of variants of PAR](figures/online-curves-par.png)
![Final returns of variants of PAR: every seed, mean and 95 % interval](figures/online-finals-par.png)
"""


def sections(report: Path) -> dict[str, str]:
    """By name, what stands between the marks of a page."""
    tables = report / "tables"
    main, _, caption = _table(tables, "online-main").partition("\n\n")
    return {
        "main": main,
        "main-caption": caption,
        "variants": _table(tables, "online-main-par", OF_VARIANTS),
        "all-tasks": _table(tables, "online-aggregate"),
        "every-seed": contents.every_seed(tables),
        "plan": contents.plan(),
        "folders": contents.folders(),
        "others": contents.others(),
    }


def _table(tables: Path, name: str, figures: str = "") -> str:
    path = tables / f"{name}.md"
    return path.read_text() + figures if path.exists() else "Nothing yet."


def filled(page: str, made: Mapping[str, str]) -> str:
    """The page with its marked places written anew."""

    def anew(place: re.Match[str]) -> str:
        if place[2] not in made:
            raise OffdynError(f"no part '{place[2]}' to write (known: {', '.join(made)})")
        return f"{place[1]}\n{made[place[2]].strip()}\n\n{place[3]}"

    return MARKED.sub(anew, page)


def digest() -> str:
    """Of all that the figures are drawn from."""
    found = hashlib.sha256()
    for run in sorted(contents.compared(), key=lambda run: run.path):
        for name in ("config.yaml", "curve.csv", "final.json"):
            path = run.path / name
            found.update(f"{path.relative_to(RESULTS).as_posix()}\n".encode())
            found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()


def outdated(report: Path) -> list[str]:
    """What would change if all were written anew from this report."""
    made = sections(report)
    pages = [page for page in PAGES if filled(page.read_text(), made) != page.read_text()]
    drawn = DRAWN_FROM.read_text().strip() if DRAWN_FROM.exists() else ""
    return [str(page.relative_to(RESULTS.parent)) for page in pages] + ["results/figures"] * (drawn != digest())


def write_all(report: Path) -> None:
    if not any((report / "figures").glob("*.png")):
        raise OffdynError("the report has no figures: it needs the Python package matplotlib")
    made = sections(report)
    for page in PAGES:
        page.write_text(filled(page.read_text(), made))
    FIGURES.mkdir(exist_ok=True)
    for name in SHOWN:
        (FIGURES / f"{name}.png").unlink(missing_ok=True)
        if (report / "figures" / f"{name}.png").exists():
            shutil.copyfile(report / "figures" / f"{name}.png", FIGURES / f"{name}.png")
    DRAWN_FROM.write_text(f"{digest()}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, help="folder for the whole report (default: none is kept)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    asked = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            report = asked.report or Path(scratch) / "report"
            said, _ = write([RESULTS], report)
            print(said)
            if not asked.check:
                write_all(report)
            elif stale := outdated(report):
                raise OffdynError(f"out of date: {', '.join(stale)}; run `python results/index.py`")
    except OffdynError as error:
        about.stop(error)


if __name__ == "__main__":
    main()
