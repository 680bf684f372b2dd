"""Mistakes a user can mend: said in words, without a traceback on the command line."""

import difflib
from collections.abc import Iterable

LONGEST = 80  # letters of what somebody wrote that an error repeats


class OffdynError(ValueError):
    """A mistake in what was asked for; the message says where, what was expected, what came, what to do."""


def check_format(found: object, newest: int, where: object) -> None:
    """Refuse a file that a newer offdyn wrote."""
    if not isinstance(found, int):
        raise OffdynError(f"{where}: its format should be a number, found {found!r}")
    if found > newest:
        raise OffdynError(f"{where}: format {found}, this offdyn reads up to {newest}: update offdyn")


def unknown(kind: str, name: str, known: Iterable[str]) -> OffdynError:
    """The error for a name that is not in a list, with the nearest names first."""
    known = sorted(known)
    return OffdynError(f"no {kind} {shown(name)}{near(name, known)} (known: {', '.join(known)})")


def near(name: str, known: Iterable[str]) -> str:
    """The question after a mistyped name, where something known is near."""
    found = difflib.get_close_matches(name[:LONGEST], list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def shown(value: object) -> str:
    """As Python writes it, without the middle where that is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of that many digits
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 20]}…{text[-15:]}"
