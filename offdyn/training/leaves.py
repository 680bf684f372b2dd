"""Networks by name: how a pytree of arrays becomes a file, and a file a pytree."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._util.errors import OffdynError


def named_leaves(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def fill_leaves(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree with its leaves replaced by the arrays of their names."""
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = []
    for path, leaf in paths:
        leaves.append(jax.numpy.asarray(matching(jax.tree_util.keystr(path), arrays, leaf)))
    return jax.tree_util.tree_unflatten(structure, leaves)


def matching(name: str, arrays: Mapping[str, np.ndarray], leaf: Any) -> np.ndarray:
    """The array of that name, of the leaf's shape and type."""
    array = arrays.get(name)
    if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
        came = "nothing" if array is None else f"{array.dtype} {array.shape}"
        raise OffdynError(
            f"checkpoint: {name} should be {leaf.dtype} {leaf.shape}, found {came}; it was saved by another "
            "version or with other settings: start afresh"
        )
    return array
