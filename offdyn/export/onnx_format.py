"""One ONNX file, its batch size open."""

from ..errors import OffdynError
from .parts import Parts

# Old on purpose: newer numbers than a runtime knows are refused by it, older ones never; nothing newer is needed.
OPSET, IR_VERSION = 17, 8


def files(parts: Parts) -> dict[str, bytes]:
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ModuleNotFoundError as error:
        raise OffdynError("--format onnx needs the Python package onnx: pip install 'offdyn[onnx]'") from error
    observation_size, action_size = parts.sizes
    nodes = [
        helper.make_node("Sub", ["observation", "observation.mean"], ["centred"]),
        helper.make_node("Div", ["centred", "observation.deviation"], ["x.0"]),
    ]
    last = len(parts.weights) - 1
    for i in range(last + 1):
        nodes += [
            helper.make_node("MatMul", [f"x.{i}", f"layers.{i}.weight"], [f"product.{i}"]),
            helper.make_node("Add", [f"product.{i}", f"layers.{i}.bias"], [f"sum.{i}"]),
            helper.make_node("Tanh" if i == last else "Relu", [f"sum.{i}"], [f"x.{i + 1}"]),
        ]
    nodes += [
        helper.make_node("Mul", [f"x.{last + 1}", "action.half"], ["scaled"]),
        helper.make_node("Add", ["scaled", "action.middle"], ["moved"]),
        helper.make_node("Max", ["moved", "action.low"], ["raised"]),
        helper.make_node("Min", ["raised", "action.high"], ["action"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", observation_size])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", action_size])],
        [numpy_helper.from_array(array, name) for name, array in parts.arrays().items()],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="offdyn")
    onnx.checker.check_model(model, full_check=True)
    return {"policy.onnx": model.SerializeToString(deterministic=True)}
