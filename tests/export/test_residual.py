"""A policy that moves a base policy's actions is exported whole, or refused in words."""

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.export.write import export
from offdyn.training.run_folder import RunFolder

from . import made_up
from .test_formats import CLOSE, RUNNERS, in_numpy

WEIGHT = np.random.default_rng(5).normal(0, 0.5, (11, 3))


def linear(observation: np.ndarray) -> np.ndarray:
    return 3.0 * np.tanh(observation @ WEIGHT)  # beyond the bounds


def on_network(folder: Path) -> RunFolder:
    base = made_up.run(folder / "base", **made_up.SIMBA)
    return made_up.run(folder / "out", base_policy=str(base.path), residual=0.3)


def model(path: Path, kind: str = "float", opset: int = 13, batch: str | int = "n") -> Path:
    """`linear` as other people's programs write it: other names, an old opset, a value beside the action."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    of, number = (TensorProto.FLOAT, np.float32) if kind == "float" else (TensorProto.DOUBLE, np.float64)
    nodes = [
        helper.make_node("MatMul", ["obs", "weight"], ["x.1"]),
        helper.make_node("Tanh", ["x.1"], ["squashed"]),
        helper.make_node("Mul", ["squashed", "three"], ["actions"]),
        helper.make_node("ReduceMax", ["obs"], ["value"], axes=[1], keepdims=1),
    ]
    arrays = {"weight": WEIGHT.astype(number), "three": np.array(3, number)}
    sizes = {"obs": 11, "value": 1, "actions": 3}
    taken, *given = (helper.make_tensor_value_info(name, of, [batch, size]) for name, size in sizes.items())
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "theirs", [taken], given, initializers)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def on_model(folder: Path, **options) -> RunFolder:
    return made_up.run(folder / "out", base_policy=str(model(folder / "theirs.onnx", **options)), residual=0.3)


def on_function(folder: Path) -> RunFolder:
    return made_up.run(folder / "out", base_policy=f"{__name__}:linear", residual=0.3)


def in_numpy_here(folder: Path, observations: np.ndarray, monkeypatch, **options) -> np.ndarray:
    """With whatever else is installed here."""
    monkeypatch.syspath_prepend(folder)
    for name in ("policy", "network"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import policy

    acted = policy.Policy(**options)(observations)
    for name in ("policy", "network"):
        del sys.modules[name]
    return acted


def seen() -> np.ndarray:
    return np.random.default_rng(1).normal(1, 2, (50, 11)).astype(np.float32)


@pytest.mark.parametrize(("kind", "act"), RUNNERS, ids=lambda value: getattr(value, "__name__", value))
def test_a_base_of_ours_goes_along_in_every_format(kind, act, tmp_path):
    run = on_network(tmp_path)
    folder = export(run.path, kind, tmp_path / "exported")
    expected = offdyn.load_policy(run)(seen())
    np.testing.assert_allclose(act(folder, seen()), expected, rtol=0, atol=CLOSE)
    alone = offdyn.load_policy(Path(run.config.schedule.base_policy))(seen())
    assert 0.1 < np.abs(expected - alone).max() <= 0.3 + CLOSE


@pytest.mark.parametrize("options", [{}, {"opset": 17}, {"kind": "double"}], ids=["old", "new", "double"])
def test_an_onnx_base_becomes_part_of_one_onnx_file(options, tmp_path):
    run = on_model(tmp_path, **options)
    expected = offdyn.load_policy(run)(seen())
    np.testing.assert_allclose(expected, offdyn.load_policy(on_function(tmp_path / "same"))(seen()), atol=CLOSE)
    folder = export(run.path, "onnx", tmp_path / "exported")
    np.testing.assert_allclose(dict(RUNNERS)["onnx"](folder, seen()), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("batch", ["n", 1])
def test_an_onnx_base_lies_beside_the_policy_for_numpy(batch, tmp_path, monkeypatch):
    run = on_model(tmp_path, batch=batch)
    folder = export(run.path, "numpy", tmp_path / "exported")
    expected = offdyn.load_policy(run)(seen())
    np.testing.assert_allclose(in_numpy_here(folder, seen(), monkeypatch), expected, rtol=0, atol=CLOSE)


def test_a_function_is_handed_to_the_policy_for_numpy(tmp_path, monkeypatch):
    run = on_function(tmp_path)
    folder = export(run.path, "numpy", tmp_path / "exported")
    acted = in_numpy_here(folder, seen(), monkeypatch, base=linear)
    np.testing.assert_allclose(acted, offdyn.load_policy(run)(seen()), rtol=0, atol=CLOSE)
    with pytest.raises(ValueError, match=r"hand it over, Policy\(base=function\)"):
        in_numpy_here(folder, seen(), monkeypatch)


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (on_function, "onnx", r"Python function: --format numpy writes a program that takes it"),
        (on_function, "stablehlo", "can hold a base policy of offdyn only"),
        (on_model, "stablehlo", "can hold a base policy of offdyn only"),
        (lambda folder: on_model(folder, batch=1), "onnx", "one observation at a time.*--format numpy takes it along"),
    ],
)
def test_a_format_that_cannot_hold_a_base_says_which_can(made, kind, words, tmp_path):
    run = made(tmp_path)
    with pytest.raises(OffdynError, match=words):
        export(run.path, kind, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_the_contract_names_the_base_and_its_examples_are_the_whole_policys(tmp_path):
    run = on_network(tmp_path)
    folder = export(run.path, "numpy", tmp_path / "exported")
    said = yaml.safe_load((folder / "contract.yaml").read_text())
    plan = run.config.schedule
    name = Path(plan.base_policy).name
    wanted = {"policy": name, "sha256": plan.base_sha256, "residual": 0.3, "file": "base.safetensors"}
    assert said["base"] == wanted
    assert "moves the action of a base policy" in said["policy"]
    examples = np.array([one["observation"] for one in said["examples"]], np.float32)
    actions = np.array([one["action"] for one in said["examples"]])
    np.testing.assert_allclose(in_numpy(folder, examples), actions, atol=CLOSE)
    assert str(tmp_path) not in (folder / "contract.yaml").read_text()
