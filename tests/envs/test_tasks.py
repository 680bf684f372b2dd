"""The robots are the paper's robots: geometry, masses, joint limits, and nothing else changed."""

import hashlib
from pathlib import Path

import mujoco
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs.robots import ROBOTS
from offdyn.envs.shifts import EVERY, Edit, Factor, body, geom, joint
from offdyn.envs.tasks import (
    FAMILIES,
    TASKS,
    Task,
    check_pair,
    model_hash,
    normalised,
    reference,
    resolve,
    source_of,
    table,
)

EIGHT = [
    "halfcheetah-broken-back-thigh",
    "halfcheetah-no-thighs",
    "hopper-broken-joints",
    "hopper-big-head",
    "walker-broken-right-foot",
    "walker-no-right-thigh",
    "ant-broken-hips",
    "ant-short-feet",
]
PRINTED = ["halfcheetah-no-thighs-as-printed", "hopper-big-head-as-printed"]
TARGETS = [name for name, task in TASKS.items() if task.shift]

# kg, without the world
MASSES = {
    "halfcheetah": [6.25, 1.54, 1.59, 1.10, 1.44, 1.20, 0.89],
    "halfcheetah-no-thighs": [8.197, 0.354, 1.497, 1.160, 0.354, 1.277, 1.160],
    "halfcheetah-no-thighs-as-printed": [7.570, 0.327, 1.923, 1.327, 0.327, 1.454, 1.071],
    "hopper": [3.67, 4.06, 2.78, 5.32],
    "hopper-big-head": [27.82, 2.53, 2.78, 5.32],
    "hopper-big-head-as-printed": [27.82, 4.06, 2.78, 5.32],
    "walker": [3.67, 4.06, 2.78, 3.17, 4.06, 2.78, 3.17],
    "walker-no-right-thigh": [3.67, 0.56, 4.01, 3.17, 4.06, 2.78, 3.17],
}
TOTALS = {
    "halfcheetah": 14.0,
    "halfcheetah-no-thighs": 14.0,
    "halfcheetah-no-thighs-as-printed": 14.0,
    "hopper": 15.8,
    "hopper-big-head": 38.4,
    "walker": 23.68,
    "walker-no-right-thigh": 21.41,
}


def arrays(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Every number in a compiled model, looks included."""
    found = {name: np.asarray(getattr(model, name)) for name in dir(model) if not name.startswith("_")}
    found |= {f"opt.{name}": np.asarray(getattr(model.opt, name)) for name in dir(model.opt) if name[0] != "_"}
    found["stat.meaninertia"] = np.asarray(model.stat.meaninertia)
    return {name: value for name, value in found.items() if value.dtype.kind in "fiub"}


def changed(task: Task) -> set[str]:
    source, target = arrays(source_of(task).model()), arrays(task.model())
    assert source.keys() == target.keys()
    return {name for name in source if not np.array_equal(source[name], target[name], equal_nan=True)}


def rows(task: Task, field: str, kind: int) -> set[str]:
    """The names of the elements of which this field changed."""
    source, target = source_of(task).model(), task.model()
    different = (getattr(source, field) != getattr(target, field)).reshape(len(getattr(source, field)), -1).any(axis=1)
    return {mujoco.mj_id2name(target, kind, index) for index in np.flatnonzero(different)}


def ends(model: mujoco.MjModel, name: str) -> np.ndarray:
    """A capsule's two ends in its body's frame, the upper or nearer to the body's origin first."""
    half = np.zeros(3)
    shape = model.geom(name)
    mujoco.mju_rotVecQuat(half, np.array([0, 0, shape.size[1]]), shape.quat)
    points = np.array([shape.pos - half, shape.pos + half])
    return points[np.argsort(np.linalg.norm(points, axis=1))]


def test_all_sources_targets_and_printed_variants_have_a_name() -> None:
    assert set(TASKS) == {*ROBOTS, *EIGHT, *PRINTED}


@pytest.mark.parametrize("name", MASSES)
def test_bodies_have_the_masses_of_the_released_models(name: str) -> None:
    half_a_digit = 0.0006 if "no-thighs" in name else 0.006
    np.testing.assert_allclose(TASKS[name].model().body_mass[1:], MASSES[name], rtol=0, atol=half_a_digit)


@pytest.mark.parametrize("name", TOTALS)
def test_total_masses_are_those_of_the_released_models(name: str) -> None:
    assert TASKS[name].model().body_mass.sum() == pytest.approx(TOTALS[name], abs=0.05 if name[0] == "h" else 0.005)


@pytest.mark.parametrize(
    ("name", "joint_name", "degrees"),
    [
        ("halfcheetah", "bthigh", np.degrees([-0.52, 1.05])),
        ("halfcheetah-broken-back-thigh", "bthigh", np.degrees([-0.0052, 0.0105])),
        ("hopper", "thigh_joint", [-150, 0]),
        ("hopper", "foot_joint", [-45, 45]),
        ("hopper-broken-joints", "thigh_joint", [-0.15, 0]),
        ("hopper-broken-joints", "foot_joint", [-18, 18]),
        ("walker", "foot_joint", [-45, 45]),
        ("walker-broken-right-foot", "foot_joint", [-0.45, 0.45]),
        ("walker-broken-right-foot", "foot_left_joint", [-45, 45]),
        ("ant", "hip_1", [-30, 30]),
        ("ant-broken-hips", "hip_1", [-0.3, 0.3]),
        ("ant-broken-hips", "hip_2", [-0.3, 0.3]),
        ("ant-broken-hips", "hip_3", [-30, 30]),
        ("ant-broken-hips", "hip_4", [-30, 30]),
    ],
)
def test_broken_joints_have_the_papers_range(name: str, joint_name: str, degrees: list[float]) -> None:
    limits = np.degrees(TASKS[name].model().joint(joint_name).range)
    np.testing.assert_allclose(limits, degrees, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in TARGETS if TASKS[name].kind == "kinematic"])
def test_a_broken_joint_equals_narrowing_it_in_the_compiled_source(name: str) -> None:
    """The released code multiplies `jnt_range` of the compiled model; so do we here, and all else must be equal."""
    task, by_hand = TASKS[name], source_of(TASKS[name]).model()
    for edit in task.shift:
        assert isinstance(edit.change, Factor)
        by_hand.joint(edit.name).range[:] *= edit.change.by
    model = task.model()
    np.testing.assert_allclose(model.jnt_range, by_hand.jnt_range, rtol=1e-15, atol=1e-18)
    assert changed(task) == {"jnt_range"}


@pytest.mark.parametrize(
    ("name", "geom_name", "radius", "first", "second"),
    [
        ("halfcheetah-no-thighs", "bthigh", 0.046, (0, 0, 0), (-0.0001, 0, -0.0001)),
        ("halfcheetah-no-thighs", "fthigh", 0.046, (0, 0, 0), (0.0001, 0, 0.0001)),
        ("halfcheetah-no-thighs", "bshin", 0.046, (0, 0, 0), (-0.13, 0, -0.15)),
        ("halfcheetah-no-thighs", "fshin", 0.046, (0, 0, 0), (0.01, 0, -0.16)),
        ("halfcheetah-no-thighs-as-printed", "bthigh", 0.046, (0, 0, 0), (-0.0001, 0, -0.0001)),
        ("walker-no-right-thigh", "thigh_geom", 0.05, (0, 0, 0), (0, 0, -0.005)),
        ("walker-no-right-thigh", "leg_geom", 0.04, (0, 0, -0.05), (0, 0, 0.695)),
        ("walker-no-right-thigh", "foot_geom", 0.06, (0, 0, 0.3), (-0.2, 0, 0.3)),
        ("ant", "left_ankle_geom", 0.08, (0, 0, 0), (0.4, 0.4, 0)),
        ("ant-short-feet", "left_ankle_geom", 0.08, (0, 0, 0), (0.1, 0.1, 0)),
        ("ant-short-feet", "right_ankle_geom", 0.08, (0, 0, 0), (-0.1, 0.1, 0)),
        ("ant-short-feet", "third_ankle_geom", 0.08, (0, 0, 0), (-0.4, -0.4, 0)),
    ],
)
def test_limbs_end_where_the_released_models_have_them(
    name: str, geom_name: str, radius: float, first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    model = TASKS[name].model()
    assert model.geom(geom_name).size[0] == radius
    np.testing.assert_allclose(ends(model, geom_name), [first, second], atol=1e-12)


def test_no_thighs_moves_shins_and_feet() -> None:
    model = TASKS["halfcheetah-no-thighs"].model()
    expected = {
        "bshin": (-0.0001, 0, -0.0001),
        "bfoot": (-0.13, 0, -0.15),
        "fshin": (0.0001, 0, 0.0001),
        "ffoot": (0.01, 0, -0.16),
    }
    for name, position in expected.items():
        np.testing.assert_array_equal(model.body(name).pos, position)
    np.testing.assert_array_equal(model.geom("bfoot").size[:2], (0.046, 0.07))


def test_the_printed_no_thighs_leaves_shins_and_feet_as_they_are() -> None:
    assert rows(TASKS["halfcheetah-no-thighs-as-printed"], "geom_size", mujoco.mjtObj.mjOBJ_GEOM) == {
        "bthigh",
        "fthigh",
    }


@pytest.mark.parametrize(("name", "thigh"), [("hopper-big-head", 0.04), ("hopper-big-head-as-printed", 0.05)])
def test_big_head_has_a_big_head(name: str, thigh: float) -> None:
    model = TASKS[name].model()
    assert model.geom("torso_geom").size[0] == 0.125
    assert model.geom("thigh_geom").size[0] == thigh


def test_no_right_thigh_moves_knee_and_ankle_of_the_right_leg() -> None:
    model = TASKS["walker-no-right-thigh"].model()
    np.testing.assert_array_equal(model.joint("leg_joint").pos, (0, 0, 0.695))
    np.testing.assert_array_equal(model.joint("foot_joint").pos, (-0.2, 0, 0.3))
    assert rows(TASKS["walker-no-right-thigh"], "jnt_pos", mujoco.mjtObj.mjOBJ_JOINT) == {"leg_joint", "foot_joint"}
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    hang = data.geom("foot_geom").xpos[2] - data.geom("foot_left_geom").xpos[2]
    assert hang == pytest.approx(0.2)


def test_the_walker_keeps_its_unequal_feet() -> None:
    model = TASKS["walker"].model()
    assert (model.geom("foot_geom").friction[0], model.geom("foot_left_geom").friction[0]) == (0.9, 1.9)


MASS = {"body_mass", "body_inertia", "body_subtreemass"}
# What MuJoCo derives from masses and geometry; of looks, where the camera and the light of the first pose are.
DERIVED = {
    "body_invweight0", "dof_invweight0", "dof_M0", "dof_length", "actuator_acc0", "stat.meaninertia",
    "cam_pos0", "cam_poscom0", "light_pos0", "light_poscom0",
}  # fmt: skip
SHAPE = {"geom_size", "geom_rbound", "geom_aabb", "bvh_aabb"} | MASS | DERIVED
PLACE = {"geom_pos", "geom_quat", "geom_sameframe", "body_sameframe", "body_ipos", "body_iquat"}
NAMED = {  # what an edit is about, which must change, and all that may follow from it
    "joint range": ("jnt_range", {"jnt_range"}),
    "joint position": ("jnt_pos", {"jnt_pos"} | DERIVED),
    "joint damping": ("dof_damping", {"dof_damping"}),
    "joint armature": ("dof_armature", {"dof_armature"} | DERIVED),
    "joint stiffness": ("jnt_stiffness", {"jnt_stiffness"}),
    "geom size": ("geom_size", SHAPE),
    "geom ends": ("geom_size", SHAPE | PLACE),
    "geom friction": ("geom_friction", {"geom_friction"}),
    "body position": ("body_pos", {"body_pos"} | DERIVED),
    "body mass": ("body_mass", MASS | DERIVED),
    "body centre": ("body_ipos", {"body_ipos", "body_sameframe", "body_simple", "bvh_aabb"} | DERIVED),
    "body inertia": ("body_inertia", {"body_inertia"} | DERIVED),
    "actuator strength": ("actuator_gear", {"actuator_gear", "actuator_acc0"}),
    "world gravity": ("opt.gravity", {"opt.gravity"}),
}
# A factor of two is exact in binary, so that nothing moves by a rounding.
OF_MODELS = [name for name, family in FAMILIES.items() if isinstance(family.shift(float(family.example)), Edit)]
MEMBERS = [f"{robot}-{family}-2" for robot in ROBOTS for family in OF_MODELS]


@pytest.mark.parametrize("name", [*TARGETS, *MEMBERS])
def test_each_shift_changes_only_the_model_fields_it_names(name: str) -> None:
    task = resolve(name)
    kinds = [f"{edit.part} {edit.quantity}" for edit in task.shift]
    different = changed(task)
    assert different <= set.union(*(NAMED[kind][1] for kind in kinds))
    assert {NAMED[kind][0] for kind in kinds} <= different


@pytest.mark.parametrize("name", TARGETS)
def test_each_shift_changes_only_the_joints_geoms_and_bodies_it_names(name: str) -> None:
    task = TASKS[name]

    def named(part: str, *quantities: str) -> set[str]:
        return {edit.name for edit in task.shift if edit.part == part and edit.quantity in quantities}

    assert rows(task, "jnt_range", mujoco.mjtObj.mjOBJ_JOINT) == named("joint", "range")
    assert rows(task, "jnt_pos", mujoco.mjtObj.mjOBJ_JOINT) == named("joint", "position")
    assert rows(task, "body_pos", mujoco.mjtObj.mjOBJ_BODY) == named("body", "position")
    shaped = named("geom", "ends", "size")
    moved = rows(task, "geom_size", mujoco.mjtObj.mjOBJ_GEOM) | rows(task, "geom_pos", mujoco.mjtObj.mjOBJ_GEOM)
    assert moved == shaped
    resized = rows(task, "geom_size", mujoco.mjtObj.mjOBJ_GEOM)
    owners = {task.spec().geom(piece).parent.name for piece in resized}
    if not (shaped and task.robot.name == "halfcheetah"):  # its total mass is fixed: every body's share moves
        assert rows(task, "body_mass", mujoco.mjtObj.mjOBJ_BODY) - {None, ""} == owners - {""}


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("family", [name for name in OF_MODELS if name not in ("mass-offset", "centre-of-mass")])
def test_a_family_member_multiplies_what_its_name_says(robot: str, family: str) -> None:
    source, target = TASKS[robot].model(), resolve(f"{robot}-{family}-2.5").model()
    of = {
        "friction": lambda m: m.geom_friction,
        "gravity": lambda m: m.opt.gravity,
        "mass": lambda m: np.append(m.body_mass, m.body_inertia),
        "damping": lambda m: m.dof_damping,
        "armature": lambda m: m.dof_armature,
        "strength": lambda m: m.actuator_gear,
    }[family]
    np.testing.assert_allclose(of(target), 2.5 * of(source), rtol=1e-12)


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_load_and_a_moved_centre_change_the_torso_alone(robot: str) -> None:
    source, heavy = TASKS[robot].model(), resolve(f"{robot}-mass-offset-1.5").model()
    torso = np.arange(source.nbody) == source.body("torso").id
    np.testing.assert_allclose(heavy.body_mass, source.body_mass + 1.5 * torso, rtol=1e-12)
    moved = resolve(f"{robot}-centre-of-mass--0.05").model()
    np.testing.assert_allclose(moved.body_ipos, source.body_ipos + np.outer(torso, (-0.05, 0, 0)), atol=1e-12)
    np.testing.assert_allclose(moved.body_mass, source.body_mass, rtol=1e-12)
    np.testing.assert_allclose(moved.body_inertia, source.body_inertia, rtol=1e-12)


def test_the_mass_family_is_not_undone_by_halfcheetahs_fixed_total_mass() -> None:
    assert resolve("halfcheetah-mass-1.5").model().body_mass.sum() == pytest.approx(21.0)


def test_margins_are_halved_unless_switched_off() -> None:
    for name, margin in (("hopper", 0.001), ("ant", 0.01)):
        assert set(TASKS[name].model().geom_margin) == {margin / 2}
        assert set(TASKS[name].model(halve_margins=False).geom_margin) == {margin}


def test_models_are_compiled_afresh_and_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    first, second = TASKS["halfcheetah"].model(), TASKS["halfcheetah"].model()
    first.body_mass[1] = 99.0
    assert second.body_mass[1] != 99.0
    assert not recwarn.list


def test_the_hash_tells_bodies_apart_and_stays_the_same_for_one() -> None:
    hashes = {name: model_hash(task.model()) for name, task in TASKS.items()}
    assert len(set(hashes.values())) == len(TASKS)
    assert hashes["ant"] == model_hash(resolve("ant").model())
    model = TASKS["ant"].model()
    model.geom_rgba[:] = 0.3
    assert model_hash(model) == hashes["ant"]
    model.dof_armature[-1] += 1e-9
    assert model_hash(model) != hashes["ant"]
    assert hashlib.sha256(b"").hexdigest()[:16] not in hashes.values()


def test_resolve_takes_names_families_files_mappings_and_tasks(tmp_path: Path) -> None:
    text = "name: long-foot\nrobot: hopper\nedits:\n  - {geom: foot_geom, size: {factor: [1, 1.5]}}\n"
    file = tmp_path / "long-foot.yaml"
    file.write_text(text)
    task = Task("long-foot", ROBOTS["hopper"], (geom("foot_geom", size=Factor((1, 1.5))),))
    assert resolve(str(file)) == resolve(file) == resolve(task) == task
    assert resolve(task.to_mapping()) == task
    assert resolve("hopper") is TASKS["hopper"]
    assert resolve("hopper-gravity-.5").shift == resolve("hopper-gravity-0.5").shift
    assert task.model().geom("foot_geom").size[1] == pytest.approx(1.5 * 0.195)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("hopper-bighead", "did you mean 'hopper-big-head'"),
        ("hoper", "did you mean 'hopper'"),
        ("hopper-gravty-0.5", "did you mean 'hopper-gravity-0.5'"),
        ("hopper-gravity-0", "the factor must be from 1e-06 to"),
        ("hopper-gravity-1", "changes nothing: a factor of 1"),
        ("nowhere.yaml", "there is no such file"),
        ({"name": "a", "robot": "hopper", "edit": []}, "did you mean 'edits'"),
        ({"name": "a", "robot": "hoper", "edits": []}, "did you mean 'hopper'"),
        ({"name": "a", "robot": "hopper"}, "edits must be a list"),
        ({"name": "../a", "robot": "hopper", "edits": []}, "letters, digits"),
        ({"name": "hopper-big-head", "robot": "hopper", "edits": []}, "belongs to a built-in task"),
        ({"name": "hopper-mass-2", "robot": "hopper", "edits": []}, "belongs to a built-in task"),
        (Task("hopper", ROBOTS["hopper"], (body("foot", mass=1.0),)), "belongs to a built-in task"),
    ],
)
def test_what_is_no_task_is_refused_with_what_to_do(wanted: object, message: str) -> None:
    with pytest.raises(OffdynError, match=message):
        resolve(wanted)  # type: ignore[arg-type]


def test_a_file_that_is_no_mapping_or_no_yaml_is_refused_by_its_path(tmp_path: Path) -> None:
    for text, message in ((b"- 1", "expected a mapping"), (b"a: [", "not YAML"), (b"robot: \xf0", "not YAML")):
        (tmp_path / "bad.yaml").write_bytes(text)
        with pytest.raises(OffdynError, match=rf"bad\.yaml: {message}"):
            resolve(tmp_path / "bad.yaml")


def test_a_target_equal_to_its_source_is_refused_unless_it_is_meant() -> None:
    same = resolve({"name": "same", "robot": "ant", "edits": []})
    undone = Task("undone", ROBOTS["ant"], (joint(EVERY, damping=Factor(2)), joint(EVERY, damping=Factor(0.5))))
    for target in (TASKS["ant"], same, undone):
        with pytest.raises(OffdynError, match="no shift"):
            check_pair(TASKS["ant"], target)
        check_pair(TASKS["ant"], target, allow_no_shift=True)
    check_pair(TASKS["ant"], TASKS["ant-short-feet"])


def test_a_pair_of_two_robots_is_refused_always() -> None:
    with pytest.raises(OffdynError, match="two tasks of one robot"):
        check_pair(TASKS["ant"], TASKS["hopper-big-head"], allow_no_shift=True)


def test_a_body_mujoco_cannot_compile_is_refused_by_its_name() -> None:
    with pytest.raises(OffdynError, match="task 'spinning': MuJoCo refuses"):
        resolve(Task("spinning", ROBOTS["hopper"], (body("foot", inertia=(0.1, 0.1, 5.0)),)))


@pytest.mark.parametrize("name", EIGHT)
def test_scores_run_from_0_at_the_low_reference_to_100_at_the_high_one(name: str) -> None:
    bounds = reference(TASKS[name])
    assert bounds is not None
    assert [normalised(TASKS[name], bound) for bound in bounds] == pytest.approx([0.0, 100.0])


def test_tasks_without_reference_returns_have_no_score() -> None:
    assert reference(TASKS["ant"]) is None
    assert normalised(resolve("ant-gravity-2"), 1000.0) is None


def test_the_table_lists_every_task_with_its_robots_sizes() -> None:
    sizes = {"halfcheetah": (17, 6), "hopper": (11, 3), "walker": (17, 6), "ant": (27, 8)}
    listed = table()
    assert [row["task"] for row in listed] == list(TASKS)
    for row in listed:
        assert (row["observation size"], row["action size"]) == sizes[row["robot"]]
        assert row["what changes"]
        assert (row["reference low"] is not None) == (row["task"] in EIGHT)
