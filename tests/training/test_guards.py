"""One bad lane stops, says why and keeps its last good agent; its neighbours notice nothing."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.algos import registry
from offdyn.algos.method import Method
from offdyn.envs import pairs
from offdyn.envs.toy import World
from offdyn.training import cohort, hardware, program
from offdyn.training.config import build
from offdyn.training.trainer import start

from . import small
from .small import run, train

BAD_SEED, GOOD_SEED = 1, 0


def breaking(quantity: str, name: str) -> World:
    """As `push`, but the source of the run with seed 1 gives NaN once it has made some steps.

    State: x, y, steps made, and whether this body's first start had the bad seed's x.
    """

    def begin(generator: np.random.Generator) -> np.ndarray:
        return np.concatenate((small.PUSH.start(generator), [0.0]))

    marked = {float(begin(np.random.default_rng([BAD_SEED, 0, body, 1]))[0]) for body in range(5)}

    def mark(generator: np.random.Generator) -> np.ndarray:
        state = begin(generator)
        return np.concatenate((state, [float(float(state[0]) in marked)]))

    def advance(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> Any:
        after, reward, terminated = small.PUSH.advance(state[:, :2], action, shifted)
        steps = state[:, 2] + 1
        bad = (state[:, 3] > 0) & (steps >= 2) & ~shifted & (name != "healthy")
        if quantity == "reward":
            reward = np.where(bad, np.nan, reward)
        else:
            after = np.where(bad[:, None], np.inf, after)
        return np.column_stack((after, steps, state[:, 3])), reward, terminated

    return World("breaking", small.PUSH.spec, mark, advance, observe=lambda state: state[:, :2].copy())


def trained(world: World, out: Path, monkeypatch: pytest.MonkeyPatch, **bad: Any) -> tuple[Path, Path, list[str]]:
    """Folders of the good and of the bad run, and what was said."""
    monkeypatch.setitem(pairs.WORLDS, world.name, world)
    runs = [run(seed=GOOD_SEED, world=world), run(seed=BAD_SEED, world=world, **bad)]
    watcher = train(runs, out)
    return out / runs[0].name, out / runs[1].name, watcher.said


def files_of(folder: Path) -> dict[str, Any]:
    names = ("metrics.jsonl", "policy.safetensors", "agent.safetensors", "final.json")
    return {name: (folder / name).read_bytes() for name in names} | {"curve": small.curve(folder)}


@pytest.mark.parametrize("quantity", ["reward", "observation"])
def test_a_domain_that_gives_nonsense_stops_its_run_alone(
    quantity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, said = trained(breaking(quantity, "ill"), tmp_path / "ill", monkeypatch)
    healthy, _, _ = trained(breaking(quantity, "healthy"), tmp_path / "healthy", monkeypatch)
    about = json.loads((bad / "provenance.json").read_text())
    assert about["state"] == "failed"
    # The marked start is a body's second (the first is dropped when episodes are staggered): its second step is bad.
    assert about["failure"] == {"quantity": quantity, "step": 5}
    assert [line for line in said if f"its {quantity} was not finite at step 5" in line and bad.name in line]
    assert files_of(good) == files_of(healthy)
    check_finite(bad)


def check_finite(folder: Path) -> None:
    for name in ("agent.safetensors", "policy.safetensors"):
        assert all(np.isfinite(array).all() for array in load_file(folder / name).values())


def test_a_loss_that_explodes_stops_its_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every lane has its own rate, so that the good lane is the same run in both cohorts.
    good, bad, said = trained(small.PUSH, tmp_path / "ill", monkeypatch, critic_learning_rate=1e30)
    healthy, _, _ = trained(small.PUSH, tmp_path / "healthy", monkeypatch, critic_learning_rate=1e-3)
    about = json.loads((bad / "provenance.json").read_text())
    assert about["state"] == "failed"
    assert about["failure"]["quantity"] in ("critic loss", "mean value", "actor loss")
    # Updates begin with the fourth target row, which is stored in the tick at step 30.
    assert about["failure"]["step"] == 35
    assert any("the others go on" in line for line in said)
    assert files_of(good) == files_of(healthy)
    check_finite(bad)
    assert not (bad / "final.json").exists()


def test_a_stop_right_after_a_loss_exploded_saves_the_last_good_agent(tmp_path: Path) -> None:
    runs = [run(seed=0), run(seed=1, critic_learning_rate=1e30)]
    train(runs, tmp_path / "out", stop_at=40)  # the tick from step 35 to 40 is the one that breaks
    small.resume(tmp_path / "out")
    folder = tmp_path / "out" / runs[1].name
    assert json.loads((folder / "provenance.json").read_text())["failure"]["step"] == 35
    check_finite(folder)


def test_an_action_that_is_no_number_stops_its_run_alone(
    tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = cohort.Cohort.__init__

    def begin_with_a_bad_actor(cohort: cohort.Cohort, *arguments: Any) -> None:
        begin(cohort, *arguments)
        act = cohort.learner.programs.act

        def act_badly_once(*seen: Any) -> tuple[Any, Any, Any]:
            source, target, fault = act(*seen)
            return source.at[1, 2, 0].set(jnp.nan) if seen[4] == 100 else source, target, fault

        cohort.learner.programs.act = act_badly_once

    monkeypatch.setattr(cohort.Cohort, "__init__", begin_with_a_bad_actor)
    good, bad = start(small.two_runs(), tmp_path / "out", threads=1)
    assert (good.state, bad.state) == ("finished", "failed")
    assert bad.provenance["failure"] == {"quantity": "action", "step": 100}
    assert files_of(good.path) == files_of(undisturbed / good.config.name)
    check_finite(bad.path)


def test_a_failed_run_stays_failed_after_a_resume(tmp_path: Path) -> None:
    runs = [run(seed=0), run(seed=1, critic_learning_rate=1e30)]
    train(runs, tmp_path / "whole")
    train(runs, tmp_path / "parts", stop_at=255)
    small.resume(tmp_path / "parts")
    for name in ("provenance.json", "agent.safetensors"):
        whole, parts = (tmp_path / out / runs[1].name / name for out in ("whole", "parts"))
        if name == "provenance.json":
            assert json.loads(whole.read_text())["failure"] == json.loads(parts.read_text())["failure"]
        else:
            assert whole.read_bytes() == parts.read_bytes()
    assert files_of(tmp_path / "whole" / runs[0].name) == files_of(tmp_path / "parts" / runs[0].name)


def _treacherous(loss: Any, actor: Any, policy: Any, source: Any, ctx: Any) -> Any:
    """Adds a constant, with a gradient that is not a number where the temperature is above 0.5."""
    return loss + jnp.sqrt(jnp.where(ctx.sac.temperature > 0.5, 0.0 * jnp.square(actor[0]).sum(), 1.0))


def test_a_gradient_that_breaks_a_network_behind_a_finite_loss_keeps_the_last_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method("treacherous", "for this test", actor_loss=_treacherous)
    monkeypatch.setitem(registry.RECIPES, "treacherous", registry.Recipe(method, ""))
    brief = small.small("sac") | {
        "source_envs": 1,
        "source_steps": 120,
        "eval_interval": 120,
        "checkpoint_interval": 60,
    }
    runs = [build(small.PUSH, "treacherous", settings=brief | {"temperature": t})[0] for t in (0.2, 0.6)]
    folders = start(runs, tmp_path / "out")
    assert [folder.state for folder in folders] == ["finished", "failed"]
    assert folders[1].provenance["failure"]["quantity"] == "network"
    check_finite(folders[1].path)
    check_finite(folders[0].path)


def test_a_fault_in_the_very_last_updates_is_not_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tick = cohort.Cohort.tick

    def tick_with_a_late_fault(cohort: cohort.Cohort) -> None:
        tick(cohort)
        if cohort.clock == 480:
            found = 1 + cohort.learner.programs.faults.index("encoder loss")
            cohort.learner.lanes = cohort.learner.lanes._replace(fault=jnp.array([[0, 0], [found, 449]], jnp.int32))

    monkeypatch.setattr(cohort.Cohort, "tick", tick_with_a_late_fault)
    good, bad = start(small.two_runs(), tmp_path / "out")
    assert (good.state, bad.state) == ("finished", "failed")
    assert bad.provenance["failure"] == {"quantity": "encoder loss", "step": 475}
    assert not (bad.path / "final.json").exists()


class _Here:
    """In place of the thread that sends updates: at once, or not before somebody waits for them."""

    def __init__(self, late: bool) -> None:
        self.late = late

    def submit(self, call: Callable[..., None], *arguments: Any) -> Any:
        if self.late:
            return SimpleNamespace(result=lambda: call(*arguments))
        call(*arguments)
        return SimpleNamespace(result=lambda: None)


def test_updates_are_the_same_however_soon_their_thread_sends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run(seed=0), run(seed=1, critic_learning_rate=1e30)]  # the second fails
    train(runs, tmp_path / "by a thread")
    for name, late in (("at once", False), ("late", True)):
        monkeypatch.setattr(program, "ThreadPoolExecutor", lambda *_, late=late: _Here(late))
        train(runs, tmp_path / name)
        assert files_of(tmp_path / name / runs[0].name) == files_of(tmp_path / "by a thread" / runs[0].name)
        agents = [(tmp_path / out / runs[1].name / "agent.safetensors") for out in (name, "by a thread")]
        assert agents[0].read_bytes() == agents[1].read_bytes()


def test_what_goes_wrong_while_updates_are_sent_stops_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise MemoryError("no room on the device")

    monkeypatch.setattr(program.Learner, "_keep", refuse)
    with pytest.raises(MemoryError, match="no room"):
        start([run(seed=0)], tmp_path / "out")


def test_a_cohort_all_of_whose_runs_failed_ends(tmp_path: Path) -> None:
    folders = start([run(seed=seed, critic_learning_rate=1e30) for seed in (0, 1)], tmp_path / "out")
    assert [folder.state for folder in folders] == ["failed", "failed"]
    assert all(len(folder.curve()) == 1 for folder in folders)


def test_too_little_memory_is_told_with_figures_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda: 2**20)
    many = [run(seed=seed, source_steps=480_000, learning_starts=4) for seed in range(3)]
    with pytest.raises(OffdynError) as told:
        start(many, tmp_path / "out")
    # 3 runs, 480000 source and 48000 target rows of 2 + 2 + 1 + 2 + 1 numbers of 4 bytes.
    needed = 3 * 528_000 * 8 * 4 / 2**30
    assert f"the replays of 3 runs need {needed:.1f} GiB" in str(told.value)
    assert "has 0.0 GiB: lower replay_size, or train fewer seeds" in str(told.value)
    assert not (tmp_path / "out").exists()


def test_enough_memory_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    one = run(source_steps=480_000)
    needed = 528_000 * 8 * 4
    monkeypatch.setattr(hardware, "free_memory", lambda: 2 * needed)
    hardware.check_memory([one])
    monkeypatch.setattr(hardware, "free_memory", lambda: needed)
    with pytest.raises(OffdynError, match="lower replay_size"):
        hardware.check_memory([one])
    hardware.check_memory([dataclasses.replace(one, schedule=dataclasses.replace(one.schedule, replay_size=1000))])
