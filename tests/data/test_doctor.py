"""The doctor: sound data is left in peace, and every kind of fault is called by its name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from offdyn.data.datasets import COLUMNS, Dataset, join, open_dataset, save
from offdyn.data.doctor import KINDS, diagnose, diagnose_dataset, fatal
from offdyn.envs.pairs import WORLDS, open_bodies
from offdyn.envs.robots import ROBOTS

from .simulated import simulated, with_columns, write_d4rl


def changed(array: np.ndarray, rows: object, value: object) -> np.ndarray:
    array = array.copy()
    array[rows] = value
    return array


def hopper() -> Dataset:
    return simulated("hopper")


def cheetah() -> Dataset:
    """Three bodies, each cut at step 1000 and once more where its data ends."""
    return simulated("halfcheetah", steps=1100)


def not_finite() -> Dataset:
    reward = changed(hopper().reward, 7, np.nan)
    return with_columns(hopper(), reward=reward, observation=changed(hopper().observation, (9, 2), np.inf))


def next_is_the_reset() -> Dataset:
    """As an environment that resets by itself shows it."""
    ends = np.flatnonzero(hopper().terminated)[:-1]
    return with_columns(
        hopper(), next_observation=changed(hopper().next_observation, ends, hopper().observation[ends + 1])
    )


def next_is_from_elsewhere() -> Dataset:
    rows = np.arange(100, 2100, 200)
    far = cheetah().next_observation[rows + 1000]
    return with_columns(cheetah(), next_observation=changed(cheetah().next_observation, rows, far))


def merged() -> Dataset:
    """Episodes one after the other, without ends: what follows is always the next row."""
    rows = cheetah()[:-1]
    nothing = np.zeros(len(rows), bool)
    return with_columns(rows, next_observation=cheetah().observation[1:], truncated=nothing)


def twice() -> Dataset:
    return join([hopper(), hopper()[: hopper().episodes()[4, 1]]], **hopper().card)


def repeated_rows() -> Dataset:
    return hopper()[np.sort(np.r_[np.arange(len(hopper())), np.arange(200, 400, 10)])]


def columns_lost() -> Dataset:
    lost = (slice(None), 3)
    columns = {name: changed(getattr(hopper(), name), lost, 0) for name in ("observation", "next_observation")}
    return with_columns(hopper(), **columns)


def without_ends() -> Dataset:
    return with_columns(hopper(), terminated=np.zeros(len(hopper()), bool))


def rolled(by: int) -> Dataset:
    """Each next observation that many rows farther on."""
    return with_columns(hopper(), next_observation=np.roll(hopper().next_observation, by, axis=0))


def another_body() -> Dataset:
    return simulated("hopper-big-head").described(shift=None)


Break = Callable[[], Dataset]
ROWS = slice(10, 20)
# name of the finding, whether it is fatal, how to make such data
BROKEN: list[tuple[str, bool, Break]] = [
    ("empty", True, lambda: hopper()[:0]),
    ("unknown-robot", False, lambda: Dataset(**cheetah().arrays(), card={})),
    ("wrong-robot", True, lambda: hopper().described(robot="walker")),
    ("wrong-robot", True, lambda: simulated("walker").described(robot="ant")),
    ("nan-or-infinity", True, not_finite),
    ("action-out-of-range", True, lambda: with_columns(hopper(), action=2 * hopper().action)),
    ("constant-action", True, lambda: with_columns(hopper(), action=np.full_like(hopper().action, 0.3))),
    ("constant-action", False, lambda: with_columns(hopper(), action=changed(hopper().action, (slice(None), 0), 0.0))),
    ("constant-column", True, columns_lost),
    ("constant-rows", True, lambda: with_columns(
        hopper(), next_observation=changed(hopper().next_observation, ROWS, hopper().observation[ROWS]))),
    ("duplicated-rows", False, repeated_rows),
    ("duplicated-episodes", False, twice),
    ("duplicated-episodes", True, lambda: join([hopper()] * 3, **hopper().card)),
    ("next-of-another-episode", True, next_is_the_reset),
    ("next-of-another-episode", True, next_is_from_elsewhere),
    ("next-of-another-episode", True, lambda: Dataset(**next_is_the_reset().arrays(), card={})),
    ("missing-time-limits", True, merged),
    ("missing-time-limits", False, lambda: with_columns(cheetah(), truncated=np.zeros(len(cheetah()), bool))),
    ("shuffled-rows", False, lambda: cheetah()[np.random.default_rng(0).permutation(len(cheetah()))]),
    ("episode-too-long", False, lambda: simulated("halfcheetah", steps=1100, time_limit=1050)),
    ("time-limit-as-end", True, lambda: with_columns(
        cheetah(), terminated=cheetah().truncated, truncated=np.zeros(len(cheetah()), bool))),
    ("terminal-but-alive", True, lambda: with_columns(
        hopper(), terminated=changed(hopper().terminated, hopper().episodes()[:5, 0] + 5, True))),
    ("alive-but-terminal", True, without_ends),
    ("wrong-body", True, another_body),
    ("wrong-body", True, lambda: simulated("ant-broken-hips").described(shift=None)),
    ("wrong-body", True, lambda: simulated("hopper-broken-joints").described(shift=None)),
    ("wrong-body", True, lambda: simulated("walker").described(robot="halfcheetah")),
    ("other-engine", False, lambda: simulated("ant", halve_margins=False)),
    ("other-engine", False, lambda: simulated("halfcheetah-damping-1.1").described(shift=None)),
    ("wrong-reward", True, lambda: with_columns(hopper(), reward=3 * hopper().reward)),
    ("wrong-reward", True, lambda: with_columns(simulated("ant"), reward=simulated("ant").reward - 1)),
    ("wrong-reward", False, lambda: with_columns(hopper(), reward=hopper().reward + 0.1 * hopper().reward.std())),
    ("small-actions", False, lambda: Dataset(**with_columns(cheetah(), action=0.3 * cheetah().action / np.abs(
        cheetah().action).max()).arrays(), card={})),
    ("no-rewards", True, lambda: with_columns(hopper(), reward=np.zeros(len(hopper())))),
    *[("rolled-next-observations", True, lambda by=by: rolled(by)) for by in (-2, -1, 2, 3, 100)],
    ("rolled-next-observations", True, lambda: Dataset(**rolled(2).arrays(), card={})),
    ("impossible-returns", True, lambda: with_columns(cheetah(), reward=cheetah().reward + 50)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "is_fatal", "make"), BROKEN)
def test_every_fault_is_called_by_its_name(name: str, is_fatal: bool, make: Break):
    findings = diagnose_dataset(make())
    (found,) = [finding for finding in findings if finding.name == name]
    assert found.fatal == is_fatal
    assert (found in fatal(findings)) == is_fatal
    assert found.why in str(found)
    assert found.remedy in str(found)
    assert found.count >= len(found.first)


# name of the finding, how to write such a file
UNUSABLE: dict[str, Callable[[Path], object]] = {
    "unreadable": lambda path: path.write_bytes(write_d4rl(path, hopper()).read_bytes()[:9000]),
    "wrong-shape": lambda path: write_d4rl(path, hopper(), rewards=hopper().reward[1:]),
    "wrong-dtype": lambda path: write_d4rl(path, hopper(), actions=np.full((900, 3), b"x")),
    "contact-forces": lambda path: write_d4rl(path, simulated("ant"), observations=np.ones((900, 111))),
    "hash-mismatch": lambda path: (
        save(hopper(), path),
        path.write_bytes(path.read_bytes()[:-1000] + bytes([3]) + path.read_bytes()[-999:]),
    ),
    "empty": lambda path: path.touch(),
    "image-observations": lambda path: write_d4rl(path, hopper(), observations=np.zeros((900, 8, 8, 3), np.uint8)),
    "unknown-action-bounds": lambda path: save(Dataset(**hopper().arrays(), card={}), path),
    "wrong-robot": lambda path: write_d4rl(path, simulated("ant")),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_is_a_finding(name: str, tmp_path: Path):
    UNUSABLE[name](tmp_path / "set")
    dataset, findings = diagnose(tmp_path / "set", "hopper" if name == "wrong-robot" else None)
    assert dataset is None
    assert [(finding.name, finding.fatal) for finding in findings] == [(name, True)]


@pytest.mark.parametrize("task", [*ROBOTS, "hopper-big-head", "walker-no-right-thigh", "ant-broken-hips"])
def test_nothing_is_found_in_sound_data(task: str):
    assert diagnose_dataset(simulated(task)) == []


def test_nothing_is_found_in_sound_data_with_time_limits():
    assert cheetah().truncated[999]
    assert diagnose_dataset(cheetah()) == []


def test_nothing_is_found_in_sound_data_of_a_toy_environment():
    world, draw = WORLDS["jetpack"], np.random.default_rng(0)
    bodies = open_bodies([(world, "source")], [(0,)])
    made = [bodies.step(np.arange(1), draw.uniform(-1, 1, (1, world.spec.action_size))) for _ in range(150)]
    dataset = Dataset(*(np.concatenate([getattr(rows, name) for rows in made]) for name in COLUMNS))
    assert len(dataset.episodes()) > 1
    assert diagnose_dataset(dataset, world) == []
    jump = changed(dataset.next_observation, 20, 0.0)
    (found,) = diagnose_dataset(with_columns(dataset, next_observation=jump), world)
    assert (found.name, found.first) == ("next-of-another-episode", (20,))


def test_rounding_does_no_harm():
    dataset = hopper()
    draw = np.random.default_rng(0)
    columns = {
        name: getattr(dataset, name) * (1 + draw.uniform(-1e-7, 1e-7, getattr(dataset, name).shape))
        for name in ("observation", "next_observation", "action")
    }
    assert diagnose_dataset(with_columns(dataset, **columns)) == []


def rows_of(dataset: Dataset, name: str) -> tuple[int, tuple[int, ...]]:
    (found,) = [finding for finding in diagnose_dataset(dataset) if finding.name == name]
    return found.count, found.first


def test_findings_name_the_very_rows():
    assert rows_of(not_finite(), "nan-or-infinity") == (2, (7, 9))
    ends = np.flatnonzero(hopper().terminated)[:-1]
    assert rows_of(next_is_the_reset(), "next-of-another-episode") == (len(ends), tuple(ends[:5]))
    assert rows_of(next_is_from_elsewhere(), "next-of-another-episode") == (10, (100, 300, 500, 700, 900))
    cuts = np.flatnonzero(cheetah().truncated)[:-1]
    assert rows_of(merged(), "missing-time-limits") == (len(cuts), tuple(cuts))
    assert rows_of(repeated_rows(), "duplicated-rows")[0] == 20
    early = tuple(hopper().episodes()[:5, 0] + 5)
    marked = with_columns(hopper(), terminated=changed(hopper().terminated, list(early), True))
    assert rows_of(marked, "terminal-but-alive") == (5, early)


def test_next_observations_that_were_rolled_are_told_from_shuffled_ones_and_from_another_body():
    (found,) = diagnose_dataset(rolled(-1))
    assert (found.name, found.first) == ("rolled-next-observations", (0, 1, 2, 3, 4))
    assert "most were seen 2 transitions later" in found.what
    (found,) = diagnose_dataset(rolled(1))
    assert (found.name, found.fatal) == ("constant-rows", True)
    observations = with_columns(cheetah(), next_observation=np.roll(cheetah().observation, -1, axis=0))
    (found,) = diagnose_dataset(observations)
    assert (found.name, found.first[0]) == ("next-of-another-episode", 999)


def test_the_body_that_fits_is_named():
    (found,) = diagnose_dataset(simulated("ant-broken-hips"), "ant")
    assert (found.name, found.fatal) == ("wrong-body", True)
    assert "; ant-broken-hips does" in found.what


def test_an_older_engine_is_told_from_another_body_by_the_size_of_the_error():
    (engine,) = diagnose_dataset(simulated("ant", halve_margins=False))
    assert (engine.name, engine.fatal) == ("other-engine", False)
    assert "%" in engine.what
    assert fatal(diagnose_dataset(simulated("ant-short-feet"), "ant"))


def test_a_d4rl_file_without_successors_and_limits_is_sound_where_the_limit_is_1000(tmp_path: Path):
    dataset = cheetah()[np.flatnonzero(np.arange(3300) % 1100 < 1000)]  # whole episodes only
    read = open_dataset(write_d4rl(tmp_path / "halfcheetah", dataset, without=("timeouts", "next_observations")))
    (found,) = diagnose_dataset(read)
    assert (found.name, found.fatal) == ("missing-time-limits", False)
    assert "every 1000th step" in found.what


def test_a_d4rl_file_without_successors_and_with_other_limits_is_not(tmp_path: Path):
    dataset = simulated("halfcheetah", steps=1200, time_limit=300)
    read = open_dataset(write_d4rl(tmp_path / "halfcheetah", dataset, without=("timeouts", "next_observations")))
    (found,) = fatal(diagnose_dataset(read))
    assert found.name == "missing-time-limits"
    assert found.first[:2] == (299, 599)


def test_a_d4rl_file_without_successors_whose_robot_is_known_is_sound(tmp_path: Path):
    path = write_d4rl(tmp_path / "hopper.hdf5", hopper(), without=("next_observations",))
    assert fatal(diagnose_dataset(open_dataset(path))) == []


def test_every_kind_of_fault_is_made_by_a_test():
    about_pairs = set(list(KINDS)[list(KINDS).index("unequal-spaces") :])
    assert {name for name, _, _ in BROKEN} | set(UNUSABLE) == set(KINDS) - about_pairs
    assert len({name for name, _, _ in BROKEN}) >= 12


def test_every_kind_of_fault_is_in_the_page():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for name in KINDS:
        assert f"| `{name}` |" in page, name
