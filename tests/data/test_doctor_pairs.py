"""The doctor on a pair of domains, and `offdyn check` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from offdyn.cli.main import main
from offdyn.data.datasets import open_dataset, save, write_minari
from offdyn.data.doctor import diagnose_pair, fatal
from offdyn.data.doctor.pair import _compare_specs, examine_pair
from offdyn.envs.pairs import WORLDS
from offdyn.envs.tasks import TASKS, resolve
from offdyn.envs.toy import World

from ..probes import small_spec, uniform_start
from .simulated import simulated, with_columns, write_d4rl


def still(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state + 0.1 * action, state[:, 0], np.zeros(len(state), bool)


def moody(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return state + np.random.default_rng().normal(size=state.shape), state[:, 0], np.zeros(len(state), bool)


def breaking(state: np.ndarray, action: np.ndarray, shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.where(shifted[:, None], np.nan, state), state[:, 0], np.zeros(len(state), bool)


def world(advance: object) -> World:
    return World("small", small_spec(2, 2), uniform_start, advance)


@pytest.mark.parametrize(
    ("name", "is_fatal", "pair"),
    [
        ("no-shift", True, "hopper"),
        ("same-motion", False, world(still)),
        ("not-deterministic", True, world(moody)),
        ("not-finite", True, world(breaking)),
        ("unstable", False, "halfcheetah-strength-200"),
        ("unstable", True, "halfcheetah-strength-100000"),
    ],
)
def test_a_fault_of_a_pair_is_called_by_its_name(name: str, is_fatal: bool, pair: object):
    findings = diagnose_pair(pair)
    found = next(finding for finding in findings if finding.name == name)
    assert found.fatal == is_fatal


def test_unequal_spaces_and_limits_are_called_by_their_names():
    source = TASKS["hopper"].robot.spec
    assert list(_compare_specs(source, source)) == []
    (spaces,) = _compare_specs(source, source._replace(action_size=4))
    (limits,) = _compare_specs(source, source._replace(time_limit=300))
    assert (spaces.name, limits.name) == ("unequal-spaces", "unequal-limits")
    assert fatal([spaces, limits]) == [spaces, limits]


@pytest.mark.parametrize("name", ["hopper-big-head", "ant-broken-hips", "walker-friction-0.5", *WORLDS])
def test_nothing_is_found_in_a_sound_pair(name: str):
    assert diagnose_pair(name) == []


def test_the_divergence_of_one_step_grows_with_the_shift():
    weak, strong = (examine_pair(resolve(f"hopper-strength-{by}"))[0] for by in (0.9, 0.5))
    assert 0 < weak.mean < strong.mean
    assert weak.affected > 0.9
    # Only touching steps feel friction.
    assert 0 < examine_pair(resolve("hopper-friction-0.5"))[0].affected < 0.9


def test_the_command_tells_by_its_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sound = write_d4rl(tmp_path / "hopper.hdf5", simulated("hopper"))
    assert main(["check", str(sound)]) == 0
    printed = capsys.readouterr().out
    assert "steps: 900" in printed
    assert printed.endswith("fit for training: nothing found\n")

    broken = write_d4rl(
        tmp_path / "walker2d.hdf5", with_columns(simulated("walker"), action=3 * simulated("walker").action)
    )
    assert main(["check", str(broken)]) == 1
    printed = capsys.readouterr().out
    assert "FATAL: action-out-of-range: " in printed
    assert "    why: no policy can take these" in printed
    assert "    what to do: name the environment they are for with --target" in printed
    assert "not fit for training: " in printed

    unmarked = write_d4rl(tmp_path / "set", simulated("halfcheetah"), timeouts=np.zeros(900, bool))
    assert main(["check", str(unmarked), "--robot", "halfcheetah"]) == 0
    printed = capsys.readouterr().out
    assert "warning: missing-time-limits" in printed
    assert printed.endswith("fit for training: 1 to know of\n")


def test_the_command_looks_at_names_tasks_and_minari_sets_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("OFFDYN_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    save(simulated("hopper"), tmp_path / "hopper-own.safetensors")
    write_minari(open_dataset("hopper-own"), "offdyn/own-v0")
    for wanted in ("hopper-own", "minari:offdyn/own-v0", "hopper-big-head"):
        assert main(["check", wanted, "--json"]) == 0
        read = json.loads(capsys.readouterr().out)
        assert (read["checked"], read["fatal"], read["findings"]) == (wanted, False, [])
    assert read["kind"] == "pair"
    assert 0.05 < read["one_step_divergence"] < 1
    assert main(["check", "hopper-own", "--robot", "hopper-big-head", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["name"], found["fatal"], len(found["first"])) == ("wrong-body", True, 5)
    assert found["why"]
    assert found["what to do"]
    assert main(["check", "hopper"]) == 1
    assert "no-shift" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hopper-own"], "no dataset 'hopper-own' (none in nowhere yet); `offdyn collect hopper-own` makes it"),
        (["hopper-big-heat"], "did you mean 'hopper-big-head'"),
        (["missing.hdf5"], "missing.hdf5: no such file"),
        (["missing.yaml"], "missing.yaml: there is no such file"),
        (["minari:missing-v0"], "no Minari dataset in"),
    ],
)
def test_a_mistake_gets_one_sentence(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OFFDYN_DATA", "nowhere")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert main(["check", *arguments]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_an_unknown_robot_gets_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save(simulated("hopper"), tmp_path / "set")
    assert main(["check", str(tmp_path / "set"), "--robot", "hoper"]) == 2
    assert "did you mean 'hopper'" in capsys.readouterr().err
