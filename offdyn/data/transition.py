"""A row as the device stores it: all its columns side by side. NumPy only, for processes that know no device."""

import numpy as np

from .._util.types import Spec
from ..envs.domain import Rows


def row_width(spec: Spec) -> int:
    """Numbers in one row: observation, action, reward, next observation, terminated."""
    return 2 * spec.observation_size + spec.action_size + 2


def pack(rows: Rows) -> np.ndarray:
    """[n, width] float32: what the device stores of the rows."""
    return np.concatenate(
        (rows.observation, rows.action, rows.reward[:, None], rows.next_observation, rows.terminated[:, None]),
        axis=1,
        dtype=np.float32,
    )
