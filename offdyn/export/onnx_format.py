"""One ONNX file, its batch size open; a base policy is part of the graph."""

from pathlib import Path
from typing import Any

from .._util.errors import OffdynError
from ..policies.base import EXPECTED_OUTPUTS
from ..policies.trained import SMALLEST_VARIANCE
from .parts import Parts

# Old on purpose: newer numbers than a runtime knows are refused by it, older ones never; nothing newer is needed.
OPSET, IR_VERSION = 17, 8
BASE = "base."  # begins the names of all that belongs to a base policy
BASE_ACTION = "given"  # by the base policy


def files(parts: Parts) -> dict[str, bytes]:
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ModuleNotFoundError as error:
        raise OffdynError("--format onnx needs the Python package onnx: pip install 'offdyn[onnx]'") from error
    if parts.reach is not None and parts.base is None:
        raise OffdynError(
            "--format onnx cannot hold a base policy that is a Python function: --format numpy writes a program that "
            "takes it, Policy(base=function)"
        )
    observation_size, action_size = parts.sizes
    nodes, arrays = _network(parts), parts.arrays()
    model, opset = None, helper.make_opsetid("", OPSET)
    if isinstance(parts.base, Parts):
        nodes = [*_network(parts.base, BASE, BASE_ACTION), *nodes]
        arrays |= {f"{BASE}{name}": array for name, array in parts.base.arrays().items()}
    if isinstance(parts.base, Path):
        model = _opened(parts.base)
        nodes = [*model.graph.node, *nodes]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", observation_size])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", action_size])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    if model is None:
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="offdyn")
    else:
        graph.initializer.extend(model.graph.initializer)
        graph.sparse_initializer.extend(model.graph.sparse_initializer)
        model.graph.CopyFrom(graph)
        model.producer_name, model.ir_version = "offdyn", max(model.ir_version, IR_VERSION)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        if not isinstance(parts.base, Path):
            raise
        raise _unmergeable(parts.base, str(error)) from None
    return {"policy.onnx": model.SerializeToString(deterministic=True)}


def _network(parts: Parts, prefix: str = "", output: str = "action") -> list[Any]:
    """The operations from "observation" to an action in the environment's units; `prefix`: of all other names."""
    from onnx import helper

    def node(kind: str, inputs: list[str], out: str, **options: Any) -> Any:
        names = [name if name in ("observation", BASE_ACTION) else prefix + name for name in inputs]
        return helper.make_node(kind, names, [output if out == "action" else prefix + out], **options)

    nodes = [
        node("Sub", ["observation", "observation.mean"], "centred"),
        node("Div", ["centred", "observation.deviation"], "x.0"),
    ]
    arrays, kept = iter(parts.layers), "x.0"
    for number, step in enumerate(parts.steps):
        into, out = f"x.{number}", f"x.{number + 1}"
        if step == "linear":
            nodes.append(node("MatMul", [into, next(arrays)], f"product.{number}"))
            nodes.append(node("Add", [f"product.{number}", next(arrays)], out))
        elif step == "norm":
            inputs = [into, next(arrays), next(arrays)]
            nodes.append(node("LayerNormalization", inputs, out, axis=-1, epsilon=SMALLEST_VARIANCE))
        elif step == "add":
            nodes.append(node("Add", [into, kept], out))
        else:
            nodes.append(node({"relu": "Relu", "keep": "Identity"}[step], [into], out))
            kept = out if step == "keep" else kept
    nodes.append(node("Tanh", [f"x.{len(parts.steps)}"], "squashed"))
    share = "squashed"
    if parts.reach is not None:
        share = "executed"
        nodes += [
            node("Sub", [BASE_ACTION, "action.middle"], "given.centred"),
            node("Div", ["given.centred", "action.half"], "given.share"),
            *_clipped(node, "given.share", "given.clipped"),
            node("Mul", ["squashed", "residual"], "move"),
            node("Add", ["given.clipped", "move"], "sum"),
            *_clipped(node, "sum", share),
        ]
    nodes += [
        node("Mul", [share, "action.half"], "scaled"),
        node("Add", ["scaled", "action.middle"], "moved"),
        node("Max", ["moved", "action.low"], "raised"),
        node("Min", ["raised", "action.high"], "action"),
    ]
    return nodes


def _clipped(node: Any, into: str, out: str) -> list[Any]:
    """Within [-1, 1], whose ends are arrays of a residual."""
    return [node("Max", [into, "unit.low"], f"{out}.raised"), node("Min", [f"{out}.raised", "unit.high"], out)]


def _opened(path: Path) -> Any:
    """A base policy whose graph begins at "observation" and ends in its action, float32 both."""
    import onnx
    from onnx import TensorProto, compose, helper, version_converter

    model = onnx.load(path)
    try:
        if next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx")) < OPSET:
            model = version_converter.convert_version(model, OPSET)
    except Exception as error:
        raise _unmergeable(path, f"its operations cannot be written as those of opset {OPSET}: {error}") from None
    known = {array.name for array in model.graph.initializer}
    (taken,) = (one for one in model.graph.input if one.name not in known)
    outputs = model.graph.output
    given = next(one for one in outputs if len(outputs) == 1 or one.name in EXPECTED_OUTPUTS)
    if taken.type.tensor_type.shape.dim[0].HasField("dim_value"):
        raise _unmergeable(path, "it takes one observation at a time")
    kind, name, out = taken.type.tensor_type.elem_type, f"{BASE}{taken.name}", f"{BASE}{given.name}"
    model = compose.add_prefix(model, BASE)
    nodes = [
        helper.make_node("Cast", ["observation"], [name], to=kind),
        *model.graph.node,
        helper.make_node("Cast", [out], [BASE_ACTION], to=TensorProto.FLOAT),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _unmergeable(path: Path, why: str) -> OffdynError:
    return OffdynError(f"{path}: cannot become part of one ONNX file ({why}); --format numpy takes it along as it is")
