"""Makes every table, figure and number of our results from the tables beside this file.

    python results/make.py                              # the tables in PAGES, figures/, summary.json
    python results/make.py --check                      # writes nothing; fails if one of these is out of date
    python results/make.py --add RUNS --study NAME      # first takes runs in: a folder of run folders, or a .tgz of one

A run is known by study, task, method, backbone, preset, variant and seed. None is taken in twice.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import adding
import drawing
from pages import filled
from scores import summary
from store import HERE, Refused

PAGES = ("docs/results.md", "docs/paper.md", "README.md")  # below the repository


def texts() -> dict[str, str]:
    """What the pages and summary.json are to say."""
    pages = {page: filled((HERE.parent / page).read_text()) for page in PAGES}
    return pages | {"results/summary.json": json.dumps(summary(), indent=1) + "\n"}


def outdated() -> list[str]:
    """What would change if all were written anew."""
    stale = [path for path, text in texts().items() if (HERE.parent / path).read_text() != text]
    return stale + [f"results/figures/{name}.png" for name in drawing.FIGURES if not drawing.is_current(name)]


def write_all() -> None:
    for path, text in texts().items():
        (HERE.parent / path).write_text(text)
    for name in drawing.FIGURES:
        drawing.draw(name)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    parser.add_argument("--add", type=Path, metavar="RUNS", help="folder of run folders, or a .tgz of one")
    parser.add_argument("--study", help="what the new runs belong to")
    parser.add_argument("--about", default="", help="of a new study: what it is, in a line")
    parser.add_argument("--apart", action="store_true", help="of a new study: not part of the comparison")
    parser.add_argument("--cut-short", action="store_true", help="take runs that did not end, too")
    asked = parser.parse_args(arguments)
    try:
        if asked.add and not asked.study:
            raise Refused("--add needs --study NAME")
        if asked.add:
            how = {"about": asked.about, "apart": asked.apart, "cut_short": asked.cut_short}
            print(f"{adding.add(asked.add, asked.study, **how)} runs added")
        if not asked.check:
            write_all()
        elif stale := outdated():
            raise Refused(f"out of date: {', '.join(stale)}; run `python results/make.py`")
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
