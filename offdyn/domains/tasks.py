"""A task: one robot with one shift; the table of all named tasks, and how a task is found by what a user types."""

import csv
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml

from ..errors import OffdynError, unknown
from .quantities import compiled
from .robots import ROBOTS, Robot
from .shifts import EVERY, Edit, Factor, actuator, apply, body, edit_from, geom, gravity, joint


@dataclass(frozen=True)
class Task:
    """A robot and the edits that shift it; no edits: a source."""

    name: str
    robot: Robot
    shift: tuple[Edit, ...] = ()
    kind: str = "own"  # source, kinematic, morphology, a family's name, or own
    description: str = ""

    def spec(self) -> mujoco.MjSpec:
        """The stock model with the edits applied, ready for more of them."""
        asset = resources.files("gymnasium") / "envs/mujoco/assets" / self.robot.xml
        spec = mujoco.MjSpec.from_string(asset.read_text())
        try:
            apply(spec, self.shift)
        except OffdynError as error:
            raise OffdynError(f"task '{self.name}' of {self.robot.name}: {error}") from error
        return spec

    def model(self, halve_margins: bool = True) -> mujoco.MjModel:
        """Compile afresh.

        MuJoCo adds the contact margins of two touching geoms since 3.5 and took the larger one before. Both are equal
        in these models, so halving gives the contacts the published results had; Gymnasium's own do without.
        """
        spec = self.spec()
        if halve_margins:
            for piece in spec.geoms:
                piece.margin *= 0.5
        try:
            return compiled(spec)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise OffdynError(f"task '{self.name}': MuJoCo refuses the edited model: {reason}") from error

    def to_mapping(self) -> dict[str, Any]:
        """The YAML form, which `resolve` reads back."""
        said = {"description": self.description} if self.description else {}
        edits = [edit.to_mapping() for edit in self.shift]
        return {"name": self.name, "robot": self.robot.name, **said, "edits": edits}


# What the paper lists; the released model files change more (see docs/tasks.md).
NO_THIGHS_AS_PRINTED = (
    geom("bthigh", ends=(0, 0, 0, -0.0001, 0, -0.0001)),
    body("bshin", position=(-0.0001, 0, -0.0001)),
    geom("fthigh", ends=(0, 0, 0, 0.0001, 0, 0.0001)),
    body("fshin", position=(0.0001, 0, 0.0001)),
)
NO_THIGHS = (
    *NO_THIGHS_AS_PRINTED,
    geom("bshin", ends=(0, 0, 0, -0.13, 0, -0.15)),
    body("bfoot", position=(-0.13, 0, -0.15)),
    geom("bfoot", size=(0.046, 0.07)),
    geom("fshin", ends=(0, 0, 0, 0.01, 0, -0.16)),
    body("ffoot", position=(0.01, 0, -0.16)),
)
BIG_HEAD_AS_PRINTED = (geom("torso_geom", size=0.125),)
BIG_HEAD = (*BIG_HEAD_AS_PRINTED, geom("thigh_geom", size=0.04))
# The paper gives walker's points in the world's frame; these are the same in the bodies' frames.
NO_RIGHT_THIGH = (
    geom("thigh_geom", ends=(0, 0, 0, 0, 0, -0.005)),
    joint("leg_joint", position=(0, 0, 0.695)),
    geom("leg_geom", ends=(0, 0, 0.695, 0, 0, -0.05)),
    joint("foot_joint", position=(-0.2, 0, 0.3)),
    geom("foot_geom", ends=(-0.2, 0, 0.3, 0, 0, 0.3)),
)
SHORT_FEET = (
    geom("left_ankle_geom", ends=(0, 0, 0, 0.1, 0.1, 0)),
    geom("right_ankle_geom", ends=(0, 0, 0, -0.1, 0.1, 0)),
)


def _table() -> dict[str, Task]:
    rows: list[tuple[str, str, tuple[Edit, ...], str]] = [
        ("halfcheetah-broken-back-thigh", "kinematic", (joint("bthigh", range=Factor(0.01)),),
         "back thigh joint keeps 1/100 of its range"),
        ("halfcheetah-no-thighs", "morphology", NO_THIGHS,
         "both thighs shrink to a point; shins and feet take the shape of the released model file"),
        ("halfcheetah-no-thighs-as-printed", "morphology", NO_THIGHS_AS_PRINTED,
         "both thighs shrink to a point; nothing else"),
        ("hopper-broken-joints", "kinematic",
         (joint("thigh_joint", range=Factor(0.001)), joint("foot_joint", range=Factor(0.4))),
         "thigh joint keeps 1/1000 of its range, foot joint 4/10"),
        ("hopper-big-head", "morphology", BIG_HEAD, "torso radius 0.05 to 0.125 m, thigh radius 0.05 to 0.04 m"),
        ("hopper-big-head-as-printed", "morphology", BIG_HEAD_AS_PRINTED, "torso radius 0.05 to 0.125 m"),
        ("walker-broken-right-foot", "kinematic", (joint("foot_joint", range=Factor(0.01)),),
         "right foot joint keeps 1/100 of its range"),
        ("walker-no-right-thigh", "morphology", NO_RIGHT_THIGH,
         "right thigh shrinks to 5 mm, right shin grows from 0.5 to 0.745 m, right foot hangs 0.2 m above the left"),
        ("ant-broken-hips", "kinematic", (joint("hip_1", range=Factor(0.01)), joint("hip_2", range=Factor(0.01))),
         "both front hips keep 1/100 of their range"),
        ("ant-short-feet", "morphology", SHORT_FEET, "both front feet keep 1/4 of their length"),
    ]  # fmt: skip
    sources = [Task(name, robot, (), "source", "as Gymnasium ships it") for name, robot in ROBOTS.items()]
    targets = [Task(name, ROBOTS[name.split("-")[0]], shift, kind, text) for name, kind, shift, text in rows]
    return {task.name: task for robot in sources for task in (robot, *(t for t in targets if t.robot is robot.robot))}


TASKS: dict[str, Task] = _table()

FAMILIES: dict[str, tuple[str, Any]] = {
    # Floor and robot alike: MuJoCo takes the larger friction of two touching geoms, so this scales every contact's.
    "friction": ("friction of every contact", lambda by: geom(EVERY, friction=Factor(by))),
    "gravity": ("gravity", lambda by: gravity(Factor(by))),
    "mass": ("mass and inertia of every body", lambda by: body(EVERY, mass=Factor(by))),
    "damping": ("damping of every joint", lambda by: joint(EVERY, damping=Factor(by))),
    "armature": ("armature of every joint", lambda by: joint(EVERY, armature=Factor(by))),
    "strength": ("torque of every actuator", lambda by: actuator(EVERY, strength=Factor(by))),
}


NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"


def resolve(wanted: "str | Path | Mapping[str, Any] | Task") -> Task:
    """The task a name, a YAML file, a mapping or a Task stands for; one that cannot be built is refused here."""
    if isinstance(wanted, str) and wanted in TASKS:
        return TASKS[wanted]
    if isinstance(wanted, Task):
        task = wanted
    elif isinstance(wanted, Mapping):
        task = _from_mapping(wanted, "task")
    elif isinstance(wanted, Path) or str(wanted).endswith((".yaml", ".yml")):
        task = _from_file(Path(wanted))
    elif (member := _family_member(wanted)) is not None:
        task = member
    else:
        raise _no_task(wanted)
    task.model()
    return task


def _family_member(name: str) -> Task | None:
    match = re.fullmatch(rf"({'|'.join(ROBOTS)})-({'|'.join(FAMILIES)})-({NUMBER})", name)
    if not match:
        return None
    robot, family, factor = match[1], match[2], float(match[3])
    if factor <= 0:
        raise OffdynError(f"task '{name}': the factor must be more than 0")
    what, edit = FAMILIES[family]
    return Task(name, ROBOTS[robot], (edit(factor),), family, f"{what} times {factor:g}")


def _no_task(name: str) -> OffdynError:
    factor = re.search(rf"-({NUMBER})$", name)
    known = [f"{r}-{f}-{factor[1]}" for r in ROBOTS for f in FAMILIES] if factor else list(TASKS)
    return OffdynError(
        f"{unknown('task', name, known)}; a task is a name that `offdyn list` prints, ROBOT-FAMILY-FACTOR such as "
        f"hopper-gravity-0.5 (families: {', '.join(FAMILIES)}), or a YAML file ending in .yaml"
    )


def _from_file(path: Path) -> Task:
    if not path.is_file():
        raise OffdynError(f"task file {path}: there is no such file; name a task or give a YAML file that exists")
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise OffdynError(f"task file {path}: not YAML: {error}") from error
    return _from_mapping(content, f"task file {path}")


def _from_mapping(content: object, where: str) -> Task:
    keys = ("name", "robot", "edits", "description")
    if not isinstance(content, Mapping):
        raise OffdynError(f"{where}: expected a mapping with the keys name, robot and edits; came {content!r}")
    for key in content:
        if key not in keys:
            raise OffdynError(f"{where}: {unknown('key', str(key), keys)}")
    for key, kind in {"name": str, "robot": str, "edits": list}.items():
        if not isinstance(content.get(key), kind):
            raise OffdynError(f"{where}: {key} must be a {kind.__name__}; came {content.get(key)!r}")
    if content["robot"] not in ROBOTS:
        raise OffdynError(f"{where}: {unknown('robot', content['robot'], ROBOTS)}")
    if not re.fullmatch(r"\w[\w.+-]*", content["name"]):
        raise OffdynError(f"{where}: name may hold letters, digits and . _ + - only; came {content['name']!r}")
    edits = []
    for number, edit in enumerate(content["edits"], start=1):
        try:
            edits.append(edit_from(edit))
        except OffdynError as error:
            raise OffdynError(f"{where}, edit {number}: {error}") from error
    task = Task(content["name"], ROBOTS[content["robot"]], tuple(edits), "own", str(content.get("description", "")))
    built_in = TASKS.get(task.name) or _family_member(task.name)
    if built_in is None:
        return task
    if (built_in.robot.name, built_in.shift) != (task.robot.name, task.shift):
        raise OffdynError(
            f"{where}: the name '{task.name}' belongs to a built-in task with other edits; choose another"
        )
    return built_in


def source_of(task: Task) -> Task:
    """The unshifted robot a target is compared with."""
    return TASKS[task.robot.name]


def check_pair(source: Task, target: Task, allow_no_shift: bool = False) -> None:
    """Refuse two different robots, and two that are the same body unless that is meant."""
    if source.robot.name != target.robot.name:
        raise OffdynError(
            f"source '{source.name}' is of robot {source.robot.name}, target '{target.name}' of {target.robot.name}: "
            "their states and actions differ; choose two tasks of one robot"
        )
    if not allow_no_shift and model_hash(source.model()) == model_hash(target.model()):
        raise OffdynError(
            f"target '{target.name}' has the same compiled model as source '{source.name}': there is no shift to "
            "learn across; choose another target, or set allow_no_shift if that is meant"
        )


def model_hash(model: mujoco.MjModel) -> str:
    """A hash of the compiled model's physics: the same for the same body, whatever its colours and names."""
    digest = hashlib.sha256()
    for name, value in physics_fields(model).items():
        digest.update(name.encode() + repr(value.shape).encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


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


@functools.cache
def _references() -> dict[str, tuple[float, float]]:
    text = (resources.files(__package__) / "reference_scores.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["task"]: (float(row["low"]), float(row["high"])) for row in rows}


def reference(task: Task) -> tuple[float, float] | None:
    """The returns that count as 0 and as 100, where there are published ones."""
    return _references().get(task.name)


def normalised(task: Task, episode_return: float) -> float | None:
    """100 (return - low) / (high - low)."""
    if (bounds := reference(task)) is None:
        return None
    low, high = bounds
    return 100 * (episode_return - low) / (high - low)


def table() -> list[dict[str, Any]]:
    """One row per named task, for `offdyn list`."""
    rows = []
    for task in TASKS.values():
        low, high = reference(task) or (None, None)
        rows.append(
            {
                "robot": task.robot.name,
                "task": task.name,
                "kind": task.kind,
                "what changes": task.description,
                "observation size": task.robot.spec.observation_size,
                "action size": task.robot.spec.action_size,
                "reference low": low,
                "reference high": high,
            }
        )
    return rows
