"""What a run leaves behind, and what its numbers may depend on."""

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tensorboardX.proto.event_pb2 import Event

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.envs import pairs, toy
from offdyn.policies.trained import Policy
from offdyn.training import trainer as training
from offdyn.training.progress import Stop, Stopped
from offdyn.training.run_folder import RunFolder, from_yaml

from . import small
from .small import find_runs, run, train

ISSUE_COLUMNS = (
    "source_steps, target_steps, updates, target_return_mean, target_return_std, source_return_mean, normalised, "
    "reward_penalty, wall_seconds"
)


@pytest.fixture(scope="module")
def folder(undisturbed: Path) -> Path:
    return undisturbed / small.two_runs()[0].name


def events(folder: Path) -> list[tuple[int, str, float]]:
    """(step, name, value) of every scalar in a run's event files: records of length, checksum, event, checksum."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        content, at = path.read_bytes(), 0
        while at < len(content):
            length = int.from_bytes(content[at : at + 8], "little")
            event = Event.FromString(content[at + 12 : at + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            at += length + 16
    return found


def test_a_run_folder_holds_every_file_it_should(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "config.yaml", "curve.csv", "metrics.jsonl", "provenance.json", "policy.safetensors", "agent.safetensors",
        "final.json", "tensorboard",
    }  # fmt: skip


def test_the_curve_begins_with_exactly_the_promised_columns(folder: Path) -> None:
    header = (folder / "curve.csv").read_text().splitlines()[0].split(",")
    assert header[:9] == ISSUE_COLUMNS.split(", ")
    for which in ("source", "fresh target", "held-out target"):
        name = f"deviation on {which} transitions"
        assert name.replace(" ", "_") in header
    for name in ("variance_of_the_code", "effective_rank_of_the_code"):
        assert name in header


def test_the_curve_has_a_line_for_the_beginning_for_every_interval_and_for_the_end(folder: Path) -> None:
    lines = small.curve(folder)
    assert [int(line["source_steps"]) for line in lines] == [0, 120, 240, 360, 480]
    assert [int(line["target_steps"]) for line in lines] == [0, 12, 24, 36, 48]
    # The fourth target row is stored in the tick at step 30: updates begin with the one at 35, one per source step.
    assert [int(line["updates"]) for line in lines] == [0, 85, 205, 325, 445]
    assert lines[0]["critic_loss"] == lines[0]["reward_penalty"] == ""
    assert all(float(line["target_return_mean"]) == float(line["target_return_mean"]) for line in lines)


def test_metrics_hold_training_returns_losses_and_evaluations(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "critic loss" in line]
    assert [line["source_steps"] for line in logged] == list(range(40, 481, 40))
    assert [line["source_steps"] for line in lines if "target_return_mean" in line] == [0, 120, 240, 360, 480]
    assert [line["source_steps"] for line in lines] == sorted(line["source_steps"] for line in lines)
    for name in ("training return source", "training return target", "encoder loss", "reward penalty", "entropy"):
        assert any(isinstance(line[name], float) for line in logged)


def test_the_means_in_the_curve_are_those_of_the_logs(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [line["critic loss"] for line in lines if "critic loss" in line and 120 < line["source_steps"] <= 240]
    assert float(small.curve(folder)[2]["critic_loss"]) == pytest.approx(np.mean(losses), rel=1e-5)


def test_event_files_hold_the_metrics(folder: Path) -> None:
    expected = []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        numbers = json.loads(line)
        step = numbers.pop("source_steps")
        known = {name: value for name, value in numbers.items() if value is not None}
        expected += [(step, name.replace(" ", "_"), pytest.approx(value, rel=1e-6)) for name, value in known.items()]
    assert events(folder) == expected
    assert len(expected) > 100


def test_event_files_are_cut_back_on_resume(tmp_path: Path) -> None:
    train(small.two_runs(), tmp_path / "out", stop_at=255)
    folder = tmp_path / "out" / small.two_runs()[0].name
    (manifest,) = (tmp_path / "out").glob("cohorts/*/manifest.json")
    manifest.unlink()  # so that the checkpoint at 200 is used
    small.resume(tmp_path / "out", stop_at=205)
    assert max(step for step, _, _ in events(folder)) == 200
    small.resume(tmp_path / "out")
    found = events(folder)
    assert len(found) == len(set((step, name) for step, name, _ in found))
    assert max(step for step, _, _ in found) == 480


def test_the_final_result_is_of_fresh_episodes_and_never_the_best(folder: Path) -> None:
    final = json.loads((folder / "final.json").read_text())
    returns, curve = final["final_returns"], [float(line["target_return_mean"]) for line in small.curve(folder)]
    assert len(returns) == 3
    assert final["final_mean"] == pytest.approx(np.mean(returns))
    assert final["final_std"] == pytest.approx(np.std(returns))
    assert final["last_five_mean"] == pytest.approx(np.mean(curve[-5:]))
    area = sum((a + b) / 2 * 12 for a, b in pairwise(curve)) / 48
    assert final["area_under_curve"] == pytest.approx(area)


def test_provenance_says_versions_hardware_and_preset(folder: Path) -> None:
    about = json.loads((folder / "provenance.json").read_text())
    assert about["state"] == "finished"
    assert about["offdyn"] == offdyn.__version__
    assert {"jax", "mujoco-core", "optax", "numpy"} <= about["packages"].keys()
    assert about["preset"] == "paper"
    assert about["physics_threads"] == 1
    assert about["bodies_have_cores"] is False
    assert about["wall_seconds"] > 0
    assert {"platform", "kind"} <= about["device"].keys()
    assert {"processor", "cores"} <= about["machine"].keys()
    assert (about["source_steps"], about["target_steps"], about["updates"]) == (480, 48, 445)


def test_every_file_has_a_format(folder: Path) -> None:
    for name in ("final.json", "provenance.json"):
        assert json.loads((folder / name).read_text())["format"] == 1
    assert "format: 1" in (folder / "config.yaml").read_text()
    assert json.loads(Policy(folder / "policy.safetensors").metadata["about"])["format"] == 1


def test_a_configuration_of_a_newer_format_is_refused(folder: Path, tmp_path: Path) -> None:
    text = (folder / "config.yaml").read_text().replace("format: 1", "format: 2")
    with pytest.raises(OffdynError, match=r"config.yaml: format 2, this offdyn reads up to 1: update offdyn"):
        from_yaml(text, tmp_path / "config.yaml")


def test_a_policy_of_a_newer_format_is_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / "policy.safetensors"
    about = json.loads(Policy(path).metadata["about"]) | {"format": 2}
    save_file(load_file(path), tmp_path / path.name, {"about": json.dumps(about)})
    with pytest.raises(OffdynError, match=r"policy.safetensors: format 2, this offdyn reads up to 1"):
        Policy(tmp_path / path.name)


def test_a_provenance_of_a_newer_format_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((folder / "config.yaml").read_text())
    about = json.loads((folder / "provenance.json").read_text()) | {"format": 2}
    (tmp_path / "provenance.json").write_text(json.dumps(about))
    with pytest.raises(OffdynError, match=r"provenance.json: format 2, this offdyn reads up to 1"):
        _ = RunFolder.open(tmp_path).state


def test_the_agent_holds_networks_and_optimisers_of_every_part(folder: Path) -> None:
    names = " ".join(load_file(folder / "agent.safetensors"))
    for part in ("actor.value", "actor.adam", "critic.value", "critic.adam", "target_critic", "learned"):
        assert part in names


class CountingBodies(toy.WorldBodies):
    """Counts the steps of each body; knows whether it was made for training or for evaluation."""

    made: list["CountingBodies"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.steps = np.zeros(len(self.seeds), int)
        self.trains = self.seeds[0][1] in (0, 1)
        type(self).made.append(self)

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Any:
        self.steps[ids] += 1
        return super().step(ids, actions)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[CountingBodies]:
    CountingBodies.made = []
    monkeypatch.setattr(pairs, "WorldBodies", CountingBodies)
    return CountingBodies.made


def test_the_target_budget_is_kept_and_every_evaluation_builds_its_domain_afresh(
    counted: list[CountingBodies], tmp_path: Path
) -> None:
    train(small.two_runs(), tmp_path / "out")
    (bodies,) = [made for made in counted if made.trains]
    np.testing.assert_array_equal(bodies.steps[bodies.shifted], [48, 48])
    np.testing.assert_array_equal(bodies.steps[~bodies.shifted], np.full(10, 96))
    evaluations = [made for made in counted if not made.trains]
    assert len(evaluations) == 5 + 1  # at 0, 120, 240, 360, 480, and the final one
    starts = [seed for made in evaluations for seed in made.seeds]
    assert len(starts) == len(set(starts))
    assert [made.shifted.sum() for made in evaluations] == [4] * 5 + [6]


def test_a_resume_does_not_exceed_the_target_budget(counted: list[CountingBodies], tmp_path: Path) -> None:
    train(small.two_runs(), tmp_path / "out", stop_at=255)
    small.resume(tmp_path / "out")
    first, second = [made for made in counted if made.trains]
    np.testing.assert_array_equal((first.steps + second.steps)[first.shifted], [48, 48])


def test_evaluation_never_feeds_training(undisturbed: Path, tmp_path: Path) -> None:
    others = [run(seed=s, eval_interval=40, eval_episodes=3, log_interval=80, checkpoint_interval=60) for s in (0, 1)]
    train(others, tmp_path / "out")
    for one in others:
        for name in ("agent.safetensors", "policy.safetensors"):
            assert (tmp_path / "out" / one.name / name).read_bytes() == (undisturbed / one.name / name).read_bytes()


def test_a_failing_write_of_a_curve_line_is_cut_back(tmp_path: Path) -> None:
    folder = RunFolder.begin(tmp_path / "run", run())
    folder.append_curve({"a": 1, "b": 2.5})
    folder.flush()
    with open(folder.path / "curve.csv", "a") as file:
        file.write("3,")
    folder.mend()
    assert list(csv.DictReader((folder.path / "curve.csv").read_text().splitlines())) == [{"a": "1", "b": "2.5"}]


def test_a_stopped_training_raises_stopped(tmp_path: Path) -> None:
    stop = Stop(wanted=True)
    with pytest.raises(Stopped):
        training.start(small.two_runs(), tmp_path / "out", stop=stop)
    assert [folder.state for folder in find_runs(tmp_path / "out")] == ["stopped", "stopped"]
