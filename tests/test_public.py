"""The public names: what can be asked for from Python, and your own things under a name."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import offdyn
from offdyn.algos.backbones import BACKBONES, SIMBA
from offdyn.algos.method import Method
from offdyn.algos.registry import METHODS, RECIPES
from offdyn.envs import pairs, shifts
from offdyn.envs.edits import Factor, actuator
from offdyn.envs.effects import Shifted
from offdyn.report.runs import gather

from .report.made_up import make_run

NARROW = {"actor_widths": (8,), "critic_widths": (8,)}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What a test registers is gone after it."""
    known = (METHODS, RECIPES, BACKBONES, pairs.REGISTERED)
    before = [dict(each) for each in known]
    yield
    for each, was in zip(known, before, strict=True):
        each.clear()  # type: ignore[attr-defined]
        each.update(was)  # type: ignore[arg-type]


def test_every_public_name_is_listed_documented_and_typed() -> None:
    assert set(offdyn.__all__) < set(dir(offdyn))
    for name in offdyn.__all__:
        assert getattr(offdyn, name).__doc__, name
    assert (Path(offdyn.__file__).parent / "py.typed").exists()


def test_listing_the_names_starts_no_jax() -> None:
    script = "import sys, offdyn; dir(offdyn); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split()[-1] == "False"


def test_a_method_a_backbone_and_a_pair_of_ones_own_train_by_their_names(tmp_path: Path, trains: None) -> None:
    doubled: list[float] = []

    def correct(source: Any, ctx: Any) -> Any:
        doubled.append(1.0)
        return source._replace(reward=2 * source.reward), {"reward before": source.reward.mean()}

    offdyn.register_method(Method("doubled", "SAC with twice the source rewards", correct=correct))
    offdyn.register_backbone(
        dataclasses.replace(SIMBA, name="narrow", settings=SIMBA.settings | {"actor_widths": (8,)})
    )
    offdyn.register_env("poles", "Pendulum-v1", "Pendulum-v1", 50)
    small = {"target_steps": 40, "learning_starts": 10, "random_steps": 5, "eval_interval": 200}
    (run,) = offdyn.train(
        "poles",
        "doubled",
        backbone="narrow",
        out=tmp_path,
        allow_no_shift=True,
        eval_episodes=1,
        eval_source_episodes=1,
        final_episodes=1,
        checkpoint_interval=200,
        log_interval=200,
        **small,
    )
    assert run.state == "finished"
    assert doubled
    assert "reward before" in (run.path / "metrics.jsonl").read_text()  # a metric is a name and a number
    assert "finished, target return" in repr(run)
    assert repr(offdyn.load_policy(run)).endswith("policy.safetensors', 3 observations, 1 actions)")
    assert offdyn.evaluate(run, 2)["target"].shape == (2,)


def test_a_family_of_shifts_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    motors = shifts.Family("gear of every motor times {}", lambda by: actuator(shifts.EVERY, strength=Factor(by)))
    monkeypatch.setitem(shifts.FAMILIES, "motors", motors)
    source, target = (offdyn.make_env("hopper-motors-0.5", role).unwrapped for role in ("source", "target"))
    gears = [env.model.actuator_gear[:, 0] for env in (source, target)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(gears[1], 0.5 * gears[0])


@pytest.mark.parametrize(("kind", "name"), [("method", "par"), ("backbone", "simba")])
def test_a_name_that_is_taken_is_refused(kind: str, name: str) -> None:
    thing = METHODS[name] if kind == "method" else BACKBONES[name]
    with pytest.raises(offdyn.OffdynError, match=f"there is a {kind} '{name}' already"):
        getattr(offdyn, f"register_{kind}")(thing)


def test_environments_of_a_task_are_gymnasium_s_own(tmp_path: Path) -> None:
    target, source = offdyn.make_env("hopper-gravity-0.5"), offdyn.make_env("hopper-gravity-0.5", "source")
    assert isinstance(target, gymnasium.Env)
    gravity = [env.unwrapped.model.opt.gravity[2] for env in (target, source)]  # type: ignore[attr-defined]
    assert gravity == pytest.approx([-4.905, -9.81])
    with pytest.raises(offdyn.OffdynError, match="toy"):
        offdyn.make_env("jetpack")
    with pytest.raises(offdyn.OffdynError, match="custom environments are named source="):
        offdyn.train(gymnasium.make("Pendulum-v1"), "sac", out=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(offdyn.OffdynError, match="role"):
        offdyn.make_env("hopper", "both")


def test_an_environment_alone_is_made_as_training_has_it_with_what_its_maker_takes() -> None:
    env = offdyn.make_env("Pendulum-v1?delay=2", render_mode="rgb_array")
    assert env.render_mode == "rgb_array"
    env.reset(seed=0)
    steps = [env.step(np.array([2.0], np.float32)) for _ in range(200)]
    assert [truncated for *_, truncated, _ in steps] == [False] * 199 + [True]
    assert isinstance(env.env, Shifted)  # type: ignore[attr-defined]


def test_runs_become_columns_of_equal_length(tmp_path: Path) -> None:
    for seed, final in enumerate((10.0, 20.0)):
        make_run(tmp_path, seed=seed, final=final)
    runs = offdyn.load_runs(tmp_path)
    assert runs.finals["final_return"].tolist() == [10.0, 20.0]
    assert runs.finals["seed"].tolist() == [0, 1]
    shown = f"Runs(finals of 2 runs, curves of {len(runs.curves['run'])} lines and {len(runs.curves)} columns)"
    assert repr(runs) == shown
    lengths = {len(column) for column in runs.curves.values()}
    assert lengths == {sum(len(run.curve["target_steps"]) for run in gather([tmp_path]))}
    assert np.isfinite(runs.curves["target_return_mean"]).all()
    with pytest.raises(offdyn.OffdynError, match="no such folder"):
        offdyn.load_runs(tmp_path / "nowhere")
