"""Environments written in JAX, as MuJoCo Playground and Brax have them: stateless, of one body, mapped and compiled."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .batched import Stepped, _group, flags, numbers
from .custom_env import Interface


class JaxBatch:
    """`reset(key) -> state`, `step(state, action) -> state`, with `obs`, `reward` and `done` in a state.

    Episodes are cut at our time limit, and begin anew from a fresh start. The first ones are cut at different steps, so
    that not all end at once. Actions lie in [-1, 1].
    """

    on_device = True

    def __init__(self, env: Any, count: int, limit: int) -> None:
        self.env, self.count, self.limit = env, count, limit
        shown = jax.eval_shape(lambda key: _group(env.reset(key).obs), jax.random.PRNGKey(0))
        ones = (1.0,) * int(env.action_size)
        self._size = shown.shape[-1]
        self.interface = Interface((("observation", self._size),), tuple(-one for one in ones), ones)
        self._start = jax.jit(self._started)
        self._advance = jax.jit(self._advanced)
        self._carried: Any = None

    def reset(self, seed: int) -> np.ndarray:
        self._carried, shown = self._start(jax.random.PRNGKey(seed))
        return self._numbers(shown)

    def step(self, actions: np.ndarray) -> Stepped:
        shown, reward, done, cut, final = jax.device_get(self.advance(jnp.asarray(actions, jnp.float32)))
        ends = flags(done, self.count, "done"), flags(cut, self.count, "cut")
        return Stepped(self._numbers(shown), numbers(reward, (self.count,), "reward"), *ends, self._numbers(final))

    def advance(self, actions: Any) -> tuple[Any, ...]:
        """The same on the device."""
        self._carried, given = self._advance(self._carried, actions)
        return given

    def close(self) -> None:
        self._carried = None

    def _numbers(self, array: Any) -> np.ndarray:
        return numbers(array, (self.count, self._size), "observation")

    def _started(self, key: Any) -> tuple[Any, Any]:
        key, first = jax.random.split(key)
        state = self._fresh(first)
        spent = jnp.arange(self.count) * self.limit // self.count
        return (key, state, spent), _group(state.obs)

    def _fresh(self, key: Any) -> Any:
        return jax.vmap(self.env.reset)(jax.random.split(key, self.count))

    def _advanced(self, carried: tuple[Any, Any, Any], actions: Any) -> tuple[Any, Any]:
        key, state, spent = carried
        after = jax.vmap(self.env.step)(state, actions)
        done, spent = after.done.astype(bool), spent + 1
        cut = (spent >= self.limit) & ~done
        ended = done | cut
        key, again = jax.random.split(key)
        following = jax.lax.cond(
            ended.any(), lambda: jax.tree.map(partial(_where, ended), self._fresh(again), after), lambda: after
        )
        given = (_group(following.obs), after.reward, done, cut, _group(after.obs))
        return (key, following, jnp.where(ended, 0, spent)), given


def _where(ended: Any, fresh: Any, old: Any) -> Any:
    """A fresh state's entries for the environments that ended; what all share stays."""
    if jnp.shape(old)[:1] != ended.shape:
        return old
    return jnp.where(ended.reshape(-1, *(1,) * (jnp.ndim(old) - 1)), fresh, old)
