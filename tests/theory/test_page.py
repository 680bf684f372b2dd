"""What docs/methods/par.md says of the theory is what its commands print, and what the random pairs give."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import bounds
from . import information as info
from .finite import summed_return
from .pairs import pairs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "methods" / "par.md").read_text()


def printed_by(module: str) -> str:
    assert f"python -m {module}" in PAGE
    command = [sys.executable, "-m", module]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commands_of_the_page_print_what_it_quotes():
    lost = [line for line in printed_by("tests.theory.counterexamples").splitlines() if "D in source: 0 " in line]
    named = re.findall(r"^- \*(\w.+?)\*: ", PAGE, flags=re.MULTILINE)
    assert [line.split("  ")[0] for line in lost] == [name.lower() for name in named]
    assert all("J_tar - J_src: -" in line for line in lost)

    table = printed_by("tests.theory.looseness").splitlines()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table)
    ratios = {}
    for name in ("TV", "KL"):
        cells = [row[head.index(name)].replace(",", "").removesuffix("inite") for row in rows if row[1] == "0.99"]
        ratios[name] = [float(cell) for cell in cells]
    words = r"TV bound is ([\d,]+) to ([\d,]+) times .* KL\s+bound ([\d,]+) times to infinite"
    said = re.search(words, PAGE, re.DOTALL)
    assert said is not None
    shown = [float(number.replace(",", "")) for number in said.groups()]
    # The last of two digits may turn over elsewhere.
    assert shown == pytest.approx([min(ratios["TV"]), max(ratios["TV"]), min(ratios["KL"])], rel=0.11)
    assert max(ratios["KL"]) == np.inf


def test_the_page_counts_the_pairs_that_violate_what_is_printed():
    assert f"{len(pairs())} pairs" in " ".join(PAGE.split())
    negative, violated = 0, np.zeros(len(bounds.READINGS), int)
    for source, target, policy, *_ in pairs():
        negative += info.information_difference(*info.channels(source, target, policy)) < -1e-8
        lost = summed_return(source, policy) - summed_return(target, policy)
        rounding = 1e-8 * source.largest_reward / (1 - source.discount)
        violated += [
            lost > bounds.as_printed(reading, source, target, policy) + rounding for reading in bounds.READINGS
        ]
    assert violated.min() > 0
    said = re.search(r"violated by\s+(\d+),\s+(\d+),\s+(\d+)\s+and\s+(\d+)", PAGE)
    assert said is not None
    assert np.abs(violated - np.array(said.groups(), int)).max() <= 1
    said = re.search(r"negative for\s+(\d+)\s+of", PAGE)
    assert said is not None
    assert abs(negative - int(said[1])) <= 1
