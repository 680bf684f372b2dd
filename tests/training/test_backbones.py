"""Runs on other backbones that see their domain: exact resume, one bad lane, random first steps, fine-tuning."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.data.datasets import save
from offdyn.training import trainer as training
from offdyn.training.cohort import Cohort
from offdyn.training.config import RunConfig, build
from offdyn.training.preparation import with_first_phases
from offdyn.training.progress import Quiet

from .resuming import check, stopped_and_resumed
from .small import PUSH, SMALL_NETWORKS, curve, differing, outcome, resume, rows_of, run, train

SIMBA: dict[str, Any] = {"backbone": "simba", "domain_input": "flag", **SMALL_NETWORKS}
SIMBA |= {"source_steps_per_target_step": 5, "updates_per_target_step": 5, "random_steps": 12}
ENSEMBLE: dict[str, Any] = {"backbone": "ensemble", "domain_input": "embedding", **SMALL_NETWORKS}
ENSEMBLE |= {"critics": 3, "actor_interval": 4, "updates_per_target_step": 10, "random_steps": 6}
BACKBONES = {"simba": SIMBA, "ensemble": ENSEMBLE}
DURING_RANDOM_STEPS = 35
OFFLINE = {"source_envs": None, "eval_interval": 120, "log_interval": 40}


@pytest.mark.parametrize(("name", "method"), [("simba", "sac"), ("ensemble", "par")])
def test_a_resumed_cohort_equals_one_that_never_stopped(name: str, method: str, tmp_path: Path) -> None:
    runs = [run(method, seed, **BACKBONES[name]) for seed in (0, 1)]
    last = check(runs, tmp_path, DURING_RANDOM_STEPS, 215)
    first = {"simba": 0.01, "ensemble": 1.0}[name]
    assert abs(float(last["temperature"]) - first) > 1e-3 * first  # it is tuned


@pytest.mark.parametrize("name", BACKBONES)
def test_a_resumed_run_on_a_dataset_equals_one_that_never_stopped(name: str, tmp_path: Path) -> None:
    save(rows_of(PUSH, 400), tmp_path / "rows.safetensors")
    chosen = BACKBONES[name] | OFFLINE | {"source_data": str(tmp_path / "rows.safetensors")}
    runs = [run("sac", seed, **chosen) for seed in (0, 1)]
    train(runs, tmp_path / "whole")
    stopped_and_resumed(runs, tmp_path / "parts", DURING_RANDOM_STEPS, 250)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []
    assert int(curve(tmp_path / "whole" / runs[0].name)[-1]["updates"]) > 300


class Killed(Quiet):
    """Keeps what a kill at some step would leave."""

    def __init__(self, out: Path, left: Path, clock: int) -> None:
        self.out, self.left, self.clock = out, left, clock

    def advanced(self, clock: int, total: int, wall: float) -> None:
        if clock == self.clock:
            shutil.copytree(self.out, self.left)


@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("name", BACKBONES)
def test_what_a_kill_left_is_resumed_to_the_same_bytes(name: str, padded: bool, tmp_path: Path) -> None:
    brief: dict[str, Any] = {"target_steps": 40, "source_envs": 5, "eval_interval": 100, "eval_episodes": 1}
    brief |= {"eval_source_episodes": 1, "final_episodes": 1, "learning_starts": 8, "batch_size": 8, "log_interval": 50}
    brief |= {"checkpoint_interval": 50, "padded": padded}
    tasks = ["hopper-big-head", "walker-no-right-thigh" if padded else "hopper-broken-joints"]
    runs = [build(task, "sac", settings=BACKBONES[name] | brief)[0] for task in tasks]
    whole, left = tmp_path / "whole", tmp_path / "left"
    training.start(runs, whole, threads=1, progress=Killed(whole, left, 135))
    assert list(left.glob("cohorts/*/manifest.json")), "it was killed before its first checkpoint"
    training.resume(left, threads=1)
    assert differing(outcome(whole), outcome(left)) == []
    assert all("source.bias" in load_file(path) for path in left.glob("*/policy.safetensors"))


@pytest.mark.parametrize("name", BACKBONES)
def test_a_loss_that_explodes_stops_its_run_alone(name: str, tmp_path: Path) -> None:
    def trained(rate: float) -> tuple[Path, Path]:
        # Every lane has its own rate, so that the good lane is the same run in both cohorts.
        runs = [run("sac", 0, **BACKBONES[name]), run("sac", 1, critic_learning_rate=rate, **BACKBONES[name])]
        out = tmp_path / f"{rate:g}"
        train(runs, out)
        return out / runs[0].name, out / runs[1].name

    good, bad = trained(1e30)
    healthy, _ = trained(1e-3)
    about = json.loads((bad / "provenance.json").read_text())
    assert (about["state"], about["failure"]["step"] <= 100) == ("failed", True)
    for file in ("agent.safetensors", "policy.safetensors"):
        assert all(np.isfinite(array).all() for array in load_file(bad / file).values())
        assert (good / file).read_bytes() == (healthy / file).read_bytes()
    assert curve(good) == curve(healthy)


PLAIN = {name: value for name, value in SIMBA.items() if name != "domain_input"}


def test_fine_tuning_on_simba_begins_with_the_networks_and_moments_of_its_source_run(tmp_path: Path) -> None:
    runs = with_first_phases([run("sac-tune", 0, source_envs=None, keep_policies=True, **PLAIN)])
    assert [r.sac.backbone for r in runs] == ["simba", "simba"]
    train(runs, tmp_path / "whole")
    first, second = (tmp_path / "whole" / r.name for r in runs)
    before, begun = load_file(first / "policy.safetensors"), load_file(second / "policies/step-000000000.safetensors")
    assert before.keys() == begun.keys() >= {"norms.1.scale", "observation.mean"}
    assert all(np.array_equal(before[name], begun[name]) for name in before)
    shutil.copytree(first, tmp_path / "parts" / first.name)
    train(runs[1:], tmp_path / "parts", stop_at=200)
    resume(tmp_path / "parts")
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []


def test_a_start_on_another_backbone_or_domain_input_is_refused_in_words(tmp_path: Path) -> None:
    train([run("sac", **SIMBA)], tmp_path)
    start = str(tmp_path / run("sac", **SIMBA).name)
    for others, words in (
        (SMALL_NETWORKS | {"source_steps_per_target_step": 5}, "backbone=simba, this run has classic"),
        (PLAIN, "domain_input=flag, this run has none"),
        (SIMBA | {"domain_input": "embedding"}, "domain_input=flag, this run has embedding"),
    ):
        with pytest.raises(OffdynError, match=words):
            train([run("sac", start_from=start, **others)], tmp_path / "out")
        assert not (tmp_path / "out").exists()
    train([run("sac", start_from=start, **SIMBA)], tmp_path / "out")


class Actions:
    """The actions of every tick, and what was seen before them."""

    def __init__(self, config: RunConfig, ticks: int) -> None:
        cohort = Cohort([config], 1)
        each = config.schedule.source_env_count
        self.source: list[np.ndarray] = []
        self.target: list[np.ndarray] = []
        self.wanted_source: list[np.ndarray] = []
        self.wanted_target: list[np.ndarray] = []
        first = cohort.policies()
        step = cohort.domain.step

        def watched(ids: np.ndarray, actions: np.ndarray) -> Any:
            seen = cohort.domain.observation[ids]
            self.source.append(actions[:each])
            self.wanted_source.append(first.source(seen[None, :each])[0])
            self.target.append(actions[each:])
            self.wanted_target.append(first(seen[None, each:])[0])
            return step(ids, actions)

        cohort.domain.step = watched
        for _ in range(ticks):
            cohort.tick()
        assert cohort.updates == 0  # the policy is the first one still


@pytest.mark.parametrize("name", ["none", "flag"])
def test_actions_are_uniform_at_first_and_then_the_policys_in_both_domains(name: str) -> None:
    nearly_mean = {"log_std_high": -5.0, "domain_input": name}
    played = Actions(run("sac", random_steps=40, learning_starts=47, **nearly_mean), ticks=92)
    random = 80  # ticks of five source steps, every second one with a target step
    for actions, wanted in ((played.source, played.wanted_source), (played.target, played.wanted_target)):
        drawn = np.concatenate(actions[:random]).ravel()
        assert abs(drawn.mean()) < 4 * np.sqrt(1 / 3 / len(drawn))
        shares = np.histogram(drawn, bins=4, range=(-1, 1))[0] / len(drawn)
        assert (np.abs(shares - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(drawn))).all()
        assert len(np.unique(drawn)) == len(drawn)
        acted, meant = np.concatenate(actions[random:]), np.concatenate(wanted[random:])
        assert len(acted) >= 6
        np.testing.assert_allclose(acted, meant, atol=0.05)
    if name == "flag":
        source, meant = np.concatenate(played.source[random:]), np.concatenate(played.wanted_source[random:])
        assert np.abs(source - meant).max() < 0.05


def test_without_random_steps_the_policy_acts_from_the_first_step_on() -> None:
    played = Actions(run("sac", learning_starts=47, log_std_high=-5.0), ticks=4)
    np.testing.assert_allclose(np.concatenate(played.source), np.concatenate(played.wanted_source), atol=0.05)
