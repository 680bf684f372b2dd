"""Masses and inertias as engines before MuJoCo 2.1.1 had them, the paper's among them: capsules counted as cylinders.

A capsule of radius r and half length h was a cylinder of height H = 2 h + r: its mass density pi r^2 H, its inertia
m r^2 / 2 about the axis and m (3 r^2 + H^2) / 12 across it. Other shapes had what they have today.
"""

import mujoco
import numpy as np

INERTIAS = ("modern", "legacy")


def write_legacy(spec: mujoco.MjSpec) -> None:
    """Give each body the old mass and inertia of its geoms; a fixed total mass rescales them when compiled."""
    model = _with_cylinders(spec).compile()
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    for index, element in enumerate(spec.bodies):
        if index > 0 and model.body_geomnum[index]:
            element.explicitinertial = True
            element.mass, element.inertia = model.body_mass[index], model.body_inertia[index]
            element.ipos, element.iquat = model.body_ipos[index], model.body_iquat[index]


def _with_cylinders(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """A copy in which every capsule is the cylinder it was taken for, for MuJoCo to combine the geoms of a body."""
    other = spec.copy()
    other.compiler.settotalmass = -1  # masses in the densities' own units
    for piece in other.geoms:
        if piece.type == mujoco.mjtGeom.mjGEOM_CAPSULE:
            piece.type = mujoco.mjtGeom.mjGEOM_CYLINDER
            _lengthen(piece, piece.size[0] / 2)
    return other


def _lengthen(piece: mujoco.MjsGeom, by: float) -> None:
    """Move both ends outwards."""
    if np.isnan(piece.fromto[0]):
        piece.size = (piece.size[0], piece.size[1] + by, 0)
        return
    start, end = np.array(piece.fromto).reshape(2, 3)
    shift = (end - start) * by / np.linalg.norm(end - start)
    piece.fromto = [*(start - shift), *(end + shift)]
