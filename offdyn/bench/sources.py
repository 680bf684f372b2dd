"""How fast sources step many environments at once: our simulator, Gymnasium's vector environments, those in JAX.

Counted are whole steps as a training makes them: actions in, transitions out, in NumPy, or of an environment in JAX on
the device. There both ways are measured, and stepping it alone, with nothing brought to the host.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..envs import batched, custom
from ..envs.batched_jax import JaxBatch
from ..envs.custom import OwnPair
from ..envs.custom_batch import OwnBodies
from ..envs.domain import Domain
from ..training.program import DeviceSources
from .physics import Turn, best_turns, simulator_of

COUNTS = (10, 100, 1000)
ROBOT = "hopper"
HERE = f"{__name__}:pendulum"
BUILT_IN = (f"{batched.VEC}Pendulum-v1", HERE)
LIMIT = 200  # steps of an episode of a source that does not say
FIRST, SENT = 3, 20  # steps before the clock runs; steps sent to a device before it is waited for


class State(NamedTuple):
    """Of a pendulum, as MuJoCo Playground's environments show theirs."""

    angle: Any  # from upright
    speed: Any
    obs: Any
    reward: Any
    done: Any


class Pendulum:
    """Gymnasium's pendulum in JAX."""

    action_size = 1

    def reset(self, key: Any) -> State:
        angle, speed = jax.random.uniform(key, (2,), minval=jnp.array([-jnp.pi, -1.0]), maxval=jnp.array([jnp.pi, 1.0]))
        return _seen(angle, speed, jnp.zeros(()))

    def step(self, state: State, action: Any) -> State:
        torque, angle = 2.0 * action[0], state.angle
        away = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        cost = away**2 + 0.1 * state.speed**2 + 0.001 * torque**2
        speed = jnp.clip(state.speed + 0.05 * (15.0 * jnp.sin(angle) + 3.0 * torque), -8.0, 8.0)
        return _seen(angle + 0.05 * speed, speed, -cost)


def _seen(angle: Any, speed: Any, reward: Any) -> State:
    return State(angle, speed, jnp.stack([jnp.cos(angle), jnp.sin(angle), speed]), reward, jnp.zeros(()))


def pendulum() -> Pendulum:
    return Pendulum()


def measure(
    sources: Sequence[str], counts: Sequence[int], threads: int, turns: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """A row for our simulator and each source, with each number of environments it can have."""
    for count in counts:
        ways = {"steps_per_second": _stepping(simulator_of(ROBOT, count, threads), count, seconds)}
        yield {"source": ROBOT, "environments": count} | best_turns(ways, turns)
    for source in sources:
        pair = _pair(source)
        stateless = None if pair.batch != batched.ANY else _stateless(source)
        for count in counts if not pair.batch else (pair.batch,):
            bodies = _bodies(pair, count)
            way = _on_device if bodies.on_device else _stepping
            try:
                ways = {"steps_per_second": way(bodies, count, seconds)}
                if stateless is not None:
                    ways["by_host_per_second"] = _stepping(_bodies(pair, count), count, seconds)
                    alone = JaxBatch(stateless, count, pair.time_limit)
                    ways["alone_per_second"] = _alone(alone, pair.spec.action_size, seconds)
                yield {"source": source, "environments": count} | best_turns(ways, turns)
            finally:
                bodies.close()


def _bodies(pair: OwnPair, count: int) -> OwnBodies:
    return OwnBodies(pair, ["source"] * count, [(0, 0, body) for body in range(count)])


def _pair(source: str) -> OwnPair:
    """The source as a pair has it; a target is not asked for."""
    look = custom.look_at(source, "source")
    parts, low, high = look.interface
    if np.isnan(low).any():  # a simulator that leaves its bounds to the target
        low, high = (-1.0,) * len(low), (1.0,) * len(low)
    return OwnPair(source, source, source, look.limit or LIMIT, parts, low, high, look.batch)


def _stateless(source: str) -> Any:
    factory = custom.factory_of(source, "source")
    made = None if batched.takes_count(factory) else factory()
    return made if batched.is_stateless(made) else None


def _stepping(domain: Domain, count: int, seconds: float) -> Turn:
    """Random actions in every environment."""
    every = np.arange(count)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (8, count, domain.spec.action_size))

    def step(number: int) -> int:
        domain.step(every, actions[number % len(actions)])
        return count

    return _turn(step, seconds)


def _on_device(bodies: OwnBodies, count: int, seconds: float) -> Turn:
    """Random actions in every environment, from the device on which they are."""
    sources = DeviceSources(bodies, 1, time_limits_end=False)
    random = np.random.default_rng(0).uniform(-1.0, 1.0, (8, 1, count, bodies.spec.action_size))
    actions = list(jnp.asarray(random, jnp.float32))
    nobody, well, alive = jnp.zeros((1, 0, bodies.spec.action_size)), jnp.zeros((1, 2), jnp.int32), np.ones(1, bool)

    def step(number: int) -> int:
        sources.step((actions[number % len(actions)], nobody, well), alive, with_target=False)
        sources.told()
        return count

    return _turn(step, seconds)


def _alone(batch: JaxBatch, action_size: int, seconds: float) -> Turn:
    """On the device, from where nothing is brought."""
    batch.reset(0)
    actions = jnp.zeros((batch.count, action_size), jnp.float32)

    def step(number: int) -> int:
        for _ in range(SENT):
            given = batch.advance(actions)
        jax.block_until_ready(given)
        return SENT * batch.count

    return _turn(step, seconds)


def _turn(step: Callable[[int], int], seconds: float) -> Turn:
    """Environment steps per second; `step` says how many it made."""
    for number in range(FIRST):
        step(number)

    def turn() -> float:
        start, made, number = time.perf_counter(), 0, 0
        while time.perf_counter() - start < seconds:
            made += step(number)
            number += 1
        return made / (time.perf_counter() - start)

    return turn
