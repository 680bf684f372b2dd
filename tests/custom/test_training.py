"""Training in custom environments: records, evaluation, whole episodes, datasets, and functions from Python."""

import importlib
import json

import numpy as np
import pytest
from gymnasium import spaces

import offdyn
from offdyn.cli.main import main
from offdyn.data.datasets import Dataset, save
from offdyn.report.write import write
from offdyn.training.run_folder import RunFolder

tiny = importlib.import_module("tests.custom.tiny")
named = tiny.named


@pytest.fixture(scope="module")
def trained(tmp_path_factory, shared_programs):
    """One run from beginning to end; for reading only."""
    out = tmp_path_factory.mktemp("own") / "runs"
    watcher = tiny.Watcher()
    return tiny.train(out, watcher)[0], watcher


def test_a_training_leaves_the_record_every_training_leaves(trained):
    run, _ = trained
    assert tiny.counts(run) == (480, 48, 445)
    assert [line["target_steps"] for line in run.curve()] == [0, 12, 24, 36, 48]
    final = tiny.read(run, "final.json")
    assert len(final["final_returns"]) == 3
    assert final["final_normalised"] is None
    assert RunFolder.open(run.path).config == run.config


def test_target_steps_of_evaluations_are_counted_apart_and_told(trained):
    run, watcher = trained
    assert any("48 target steps of training; beside them 2 target episodes" in text for text in watcher.said)
    # Five evaluations of two episodes and three final ones, of at most 17 steps each.
    assert 13 < run.provenance["evaluation_target_steps"] <= 13 * 17


def test_a_trained_policy_can_be_evaluated_and_reported(trained, tmp_path, capsys):
    run = trained[0]
    assert main(["evaluate", str(run.path), "--episodes", "2", "--json"]) == 0
    returns = json.loads(capsys.readouterr().out)
    assert len(returns["target"]) == len(returns["source"]) == 2
    assert offdyn.load_policy(run)(np.zeros(2)).shape == (1,)
    summary, _ = write([run.path.parent], tmp_path / "report")
    assert "1 run: 1 finished" in summary
    assert "source-to-target" in (tmp_path / "report" / "index.html").read_text()


def test_a_loaded_policy_takes_what_the_environment_shows_and_gives_what_it_takes(tmp_path):
    pair = {"source": named("parts_source"), "target": named("parts_target")}
    (run,) = tiny.train(tmp_path / "runs", eval_episodes=0, **pair)
    policy, normalised = offdyn.load_policy(run), offdyn.load_policy(run, normalised=True)
    env = tiny.environments.parts_target()
    observation, _ = env.reset(seed=0)
    for _ in range(5):
        action = policy(observation)
        flat = spaces.utils.flatten(env.observation_space, observation)
        np.testing.assert_allclose(action, 1 + 4 * normalised(flat), atol=1e-5)  # from -3 to 5
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)


def test_without_evaluation_the_curve_shows_training_episodes(tmp_path):
    (run,) = tiny.train(tmp_path / "runs", eval_episodes=0, final_episodes=0)
    assert run.provenance["evaluation_target_steps"] == 0
    shown = [line["target_return_mean"] for line in run.curve()]
    assert np.isnan(shown[0])  # nothing was played yet
    final = tiny.read(run, "final.json")
    assert final["final_of"] == "training episodes"
    metrics = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    logged = [line["training return target"] for line in metrics if line.get("training return target") is not None]
    assert set(final["final_returns"]) >= {value for value in logged if logged.count(value) == 1} - set(shown)
    assert np.nanmin(shown) >= min(final["final_returns"]) - 1e-9
    summary, _ = write([tmp_path / "runs"], tmp_path / "report")
    assert "1 finished" in summary


def test_eval_episodes_0_means_that_nothing_is_played_at_the_end_either():
    (run,), _ = offdyn.plan(source=named("source"), target=named("target"), eval_episodes=0)
    assert run.schedule.final_episodes == 0


def test_whole_episodes_cost_the_same_steps_and_updates_as_single_steps(tmp_path, monkeypatch):
    moments = []
    more = {"eval_episodes": 0, "final_episodes": 0}
    (steps,) = tiny.train(tmp_path / "steps", **more)
    step = tiny.environments.Point.step

    def watched(self, action):
        if self.gain < 0:  # the target's
            moments.append(trainer_cohort[0].updates)
        return step(self, action)

    from offdyn.training import trainer

    trainer_cohort = []
    made = trainer.Cohort
    monkeypatch.setattr(trainer, "Cohort", lambda *how: trainer_cohort.append(made(*how)) or trainer_cohort[0])
    monkeypatch.setattr(tiny.environments.Point, "step", watched)
    (whole,) = tiny.train(tmp_path / "whole", target_mode="episodic", **more)
    assert tiny.counts(whole) == tiny.counts(steps)
    assert len(moments) == 48
    # The policy is frozen inside an episode: updates happened between few of the target's steps only.
    episodes = len(tiny.read(whole, "final.json")["final_returns"])
    assert len(set(moments)) <= episodes + 1 < 20


def test_runs_of_whole_episodes_have_a_cohort_each():
    from offdyn.training.preparation import group

    runs, _ = offdyn.plan(source=named("source"), target=named("target"), seeds=[0, 1], target_mode="episodic")
    assert len(group(runs)) == 2


def test_a_dataset_can_be_the_source_and_its_observations_be_normalised(tmp_path):
    rng = np.random.default_rng(0)
    rows = {
        "observation": rng.normal(size=(60, 2)),
        "action": rng.uniform(-1, 1, (60, 1)),
        "reward": rng.normal(size=60),
    }
    ends = {"terminated": np.zeros(60), "truncated": np.arange(60) % 10 == 9}
    save(
        Dataset(**rows, next_observation=rng.normal(size=(60, 2)), **ends, card={"robot": "mine"}),
        tmp_path / "d.safetensors",
    )
    source = str(tmp_path / "d.safetensors")
    (run,) = tiny.train(
        tmp_path / "runs", source=source, source_envs=None, eval_episodes=0, normalise_observations=True
    )
    assert run.config.task.source is None
    assert run.provenance["source_data"]["rows"] == 60
    assert tiny.counts(run)[:2] == (0, 48)
    policy = offdyn.load_policy(run).policies
    np.testing.assert_allclose(policy.mean[0, 0], rows["observation"].mean(0), atol=0.05)
    assert policy.deviation.shape == (1, 1, 2)
    with pytest.raises(offdyn.OffdynError, match=r"2 observation entries and 1 actions, .*parts_target has 3 and 1"):
        tiny.train(tmp_path / "other", source=source, target=named("parts_target"), source_envs=None)


def test_functions_from_python_train_and_resume(tmp_path):
    source, target = lambda: tiny.environments.source(), lambda: tiny.environments.target()
    watcher = tiny.Watcher(stop_at=200)
    with pytest.raises(tiny.Stopped):
        tiny.train(tmp_path / "runs", watcher, source=source, target=target, eval_episodes=0)
    tiny.offdyn.api.custom.GIVEN.clear()
    (run,), _ = tiny.resume(tmp_path / "runs", source=source, target=target)
    assert tiny.counts(run) == (480, 48, 445)


def test_vgdf_says_that_it_does_not_know_the_ends_and_works_with_that():
    import jax

    _, notices = offdyn.plan(source=named("source"), target=named("target"), method="vgdf")
    assert any("vgdf imagines that none does" in text for text in notices)
    from offdyn.envs.custom import never_known

    assert not jax.jit(never_known)(np.zeros((3, 4, 2))).any()
    assert never_known(np.zeros((3, 4, 2))).shape == (3, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "hopper-big-head", "--target", named("target")], "either a task or source and target"),
        (["--source", named("source")], "custom target: name it, too"),
        (["--target", named("target")], "source-less"),
        (["--source", named("source"), "--target", named("target"), "--target-mode", "often"], "steps or episodic"),
        (["--source", named("source"), "--target", named("target"), "--env-processes", "3"], "auto, on or off"),
        (["--source", named("source"), "--target", named("target"), "--time-limit", "0"], "whole number from 1 to"),
        (["--task", "jetpack", "--target-log", "log"], "records a custom --target"),
        ([], "--source and --target"),
    ],
)
def test_mistakes_on_the_command_line_are_sentences(arguments, words, capsys, tmp_path):
    assert main(["train", *arguments, "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert words in said or (words == "source-less" and "has no source to act in: name one with --source" in said)
