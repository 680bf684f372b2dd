"""Lanes that failed: what of theirs was not finite, and when; no more of it reaches a body or a replay."""

from collections.abc import Sequence

import numpy as np

from ..types import Spec


class Failures(dict[int, tuple[str, int]]):
    """Of each lane that failed the quantity and the source step."""

    def alive(self, lanes: int) -> np.ndarray:
        """[lanes] bool: the runs that go on."""
        return np.array([lane not in self for lane in range(lanes)])

    def note(self, faults: np.ndarray, names: Sequence[str], step: int) -> None:
        """What the device found in its updates: [lanes, 2], first 0 or one more than the position of a name."""
        for lane in np.flatnonzero(faults[:, 0]):
            self.setdefault(int(lane), (names[faults[lane, 0] - 1], step))

    def guard_actions(self, actions: np.ndarray, lane_of: np.ndarray, step: int) -> np.ndarray:
        return self._guard(actions, lane_of, "action", ~np.isfinite(actions).all(axis=1), step)

    def guard_rows(self, packed: np.ndarray, lane_of: np.ndarray, spec: Spec, step: int) -> np.ndarray:
        finite = np.isfinite(packed)
        if not self and finite.all():
            return packed
        reward = spec.observation_size + spec.action_size  # its column
        packed = self._guard(packed, lane_of, "observation", ~np.delete(finite, reward, axis=1).all(axis=1), step)
        return self._guard(packed, lane_of, "reward", ~finite[:, reward], step)

    def _guard(self, values: np.ndarray, lane_of: np.ndarray, quantity: str, bad: np.ndarray, step: int) -> np.ndarray:
        """A lane with a value that is not finite stops; what it would have stored or done becomes zero."""
        for lane in np.unique(lane_of[bad]):
            self.setdefault(int(lane), (quantity, step))
        if self:
            failed = np.isin(lane_of, list(self))
            values = np.where(failed[:, None], 0.0, values).astype(values.dtype)
        return values
