"""The command line: what it accepts, what it prints, and one sentence for every mistake."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from offdyn.algos.registry import RECIPES
from offdyn.api import plan
from offdyn.cli.main import main
from offdyn.training.preparation import group
from offdyn.training.progress import Lines, LiveTable, short_names

from .training.small import SHORT, find_runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_programs: None) -> tuple[Path, str, str]:
    """(folder, stdout, stderr) of a training whose output is no terminal."""
    out = tmp_path_factory.mktemp("cli") / "out"
    command = [sys.executable, "-m", "offdyn", "train", "--task", "hopper-big-head", "--method", "par", "--out"]
    done = subprocess.run(
        [*command, str(out), "--penalty", "0", "1", *SHORT.split()],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout, done.stderr


def told(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence that a mistake gets."""
    assert main(arguments.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("offdyn")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "COMMAND"),
        ("trian", "no 'trian'; did you mean 'train'?"),
        ("train --nonsense", "unknown argument '--nonsense'"),
        ("train --thread-count=2", "unknown argument '--thread-count=2'; did you mean '--threads'"),
        ("train --metod par", "unknown argument '--metod'; did you mean '--method'"),
        ("study paln", "no 'paln'; did you mean 'plan'?"),
        ("train --seeds a", "--seeds: expected a whole number from 0 to 4294967295, got 'a'"),
        ("train --threads 12345678901234567890123456", "--threads: expected a whole number from 1 to 4096"),
        ("train --seeds " + 5000 * "9", "9…9"),
        ("train", "which task? Say --task NAME"),
        ("train --task hopper-bighead", "no task 'hopper-bighead'; did you mean 'hopper-big-head'"),
        ("train --task hopper-gravty-0.5", "'hopper-gravity-0.5'"),
        ("train --task Pendulum-v1", "'Pendulum-v1' is an environment, not a task; name a source and a target"),
        ("check Pendulum-v1", "Pendulum-v1 is an environment, no dataset and no task; a pair is looked at by"),
        ("train --task missing.yaml", "missing.yaml: there is no such file"),
        ("train --task hopper-big-head --method parr", "no method 'parr'; did you mean 'par'"),
        (
            "train --task hopper-big-head --method par --preset papier",
            "no preset of method 'par' 'papier'; did you mean 'paper'",
        ),
        ("train --task hopper-big-head --method par --set penalti=1", "did you mean 'penalty'"),
        ("train --task hopper-big-head --method par --set penalty", "--set penalty: expected NAME=VALUE"),
        (
            "train --task hopper-big-head --method par --set batch_size=many",
            "batch_size: expected a whole number, got 'many'",
        ),
        ("train --task hopper-big-head --method par --penalty x", "penalty: expected a number, got 'x'"),
        ("train --task hopper-big-head --method par --penalty -1", "penalty: expected 0 or more, got -1.0"),
        ("train --task hopper-big-head --method par --penalty inf", "penalty: expected a number, got 'inf'"),
        (
            "train --task hopper-big-head --method par --source-envs 3",
            "source_envs: expected a divisor of 10 (source_steps_per_target_step), or more than that, got 3",
        ),
        (
            "train --task hopper-big-head --method par --source-steps 1005",
            "a multiple of 10 (source_steps_per_target_step), say 1000",
        ),
        ("train --task hopper-big-head --method par --seeds -1", "--seeds: expected a whole number from 0"),
        ("train --task hopper-big-head --method par --seeds 0 0", "is asked for twice"),
        (
            "train --task hopper-big-head --method par --threads 0",
            "--threads: expected a whole number from 1 to 4096, got '0'",
        ),
        ("train --task hopper", "hopper"),
        ("train --config missing.yaml", "missing.yaml: cannot be read (No such file or directory)"),
        ("resume nowhere", "nowhere: nothing to resume there"),
        ("resume nowhere --threads -2", "--threads: expected a whole number from 1"),
        ("evaluate nowhere", "nowhere: not a run's folder"),
        ("evaluate nowhere --episodes 0", "--episodes: expected a whole number from 1"),
        ("evaluate nowhere --seed -1", "--seed: expected a whole number from 0"),
    ],
)
def test_a_mistake_gets_one_sentence(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in told(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task: [", "not YAML"),
        ("", "expected names and values"),
        ("- task", "expected names and values"),
        ("1: 2", "expected names and values"),
        ("\x00", "not YAML"),
        ("task: 5", "expected the name of a task, got 5"),
        ("task: [hopper-big-head, 5]", "expected the name of a task, got 5"),
        ("task: hopper-big-head\nseeds: [a]", "seed 'a': expected a whole number"),
        ("task: hopper-big-head\nseeds: 1.5", "seed 1.5: expected a whole number"),
        ("task: hopper-big-head\nmethod: 3", "expected the name of a method or preset, got 3"),
        ("task: hopper-big-head\npreset: [paper]", "expected the name of a method or preset"),
        ("task: hopper-big-head\nmethod: par\npenalty: {a: 1}", "penalty: expected a number"),
        ("task: hopper-big-head\nmethod: par\npenalty: []", "penalty: expected a number or several, got none"),
        ("task: hopper-big-head\nkeep_replay: perhaps", "keep_replay: expected true or false, got 'perhaps'"),
        ("task: hopper-big-head\ntasks: 1", "no setting of method 'head-start' 'tasks'"),
        ("task: hopper-big-head\nactor_widths: [a]", "actor_widths: expected whole numbers"),
        ("task: hopper-big-head\nsource_envs: [1]", "source_envs: expected a whole number"),
    ],
)
def test_a_mistake_in_a_file_gets_one_sentence(
    text: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "asked.yaml"
    path.write_text(text)
    assert expected in told(f"train --config {path} --out {tmp_path / 'out'}", capsys)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_text_gets_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "asked.yaml").write_bytes(b"\xff\xfe\xfa")
    assert "asked.yaml: not" in told(f"train --config {tmp_path / 'asked.yaml'}", capsys)


def test_an_out_that_cannot_be_written_gets_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = told(f"train --task hopper-big-head --out {tmp_path / 'file' / 'out'}", capsys)
    assert "cannot be written to" in said
    assert "nothing was started" in said


def test_a_run_that_exists_gets_one_sentence(
    trained: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = trained[0]
    said = told(f"train --task hopper-big-head --method par --penalty 0 --out {out} {SHORT}", capsys)
    assert f"exists already: continue it with `offdyn resume {out}`, choose another --out, or delete it" in said


def test_a_policy_that_is_none_gets_one_sentence(
    trained: tuple[Path, str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = next(trained[0].glob("*seed-0"))
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    assert "no policy there yet" in told(f"evaluate {tmp_path}", capsys)
    (tmp_path / "policy.safetensors").write_bytes(b"nonsense")
    assert "not a readable policy" in told(f"evaluate {tmp_path}", capsys)


def test_several_penalties_are_lanes_of_one_cohort(trained: tuple[Path, str, str]) -> None:
    out, printed, said = trained
    runs = find_runs(out)
    assert sorted(folder.config.hyper.penalty for folder in runs) == [0.0, 1.0]
    assert len(list((out / "cohorts").iterdir())) == 1
    assert printed.count("target return") == 2
    assert "cohort 1 of 1: 2 runs of par" in said


def test_output_that_is_no_terminal_is_plain_lines(trained: tuple[Path, str, str]) -> None:
    _, printed, said = trained
    assert "\x1b" not in printed + said
    assert "step 2000 of 2000" in said
    lines = [line for line in said.splitlines() if "target return" in line]
    assert len(lines) == 2 * 5  # two runs at 0, 500 ... 2000
    assert all(line.startswith("hopper-big-head.par.reported.") for line in lines)


def test_a_finished_training_has_nothing_to_resume(
    trained: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", str(trained[0])]) == 0
    assert "every run has ended already\n" in capsys.readouterr().out


def test_resuming_what_has_ended_says_which_runs_failed(
    trained: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(trained[0], tmp_path / "out")
    record = next(out.glob("*seed-0")) / "provenance.json"
    failure = {"state": "failed", "failure": {"quantity": "critic loss", "step": 7}}
    record.write_text(json.dumps(json.loads(record.read_text()) | failure))
    assert main(["resume", str(out)]) == 1
    said = capsys.readouterr().out
    assert "every run has ended already, 1 of 2 failed" in said
    assert "FAILED: critic loss not finite at step 7" in said


def test_a_trained_policy_is_evaluated_in_fresh_episodes_of_both_domains(
    trained: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(next(trained[0].glob("*seed-0")))
    assert main(["evaluate", run, "--episodes", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["target", "source"]
    assert all("over 3 episodes" in line for line in lines)
    assert main(["evaluate", run, "--episodes", "3", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["target"]) == len(first["source"]) == 3
    assert f"target: {sum(first['target']) / 3:.1f} +-" in lines[0]
    main(["evaluate", run, "--episodes", "3", "--json", "--seed", "5"])
    assert json.loads(capsys.readouterr().out) != first


def test_the_list_as_json_has_robots_tasks_and_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {"robots", "tasks", "methods"}
    assert {entry["robot"] for entry in listed["robots"]} == {"halfcheetah", "hopper", "walker", "ant"}
    assert [entry["method"] for entry in listed["methods"]] == list(RECIPES)
    assert "hopper-big-head" in {entry["task"] for entry in listed["tasks"]}


def test_the_list_names_every_method_and_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for name in (*RECIPES, "ant-short-feet", "walker-no-right-thigh"):
        assert name in printed


def test_a_file_gives_the_same_names_and_flags_win_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from offdyn.training import trainer as training

    asked = {}

    def start(runs: list, out: Path, **options: object) -> list:
        asked.update(runs=runs, out=out, **options)
        return []

    monkeypatch.setattr(training, "start", start)
    path = tmp_path / "asked.yaml"
    path.write_text(
        "task: [hopper-big-head, hopper-broken-joints]\nmethod: par\npreset: released\nseeds: [3, 4]\n"
        "source_steps: 300000\npenalty: [0, 0.05]\nactor_learning_rate: 3e-4\nout: elsewhere\nkeep_replay: true\n"
        "actor_widths: [8, 8]\ntune_temperature: true\n"
    )
    assert main(["train", "--config", str(path)]) == 0
    assert len(asked["runs"]) == 2 * 2 * 2
    assert asked["out"] == Path("elsewhere")
    assert asked["keep_replay"] is True
    first = asked["runs"][0]
    assert (first.preset, first.seed, first.schedule.source_steps) == ("released", 3, 300_000)
    assert (first.sac.actor_widths, first.sac.tune_temperature) == ((8, 8), True)
    flags = "--task hopper-big-head --preset paper --seeds 7 --penalty 2 --source-steps 200000 --out here --set"
    assert main(["train", "--config", str(path), *flags.split(), "actor_widths=16"]) == 0
    (only,) = asked["runs"]
    assert (only.task.name, only.preset, only.seed, only.hyper.penalty) == ("hopper-big-head", "paper", 7, 2.0)
    assert (only.schedule.source_steps, only.sac.actor_widths, asked["out"]) == (200_000, (16,), Path("here"))


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked = "train --task hopper-big-head ant-short-feet --method sac --seeds 0 1 --out mine --dry-run"
    assert main(asked.split()) == 0
    said = capsys.readouterr().out
    assert "4 runs in 2 cohorts, below mine:" in said
    for run in plan(["hopper-big-head", "ant-short-feet"], "sac", seeds=[0, 1])[0]:
        assert f"  {run.name}\n" in said
    (first,) = (line.split() for line in said.splitlines() if line.startswith("1 sac"))
    assert first[2:5] == ["2", "1000000", "100000"]
    assert first[6] == "GiB"
    assert ":" in first[7]
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_training_would_refuse(
    trained: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = f"train --task hopper-big-head --method par --penalty 0 --out {trained[0]} {SHORT} --dry-run"
    assert "exists already" in told(asked, capsys)


def test_tasks_of_one_robot_share_a_cohort_and_other_robots_do_not() -> None:
    runs, _ = plan(
        ["hopper-big-head", "walker-no-right-thigh", "hopper-broken-joints"], "par", seeds=[0, 1], penalty=[0, 1]
    )
    cohorts = group(runs)
    assert [len(cohort) for cohort in cohorts] == [8, 4]
    assert {run.task.robot.name for run in cohorts[0]} == {"hopper"}


def test_a_table_leaves_out_what_all_names_have_in_common() -> None:
    names = ["hopper-big-head.par.paper.penalty-0.5.seed-0", "hopper-big-head.par.paper.penalty-0.seed-0"]
    assert short_names(names, 50) == ("hopper-big-head.par.paper.seed-0", ["penalty-0.5", "penalty-0"])
    assert short_names(["a.b.seed-0"], 50) == ("a.b", ["seed-0"])
    assert short_names(["ant.par.x.seed-0", "hopper.par.x.seed-1"], 50) == ("par.x", ["ant.seed-0", "hopper.seed-1"])
    assert short_names(["abcdefghijklmnop"], 8) == ("", ["abc…mnop"])


def test_the_live_table_fits_eighty_columns_and_shows_what_matters() -> None:
    from rich.console import Console

    table = LiveTable()
    table.close()
    table.live.console.width = 80
    for seed in range(5):
        for task in ("halfcheetah-broken-back-thigh", "halfcheetah-no-thighs"):
            name = f"{task}.par.released.critic_widths-256x256x256.penalty-0.05.seed-{seed}"
            table.evaluated(name, -12345.67 * seed, 0.123)
    table.advanced(990_000, 1_000_000, 36_000.0)
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115 (nothing is written)
    console.print(table.drawn(80))
    lines = console.export_text().rstrip().splitlines()
    assert len(lines) == 1 + 1 + 10
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert "step 990000 of 1000000" in lines[0]
    assert "steps/s" in lines[0]
    assert "left" in lines[0]
    assert "-49382.7" in lines[-1]
    assert "0.123" in lines[-1]
    assert "seed-4" in lines[-1]


def test_plain_lines_say_speed_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.advanced(1000, 1000, 61.0)
    assert capsys.readouterr().err == "step 1000 of 1000   ? steps/s a run   1:01 so far   0:00 left\n"


@pytest.mark.parametrize("shown", [Lines, LiveTable])
def test_a_terminal_that_is_gone_ends_no_training(
    shown: type[Lines | LiveTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, its = os.openpty()
    with open(its, "w", buffering=1) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        progress = shown()
        os.close(ours)
        with pytest.raises(OSError, match="Input/output error"):
            os.write(its, b"nobody reads this")
        progress.say("nor this")
        progress.advanced(1, 2, 0.5)
        progress.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), its)  # so that what is left in the buffer can go
