"""The page docs/theory.md shows what its commands print, and its counts are those of the random pairs."""

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
PAGE = (ROOT / "docs" / "theory.md").read_text()


def printed_by(module: str) -> str:
    assert f".venv/bin/python -m {module}" in PAGE
    command = [sys.executable, "-m", module]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def numbers_in(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?", text)]


def test_the_page_shows_the_counterexamples_as_they_come_out():
    assert printed_by("tests.theory.counterexamples") in PAGE


def test_the_page_shows_how_loose_the_bounds_are():
    for line in printed_by("tests.theory.looseness").splitlines():
        name = line.split("|")[1]
        shown = [
            row for row in PAGE.splitlines() if row.startswith(f"|{name}|") and row.split("|")[2] == line.split("|")[2]
        ]
        assert len(shown) == 1, line
        # The last of two digits may turn over elsewhere.
        assert numbers_in(shown[0]) == pytest.approx(numbers_in(line), rel=0.11)


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
