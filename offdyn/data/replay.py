"""Transitions on the device: all columns of a transition side by side in one array, so that a sample is one gather."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._util.types import TARGET, Batch, Spec


class Moments(NamedTuple):
    """Running mean and variance of the observations stored so far (Chan et al. 1979), for one lane."""

    rows: jax.Array  # how many, counting one of mean 0 and deviation 1 to begin with
    mean: jax.Array  # [S]
    spread: jax.Array  # [S], sum of squared distances from the mean

    def include(self, observation: jax.Array) -> "Moments":
        """The moments with [n, S] more observations."""
        n = observation.shape[0]
        mean = observation.mean(0)
        total = self.rows + n
        shift = mean - self.mean
        spread = self.spread + jnp.square(observation - mean).sum(0) + jnp.square(shift) * self.rows * n / total
        return Moments(total, self.mean + shift * n / total, spread)

    def normalise(self, observation: jax.Array) -> jax.Array:
        """Zero mean, unit variance; a constant entry stays 0."""
        return (observation - self.mean) / self.deviation()

    def restore(self, normalised: jax.Array) -> jax.Array:
        """What `normalise` was given."""
        return normalised * self.deviation() + self.mean

    def deviation(self) -> jax.Array:
        """[S], at least 0.001."""
        return jnp.maximum(jnp.sqrt(self.spread / self.rows), 1e-3)


def no_moments(spec: Spec) -> Moments:
    """Before the first transition: mean 0, deviation 1."""
    size = spec.observation_size
    return Moments(jnp.ones(()), jnp.zeros(size), jnp.ones(size))


def unpack(packed: jax.Array, spec: Spec, domain: float = TARGET) -> Batch:
    """[n, width] -> a batch of n transitions of one domain, each of weight 1."""
    s, a = spec.observation_size, spec.action_size
    observation, action, reward, next_observation, terminated = jnp.split(
        packed, (s, s + a, s + a + 1, 2 * s + a + 1), axis=-1
    )
    ones = jnp.ones(packed.shape[:-1], packed.dtype)
    return Batch(observation, action, reward[..., 0], next_observation, terminated[..., 0], ones, domain * ones)


class Replay(NamedTuple):
    """One lane's view of the transitions of one domain."""

    packed: jax.Array  # [capacity, width], a ring
    size: jax.Array  # transitions filled so far; the same in all lanes, which run in lockstep
    spec: Spec
    moments: Moments | None  # observations are normalised by these, where given
    domain: float = TARGET
    while_empty: "Replay | None" = None  # what is sampled instead, as if it were of this domain

    def sample(self, key: jax.Array, n: int) -> Batch:
        """n transitions, uniform with replacement."""
        own = self.view(self.packed[jax.random.randint(key, (n,), 0, self.size)])
        if self.while_empty is None:
            return own
        other = self.while_empty.sample(key, n)._replace(domain=own.domain)
        return jax.tree.map(partial(jnp.where, self.size > 0), own, other)

    def stored(self) -> list[tuple[Batch, jax.Array]]:
        """All that `sample` draws from, as batches and how much of each is filled."""
        own = [(self.view(self.packed), self.size)]
        if self.while_empty is None:
            return own
        return own + [(batch, jnp.where(self.size > 0, 0, size)) for batch, size in self.while_empty.stored()]

    def view(self, packed: jax.Array) -> Batch:
        """Packed transitions as a batch, normalised as sampled ones are."""
        batch = unpack(packed, self.spec, self.domain)
        if self.moments is None:
            return batch
        return batch._replace(
            observation=self.moments.normalise(batch.observation),
            next_observation=self.moments.normalise(batch.next_observation),
        )
