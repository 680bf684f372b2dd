"""offdyn from Python: train, resume, load."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import offdyn
from offdyn.envs import pairs
from offdyn.training.progress import Stop, Stopped
from offdyn.training.run_folder import RunFolder

from .training.small import PUSH, small


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_programs: None) -> list[RunFolder]:
    out = tmp_path_factory.mktemp("api") / "out"
    return offdyn.train(PUSH, "sac", seeds=range(2), out=out, normalise_observations=True, **small("sac"))


def test_train_returns_the_records_of_its_runs(trained: list[RunFolder]) -> None:
    assert [folder.config.seed for folder in trained] == [0, 1]
    assert all(folder.state == "finished" for folder in trained)
    assert trained[0].curve()[-1]["source_steps"] == 480
    assert trained[0].path.is_dir()


def test_a_loaded_policy_takes_the_agents_mean_action(trained: list[RunFolder]) -> None:
    for folder in trained:
        policy = offdyn.load_policy(folder)
        observations = np.random.default_rng(0).normal(size=(7, 2))
        agent = load_file(folder.path / "agent.safetensors")
        first, bias, last, last_bias = (agent[f"['agent'].actor.value[{i}]"] for i in range(4))
        about = load_file(folder.path / "policy.safetensors")
        seen = (observations - about["observation.mean"]) / about["observation.deviation"]
        expected = np.tanh(np.maximum(seen @ first + bias, 0) @ last + last_bias)[:, :2]
        np.testing.assert_allclose(policy(observations), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(policy(observations[0]), expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(policy(observations.reshape(7, 1, 2))[:, 0], policy(observations))


def test_a_policy_loads_from_a_path_too(trained: list[RunFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pairs.WORLDS, PUSH.name, PUSH)
    here = np.zeros(2)
    np.testing.assert_array_equal(offdyn.load_policy(str(trained[0].path))(here), offdyn.load_policy(trained[0])(here))


def test_an_observation_of_another_size_is_refused_in_words(trained: list[RunFolder]) -> None:
    with pytest.raises(offdyn.OffdynError, match=r"expected observations of 2 numbers, got shape \(3,\)"):
        offdyn.load_policy(trained[0])(np.zeros(3))


def test_a_stopped_training_is_resumed_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pairs.WORLDS, PUSH.name, PUSH)
    asked = small("sac") | {"normalise_observations": True}
    with pytest.raises(Stopped):
        offdyn.train(PUSH, "sac", seeds=range(2), out=tmp_path, stop=Stop(wanted=True), **asked)
    folders = offdyn.resume(tmp_path)
    assert [folder.state for folder in folders] == ["finished", "finished"]


def test_a_grid_is_every_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, notices = offdyn.plan(
        ["hopper-big-head", "hopper-gravity-2.0"], ["par", "par-b"], seeds=(0, np.int64(3)), penalty=["preset", 0]
    )
    assert len(runs) == len({run.name for run in runs}) == 16
    assert len(notices) == 1
    assert {run.hyper.penalty for run in runs} == {0.0, 0.5}


@pytest.mark.parametrize("empty", [{"task": []}, {"task": "hopper-big-head", "seeds": []}])
def test_an_empty_grid_is_refused(empty: dict) -> None:
    with pytest.raises(offdyn.OffdynError, match="at least one task, one method and one seed"):
        offdyn.plan(**empty)


def test_one_seed_needs_no_list() -> None:
    assert offdyn.plan("hopper-big-head", seeds=4)[0][0].seed == 4
