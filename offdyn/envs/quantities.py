"""What an edit can change in a model: how each quantity is read from and written to MuJoCo's editable spec."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

import mujoco
import numpy as np

from .._util.errors import OffdynError

Values = list[np.ndarray]  # one array per edited element
DEGREES_IN_A_RADIAN = 180.0 / np.pi


def compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a copy, so that the spec stays editable."""
    with warnings.catch_warnings():
        # MuJoCo is pinned, and only this attribute gives halfcheetah's targets the masses of the released files.
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        return spec.copy().compile()


def names(spec: mujoco.MjSpec, part: str) -> list[str]:
    """The names of all joints, geoms, bodies or actuators; a body or actuator without one goes by its joint's."""
    if part == "actuator":
        return [a.name or a.target for a in spec.actuators]
    if part == "body":
        return [b.name or (b.joints[0].name if b.joints else "") for b in spec.bodies]
    return [element.name for element in parts(spec, part)]


def parts(spec: mujoco.MjSpec, part: str) -> list[Any]:
    return list({"joint": spec.joints, "geom": spec.geoms, "body": spec.bodies, "actuator": spec.actuators}[part])


@dataclass(frozen=True)
class Quantity:
    """How to read and write one quantity of some elements of a spec."""

    read: Callable[[mujoco.MjSpec, list[Any]], Values]
    write: Callable[[mujoco.MjSpec, list[Any], Values, Values], None]
    least: float = -inf
    is_positive: bool = False
    is_interval: bool = False
    rank: int = 0  # lower ranks are applied first
    unit: Callable[[mujoco.MjSpec, Any], float] = lambda spec, element: 1.0  # the file's units in one of the user's


def _field(name: str, entries: int | None = None, **rules: Any) -> Quantity:
    """A quantity that is a field of the element: a number, or the first `entries` of an array."""

    def read(spec: mujoco.MjSpec, elements: list[Any]) -> Values:
        return [np.atleast_1d(np.array(getattr(e, name), float))[:entries] for e in elements]

    def write(spec: mujoco.MjSpec, elements: list[Any], old: Values, new: Values) -> None:
        for element, value in zip(elements, new, strict=True):
            whole = getattr(element, name)
            setattr(element, name, [*value, *whole[len(value) :]] if isinstance(whole, np.ndarray) else value[0])

    return Quantity(read, write, **rules)


def _write_range(spec: mujoco.MjSpec, joints: list[Any], old: Values, new: Values) -> None:
    for element, before, after in zip(joints, old, new, strict=True):
        if not np.array_equal(before, after):
            element.range, element.limited = after, mujoco.mjtLimited.mjLIMITED_TRUE


def _angle_unit(spec: mujoco.MjSpec, element: Any) -> float:
    slides = element.type == mujoco.mjtJoint.mjJNT_SLIDE
    return DEGREES_IN_A_RADIAN if spec.compiler.degree and not slides else 1.0


def _ends(spec: mujoco.MjSpec, element: Any) -> np.ndarray:
    """The two end points of a capsule or cylinder in its body's frame, [6]; empty for other shapes."""
    if element.type not in (mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER):
        return np.empty(0)
    if not np.isnan(element.fromto[0]):
        return np.array(element.fromto)
    model = compiled(spec)
    index = [g.name for g in spec.geoms].index(element.name)
    axis = np.empty(3)
    mujoco.mju_rotVecQuat(axis, np.array([0.0, 0.0, model.geom_size[index, 1]]), model.geom_quat[index])
    return np.concatenate([model.geom_pos[index] - axis, model.geom_pos[index] + axis])


def _write_ends(spec: mujoco.MjSpec, geoms: list[Any], old: Values, new: Values) -> None:
    for element, value in zip(geoms, new, strict=True):
        if len(value):
            # MuJoCo refuses end points beside a position or an orientation.
            element.pos, element.quat = (0, 0, 0), (1, 0, 0, 0)
            element.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
            element.size = (element.size[0], 0, 0)
            element.fromto = value


def _size(spec: mujoco.MjSpec, element: Any) -> np.ndarray:
    if element.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_MESH):
        return np.empty(0)
    if element.type == mujoco.mjtGeom.mjGEOM_SPHERE:
        return np.array(element.size[:1])
    if len(ends := _ends(spec, element)) and not np.isnan(element.fromto[0]):
        return np.array([element.size[0], np.linalg.norm(ends[3:] - ends[:3]) / 2])
    return np.array(element.size[: 2 if len(ends) else 3])


def _write_size(spec: mujoco.MjSpec, geoms: list[Any], old: Values, new: Values) -> None:
    for element, before, after in zip(geoms, old, new, strict=True):
        if len(after) == 2 and not np.isnan(element.fromto[0]):
            start, end = np.array(element.fromto).reshape(2, 3)
            middle, half = (start + end) / 2, (end - start) / 2 * after[1] / before[1]
            if after[1] != before[1]:
                element.fromto = [*(middle - half), *(middle + half)]
            element.size = (after[0], 0, 0)
        elif len(after):
            element.size = [*after, *element.size[len(after) :]]


def _write_mass(spec: mujoco.MjSpec, bodies: list[Any], old: Values, new: Values) -> None:
    """Change densities, so that the inertia follows; a fixed total mass (half_cheetah.xml) moves by what was added."""
    for element, before, after in zip(bodies, old, new, strict=True):
        ratio = (after / before).item()
        for piece in element.geoms:
            piece.density, piece.mass = piece.density * ratio, piece.mass * ratio  # an unset mass is NaN and stays it
        if element.explicitinertial:
            element.mass, element.inertia = element.mass * ratio, element.inertia * ratio
    if spec.compiler.settotalmass > 0:
        spec.compiler.settotalmass += float(sum((b - a).item() for a, b in zip(old, new, strict=True)))


def _make_explicit(spec: mujoco.MjSpec, bodies: list[Any]) -> None:
    """Write inertials as compiled, in the densities' own units: a fixed total mass rescales them again."""
    unscaled = spec.copy()
    unscaled.compiler.settotalmass = -1
    model = unscaled.compile()
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    for element, index in zip(bodies, _indices(spec, bodies), strict=True):
        element.explicitinertial = True
        element.mass, element.inertia = model.body_mass[index], model.body_inertia[index]
        element.ipos, element.iquat = model.body_ipos[index], model.body_iquat[index]


def _write_inertia(spec: mujoco.MjSpec, bodies: list[Any], old: Values, new: Values) -> None:
    _make_explicit(spec, bodies)
    for element, before, after in zip(bodies, old, new, strict=True):
        element.inertia = element.inertia * after / before


def _write_centre(spec: mujoco.MjSpec, bodies: list[Any], old: Values, new: Values) -> None:
    _make_explicit(spec, bodies)
    for element, after in zip(bodies, new, strict=True):
        element.ipos = after


def _indices(spec: mujoco.MjSpec, bodies: list[Any]) -> list[int]:
    order = names(spec, "body")  # as in the compiled model
    return [order.index(b.name or b.joints[0].name) for b in bodies]


def _compiled_body_field(name: str) -> Callable[[mujoco.MjSpec, list[Any]], Values]:
    def read(spec: mujoco.MjSpec, bodies: list[Any]) -> Values:
        values = getattr(compiled(spec), name)
        return [np.atleast_1d(values[index]).copy() for index in _indices(spec, bodies)]

    return read


def _write_friction(spec: mujoco.MjSpec, geoms: list[Any], old: Values, new: Values) -> None:
    felt = _felt_frictions(spec)
    _field("friction").write(spec, geoms, old, new)
    if np.array_equal(felt, _felt_frictions(spec)):
        raise OffdynError(
            "the friction edit changes nothing: MuJoCo takes the larger friction of two touching geoms, and all that "
            "these geoms touch have more; edit the floor as well, or every geom ('*')"
        )


def _felt_frictions(spec: mujoco.MjSpec) -> np.ndarray:
    """What two geoms that may touch feel of each other, [pairs, 3]; a contact counts as many as its dimension."""
    entries = {1: 0, 3: 1, 4: 2, 6: 3}
    felt = []
    for a, b in combinations(spec.geoms, 2):
        if (a.contype & b.conaffinity) | (b.contype & a.conaffinity):
            counts = np.arange(3) < entries[max(a.condim, b.condim)]
            felt.append(np.where(counts, np.maximum(a.friction, b.friction), 0.0))
    return np.array(felt)


def _each(read_one: Callable[[mujoco.MjSpec, Any], np.ndarray]) -> Callable[[mujoco.MjSpec, list[Any]], Values]:
    return lambda spec, elements: [read_one(spec, element) for element in elements]


def _read_gravity(spec: mujoco.MjSpec, _: list[Any]) -> Values:
    return [np.array([-spec.option.gravity[2]])]


def _write_gravity(spec: mujoco.MjSpec, _: list[Any], old: Values, new: Values) -> None:
    spec.option.gravity = (0, 0, -new[0].item())


QUANTITIES: dict[str, dict[str, Quantity]] = {
    "joint": {
        "range": Quantity(_field("range").read, _write_range, is_interval=True, unit=_angle_unit),
        "position": _field("pos"),
        "damping": _field("damping", 1, least=0),
        "armature": _field("armature", least=0),
        "stiffness": _field("stiffness", 1, least=0),
    },
    "geom": {
        "size": Quantity(_each(_size), _write_size, is_positive=True),
        "ends": Quantity(_each(_ends), _write_ends),
        "friction": Quantity(_field("friction").read, _write_friction, least=0),
    },
    "body": {
        "position": _field("pos"),
        "mass": Quantity(_compiled_body_field("body_mass"), _write_mass, is_positive=True, rank=1),
        "inertia": Quantity(_compiled_body_field("body_inertia"), _write_inertia, is_positive=True, rank=2),
        "centre": Quantity(_compiled_body_field("body_ipos"), _write_centre, rank=2),
    },
    "actuator": {"strength": _field("gear", 1)},
    "world": {"gravity": Quantity(_read_gravity, _write_gravity, least=0)},
}
