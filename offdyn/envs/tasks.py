"""A task: one robot with its shift; the table of all named tasks, and how a task is found by what a user types."""

import csv
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from .._util import files
from .._util.errors import OffdynError, unknown
from .edits import Edit, apply, edit_from
from .effects import NONE, Effects, effects_from
from .inertia import INERTIAS
from .quantities import compiled
from .robots import ROBOTS, Robot
from .shifts import FAMILIES, SHIFTS

LEGACY = "-legacy"  # after the name of any built-in task: the same with legacy inertia


@dataclass(frozen=True)
class Task:
    """A robot, the edits that shift it and what stands between it and the agent; none of both: a source."""

    name: str
    robot: Robot
    shift: tuple[Edit, ...] = ()
    kind: str = "own"  # source, kinematic, morphology, a family's name, or own
    description: str = ""
    inertia: str = "modern"  # or legacy: masses and inertias of capsules as engines before MuJoCo 2.1.1 had them
    effects: Effects = NONE

    def __post_init__(self) -> None:
        if self.inertia not in INERTIAS:
            raise unknown("inertia", str(self.inertia), INERTIAS)

    @property
    def modern_name(self) -> str:
        """The name in tables that were made for the modern body: reference returns, tuned settings."""
        return self.name.removesuffix(LEGACY) if self.inertia == "legacy" else self.name

    def spec(self) -> mujoco.MjSpec:
        """The stock model with the edits applied, ready for more of them."""
        asset = resources.files("gymnasium") / "envs/mujoco/assets" / self.robot.xml
        spec = mujoco.MjSpec.from_string(asset.read_text())
        try:
            apply(spec, self.shift, self.inertia)
        except ValueError as error:  # ours, or MuJoCo's where an edit has to compile what came before it
            reason = " ".join(str(error).split())
            raise OffdynError(f"task '{self.name}' of {self.robot.name}: {reason}") from error
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

    def fingerprint(self) -> str:
        """A hash of all that can matter to its motion and to what an agent sees of it."""
        return body_hash(self.model(), self.effects)

    def to_mapping(self) -> dict[str, Any]:
        """The YAML form, which `resolve` reads back."""
        said = {"description": self.description} if self.description else {}
        said |= {} if self.inertia == "modern" else {"inertia": self.inertia}
        edits = [edit.to_mapping() for edit in self.shift]
        effects = {"effects": self.effects.to_mapping()} if self.effects != NONE else {}
        return {"name": self.name, "robot": self.robot.name, **said, "edits": edits, **effects}


def _table() -> dict[str, Task]:
    tasks = {}
    for robot in ROBOTS.values():
        tasks[robot.name] = Task(robot.name, robot, (), "source", "as Gymnasium ships it")
        for name, kind, edits, description in SHIFTS:
            if name.split("-")[0] == robot.name:
                tasks[name] = Task(name, robot, edits, kind, description)
    return tasks


TASKS: dict[str, Task] = _table()

REFERENCES = {"published": "reference_scores.csv", "measured": "measured_scores.csv"}  # beside this file
NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"


def resolve(wanted: "str | Path | Mapping[str, Any] | Task") -> Task:
    """The task a name, a YAML file, a mapping or a Task stands for; one that cannot be built is refused here."""
    if isinstance(wanted, str) and wanted in TASKS:
        return TASKS[wanted]
    if isinstance(wanted, Task):
        task = _not_another(wanted, "task")
    elif isinstance(wanted, Mapping):
        task = _from_mapping(wanted, "task")
    elif isinstance(wanted, Path) or str(wanted).endswith((".yaml", ".yml")):
        task = _from_file(Path(wanted))
    elif (built_in := _built_in(wanted)) is not None:
        task = built_in
    else:
        raise _no_task(wanted)
    task.model()
    return task


def legacy(task: Task) -> Task:
    """The same with legacy inertia, under its own name."""
    description = f"{task.description}; capsule masses and inertias as before MuJoCo 2.1.1"
    return replace(task, name=task.name + LEGACY, description=description, inertia="legacy")


def _built_in(name: str) -> Task | None:
    """The task of a table or a family, with or without the suffix."""
    plain = name.removesuffix(LEGACY)
    task = TASKS.get(plain) or _family_member(plain)
    return task if task is None or plain == name else legacy(task)


def _family_member(name: str) -> Task | None:
    match = re.fullmatch(rf"({'|'.join(ROBOTS)})-({'|'.join(FAMILIES)})-({NUMBER})", name)
    if not match:
        return None
    robot, kind, number = ROBOTS[match[1]], match[2], float(match[3])
    family = FAMILIES[kind]
    try:
        shift = family.shift(number)
    except OffdynError as error:
        raise OffdynError(f"task '{name}': {error}") from error
    description = family.what.format(f"{number:g}")
    if isinstance(shift, Effects):
        return Task(name, robot, (), kind, description, effects=shift)
    return Task(name, robot, (shift,), kind, description)


def _no_task(name: str) -> OffdynError:
    plain = name.removesuffix(LEGACY)
    if re.fullmatch(rf"({'|'.join(ROBOTS)})(-({'|'.join(FAMILIES)})-({NUMBER})){{2,}}", plain):
        return OffdynError(
            f"task '{plain}': a name holds one family; write several shifts as a YAML file with edits and effects"
        )
    factor = re.search(rf"-({NUMBER})$", plain)
    robots = [robot for robot in ROBOTS if plain.startswith(robot)] or ROBOTS
    known = [f"{r}-{f}-{factor[1]}" for r in robots for f in FAMILIES] if factor else list(TASKS)
    return OffdynError(
        f"{unknown('task', plain, known)}; a task is a name that `offdyn list` prints, ROBOT-FAMILY-NUMBER such as "
        f"hopper-gravity-0.5 (families: {', '.join(FAMILIES)}), either of them followed by {LEGACY}, or a YAML file "
        "ending in .yaml"
    )


def _from_file(path: Path) -> Task:
    if not path.is_file():
        raise OffdynError(f"task file {path}: there is no such file; name a task or give a YAML file that exists")
    return _from_mapping(files.read(path), f"task file {path}")


def _from_mapping(content: object, where: str) -> Task:
    keys = ("name", "robot", "edits", "effects", "description", "inertia")
    if not isinstance(content, Mapping):
        raise OffdynError(f"{where}: expected a mapping with the keys name, robot and edits; came {content!r}")
    for key in content:
        if key not in keys:
            raise OffdynError(f"{where}: {unknown('key', str(key), keys)}")
    content = {"edits": []} | dict(content) if "effects" in content else content
    for key, kind in {"name": str, "robot": str, "edits": list}.items():
        if not isinstance(content.get(key), kind):
            raise OffdynError(f"{where}: {key} must be a {kind.__name__}; came {content.get(key)!r}")
    if content["robot"] not in ROBOTS:
        raise OffdynError(f"{where}: {unknown('robot', content['robot'], ROBOTS)}")
    if (inertia := content.get("inertia", "modern")) not in INERTIAS:
        raise OffdynError(f"{where}: {unknown('inertia', str(inertia), INERTIAS)}")
    if not re.fullmatch(r"\w[\w.+-]*", content["name"]):
        raise OffdynError(f"{where}: name may hold letters, digits and . _ + - only; came {content['name']!r}")
    edits = []
    for number, edit in enumerate(content["edits"], start=1):
        try:
            edits.append(edit_from(edit))
        except OffdynError as error:
            raise OffdynError(f"{where}, edit {number}: {error}") from error
    try:
        effects = effects_from(content.get("effects", {}))
    except OffdynError as error:
        raise OffdynError(f"{where}, effects: {error}") from error
    description = str(content.get("description", ""))
    task = Task(content["name"], ROBOTS[content["robot"]], tuple(edits), "own", description, inertia, effects)
    return _not_another(task, where)


def _not_another(task: Task, where: str) -> Task:
    """Refuse a built-in name for another body: scores and results go by names."""
    built_in = _built_in(task.name)
    if built_in is None:
        return task
    if (built_in.robot.name, built_in.shift, built_in.effects) != (task.robot.name, task.shift, task.effects):
        raise OffdynError(f"{where}: the name '{task.name}' belongs to a built-in task of other edits; choose another")
    if built_in.inertia != task.inertia:
        raise OffdynError(
            f"{where}: the name '{task.name}' belongs to a built-in task with {built_in.inertia} inertia, not "
            f"{task.inertia}; choose another"
        )
    return built_in


def source_of(task: Task) -> Task:
    """The unshifted robot a target is compared with, with inertia of the same kind."""
    source = TASKS[task.robot.name]
    return source if task.inertia == "modern" else legacy(source)


def check_pair(source: Task, target: Task, allow_no_shift: bool = False) -> None:
    """Refuse two different robots, and two that are the same body unless that is meant."""
    if source.robot.name != target.robot.name:
        raise OffdynError(
            f"source '{source.name}' is of robot {source.robot.name}, target '{target.name}' of {target.robot.name}: "
            "their states and actions differ; choose two tasks of one robot"
        )
    if not allow_no_shift and source.fingerprint() == target.fingerprint():
        raise OffdynError(
            f"target '{target.name}' has the same compiled model as source '{source.name}': there is no shift to "
            "learn across; choose another target, or set allow_no_shift if that is meant"
        )


@functools.cache
def _references(kind: str) -> dict[str, tuple[float, float]]:
    text = (resources.files(__package__) / REFERENCES[kind]).read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["task"]: (float(row["low"]), float(row["high"])) for row in rows}


def reference(task: Task, kind: str = "published") -> tuple[float, float] | None:
    """The returns that count as 0 and as 100, where there are some of this kind: published, or measured by us.

    A legacy body has those of the modern one.
    """
    return _references(kind).get(task.modern_name)


def normalised(task: Task, episode_return: float, kind: str = "published") -> float | None:
    """100 (return - low) / (high - low)."""
    if (bounds := reference(task, kind)) is None:
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
