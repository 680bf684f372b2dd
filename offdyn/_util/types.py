"""The nouns every file shares. Needs nothing but NumPy, so that domains load without JAX."""

from collections.abc import Callable
from typing import Any, NamedTuple

Array = Any  # a NumPy or JAX array; shapes stand in the comments


TARGET, SOURCE = 0.0, 1.0  # a transition's domain, as networks see it


class Present(NamedTuple):
    """Which entries of a padded robot are its own: 1, where the others, always 0, only fill up."""

    observation: Array  # [S]
    action: Array  # [A]
    initial_fan_in: Array  # [], its own
    robot: Array  # [], its number among the robots


class Spec(NamedTuple):
    """What an agent must know of a robot."""

    observation_size: int
    action_size: int  # every action lies in [-1, 1]
    # Observation entries the first layers are initialised for: larger than observation_size
    # where constant entries were dropped (ant: 111, of which 84 are always zero).
    initial_fan_in: int
    time_limit: int  # steps after which an episode is cut, which is not an end
    # (next_observation) -> bool, elementwise over leading axes, for NumPy and JAX arrays alike; of padded robots
    # (next_observation, the robot's number) -> bool. `ends` asks either.
    is_terminal: Callable[..., Array]
    present: Present | None = None  # where the robot is padded; differs by lane

    def ends(self, next_observation: Array) -> Array:
        """Whether an episode ends there, elementwise over leading axes."""
        if self.present is None:
            return self.is_terminal(next_observation)
        return self.is_terminal(next_observation, self.present.robot)


class Batch(NamedTuple):
    """Rows of experience, [n, ...]."""

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array  # true ends only: a time limit still bootstraps (Pardo et al. 2018)
    weight: Array  # 1 by default; 0 drops the row from the critic loss
    domain: Array = TARGET  # whose dynamics made it


class Context(NamedTuple):
    """What a method may look at: one lane's view, read only."""

    spec: Spec
    agent: Any  # SAC's networks
    learned: Any  # whatever the method trains on the side
    sac: Any  # SAC's fields: the floats are this lane's scalars, the rest is static
    hyper: Any  # the method's own fields, likewise
    key: Array  # the hook's own: two hooks never share randomness
    step: Array  # updates done so far; the same in all lanes, so that lax.cond on it stays a branch
    moments: Any = None  # by which the observations a hook sees were normalised, where they were
