"""A safetensors file, and a short program that runs it with NumPy alone; a base policy lies beside them."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
from safetensors.numpy import save as to_bytes

from .parts import Parts


def files(parts: Parts) -> dict[str, bytes]:
    if parts.reach is None:
        return {"policy.safetensors": _network(parts), "policy.py": _program("runner")}
    ones = np.ones_like(parts.low)
    chosen = replace(parts, low=-ones, high=ones, reach=None, base=None)
    own = {"environment.low": parts.low, "environment.high": parts.high, "residual": np.array([parts.reach])}
    named = {
        "policy.safetensors": _network(chosen, own),
        "policy.py": _program("residual_runner"),
        "network.py": _program("runner"),
    }
    if isinstance(parts.base, Parts):
        named["base.safetensors"] = _network(parts.base)
    if isinstance(parts.base, Path):
        named["base.onnx"] = parts.base.read_bytes()
        apart = parts.base.with_name(f"{parts.base.name}.data")
        if apart.exists():
            named[apart.name] = apart.read_bytes()  # under the name that the file knows
    return named


def _network(parts: Parts, more: dict[str, np.ndarray] | None = None) -> bytes:
    arrays = parts.arrays() | {name: array.astype(np.float32) for name, array in (more or {}).items()}
    return to_bytes(arrays, {"steps": " ".join(parts.steps)})


def _program(name: str) -> bytes:
    return (resources.files(__package__) / f"{name}.py").read_bytes()
