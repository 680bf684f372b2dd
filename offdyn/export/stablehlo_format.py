"""A program that jax.export loads, and the same program as StableHLO text; the batch size of both is open."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.mlir.dialects import stablehlo

from .._util.errors import OffdynError
from ..algos.networks import Network
from .parts import Parts

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
PLACE = re.compile(r' loc\((?:#loc\d*|unknown|"[^"]*")\)')  # where in which file an operation was written


def files(parts: Parts) -> dict[str, bytes]:
    if parts.reach is not None and not isinstance(parts.base, Parts):
        raise OffdynError(
            "--format stablehlo can hold a base policy of offdyn only, a run's folder: --format numpy holds an ONNX "
            "file and takes a Python function, --format onnx holds an ONNX file"
        )
    policy = _policy(parts)

    (batch,) = jax.export.symbolic_shape("batch")
    observation = jax.ShapeDtypeStruct((batch, parts.sizes[0]), jnp.float32)
    everywhere = jax.export.export(jax.jit(policy), platforms=PLATFORMS)(observation)
    # The text is of one platform: a program for several wants the platform's number as an argument.
    alone = jax.export.export(jax.jit(policy), platforms=("cpu",))(observation)
    return {
        "policy.jax_export": bytes(_without_places(everywhere).serialize()),
        "policy.stablehlo.mlir": _portable(alone.mlir_module()).encode(),
    }


def _policy(parts: Parts) -> Callable[[jax.Array], jax.Array]:
    arrays = parts.arrays()
    base = _policy(parts.base) if isinstance(parts.base, Parts) else None

    def policy(observation: jax.Array) -> jax.Array:
        x = (observation - arrays["observation.mean"]) / arrays["observation.deviation"]
        # In full precision: the default of some devices has fewer bits than float32.
        with jax.default_matmul_precision("highest"):
            x = Network(parts.steps, (), 0).apply(tuple(map(jnp.asarray, parts.layers.values())), x)
        share = jnp.tanh(x)
        if base is not None:
            given = jnp.clip((base(observation) - arrays["action.middle"]) / arrays["action.half"], -1, 1)
            share = jnp.clip(given + arrays["residual"] * share, -1, 1)
        action = arrays["action.middle"] + arrays["action.half"] * share
        return jnp.clip(action, arrays["action.low"], arrays["action.high"])

    return policy


def _without_places(exported: Any) -> Any:
    """The same program without the names of the files it was written in."""
    oldest = stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_12)
    plain = stablehlo.serialize_portable_artifact_str(_plain(exported.mlir_module()), oldest)
    return dataclasses.replace(exported, mlir_module_serialized=plain)


def _plain(module: str) -> str:
    lines = [line for line in module.splitlines() if not line.startswith("#loc")]
    return "\n".join(PLACE.sub("", line) for line in lines) + "\n"


def _portable(module: str) -> str:
    """Without the assertion that a batch has rows, which is a call that JAX alone understands."""
    return "".join(line for line in _plain(module).splitlines(keepends=True) if "@shape_assertion" not in line)
