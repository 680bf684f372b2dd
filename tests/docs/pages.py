"""The pages of the documentation, and the code that stands in them.

A block that no test runs says why, in a comment before it: `<!-- not run: REASON -->`, or, for those of its commands
that hold some text, `<!-- not run (TEXT): REASON -->`.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = re.compile(r"<!-- not run(?: \((?P<text>[^)]+)\))?: (?P<why>\S.*?) -->$")
PROGRAMS = ("offdyn", "python", "pip", "make", "ray", "minari", "tensorboard", "wandb", "git")


@dataclass(frozen=True)
class Block:
    """Lines of code, fenced or indented, and what of them is not run: the text it holds, and the reason."""

    page: str  # its path in the repository
    line: int  # of the page, at which the code begins
    language: str  # as the fence says; empty where it does not, or where the code is indented
    lines: tuple[str, ...]
    not_run: tuple[tuple[str, str], ...]

    @property
    def code(self) -> str:
        return "\n".join(self.lines) + "\n"

    def why_not(self, code: str) -> str | None:
        return next((why for text, why in self.not_run if text in code), None)


@dataclass(frozen=True)
class Command:
    """One command line of a page."""

    page: str
    line: int
    words: tuple[str, ...]
    why_not: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.words)}"


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    page, lines = path.relative_to(ROOT).as_posix(), path.read_text().splitlines()
    marks: list[tuple[str, str]] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = re.match(r"( *)(```+)\s*(\w*)$", line)
        if fence:
            end = next(n for n in range(number + 1, len(lines)) if lines[n].strip() == fence[2])
            code = tuple(text[len(fence[1]) :] for text in lines[number + 1 : end])
            yield Block(page, number + 2, fence[3], code, tuple(marks))
            number = end + 1
        elif _opens_indented_code(lines, number):
            end = next((n for n in range(number, len(lines)) if lines[n][:4].strip()), len(lines))
            yield Block(page, number + 1, "", tuple(text[4:] for text in lines[number:end]), tuple(marks))
            number = end
        else:
            number += 1
            marked = MARK.match(line)
            if marked:
                marks.append((marked["text"] or "", marked["why"]))
            if marked or not line.strip():
                continue
        marks = []


def _opens_indented_code(lines: list[str], number: int) -> bool:
    """Indented after an empty line, and no part of a list's item."""
    if not lines[number].startswith("    ") or not lines[number].strip() or (number and lines[number - 1].strip()):
        return False
    before = next((line for line in reversed(lines[:number]) if line.strip() and not line.startswith(" ")), "")
    return re.match(r"[-*] |\d+\. ", before) is None


def commands(path: Path) -> Iterator[Command]:
    """Every line that a reader would type into a shell, one that goes on after a backslash as one."""
    for block in blocks(path):
        if block.language not in ("", "sh", "bash", "console"):
            continue
        for offset, line in enumerate(re.sub(r" *\\\n *", lambda _: " ", block.code).splitlines()):
            words = line.split(maxsplit=1)
            if words and words[0].removeprefix(".venv/bin/") in PROGRAMS:
                split = shlex.split(line, comments=True)
                split[0] = split[0].removeprefix(".venv/bin/")
                yield Command(block.page, block.line + offset, tuple(split), block.why_not(line))
            elif words and block.language and not line.startswith((" ", "#")):
                yield Command(block.page, block.line + offset, (words[0],), block.why_not(line))


def spans(path: Path) -> Iterator[Command]:
    """Mentions of `offdyn` commands inside sentences and tables, whole or in part."""
    outside = re.sub(r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), path.read_text(), flags=re.M | re.S)
    for number, line in enumerate(outside.splitlines(), start=1):
        for text in re.findall(r"`offdyn ([^`]+)`", line):
            yield Command(path.relative_to(ROOT).as_posix(), number, ("offdyn", *text.split()), None)


def python_blocks(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return [block.code for block in blocks(ROOT / page) if block.language == "python"]
