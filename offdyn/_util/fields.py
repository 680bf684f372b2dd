"""Which settings may differ between the lanes of one program: those annotated `float`, and no others."""

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")


def lanewise(cls: type[T]) -> type[T]:
    """Register a frozen dataclass as a pytree whose floats are leaves (vary by lane) and whose rest is static."""
    import jax

    floats = [field.name for field in dataclasses.fields(cls) if field.type is float]  # type: ignore[arg-type]
    others = [field.name for field in dataclasses.fields(cls) if field.type is not float]  # type: ignore[arg-type]
    return jax.tree_util.register_dataclass(cls, data_fields=floats, meta_fields=others)


def lane_fields(settings: Any) -> dict[str, float]:
    """The values that may differ by lane."""
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.type is float}


def static_fields(settings: Any) -> dict[str, Any]:
    """The values that all lanes of a program share."""
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.type is not float}
