"""Every exported policy acts as the library's does, wherever it runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import offdyn
from offdyn.envs import pairs
from offdyn.envs.gym import RobotEnv
from offdyn.export import FORMATS
from offdyn.export.write import export
from offdyn.training.run_folder import RunFolder

from . import made_up

LOW, HIGH = np.array([-3.0, 0.1, 1000.0]), np.array([5.0, 0.7, 1000.0031])
CLOSE = 1e-5  # of the range of an action
BEHAVIOURS = Path(offdyn.__file__).parent / "data" / "behaviours"  # trained policies that come along
TARGETS = {"halfcheetah": "halfcheetah-no-thighs", "hopper": "hopper-big-head"}

# Runs policy.py where nothing but the standard library and NumPy can be imported.
WITH_NUMPY_ALONE = """
import importlib.util, json, sys
sys.path[:0] = {paths!r}
assert all(importlib.util.find_spec(name) is None for name in ("jax", "safetensors", "yaml", "offdyn", "scipy"))
import numpy
from policy import Policy
print(json.dumps(Policy()(numpy.load({observations!r})).tolist()))
"""


def in_numpy(folder: Path, observations: np.ndarray) -> np.ndarray:
    alone = folder.parent / "packages"
    alone.mkdir(exist_ok=True)
    for name in ("numpy", "numpy.libs"):
        where = Path(np.__file__).parents[1] / name
        if where.exists() and not (alone / name).exists():
            (alone / name).symlink_to(where)
    np.save(folder.parent / "observations.npy", observations)
    paths = [str(alone), str(folder)]
    script = WITH_NUMPY_ALONE.format(paths=paths, observations=str(folder.parent / "observations.npy"))
    command = [sys.executable, "-I", "-B", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def in_onnxruntime(folder: Path, observations: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "policy.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", observations.shape[1]]
    return session.run(["action"], {"observation": observations})[0]


def in_jax(folder: Path, observations: np.ndarray) -> np.ndarray:
    import jax

    return np.asarray(jax.export.deserialize((folder / "policy.jax_export").read_bytes()).call(observations))


def in_stablehlos_interpreter(folder: Path, observations: np.ndarray) -> np.ndarray:
    from jax._src.interpreters.mlir import make_ir_context
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    with make_ir_context():
        module = ir.Module.parse((folder / "policy.stablehlo.mlir").read_text())
        (result,) = stablehlo.eval_module(module, [ir.DenseElementsAttr.get(observations)])
        return np.array(ir.DenseFPElementsAttr(result))


RUNNERS = [
    ("numpy", in_numpy),
    ("onnx", in_onnxruntime),
    ("stablehlo", in_jax),
    ("stablehlo", in_stablehlos_interpreter),
]


@pytest.mark.parametrize(("kind", "act"), RUNNERS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("backbone", ["classic", "simba"])
@pytest.mark.parametrize("normalised", [False, True], ids=["plain", "normalised"])
def test_an_exported_policy_takes_the_librarys_actions(
    kind, act, normalised: bool, backbone: str, tmp_path: Path
) -> None:
    chosen = made_up.SIMBA if backbone == "simba" else {}
    run = made_up.run(tmp_path / "out", normalised=normalised, **chosen)
    folder = export(run.path, kind, tmp_path / "exported")
    seen = made_up.observations(11)
    expected = offdyn.load_policy(run)(seen)
    assert np.abs(expected).max() > (0.99 if backbone == "classic" else 0.8)
    assert np.abs(expected[:200]).min() < 0.1
    np.testing.assert_allclose(act(folder, seen), expected, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(act(folder, seen[:1]), expected[:1], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("robot", ["halfcheetah", "hopper"])
def test_a_trained_policy_acts_alike_on_what_it_meets(robot: str, tmp_path: Path) -> None:
    """Of two layers of 256: where much cancels, float32 itself is the limit, so that what is met matters."""
    run = made_up.run(tmp_path / "out", TARGETS[robot])
    shutil.copy(BEHAVIOURS / f"{robot}-expert.safetensors", run.path / "policy.safetensors")
    policy, met = offdyn.load_policy(run), []
    for task in (robot, TARGETS[robot]):
        env = RobotEnv(task)
        observation, _ = env.reset(seed=0)
        for _ in range(60):
            met.append(observation)
            observation, *_ = env.step(policy(observation))
    seen = np.array(met, np.float32)
    for kind, act in RUNNERS[:3]:
        acted = act(export(run.path, kind, tmp_path / kind), seen)
        np.testing.assert_allclose(acted, policy(seen), rtol=0, atol=CLOSE, err_msg=kind)


@pytest.mark.parametrize(("kind", "act"), RUNNERS, ids=lambda value: getattr(value, "__name__", value))
def test_actions_come_in_the_environments_own_bounds(kind, act, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pairs, "action_bounds", lambda pair: (LOW, HIGH))
    run = made_up.run(tmp_path / "out")
    seen = made_up.observations(11)
    expected = LOW + (HIGH - LOW) * (offdyn.load_policy(run, normalised=True)(seen) + 1) / 2
    acted = act(export(run.path, kind, tmp_path / "exported"), seen)
    if kind == "numpy":
        np.testing.assert_array_equal(offdyn.load_policy(run)(seen), acted)
    assert acted.dtype == np.float32 or kind == "numpy"  # which came through JSON
    assert (np.abs(acted - expected) <= CLOSE * (HIGH - LOW) + 2 * np.spacing(np.float32(HIGH))).all()
    assert ((acted >= LOW) & (acted <= HIGH)).all()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("export")
    run = made_up.run(out / "runs")
    return {kind: export(run.path, kind) for kind in FORMATS}


def test_the_examples_of_every_contract_are_what_its_policy_does(exported: dict[str, Path]) -> None:
    for kind, act in RUNNERS:
        examples = yaml.safe_load((exported[kind] / "contract.yaml").read_text())["examples"]
        seen, expected = (np.array([e[k] for e in examples], np.float32) for k in ("observation", "action"))
        assert len({tuple(action) for action in expected}) == len(examples)
        np.testing.assert_allclose(act(exported[kind], seen), expected, rtol=0, atol=CLOSE)


def test_the_same_run_gives_the_same_bytes(exported: dict[str, Path], tmp_path: Path) -> None:
    run = exported["numpy"].parents[1]
    for kind in FORMATS:
        again = export(run, kind, tmp_path / kind)
        assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in exported[kind].iterdir())
        for path in again.iterdir():
            assert path.read_bytes() == (exported[kind] / path.name).read_bytes(), path


def test_no_file_says_where_it_was_made(exported: dict[str, Path]) -> None:
    here = str(Path(offdyn.__file__).parent).encode()
    there = str(exported["numpy"].parents[3]).encode()
    for folder in exported.values():
        for path in folder.iterdir():
            assert here not in path.read_bytes()
            assert there not in path.read_bytes()


def test_the_runner_fits_on_a_page(exported: dict[str, Path]) -> None:
    lines = (exported["numpy"] / "policy.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 55


def load_runner(folder: Path):
    namespace = {"__name__": "policy", "__file__": str(folder / "policy.py")}
    exec((folder / "policy.py").read_text(), namespace)
    return namespace["Policy"]


def test_the_runner_takes_one_observation_or_any_batch(exported: dict[str, Path]) -> None:
    policy = load_runner(exported["numpy"])()
    seen = made_up.observations(11)[:6]
    np.testing.assert_allclose(policy(seen[0]), policy(seen)[0], atol=1e-6)
    assert policy(seen.reshape(2, 3, 11)).shape == (2, 3, 3)


@pytest.mark.parametrize("wrong", [np.zeros(10), np.full(11, np.nan), np.r_[np.zeros(10), np.inf]])
def test_the_runner_refuses_what_is_no_observation(wrong: np.ndarray, exported: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="expected 11 finite numbers"):
        load_runner(exported["numpy"])()(wrong)


def test_the_runner_reads_no_number_beyond_the_file(exported: dict[str, Path], tmp_path: Path) -> None:
    policy, content = load_runner(exported["numpy"]), (exported["numpy"] / "policy.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    damaged = {"cut short": [b"", content[:5], content[: 8 + length - 1], (2**63).to_bytes(8, "little") + b"{}"]}
    damaged["is damaged"] = [content[:-1]]
    for offsets in ([-4, 0], [0, 8], [4, 0], [0, 1 << 40]):
        other = json.dumps(header | {"action.half": header["action.half"] | {"data_offsets": offsets}}).encode()
        damaged["is damaged"].append(len(other).to_bytes(8, "little") + other + content[8 + length :])
    for complaint, contents in damaged.items():
        for broken in contents:
            (tmp_path / "broken").write_bytes(broken)
            with pytest.raises(ValueError, match=complaint):
                policy(tmp_path / "broken")


def test_the_runner_is_a_filter_in_a_shell(exported: dict[str, Path]) -> None:
    line = " ".join(["0.5"] * 11) + "\n"
    command = [sys.executable, str(exported["numpy"] / "policy.py")]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    run = RunFolder.open(exported["numpy"].parents[1])
    np.testing.assert_allclose([float(x) for x in done.stdout.split()], offdyn.load_policy(run)([0.5] * 11), atol=1e-5)
