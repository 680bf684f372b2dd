"""`offdyn bench`: what it measures is what it says, and whatever was measured is shown."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from offdyn.bench import floors, physics, sources, training, update_loop, updates, whole
from offdyn.bench.table import table
from offdyn.cli.main import main
from offdyn.envs.robots import ROBOTS
from offdyn.training.config import build

from .training.small import two_runs

UPDATE = {"robot": "halfcheetah", "lanes": 2, "devices": 1, "milliseconds": 16.0, "run_updates_per_second": 125.0}
UPDATE |= {"arithmetic_floor_milliseconds": 8.0, "memory_floor_milliseconds": 1.0, "share_of_floor": 0.5}
UPDATE |= {"times_the_floor": 2.0, "product_gflops": 195.0, "copy_gbytes": 20.0, "compile_seconds": 9.0}
PHYSICS = {"robot": "halfcheetah", "bodies": 40, "cores": 4, "limit_1": 1000.0, "threads_1": 900.0}
PHYSICS |= {"limit_4": 4000.0, "threads_4": 3000.0, "share_of_limit_1": 0.9, "share_of_limit_4": 0.75}


def test_an_interrupted_benchmark_shows_and_writes_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(found: Any, quick: bool, say: Any) -> Iterator[Any]:
        assert quick
        yield "physics", PHYSICS
        raise KeyboardInterrupt

    monkeypatch.setattr(whole, "_rows", rows)
    assert main(["bench", "--quick", "--out", str(tmp_path / "bench.json")]) == 130
    shown = capsys.readouterr()
    assert "so far" in shown.err
    assert "halfcheetah         900                  90%       3,000                  75%" in shown.out
    assert "UPDATES" not in shown.out
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["physics"] == [PHYSICS]
    assert not written["complete"]
    assert written["seconds"] > 0
    assert written["surroundings"]["packages"]["jax"] in shown.out


def test_steps_of_sources_are_those_of_a_training_and_alone_those_of_the_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(whole, "_rows", lambda *how: iter(()))
    monkeypatch.setattr(sources, "COUNTS", (3, 7))
    slow = {"seconds": 0.02}
    measured = sources.measure
    monkeypatch.setattr(sources, "measure", lambda *how, **also: measured(*how[:3], 1, **slow))
    assert main(["bench", "--quick", "--json", "--source", "tests.custom.simulators:points"]) == 0
    rows = json.loads(capsys.readouterr().out)["sources"]
    counts: dict[str, list[int]] = {}
    for row in rows:
        counts.setdefault(row["source"], []).append(row["environments"])
    several = {name: [3, 7] for name in (sources.ROBOT, *sources.BUILT_IN)}
    assert counts == several | {"tests.custom.simulators:points": [16]}  # of a number of its own
    for way in ("by_host_per_second", "alone_per_second"):
        assert {row["source"] for row in rows if way in row} == {sources.HERE}
    assert min(row["steps_per_second"] for row in rows) > 0
    shown = table(whole.describe() | {"sources": rows})
    assert all(f"{row['environments']:12d}  {row['steps_per_second']:12,.0f}" in shown for row in rows)


def test_a_turn_counts_the_steps_that_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    made: list[int] = []
    turn = sources._turn(lambda number: made.append(number) or 10, seconds=3.0)
    assert turn() == pytest.approx(20 / 4)  # two steps of ten within four seconds
    assert made == [0, 1, 2, 0, 1]  # three before the clock runs


def test_the_pendulum_in_jax_is_gymnasium_s() -> None:
    env, ours = gymnasium.make("Pendulum-v1").unwrapped, sources.pendulum()
    env.reset(seed=0)
    angle, speed = env.state  # type: ignore[attr-defined]
    state = sources.State(angle, speed, None, 0.0, 0.0)
    for torque in np.random.default_rng(0).uniform(-1, 1, (50, 1)):
        shown, reward, *_ = env.step(2.0 * torque)
        state = ours.step(state, torque)
        np.testing.assert_allclose(state.obs, shown, atol=1e-3)
        np.testing.assert_allclose(state.reward, reward, atol=1e-3)


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path, tmp_path / "nowhere" / "bench.json"):
        assert main(["bench", "--out", str(out)]) == 2
        assert "expected a file to write" in capsys.readouterr().err


def test_the_table_has_a_part_for_each_measurement() -> None:
    found = whole.describe() | {"updates": [UPDATE], "physics": [PHYSICS]}
    found["training"] = [
        {"lanes": 2, "robot": "halfcheetah", "steps_per_second": 50.0, "run_steps_per_second": 100.0}
        | {"share_of_floor": 0.4, "milliseconds": 20.0, "device_floor_milliseconds": 8.0, "start_up_seconds": 7.5}
        | {"physics_floor_milliseconds": 0.5, "physics_share": 0.033, "device_waits_share": 0.2}
    ]
    shown = table(found | {"load": 0.0, "seconds": 71.4})
    assert shown.endswith("Measured in 71 seconds.")
    assert "NOT TO BE TRUSTED" not in shown
    assert "NOT TO BE TRUSTED" in table(found | {"load": 99.0})
    assert "    2        1      16.000             125       8.000                  50%" in shown
    assert "50 source steps/s a run, 100 in all, 40% of the floor's speed" in shown
    assert "the physics takes 3.3% of all cores' time, the device waits for the host 20% of the time" in shown


def test_a_training_is_measured_over_whole_evaluation_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(training.time, "perf_counter", lambda: now)
    watch = training.Watch(interval=1000, seconds=15.0)
    for clock in range(10, 5000, 10):
        now = clock / 100
        watch.advanced(clock, 10_000, 0.0)
        if watch.stop.wanted:
            break
    assert watch.under_way == 2.0
    assert watch.began == (1500, 15.0)  # the first evaluation compiles more
    assert (watch.steps, watch.seconds) == (2000, 20.0)


def test_a_slow_training_is_measured_over_less(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(training.time, "perf_counter", lambda: now)
    watch = training.Watch(interval=1000, seconds=15.0)
    for clock in range(10, 5000, 10):
        now = float(clock)
        watch.advanced(clock, 10_000, 0.0)
        if watch.stop.wanted:
            break
    assert watch.began == (230, 230.0)
    assert watch.steps == 90


def test_a_training_is_compared_with_its_device_and_its_physics(
    monkeypatch: pytest.MonkeyPatch, shared_programs: None
) -> None:
    monkeypatch.setattr(training, "runs_of", lambda *_: two_runs())
    monkeypatch.setattr(training, "OFTEN", training.Evaluation(120, 2, 1))
    started = time.perf_counter()
    found = training.measure("halfcheetah", 2, 0.0, UPDATE, PHYSICS, cores=4)
    assert found["measured_steps"] == 120
    assert 0 < 120 / found["steps_per_second"] < time.perf_counter() - started
    assert found["device_floor_milliseconds"] == pytest.approx(8.0)
    # Two runs; a source step, a tenth of a target step, and 3 episodes of 17 steps every 120.
    assert found["physics_floor_milliseconds"] == pytest.approx(1e3 * 2 * (1 + 0.1 + 3 * 17 / 120) / 4000)
    assert found["share_of_floor"] == pytest.approx(8.0 / found["milliseconds"])


def test_physics_is_measured_with_and_without_the_rest_of_an_environment() -> None:
    found = physics.measure("hopper", 2, [1], repeats=1, seconds=0.002)
    assert set(found) == {"limit_1", "threads_1"}
    assert all(rate > 0 for rate in found.values())


def test_the_floor_of_an_update_counts_its_products_and_parameters() -> None:
    widths = {"actor_widths": (3,), "critic_widths": (2,), "encoder_widths": (5,), "code_size": 4}
    config = build("hopper-big-head", "par", "paper", 0, widths | {"batch_size": 7, "encoder_batch": 6})[0]
    operations, moved = floors.needed(config, ROBOTS["hopper"].spec)
    actor, critic = 2 * (11 * 3 + 3 * 6), 2 * (14 * 2 + 2 * 1)  # of one row, forwards
    f, g = 2 * (11 * 5 + 5 * 4), 2 * (7 * 5 + 5 * 4)
    expected = 6 * (2 * f + g) + 6 * (2 * f - 2 * 11 * 5) + 6 * 2 * g  # encoders: forwards, then backwards
    expected += 7 * (2 * f + g)  # penalty
    expected += 14 * (actor + 2 * critic)  # backup
    expected += 14 * 2 * (3 * critic - 2 * 14 * 2)  # critics
    expected += 14 * (3 * actor - 2 * 11 * 3 + 4 * critic)  # actor, through both critics
    assert operations == expected
    of_actor, of_critic = 11 * 3 + 3 + 3 * 6 + 6, 14 * 2 + 2 + 2 * 1 + 1
    of_encoders = 11 * 5 + 5 + 5 * 4 + 4 + 7 * 5 + 5 + 5 * 4 + 4
    assert moved == 4 * (7 * (of_actor + 2 * of_critic + of_encoders) + 2 * 2 * of_critic)


@pytest.mark.parametrize(("platform", "in_a_row"), [("cpu", 1), ("gpu", 10)])
def test_an_update_counts_with_its_fastest_turn(platform: str, in_a_row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    class UpdateLoop:
        lanes, robot, updates, compile_seconds = 4, "hopper", 10, 1.0
        seconds_per_update = update_loop.UpdateLoop.seconds_per_update
        spec = ROBOTS["hopper"].spec
        config = build("hopper-big-head", "par", "paper", 0)[0]

        class devices:
            count = 1

        def tick(self, in_a_row: int) -> None:
            turns.append(in_a_row)

    taken = iter([0.5 * in_a_row, 0.1 * in_a_row, 0.3 * in_a_row])
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(update_loop, "seconds_of", lambda turn: (turn(), next(taken))[1])
    found = updates.measure(UpdateLoop(), floors.Rates(1e11, 1e10), repeats=3)  # type: ignore[arg-type]
    assert turns == 3 * [in_a_row]
    assert found["milliseconds"] == pytest.approx(10.0)
    assert found["run_updates_per_second"] == pytest.approx(400.0)
    assert found["share_of_floor"] == pytest.approx(max(found[f"{k}_floor_milliseconds"] for k in KINDS) / 10.0)


KINDS = ("arithmetic", "memory")


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_the_training_has_lanes_whose_updates_were_timed(platform: str) -> None:
    for quick in (True, False):
        assert len(whole.lanes_of(platform, quick)) >= 2
    assert set(whole.lanes_of(platform, True)) <= set(whole.lanes_of(platform, False))
