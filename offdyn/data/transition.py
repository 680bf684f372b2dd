"""A row as the device stores it: all its columns side by side. NumPy only, for processes that know no device."""

from typing import Any

import numpy as np

from .._util.types import Spec
from ..envs.domain import Rows


def row_width(spec: Spec) -> int:
    """Numbers in one row: observation, action, reward, next observation, terminated."""
    return 2 * spec.observation_size + spec.action_size + 2


def pack(rows: Rows, numpy: Any = np) -> Any:
    """[..., n, width] float32: what the device stores of the rows. With `jax.numpy` it packs them itself."""
    reward, terminated = rows.reward[..., None], rows.terminated[..., None]
    columns = (rows.observation, rows.action, reward, rows.next_observation, terminated)
    return numpy.concatenate(columns, axis=-1, dtype=np.float32)
