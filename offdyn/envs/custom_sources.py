"""The sources of a custom pair: each an environment of its own in a vector environment, or batched simulators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import batched, custom
from .batched import Stepped
from .custom import OwnPair


class VectorSources:
    """Environments that `Body` stands around, together in one of Gymnasium's vector environments."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def begin(
        self, wanted: np.ndarray, episodes: np.ndarray, spent: np.ndarray, all_new: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Begin episodes: in which they began, and what everyone shows."""
        wanted = wanted | all_new  # Gymnasium's first reset is one of all
        for name, values in (("episode", episodes), ("spent", spent)):
            values = np.where(wanted, values, self.env.get_attr(name))
            self.env.set_attr(name, [int(value) for value in values])
        seen, _ = self.env.reset(options={"reset_mask": wanted})
        return wanted, seen

    def step(self, actions: np.ndarray) -> Stepped:
        """Act [n, A] in [-1, 1]; NaN leaves an environment as it is."""
        seen, reward, terminated, truncated, about = self.env.step(actions)
        final = seen.copy()
        for index in np.flatnonzero(terminated | truncated):  # which have begun their next episode by now
            final[index] = about["final_obs"][index]
        return Stepped(seen, reward, terminated, truncated, final)

    def close(self) -> None:
        self.env.close()


class BatchedSources:
    """A batched simulator for each run, whose environments follow each other: the first one's seeds end in 0."""

    def __init__(self, pair: OwnPair, seeds: Sequence[tuple[int, ...]], processes: str) -> None:
        firsts = [number for number, seed in enumerate(seeds) if number == 0 or seed[-1] == 0]
        self._parts = [slice(first, end) for first, end in zip(firsts, [*firsts[1:], len(seeds)], strict=True)]
        self._seeds, self._size = seeds, pair.spec.observation_size
        low, high = np.array(pair.action_low), np.array(pair.action_high)
        self.middle, self.half = 0.5 * (low + high), 0.5 * (high - low)  # of the range of actions
        self._batches: list[batched.Batch] = []
        try:
            for part in self._parts:
                self._batches.append(custom.open_batch(pair, part.stop - part.start, processes == "on"))
        except BaseException:
            self.close()
            raise

    def begin(
        self, wanted: np.ndarray, episodes: np.ndarray, spent: np.ndarray, all_new: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `VectorSources`, in all environments of a simulator at once; where an episode begins is its to say."""
        begun, seen = np.zeros(len(wanted), bool), np.zeros((len(wanted), self._size))
        for part, batch in zip(self._parts, self._batches, strict=True):
            if wanted[part].any():
                drawn = np.random.default_rng([*self._seeds[part.start], int(episodes[part.start])])
                seen[part] = batch.reset(int(drawn.integers(2**31)))
                begun[part] = True
        _refuse_broken(~np.isfinite(seen).all(axis=1), "after its reset")
        return begun, seen

    def step(self, actions: np.ndarray) -> Stepped:
        """Act [n, A] in [-1, 1]; where it is NaN, in the middle."""
        own = self.middle + np.nan_to_num(actions) * self.half
        steps = [batch.step(own[part]) for part, batch in zip(self._parts, self._batches, strict=True)]
        return self.judged(Stepped._make(_joined(column, len(actions)) for column in zip(*steps, strict=True)))

    @property
    def on_device(self) -> bool:
        """Whether all simulators step where JAX computes."""
        return all(batch.on_device for batch in self._batches)

    def advance(self, actions: Sequence[Any]) -> list[tuple[Any, ...]]:
        """As `step`, on the device: actions [n, A] for each simulator, in its own units, and what it gave."""
        given = []
        batches: list[Any] = self._batches
        for batch, own in zip(batches, actions, strict=True):
            wide, each = (batch.count, self._size), (batch.count,)
            names = ("observation", wide), ("reward", each), ("terminated", each), ("truncated", each)
            columns = zip(batch.advance(own), (*names, ("final_observation", wide)), strict=True)
            given.append(tuple(batched.expected(column, shape, name) for column, (name, shape) in columns))
        return given

    def judged(self, step: Stepped) -> Stepped:
        """What became of a step; it may have no numbers that are not finite but where an episode ended in them."""
        ended = step.terminated | step.truncated
        after = np.where(ended[:, None], step.final, step.observation)
        broken = ~(np.isfinite(after).all(axis=1) & np.isfinite(step.reward))
        _refuse_broken((broken & ~ended) | ~np.isfinite(step.observation).all(axis=1), "while its episode went on")
        return step._replace(truncated=step.truncated & ~step.terminated, broken=broken)

    def close(self) -> None:
        for batch in self._batches:
            batch.close()


def _joined(columns: tuple[np.ndarray | None, ...], count: int) -> np.ndarray:
    """A column of all simulators; flags that none of them gives are down."""
    given = [column for column in columns if column is not None]
    return np.concatenate(given) if given else np.zeros(count, bool)


def _refuse_broken(broken: Any, when: str) -> None:
    """What a simulator shows must be numbers; only an episode that it ends itself may have broken."""
    if broken.any():
        named = ", ".join(map(str, np.flatnonzero(broken)[:5]))
        raise ValueError(f"it gave numbers that are not finite {when}, in {broken.sum()} environments ({named} ...)")
