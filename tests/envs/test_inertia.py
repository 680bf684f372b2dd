"""Legacy inertia: what the paper's engine made of a capsule, by hand; and that nothing else of a task changes."""

import mujoco
import numpy as np
import pytest
import yaml

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.data.doctor import diagnose_dataset
from offdyn.envs import padding, pairs
from offdyn.envs.inertia import write_legacy
from offdyn.envs.robots import ROBOTS
from offdyn.envs.shifts import Factor, body, geom
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import (
    TASKS,
    Task,
    check_pair,
    legacy,
    model_hash,
    normalised,
    physics_fields,
    reference,
    resolve,
    source_of,
)

from ..data.simulated import simulated

BIG_HEAD = "hopper-big-head-legacy"
# Of a hopper with a big head whose masses and inertias were worked out apart from this package.
MASSES = (25.770877, 2.463009, 2.714336, 5.08938)
INERTIAS = ((0.692592, 0.201335), (0.050266, 0.00197), (0.067044, 0.002171), (0.090464, 0.009161))
RADIUS, HALF, DENSITY = 0.06, 0.3, 800.0


def cylinder(radius: float, half: float, density: float) -> tuple[float, float, float]:
    """Mass, inertia across and inertia along of what a capsule was taken for."""
    height = 2 * half + radius
    mass = density * np.pi * radius**2 * height
    return mass, mass * (3 * radius**2 + height**2) / 12, mass * radius**2 / 2


def made_of(*geoms: str) -> mujoco.MjModel:
    xml = f"<mujoco><worldbody><body name='it'><freejoint/>{''.join(geoms)}</body></worldbody></mujoco>"
    spec = mujoco.MjSpec.from_string(xml)
    write_legacy(spec)
    return spec.compile()


def tensor(model: mujoco.MjModel, index: int = 1) -> np.ndarray:
    """[3, 3]: about the centre of mass, in the body's frame."""
    axes = np.empty(9)
    mujoco.mju_quat2Mat(axes, model.body_iquat[index])
    axes = axes.reshape(3, 3)
    return axes @ np.diag(model.body_inertia[index]) @ axes.T


@pytest.mark.parametrize(
    "shape",
    [f"size='{RADIUS} {HALF}' pos='0.1 0 0.2' zaxis='1 2 2'", f"size='{RADIUS}' fromto='0 -0.2 0 0.2 0.2 0.4'"],
    ids=["by its length", "by its ends"],
)
def test_a_capsule_is_a_cylinder_longer_by_its_radius(shape: str) -> None:
    model = made_of(f"<geom type='capsule' density='{DENSITY}' {shape}/>")
    mass, across, along = cylinder(RADIUS, HALF, DENSITY)
    axis = np.array((1.0, 2.0, 2.0)) / 3  # of both
    np.testing.assert_allclose(model.body_mass[1], mass, rtol=1e-12)
    np.testing.assert_allclose(model.body_ipos[1], (0.1, 0, 0.2), atol=1e-12)
    expected = across * np.eye(3) + (along - across) * np.outer(axis, axis)
    np.testing.assert_allclose(tensor(model), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.geom_size[0, :2], (RADIUS, HALF))  # still a capsule to whatever it touches
    assert model.geom_type[0] == mujoco.mjtGeom.mjGEOM_CAPSULE


def test_two_capsules_and_a_sphere_combine_about_their_common_centre() -> None:
    long = "<geom type='capsule' size='0.05 0.2' pos='0 0 0.3' density='1000'/>"
    lying = "<geom type='capsule' size='0.04' fromto='-0.1 0.2 0 0.3 0.2 0' density='500'/>"
    ball = "<geom type='sphere' size='0.1' pos='0.1 -0.2 0' density='700'/>"
    model = made_of(long, lying, ball)
    parts = []  # mass, centre, inertia tensor
    for (radius, half, density), centre, axis in (
        ((0.05, 0.2, 1000), (0, 0, 0.3), (0, 0, 1)),
        ((0.04, 0.2, 500), (0.1, 0.2, 0), (1, 0, 0)),
    ):
        mass, across, along = cylinder(radius, half, density)
        parts.append((mass, np.array(centre), across * np.eye(3) + (along - across) * np.outer(axis, axis)))
    mass = 700 * 4 / 3 * np.pi * 0.1**3
    parts.append((mass, np.array((0.1, -0.2, 0)), 0.4 * mass * 0.1**2 * np.eye(3)))
    total = sum(mass for mass, _, _ in parts)
    middle = sum(mass * centre for mass, centre, _ in parts) / total
    expected = np.zeros((3, 3))
    for mass, centre, own in parts:
        off = centre - middle
        expected += own + mass * (off @ off * np.eye(3) - np.outer(off, off))
    np.testing.assert_allclose(model.body_mass[1], total, rtol=1e-12)
    np.testing.assert_allclose(model.body_ipos[1], middle, atol=1e-12)
    np.testing.assert_allclose(tensor(model), expected, rtol=1e-9, atol=1e-12)


def test_other_shapes_are_as_they_are_today() -> None:
    geoms = (
        "<geom type='sphere' size='0.1' pos='0.3 0 0'/>",
        "<geom type='box' size='0.1 0.2 0.3' pos='0 0.5 0' mass='2'/>",
        "<geom type='cylinder' size='0.1 0.2' zaxis='1 1 0'/>",
    )
    xml = f"<mujoco><worldbody><body><freejoint/>{''.join(geoms)}</body></worldbody></mujoco>"
    today = mujoco.MjModel.from_xml_string(xml)
    np.testing.assert_allclose(made_of(*geoms).body_mass, today.body_mass, rtol=1e-12)
    np.testing.assert_allclose(tensor(made_of(*geoms)), tensor(today), rtol=1e-9, atol=1e-12)


def test_a_capsule_of_a_given_mass_keeps_it() -> None:
    model = made_of("<geom type='capsule' size='0.05 0.2' mass='3'/>")
    _, across, along = cylinder(0.05, 0.2, 3 / (np.pi * 0.05**2 * 0.45))
    np.testing.assert_allclose(model.body_mass[1], 3.0)
    np.testing.assert_allclose(model.body_inertia[1], (across, across, along))


def test_big_heads_masses_and_inertias() -> None:
    model = resolve(BIG_HEAD).model()
    np.testing.assert_allclose(model.body_mass[1:], MASSES, atol=1e-5)
    np.testing.assert_allclose(model.body_inertia[1:], [(a, a, b) for a, b in INERTIAS], atol=1e-5)


def test_the_stock_hopper_has_the_masses_known_from_the_old_engine() -> None:
    model = resolve("hopper-legacy").model()
    np.testing.assert_allclose(model.body_mass[1:], (3.53429, 3.92699, 2.71434, 5.08938), atol=1e-5)


@pytest.mark.parametrize("name", ["halfcheetah", "halfcheetah-no-thighs"])
def test_halfcheetah_shares_14_kg_by_the_cylinders_volumes(name: str) -> None:
    model = resolve(f"{name}-legacy").model()
    volumes, inertia = np.zeros(model.nbody), np.zeros((model.nbody, 3))
    for of, kind, (radius, half, _) in zip(model.geom_bodyid, model.geom_type, model.geom_size, strict=True):
        if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
            volume, across, along = cylinder(radius, half, 1.0)
            volumes[of] += volume
            inertia[of] = across, across, along
    density = 14.0 / volumes.sum()
    assert model.body_mass.sum() == pytest.approx(14.0, rel=1e-12)
    np.testing.assert_allclose(model.body_mass, density * volumes, rtol=1e-9)
    limbs = slice(2, None)  # the torso is two capsules
    np.testing.assert_allclose(model.body_inertia[limbs], density * inertia[limbs], rtol=1e-9)


@pytest.mark.parametrize("robot", ROBOTS)
def test_nothing_changes_but_masses_inertias_and_what_follows_from_them(robot: str) -> None:
    before, after = physics_fields(TASKS[robot].model()), physics_fields(resolve(f"{robot}-legacy").model())
    different = {name for name, value in before.items() if not np.array_equal(value, after[name], equal_nan=True)}
    assert different >= {"body_mass", "body_inertia"}
    follows = {"body_ipos", "body_iquat", "body_subtreemass", "body_invweight0", "body_sameframe", "body_simple"}
    follows |= {
        "dof_M0",
        "dof_length",
        "dof_invweight0",
        "dof_simplenum",
        "actuator_acc0",
        "stat.meaninertia",
        "tendon_invweight0",
    }
    assert different <= {"body_mass", "body_inertia", *follows}


@pytest.mark.parametrize("robot", ROBOTS)
def test_families_of_mass_multiply_the_old_masses(robot: str) -> None:
    plain, heavy = resolve(f"{robot}-legacy").model(), resolve(f"{robot}-mass-1.5-legacy").model()
    np.testing.assert_allclose(heavy.body_mass, 1.5 * plain.body_mass, rtol=1e-9)
    np.testing.assert_allclose(heavy.body_inertia, 1.5 * plain.body_inertia, rtol=1e-9)
    np.testing.assert_array_equal(resolve(f"{robot}-gravity-0.5-legacy").model().body_mass, plain.body_mass)


@pytest.mark.parametrize(
    ("robot", "limb", "shape"), [("halfcheetah", "bthigh", "bthigh"), ("ant", "ankle_1", "left_ankle_geom")]
)
def test_edits_of_mass_and_inertia_start_from_the_old_ones_of_the_new_shape(robot: str, limb: str, shape: str) -> None:
    shaped = geom(shape, size=0.06)

    def model(*edits: object) -> mujoco.MjModel:
        return Task("edited", ROBOTS[robot], edits, inertia="legacy").model()  # type: ignore[arg-type]

    index = [b.name or (b.joints[0].name if b.joints else "") for b in TASKS[robot].spec().bodies].index(limb)
    plain, twice = model(shaped), model(body(limb, inertia=Factor(2)), shaped)
    three = np.where(np.arange(plain.nbody) == index, 3.0, 1.0)
    tripled = model(body(limb, mass=Factor(3)), shaped)
    np.testing.assert_allclose(tripled.body_mass, three * plain.body_mass, rtol=1e-9)
    np.testing.assert_allclose(tripled.body_inertia, three[:, None] * plain.body_inertia, rtol=1e-9)
    np.testing.assert_allclose(twice.body_mass, plain.body_mass, rtol=1e-9)
    np.testing.assert_allclose(twice.body_inertia[index], 2 * plain.body_inertia[index], rtol=1e-9)
    assert model(body(limb, mass=0.7)).body_mass[index] == pytest.approx(0.7)


@pytest.mark.parametrize("name", [*TASKS, "walker-friction-2", "hopper-mass-0.5"])
def test_every_name_has_a_legacy_twin_whose_source_is_legacy_too(name: str) -> None:
    plain, old = resolve(name), resolve(f"{name}-legacy")
    assert (old.robot, old.shift, old.kind, old.inertia) == (plain.robot, plain.shift, plain.kind, "legacy")
    assert source_of(old) == resolve(f"{plain.robot.name}-legacy") == source_of(source_of(old))
    assert model_hash(old.model()) != model_hash(plain.model())
    assert resolve(yaml.safe_load(yaml.safe_dump(old.to_mapping()))) == old
    assert resolve(old) == old
    assert "inertia" not in plain.to_mapping()


def test_a_task_of_ones_own_says_its_inertia() -> None:
    mapping = {"name": "wide", "robot": "hopper", "edits": [{"geom": "torso_geom", "size": 0.125}], "inertia": "legacy"}
    task = resolve(mapping)
    assert task.to_mapping() == {**mapping, "edits": [{"geom": "torso_geom", "size": 0.125}]}
    assert task.model().body_mass[1] == pytest.approx(25.770877, abs=1e-5)
    modern = resolve({**mapping, "inertia": "modern"})
    np.testing.assert_array_equal(modern.model().body_mass, TASKS["hopper-big-head-as-printed"].model().body_mass)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"name": "a", "robot": "hopper", "edits": [], "inertia": "legasy"},
            "no inertia 'legasy'; did you mean 'legacy'",
        ),
        ({"name": "a", "robot": "hopper", "edits": [], "inertia": ["legacy"]}, "no inertia"),
        ({"name": "hopper", "robot": "hopper", "edits": [], "inertia": "legacy"}, "with modern inertia, not legacy"),
        ({"name": "hopper-legacy", "robot": "hopper", "edits": []}, "with legacy inertia, not modern"),
        ({"name": BIG_HEAD, "robot": "hopper", "edits": [], "inertia": "legacy"}, "of other edits"),
        ("hopper-bighead-legacy", "did you mean 'hopper-big-head'"),
        ("hopper-legacy-legacy", "no task"),
        ("hopper-mass-0-legacy", r"the factor must be from 1e-06 to 1e\+06"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_in_words(wanted: object, message: str) -> None:
    with pytest.raises(OffdynError, match=message):
        resolve(wanted)  # type: ignore[arg-type]


def test_an_unknown_inertia_is_refused_in_python_too() -> None:
    with pytest.raises(OffdynError, match=r"no inertia 'old' \(known: legacy, modern\)"):
        Task("a", ROBOTS["hopper"], inertia="old")


def test_scores_are_those_of_the_modern_bodys_references() -> None:
    for kind in ("published", "measured"):
        assert reference(resolve(BIG_HEAD), kind) == reference(TASKS["hopper-big-head"], kind) is not None
    assert normalised(resolve(BIG_HEAD), 1000.0) == normalised(TASKS["hopper-big-head"], 1000.0)
    assert reference(resolve("hopper-legacy")) is None


def test_a_pair_has_one_kind_of_inertia_and_its_own_fingerprints() -> None:
    old, new = pairs.fingerprints(resolve(BIG_HEAD)), pairs.fingerprints(resolve("hopper-big-head"))
    assert len({*old.values(), *new.values()}) == 4
    pairs.check(resolve(BIG_HEAD), allow_no_shift=False)
    with pytest.raises(OffdynError, match="no shift"):
        check_pair(resolve("ant-legacy"), legacy(TASKS["ant"]))
    assert pairs.find(BIG_HEAD) == resolve(BIG_HEAD)


def test_rows_of_the_modern_source_are_not_the_legacy_ones() -> None:
    rows = simulated("hopper")

    def codes(target: str) -> set[str]:
        return {finding.name for finding in diagnose_dataset(rows, source_of(resolve(target)))}

    assert not codes("hopper-big-head") & {"other-engine", "wrong-body"}
    assert codes(BIG_HEAD) & {"other-engine", "wrong-body"}


def test_legacy_and_modern_bodies_step_side_by_side_and_padded() -> None:
    names = ["hopper-big-head", BIG_HEAD, "hopper-legacy"]
    seeds = [(0,)] * 3
    alone, wide = (
        Simulator([resolve(n) for n in names], seeds),
        padding.PaddedBodies([*(resolve(n) for n in names), resolve("ant-legacy")], [*seeds, (1,)]),
    )
    ids, actions = np.arange(3), np.random.default_rng(0).uniform(-1, 1, (20, 3, 3))
    for action in actions:
        rows = alone.step(ids, action)
        filled = wide.step(ids, np.pad(action, ((0, 0), (0, padding.ACTION_SIZE - 3))))
        np.testing.assert_array_equal(filled.next_observation[:, :11], rows.next_observation)
    assert np.isfinite(rows.next_observation).all()
    assert not np.allclose(rows.next_observation[0], rows.next_observation[1])


def test_a_legacy_task_trains(tmp_path) -> None:
    small = {"actor_widths": (8,), "critic_widths": (8,), "batch_size": 8, "learning_starts": 8, "source_steps": 100}
    small |= {"eval_interval": 100, "log_interval": 100, "checkpoint_interval": 100, "eval_episodes": 1}
    (run,) = offdyn.train(BIG_HEAD, "sac", out=tmp_path, final_episodes=1, **small)
    assert run.state == "finished"
    assert run.config.task == resolve(BIG_HEAD)
    assert run.provenance["models"] == pairs.fingerprints(resolve(BIG_HEAD))
