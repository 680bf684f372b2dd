"""One ONNX file, its batch size open."""

from .._util.errors import OffdynError
from ..training.policies import SMALLEST_VARIANCE
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
    arrays, kept = iter(parts.layers), "x.0"
    for number, step in enumerate(parts.steps):
        into, out = f"x.{number}", f"x.{number + 1}"
        if step == "linear":
            nodes.append(helper.make_node("MatMul", [into, next(arrays)], [f"product.{number}"]))
            nodes.append(helper.make_node("Add", [f"product.{number}", next(arrays)], [out]))
        elif step == "norm":
            inputs = [into, next(arrays), next(arrays)]
            nodes.append(helper.make_node("LayerNormalization", inputs, [out], axis=-1, epsilon=SMALLEST_VARIANCE))
        elif step == "add":
            nodes.append(helper.make_node("Add", [into, kept], [out]))
        else:
            nodes.append(helper.make_node({"relu": "Relu", "keep": "Identity"}[step], [into], [out]))
            kept = out if step == "keep" else kept
    nodes += [
        helper.make_node("Tanh", [f"x.{len(parts.steps)}"], ["squashed"]),
        helper.make_node("Mul", ["squashed", "action.half"], ["scaled"]),
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
