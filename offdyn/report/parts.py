"""The parts of a comparison: methods as they come, then, method by method, what was changed by hand."""

from dataclasses import dataclass

from .cells import Cell, Comparison
from .drawing import Style, styles


@dataclass(frozen=True)
class Part:
    """Columns that belong in one table and one figure."""

    whole: Comparison  # what the part is of
    comparison: Comparison
    ending: str = ""  # of the names of its files
    about: str = ""  # for its titles


def parts(comparison: Comparison) -> list[Part]:
    """Methods as they come; and for every method with settings given by hand, these beside the method as it comes."""
    plain = [cell for cell in comparison.cells if _is_plain(cell)]
    by_hand = dict.fromkeys(cell.method for cell in comparison.cells if not _is_plain(cell))
    if not plain or not by_hand:
        return [Part(comparison, comparison)]
    made = [Part(comparison, Comparison(comparison.kind, tuple(plain)))]
    for method in by_hand:
        rows = {cell.row for cell in comparison.cells if cell.method == method and not _is_plain(cell)}
        cells = tuple(cell for cell in comparison.cells if cell.method == method and cell.row in rows)
        made.append(Part(comparison, Comparison(comparison.kind, cells), f"-{method}", f", variants of {method}"))
    return made


def _is_plain(cell: Cell) -> bool:
    return cell.label in (cell.method, f"{cell.method}, preset {cell.preset}")


def looks(part: Part) -> dict[str, Style]:
    """Of a part's columns, PAR's in front: a method as it comes looks the same in every figure."""
    usual = styles(par_first(parts(part.whole)[0].comparison))
    return styles(par_first(part.comparison), usual)


def par_first(comparison: Comparison) -> list[str]:
    """Columns with PAR's in front."""
    of = {cell.label: cell.method for cell in comparison.cells}
    return sorted(comparison.labels, key=lambda label: (of[label] != "par", not label.startswith("par")))
