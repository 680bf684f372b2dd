"""The compiled programs of a cohort: one lane's function, mapped over all lanes.

A cohort's state is one pytree with a leading lane axis. `step` counters are shared by all lanes and never mapped, so
that a branch on them stays a branch.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._util.types import SOURCE, Array, Context, Present, Spec
from ..algos import sac as core
from ..algos.method import Method, Metrics
from ..algos.networks import Trained
from ..algos.sac import Agent, Sac, hook_key
from ..data.replay import Moments, Replay, no_moments
from ..data.transition import row_width
from .config import RunConfig

DIAGNOSED_ROWS = 256  # newest and held-out target rows that `diagnose` looks at


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
    ) -> None:
        self.method, self.spec, self.learns_from, self.updates = method, spec, learns_from, updates
        self.random_until = random_until
        self.full_products = sac.precision == "full"
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
        replays = (
            Replay(source, source_size, spec, lane.moments, SOURCE),
            Replay(target, target_size, spec, lane.moments),
        )
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
