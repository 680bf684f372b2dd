"""Batched simulators as the source: each kind, what may not be lost, what is refused, and training on them."""

import importlib
import json
from typing import Any

import numpy as np
import pytest

import offdyn
from offdyn import OffdynError
from offdyn.cli.main import main
from offdyn.envs import batched, custom
from offdyn.envs.custom import EnvironmentFailed
from offdyn.envs.custom_batch import OwnBodies

tiny = importlib.import_module("tests.custom.tiny")
simulators: Any = importlib.import_module("tests.custom.simulators")
HERE, TARGET = "tests.custom.simulators", tiny.named("target")
NARROW = f"{HERE}:narrow_target"
COUNT = simulators.COUNT
KINDS = ["points", "jax_points", "tensor_points", "same_step", "next_step", "rsl", "any_points", "playground"]


@pytest.fixture(autouse=True)
def afresh():
    """What one test looked at is not kept for another."""
    yield
    batched.KEPT.clear()
    custom.look_at.cache_clear()


def pair(kind: str, **options: Any) -> custom.OwnPair:
    target = NARROW if kind == "playground" else TARGET
    return custom.pair_of(kind if ":" in kind else f"{HERE}:{kind}", target, **options)


def bodies(of: custom.OwnPair, runs: int = 1, targets: int = 0) -> OwnBodies:
    seeds = [(seed, 0, body) for seed in range(runs) for body in range(of.batch or COUNT)]
    return OwnBodies(of, ["source"] * len(seeds) + ["target"] * targets, seeds + [(9, 1, 0)] * targets)


def play(domain: OwnBodies, steps: int = 60) -> tuple[list[Any], list[np.ndarray], list[np.ndarray]]:
    """(rows, what was seen before each step, which rows repeat another)."""
    ids, draws = np.arange(len(domain.is_target)), np.random.default_rng(0)
    rows, seen, repeated = [], [], []
    for _ in range(steps):
        seen.append(domain.observation.copy())
        rows.append(domain.step(ids, draws.uniform(-1, 1, (len(ids), 1))))
        repeated.append(domain.interrupted.copy())
    return rows, seen, repeated


@pytest.mark.parametrize("kind", KINDS)
def test_every_transition_is_one_of_the_simulator_and_the_last_of_an_episode_too(kind):
    domain = bodies(pair(kind), runs=2)
    rows, seen, repeated = play(domain)
    ends = 0
    for step, before, again in zip(rows, seen, repeated, strict=True):
        made = simulators.moved(step.observation, step.action)
        np.testing.assert_allclose(step.next_observation, made, atol=1e-5)
        np.testing.assert_allclose(step.reward, simulators.gained(made), atol=1e-5)
        fell = step.next_observation[:, 0] > 1.6
        if kind == "rsl":  # of an end in the step of a time limit it tells the limit alone
            fell &= ~step.truncated
        np.testing.assert_array_equal(step.terminated, fell)
        assert not (step.terminated & step.truncated).any()
        np.testing.assert_array_equal(step.observation[~again], before[~again])
        np.testing.assert_array_equal(step.diverged, again)
        ends += (step.terminated | step.truncated)[~again].sum()
    assert ends > 2 * COUNT
    assert any(again.any() for again in repeated) == (kind == "next_step")
    assert len(np.unique(np.concatenate(seen)[:, 0])) > 500  # the runs, and the environments of one, differ
    domain.close()


def test_the_step_in_which_gymnasium_only_resets_is_no_transition_and_no_episode():
    rows, _, repeated = play(bodies(pair("next_step")))
    for number in range(1, len(rows)):
        ended = (rows[number - 1].terminated | rows[number - 1].truncated) & ~repeated[number - 1]
        np.testing.assert_array_equal(repeated[number], ended)
        for name in ("observation", "action", "next_observation"):
            now, before = (getattr(of, name)[ended] for of in rows[number - 1 : number + 1])
            np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("kind", ["points", "playground"])
def test_actions_reach_the_bounds_and_other_seeds_bring_other_starts(kind):
    domain = bodies(pair(kind), runs=2)
    first = domain.observation.copy()
    assert (first[:COUNT] != first[COUNT:]).all()
    again = bodies(pair(kind), runs=2)
    np.testing.assert_array_equal(again.observation, first)
    again.load(domain.save())
    assert (again.observation != first).all()  # a resumed training begins other episodes
    if kind == "points":
        domain.step(np.arange(2 * COUNT), np.tile([[-1.0], [7.0]], (COUNT, 1)))
        acted = domain._together._batches[0].simulator.acted[0]
        assert acted[:, 0].tolist() == [-3.0, 5.0] * (COUNT // 2)


def test_gymnasiums_own_vector_environments_have_a_name():
    of = custom.pair_of("vec:Pendulum-v1", "Pendulum-v1?delay=2")
    assert (of.name, of.batch, of.time_limit) == ("Pendulum-v1-to-Pendulum-v1_delay_2", batched.ANY, 200)
    domain = bodies(of)
    rows = [domain.step(np.arange(COUNT), np.zeros((COUNT, 1))) for _ in range(2)]
    np.testing.assert_array_equal(rows[1].observation, rows[0].next_observation)
    short = bodies(custom.pair_of("vec:Pendulum-v1", "Pendulum-v1", 3))
    assert [short.step(np.arange(COUNT), np.zeros((COUNT, 1))).truncated.all() for _ in range(6)] == [0, 0, 1] * 2


def test_a_dictionary_of_boxes_is_flattened_as_the_targets():
    of = custom.pair_of(f"{HERE}:parts_vector", tiny.named("parts_target"))
    assert of.observation == (("a", 2), ("b", 1))
    for rows in play(bodies(of), 40)[0]:
        np.testing.assert_allclose(rows.next_observation[:, 0], rows.next_observation[:, 2], atol=1e-6)


def test_one_simulator_of_a_number_of_its_own_is_made_and_the_training_takes_it(monkeypatch):
    made: list[Any] = []
    points = simulators.Points
    monkeypatch.setattr(simulators, "points", lambda: made.append(points()) or made[-1])
    of = pair("points")
    assert of.batch == COUNT
    domain = bodies(of)
    assert len(made) == 1
    assert not made[0].closed
    domain.close()
    assert made[0].closed


def test_a_pair_is_read_back_without_making_its_simulator(monkeypatch):
    of, plain = pair("points"), custom.pair_of(tiny.named("source"), TARGET)
    monkeypatch.setattr(custom, "_made", lambda *how: pytest.fail("a simulator was made"))
    assert custom.from_mapping(of.to_mapping()) == of
    assert "batch" not in plain.to_mapping()


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (f"{HERE}:no_reset", TARGET, r"source .*no_reset: metadata\['autoreset_mode'\] is .*DISABLED.*SAME_STEP"),
        (f"{HERE}:points", f"{HERE}:points", r"target .*points: it steps many environments at once, as a source may"),
        (f"{HERE}:playground", TARGET, r"their actions lie in \[-1.0\] to \[1.0\] and in \[-3.0\] to \[5.0\]"),
        (f"{HERE}:rsl", tiny.named("parts_target"), r"observations are observation \(2\) and a \(2\), b \(1\)"),
        (tiny.named("nothing"), TARGET, r"expected it to return a gymnasium.Env or a batched simulator, it gave None"),
        ("vec:CartPole-v1", TARGET, r"source vec:CartPole-v1: its action space is Discrete"),
        ("vec:Pendulun-v1", TARGET, r"source vec:Pendulun-v1 cannot be made: NameNotFound"),
        ("playground:CheetahRun", TARGET, r"playground:CheetahRun needs .* playground: pip install playground"),
        (f"{HERE}:points?delay=2", TARGET, r"effects stand before one gymnasium.Env, it gave Points"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(source, target, words):
    with pytest.raises(OffdynError, match=words):
        custom.pair_of(source, target)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("nan", r"not finite while its episode went on, in 1 environments \(3 \.\.\.\)"),
        ("shape", r"gave a reward of shape \(15,\), expected \(16,\)"),
        ("type", r"gave a observation of type <U32, expected numbers"),
        ("flags", r"gave terminated with 0.5, expected true or false"),
        ("no final", r"final_observation is None: its last observation is lost"),
        ("four", r"step gave no tuple of five"),
    ],
)
def test_rubbish_from_a_simulator_is_a_failure_in_words(how, words, monkeypatch):
    monkeypatch.setattr(simulators.Broken, "how", how)
    domain = bodies(pair("broken"))
    with pytest.raises(EnvironmentFailed, match=f"source {HERE}:broken: ValueError: .*{words}"):
        play(domain, 6)


def test_an_episode_that_a_simulator_ends_in_numbers_that_are_none_is_left_out_and_counted(monkeypatch):
    monkeypatch.setattr(simulators.Broken, "how", "blown up")
    domain = bodies(pair("broken"))
    rows, _, repeated = play(domain, 7)
    assert [again.tolist() for again in repeated] == [[step == 5 and body == 3 for body in range(COUNT)]
                                                     for step in range(7)]  # fmt: skip
    for name in ("observation", "action", "next_observation", "reward"):
        np.testing.assert_array_equal(getattr(rows[5], name)[3], getattr(rows[4], name)[3])
    assert domain.divergences.tolist() == [body == 3 for body in range(COUNT)]
    monkeypatch.setattr(simulators.Broken, "at", 0)
    with pytest.raises(EnvironmentFailed, match="not finite in its first step"):
        play(bodies(pair("broken")), 1)


def test_an_rsl_environment_that_loses_the_last_observation_is_refused_when_it_does(monkeypatch):
    monkeypatch.setattr(simulators.Rsl, "keeps_final", False)
    with pytest.raises(EnvironmentFailed, match=r"without extras\['final_obs'\]: its last observation is lost"):
        play(bodies(pair("rsl")), 30)


SHORT = {"source_envs": None, "source_steps": 480, "eval_interval": 120}


@pytest.mark.parametrize("kind", ["points", "next_step", "rsl", "playground"])
def test_a_training_counts_every_transition_and_resumes(kind, tmp_path):
    target = NARROW if kind == "playground" else TARGET
    asked = SHORT | {"source": f"{HERE}:{kind}", "target": target, "seeds": (0, 1)}
    asked |= {"source_envs": 20} if kind == "playground" else {}
    with pytest.raises(tiny.Stopped):
        tiny.train(tmp_path / "runs", tiny.Watcher(stop_at=200), **asked)
    runs, _ = tiny.resume(tmp_path / "runs")
    envs = 20 if kind == "playground" else COUNT
    for run in runs:
        assert run.config.schedule.source_env_count == envs
        assert tiny.counts(run)[:2] == (-(-480 // envs) * envs, 48)
        assert all(line["source_return_mean"] == line["source_return_mean"] for line in run.curve()) == (envs == 20)
        assert np.isfinite([line["target_return_mean"] for line in run.curve()]).all()


def test_a_hundred_environments_learn_with_one_target_step_a_tick(tmp_path):
    (run,) = tiny.train(
        tmp_path / "runs", **SHORT | {"source": f"{HERE}:any_points", "source_envs": 100, "eval_source_episodes": 2}
    )
    assert tiny.counts(run) == (500, 48, 440)  # ten updates with each target step from the fifth on
    assert main(["evaluate", str(run.path), "--episodes", "2", "--json"]) == 0
    (run,) = tiny.train(tmp_path / "usual", **SHORT | {"source": f"{HERE}:any_points"})
    assert run.config.schedule.source_env_count == batched.USUAL


def test_what_a_simulator_fixes_is_told_and_no_source_episodes_are_played(tmp_path, capsys):
    source = ["--source", f"{HERE}:points", "--target", TARGET]
    assert main(["train", *source, "--source-envs", "10", "--out", str(tmp_path / "runs")]) == 2
    assert f"expected {COUNT}, as many as {HERE}:points steps at once, got 10" in capsys.readouterr().err
    (run,), _ = offdyn.plan(source=f"{HERE}:points", target=TARGET, source_steps_per_target_step=10 * COUNT)
    assert run.schedule.source_env_count == COUNT
    assert run.schedule.eval_source_episodes == 0
    with pytest.raises(OffdynError, match="cannot stand for a target: train sac-src with this source"):
        offdyn.plan(source=f"{HERE}:points", target=TARGET, method="sac-tune")


@pytest.mark.parametrize("method", ["par", "vgdf", "darc", "duo"])
def test_methods_learn_from_a_batched_source(method, tmp_path):
    small = importlib.import_module("tests.training.small").small(method)
    (run,) = tiny.train(
        tmp_path / "runs", **SHORT | small | {"method": method, "source": f"{HERE}:any_points", "source_envs": 50}
    )
    assert run.state == "finished"
    assert tiny.counts(run)[:2] == (500, 96 if method == "duo" else 48)  # simba, its backbone, has five to one


def test_a_source_in_which_alone_is_learned_steps_all_its_environments_in_a_tick(tmp_path):
    (run,) = tiny.train(tmp_path / "runs", **SHORT | {"method": "sac-src", "source": f"{HERE}:any_points",
                                                      "source_envs": 40, "log_interval": 120})  # fmt: skip
    assert tiny.counts(run)[:2] == (480, 0)


def test_a_failing_simulator_saves_the_training_and_a_resume_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(simulators.Broken, "how", "shape")
    said, _ = tiny.fails(tmp_path / "runs", **SHORT | {"source": f"{HERE}:broken"})
    assert "gave a reward of shape (15,)" in said
    monkeypatch.setattr(simulators.Broken, "how", "")
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run)[:2] == (-(-480 // COUNT) * COUNT, 48)
    assert json.loads((run.path / "provenance.json").read_text())["state"] == "finished"
