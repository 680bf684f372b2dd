"""Mistakes a user can mend: said in words, without a traceback on the command line."""

import difflib
from collections.abc import Iterable


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
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return OffdynError(f"no {kind} '{name}'{hint} (known: {', '.join(known)})")
