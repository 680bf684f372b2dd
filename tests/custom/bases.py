"""Base policies for the tiny environments, by `tests.custom.bases:NAME`; their actions lie in [-3, 5] there."""

from typing import Any

import numpy as np

asked: list[np.ndarray] = []  # what `pulling` was shown
broken_after: list[int] = []  # calls that `breaking` still answers, where that is limited


def pulling(observation: np.ndarray) -> np.ndarray:
    """Pulls the point to the middle of its line, further than its motor can where it is far out."""
    asked.append(observation)
    return 1.0 - 8.0 * observation[:, :1]


def breaking(observation: np.ndarray) -> np.ndarray:
    if broken_after:
        broken_after[0] -= 1
        if broken_after[0] < 0:
            broken_after.clear()
            return np.full((len(observation), 1), np.nan)
    return pulling(observation)


def two_numbers(observation: np.ndarray) -> np.ndarray:
    return observation


def one_observation(observation: np.ndarray) -> np.ndarray:
    """Looks at the first row alone."""
    return np.full((len(observation), 1), observation[0, 0])


def raising(observation: np.ndarray) -> np.ndarray:
    raise KeyError("gains")


not_a_function: Any = 3
