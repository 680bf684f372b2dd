"""The parts of a comparison: methods on any backbone, then, method by method, what else was changed by hand."""

import re
from dataclasses import dataclass

from .cells import Cell, Comparison
from .drawing import Style, styles

AS_IT_COMES = ("preset ", "backbone ", "domain input ")  # begin what a label may tell of a method as it comes


@dataclass(frozen=True)
class Part:
    """Columns that belong in one table and one figure."""

    whole: Comparison  # what the part is of
    comparison: Comparison
    ending: str = ""  # of the names of its files
    about: str = ""  # for its titles


def parts(comparison: Comparison) -> list[Part]:
    """Methods as they come, on any backbone; for every method with other settings given by hand, these beside it."""
    plain = [cell for cell in comparison.cells if _is_plain(cell)]
    by_hand = dict.fromkeys(cell.method for cell in comparison.cells if not _is_plain(cell))
    if not plain or not by_hand:
        return [Part(comparison, comparison)]
    made = [Part(comparison, Comparison(comparison.kind, tuple(plain)))]
    for method in by_hand:
        rows = {cell.row for cell in comparison.cells if cell.method == method and not _is_plain(cell)}
        cells = tuple(cell for cell in comparison.cells if cell.method == method and cell.row in rows)
        part = Comparison(comparison.kind, cells)
        made.append(Part(comparison, part, f"-{file_name(method)}", f", variants of {method}"))
    return made


def widest(made: list[Part]) -> list[Part]:
    """Those that are no piece of another."""
    cells = [set(map(id, part.comparison.cells)) for part in made]
    return [part for part, own in zip(made, cells, strict=True) if not any(own < other for other in cells)]


def file_name(text: str) -> str:
    """Text that names no other folder and is no markup."""
    return re.sub(r"[^A-Za-z0-9_+-]", "_", text)


def _is_plain(cell: Cell) -> bool:
    return all(told.startswith(AS_IT_COMES) for told in cell.label.split(", ")[1:])


def looks(part: Part) -> dict[str, Style]:
    """Of a part's columns: a method as it comes looks the same in every figure."""
    usual = styles(parts(part.whole)[0].comparison.labels)
    return styles(part.comparison.labels, usual)
