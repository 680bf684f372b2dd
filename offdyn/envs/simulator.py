"""Steps many bodies of one robot at once, source and target bodies in one call: rows in, rows out."""

import ctypes
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch

from .._util.cores import every
from .._util.errors import OffdynError
from .domain import Rows
from .quantities import compiled
from .tasks import Task

BODIES_PER_THREAD = 2  # with fewer, handing work to a thread costs what the thread brings
# The warnings after which MuJoCo puts a body back to its default pose and goes on as if nothing had happened.
UNSTABLE = slice(mujoco.mjtWarning.mjWARN_BADQPOS.value, mujoco.mjtWarning.mjWARN_BADQACC.value + 1)


class Simulator:
    """Bodies on `mujoco.batch.Batch`, as `Domain` asks: body i is of `tasks[i]` and draws from `seeds[i]`.

    Episode e of body i starts as `np.random.default_rng([*seeds[i], e])` says; e counts the starts of that body, the
    first of which is made here. What a body does depends on nothing but its task, its seeds and its actions: not on its
    neighbours, the subsets they were stepped in, or the number of threads. `ids` may come in any order, each body at
    most once. Every array handed out is the caller's to keep: no later call changes it.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seeds: Sequence[tuple[int, ...]],
        *,
        threads: int | None = None,
        time_limit: int | None = None,
        halve_margins: bool = True,
    ) -> None:
        _check_bodies(tasks, seeds)
        self.tasks, self.seeds, self.robot = tuple(tasks), tuple(seeds), tasks[0].robot
        self.time_limit = self.robot.spec.time_limit if time_limit is None else time_limit
        if self.time_limit < 1:
            raise OffdynError(f"time_limit is {self.time_limit}; an episode needs at least 1 step")
        self.spec = self.robot.spec._replace(time_limit=self.time_limit)
        models = _compile(self.tasks, halve_margins)
        stop_the_clock()
        bodies, observation, action = len(tasks), self.spec.observation_size, self.spec.action_size

        threads = threads or max(1, min(len(every()), bodies // BODIES_PER_THREAD))
        self._batch = Batch(models[0], nsim=bodies, nthread=threads)
        self._batch.set_models(models)
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        # Live views: a write is the body's state at its next step.
        self._state, self._ctrl = self._batch.state, self._batch.bind("ctrl")
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._x_now = self._qpos[:, 0]
        if self.robot.measured_at_torso:
            self._x_now = self._batch.bind("xpos")[:, models[0].body("torso").id, 0]
        self._unstable = self._batch.warning[:, UNSTABLE, 1]  # counts
        self._at_rest = self._state.copy()

        self._x = np.zeros(bodies)  # metres along x when the body last acted or started
        self._elapsed = np.zeros(bodies, np.int64)
        self._episodes = np.zeros(bodies, np.int64)  # started so far
        # observation, action, reward, next observation, terminated, truncated; NaN until the body has a good row
        self._last_good = np.full((bodies, 2 * observation + action + 3), np.nan)
        edges = np.cumsum([0, observation, action, 1, observation, 2]).tolist()
        self._columns = [slice(first, last) for first, last in pairwise(edges)]
        self._observation = np.zeros((bodies, observation))
        self._divergences = np.zeros(bodies, np.int64)
        self.divergences = self._divergences.copy()
        self.reset(np.arange(bodies))

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        """Start the next episode of these bodies, of which `elapsed` steps count as spent already."""
        ids = np.asarray(ids)
        self._sorted(ids)
        if np.any(np.less(elapsed, 0) | np.greater_equal(elapsed, self.time_limit)):
            raise OffdynError(f"reset: elapsed is {elapsed}; the time limit of {self.time_limit} allows 0 to one less")
        self._start(ids)
        self._elapsed[ids] = elapsed
        self.observation = self._observation.copy()

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        """Act once in each of these bodies; those whose episode ends start the next one in the same call.

        Actions are clipped to [-1, 1]. A non-finite one is refused before any body moves. A body whose physics breaks
        starts its next episode too, and its row is its last good one again; without one yet, the task is refused.
        """
        ids, actions = np.asarray(ids), np.asarray(actions)
        in_order = self._sorted(ids)
        self._check_actions(ids, actions)
        # Slices are views where index arrays are copies: faster when all bodies step, in their own order.
        every = len(ids) == len(self._x) and in_order is ids
        at = slice(None) if every else ids
        table = np.empty((len(ids), self._last_good.shape[1]))
        observation, action, reward, following, ends = (table[:, columns] for columns in self._columns)

        observation[...] = self._observation[at]
        np.minimum(np.maximum(actions, -1.0), 1.0, out=action)
        self._ctrl[at] = action
        with quiet_when_unstable():
            self._batch.step(None if every else in_order, nstep=self.robot.frame_skip)

        qpos, qvel, x = self._qpos[at], self._qvel[at], self._x_now[at]
        diverged = self._divergence(at, qpos, qvel)
        broke = bool(diverged.any())
        if broke:  # such numbers may be infinite: compute with zeros, and replace the row below
            qpos, qvel, x = qpos.copy(), qvel.copy(), x.copy()
            qpos[diverged], qvel[diverged], x[diverged] = 0.0, 0.0, 0.0
        following[...] = self.robot.observe(qpos, qvel)
        reward[:, 0] = self.robot.reward(x - self._x[at], action)
        self._x[at] = x
        self._elapsed[at] += 1
        terminated = self.robot.terminated(qpos, qvel)
        ended = terminated | (self._elapsed[at] >= self.time_limit) | diverged
        ends[:, 0] = terminated
        ends[:, 1] = ended & ~terminated
        if broke:
            table[diverged] = self._repeated(ids[diverged])
        self._last_good[at] = table

        self._observation[at] = following
        if ended.any():
            self._start(ids[ended])
        self.observation = self._observation.copy()
        return Rows(observation, action, reward[:, 0], following, ends[:, 0] != 0, ends[:, 1] != 0, diverged)

    def save(self) -> dict[str, np.ndarray]:
        """All state, bit for bit."""
        return {name: array.copy() for name, array in self._saved().items()}

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take back what `save` gave, on a simulator with the same tasks, seeds and time limit."""
        mine = self._saved()
        if set(saved) != set(mine):
            raise OffdynError(f"load: expected the entries {sorted(mine)}, got {sorted(saved)}")
        for name, array in mine.items():
            if saved[name].shape != array.shape or saved[name].dtype != array.dtype:
                raise OffdynError(
                    f"load: {name} is {saved[name].dtype}{saved[name].shape}, this simulator needs "
                    f"{array.dtype}{array.shape}: it was saved with other bodies; build the simulator as it was then"
                )
        for name, array in mine.items():
            array[...] = saved[name]
        self.divergences = self._divergences.copy()
        self._observation[...] = self.robot.observe(self._qpos, self._qvel)
        self.observation = self._observation.copy()

    def close(self) -> None:
        """Give back threads and memory; the simulator cannot be used afterwards."""
        for name in ("_batch", "_state", "_ctrl", "_qpos", "_qvel", "_x_now", "_unstable"):
            self.__dict__.pop(name, None)

    def _saved(self) -> dict[str, np.ndarray]:
        return {
            "state": self._state,
            "x": self._x,
            "elapsed": self._elapsed,
            "episodes": self._episodes,
            "last_good": self._last_good,
            "divergences": self._divergences,
        }

    def _start(self, ids: np.ndarray) -> None:
        self._state[ids] = self._at_rest[ids]
        for body in ids.tolist():
            rng = np.random.default_rng([*self.seeds[body], int(self._episodes[body])])
            positions, velocities = self.robot.start(rng)
            self._qpos[body] += positions
            self._qvel[body] += velocities
        self._episodes[ids] += 1
        self._elapsed[ids] = 0
        self._x[ids] = self._qpos[ids, 0]  # of the ant too: its torso is where its free joint is
        self._observation[ids] = self.robot.observe(self._qpos[ids], self._qvel[ids])

    def _divergence(self, at: slice | np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Which of the bodies just stepped MuJoCo has put back, or would put back at the start of the next step."""
        limit = mujoco.mjMAXVAL
        if not self._unstable.any() and np.abs(qpos).max() <= limit and np.abs(qvel).max() <= limit:
            return np.zeros(len(qpos), bool)
        within = (np.abs(qpos) <= limit).all(axis=1) & (np.abs(qvel) <= limit).all(axis=1)
        diverged = self._unstable[at].any(axis=1) | ~within
        self._unstable[...] = 0
        return diverged

    def _repeated(self, broken: np.ndarray) -> np.ndarray:
        rows = self._last_good[broken]
        without = broken[np.isnan(rows[:, -1])]
        if len(without):
            raise OffdynError(
                f"task '{self.tasks[without[0]].name}': the physics of {self._body(without[0])} broke on its very "
                "first step: the shift is unphysical; make its factors milder"
            )
        self._divergences[broken] += 1
        self.divergences = self._divergences.copy()
        return rows

    def _body(self, number: int) -> str:
        """By its seeds too: its number is another one wherever bodies are dealt out among simulators."""
        return f"body {number}, seeds {self.seeds[number]},"

    def _sorted(self, ids: np.ndarray) -> np.ndarray:
        """`ids` in rising order, as MuJoCo wants them; the very same array where it rises already."""
        in_order = ids
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) == 0:
            raise OffdynError(f"ids must be a list of at least one body's number, got {ids.dtype}{ids.shape}")
        if (ids[1:] <= ids[:-1]).any():
            in_order = np.sort(ids)
            if (in_order[1:] == in_order[:-1]).any():
                raise OffdynError(f"ids names a body twice: {ids.tolist()}; each body acts at most once per call")
        if in_order[0] < 0 or in_order[-1] >= len(self._x):
            raise OffdynError(f"ids must lie in 0 to {len(self._x) - 1}, got {in_order[0]} to {in_order[-1]}")
        return in_order

    def _check_actions(self, ids: np.ndarray, actions: np.ndarray) -> None:
        if actions.shape != (expected := (len(ids), self.spec.action_size)):
            raise OffdynError(f"step: actions have shape {actions.shape}, expected {expected}: a row per stepped body")
        if not np.isfinite(actions).all():
            body = ids[~np.isfinite(actions).all(axis=1)][0]
            raise OffdynError(
                f"step: the action of {self._body(body)} (task '{self.tasks[body].name}') is not finite: "
                f"{actions[ids == body][0]}; feed zeros to a body whose policy has failed"
            )


def _check_bodies(tasks: Sequence[Task], seeds: Sequence[tuple[int, ...]]) -> None:
    if not tasks or len(tasks) != len(seeds):
        raise OffdynError(f"a simulator needs one task and one seed tuple per body, got {len(tasks)} and {len(seeds)}")
    if len(robots := sorted({task.robot.name for task in tasks})) > 1:
        raise OffdynError(f"one simulator steps bodies of one robot, got {', '.join(robots)}: build one for each")


def _compile(tasks: Sequence[Task], halve_margins: bool) -> list[mujoco.MjModel]:
    """One model per body, shared by the bodies of equal tasks."""
    distinct: list[Task] = []
    for task in tasks:
        if task not in distinct:
            distinct.append(task)
    models = [lean_model(task, halve_margins) for task in distinct]
    return [models[distinct.index(task)] for task in tasks]


def lean_model(task: Task, halve_margins: bool = True) -> mujoco.MjModel:
    """A task's body for many steps: it moves as `Task.model` does, bit for bit, and MuJoCo has less to do for it."""
    plain, spec = task.model(halve_margins), task.spec()
    for number, geom in enumerate(spec.geoms):
        geom.name = f"geom {number}"  # a pair goes by names
        geom.contype = geom.conaffinity = 0
    one, other = _may_touch(plain)
    for first, second in zip(one.tolist(), other.tolist(), strict=True):
        spec.add_pair(geomname1=f"geom {first}", geomname2=f"geom {second}")
    model = compiled(spec)
    # What MuJoCo works out for two geoms that it finds touching, of equal priority and weight.
    model.pair_dim[:] = np.maximum(plain.geom_condim[one], plain.geom_condim[other])
    model.pair_friction[:] = np.maximum(plain.geom_friction[one], plain.geom_friction[other])[:, [0, 0, 1, 2, 2]]
    model.pair_solref[:] = (plain.geom_solref[one] + plain.geom_solref[other]) / 2
    model.pair_solimp[:] = (plain.geom_solimp[one] + plain.geom_solimp[other]) / 2
    model.pair_margin[:] = plain.geom_margin[one] + plain.geom_margin[other]
    # A robot is one island: to look for others takes 5 to 8 % of a step, and finds none.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND.value
    return model


def _may_touch(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Which two geoms may ever meet, by MuJoCo's rules. To find them in every step takes 5 to 13 % of it."""
    one, other = np.triu_indices(model.ngeom, 1)
    bits, affinity = model.geom_contype, model.geom_conaffinity
    meant = (bits[one] & affinity[other]) | (bits[other] & affinity[one])
    rigid = model.body_weldid[model.geom_bodyid]  # the body that a geom moves with
    parent = model.body_weldid[model.body_parentid[rigid]]
    joined = (parent[one] == rigid[other]) | (parent[other] == rigid[one])
    joined &= (rigid[one] != 0) & (rigid[other] != 0)  # whatever hangs from the world may still touch it
    chosen = (meant != 0) & (rigid[one] != rigid[other]) & ~joined
    return one[chosen], other[chosen]


def stop_the_clock() -> None:
    """In this process MuJoCo fills its timers no more, which nobody reads here and which take 9 to 14 % of a step.

    Its bindings can only put another clock in place of theirs, so that the pointer is cleared by its name. A clock that
    a user has set is left alone.
    """
    if mujoco.get_mjcb_time() is None:
        for library in Path(mujoco.__file__).parent.glob("libmujoco.*"):
            with suppress(OSError, ValueError):
                ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None


_lock = threading.Lock()
_calls = 0  # now inside `quiet_when_unstable`, in all Python threads


def _say_unless_counted(message: str) -> None:
    if "simulation is unstable" not in message:
        print(f"MuJoCo: {message}", file=sys.stderr)


@contextmanager
def quiet_when_unstable() -> Iterator[None]:
    """Keep MuJoCo from printing, and from writing MUJOCO_LOG.TXT, about what the simulator counts.

    The warning handler is the process's: ours is there only meanwhile, and never in place of a user's own.
    """
    global _calls
    with _lock:
        if _calls == 0 and mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(_say_unless_counted)
        _calls += 1
    try:
        yield
    finally:
        with _lock:
            _calls -= 1
            if _calls == 0 and mujoco.get_mju_user_warning() is _say_unless_counted:
                mujoco.set_mju_user_warning(None)
