"""A frozen base policy inside the bodies: what a learner chooses there is how far to move the base's action."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .custom_batch import OwnBodies
from .domain import Domain, Rows, Wrapped


@dataclass(frozen=True, eq=False)
class Residual:
    """The executed action is clip(base(observation) + reach * chosen), all of it in [-1, 1]."""

    base: Callable[[np.ndarray], np.ndarray]  # observations [n, S] to actions [n, A] in [-1, 1]
    reach: float  # above 0, at most 1
    observation_size: int
    action_size: int

    def executed(self, observation: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """[n, S], [n, A] -> [n, A]."""
        return np.clip(self._base(observation) + self.reach * chosen, -1.0, 1.0)

    def chosen(self, observation: np.ndarray, executed: np.ndarray) -> np.ndarray:
        """[n, A], beyond [-1, 1] where no choice leads to what was executed."""
        return (executed - self._base(observation)) / self.reach

    def _base(self, observation: np.ndarray) -> np.ndarray:
        # A lane whose observation broke is stopped by the training; the base need not answer to it.
        known = np.isfinite(observation).all(axis=1, keepdims=True)
        return self.base(np.where(known, observation, 0.0))


class ResidualBodies(Wrapped):
    """A domain in whose bodies base policies act, as `Domain` asks; it has no state of its own.

    A transition holds what was chosen. Where one comes that was made earlier, its action is mapped back.
    """

    def __init__(self, inner: Domain, residuals: Sequence[Residual | None]) -> None:
        """`residuals`: of each body; those of one base policy are asked together."""
        super().__init__(inner)
        self._residuals = list(residuals)

    def seen_by(self, ids: np.ndarray) -> np.ndarray:
        """As `OwnBodies` has it."""
        return self.inner.seen_by(ids) if isinstance(self.inner, OwnBodies) else self.inner.observation

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        ids, actions = np.asarray(ids), np.asarray(actions, float)
        if not np.isfinite(actions).all():  # which the bodies refuse before anything moves
            return self.inner.step(ids, actions)
        groups, chosen = self._groups(ids), np.clip(actions, -1.0, 1.0)
        seen, asked = self.seen_by(ids)[ids], actions.copy()
        for residual, at in groups:
            s, a = residual.observation_size, residual.action_size
            asked[at, :a] = residual.executed(seen[at, :s], chosen[at, :a])
        rows = self.inner.step(ids, asked)
        for residual, at in groups:
            s, a = residual.observation_size, residual.action_size
            done, mine = rows.action[at, :a], chosen[at, :a].copy()
            earlier = (done != asked[at, :a]).any(axis=1)
            if earlier.any():
                mine[earlier] = np.clip(residual.chosen(rows.observation[at[earlier], :s], done[earlier]), -1.0, 1.0)
            rows.action[at, :a] = mine
        return rows

    def _groups(self, ids: np.ndarray) -> list[tuple[Residual, np.ndarray]]:
        """Each base policy of some of these bodies, and their positions."""
        places: dict[int, list[int]] = {}
        for position, body in enumerate(ids.tolist()):
            if (residual := self._residuals[body]) is not None:
                places.setdefault(id(residual), []).append(position)
        return [(self._residuals[ids[at[0]]], np.array(at)) for at in places.values()]
