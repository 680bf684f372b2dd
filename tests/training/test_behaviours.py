"""Behaviour policies: trained, stopped and resumed, picked by rule, and the datasets that come of them."""

import csv
import json
import shutil
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.data.collect import policies, qualities, replays, snapshots
from offdyn.data.collect.episodes import NOISE
from offdyn.data.collect.policies import choose
from offdyn.data.collect.qualities import Collector, expand, split
from offdyn.data.datasets import load
from offdyn.data.datasets.opening import QUALITIES
from offdyn.data.doctor import diagnose_dataset
from offdyn.envs import pairs
from offdyn.policies.trained import Policy
from offdyn.training.progress import ASKING, Quiet, Stopped
from offdyn.training.run_folder import RunFolder

from . import small

SETTINGS = small.BRIEF | small.SMALL_NETWORKS
RUN = "push.sac-src.paper.actor_widths-8.batch_size-8.critic_widths-8.learning_starts-4.source_envs-5.seed-0"
# Made-up stochastic returns of the five policies that a short run keeps: medium is the fourth, at step 360.
RISING = np.array([0.0, 10.0, 20.0, 30.0, 40.0])[:, None] + np.linspace(-1.0, 1.0, policies.EPISODES)


def train(out: Path, watcher: small.StopAt | None = None, **options: Any) -> list[Path]:
    watcher = watcher or small.StopAt()
    chosen = {"settings": SETTINGS, "levels": {"push": -1e9}} | options
    return policies.train(out, ["push"], threads=1, progress=lambda: watcher, stop=watcher.stop, **chosen)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that was never stopped; for reading only."""
    out = tmp_path_factory.mktemp("trained")
    train(out)
    return out


@pytest.fixture(scope="module")
def picked(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its policies, picked by made-up returns."""
    out = tmp_path_factory.mktemp("picked")
    policies._pick(RunFolder.open(trained / "runs" / RUN), "push", 25.0, out, RISING, Quiet())
    return out


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A command may set handlers, which are put back here."""
    before = {number: signal.getsignal(number) for number in ASKING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def collect(name: str, *options: Any, **named: Any) -> Path:
    (path,) = Collector(*options, **named).collect(name)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_medium_is_the_first_policy_at_the_level() -> None:
    steps = range(0, 110, 10)
    returns = [0, 5, 9, 30, 20, 31, 50, 60, 70, 80, 75]
    assert choose(steps, returns, 30.0)[:3] == (3, True, 10)
    assert choose(steps, returns, 31.0)[:3] == (5, True, 10)


def test_where_no_policy_reaches_the_level_medium_is_nearest_to_half_the_last_return() -> None:
    assert choose([0, 10, 20, 30, 40], [0, 11, 24, 60, 50], 100.0)[:3] == (2, False, 4)
    assert choose([0, 10, 20, 30, 40], [0, 11, 24, 60, 50], None)[:3] == (2, False, 4)


def test_an_untrained_policy_is_never_medium() -> None:
    assert choose([0, 10, 20], [99, 50, 60], 40.0).medium == 1
    assert choose([0, 10, 20], [30, 0, 60], 100.0).medium == 1
    with pytest.raises(OffdynError, match="nothing to pick from"):
        choose([0], [99], 40.0)


def test_the_best_seed_is_that_of_the_best_last_evaluations(tmp_path: Path) -> None:
    def run(name: str, returns: list[float]) -> Any:
        folder = tmp_path / name / "policies"
        folder.mkdir(parents=True)
        for step in range(len(returns)):
            (folder / f"step-{step:09d}.safetensors").touch()
        lines = [{"source_steps": float(step), "target_return_mean": value} for step, value in enumerate(returns)]
        return SimpleNamespace(path=tmp_path / name, curve=lambda: lines)

    peaked, steady, short = run("a", [9.0, 9, 1, 1, 1, 1, 2]), run("b", [0.0, 0, 2, 2, 2, 2, 1]), run("c", [50.0])
    assert policies._best([peaked, steady, short], "push") is steady
    with pytest.raises(OffdynError, match="no run there with policies"):
        policies._best([short], "push")


def test_a_training_leaves_policies_cards_and_a_curve(trained: Path) -> None:
    assert set(files(trained / "behaviours")) == {
        "push-medium.safetensors", "push-expert.safetensors", "push-medium-replay.safetensors", "push-curve.csv",
    }  # fmt: skip
    run = trained / "runs" / RUN
    medium = snapshots.read_behaviour(trained / "behaviours" / "push-medium.safetensors")
    assert medium.about["training_step"] == 120
    assert medium.about["level_met"]
    assert medium.about["run"] == RUN
    assert medium.about["training"] == "finished"
    kept = load_file(run / "policies" / "step-000000120.safetensors")
    for name, array in load_file(trained / "behaviours" / "push-medium.safetensors").items():
        np.testing.assert_array_equal(array, kept[name])
    final = load_file(run / "policy.safetensors")
    for name, array in load_file(trained / "behaviours" / "push-expert.safetensors").items():
        np.testing.assert_array_equal(array, final[name])
    with open(trained / "behaviours" / "push-curve.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["step"]) for line in lines] == [0, 120, 240, 360, 480]
    assert [line["picked"] for line in lines] == ["", "medium", "", "", "expert"]
    means = [line["target_return_mean"] for line in RunFolder.open(run).curve()]
    np.testing.assert_allclose([float(line["return_mean"]) for line in lines], means, rtol=1e-5)
    assert float(lines[1]["stochastic_return_mean"]) == pytest.approx(medium.about["return_mean"], rel=1e-5)


def test_the_returns_of_a_policy_do_not_depend_on_its_neighbours(trained: Path) -> None:
    paths = sorted((trained / "runs" / RUN / "policies").iterdir())
    policies = [Policy(path).policies for path in paths]
    together = snapshots.stochastic_returns(snapshots.stacked(policies), small.PUSH, 6)
    alone = np.concatenate([snapshots.stochastic_returns(policy, small.PUSH, 6) for policy in policies])
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    assert np.ptp(together) > 0


def test_a_stopped_training_goes_on_to_the_same_policies(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(tmp_path, small.StopAt(250))
    assert not (tmp_path / "behaviours").exists()
    early = shutil.copytree(tmp_path, tmp_path / "early")
    watcher = small.StopAt()
    train(tmp_path, watcher)
    assert "resumed at step 250" in watcher.said
    assert files(tmp_path / "behaviours") == files(trained / "behaviours")
    again = small.StopAt()
    train(tmp_path, again)
    assert not any("resumed" in text or "cohort" in text for text in again.said), "nothing is trained twice"
    assert files(tmp_path / "behaviours") == files(trained / "behaviours")

    train(early, unfinished=True)
    expert = snapshots.read_behaviour(early / "behaviours" / "push-expert.safetensors")
    assert (expert.about["training_step"], expert.about["training"]) == (240, "stopped")


def test_other_settings_are_refused_where_training_has_begun(trained: Path) -> None:
    with pytest.raises(OffdynError, match="begun with other settings"):
        train(trained, settings=SETTINGS | {"source_steps": 600})
    with pytest.raises(OffdynError, match="a target; behaviours are trained in sources, here hopper"):
        policies.train(trained, ["hopper-big-head"])


def test_a_missed_level_is_said_and_written_down(trained: Path, tmp_path: Path) -> None:
    watcher = small.StopAt()
    policies._pick(RunFolder.open(trained / "runs" / RUN), "push", 99.0, tmp_path, RISING, watcher)
    assert any("no snapshot reached the medium level of 99" in text for text in watcher.said)
    about = snapshots.read_behaviour(tmp_path / "push-medium.safetensors").about
    assert (about["training_step"], about["level_wanted"], about["level_met"]) == (240, 99.0, False)
    card = load(collect("push-medium", tmp_path / "data", 100, behaviours=tmp_path)).card
    assert (card["level_wanted"], card["level_met"], card["level_reached"]) == (99.0, False, pytest.approx(20.0))
    assert "none reached 99" in card["picked"]


def test_drawn_actions_are_those_of_the_policy_however_they_are_grouped(picked: Path) -> None:
    policy = Policy(picked / "push-expert.safetensors").policies
    generator = np.random.default_rng(0)
    seen, noise = generator.normal(size=(7, 2)), generator.normal(size=(7, 2))
    expected = policy.sample(seen[None], noise[None])[0]
    np.testing.assert_allclose(snapshots.draw(policy, seen, noise), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("quality", QUALITIES)
def test_every_quality_is_made_the_same_way_twice(quality: str, picked: Path, tmp_path: Path) -> None:
    name = f"push-{quality}"
    made = [
        collect(name, tmp_path / out, 150, seed, picked).read_bytes()
        for out, seed in (("one", 0), ("two", 0), ("other", 1))
    ]
    assert made[0] == made[1]
    dataset, other = (load(tmp_path / out / f"{name}.safetensors") for out in ("one", "other"))
    played_again = not np.array_equal(dataset.rows(), other.rows()[: len(dataset)])
    assert played_again == (quality != "medium-replay")
    card = dataset.card
    assert (card["name"], card["robot"], card["seed"], card["stochastic"]) == (name, "push", 0, True)
    assert card["made"]
    assert card["steps"] == len(dataset)
    assert card["return_mean"] == pytest.approx(dataset.returns().mean())


def test_medium_and_expert_play_their_own_policies(picked: Path, tmp_path: Path) -> None:
    for quality, step in (("medium", 360), ("expert", 480)):
        dataset = load(collect(f"push-{quality}", tmp_path, 400, behaviours=picked))
        behaviour = snapshots.read_behaviour(picked / f"push-{quality}.safetensors")
        assert len(dataset) == 400
        assert dataset.card["policy_sha256"] == behaviour.sha256
        assert dataset.card["training_step"] == step
        # With the noise of the first body, of which there is one, the actions are the policy's.
        seed = [0, qualities.COLLECTING, zlib.crc32(f"push-{quality}".encode()), NOISE]
        noise = np.random.default_rng(seed).standard_normal((400, 1, 2), np.float32)[:, 0]
        expected = behaviour.policies.sample(dataset.observation[None], noise[None])[0]
        np.testing.assert_allclose(dataset.action, expected, rtol=1e-4, atol=1e-5)


def test_medium_expert_is_both_without_their_unfinished_episodes(picked: Path, tmp_path: Path) -> None:
    collector = Collector(tmp_path, 150, behaviours=picked)
    joined = load(*collector.collect("push-medium-expert"))
    assert not (tmp_path / "push-medium.safetensors").exists()
    parts = [load(*collector.collect(f"push-{part}")) for part in ("medium", "expert")]
    whole = [int(part.episodes()[-1, 0]) for part in parts]
    assert all(not (part.terminated[-1] or part.truncated[-1]) for part in parts), "each ends within an episode"
    assert len(joined) == sum(whole)
    rows = np.concatenate([part.rows()[:length] for part, length in zip(parts, whole, strict=True)])
    np.testing.assert_array_equal(joined.rows(), rows)
    assert [part["rows_cut"] for part in joined.card["parts"]] == [150 - length for length in whole]
    assert joined.card["policy_sha256"] == [part.card["policy_sha256"] for part in parts]
    with pytest.raises(OffdynError, match="no episode ended within 2 steps"):
        collect("push-medium-expert", tmp_path / "short", 2, behaviours=picked)


def test_medium_expert_takes_the_parts_that_are_there(
    picked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector(tmp_path, 150, behaviours=picked)
    for part in ("medium", "expert"):
        collector.collect(f"push-{part}")
    monkeypatch.setattr(qualities, "play", None)
    assert len(load(*collector.collect("push-medium-expert"))) > 200


def stored(run: Path, name: str = "source") -> np.ndarray:
    """[n, 2S + A + 2]: the source transitions of the files that the training left, as its five bodies took turns."""
    (cohort,) = (run.parent / "cohorts").iterdir()
    assert list(json.loads((cohort / "cohort.json").read_text())["runs"]) == [run.name]
    segments = [load_file(path) for path in sorted((cohort / "segments").iterdir())]
    return np.concatenate([segment[name][0] for segment in segments])


def test_medium_replay_is_what_training_had_collected_when_it_had_mediums_policy(
    trained: Path, picked: Path, tmp_path: Path
) -> None:
    dataset = load(collect("push-medium-replay", tmp_path, behaviours=picked))
    rows = stored(trained / "runs" / RUN)
    assert len(rows) == 480
    assert len(dataset) == dataset.card["training_step"] == 360
    assert {row.tobytes() for row in dataset.rows()} == {row.tobytes() for row in rows[:360]}
    assert dataset.card["made"] == f"the transitions that {RUN} collected in its first 360 steps"
    assert (dataset.card["level_wanted"], dataset.card["level_met"], dataset.card["level_reached"]) == (25.0, True, 30)


def test_a_replay_is_laid_episode_after_episode_in_the_order_of_their_starts(trained: Path, picked: Path) -> None:
    dataset = load(picked / "push-medium-replay.safetensors")
    rows, timed_out = stored(trained / "runs" / RUN)[:360], stored(trained / "runs" / RUN, "source_flags") > 0
    place = {row.tobytes(): number for number, row in enumerate(rows)}
    places = np.array([place[row.tobytes()] for row in dataset.rows()])
    starts = []
    for first, last in dataset.episodes():
        assert np.array_equal(places[first:last], places[first] + 5 * np.arange(last - first))
        np.testing.assert_array_equal(dataset.next_observation[first : last - 1], dataset.observation[first + 1 : last])
        still_open = places[last - 1] >= 355
        assert dataset.terminated[last - 1] or timed_out[places[last - 1]] or still_open
        assert dataset.terminated[last - 1] or dataset.truncated[last - 1]
        starts.append(places[first])
    assert starts == sorted(starts)
    assert len(starts) > 20


def test_rows_of_broken_physics_are_left_out_of_a_replay_and_end_what_came_before() -> None:
    """Two bodies take turns; the second one breaks at its second row."""
    nothing = np.zeros(8, bool)
    order, cut = replays._by_episode(nothing, nothing, np.arange(8) == 3, 2)
    assert order.tolist() == [0, 2, 4, 6, 1, 5, 7]
    assert np.flatnonzero(cut).tolist() == [1, 6, 7]


def test_of_a_replay_the_newest_are_taken_where_fewer_are_asked_for(picked: Path, tmp_path: Path) -> None:
    whole = load(picked / "push-medium-replay.safetensors")
    part = load(collect("push-medium-replay", tmp_path, 100, behaviours=picked))
    np.testing.assert_array_equal(part.rows(), whole.rows()[-100:])
    assert len(load(collect("push-medium-replay", tmp_path / "all", 10**6, behaviours=picked))) == 360


def test_a_replay_is_of_a_training_and_nothing_is_made_where_there_is_none(picked: Path, tmp_path: Path) -> None:
    other = tmp_path / "without"
    shutil.copytree(picked, other, ignore=shutil.ignore_patterns("*replay*"))
    for behaviours in (None, other):
        with pytest.raises(OffdynError, match="`offdyn collect push-medium-replay --train DIR` trains, and makes it"):
            Collector(tmp_path / "data", 50, behaviours=behaviours).collect("push-random", "push-medium-replay")
    assert not (tmp_path / "data").exists()


def test_a_training_whose_replay_was_not_kept_gives_the_policies_alone(trained: Path, tmp_path: Path) -> None:
    again = shutil.copytree(trained, tmp_path / "again")
    for name in ("segments", "behaviours"):
        (found,) = again.rglob(name)
        shutil.rmtree(found)
    train(again)
    assert set(files(again / "behaviours")) == {"push-medium.safetensors", "push-expert.safetensors", "push-curve.csv"}


def test_the_very_file_is_kept_and_another_one_refused(picked: Path, tmp_path: Path) -> None:
    path = collect("push-medium", tmp_path, 60, behaviours=picked)
    before = path.stat().st_mtime_ns
    watcher = small.StopAt()
    collect("push-medium", tmp_path, 60, behaviours=picked, progress=watcher)
    assert path.stat().st_mtime_ns == before
    assert any("kept" in text for text in watcher.said)
    with pytest.raises(OffdynError, match=r"another recipe.*rows was 60, now 70"):
        collect("push-medium", tmp_path, 70, behaviours=picked)
    with pytest.raises(OffdynError, match=r"another recipe.*seed was 0, now 5"):
        collect("push-medium", tmp_path, 60, 5, behaviours=picked)


def test_an_interruption_leaves_no_half_file(
    picked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, own_signals: None
) -> None:
    def interrupted(dataset: Any, path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qualities, "save", interrupted)
    asked = ["collect", "push-random", "--steps", "40", "--out", str(tmp_path), "--behaviours", str(picked)]
    assert main(asked) == 130
    assert "was not written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_any_run_can_be_collected_with_in_any_body(trained: Path, picked: Path, tmp_path: Path) -> None:
    collector = Collector(tmp_path, 50)
    card = load(collector.collect_policy(trained / "runs" / RUN, "mine")).card
    assert (card["name"], card["robot"], card["steps"]) == ("mine", "push", 50)
    file = trained / "runs" / RUN / "policy.safetensors"
    with pytest.raises(OffdynError, match="in which body"):
        collector.collect_policy(file, "file")
    assert len(load(collector.collect_policy(file, "file", "push"))) == 50
    with pytest.raises(OffdynError, match="takes 2 observations and gives 2 actions, hopper has 11 and 3"):
        collector.collect_policy(file, "hop", "hopper")
    with pytest.raises(OffdynError, match="no -v2 at its end"):
        collector.collect_policy(file, "push-medium-v2", "push")
    with pytest.raises(OffdynError, match="not a readable policy"):
        collector.collect_policy(picked / "push-curve.csv", "curve", "push")


def test_names_are_robots_with_qualities() -> None:
    assert split("hopper-medium-expert") == ("hopper", "medium-expert")
    assert expand(["ant-all", "hopper-random", "ant-medium"]) == [*(f"ant-{q}" for q in QUALITIES), "hopper-random"]
    with pytest.raises(OffdynError, match="did you mean 'hopper-medium"):
        split("hopper-medium-v2")


def test_missing_policies_are_said_with_the_command_that_makes_them(tmp_path: Path) -> None:
    with pytest.raises(OffdynError, match="`offdyn collect --train DIR --robots ant` trains it"):
        collect("ant-expert", tmp_path, behaviours=tmp_path)


def test_one_command_trains_a_robot_and_another_collects_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture, own_signals: None
) -> None:
    brief = "eval_interval=500 eval_episodes=2 checkpoint_interval=1000 log_interval=500 final_episodes=1"
    tiny = "actor_widths=8 critic_widths=8 batch_size=8 learning_starts=8 padded=true"
    train_it = f"collect hopper-medium-replay --train {tmp_path} --source-steps 2000 --medium hopper=-100 --threads 1"
    train_it += f" --out {tmp_path}/whole"
    assert main([*train_it.split(), "--set", *brief.split(), *tiny.split()]) == 0
    assert f"{tmp_path}/behaviours/hopper-medium.safetensors" in capsys.readouterr().out
    assert {path.name.partition(".")[0] for path in (tmp_path / "runs").glob("*.*")} == {"hopper"}, "no other robot"
    whole = load(tmp_path / "whole" / "hopper-medium-replay.safetensors")
    assert len(whole) == whole.card["training_step"]
    data = tmp_path / "data"
    collect_it = f"collect hopper-all --behaviours {tmp_path}/behaviours --out {data} --steps 600"
    assert main(collect_it.split()) == 0
    model = pairs.fingerprints(pairs.find("hopper"))["source"]
    for quality in QUALITIES:
        dataset = load(data / f"hopper-{quality}.safetensors")
        card = dataset.card
        assert (card["robot"], card["shift"], card["model"]) == ("hopper", None, model)
        assert card["licence"]
        assert card["mujoco"]
        assert [finding for finding in diagnose_dataset(dataset) if finding.fatal] == []
    assert json.dumps(card)
    (run,) = (tmp_path / "runs").glob("hopper.*")
    target = f"collect --policy {run} --name shifted --task hopper-big-head --out {data} --steps 300"
    assert main(target.split()) == 0
    assert load(data / "shifted.safetensors").card["shift"] == "hopper-big-head"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", "collect what"),
        ("--policy x", "belong together"),
        ("hopper-random --task hopper", "belong together"),
        ("hopper-random --steps 0", "--steps: expected a whole number from 1"),
        ("hopper-medium-v2", "did you mean"),
        ("--train x --medium hopper", "expected ROBOT=RETURN"),
        ("--train x --medium hopper=high", "expected a number"),
        ("--train x --robots hoper", "did you mean 'hopper'"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    asked: str,
    expected: str,
    capsys: pytest.CaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_signals: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["collect", *asked.split()]) == 2
    assert expected in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
