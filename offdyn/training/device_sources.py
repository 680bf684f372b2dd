"""Sources in JAX, whose transitions stay on the device: the host hears of rewards, of ends and of what went wrong."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._util.types import Array
from ..data.transition import pack, row_width
from ..envs.batched import Stepped, flags
from ..envs.custom_batch import OwnBodies
from ..envs.domain import Rows


class DeviceSources:
    """All sources of a cohort. A step is sent to the device; what the host has to know of it is asked for later."""

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
