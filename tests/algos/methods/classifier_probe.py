"""Classifiers trained on fixed rows, without an agent, and two Gaussian domains whose log ratio can be written down."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offdyn._util.types import Batch, Context, Spec
from offdyn.algos.common import classifiers
from offdyn.algos.common.classifiers import Classifiers
from offdyn.algos.sac import Sac
from offdyn.data.replay import Replay
from offdyn.data.transition import row_width


def context(learned: Classifiers, hyper: Any, spec: Spec, key: Any = None, step: Any = 0) -> Context:
    return Context(spec, None, learned, Sac(), hyper, key, step)


def packed(s: np.ndarray, a: np.ndarray, after: np.ndarray) -> np.ndarray:
    """[n, width]: rows without rewards or ends."""
    nothing = np.zeros((len(s), 1))
    return np.hstack((s, a, nothing, after, nothing)).astype(np.float32)


@partial(jax.jit, static_argnames="spec")
def updated(learned: Classifiers, hyper: Any, source: Replay, target: Replay, spec: Spec, step: Any) -> Any:
    """What one update makes of the classifiers, and what it notes."""
    key = jax.random.fold_in(jax.random.key(1), step)
    source, target = (replay._replace(spec=spec) for replay in (source, target))
    return classifiers.learn(source, target, context(learned, hyper, spec, key, step))


@partial(jax.jit, static_argnames="spec")
def trained(learned: Classifiers, hyper: Any, source: Any, target: Any, spec: Spec, rates: Any) -> Any:
    """Lanes of classifiers after one update for each learning rate, and the mean of what was noted in the last half.

    The lanes learn from the same packed rows.
    """
    replays = [Replay(rows, jnp.int32(rows.shape[0]), None, None) for rows in (source, target)]

    def one(learned: Classifiers, now: Any) -> tuple[Classifiers, Any]:
        step, rate = now
        paced = dataclasses.replace(hyper, classifier_learning_rate=jnp.full_like(hyper.classifier_noise, rate))
        return jax.vmap(lambda learned, hyper: updated(learned, hyper, *replays, spec, step))(learned, paced)

    learned, notes = jax.lax.scan(one, learned, (jnp.arange(len(rates)), rates))
    return learned, jax.tree.map(lambda note: note[len(rates) // 2 :].mean(0), notes)


class Gaussian(NamedTuple):
    """(s, a, s') of one domain, jointly normal."""

    mean: np.ndarray  # [3]
    covariance: np.ndarray  # [3, 3]

    def draw(self, count: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).multivariate_normal(self.mean, self.covariance, count)

    def log_density(self, x: np.ndarray, noise: float) -> np.ndarray:
        """Of the first entries of (s, a, s') with independent noise of this deviation on each."""
        k = x.shape[1]
        covariance = self.covariance[:k, :k] + noise**2 * np.eye(k)
        off = x - self.mean[:k]
        squared = np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off)
        return -0.5 * (squared + np.linalg.slogdet(2 * np.pi * covariance)[1])


def gaussian(start: float, lean: float, push: float, spread: float) -> Gaussian:
    """s ~ N(start, 1), a = lean s + N(0, 0.8), s' = s + a / 2 + push + N(0, spread)."""
    mixing = np.array([[1.0, 0.0, 0.0], [lean, 0.8, 0.0], [1.0 + 0.5 * lean, 0.4, spread]])
    return Gaussian(np.array([start, lean * start, start + 0.5 * lean * start + push]), mixing @ mixing.T)


def known_ratio(source: Gaussian, target: Gaussian, x: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """log p_target(s'|s, a) - log p_source(s'|s, a), of the densities with that noise, at the points x as they are."""
    whole = target.log_density(x, noise) - source.log_density(x, noise)
    return whole - (target.log_density(x[:, :2], noise) - source.log_density(x[:, :2], noise))


def as_rows(x: np.ndarray) -> np.ndarray:
    return packed(x[:, :1], x[:, 1:2], x[:, 2:])


def as_batch(x: np.ndarray) -> Batch:
    """Points (s, a, s') with one state and one action."""
    count = len(x)
    return Batch(x[:, :1], x[:, 1:2], np.zeros(count), x[:, 2:], np.zeros(count), np.ones(count))


def lane(lanes: Any, which: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[which], lanes)


def lanes_of(hyper: Any, spec: Spec, **floats: list[float]) -> tuple[Classifiers, Any]:
    """Equal fresh classifiers for lanes whose settings differ in these floats."""
    learned = classifiers.init(jax.random.key(0), hyper, spec)
    count = len(next(iter(floats.values())))
    varied = {name: jnp.asarray(values) for name, values in floats.items()}
    every = jax.tree.map(lambda value: jnp.full(count, value), hyper)
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), learned), dataclasses.replace(every, **varied)


def empty(rows: int, spec: Spec) -> np.ndarray:
    return np.zeros((rows, row_width(spec)), np.float32)
