"""What the contract of an exported policy says, and what `offdyn export` refuses."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from offdyn.cli.main import main
from offdyn.data.datasets.target_log import TargetLog, path_of
from offdyn.data.transition import row_width
from offdyn.envs import pairs
from offdyn.envs.custom import OwnPair
from offdyn.training.checkpoint import CohortFolder
from offdyn.training.run_folder import RunFolder

from . import made_up


def read(folder: Path) -> dict:
    return yaml.safe_load((folder / "contract.yaml").read_text())


def test_the_contract_says_what_goes_in_and_what_comes_out(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out")
    assert main(["export", str(run.path), "--format", "numpy"]) == 0
    said = read(run.path / "export" / "numpy")
    assert (said["input"]["name"], said["input"]["shape"], said["input"]["dtype"]) == (
        "observation", ["batch", 11], "float32",
    )  # fmt: skip
    assert (said["output"]["name"], said["output"]["shape"]) == ("action", ["batch", 3])
    assert said["input"]["units"] == said["output"]["units"] == "unknown"
    assert (said["output"]["low"], said["output"]["high"]) == ([-1.0] * 3, [1.0] * 3)
    assert said["seconds_per_step"] == pytest.approx(0.008)
    assert len(said["input"]["normalised_inside"]["mean"]) == 11


def test_the_contract_says_how_the_policy_was_made(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out")
    run.write_json("final.json", {"final_mean": 12.5, "final_std": 0.5, "final_returns": [12.0, 13.0]})
    main(["export", str(run.path), "--format", "onnx", "--out", str(tmp_path / "e")])
    said = read(tmp_path / "e")
    made = said["made"]
    assert (made["run"], made["method"], made["seed"]) == (run.config.name, "par", 0)
    assert made["task"]["name"] == "hopper-big-head"
    assert made["packages"] == {"jax": "1"}
    assert made["target_return"] == {"mean": 12.5, "deviation": 0.5, "episodes": 2}

    def sha256(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert made["sha256"] == {n: sha256(run.path / n) for n in ("policy.safetensors", "config.yaml")}
    assert said["export"]["sha256"] == {"policy.onnx": sha256(tmp_path / "e" / "policy.onnx")}


def test_observed_ranges_are_those_of_the_runs_own_target_rows(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out")
    width = row_width(pairs.spec_of(run.config.task))
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(2, 50, width)).astype(np.float32)
    rows[0] += 100  # another run's, in the same cohort
    names = {"another": "", run.path.name: ""}
    cohort = CohortFolder.create(tmp_path / "out" / "cohorts" / "0", names, keep_replay=True)
    for number, some in enumerate((rows[:, :30], rows[:, 30:])):
        cohort.save(number, {}, {}, {"target": np.ascontiguousarray(some)})
    cohort.unlock()
    main(["export", str(run.path), "--format", "numpy", "--out", str(tmp_path / "e")])
    observed = read(tmp_path / "e")["input"]["observed"]
    both = np.concatenate((rows[1, :, :11], rows[1, :, 15:26]))  # observation 11, action 3, reward 1, next 11, end 1
    assert observed["rows"] == 50
    np.testing.assert_array_equal(np.float32(observed["low"]), both.min(0))
    np.testing.assert_array_equal(np.float32(observed["high"]), both.max(0))


PARTS = (("place", 2), ("speed", 3))
OWN = OwnPair("mine", None, "nowhere:to_be_found", 9, PARTS, (-3.0, 0.0), (5.0, 0.25))


def test_environments_of_ones_own_have_their_bounds_and_named_parts(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out", OWN, "sac-tar")
    main(["export", str(run.path), "--format", "numpy", "--out", str(tmp_path / "e")])
    said = read(tmp_path / "e")
    assert (said["output"]["low"], said["output"]["high"]) == ([-3.0, 0.0], [5.0, 0.25])
    assert said["input"]["parts"] == [{"name": "place", "size": 2}, {"name": "speed", "size": 3}]
    assert (said["input"]["shape"], said["steps_per_episode"]) == (["batch", 5], 9)
    assert all(-3 <= e["action"][0] <= 5 and 0 <= e["action"][1] <= 0.25 for e in said["examples"])


def test_observed_ranges_come_from_the_target_log_where_there_is_one(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out", OWN, "sac-tar", target_log=str(tmp_path / "log"))
    log = TargetLog(path_of(tmp_path / "log", run.config.name), (5, 2), {})
    log.append(np.full(5, 2.0), np.zeros(2), 1.0, np.full(5, -5.0), 0.0, 0.0)
    log.close()
    main(["export", str(run.path), "--format", "numpy", "--out", str(tmp_path / "e")])
    observed = read(tmp_path / "e")["input"]["observed"]
    assert observed == {"rows": 1, "domain": "target", "low": [-5.0] * 5, "high": [2.0] * 5}


def test_a_policy_that_was_told_its_domain_says_whose_side_it_is(tmp_path: Path) -> None:
    plain = made_up.run(tmp_path / "plain")
    conditioned = made_up.run(tmp_path / "out", **made_up.SIMBA)
    for run in (plain, conditioned):
        main(["export", str(run.path), "--format", "numpy"])
    said = read(conditioned.path / "export" / "numpy")
    assert said["domain"].startswith("target: ")
    assert said["made"]["backbone"] == "simba"
    assert "domain" not in read(plain.path / "export" / "numpy")
    assert "source.bias" not in load_file(conditioned.path / "export" / "numpy" / "policy.safetensors")


def test_without_stored_rows_the_ranges_are_unknown_and_that_is_said(tmp_path: Path, capsys) -> None:
    run = made_up.run(tmp_path / "out", normalised=False, state="running")
    main(["export", str(run.path), "--format", "numpy", "--out", str(tmp_path / "e")])
    assert read(tmp_path / "e")["input"]["observed"] is None
    assert read(tmp_path / "e")["input"]["normalised_inside"] is None
    said = capsys.readouterr().err
    assert "no target transitions of this run are stored" in said
    assert "the run is running: this is its policy at the last checkpoint" in said


def test_a_toy_environment_has_no_time_step(tmp_path: Path) -> None:
    run = made_up.run(tmp_path / "out", "jetpack")
    main(["export", str(run.path), "--format", "numpy", "--out", str(tmp_path / "e")])
    assert read(tmp_path / "e")["seconds_per_step"] is None


def refused(capsys, *arguments: str) -> str:
    assert main(["export", *arguments]) == 2
    return capsys.readouterr().err


def test_a_run_without_a_policy_is_refused(tmp_path: Path, capsys) -> None:
    run = made_up.run(tmp_path / "out")
    (run.path / "policy.safetensors").unlink()
    assert "no policy there yet; one is written at each checkpoint" in refused(
        capsys, str(run.path), "--format", "numpy"
    )
    assert not (run.path / "export").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys) -> None:
    assert "not a run's folder" in refused(capsys, str(tmp_path), "--format", "numpy")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_exists_is_left_alone(kind: str, tmp_path: Path, capsys) -> None:
    run, out = made_up.run(tmp_path / "out"), tmp_path / "taken"
    out.write_text("mine") if kind == "file" else out.mkdir()
    said = refused(capsys, str(run.path), "--format", "numpy", "--out", str(out))
    assert "taken exists already: name another folder with --out, or delete it" in said
    assert out.read_text() == "mine" if kind == "file" else not list(out.iterdir())


def test_a_missing_extra_is_named(tmp_path: Path, capsys, monkeypatch) -> None:
    run = made_up.run(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'offdyn[onnx]'" in refused(capsys, str(run.path), "--format", "onnx")
    assert not (run.path / "export").exists()


def test_a_policy_with_broken_numbers_is_refused(tmp_path: Path, capsys) -> None:
    run = made_up.run(tmp_path / "out")
    policies = made_up.random_policies(11, 3, normalised=True)
    policies.arrays[2][0, 0, 0] = np.nan
    made_up.write(RunFolder.open(run.path), policies)
    assert "layers.1.weight has numbers that are not finite" in refused(capsys, str(run.path), "--format", "numpy")


def test_nothing_is_left_where_writing_fails(tmp_path: Path, capsys) -> None:
    run = made_up.run(tmp_path / "out")
    (tmp_path / "file").write_text("")
    said = refused(capsys, str(run.path), "--format", "numpy", "--out", str(tmp_path / "file" / "below"))
    assert "cannot be written" in said
