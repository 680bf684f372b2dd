"""What was trained is what is saved, exported and evaluated: the mean action of training itself, in either domain."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import offdyn
from offdyn._util.errors import OffdynError
from offdyn._util.types import SOURCE, TARGET
from offdyn.algos import sac
from offdyn.cli.main import main
from offdyn.data.replay import Moments
from offdyn.export.write import export
from offdyn.training.run_folder import RunFolder

from ..training import small
from .test_formats import CLOSE, RUNNERS

BRIEF: dict[str, Any] = {"target_steps": 60, "source_steps_per_target_step": 5, "learning_starts": 10, "batch_size": 8}
BRIEF |= {"eval_interval": 150, "log_interval": 150, "checkpoint_interval": 150, "eval_episodes": 1}
BRIEF |= {"final_episodes": 1, "eval_source_episodes": 0, "normalise_observations": True, "random_steps": 5}
SIMBA = {"backbone": "simba", "critic_widths": (16, 16), "actor_widths": (8, 8)}
ENSEMBLE = {"backbone": "ensemble", "critic_widths": (8,), "actor_widths": (8, 8), "critics": 3, "actor_interval": 2}
TRAINED = {
    "simba, flag": SIMBA | {"domain_input": "flag"},
    "simba, flag, padded": SIMBA | {"domain_input": "flag", "padded": True},
    "ensemble, embedding, padded": ENSEMBLE
    | {"domain_input": "embedding", "padded": True, "updates_per_target_step": 5},
}


@pytest.fixture(scope="module", params=TRAINED)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_programs: None) -> RunFolder:
    """A run of a robot whose actor has seen both domains, from beginning to end; for reading only."""
    out = tmp_path_factory.mktemp("trained") / "out"
    return offdyn.train("hopper-big-head", "sac", out=out, threads=1, **BRIEF, **TRAINED[request.param])[0]


def in_training(run: RunFolder, seen: np.ndarray, domain: float) -> np.ndarray:
    """[n, A]: the mean actions as the updates compute them, from the networks that the run left."""
    spec, arrays = run.config.spec, load_file(run.path / "agent.safetensors")
    network = sac.actor_network(run.config.sac, spec)
    count = len([name for name in arrays if name.startswith("['agent'].actor.value[")])
    assert count > 2 * len(network.shapes)
    actor = tuple(jnp.asarray(arrays[f"['agent'].actor.value[{i}]"]) for i in range(count))
    moments = Moments(*(jnp.asarray(arrays[f"['moments'].{field}"]) for field in Moments._fields))
    seen = np.pad(seen, ((0, 0), (0, spec.observation_size - seen.shape[1])))
    return np.asarray(sac.act(actor, moments.normalise(seen), None, run.config.sac, spec, domain)[0])[:, :3]


def met(run: RunFolder) -> np.ndarray:
    """Observations such as the policy was trained on."""
    arrays = load_file(run.path / "policy.safetensors")
    noise = np.random.default_rng(0).normal(size=(200, 11))
    return (arrays["observation.mean"] + arrays["observation.deviation"] * noise).astype(np.float32)


@pytest.mark.parametrize(("domain", "said"), [("target", TARGET), ("source", SOURCE)])
def test_a_saved_policy_acts_as_in_training_in_either_domain(run: RunFolder, domain: str, said: float) -> None:
    seen = met(run)
    expected = in_training(run, seen, said)
    assert np.abs(expected - in_training(run, seen, SOURCE + TARGET - said)).max() > 1e-3
    np.testing.assert_allclose(offdyn.load_policy(run, domain=domain)(seen), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize(("kind", "act"), RUNNERS, ids=lambda value: getattr(value, "__name__", value))
def test_an_exported_policy_acts_as_in_training_in_the_target(
    run: RunFolder, kind: str, act: Callable[..., np.ndarray], tmp_path: Path
) -> None:
    seen = met(run)
    acted = act(export(run.path, kind, tmp_path / "exported"), seen)
    np.testing.assert_allclose(acted, in_training(run, seen, TARGET), rtol=0, atol=CLOSE)


def test_evaluate_plays_the_side_that_is_asked_for(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    def returns(*more: str) -> dict[str, Any]:
        assert main(["evaluate", str(run.path), "--episodes", "2", "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)

    target, source = returns(), returns("--domain", "source")
    assert target == returns("--domain", "target")
    assert target["target"] != source["target"]
    assert target["source"] != source["source"]


def test_an_unknown_domain_and_a_side_that_was_not_saved_are_refused_in_words(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(OffdynError, match="no domain 'sauce'; did you mean 'source'"):
        offdyn.load_policy(run, domain="sauce")
    copy = RunFolder.begin(tmp_path / run.config.name, run.config)
    arrays = load_file(run.path / "policy.safetensors")
    del arrays["source.bias"]
    copy.write_policy(arrays, offdyn.load_policy(run).policies.steps)
    seen = met(run)
    np.testing.assert_array_equal(offdyn.load_policy(copy)(seen), offdyn.load_policy(run)(seen))
    with pytest.raises(OffdynError, match="saved without its source's side"):
        offdyn.load_policy(copy, domain="source")


def test_a_policy_that_was_never_told_its_domain_has_one_side(tmp_path: Path, known_push: None) -> None:
    small.train([small.run("sac", source_steps=120)], tmp_path)
    (path,) = tmp_path.glob("*/policy.safetensors")
    assert "source.bias" not in load_file(path)
    seen = np.random.default_rng(0).normal(size=(5, 2))
    both = [offdyn.load_policy(path.parent, domain=domain)(seen) for domain in ("target", "source")]
    np.testing.assert_array_equal(*both)


@pytest.fixture
def known_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy environment is found by its name."""
    from offdyn.envs import pairs

    monkeypatch.setitem(pairs.WORLDS, small.PUSH.name, small.PUSH)
