"""Bodies of a custom pair: sources together, in a vector environment or batched simulators, targets each alone.

A general environment cannot be saved. What is saved instead: which episode comes next, and target steps that were made
but not yet given out, because another body failed in the same call. After `load` every episode begins anew.
"""

import contextlib
import functools
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from .._util.cores import every
from .._util.errors import OffdynError
from .batched import Stepped
from .custom import EnvironmentFailed, OwnPair, factory_of, make
from .custom_env import Body, new_body
from .custom_sources import BatchedSources, VectorSources
from .domain import Rows

PROCESSES = ("auto", "on", "off")  # for source bodies: each in a process of its own?
# A step must take longer than this for a process to pay: an action and its row through a pipe took 0.25 ms on two busy
# cores (docs/custom-environments.md).
WORTH_A_PROCESS = 1e-3  # seconds
TRIED_STEPS = 20
PATIENCE = 2.0  # seconds of a reset after which we say that we wait


class Row(NamedTuple):
    """One step of one body, as `Rows` has them."""

    observation: np.ndarray
    action: np.ndarray
    reward: float
    next_observation: np.ndarray
    terminated: bool
    truncated: bool


class OwnBodies:
    """Many bodies of one pair, as `Domain` asks; an episode begins when its body is next looked at.

    So nobody has to put a machine back to its start for steps that never come.
    """

    def __init__(
        self, pair: OwnPair, roles: Sequence[str], seeds: Sequence[tuple[int, ...]], processes: str = "off"
    ) -> None:
        self.pair, self.spec = pair, pair.spec
        self.is_target = np.array([role == "target" for role in roles], bool)
        bodies = len(roles)
        self._place = np.where(self.is_target, np.cumsum(self.is_target), np.cumsum(~self.is_target)) - 1
        self._sources = np.flatnonzero(~self.is_target)
        self._seen = np.zeros((bodies, self.spec.observation_size))
        self._begun = np.zeros(bodies, bool)
        self._episodes = np.zeros(bodies, np.int64)  # begun so far
        self._spent = np.zeros(bodies, np.int64)
        self._made: dict[int, deque[Row]] = {}  # steps of target bodies that no call has given out yet
        self.divergences = np.zeros(bodies, np.int64)
        self.interrupted = np.zeros(
            bodies, bool
        )  # bodies whose newest row no limit cut: a stop did, or it repeats another
        self.say: Callable[[str], None] = lambda text: None
        self.heard: Callable[[int, Row], None] = lambda number, row: None  # told of each target step as it happens
        self._alone = {
            int(body): _opened(pair, "target", functools.partial(self._new, "target", seeds[int(body)]))
            for body in np.flatnonzero(self.is_target)
        }
        mine = [seeds[int(body)] for body in self._sources]
        self._together: VectorSources | BatchedSources | None = (
            _opened(pair, "source", lambda: self._open_sources(mine, processes)) if mine else None
        )
        # The newest transition of each source, which stands for one that a batched simulator did not make.
        self._newest: list[np.ndarray] = []
        self._has_newest = np.zeros(len(mine), bool)

    def _open_sources(self, seeds: Sequence[tuple[int, ...]], processes: str) -> VectorSources | BatchedSources:
        if self.pair.batch is not None:
            return BatchedSources(self.pair, seeds, processes)
        makers = [functools.partial(self._maker("source"), seeds=seed) for seed in seeds]
        return VectorSources(_vector(makers, processes))

    def _maker(self, role: str) -> Callable[..., gymnasium.Env]:
        pair = self.pair
        factory = factory_of(pair.reference(role), role)
        return functools.partial(new_body, factory, pair.interface, pair.time_limit, os.getpid())

    def _new(self, role: str, seeds: tuple[int, ...]) -> Body:
        env = make(self.pair.reference(role), role)
        return Body(env, self.pair.interface, self.pair.time_limit, seeds)

    @property
    def observation(self) -> np.ndarray:
        """[bodies, S] float64, what each body sees now."""
        return self.seen_by(np.arange(len(self._seen)))

    def seen_by(self, ids: np.ndarray) -> np.ndarray:
        """The same, of which only the rows of `ids` need be right: no other body begins its episode."""
        waiting = np.asarray(ids)[~self._begun[ids]]
        for body in waiting[self.is_target[waiting]]:
            if self._made.get(int(body)):
                self._seen[body] = self._made[int(body)][0].observation
            else:
                self._begin_alone(int(body))
        if len(sources := waiting[~self.is_target[waiting]]):
            self._begin_together(sources)
        return self._seen

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        """Start a new episode for these bodies when they are next looked at."""
        self._begun[ids] = False
        self._spent[ids] = elapsed

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        """Act once in each of these bodies: targets first, one after the other, then all sources."""
        ids, actions = np.asarray(ids), np.clip(np.asarray(actions, float), -1.0, 1.0)
        self.seen_by(ids)
        self.interrupted[ids] = False
        targets = np.flatnonzero(self.is_target[ids])
        for position in targets:
            made = self._made.setdefault(int(ids[position]), deque())
            if not made:
                made.append(self._step_alone(int(ids[position]), actions[position]))
        rows = [np.zeros((len(ids), size)) for size in (self.spec.observation_size, self.spec.action_size)]
        after, reward = np.zeros_like(rows[0]), np.zeros(len(ids))
        terminated, truncated = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        result = Rows(rows[0], rows[1], reward, after, terminated, truncated, np.zeros(len(ids), bool))
        sources = np.flatnonzero(~self.is_target[ids])
        if len(sources):
            stepped = self._step_together(ids[sources], actions[sources])
            for column, values in zip(result, stepped, strict=False):
                column[sources] = values
        for position in targets:
            body = int(ids[position])
            for column, value in zip(result, self._made[body].popleft(), strict=False):
                column[position] = value
            if not self._begun[body] and not self._made[body] and not (terminated[position] or truncated[position]):
                # The last step before a stop: its episode could not be saved.
                truncated[position] = self.interrupted[body] = True
        return result

    def put_back(self, body: int, rows: Sequence[Row]) -> None:
        """Steps this target body made before a stop: the next calls give these out before it acts again."""
        self._made[body] = deque(rows)

    def save(self) -> dict[str, np.ndarray]:
        """What can be: numbers of episodes, and target steps made but not given out."""
        made = [(body, row) for body, rows in self._made.items() for row in rows]
        saved = {"episodes": self._episodes.copy(), "made_by": np.array([body for body, _ in made], np.int64)}
        for index, name in enumerate(Row._fields):
            saved[f"made_{name}"] = np.array([row[index] for _, row in made], float)
        return saved

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Every episode begins anew."""
        self._episodes[:] = saved["episodes"]
        self._begun[:] = False
        self._spent[:] = 0
        self._made = {}
        for index, body in enumerate(saved["made_by"]):
            row = Row(*(saved[f"made_{name}"][index] for name in Row._fields))
            self._made.setdefault(int(body), deque()).append(
                row._replace(reward=float(row.reward), terminated=bool(row.terminated), truncated=bool(row.truncated))
            )

    def close(self) -> None:
        """Close every environment; one that cannot be closed stops nothing."""
        for env in (*self._alone.values(), self._together):
            if env is not None:
                try:
                    env.close()
                except Exception as error:
                    self.say(f"closing an environment of {self.pair.name}: {type(error).__name__}: {error}")

    def _begin_alone(self, body: int) -> None:
        env = self._alone[body]
        env.episode, env.spent = int(self._episodes[body]), int(self._spent[body])
        self._spent[body] = 0
        with _words(f"target {self.pair.target}, while it was reset"), self._waiting():
            self._seen[body], _ = env.reset()
        self._episodes[body] += 1
        self._begun[body] = True

    def _step_alone(self, body: int, action: np.ndarray) -> Row:
        env = self._alone[body]
        with _words(f"target {self.pair.target}, step {env.elapsed + 1} of episode {self._episodes[body]}"):
            after, reward, terminated, truncated, _ = env.step(action)
        row = Row(self._seen[body].copy(), action, reward, after, terminated, truncated)
        self.heard(int(self._place[body]), row)
        self._seen[body] = after
        self._begun[body] = not (terminated or truncated)
        return row

    def _begin_together(self, sources: np.ndarray) -> None:
        assert self._together is not None
        mask = np.zeros(len(self._sources), bool)
        mask[self._place[sources]] = True
        of_sources = self._episodes[self._sources], self._spent[self._sources]
        with _words(f"source {self.pair.source}, while it was reset"):
            mask, seen = self._together.begin(mask, *of_sources, not self._begun[self._sources].any())
        chosen = self._sources[mask]
        self._seen[chosen] = seen[mask]
        self._spent[chosen] = 0
        self._episodes[chosen] += 1
        self._begun[chosen] = True

    def _step_together(self, sources: np.ndarray, actions: np.ndarray) -> Sequence[np.ndarray]:
        assert self._together is not None
        place = self._place[sources]
        everyones = np.full((len(self._sources), self.spec.action_size), np.nan)  # NaN: stay
        everyones[place] = actions
        before = self._seen[sources]
        with _words(f"source {self.pair.source}"):
            step = self._together.step(everyones)
            after = np.where((step.terminated | step.truncated)[:, None], step.final, step.observation)
            self._seen[self._sources] = step.observation
            rows = [before, actions, step.reward, after, step.terminated, step.truncated]
            rows[2:] = (column[place] for column in rows[2:])
            return self._noted(sources, step, rows)

    @property
    def on_device(self) -> bool:
        """Whether the sources can step there, all at once: `advance`, then `told`, in place of `step`."""
        return isinstance(self._together, BatchedSources) and self._together.on_device

    @property
    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Middle and half width [A] of the sources' actions, in their own units."""
        assert isinstance(self._together, BatchedSources)
        return self._together.middle, self._together.half

    def advance(self, actions: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Act in every source, on the device; what they show from then on is not known here."""
        assert isinstance(self._together, BatchedSources)
        with _words(f"source {self.pair.source}"):
            return self._together.advance(actions)

    def told(self, step: Callable[[], Stepped]) -> Rows:
        """Note what the newest `advance` led to, in `step` one column stands for an observation; rows without any."""
        assert isinstance(self._together, BatchedSources)
        self.interrupted[self._sources] = False
        nothing = np.zeros((len(self._sources), 0))
        with _words(f"source {self.pair.source}"):
            made = self._together.judged(step())
            rows = [nothing, nothing, made.reward, nothing, made.terminated, made.truncated]
            return Rows(*self._noted(self._sources, made, rows))

    def _noted(self, sources: np.ndarray, step: Stepped, rows: list[np.ndarray]) -> list[np.ndarray]:
        """Count episodes; the rows, those that were not made replaced."""
        self._episodes[self._sources[step.terminated | step.truncated]] += 1
        if step.idle is None or step.broken is None:
            return rows
        self.divergences[self._sources] += step.broken
        return [*rows, self._replace_missing(sources, rows, step.idle | step.broken)]

    def _replace_missing(self, sources: np.ndarray, rows: list[np.ndarray], missing: np.ndarray) -> np.ndarray:
        """In place of transitions that were not made, the newest of the same environment; which those are."""
        place = self._place[sources]
        lost = missing[place]
        if not self._has_newest[place[lost]].all():
            raise ValueError("it gave numbers that are not finite in its first step")
        if not self._newest:
            self._newest = [np.zeros((len(self._sources), *column.shape[1:])) for column in rows]
        for newest, column in zip(self._newest, rows, strict=True):
            column[lost] = newest[place[lost]]
            newest[place] = column
        self._has_newest[place] = True
        self.interrupted[sources] = lost
        return lost

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        timer = threading.Timer(PATIENCE, self.say, [f"waiting for the target {self.pair.target} to be reset ..."])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextlib.contextmanager
def _words(where: str) -> Iterator[None]:
    try:
        yield
    except OffdynError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailed(f"{where}: {type(error).__name__}: {error}") from error


def _opened(pair: OwnPair, role: str, make_it: Callable[[], Any]) -> Any:
    with _words(f"{role} {pair.reference(role)}, while it was made"):
        try:
            return make_it()
        except OffdynError as error:
            raise OffdynError(f"{role} {pair.reference(role)}: {error}") from None


def _vector(makers: Sequence[Callable[[], gymnasium.Env]], processes: str) -> gymnasium.vector.VectorEnv:
    """In this process, or each body in its own where that was asked for or pays."""
    apart = processes == "on" or (processes == "auto" and _pays(makers))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that our bodies' infinite bounds are infinite
        if not apart:
            return SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
        # Not "fork": the learner's threads would be copied in the middle of whatever they do.
        return AsyncVectorEnv(makers, copy=False, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)


def _pays(makers: Sequence[Callable[[], gymnasium.Env]]) -> bool:
    """Where a step is long, and there are cores to spare or it only waits for something else."""
    if len(makers) < 2 or not _main_can_be_imported_again():
        return False
    env = makers[0]()
    try:
        env.reset()
        start, worked = time.perf_counter(), time.thread_time()
        for _ in range(TRIED_STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        took, worked = time.perf_counter() - start, time.thread_time() - worked
        spare = len(every()) > 2 or worked < took / 2
        return spare and took / TRIED_STEPS > WORTH_A_PROCESS
    finally:
        env.close()


def _main_can_be_imported_again() -> bool:
    """A new process imports the program it belongs to; a user's script might train once more when imported."""
    main = sys.modules["__main__"]
    program = getattr(main, "__file__", None)
    return program is None or main.__spec__ is not None or Path(program).name == "offdyn"
