"""Sources in JAX: what stays on the device is what would pass through the host, and the host hears what it must."""

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import offdyn
from offdyn.envs.batched import OwnBatch
from offdyn.envs.batched_jax import JaxBatch
from offdyn.envs.custom import EnvironmentFailed
from offdyn.envs.custom_batch import OwnBodies
from offdyn.training import program
from offdyn.training.cohort import Cohort
from offdyn.training.program import DeviceSources

tiny = importlib.import_module("tests.custom.tiny")
simulators: Any = importlib.import_module("tests.custom.simulators")
HERE = "tests.custom.simulators"
ENVS = simulators.COUNT
EVERY = 10 * ENVS
ASKED = tiny.SETTINGS | {"source_envs": ENVS, "source_steps": 100 * ENVS}
TRAINED = {"source_envs": 20, "source_steps": 480, "eval_source_episodes": 0}  # evaluations use the host
ASKED |= dict.fromkeys(("eval_interval", "log_interval", "checkpoint_interval"), EVERY)


@pytest.fixture(params=["device", "host"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    take(request.param, monkeypatch)
    return request.param


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This way alone: the steps of the other one fail."""
    if way == "host":
        monkeypatch.setattr(OwnBodies, "on_device", False)
    else:
        for batch in (JaxBatch, OwnBatch):
            monkeypatch.setattr(batch, "step", lambda *how: pytest.fail("a step through the host"))


def pair(kind: str) -> dict[str, Any]:
    narrow = kind == "playground"
    return {"source": f"{HERE}:{kind}", "target": f"{HERE}:narrow_target" if narrow else tiny.named("target")}


def opened(kind: str, **settings: Any) -> Cohort:
    asked: dict[str, Any] = ASKED | pair(kind) | {"method": "sac", "seeds": (0, 1)} | settings
    runs, _ = offdyn.plan(source_steps_per_target_step=ENVS, **asked)
    return Cohort(runs, threads=1)


def played(kind: str, ticks: int = 50, **settings: Any) -> dict[str, Any]:
    """All that there is after some ticks, the transitions as they were taken on the way."""
    cohort, found = opened(kind, **settings), {}
    try:
        for number in range(ticks):
            cohort.tick()
            if number in (6, 7, 31, ticks - 1):
                found |= {f"taken {number}/{name}": array.copy() for name, array in cohort.take_rows().items()}
        state, counters = cohort.save()
        experience = cohort.learner.experience._asdict()
        return found | state | {name: np.asarray(ring) for name, ring in experience.items()} | {"counters": counters}
    finally:
        cohort.domain.close()


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("playground", {}),
        ("playground", {"normalise_observations": True, "time_limits_end": True}),
        ("playground", {"target_mode": "episodic"}),
        ("jax_points", {}),
        ("jax_points", {"seeds": (3,), "method": "sac-src"}),
    ],
)
def test_transitions_and_networks_are_those_that_the_way_through_the_host_gives(kind, settings, monkeypatch):
    monkeypatch.setattr(program, "READ", 4 * 2 * 7 * 3 * ENVS)  # three ticks are read back at a time
    settings = {"replay_size": 5 * ENVS} | settings  # a ring that is soon full
    ways = {}
    for way in ("device", "host"):
        with monkeypatch.context() as only:
            take(way, only)
            ways[way] = played(kind, **settings)
    same(ways["device"], ways["host"])
    taken = [ways["device"][f"taken {number}/source"].shape[1] for number in (6, 7, 31, 49)]
    assert taken == [7 * ENVS, ENVS, 24 * ENVS, 18 * ENVS]
    ended = [flags for name, flags in ways["device"].items() if name.endswith("source_flags")]
    assert sum(map(np.count_nonzero, ended)) > ENVS


def test_what_is_kept_of_a_stopped_and_resumed_training_is_the_same(tmp_path, monkeypatch):
    asked = pair("playground") | TRAINED | {"seeds": (0, 1)}
    for way in ("device", "host"):
        with monkeypatch.context() as only:
            take(way, only)
            with pytest.raises(tiny.Stopped):
                tiny.train(tmp_path / way, tiny.Watcher(stop_at=200), keep_replay=True, **asked)
            tiny.resume(tmp_path / way)
    names = ("agent.safetensors", "policy.safetensors", "final.json", "metrics.jsonl")
    files = [files_of(tmp_path / way, (*names, "segments")) for way in ("device", "host")]
    assert len(files[0]) > 2 * len(names) + 1
    assert files[0] == files[1]


def files_of(folder: Path, names: tuple[str, ...]) -> dict[Path, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and {path.name, path.parent.name} & set(names))
    return {path.relative_to(folder): path.read_bytes() for path in found}


class Ill(simulators.Playground):
    """Each environment does at the sixth step of an episode, where that is in its way, what none may do."""

    def step(self, state: Any, action: Any) -> Any:
        after = super().step(state, action)
        bad = (after.info["steps"] == 6) & (after.data[1] > 0.3)
        seen = after.obs["state"]
        if how in ("goes on", "ends"):
            seen = jnp.where(bad, jnp.nan, seen)
        done = jnp.where(bad, 1.0, after.done) if how in ("ends", "reward") else after.done
        reward = jnp.where(bad, jnp.inf, after.reward) if how == "reward" else after.reward
        return after._replace(obs=after.obs | {"state": seen}, done=done, reward=reward)


how = ""


def ill() -> Ill:
    return Ill()


def failing(kind: str) -> dict[str, Any]:
    return pair("playground") | {"source": f"{__name__}:{kind}"}


def test_a_source_that_gives_nan_stops_the_training_in_the_same_words_and_costs_no_target_step(
    way, tmp_path, monkeypatch
):
    monkeypatch.setitem(globals(), "how", "goes on")
    asked = failing("ill") | TRAINED | {"target_log": str(tmp_path / "log")}
    said, _ = tiny.fails(tmp_path / "runs", **asked)
    assert f"source {__name__}:ill: ValueError: it gave numbers that are not finite while its episode went on" in said
    monkeypatch.setitem(globals(), "how", "")
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run)[:2] == (480, 48)


@pytest.mark.parametrize("breaks", ["ends", "reward"])
def test_an_episode_that_ends_in_numbers_that_are_none_is_left_out_and_counted(breaks, monkeypatch):
    monkeypatch.setitem(globals(), "how", breaks)
    ways = []
    for way in ("device", "host"):
        with monkeypatch.context() as only:
            take(way, only)
            ways.append(played("playground", 30, **failing("ill")))
    same(*ways)
    diverged = [flags // 2 for name, flags in ways[0].items() if name.endswith("source_flags")]
    assert sum(map(np.sum, diverged)) > 5


def break_it(cohort: Cohort, what: str, chosen: Any) -> Any:
    """The second run breaks; what was chosen."""
    source, target, fault = chosen
    if what == "earlier run":
        cohort.failures[1] = ("start", 0)
    elif what == "metric":
        fault = fault.at[1].set(1)
    elif what == "target action":
        target = target.at[1].set(jnp.nan)
    elif what == "critic":
        lanes = cohort.learner.lanes
        critic = lanes.agent.critic
        critic = critic._replace(value=jax.tree.map(lambda x: x.at[1].set(jnp.nan), critic.value))
        cohort.learner.lanes = lanes._replace(agent=lanes.agent._replace(critic=critic))
    else:
        source = source.at[1, 3].set(jnp.nan)
    return source, target, fault


@pytest.mark.parametrize(
    ("what", "method"),
    [("source action", "sac"), ("source action", "sac-src"), ("target action", "sac"), ("critic", "sac"),
     ("metric", "sac"), ("earlier run", "sac")],
)  # fmt: skip
def test_a_run_that_breaks_fails_alone_and_leaves_the_same(what, method, monkeypatch):
    ways, choose, at = [], Cohort._choose, 20 * ENVS

    def breaking(cohort: Cohort, ids: np.ndarray, number: int) -> Any:
        chosen = choose(cohort, ids, number)
        return break_it(cohort, what, chosen) if number == at else chosen

    monkeypatch.setattr(Cohort, "_choose", breaking)
    for way in ("device", "host"):
        with monkeypatch.context() as only:
            take(way, only)
            ways.append(played("playground", 30, method=method))
    same(*ways)
    ((lane, quantity, _),) = ways[0]["counters"]["failures"]
    assert lane == 1
    assert (quantity == "action") == ("action" in what)
    after = ways[0]["source"][:, at + ENVS : 30 * ENVS]
    assert not after[1].any()
    assert after[0].any(axis=-1).all()


def test_a_simulator_whose_flags_or_shapes_are_wrong_is_refused_in_the_same_words(way, monkeypatch):
    for breaks, words in (("shape", r"gave a reward of shape \(15,\), expected \(16,\)"),
                          ("flags", "gave terminated with 0.5, expected true or false"),
                          ("no final", "final_observation is None: its last observation is lost"),
                          ("four", "step gave no tuple of five")):  # fmt: skip
        monkeypatch.setattr(simulators.Broken, "how", breaks)
        with pytest.raises(EnvironmentFailed, match=f"source {__name__}:broken: ValueError: .*{words}"):
            played("jax_points", 7, source=f"{__name__}:broken")


class JaxBroken(simulators.Broken):
    """What `Broken` does, in JAX."""

    def reset(self, seed: int) -> Any:
        return jnp.asarray(super().reset(seed))

    def step(self, actions: Any) -> tuple[Any, ...]:
        assert isinstance(actions, jax.Array)
        return tuple(None if part is None else jnp.asarray(part) for part in super().step(np.asarray(actions)))


def broken() -> JaxBroken:
    return JaxBroken()


def test_only_sources_of_this_device_in_whose_bodies_no_base_policy_acts_stay_there():
    for kind, there in (("playground", True), ("jax_points", True), ("points", False), ("rsl", False)):
        cohort = opened(kind)
        assert (cohort.on_device is not None) == there, kind
        cohort.domain.close()
    cohort = opened("playground", base_policy=lambda observation: np.zeros((len(observation), 1)), residual=0.5)
    assert cohort.on_device is None
    cohort.domain.close()


def test_a_step_is_sent_before_the_updates_and_asked_after_its_result_once_they_are_sent(monkeypatch):
    cohort, calls = opened("playground"), []
    for owner, name in ((DeviceSources, "step"), (DeviceSources, "told"), (program.Learner, "learn")):
        done = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *how, done=done, name=name, **also: calls.append(name) or done(*how, **also)
        )
    while not cohort.updates:
        calls.clear()
        cohort.tick()
    assert calls == ["step", "learn", "told"]
    assert isinstance(cohort.on_device.seen, jax.Array)
    assert isinstance(cohort.on_device.rows, jax.Array)
    cohort.domain.close()
