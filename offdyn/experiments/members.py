"""Which member of a run acts in the next target episode, and which is deployed, where a method trains several."""

from collections.abc import Sequence
from typing import Any

import numpy as np

WINDOW = 10  # newest target episodes of a member that speak for it
TURN = 10  # every so many target episodes the members take turns, however they do
ROLE = 4  # in (seed, role, ...), which seeds draws; bodies' starts use 0 to 3


class Members:
    """The members of each lane and their newest returns in the target.

    Each lane draws one of the newest returns of each member, and the member with the largest acts: equal ones alternate
    by chance, and one that does worse acts the less, the surer that is.
    """

    def __init__(self, seeds: Sequence[int], count: int) -> None:
        self.seeds, self.count = list(seeds), count
        self.acting = np.zeros(len(self.seeds), np.int32)
        self.returns: list[list[list[float]]] = [[[] for _ in range(count)] for _ in self.seeds]
        self.episodes = [0] * len(self.seeds)

    @property
    def deployed(self) -> np.ndarray:
        """[lanes]: the member with the largest mean of its newest returns; the first before there are any."""
        means = [[float(np.mean(newest)) if newest else -np.inf for newest in lane] for lane in self.returns]
        return np.array([int(np.argmax(lane)) for lane in means], np.int32)

    def ended(self, lane: int, gained: float) -> None:
        """A target episode of this lane is over: note its return, choose who acts next."""
        if self.count == 1:
            return
        newest = self.returns[lane]
        mine = newest[self.acting[lane]]
        mine.append(gained)
        del mine[:-WINDOW]
        self.episodes[lane] += 1
        self.acting[lane] = self._next(lane)

    def _next(self, lane: int) -> int:
        number, newest = self.episodes[lane], self.returns[lane]
        untried = [member for member, returns in enumerate(newest) if not returns]
        if untried:
            return untried[0]
        if number % TURN == 0:
            return number // TURN % self.count
        generator = np.random.default_rng((self.seeds[lane], ROLE, number))
        return int(np.argmax([generator.choice(returns) for returns in newest]))

    def save(self) -> dict[str, Any]:
        return {"acting": self.acting.tolist(), "returns": self.returns, "episodes": self.episodes}

    def load(self, saved: dict[str, Any]) -> None:
        self.acting = np.array(saved["acting"], np.int32)
        self.returns, self.episodes = saved["returns"], saved["episodes"]
