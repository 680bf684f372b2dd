"""A table once, written four ways: HTML for the page, LaTeX, Markdown, CSV with every number for a program."""

import csv
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .published import MARKS

DASH = "–"
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", MARKS["likely"]: r"$^\dagger$",
    MARKS["unclear"]: r"$^\ddagger$", DASH: "--", "·": r"$\cdot$", "<": r"$<$", ">": r"$>$",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table: the number, and beneath it, smaller, what qualifies it."""

    text: str
    small: tuple[str, ...] = ()
    css: str = ""
    best: bool = False  # of its row or column


@dataclass(frozen=True)
class Table:
    """Rows of entries; `records` hold the same as plain numbers."""

    name: str  # of its files
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    records: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    words: int = 1  # leading columns that hold words, not numbers
    sortable: bool = False
    tinted: frozenset[str] = field(default_factory=frozenset)  # heads of columns that are not ours

    def to_html(self) -> str:
        tinted = {index for index, head in enumerate(self.head) if head in self.tinted}

        def cell(tag: str, index: int, content: str, css: str = "", best: bool = False) -> str:
            names = [
                css,
                "best" if best else "",
                "word" if index < self.words else "",
                "paper" if index in tinted else "",
            ]
            shown = " ".join(name for name in names if name)
            said = ' scope="col"' if tag == "th" else "" if index < self.words else head_of(self.head[index])
            return f"<{tag}{f' class={chr(34)}{shown}{chr(34)}' if shown else ''}{said}>{content}</{tag}>"

        def inside(entry: Entry) -> str:
            small = "".join(f"<small>{html.escape(line)}</small>" for line in entry.small)
            text = html.escape(entry.text)
            return (f"<strong>{text}</strong>" if entry.best else text) + small

        head = "".join(cell("th", index, html.escape(name)) for index, name in enumerate(self.head))
        body = "\n".join(
            "<tr>" + "".join(cell("td", index, inside(e), e.css, e.best) for index, e in enumerate(row)) + "</tr>"
            for row in self.rows
        )
        sortable = ' class="sortable"' if self.sortable else ""
        return (
            f'<section id="{self.name}"><h3>{html.escape(self.title)}</h3>\n'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(self.title)}">'
            f"<table{sortable}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
            f"{folded('How to read this', [self.caption, *self.notes])}"
            f'<p class="files">{files(f"tables/{self.name}", "csv", "tex", "md")}</p></section>'
        )

    def to_latex(self) -> str:
        align = "l" * self.words + "r" * (len(self.head) - self.words)
        lines = [f"% {self.title}. {self.caption}", *(f"% {note}" for note in self.notes)]
        lines = [re.sub(r"\s+", " ", line) for line in lines]
        lines += [rf"\begin{{tabular}}{{{align}}}", r"\hline", " & ".join(map(latex, self.head)) + r" \\", r"\hline"]
        lines += [" & ".join(map(_latex_entry, row)) + r" \\" for row in self.rows]
        return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])

    def to_markdown(self) -> str:
        def line(texts: Sequence[str]) -> str:
            return f"| {' | '.join(texts)} |"

        def inside(entry: Entry) -> str:
            text = f"**{markdown(entry.text)}**" if entry.best else markdown(entry.text)
            return "<br>".join([text, *map(markdown, filter(None, entry.small))])

        align = ["---"] * self.words + ["---:"] * (len(self.head) - self.words)
        lines = [line([markdown(head) for head in self.head]), line(align)]
        lines += [line([inside(entry) for entry in row]) for row in self.rows]
        return "\n".join([*lines, "", " ".join(map(markdown, [self.caption, *self.notes])), ""])

    def to_csv(self) -> str:
        return to_csv(self.records)


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Every record a line; what is not known is empty."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in record.items()} for record in records)
    return text.getvalue()


def markdown(text: str) -> str:
    """Text as itself, whatever is in it."""
    return re.sub(r"([\\`*_<>|]|\](?=\())", r"\\\1", text)


def latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _latex_entry(entry: Entry) -> str:
    text = rf"\textbf{{{latex(entry.text)}}}" if entry.best else latex(entry.text)
    lines = [text, *(rf"\scriptsize {latex(line)}" for line in entry.small if line)]
    return lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r" \\ ".join(lines) + "}"


def head_of(name: str) -> str:
    """What a cell says of its column, for where a table has no room for columns."""
    return f' data-head="{html.escape(name)}"'


def folded(summary: str, lines: Iterable[str]) -> str:
    """Notes behind a click."""
    said = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
    return f'<details class="notes"><summary>{summary}</summary>{said}</details>' if said else ""


def files(stem: str, *endings: str) -> str:
    """Links to the same in other formats, which lie beside the page."""
    return " ".join(f'<a href="{stem}.{ending}" download>{ending.upper()}</a>' for ending in endings)


def marked(entries: Sequence[Entry], values: Sequence[float | None], lowest: bool = False) -> list[Entry]:
    """The entries, the best of several marked; values as they are shown, so that ties are ties."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return list(entries)
    best = min(known) if lowest else max(known)
    return [replace(entry, best=value == best) for entry, value in zip(entries, values, strict=True)]


def shown(value: float | None, digits: int = 0) -> str:
    return DASH if value is None else f"{value:.{digits}f}"


def shown_interval(interval: Any, digits: int = 0) -> str:
    """[low, high], or nothing where there is none."""
    return "" if interval is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
