"""Edits do to the compiled model what they say, in Python and in YAML, and refuse what makes no sense."""

import re
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from offdyn._util.errors import OffdynError
from offdyn.envs.edits import EVERY, Edit, Factor, Offset, actuator, body, edit_from, geom, gravity, joint
from offdyn.envs.effects import Effects
from offdyn.envs.quantities import QUANTITIES
from offdyn.envs.robots import ROBOTS
from offdyn.envs.tasks import TASKS, Task, resolve

# One edit of every quantity, as a factor and as a value, on elements that all four robots have.
FACTORS = [
    joint(EVERY, range=Factor(0.5)),
    joint(EVERY, position=Factor((1, 1, 2))),
    joint(EVERY, damping=Factor(2)),
    joint(EVERY, armature=Factor(2)),
    geom(EVERY, size=Factor(0.9)),
    geom(EVERY, ends=Factor(0.9)),
    geom(EVERY, friction=Factor(2)),
    body(EVERY, position=Factor(1.1)),
    body(EVERY, mass=Factor(2)),
    body("torso", mass=Offset(0.5)),
    body("torso", centre=Offset((0.01, 0, 0.02))),
    body(EVERY, inertia=Factor(2)),
    actuator(EVERY, strength=Factor(2)),
    gravity(Factor(2)),
]
VALUES = [
    joint(EVERY, stiffness=3),
    joint(EVERY, damping=0),
    geom("torso_geom", size=0.07),
    geom("leg_geom", ends=(0, 0, 0.2, 0, 0, -0.2)),
    body("torso", mass=5.0),
    actuator("leg_joint", strength=70),
    gravity(3.7),
]


def model(robot: str, *edits: Edit) -> mujoco.MjModel:
    return Task("edited", ROBOTS[robot], edits).model()


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("edit", FACTORS, ids=str)
def test_every_quantity_can_be_multiplied_on_every_robot(robot: str, edit: Edit) -> None:
    if (robot, edit.quantity) in {("halfcheetah", "position"), ("ant", "position")} and edit.part == "joint":
        with pytest.raises(OffdynError, match="position is 0"):
            model(robot, edit)
        return
    assert model(robot, edit).nbody == TASKS[robot].model().nbody


def test_every_quantity_is_tried() -> None:
    tried = {(edit.part, edit.quantity) for edit in FACTORS + VALUES}
    assert tried == {(part, quantity) for part, quantities in QUANTITIES.items() for quantity in quantities}


@pytest.mark.parametrize("edit", [*FACTORS, *VALUES], ids=str)
def test_yaml_gives_every_edit_back(edit: Edit) -> None:
    assert edit_from(yaml.safe_load(yaml.safe_dump(edit.to_mapping()))) == edit


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_yaml_gives_every_task_back(task: Task) -> None:
    mapping = yaml.safe_load(yaml.safe_dump(task.to_mapping()))
    assert tuple(edit_from(edit) for edit in mapping["edits"]) == task.shift


def test_the_python_and_the_yaml_form_say_the_same() -> None:
    assert edit_from(yaml.safe_load("{joint: foot_joint, range: {factor: 0.4}}")) == joint(
        "foot_joint", range=Factor(0.4)
    )
    assert edit_from(yaml.safe_load("{geom: torso_geom, size: 0.125}")) == geom("torso_geom", size=0.125)
    assert edit_from(yaml.safe_load("gravity: {factor: 0.5}")) == gravity(Factor(0.5))


@pytest.mark.parametrize(("robot", "name"), [("halfcheetah", "bthigh"), ("hopper", "foot_joint")])
def test_ranges_are_radians_whatever_the_file_is_written_in(robot: str, name: str) -> None:
    np.testing.assert_allclose(model(robot, joint(name, range=(-0.1, 0.2))).joint(name).range, (-0.1, 0.2))


def test_a_shorter_list_keeps_the_rest() -> None:
    foot = TASKS["hopper"].model().geom("foot_geom").size
    np.testing.assert_array_equal(
        model("hopper", geom("foot_geom", size=0.07)).geom("foot_geom").size, (0.07, foot[1], 0)
    )
    friction = model("hopper", geom("foot_geom", friction=1.5)).geom("foot_geom").friction
    np.testing.assert_array_equal(friction, (1.5, *TASKS["hopper"].model().geom("foot_geom").friction[1:]))


@pytest.mark.parametrize(("robot", "name"), [("hopper", "foot_geom"), ("ant", "left_ankle_geom")])
def test_sizes_change_alike_whether_a_limb_is_written_by_its_ends_or_its_length(robot: str, name: str) -> None:
    source, target = TASKS[robot].model().geom(name), model(robot, geom(name, size=Factor((2, 0.5)))).geom(name)
    np.testing.assert_allclose(target.size[:2], source.size[:2] * (2, 0.5))
    np.testing.assert_allclose(target.pos, source.pos, atol=1e-15)


@pytest.mark.parametrize(
    ("robot", "name"), [("halfcheetah", "bthigh"), ("halfcheetah", "torso"), ("hopper", "foot_geom")]
)
def test_scaled_ends_keep_a_limbs_direction(robot: str, name: str) -> None:
    """Halfcheetah's limbs are turned by an axis and an angle, hopper's foot by a quaternion, the torso by its ends."""
    source, target = TASKS[robot].model().geom(name), model(robot, geom(name, ends=Factor(0.5))).geom(name)
    np.testing.assert_allclose(target.size[:2], source.size[:2] * (1, 0.5))
    np.testing.assert_allclose(target.pos, source.pos * 0.5, atol=1e-12)
    axes = [np.zeros(9), np.zeros(9)]
    for axis, shape in zip(axes, (source, target), strict=True):
        mujoco.mju_quat2Mat(axis, shape.quat)
    along = [axis.reshape(3, 3)[:, 2] for axis in axes]
    assert abs(along[0] @ along[1]) == pytest.approx(1.0)


@pytest.mark.parametrize(("robot", "name"), [("halfcheetah", "bthigh"), ("hopper", "thigh"), ("ant", "torso")])
def test_a_heavier_body_has_more_mass_and_inertia_and_leaves_the_others_alone(robot: str, name: str) -> None:
    source, target = TASKS[robot].model(), model(robot, body(name, mass=Factor(3)))
    factor = np.where(np.arange(source.nbody) == source.body(name).id, 3.0, 1.0)
    np.testing.assert_allclose(target.body_mass, factor * source.body_mass, rtol=1e-12)
    np.testing.assert_allclose(target.body_inertia, factor[:, None] * source.body_inertia, rtol=1e-12)


@pytest.mark.parametrize(("robot", "name"), [("halfcheetah", "bthigh"), ("hopper", "thigh"), ("ant", "torso")])
def test_a_mass_can_be_given_in_kilograms(robot: str, name: str) -> None:
    source, target = TASKS[robot].model(), model(robot, body(name, mass=2.5))
    assert target.body(name).mass[0] == pytest.approx(2.5)
    gained = target.body_mass.sum() - source.body_mass.sum()
    assert gained == pytest.approx(2.5 - source.body(name).mass[0])


@pytest.mark.parametrize(("robot", "name"), [("halfcheetah", "bthigh"), ("hopper", "thigh"), ("ant", "ankle_1")])
def test_inertia_alone_leaves_every_mass(robot: str, name: str) -> None:
    source, target = TASKS[robot].model(), model(robot, body(name, inertia=Factor(2)))
    index = [b.name or b.joints[0].name for b in TASKS[robot].spec().bodies].index(name)
    factor = np.where(np.arange(source.nbody) == index, 2.0, 1.0)
    np.testing.assert_allclose(target.body_mass, source.body_mass, rtol=1e-12)
    np.testing.assert_allclose(target.body_inertia, factor[:, None] * source.body_inertia, rtol=1e-12)
    np.testing.assert_allclose(target.body_ipos, source.body_ipos, atol=1e-12)


@pytest.mark.parametrize("robot", ["halfcheetah", "hopper"])
def test_mass_and_inertia_come_after_shape_in_whatever_order_they_are_written(robot: str) -> None:
    name, shape = ("bthigh", "bthigh") if robot == "halfcheetah" else ("thigh", "thigh_geom")
    edits = [body(name, inertia=Factor(2)), body(name, mass=1.5), geom(shape, size=0.06)]
    forward, backward = model(robot, *edits), model(robot, *edits[::-1])
    np.testing.assert_array_equal(forward.body_inertia, backward.body_inertia)
    assert forward.body(name).mass[0] == pytest.approx(1.5)
    plain = model(robot, *edits[1:])
    np.testing.assert_allclose(forward.body(name).inertia, 2 * plain.body(name).inertia)


def test_a_heavier_limb_accelerates_less_under_the_same_torque() -> None:
    def acceleration(*edits: Edit) -> float:
        made = model("halfcheetah", *edits)
        data = mujoco.MjData(made)
        made.opt.gravity[:] = 0
        data.ctrl[made.actuator("ffoot").id] = 1.0
        mujoco.mj_forward(made, data)
        return abs(data.joint("ffoot").qacc[0])

    assert acceleration(body("ffoot", mass=Factor(20))) < acceleration()


def test_parts_without_a_name_go_by_their_joints() -> None:
    np.testing.assert_array_equal(
        model("hopper", actuator("leg_joint", strength=50)).actuator_gear[:, 0], [200, 50, 200]
    )
    heavy = model("ant", body("ankle_1", mass=Factor(2)))
    assert np.flatnonzero(heavy.body_mass != TASKS["ant"].model().body_mass).tolist() == [4]


@pytest.mark.parametrize(
    ("robot", "edit", "message"),
    [
        ("hopper", joint("foot_joit", range=Factor(0.5)), "no joint 'foot_joit'; did you mean 'foot_joint'"),
        ("hopper", geom("torso", size=1), "no geom 'torso'; did you mean 'torso_geom'"),
        ("hopper", body("feet", mass=1), "no body 'feet'; did you mean 'foot'"),
        ("hopper", body("world", mass=1), "no body 'world'"),
        ("hopper", actuator("leg", strength=1), "no actuator 'leg'; did you mean 'leg_joint'"),
        ("hopper", gravity(Factor(1)), "changes nothing: a factor of 1"),
        ("hopper", gravity(9.81), "changes nothing: gravity already is 9.81"),
        ("hopper", geom("torso_geom", size=0.05), r"changes nothing: size already is \(0.05, 0.2\)"),
        ("hopper", joint("rootx", damping=Factor(2)), "changes nothing: damping is 0"),
        ("hopper", joint("foot_joint", range=(1, -1)), "empty range"),
        ("hopper", geom("torso_geom", size=-1), "must be more than 0"),
        ("hopper", joint("foot_joint", damping=-1), "must be at least 0"),
        ("hopper", geom("torso_geom", size=(1, 2, 3)), "takes at most 2"),
        ("hopper", geom("torso_geom", friction=Factor(0.5)), "takes the larger friction"),
        ("walker", geom("foot_geom", friction=(0.9, 5.0)), "takes the larger friction"),  # contacts here do not twist
        ("ant", geom("torso_geom", ends=(0, 0, 0, 1, 1, 1)), "has no ends"),
        ("hopper", geom("floor", size=2), "has no size"),
    ],
    ids=str,
)
def test_an_edit_that_cannot_be_meant_is_refused_with_the_reason(robot: str, edit: Edit, message: str) -> None:
    with pytest.raises(OffdynError, match=message) as refusal:
        model(robot, edit)
    assert "task 'edited'" in str(refusal.value)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("foot_joint", "an edit is a mapping"),
        ({"jiont": "a", "range": 1}, "did you mean 'joint'"),
        ({"joint": "a", "rnge": 1}, "did you mean 'range'"),
        ({"joint": "a", "range": {"factr": 1}}, "did you mean 'factor'"),
        ({"joint": "a", "range": {}}, "expected a number"),
        ({"joint": "a"}, "changes one quantity"),
        ({"joint": "a", "range": 1, "damping": 2}, "changes one quantity"),
        ({"joint": "a", "geom": "b", "size": 1}, "joint and geom"),
        ({"joint": 3, "range": 1}, "expected a name"),
        ({"joint": "a", "range": "wide"}, "expected a number of at most"),
        ({"joint": "a", "damping": True}, "expected a number of at most"),
        ({"joint": "a", "damping": float("nan")}, "expected a number of at most"),
        ({"joint": "a", "damping": None}, "expected a number of at most"),
        ({"joint": "a", "range": []}, "expected a number of at most"),
        ({"gravity": {"factor": "half"}}, "expected a number of at most"),
    ],
    ids=str,
)
def test_what_is_no_edit_is_refused(mapping: object, message: str) -> None:
    with pytest.raises(OffdynError, match=message):
        edit_from(mapping)


def test_python_edits_change_one_known_quantity() -> None:
    with pytest.raises(OffdynError, match="one quantity"):
        joint("a", range=1, damping=2)
    with pytest.raises(OffdynError, match="did you mean 'damping'"):
        joint("a", dampng=2)


def test_the_examples_of_the_manual_are_one_shift_in_two_forms() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    written, worn = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    example = next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Task(" in code)
    names: dict = {}
    exec(example, names)
    assert resolve(yaml.safe_load(written)).shift == names["task"].shift
    assert resolve(yaml.safe_load(worn)).effects == Effects(delay=2, deadband=0.1, noise=0.01)


def test_domains_need_no_jax() -> None:
    code = "import sys; from offdyn.envs import gym, render, tasks; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
