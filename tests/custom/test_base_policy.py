"""A frozen base policy in custom environments: what is executed, stored, logged, resumed, deployed and refused."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import offdyn
from offdyn._util.errors import OffdynError
from offdyn._util.types import Spec
from offdyn.cli.main import main
from offdyn.data.datasets import Dataset, open_dataset, save
from offdyn.envs import custom, pairs
from offdyn.envs.custom import never_known
from offdyn.envs.custom_batch import Row
from offdyn.envs.pairs import open_bodies
from offdyn.envs.residual import Residual, ResidualBodies
from offdyn.envs.toy import World
from offdyn.export.write import export
from offdyn.policies.base import BasePolicy
from offdyn.policies.trained import Policies, Policy
from offdyn.training import trainer
from offdyn.training.cohort import open_source
from offdyn.training.config import build, residuals_of
from offdyn.training.evaluation import EVALUATION, evaluate
from offdyn.training.run_folder import RunFolder

tiny = importlib.import_module("tests.custom.tiny")
bases = importlib.import_module("tests.custom.bases")
named = tiny.named
PULLING = "tests.custom.bases:pulling"
REACH, BIAS = 0.3, 0.25


@pytest.fixture(scope="module")
def trained(tmp_path_factory, shared_programs):
    """One run on a base policy from beginning to end; for reading only."""
    out = tmp_path_factory.mktemp("based") / "runs"
    return tiny.train(out, base_policy=PULLING, residual=REACH)[0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory, shared_programs):
    """One without."""
    return tiny.train(tmp_path_factory.mktemp("plain") / "runs")[0]


def pair():
    return pairs.find({"source": named("source"), "target": named("target")})


def opened(roles: list[str], reach: float = REACH) -> ResidualBodies:
    domain = open_bodies([(pair(), role) for role in roles], [(7, body) for body in range(len(roles))])
    residual = Residual(BasePolicy(PULLING, pair()), reach, 2, 1)
    return ResidualBodies(domain, [residual] * len(roles))


def pulled(observation: np.ndarray) -> np.ndarray:
    """The base policy's action in [-1, 1]: -3 is -1, 5 is 1, so that 1 - 8 x is -2 x."""
    return np.clip(-2.0 * observation[:, :1], -1.0, 1.0)


def test_what_is_executed_is_the_bases_action_moved_and_clipped():
    domain = opened(["target", "source", "source", "source", "source"])
    every = np.arange(5)
    for chosen in (0.0, 1.0, -1.0, 0.5, 7.0):
        seen = domain.observation[every].copy()
        rows = domain.step(every, np.full((5, 1), chosen))
        wanted = np.clip(pulled(seen) + REACH * np.clip(chosen, -1, 1), -1.0, 1.0)
        push = np.where(every == 0, -0.4, 0.5)[:, None] * wanted
        after = np.clip(seen + push * [1.0, -0.3], -2.0, 2.0)
        np.testing.assert_allclose(rows.next_observation, after, atol=1e-6)
        np.testing.assert_array_equal(rows.action, np.full((5, 1), np.clip(chosen, -1, 1)))
    assert (np.abs(seen[:, 0]) > 0.5).any(), "no base action was clipped"


def test_a_base_beyond_its_bounds_can_still_be_moved():
    residual = Residual(lambda seen: np.clip(100 * seen, -1, 1), 0.3, 1, 1)
    far = np.array([[4.0]])
    np.testing.assert_allclose(residual.executed(far, np.array([[-1.0]])), [[0.7]])
    np.testing.assert_allclose(residual.executed(far, np.array([[1.0]])), [[1.0]])


def test_bodies_together_do_what_each_does_alone():
    roles = ["target", "source", "target", "source"]
    together, apart = opened(roles), opened(roles)
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 4, 1))
    for step in range(6):
        rows = together.step(np.arange(4), actions[step])
        for body in range(4):
            alone = apart.step(np.array([body]), actions[step, [body]])
            for column, mine in zip(rows, alone, strict=True):
                np.testing.assert_allclose(column[[body]], mine, atol=1e-6)


def test_the_base_is_asked_for_all_bodies_at_once_and_in_float32():
    domain = opened(["source"] * 5)
    domain.step(np.arange(5), np.zeros((5, 1)))
    assert (bases.asked[-1].shape, bases.asked[-1].dtype) == ((5, 2), np.float32)


def test_the_record_says_which_base_and_how_far_and_the_files_hash(trained):
    plan = RunFolder.open(trained.path).config.schedule
    assert (plan.base_policy, plan.residual) == (PULLING, REACH)
    assert re.fullmatch(r"[0-9a-f]{64}", plan.base_sha256)
    assert ".base_policy-tests.custom.bases_pulling." in trained.path.name
    assert ".residual-0.3." in trained.path.name


def test_an_untrained_residual_gains_about_what_its_base_does(trained, plain):
    """Near its base in both domains, and further from it without."""
    still = (np.zeros((1, 2, 1), np.float32), np.zeros((1, 1, 1), np.float32))
    residual = Residual(BasePolicy(PULLING, pair()), REACH, 2, 1)
    alone = evaluate(Policies(("linear",), still), [pair()], [0], 2, 1, index=0, residuals=[residual])
    base = alone.target_returns.mean(), alone.source_returns.mean()
    moved, without = (
        np.array([run.curve()[0][f"{role}_return_mean"] for role in ("target", "source")]) for run in (trained, plain)
    )
    assert np.abs(moved - base).max() < 1.5 < np.abs(without - base).max()


def test_a_loaded_policy_gains_what_the_evaluation_says(trained):
    returns = offdyn.evaluate(trained, 3, seed=5)["target"]
    policy, env = offdyn.load_policy(trained), tiny.environments.target()
    for episode in range(3):
        number = np.random.default_rng([5, EVALUATION, 0, 0, 0, episode]).integers(2**31)
        seen, _ = env.reset(seed=int(number))
        gained, ended = 0.0, False
        while not ended:
            seen, reward, terminated, truncated, _ = env.step(policy(seen))
            gained, ended = gained + reward, terminated or truncated
        assert gained == pytest.approx(returns[episode], abs=1e-4)


def test_the_file_of_a_residual_is_no_policy_alone(trained):
    with pytest.raises(OffdynError, match="moves the actions of a base policy"):
        Policy(trained.path / "policy.safetensors")


def test_the_target_log_holds_what_the_machine_was_told(tmp_path):
    asked = {"eval_episodes": 0, "target_log": str(tmp_path / "log"), "base_policy": PULLING, "residual": REACH}
    tiny.train(tmp_path / "runs", **asked)
    rows = open_dataset(next((tmp_path / "log").glob("*.steps")))
    moved = rows.action - pulled(rows.observation)
    assert (np.abs(moved) <= REACH + 1e-6).all()
    assert np.abs(moved).max() > REACH / 2


def test_steps_that_only_the_log_holds_are_stored_as_what_was_chosen():
    domain, chosen = opened(["target"]), np.array([[0.4]])
    row = domain.inner.step(np.array([0]), pulled(domain.observation) + REACH * chosen)
    again = opened(["target"])
    again.inner.put_back(0, [custom_batch_row(row)])
    given = again.step(np.array([0]), np.array([[-1.0]]))
    np.testing.assert_allclose(given.action, chosen, atol=1e-6)
    np.testing.assert_array_equal(given.next_observation, row.next_observation)


def custom_batch_row(rows):
    return Row(*(column[0] for column in rows[:6]))


def test_a_base_that_breaks_saves_the_training_which_then_goes_on(tmp_path):
    asked = {"base_policy": "tests.custom.bases:breaking", "residual": REACH, "eval_episodes": 0}
    bases.broken_after[:] = [40]
    with pytest.raises(tiny.Stopped, match=r"breaking: gave the action \[nan\] for the observation"):
        tiny.train(tmp_path / "runs", **asked)
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run) == (480, 48, 445)


def test_an_episode_that_a_stop_has_cut_is_no_return(tmp_path):
    asked = {
        "eval_episodes": 0,
        "final_episodes": 0,
        "target_log": str(tmp_path / "log"),
        "base_policy": PULLING,
        "residual": REACH,
    }
    with pytest.raises(tiny.Stopped):
        tiny.train(tmp_path / "runs", tiny.Watcher(160), **asked)
    (run,), _ = tiny.resume(tmp_path / "runs")
    rows = open_dataset(next((tmp_path / "log").glob("*.steps")))
    assert rows.card["cut_by_stops"] == [15]
    np.testing.assert_allclose(tiny.read(run, "final.json")["final_returns"], rows.returns()[-10:], rtol=1e-5)


def test_a_function_that_no_name_leads_to_is_given_again(tmp_path):
    function = lambda observation: 1.0 - 8.0 * observation[:, :1]  # noqa: E731
    watcher = tiny.Watcher(160)
    with pytest.raises(tiny.Stopped):
        tiny.train(tmp_path / "runs", watcher, base_policy=function, residual=REACH)
    custom.GIVEN.clear()
    with pytest.raises(OffdynError, match="no name leads to; give it again as base_policy"):
        tiny.resume(tmp_path / "runs")
    (run,), _ = tiny.resume(tmp_path / "runs", base_policy=function)
    custom.GIVEN.clear()
    with pytest.raises(OffdynError, match="give it again"):
        offdyn.load_policy(run)
    assert offdyn.load_policy(run, base_policy=function)(np.zeros(2)).shape == (1,)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"residual": 0.3}, "residual: is for a base policy"),
        ({"base_policy": PULLING, "residual": 0}, "residual: expected more than 0 and at most 1"),
        ({"base_policy": PULLING, "residual": 1.5}, "residual: expected more than 0 and at most 1"),
        ({"base_policy": PULLING, "residual": "wide"}, "residual: expected a number"),
        ({"base_policy": "nowhere.onnx"}, "nowhere.onnx: no such file; expected an ONNX file"),
        ({"base_policy": "{here}/policy.pt"}, "many of them run code"),
        ({"base_policy": "{here}/text.onnx"}, "not an ONNX file that onnxruntime can read"),
        ({"base_policy": "{here}"}, "a folder with neither policy.onnx nor policy.safetensors"),
        ({"base_policy": "tests.custom.bases:missing"}, "no function 'missing'"),
        ({"base_policy": "tests.custom.bases:not_a_function"}, "no function 'not_a_function'"),
        ({"base_policy": "tests.custom.bases:two_numbers"}, r"gave an array of shape \(3, 2\) .* expected \(3, 1\)"),
        ({"base_policy": "tests.custom.bases:one_observation"}, "other actions for 3 observations together"),
        ({"base_policy": "tests.custom.bases:raising"}, "raised KeyError for observations of shape"),
    ],
)
def test_what_cannot_be_a_base_is_refused_before_anything_is_written(asked, words, tmp_path):
    here = tmp_path / "files"
    here.mkdir()
    for name in ("policy.pt", "text.onnx"):
        (here / name).write_text("no policy")
    asked = {key: value.format(here=here) if isinstance(value, str) else value for key, value in asked.items()}
    with pytest.raises(OffdynError, match=words):
        tiny.train(tmp_path / "runs", **asked)
    assert not (tmp_path / "runs").exists()


def test_a_run_that_has_a_base_is_none_itself(trained, tmp_path):
    with pytest.raises(OffdynError, match="has a base policy itself"):
        tiny.train(tmp_path / "runs", base_policy=trained.path)


def test_a_start_from_networks_that_moved_another_base_is_refused(trained, tmp_path):
    with pytest.raises(OffdynError, match=r"start_from .*: was trained with residual=0.3, this run has None"):
        tiny.train(tmp_path / "runs", start_from=str(trained.path))


def test_resume_refuses_a_base_that_was_changed_or_is_gone(plain, tmp_path):
    base = export(plain.path, "onnx", tmp_path / "exported") / "policy.onnx"
    moved = base.with_name("elsewhere.onnx")
    with pytest.raises(tiny.Stopped):
        tiny.train(tmp_path / "runs", tiny.Watcher(160), base_policy=base, residual=REACH)
    content = base.read_bytes()
    base.rename(moved)
    with pytest.raises(OffdynError, match=r"policy.onnx: no such file"):
        tiny.resume(tmp_path / "runs")
    base.write_bytes(content + b"\x42\x00")
    with pytest.raises(OffdynError, match="was changed since the training began"):
        tiny.resume(tmp_path / "runs")
    base.write_bytes(content)
    (run,), _ = tiny.resume(tmp_path / "runs")
    assert tiny.counts(run) == (480, 48, 445)


@pytest.mark.parametrize("kind", ["run", "numpy", "onnx"])
def test_a_run_and_its_exports_are_the_same_base(kind, plain, tmp_path):
    wanted = plain.path if kind == "run" else export(plain.path, kind, tmp_path / kind)
    seen = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    base = BasePolicy(str(wanted), pair())
    np.testing.assert_allclose(base(seen), offdyn.load_policy(plain, normalised=True)(seen), atol=1e-5)


def recorded(far: int, of: int = 100) -> Dataset:
    """What the base policy did, moved by 0.15 of half an action's range; `far` rows were moved by 0.6."""
    seen = np.random.default_rng(0).uniform(-0.15, 0.15, (of, 2))
    moved = np.where(np.arange(of) < far, 0.6, 0.15)[:, None]
    flags = np.zeros(of, bool)
    card = {"name": "noisy", "action_low": [-3.0], "action_high": [5.0]}
    return Dataset(seen, pulled(seen) + moved, np.zeros(of), seen, flags, np.arange(of) % 10 == 9, card)


def test_a_datasets_actions_become_what_a_learner_would_have_chosen(tmp_path):
    save(recorded(far=7), tmp_path / "noisy.safetensors")
    watcher = tiny.Watcher()
    asked = {"base_policy": PULLING, "residual": REACH, "source": tmp_path / "noisy.safetensors"}
    less = {name: value for name, value in tiny.SETTINGS.items() if name not in ("source_steps", "source_envs")}
    (run,) = offdyn.train(
        method="sac", target=named("target"), out=tmp_path / "runs", progress=watcher, allow_faulty_data=True,
        **less | asked | {"target_steps": 48, "eval_source_episodes": 0, "source_steps_per_target_step": 10},
    )  # fmt: skip
    assert any("7 of 100 transitions are left out" in text for text in watcher.said)
    about = run.provenance["source_data"]
    assert (about["rows"], about["out_of_reach"]) == (93, 7)
    np.testing.assert_allclose(open_source(run.config).rows[:, 2], 0.15 / REACH, atol=1e-5)


def test_a_dataset_that_is_mostly_out_of_reach_is_refused(tmp_path):
    save(recorded(far=51), tmp_path / "far.safetensors")
    with pytest.raises(OffdynError, match=r"51% of its 100 transitions have actions that no residual of 0\.3"):
        offdyn.train(
            method="sac", source=tmp_path / "far.safetensors", target=named("target"), out=tmp_path / "runs",
            base_policy=PULLING, residual=REACH, allow_faulty_data=True, target_steps=48, learning_starts=4,
        )  # fmt: skip
    assert not (tmp_path / "runs").exists()


def test_the_command_takes_a_base_and_the_report_has_it_beside_the_run_without(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = [f"{key}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for key, v in tiny.SETTINGS.items()]
    words = f"train --source {named('source')} --target {named('target')} --method sac --out runs --set".split()
    assert main([*words, *settings]) == 0
    assert main([*words, *settings, "--base-policy", PULLING, "--residual", "0.2"]) == 0
    assert main(["report", "runs", "--out", "report"]) == 0
    assert "2 runs: 2 finished" in capsys.readouterr().out
    page = Path("report/index.html").read_text()
    assert "residual" in page


def test_residuals_of_different_reach_share_a_program(tmp_path):
    runs = [
        run
        for residual in (0.1, 1.0)
        for run in offdyn.api.plan(
            None, "sac", source=named("source"), target=named("target"), base_policy=PULLING, residual=residual,
            **tiny.SETTINGS,
        )[0]
    ]  # fmt: skip
    assert len({run.cohort_key() for run in runs}) == 1
    near, far = trainer.start(runs, tmp_path / "runs", threads=1)
    seen = np.array([[0.1, 0.0]])
    for run, reach in ((near, 0.1), (far, 1.0)):
        network = offdyn.load_policy(run, normalised=True)
        chosen = network.policies(seen.astype(np.float32)[None])[0]
        np.testing.assert_allclose(network(seen), np.clip(pulled(seen) + reach * chosen, -1, 1), atol=1e-6)


def _match(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    reward = -np.square(action - 0.5 * state).sum(1)
    return np.roll(state, 1, axis=0) * 0.0 + np.sin(17.0 * state + action), reward, np.zeros(len(state), bool)


def _start(generator: np.random.Generator) -> np.ndarray:
    return generator.uniform(-1.0, 1.0, 1)


MATCH = World("match", Spec(1, 1, 1, 10, never_known), _start, _match)  # wants half of what it shows


def biased(observation: np.ndarray) -> np.ndarray:
    """Right for the world MATCH, but for a constant."""
    return 0.5 * observation + BIAS


def test_a_residual_mends_the_bias_of_its_base(tmp_path):
    settings = {
        "base_policy": f"{__name__}:biased", "residual": 0.5, "target_steps": 300, "eval_interval": 300,
        "eval_episodes": 1, "checkpoint_interval": 300, "actor_widths": (32,), "critic_widths": (32,), "batch_size": 64,
        "actor_learning_rate": 0.003, "critic_learning_rate": 0.003, "final_episodes": 20,
    }  # fmt: skip
    config = build(MATCH, "sac-tar", settings=settings)[0]
    trainer.start([config], tmp_path, threads=1)
    nothing = Policies(("linear",), (np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)))
    alone = evaluate(nothing, [MATCH], [0], 20, 0, index=0, residuals=residuals_of([config])).target_returns.mean()
    assert alone == pytest.approx(-10 * BIAS**2)
    final = json.loads((tmp_path / config.name / "final.json").read_text())["final_mean"]
    assert final > alone / 4
