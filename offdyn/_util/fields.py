"""Settings as fields of dataclasses: the values each may have, and which may differ between the lanes of one program.

Those annotated `float` may differ by lane, and no others.
"""

import dataclasses
import math
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 10**9  # of a whole number that says nothing else
WIDEST, DEEPEST = 65_536, 64  # layers
LARGEST = 1e30  # of any other number: its square would be infinite in float32


def setting(
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A field that knows its values: from `least` (or more than `above`) to `most`, or one of `choices`.

    Without any of these a whole number is from 1 to `MOST`, any other number from -`LARGEST` to `LARGEST`.
    """
    said = {"least": least, "most": most, "above": above, "choices": choices}
    return dataclasses.field(default=default, metadata={k: v for k, v in said.items() if v is not None})


def expected(field: "dataclasses.Field[Any]", value: Any) -> str | None:
    """What the setting may be, where it may not be this; its type is right already."""
    said = field.metadata
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        choices = said.get("choices", (value,))
        return None if value in choices else f"{', '.join(choices[:-1])} or {choices[-1]}"
    if isinstance(value, tuple):
        if 1 <= len(value) <= DEEPEST and all(1 <= width <= WIDEST for width in value):
            return None
        return f"one or more widths of at least 1, at most {DEEPEST} of at most {WIDEST}"
    whole = isinstance(value, int)
    above, most = said.get("above", -math.inf), said.get("most", MOST if whole else LARGEST)
    least = said.get("least", 1 if whole else -LARGEST)
    if above < value and least <= value <= most:
        return None
    if "most" in said and not whole:
        words = f"from {least:g} to {most:g}" if "least" in said else f"more than {above:g} and at most {most:g}"
    elif value > most:
        words = f"at most {most}"
    else:
        words = f"more than {above}" if "above" in said else "0 or more" if least == 0 else f"at least {least}"
    return words + (", or none" if "None" in str(field.type) else "")


def lanewise(cls: type[T]) -> type[T]:
    """Register a frozen dataclass as a pytree whose floats are leaves (vary by lane) and whose rest is static."""
    import jax

    floats = [field.name for field in dataclasses.fields(cls) if field.type is float]  # type: ignore[arg-type]
    others = [field.name for field in dataclasses.fields(cls) if field.type is not float]  # type: ignore[arg-type]
    return jax.tree_util.register_dataclass(cls, data_fields=floats, meta_fields=others)


def static_fields(settings: Any) -> dict[str, Any]:
    """The values that all lanes of a program share."""
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.type is not float}
