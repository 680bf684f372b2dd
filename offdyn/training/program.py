"""What a cohort runs on its devices: one lane's function mapped over all, the learner that sends it, sources in JAX.

A cohort's state is one pytree with a leading lane axis. `step` counters are shared by all lanes and never mapped, so
that a branch on them stays a branch.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._util.errors import OffdynError
from .._util.types import SOURCE, Array, Context, Present, Spec
from ..algos import sac as core
from ..algos.method import Method, Metrics
from ..algos.networks import Trained
from ..algos.sac import Agent, Sac, hook_key
from ..data.replay import Moments, Replay, no_moments
from ..data.transition import pack, row_width
from ..envs.batched import Stepped, flags
from ..envs.custom_batch import OwnBodies
from ..envs.domain import Rows
from .config import RunConfig

if TYPE_CHECKING:
    from .hardware import Devices

DIAGNOSED_ROWS = 256  # newest and held-out target rows that `diagnose` looks at
READ = 2**22  # bytes of transitions that the host reads back at a time
KEPT_TICKS = 100  # between two copies of what is learned, to which a lane that fails falls back


class Lane(NamedTuple):
    """All that one run learns, as the device holds it."""

    agent: Agent
    others: tuple[Agent, ...]  # further members, where the method has some
    learned: Any
    sac: Sac
    hyper: Any
    moments: Moments | None
    present: Present | None  # where the robot is padded
    sums: Array  # [metrics], each summed over the updates since the last log
    # The first metric that was not finite, counted from 1, and the update at which; 0 while all is well.
    fault: Array  # [2] int32


class Experience(NamedTuple):
    """The rows of a cohort, [lanes, capacity, width]; sizes and positions are kept by the host."""

    source: Array  # [rows, width] where it is a dataset
    target: Array


def fresh_lane(method: Method, spec: Spec, key: Array, sac: Sac, hyper: Any, metrics: int = 0) -> Lane:
    """A lane that has learned nothing yet."""
    key, normalises = hook_key(key, "init"), sac.normalise_observations
    sac, hyper = (jax.tree.map(partial(jnp.asarray, dtype=jnp.float32), x) for x in (sac, hyper))
    numbers = range(2, 2 + len(method.others))
    return Lane(
        agent=core.init(hook_key(key, "agent"), sac, spec),
        others=tuple(core.init(hook_key(key, f"agent {number}"), sac, spec) for number in numbers),
        learned=method.init(hook_key(key, "method"), hyper, spec, sac),
        sac=sac,
        hyper=hyper,
        moments=no_moments(spec) if normalises else None,
        present=spec.present,
        sums=jnp.zeros(metrics),
        fault=jnp.zeros(2, jnp.int32),
    )


class Programs:
    """Compiled once per cohort shape; every call takes and gives whole cohorts."""

    def __init__(
        self,
        method: Method,
        spec: Spec,
        sac: Sac,
        hyper: Any,
        learns_from: str,
        updates: int,
        *,
        shared_source: bool = False,
        random_until: int = 0,  # on the clock: actions are uniform before
        head_start: bool = False,  # the source is learned from alone while there are no target transitions
    ) -> None:
        self.method, self.spec, self.learns_from, self.updates = method, spec, learns_from, updates
        self.random_until, self.head_start = random_until, head_start
        self.full_products = sac.precision == "full"
        self.diagnosed_rows = DIAGNOSED_ROWS
        one = jax.eval_shape(lambda: self._lane(jax.random.key(0), sac, hyper, spec.present, 0))
        width = row_width(spec)
        replay = jax.ShapeDtypeStruct((1, width), jnp.float32)
        size = jax.ShapeDtypeStruct((), jnp.int32)
        metrics = jax.eval_shape(self._metrics, jax.random.key(0), one, replay, replay, size, size, size)
        self.metrics = sorted(metrics)  # names in the order of `sums`
        self.faults = [*self.metrics, "network"]  # what a lane's fault can be
        held_out = jax.ShapeDtypeStruct((DIAGNOSED_ROWS, width), jnp.float32)
        weight = jax.ShapeDtypeStruct((DIAGNOSED_ROWS,), jnp.float32)
        self.diagnostics = sorted(
            jax.eval_shape(self._diagnose, jax.random.key(0), one, replay, replay, size, size, size, held_out, weight)
        )
        self.init = jax.jit(jax.vmap(partial(self._lane, metrics=len(self.metrics))))
        self.act = jax.jit(jax.vmap(self._computed(self._act), in_axes=(0, 0, 0, 0, None, 0)))
        self.store = jax.jit(jax.vmap(self._store, in_axes=(0, 0, None)), donate_argnums=0)
        self.read = jax.jit(lambda rows, at: rows[:, at])
        self.observe = jax.jit(jax.vmap(self._observe), donate_argnums=0)
        source_axis = None if shared_source else 0  # a dataset is one copy for all lanes
        axes = (0, 0, source_axis, 0, None, None, None)
        self.learn = jax.jit(jax.vmap(self._computed(self._learn), in_axes=(*axes, 0)), donate_argnums=1)
        self.keep = jax.jit(jax.vmap(self._keep), donate_argnums=1)
        self.settle = jax.jit(jax.vmap(self._settle))
        self.diagnose = jax.jit(jax.vmap(self._computed(self._diagnose), in_axes=(*axes, 0, 0)))
        self.clear = jax.jit(lambda lanes: lanes._replace(sums=jnp.zeros_like(lanes.sums)), donate_argnums=0)

    def _computed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """With products in full float32 where they are asked for: a GPU's own way rounds their factors."""

        @wraps(function)  # a program is known by its name, in the cache and in traces
        def computed(*arguments: Any) -> Any:
            with jax.default_matmul_precision("highest") if self.full_products else nullcontext():
                return function(*arguments)

        return computed

    def _lane(self, key: Array, sac: Sac, hyper: Any, present: Present | None, metrics: int) -> Lane:
        return fresh_lane(self.method, self.spec._replace(present=present), key, sac, hyper, metrics)

    def _spec(self, lane: Lane) -> Spec:
        return self.spec._replace(present=lane.present)

    def _seen(self, lane: Lane, observation: Array) -> Array:
        return observation if lane.moments is None else lane.moments.normalise(observation)

    def _act(
        self, key: Array, lane: Lane, source_seen: Array, target_seen: Array, clock: Array, member: Array
    ) -> tuple[Array, Array, Array]:
        """Actions for the source bodies [b, A] and, of one member, for the target body [1, A], and the lane's fault."""
        key = jax.random.fold_in(key, clock)
        sac, spec = lane.sac, self._spec(lane)
        context = Context(
            spec, lane.agent, lane.learned, sac, lane.hyper, hook_key(key, "explore"), clock, lane.moments
        )
        observation = self._seen(lane, source_seen)
        if self.method.explore is None:
            source, _ = core.act(lane.agent.actor.value, observation, context.key, sac, spec, SOURCE)
        else:
            source = self.method.explore(observation, context)
        source = _noisy(source, sac.source_noise, hook_key(key, "source noise"))
        acting = lane.agent.actor.value
        for number, other in enumerate(lane.others, 1):
            acting = jax.tree.map(partial(jnp.where, member == number), other.actor.value, acting)
        target, _ = core.act(acting, self._seen(lane, target_seen), hook_key(key, "target action"), sac, spec)
        target = _noisy(target, sac.target_noise, hook_key(key, "target noise"))
        if self.random_until:
            source, target = (
                jnp.where(clock < self.random_until, self._uniform(hook_key(key, name), action, spec), action)
                for name, action in (("random source actions", source), ("random target action", target))
            )
        return source, target, lane.fault

    def _uniform(self, key: Array, like: Array, spec: Spec) -> Array:
        drawn = jax.random.uniform(key, like.shape, minval=-1.0)
        return drawn if spec.present is None else drawn * spec.present.action

    def _store(self, rows: Array, new: Array, position: Array) -> Array:
        return jax.lax.dynamic_update_slice(rows, new, (position, 0))

    def _observe(self, moments: Moments, new: Array) -> Moments:
        return moments.include(new[:, : self.spec.observation_size])

    def _metrics(
        self, key: Array, lane: Lane, source: Array, target: Array, source_size: Array, target_size: Array, step: Array
    ) -> Metrics:
        return self._update(key, lane, source, target, source_size, target_size, step)[-1]

    def _update(
        self, key: Array, lane: Lane, source: Array, target: Array, source_size: Array, target_size: Array, step: Array
    ) -> tuple[Agent, tuple[Agent, ...], Any, Metrics]:
        spec = self._spec(lane)
        of_source = Replay(source, source_size, spec, lane.moments, SOURCE)
        of_target = Replay(target, target_size, spec, lane.moments, while_empty=of_source if self.head_start else None)
        replays = of_source, of_target
        shared: dict[str, Any] = {"sac": lane.sac, "spec": spec, "key": jax.random.fold_in(key, step), "step": step}
        agent, learned, metrics = core.update(
            lane.agent,
            lane.learned,
            *replays,
            method=self.method,
            learns_from=self.learns_from,
            hyper=lane.hyper,
            **shared,
        )
        others, more = core.update_others(lane.others, self.method.others, *replays, **shared)
        return agent, others, learned, metrics | more

    def _learn(
        self,
        key: Array,
        lane: Lane,
        source: Array,
        target: Array,
        source_size: Array,
        target_size: Array,
        first: Array,
        alive: Array,
    ) -> Lane:
        """A tick's updates, the first of them number `first`. Only a living lane can have a new fault."""

        def one(carry: Lane, step: Array) -> tuple[Lane, Array]:
            agent, others, learned, metrics = self._update(key, carry, source, target, source_size, target_size, step)
            return carry._replace(agent=agent, others=others, learned=learned), jnp.stack(
                [metrics[name] for name in self.metrics]
            )

        after, measured = jax.lax.scan(one, lane, first + jnp.arange(self.updates))
        bad = ~jnp.isfinite(measured)  # [updates, metrics]
        update = jnp.argmax(bad.any(1))
        by_metric = jnp.stack((jnp.argmax(bad[update]) + 1, first + update))
        # A gradient can break a network whose loss was finite.
        by_network = jnp.stack((jnp.asarray(len(self.faults)), first + self.updates - 1))
        found = jnp.where(bad.any(), by_metric, jnp.where(_finite(_networks(after)), 0, by_network)).astype(jnp.int32)
        fault = jnp.where(alive & (lane.fault[0] == 0), found, lane.fault)
        return after._replace(sums=lane.sums + measured.sum(0), fault=fault)

    def _keep(self, lane: Lane, kept: Lane, alive: Array) -> Lane:
        """The lane if all of it is well, else what was kept of it before."""
        good = alive & (lane.fault[0] == 0) & _finite((lane.agent, lane.others, lane.learned))
        return self._settle(lane, kept, good)

    def _settle(self, lane: Lane, kept: Lane, alive: Array) -> Lane:
        """The lane, or what was kept of it where it has failed; the fault stays on record."""
        settled: Lane = jax.tree.map(lambda now, before: jnp.where(alive, now, before), lane, kept)
        return settled._replace(fault=lane.fault)

    def _diagnose(
        self,
        key: Array,
        lane: Lane,
        source: Array,
        target: Array,
        source_size: Array,
        target_written: Array,  # rows ever stored, also those overwritten since
        step: Array,
        held_out: Array,
        held_out_weight: Array,
    ) -> Metrics:
        key = hook_key(jax.random.fold_in(key, step), "diagnose")
        filled = jnp.clip(target_written, 1, target.shape[0])  # a run without a target has one empty row
        spec = self._spec(lane)
        replay = Replay(target, filled, spec, lane.moments)
        count = min(DIAGNOSED_ROWS, target.shape[0])
        newest = target[(target_written - 1 - jnp.arange(count)) % filled]
        context = Context(spec, lane.agent, lane.learned, lane.sac, lane.hyper, key, step, lane.moments)
        return self.method.diagnose(
            Replay(source, source_size, spec, lane.moments, SOURCE),
            replay,
            replay.view(newest),
            replay.view(held_out)._replace(weight=held_out_weight),
            context,
        )


def _noisy(action: Array, deviation: Array, key: Array) -> Array:
    return jnp.clip(action + deviation * jax.random.normal(key, action.shape), -1.0, 1.0)


def _networks(lane: Lane) -> list[Any]:
    """Every trained network of a lane, without its optimiser's memory and slow copies: those break after it."""
    trained = jax.tree.leaves((lane.agent, lane.others, lane.learned), is_leaf=lambda node: isinstance(node, Trained))
    return [node.value for node in trained if isinstance(node, Trained)]


def _finite(arrays: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(arrays)]).all()


def run_keys(seeds: list[int]) -> Array:
    """One key per run, from its seed alone."""
    return jax.vmap(jax.random.key)(jnp.asarray(np.asarray(seeds, np.uint32)))


def lane_settings(runs: Sequence[RunConfig]) -> tuple[Any, Any, Any]:
    """The runs' scalars for `init`: of SAC, of the method, and of their robots, each float a [lanes] array."""
    parts = [[run.sac for run in runs], [run.hyper for run in runs], [run.spec.present for run in runs]]
    sac, hyper, present = (jax.tree.map(lambda *values: np.asarray(values, np.float32), *part) for part in parts)
    return sac, hyper, present


class Learner:
    """Everything that some runs learn, and from what: their lanes and transitions on the devices.

    To send the updates of one tick, some hundred kernels, takes a host 2 to 3 ms. A thread of its own does it, while
    the one that trains hands out actions and waits for environments. Whoever asks for the lanes waits for that thread.
    """

    def __init__(self, runs: Sequence[RunConfig], devices: "Devices") -> None:
        first = runs[0]
        self.spec, self.lanes_count = first.spec, len(runs)
        self.devices = devices
        shared_source = first.schedule.source_data is not None
        programs = Programs(
            first.recipe.method,
            self.spec,
            first.sac,
            first.hyper,
            first.schedule.learns_from,
            first.schedule.updates_per_tick,
            shared_source=shared_source,
            random_until=first.schedule.random_steps * first.schedule.source_steps_per_target_step,
            head_start=first.schedule.head_start > 0,
        )
        self.programs = self.devices.spread(programs, shared_source)
        self.keys = self.devices.deal(run_keys([run.seed for run in runs]))
        self._sender = ThreadPoolExecutor(1, "offdyn-sender")
        self._sending: Future[None] | None = None
        self.lanes = self.programs.init(self.keys, *lane_settings(runs))
        self.kept: Lane | None = None  # the lanes as they were when last known to be well
        # Transitions that are read back at a time: as many as are surely there, of which a tick's are a divisor.
        tick, most = max(first.schedule.source_env_count, 1), first.schedule.capacities[0]
        self.block = max(min(READ // (4 * self.lanes_count * row_width(self.spec)), most) // tick, 1) * tick
        shapes = ((self.lanes_count, rows, row_width(self.spec)) for rows in first.schedule.capacities)
        self.experience = Experience(*map(self.devices.zeros, shapes))

    @property
    def lanes(self) -> Lane:
        self._wait_until_sent()
        return self._lanes

    @lanes.setter
    def lanes(self, lanes: Lane) -> None:
        self._lanes = lanes

    @property
    def experience(self) -> Experience:
        """All rows. The newest are sent to the device when they are wanted: by the updates, beside the physics."""
        self._wait_until_sent()
        self._send_rows()
        return self._experience

    @experience.setter
    def experience(self, rows: Experience) -> None:
        self._experience = rows
        self._unsent: list[tuple[str, np.ndarray | Array, int]] = []  # (role, rows [lanes, n, width], where they begin)

    def _wait_until_sent(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def take(self, dataset: np.ndarray) -> None:
        """It is the source: one copy for all lanes, and its moments, where observations are normalised."""
        self.experience = self.experience._replace(source=self.devices.share(dataset))
        if self.lanes.moments is not None:
            observations = jnp.asarray(dataset[:, : self.spec.observation_size])
            moments = no_moments(self.spec).include(observations)
            self.lanes = self.lanes._replace(
                moments=jax.tree.map(lambda x: jnp.repeat(x[None], self.lanes_count, axis=0), moments)
            )

    def store(self, role: str, new: np.ndarray | Array, position: int) -> None:
        """New rows [lanes, n, width], from this position on."""
        self._wait_until_sent()
        if any(role == waiting for waiting, _, _ in self._unsent):  # of a tick without updates
            self._send_rows()
        self._unsent.append((role, new, position))

    def newest(self, written: int, count: int) -> np.ndarray:
        """The last `count` of so many source transitions that were stored, [lanes, count, width]."""
        rows = self.experience.source
        at = np.arange(written - self.block, written) % rows.shape[1]
        return np.asarray(self.programs.read(rows, at.astype(np.int32)))[:, self.block - count :]

    def _send_rows(self) -> None:
        for role, new, position in self._unsent:
            stored = self.programs.store(getattr(self._experience, role), new, np.int32(position))
            self._experience = self._experience._replace(**{role: stored})
        self._unsent = []

    def observe(self, new: np.ndarray | Array) -> None:
        """Count these rows among those by which observations are normalised, where they are."""
        if self.lanes.moments is not None:
            self.lanes = self.lanes._replace(moments=self.programs.observe(self.lanes.moments, new))

    def act(self, source_seen: np.ndarray | Array, target_seen: np.ndarray, number: int, members: np.ndarray) -> Any:
        """Every lane's actions for the source's bodies and the target's, and its fault, when the device has them."""
        return self.programs.act(self.keys, self.lanes, source_seen, target_seen, np.int32(number), members)

    def learn(self, sizes: tuple[np.int32, np.int32], first: int, alive: np.ndarray) -> None:
        """Have the device sent to the updates of one tick, the first of them number `first`."""
        self._wait_until_sent()
        self._sending = self._sender.submit(self._learn, sizes, first, alive)

    def _learn(self, sizes: tuple[np.int32, np.int32], first: int, alive: np.ndarray) -> None:
        self._keep(first, alive)
        self._send_rows()
        self._lanes = self.programs.learn(self.keys, self._lanes, *self._experience, *sizes, np.int32(first), alive)

    def _keep(self, first: int, alive: np.ndarray) -> None:
        """Now and then, a copy of the lanes that are well."""
        if self.kept is None:
            self.kept = jax.tree.map(jnp.copy, self._lanes)
        elif first % (KEPT_TICKS * self.programs.updates) == 0:
            self.kept = self.programs.keep(self._lanes, self.kept, alive)

    def settled(self, alive: np.ndarray) -> Lane:
        """The lanes, those that failed as they were when last known to be well."""
        lanes = self.lanes
        if self.kept is None or alive.all():
            return lanes
        return self.programs.settle(lanes, self.kept, alive)

    def drain(self) -> np.ndarray:
        """[lanes, notes]: each metric summed over the updates since the last drain."""
        sums = np.asarray(self.lanes.sums, np.float64)
        self.lanes = self.programs.clear(self.lanes)
        return sums

    def diagnose(
        self, sizes: tuple[np.int32, np.int32], step: int, held_out: tuple[np.ndarray, np.ndarray] | None
    ) -> dict[str, np.ndarray]:
        """Each diagnostic [lanes]; of the target's rows, all that were ever stored are counted."""
        if held_out is None:
            shape = (self.lanes_count, DIAGNOSED_ROWS)
            held_out = np.zeros((*shape, row_width(self.spec)), np.float32), np.zeros(shape, np.float32)
        experience: tuple[Array, Array] = self.experience
        metrics = self.programs.diagnose(self.keys, self.lanes, *experience, *sizes, np.int32(step), *held_out)
        return {name: np.asarray(value, np.float64) for name, value in metrics.items()}


class DeviceSources:
    """All sources of a cohort, in JAX: their transitions stay on the device, and the host hears of rewards and of ends.

    A step is sent to the device; what the host has to know of it is asked for later.
    """

    def __init__(self, domain: OwnBodies, lanes: int, time_limits_end: bool) -> None:
        self.domain, self._time_limits_end = domain, time_limits_end
        self._seen: Any = None
        shape = lanes, int((~domain.is_target).sum()) // lanes, row_width(domain.spec)
        self.rows: Any = np.zeros(shape, np.float32)  # packed: what the newest step gave

    @property
    def seen(self) -> Any:
        """[lanes, n, S] what the sources show."""
        if self._seen is None:
            seen = self.domain.seen_by(np.flatnonzero(~self.domain.is_target))[~self.domain.is_target]
            self._seen = seen.reshape(*self.rows.shape[:2], -1).astype(np.float32)
        return self._seen

    def step(self, chosen: Any, alive: np.ndarray, with_target: bool) -> None:
        """Act in all of them as was chosen; a lane that has failed does nothing. `with_target`: it acts, too."""
        self._well, actions, own = _ready(*chosen, alive, np.bool_(with_target), *self.domain.action_range)
        taken = self.seen, self.rows, actions, self._well, self.domain.advance(own)
        self.rows, self._seen, self._told = _taken(*taken, self._time_limits_end)

    def well(self) -> np.ndarray:
        """[lanes] bool: those that had not failed when they acted, nor in what they chose. Waits for no updates."""
        return np.asarray(self._well)

    def told(self) -> Rows:
        """What came of the newest step, without observations and actions."""
        return self.domain.told(lambda: _as_step(np.asarray(self._told)))


@jax.jit
def _ready(
    source: Array, target: Array, fault: Array, alive: Array, with_target: Array, middle: Array, half: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """(lanes without a fault, actions in [-1, 1], those of each lane in own units)."""
    finite = jnp.isfinite(source).all((1, 2)) & (jnp.isfinite(target).all((1, 2)) | ~with_target)
    well = alive & (fault[:, 0] == 0) & finite
    actions = jnp.clip(jnp.where(well[:, None, None], source, 0.0), -1.0, 1.0)
    return well, actions, tuple(middle + half * actions)


@partial(jax.jit, static_argnames="time_limits_end")
def _taken(
    seen: Array, newest: Array, actions: Array, well: Array, given: Any, time_limits_end: bool
) -> tuple[Array, Array, Array]:
    """(packed rows, what is seen next, what the host is told) of what each lane's source gave."""
    shown, reward, terminated, truncated, final = (jnp.stack(column) for column in zip(*given, strict=True))
    shown, final = shown.astype(jnp.float32), final.astype(jnp.float32)
    ended = terminated.astype(bool) | truncated.astype(bool)
    after = jnp.where(ended[..., None], final, shown)
    ends = ended if time_limits_end else terminated.astype(bool)
    rows = pack(Rows(seen, actions, reward, after, ends, ended, ended), jnp)  # type: ignore[arg-type]
    broken = ~(jnp.isfinite(after).all(-1) & jnp.isfinite(reward))
    rows = jnp.where(broken[..., None], newest, rows)
    odd = [jnp.where(jnp.isfinite(of).all(-1), 0.0, jnp.nan) for of in (shown, final)]
    told = jnp.stack([column.astype(jnp.float32) for column in (odd[0], reward, terminated, truncated, odd[1])])
    return jnp.where(well[:, None, None], rows, 0.0), shown, told.reshape(5, -1)


def _as_step(told: np.ndarray) -> Stepped:
    """With one column in place of an observation: 0, or NaN where one of its numbers is not finite."""
    shown, reward, terminated, truncated, final = told.astype(float)
    ends = flags(terminated, len(reward), "terminated"), flags(truncated, len(reward), "truncated")
    return Stepped(shown[:, None], reward, *ends, final[:, None], np.zeros(len(reward), bool))


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
