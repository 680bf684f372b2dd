"""Which body it was: a hash of a compiled model's physics, for every result's record."""

import hashlib
import re

import mujoco
import numpy as np

from .effects import NONE, Effects


def model_hash(model: mujoco.MjModel) -> str:
    """A hash of the compiled model's physics: the same for the same body, whatever its colours and names."""
    digest = hashlib.sha256()
    for name, value in physics_fields(model).items():
        digest.update(name.encode() + repr(value.shape).encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def body_hash(model: mujoco.MjModel, effects: Effects) -> str:
    """A hash of the model and of what stands between it and the agent; without effects that of the model."""
    if effects == NONE:
        return model_hash(model)
    return hashlib.sha256(f"{model_hash(model)} {sorted(effects.to_mapping().items())}".encode()).hexdigest()[:16]


# Colours, names, cameras and the trees that speed up ray casting and collision checks.
LOOKS = re.compile(
    r"n?(name|text?|mat|cam|light|vis|skin|paths?|bvh)(_|s$|$).*|n?(tex|skin)\w*|signature|nbuffer|n?names.*"
    r"|\w+_(rgba|matid|group|bvhadr|bvhnum|pathadr|castshadow)|nbvh\w+"
)


def physics_fields(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Every array of a compiled model that can matter to its motion, `option` included."""
    fields = {n: np.asarray(getattr(model, n)) for n in sorted(dir(model)) if not n.startswith("_")}
    arrays = {n: v for n, v in fields.items() if v.dtype.kind in "fiub" and not LOOKS.fullmatch(n)}
    option = {n: np.asarray(getattr(model.opt, n)) for n in sorted(dir(model.opt)) if not n.startswith("_")}
    solver = {"stat.meaninertia": np.asarray(model.stat.meaninertia)}  # scales the solver's tolerance
    return arrays | solver | {f"opt.{n}": v for n, v in option.items() if v.dtype.kind in "fiub"}
