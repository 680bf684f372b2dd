"""The demo: its world by hand, its verdict on made-up returns, and one tiny run from the command to the page."""

import html
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs import pairs
from offdyn.envs.jetpack import CAMP, EDGE, FLIGHT, HEIGHT, JETPACK, SIGHT, STRIDE, advance
from offdyn.envs.toy import WorldBodies
from offdyn.studies import demo
from offdyn.training.config import from_yaml, group, to_yaml
from offdyn.training.progress import Quiet, Stop, Stopped

HELD, FIRED = -0.5, 0.5
SOURCE, TARGET = np.array([False]), np.array([True])


def step(
    place: tuple[float, float], action: tuple[float, float, float], shifted: np.ndarray
) -> tuple[np.ndarray, float]:
    """(next state, reward) of one walker on the ground."""
    state, reward, terminated = advance(np.array([[*place, 0.0]]), np.array([action]), shifted)
    assert not terminated.any()
    return state[0], float(reward[0])


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_walking_is_the_same_in_both_domains(shifted: np.ndarray) -> None:
    state, _ = step((-1.0, 0.5), (1.0, -0.5, HELD), shifted)
    np.testing.assert_allclose(state, [-1.0 + STRIDE, 0.5 - 0.5 * STRIDE, 0.0])


def test_the_jet_is_a_shortcut_in_the_source_alone() -> None:
    flown, _ = step((-1.0, 0.5), (1.0, -0.5, FIRED), SOURCE)
    np.testing.assert_allclose(flown, [-1.0 + FLIGHT * STRIDE, 0.5 - 0.5 * FLIGHT * STRIDE, HEIGHT])
    stayed, _ = step((-1.0, 0.5), (1.0, -0.5, FIRED), TARGET)
    np.testing.assert_allclose(stayed, [-1.0, 0.5, 0.0])
    assert FLIGHT > 2  # over rows of which half come from each domain, firing still looks faster than walking


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_who_stops_firing_is_on_the_ground_again(shifted: np.ndarray) -> None:
    state, _, _ = advance(np.array([[0.0, 0.0, HEIGHT]]), np.array([[0.0, 1.0, HELD]]), shifted)
    np.testing.assert_allclose(state, [[0.0, STRIDE, 0.0]])


def test_nobody_leaves_the_map() -> None:
    corner, _ = step((EDGE - 0.1, 0.1 - EDGE), (1.0, -1.0, FIRED), SOURCE)
    np.testing.assert_allclose(corner, [EDGE, -EDGE, HEIGHT])


@pytest.mark.parametrize("shifted", [SOURCE, TARGET])
def test_the_reward_depends_on_the_distance_to_the_camp_alone(shifted: np.ndarray) -> None:
    still = (0.0, 0.0, HELD)
    assert step((CAMP[0], CAMP[1]), still, shifted)[1] == pytest.approx(1.0)
    assert step((CAMP[0] - SIGHT, CAMP[1]), still, shifted)[1] == pytest.approx(np.exp(-0.5))
    assert step((CAMP[0], CAMP[1]), (0.0, 0.0, FIRED), shifted)[1] == pytest.approx(1.0)


def test_a_walker_reaches_the_camp_in_the_target_and_a_flyer_does_not() -> None:
    def episode(jet: float, shifted: bool) -> float:
        bodies = WorldBodies(JETPACK, [shifted], [(0, 0)])
        total = 0.0
        for _ in range(JETPACK.spec.time_limit):
            reach = STRIDE if jet < 0 else FLIGHT * STRIDE
            towards = np.clip((CAMP - bodies.observation[:, :2]) / reach, -1, 1)
            total += float(bodies.step(np.array([0]), np.column_stack((towards, [[jet]]))).reward[0])
        return total

    assert episode(HELD, True) > 10
    assert episode(FIRED, True) < 1
    assert episode(FIRED, False) > episode(HELD, False)


def test_the_world_is_known_by_name_and_its_runs_read_back(tmp_path: Path) -> None:
    assert pairs.find("jetpack") is JETPACK
    run = demo.plan(demo.PAR, [3], quick=True)[0]
    assert from_yaml(to_yaml(run), tmp_path) == run


def test_par_and_its_twin_differ_in_the_penalty_alone_and_share_a_program() -> None:
    ours, ablation = (demo.plan(baseline, [0], quick=False)[0] for baseline in (demo.PAR, demo.BASELINES[0]))
    differing = {name for name, value in ours.settings().items() if ablation.settings()[name] != value}
    assert differing == {"penalty"}
    assert ablation.settings()["penalty"] == 0
    assert len(group([ours, ablation])) == 1


def test_the_baselines_get_pars_target_steps_and_one_of_them_its_updates() -> None:
    ours, _, once, often = (
        demo.plan(baseline, [0], quick=False)[0].schedule for baseline in (demo.PAR, *demo.BASELINES)
    )
    assert ours.target_budget == once.target_budget == often.target_budget
    ticks = {plan: plan.source_steps // plan.tick for plan in (ours, once, often)}
    assert once.updates_per_tick * ticks[once] == once.target_budget
    assert often.updates_per_tick * ticks[often] == ours.updates_per_tick * ticks[ours] == ours.source_steps


def test_a_clear_gap_is_called_better_and_its_mirror_worse() -> None:
    high, low = [20.0, 22.0, 19.0, 21.0, 23.0], [1.0, 5.0, 3.0, 2.0, 4.0]
    better, worse = demo.compare("a baseline", high, low), demo.compare("a baseline", low, high)
    assert (better.verdict, worse.verdict) == ("PAR is better", "PAR is worse")
    assert better.difference == -worse.difference == 18
    assert better.p == worse.p == pytest.approx(2 / 252)  # of all deals only this one and its mirror are as far apart


def test_equal_returns_are_no_difference() -> None:
    same = demo.compare("a baseline", [1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0])
    assert (same.verdict, same.p, same.difference) == ("no difference", 1.0, 0.0)


def test_one_lucky_seed_is_no_difference() -> None:
    assert demo.compare("a baseline", [1.0, 2.0, 3.0, 2.0, 30.0], [2.0, 1.0, 3.0, 2.5, 1.5]).verdict == "no difference"


def test_three_seeds_are_never_enough() -> None:
    assert demo.compare("a baseline", [100.0, 101.0, 102.0], [0.0, 1.0, 2.0]).verdict == "no difference"


def test_the_test_cries_wolf_in_about_one_case_of_twenty() -> None:
    generator = np.random.default_rng(0)
    wrong = [demo.compare("", *generator.normal(size=(2, 5))).verdict != "no difference" for _ in range(500)]
    assert 0.02 < np.mean(wrong) < 0.08


def test_the_verdict_names_every_baseline_under_its_own_heading() -> None:
    made = [demo.Comparison("A", 9.0, 0.01), demo.Comparison("B", 1.0, 0.4), demo.Comparison("C", -9.0, 0.01)]
    assert demo.conclude(made) == "PAR is better than A, not different from B, worse than C."
    assert demo.conclude([made[0], made[0], made[0]]) == "PAR is better than A, A and A."


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `main` sets where it is not set, taken back after each test."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", demo.COMPILER)


def test_a_new_demo_takes_the_place_of_an_earlier_one(
    tmp_path: Path,
    shared_programs: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Far too short to learn, long enough to update, evaluate and finish.
    tiny = {"source_steps": 3_300, "eval_interval": 1_650, "log_interval": 1_650, "checkpoint_interval": 3_300}
    monkeypatch.setattr(demo, "QUICK", tiny)
    (tmp_path / "runs" / "jetpack.of-yore").mkdir(parents=True)
    (tmp_path / "demo.json").write_text("{}")
    assert demo.main(["--out", str(tmp_path), "--quick", "--seeds", "7"]) == 0
    printed = capsys.readouterr()
    assert "earlier demo" in printed.err
    assert str(tmp_path / "index.html") in printed.out
    assert all(baseline.label in printed.out for baseline in (demo.PAR, *demo.BASELINES))
    said = json.loads((tmp_path / "demo.json").read_text())
    assert said["seeds"] == [7]
    assert {c["p"] for c in said["comparisons"]} == {1.0}  # one seed each: the two deals are mirrors
    page = (tmp_path / "index.html").read_text()
    assert html.escape(said["verdict"]) in page
    assert "<svg" in page
    assert "src=" not in page  # nothing outside the file
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    names = [path.name for path in (tmp_path / "runs").glob("jetpack.*")]
    assert len(names) == 4
    assert all(name.endswith("seed-7") for name in names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "demo.json", "index.html", "runs"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("dear")
    assert demo.main(["--out", str(tmp_path)]) == 2
    assert "no demo's folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_training_that_fails_leaves_the_earlier_demo_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo.json").write_text("{}")

    def fail(*_: object) -> None:
        raise OffdynError("the disk is full")

    monkeypatch.setattr(demo, "train", fail)
    with pytest.raises(OffdynError, match="full"):
        demo.demonstrate(tmp_path, [0], True, Quiet(), Stop())
    assert [path.name for path in tmp_path.iterdir()] == ["demo.json"]


def test_a_wish_to_stop_ends_the_first_training_and_leaves_nothing(tmp_path: Path, shared_programs: None) -> None:
    with pytest.raises(Stopped):
        demo.demonstrate(tmp_path / "demo", [7], True, Quiet(), Stop(wanted=True))
    assert not list(tmp_path.iterdir())


def test_an_interrupted_demo_leaves_a_sentence_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "offdyn.studies.demo", "--out", str(tmp_path / "demo")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("demo/unfinished-*/jetpack.*/provenance.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())
