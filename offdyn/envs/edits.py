"""An edit: one quantity of a robot's model multiplied, moved or set, in Python or YAML, never in XML.

`joint("foot_joint", range=Factor(0.4))` and the YAML line `{joint: foot_joint, range: {factor: 0.4}}` say the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from .._util.errors import OffdynError, unknown
from .inertia import write_legacy
from .quantities import QUANTITIES, Quantity, Values, names, parts

EVERY = "*"  # as a name: all joints, geoms, actuators, or all bodies but the world
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Factor:
    """Multiply what the model has: by one number, or entry by entry."""

    by: float | Numbers


@dataclass(frozen=True)
class Offset:
    """Add to what the model has: one number to its first entry, or entry by entry."""

    by: float | Numbers


RELATIVE: dict[str, type[Factor] | type[Offset]] = {"factor": Factor, "offset": Offset}


@dataclass(frozen=True)
class Edit:
    """One quantity of one element (or of every one) multiplied by a factor, moved by an offset or set to a value."""

    part: str  # joint, geom, body, actuator or world
    name: str
    quantity: str
    change: Factor | Offset | float | Numbers  # fewer numbers than the quantity has keep the rest

    def __post_init__(self) -> None:
        if self.part not in QUANTITIES:
            raise unknown("kind of model part", self.part, QUANTITIES)
        if self.quantity not in QUANTITIES[self.part]:
            raise unknown(f"quantity of a {self.part}", self.quantity, QUANTITIES[self.part])
        given = _numbers(self.change)
        numbers = tuple(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else (given,)
        is_number = [isinstance(n, int | float | np.number) and not isinstance(n, bool) for n in numbers]
        if not numbers or not all(is_number) or not all(abs(n) <= mujoco.mjMAXVAL for n in numbers):
            most = f"a number of at most {mujoco.mjMAXVAL:g}"
            raise OffdynError(f"{self}: expected {most}, a list, a factor or an offset; came {given!r}")
        # Lists become tuples, so that an edit can be hashed and compared.
        numbers = tuple(float(n) for n in numbers)
        plain = numbers if len(numbers) > 1 else numbers[0]
        kept = type(self.change)(plain) if isinstance(self.change, Factor | Offset) else plain
        object.__setattr__(self, "change", kept)

    def __str__(self) -> str:
        sign = {Factor: "times", Offset: "plus"}.get(type(self.change), "=")
        what = f"{sign} {_numbers(self.change)}"
        return self.quantity + f" {what}" if self.part == "world" else f"{self.part} {self.name} {self.quantity} {what}"

    def to_mapping(self) -> dict[str, Any]:
        """The YAML form."""

        numbers = _numbers(self.change)
        plain = list(numbers) if isinstance(numbers, tuple) else numbers
        way = [name for name, kind in RELATIVE.items() if isinstance(self.change, kind)]
        change = {way[0]: plain} if way else plain
        return {self.quantity: change} if self.part == "world" else {self.part: self.name, self.quantity: change}


def edit_from(mapping: object) -> Edit:
    """Read the YAML form; anything it does not know is refused."""
    parts = [part for part in QUANTITIES if part != "world"]
    if not isinstance(mapping, Mapping):
        raise OffdynError(f"an edit is a mapping such as {{joint: NAME, range: {{factor: 0.5}}}}; came {mapping!r}")
    named = [part for part in parts if part in mapping]
    if len(named) > 1:
        raise OffdynError(f"an edit is about one part; {dict(mapping)} names {' and '.join(named)}: write two edits")
    part = named[0] if named else "world"
    quantities = [key for key in mapping if key != part]
    for key in quantities:
        if key not in QUANTITIES[part]:
            kind = f"quantity of a {part}" if named else "model part or quantity of the world"
            raise unknown(kind, str(key), QUANTITIES[part] if named else [*parts, *QUANTITIES["world"]])
    if len(quantities) != 1:
        raise OffdynError(f"an edit changes one quantity; {dict(mapping)} names {len(quantities)}: write one edit each")
    change = mapping[quantities[0]]
    if isinstance(change, Mapping):
        for key in change:
            if key not in RELATIVE:
                raise unknown("way to change a quantity", str(key), RELATIVE)
        if len(change) != 1:
            raise OffdynError(
                f"{quantities[0]}: expected a number, a list, {{factor: NUMBER}} or {{offset: NUMBER}}; "
                f"came {dict(change)}"
            )
        ((way, by),) = change.items()
        change = RELATIVE[way](by)
    name = mapping[part] if named else "world"
    if not isinstance(name, str):
        raise OffdynError(f"{part}: expected a name or '{EVERY}'; came {name!r}")
    return Edit(part, name, quantities[0], change)


def joint(name: str, **change: Any) -> Edit:
    """Edit a joint's range (radians, or metres where it slides), position, damping, armature or stiffness."""
    return _edit("joint", name, change)


def geom(name: str, **change: Any) -> Edit:
    """Edit a geom's size (radius, half length), ends (two points) or friction (sliding, torsional, rolling)."""
    return _edit("geom", name, change)


def body(name: str, **change: Any) -> Edit:
    """Edit a body's position in its parent, its mass (inertia follows), principal inertia or centre of mass."""
    return _edit("body", name, change)


def actuator(name: str, **change: Any) -> Edit:
    """Edit an actuator's strength: its torque at action 1, in N m."""
    return _edit("actuator", name, change)


def gravity(change: Factor | Offset | float) -> Edit:
    """Edit how strongly everything is pulled down, in m/s^2."""
    return Edit("world", "world", "gravity", change)


def _edit(part: str, name: str, change: Mapping[str, Any]) -> Edit:
    if len(change) != 1:
        raise OffdynError(f"{part} '{name}': an edit changes one quantity, came {sorted(change)}; write one edit each")
    ((quantity, to),) = change.items()
    return Edit(part, name, quantity, to)


def apply(spec: mujoco.MjSpec, edits: Sequence[Edit], inertia: str = "modern") -> None:
    """Edit `spec` in place; geometry first, then mass, then inertia, so that the last two are what was asked for."""
    shaping = [edit for edit in edits if _rank(edit) == 0]
    _make(spec, shaping)
    if inertia == "legacy":  # of the new shapes; edits of mass and inertia start from it
        write_legacy(spec)
    _make(spec, sorted((edit for edit in edits if _rank(edit) > 0), key=_rank))


def _rank(edit: Edit) -> int:
    return QUANTITIES[edit.part][edit.quantity].rank


def _make(spec: mujoco.MjSpec, edits: Sequence[Edit]) -> None:
    for edit in edits:
        quantity = QUANTITIES[edit.part][edit.quantity]
        elements = _elements(spec, edit)
        old = quantity.read(spec, elements)
        new = [_changed(edit, quantity, quantity.unit(spec, e), v) for e, v in zip(elements, old, strict=True)]
        if all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(old, new, strict=True)):
            raise OffdynError(f"the edit '{edit}' changes nothing: {_why_nothing(edit, old)}; change or drop it")
        quantity.write(spec, elements, old, new)


def _elements(spec: mujoco.MjSpec, edit: Edit) -> list[Any]:
    if edit.part == "world":
        return [spec]
    known = names(spec, edit.part)
    if edit.name == EVERY:
        return [element for element, name in zip(parts(spec, edit.part), known, strict=True) if name != "world"]
    if edit.name not in known or edit.name == "world":
        raise unknown(edit.part, edit.name, [name for name in known if name != "world"])
    return [parts(spec, edit.part)[known.index(edit.name)]]


def _changed(edit: Edit, quantity: Quantity, unit: float, old: np.ndarray) -> np.ndarray:
    factor, offset = isinstance(edit.change, Factor), isinstance(edit.change, Offset)
    numbers = np.atleast_1d(np.asarray(_numbers(edit.change), float))
    if not len(old) and edit.name != EVERY:
        raise OffdynError(f"the edit '{edit}' cannot be made: the shape of this {edit.part} has no {edit.quantity}")
    if len(numbers) > len(old) and edit.name != EVERY:
        raise OffdynError(f"the edit '{edit}' gives {len(numbers)} numbers; this {edit.part} takes at most {len(old)}")
    new = old.copy()
    if factor and len(numbers) == 1:
        new = old * numbers
    else:
        kept = min(len(numbers), len(old))
        given = numbers[:kept] * (1.0 if factor else unit)
        new[:kept] = old[:kept] * given if factor else old[:kept] * offset + given
    if (new < quantity.least).any() or (quantity.is_positive and (new <= 0).any()):
        least = "more than 0" if quantity.is_positive else f"at least {quantity.least:g}"
        raise OffdynError(f"the edit '{edit}' gives {edit.quantity} {_text(new)}; it must be {least}")
    if quantity.is_interval and new[0] > new[-1]:
        raise OffdynError(f"the edit '{edit}' gives an empty range {_text(new / unit)}; the lower limit comes first")
    return new


def _numbers(change: Factor | Offset | float | Numbers) -> Any:
    return change.by if isinstance(change, Factor | Offset) else change


def _why_nothing(edit: Edit, old: Values) -> str:
    if isinstance(edit.change, Factor) and np.all(np.asarray(edit.change.by) == 1):
        return "a factor of 1 keeps what is there"
    if isinstance(edit.change, Offset):
        return "an offset of 0 keeps what is there"
    if isinstance(edit.change, Factor) and not any(value.any() for value in old):
        return f"{edit.quantity} is 0, and stays so whatever the factor"
    return f"{edit.quantity} already is {_text(old[0])}" if len(old) == 1 else f"every {edit.part} has that already"


def _text(value: np.ndarray) -> str:
    return "(" + ", ".join(f"{number:g}" for number in value) + ")" if len(value) > 1 else f"{value[0]:g}"
