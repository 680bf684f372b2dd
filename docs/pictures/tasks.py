"""Draws docs/pictures/tasks.png, each source over its two targets, what changes in colour; run it with no arguments."""

import textwrap
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from matplotlib.figure import Figure

from offdyn.envs.quantities import compiled
from offdyn.envs.render import Canvas
from offdyn.envs.tasks import TASKS, Task, source_of

OUT = Path(__file__).with_name("tasks.png")
WIDTH, HEIGHT = 360, 300  # pixels of one panel
WHITE, FLOOR = (1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)
BODY = (0.50, 0.56, 0.64, 1.0)
CHANGED = (0.87, 0.32, 0.10, 1.0)
REACH = (0.87, 0.32, 0.10, 0.10)  # where a joint can take its limb
FORMER = (0.25, 0.25, 0.30, 0.16)  # the source's part where the target's has another shape
REACH_STEPS = 9  # ghosts from one joint limit to the other


class View(NamedTuple):
    """A pose and where to look at it from."""

    lookat: tuple[float, float, float]  # metres
    distance: float
    azimuth: float  # degrees
    elevation: float
    columns: tuple[str, str]  # the joint-range and the shape target
    pose: dict[str, float] = {}  # noqa: RUF012  joint angles in radians; a tuple's default is never changed


# The walker's left leg steps back, so that the right one, which changes, is not hidden; the ant bends its knees.
STEP = {"thigh_left_joint": -0.75, "leg_left_joint": -0.55}
CROUCH = {"ankle_1": 0.7, "ankle_2": -0.7, "ankle_3": -0.7, "ankle_4": 0.7}
VIEWS: dict[str, View] = {
    "halfcheetah": View((0.05, 0, 0.42), 1.7, 90, -6, ("halfcheetah-broken-back-thigh", "halfcheetah-no-thighs")),
    "hopper": View((0.0, 0, 0.74), 2.15, 90, -6, ("hopper-broken-joints", "hopper-big-head")),
    "walker": View((-0.1, 0, 0.74), 2.15, 90, -6, ("walker-broken-right-foot", "walker-no-right-thigh"), STEP),
    "ant": View((0, 0.12, 0.5), 2.2, -90, -62, ("ant-broken-hips", "ant-short-feet"), CROUCH),
}


def draw(path: Path) -> None:
    """Write the picture: the four sources in the first row, their targets below."""
    figure = Figure(figsize=(4 * WIDTH / 100, 3 * (HEIGHT + 75) / 100), dpi=100, facecolor="white")
    panels = figure.subplots(3, 4)
    figure.subplots_adjust(left=0.005, right=0.995, top=0.97, bottom=0.05, wspace=0.03, hspace=0.27)
    for column, (robot, view) in enumerate(VIEWS.items()):
        for row, name in enumerate((robot, *view.columns)):
            task, panel = TASKS[name], panels[row, column]
            panel.imshow(panel_image(task))
            panel.set_axis_off()
            panel.set_title(name, fontsize=12, fontweight="bold", pad=4)
            panel.text(0.5, -0.02, caption(task), ha="center", va="top", fontsize=9, transform=panel.transAxes)
    figure.savefig(path)


def panel_image(task: Task) -> np.ndarray:
    """One body, [HEIGHT, WIDTH, 3]; the source shows the reach of the joints that break in its target."""
    view = VIEWS[task.robot.name]
    kinematic, _ = (TASKS[name] for name in view.columns)
    model, source = _plain_model(task), _plain_model(source_of(task))
    joints = _joints_changed(source, _plain_model(kinematic)) if task.kind in ("source", "kinematic") else []
    limbs = [int(model.jnt_bodyid[joint]) for joint in joints]
    reshaped = _geoms_changed(source, model)
    tinted = reshaped + [g for g in range(model.ngeom) if task.shift and model.geom_bodyid[g] in limbs]
    model.geom_rgba[tinted] = CHANGED

    body, former = _posed(model, view.pose), _posed(source, view.pose)

    def add_ghosts(scene: mujoco.MjvScene) -> None:
        for geom in sorted({*reshaped, *_geoms_moved(former, body)}):
            _add_ghost(scene, source, former, geom, FORMER)
        for joint, limb in zip(joints, limbs, strict=True):
            address = model.jnt_qposadr[joint]
            for angle in np.linspace(model.jnt_range[joint, 0], model.jnt_range[joint, 1], REACH_STEPS):
                ghost = _posed(model, view.pose, {int(address): angle})
                for geom in np.flatnonzero(model.geom_bodyid == limb).tolist():
                    _add_ghost(scene, model, ghost, geom, REACH)

    canvas = Canvas(model, WIDTH, HEIGHT, has_shadows=False)
    try:
        return canvas.draw(body, _camera(view), add_ghosts)
    finally:
        canvas.close()


def caption(task: Task) -> str:
    """What a newcomer should see."""
    if task.kind == "source":
        return "source; shaded: reach of the joint(s)\nthat break in the target below"
    if task.kind == "morphology":
        return "\n".join(textwrap.wrap(task.description, width=52))
    before, after = source_of(task).model(), task.model()
    return "\n".join(
        f"{after.joint(joint).name}: {_degrees(before, joint)}  \u2192  {_degrees(after, joint)}"
        for joint in _joints_changed(before, after)
    )


def _degrees(model: mujoco.MjModel, joint: int) -> str:
    return "{:.3g}° to {:.3g}°".format(*np.degrees(model.jnt_range[joint]))


def _plain_model(task: Task) -> mujoco.MjModel:
    """The task's model in one colour before a white sky."""
    spec = task.spec()
    for texture in spec.textures:
        if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            texture.builtin, texture.rgb1, texture.rgb2 = mujoco.mjtBuiltin.mjBUILTIN_FLAT, WHITE, WHITE
    for geom in spec.geoms:
        geom.material, geom.rgba = "", FLOOR if geom.type == mujoco.mjtGeom.mjGEOM_PLANE else BODY
    for light in spec.lights:
        light.diffuse, light.specular = (0.35,) * 3, (0.0,) * 3
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = (0.45,) * 3, (0.40,) * 3, (0.1,) * 3
    return compiled(spec)


def _posed(model: mujoco.MjModel, pose: dict[str, float], moved: dict[int, float] | None = None) -> mujoco.MjData:
    data = mujoco.MjData(model)
    for joint, angle in pose.items():
        data.joint(joint).qpos = angle
    for address, angle in (moved or {}).items():
        data.qpos[address] = angle
    mujoco.mj_forward(model, data)
    return data


def _joints_changed(source: mujoco.MjModel, target: mujoco.MjModel) -> list[int]:
    return np.flatnonzero((source.jnt_range != target.jnt_range).any(axis=1)).tolist()


def _geoms_changed(source: mujoco.MjModel, target: mujoco.MjModel) -> list[int]:
    before, after = (np.hstack([m.geom_size, m.geom_pos, m.geom_quat]) for m in (source, target))
    return np.flatnonzero((before != after).any(axis=1)).tolist()


def _geoms_moved(source: mujoco.MjData, target: mujoco.MjData) -> list[int]:
    return np.flatnonzero(np.abs(source.geom_xpos - target.geom_xpos).max(axis=1) > 1e-3).tolist()


def _camera(view: View) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    camera.lookat, camera.distance = view.lookat, view.distance
    camera.azimuth, camera.elevation = view.azimuth, view.elevation
    return camera


def _add_ghost(scene: mujoco.MjvScene, model: mujoco.MjModel, data: mujoco.MjData, geom: int, colour: tuple) -> None:
    ghost = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(
        ghost, model.geom_type[geom], model.geom_size[geom] * 0.98, data.geom_xpos[geom], data.geom_xmat[geom],
        np.array(colour, np.float32),
    )  # fmt: skip
    ghost.category = mujoco.mjtCatBit.mjCAT_DECOR
    scene.ngeom += 1


if __name__ == "__main__":
    draw(OUT)
