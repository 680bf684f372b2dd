"""What stands between an agent and its robot: late commands, old or noisy readings, and motors that do not obey.

One implementation for all: `Lines` is the hidden state of some bodies, which `EffectBodies` puts around a domain,
`RobotEnv` around one robot, and `Shifted` around any Gymnasium environment.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from .._util.errors import OffdynError, unknown
from .domain import Domain, Rows, Wrapped

LONGEST = 50  # steps that a command or a reading may be late
NOISE = 1  # ends (seeds, episode, step, NOISE), which seeds the noise of one reading


@dataclass(frozen=True)
class Effects:
    """Actions are in [-1, 1]; on their way to the robot they meet these in the order delay to backlash."""

    delay: int = 0  # steps until a command arrives; 0 arrives before the first does
    deadband: float = 0.0  # smaller commands do nothing
    strength: float = 1.0  # gain of every command
    torque_limit: float = 1.0  # largest command that is obeyed
    backlash: float = 0.0  # width of the gap a command crosses before it moves anything
    noise: float = 0.0  # standard deviation of every reading, in its own unit
    latency: int = 0  # steps that a reading is old; an episode's first is shown until the next arrives

    def __post_init__(self) -> None:
        for name, (expected, fits) in RANGES.items():
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not fits(value):
                raise OffdynError(f"{name}: expected {expected}, got {value!r}")
            object.__setattr__(self, name, int(value) if name in ("delay", "latency") else float(value))

    def to_mapping(self) -> dict[str, float]:
        """Those that there are, as YAML has them."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value != getattr(NONE, name)}


_STEPS = f"a whole number of steps, 0 to {LONGEST}", lambda value: value == int(value) and 0 <= value <= LONGEST
RANGES: dict[str, tuple[str, Any]] = {
    "delay": _STEPS,
    "deadband": ("0 or more and less than 1", lambda value: 0 <= value < 1),
    "strength": ("more than 0", lambda value: value > 0),
    "torque_limit": ("more than 0 and at most 1", lambda value: 0 < value <= 1),
    "backlash": ("0 or more and less than 2", lambda value: 0 <= value < 2),
    "noise": ("0 or more", lambda value: value >= 0),
    "latency": _STEPS,
}
NONE = Effects()


def effects_from(mapping: object) -> Effects:
    """Read the YAML form; anything it does not know is refused."""
    if not isinstance(mapping, Mapping):
        raise OffdynError(f"effects are a mapping such as {{delay: 2, noise: 0.01}}; came {mapping!r}")
    for name in mapping:
        if name not in RANGES:
            raise unknown("effect", str(name), RANGES)
    return Effects(**mapping)


def effects_from_text(text: str) -> Effects:
    """Read `delay=2&deadband=0.1`, as it follows `?` in the name of an environment."""
    mapping: dict[str, float] = {}
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if name in mapping:
            raise OffdynError(f"{name} is given twice; keep one of the two")
        try:
            mapping[name] = float(value)
        except ValueError:
            raise OffdynError(f"expected EFFECT=NUMBER, such as delay=2&deadband=0.1; got {part!r}") from None
    return effects_from(mapping)


class Lines:
    """The lines to and from some bodies, and all that is under way in them.

    What a body shows and obeys follows from its effects, its seeds, the number of its episode and its actions alone.
    """

    def __init__(
        self, effects: Sequence[Effects], seeds: Sequence[tuple[int, ...]], observation: int, action: int
    ) -> None:
        bodies = len(effects)
        columns = {name: np.array([getattr(one, name) for one in effects]) for name in RANGES}
        self._delay, self._latency, self._noise = columns["delay"], columns["latency"], columns["noise"]
        self._deadband, self._gain, self._limit, self._gap = (
            columns[name][:, None] for name in ("deadband", "strength", "torque_limit", "backlash")
        )
        self.seeds = list(seeds)
        # The newest stands last.
        self._commands = np.zeros((bodies, self._delay.max() + 1, action))
        self._readings = np.zeros((bodies, self._latency.max() + 1, observation))
        self._moved = np.zeros((bodies, action))  # what came out of the gap
        self.episodes = np.zeros(bodies, np.int64)  # begun so far
        self._steps = np.zeros(bodies, np.int64)  # of this episode

    def begin(self, at: np.ndarray, observation: np.ndarray) -> np.ndarray:
        """Start an episode of these bodies; what they show first."""
        self._commands[at], self._moved[at], self._steps[at] = 0.0, 0.0, 0
        self.episodes[at] += 1
        self._readings[at] = self._noisy(at, observation)[:, None]
        return self.shown(at)

    def command(self, at: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """What the motors of these bodies get when they are asked for this."""
        self._commands[at, :-1] = self._commands[at, 1:]
        self._commands[at, -1] = actions
        arrived = self._commands[at, self._commands.shape[1] - 1 - self._delay[at]]
        felt = np.where(np.abs(arrived) < self._deadband[at], 0.0, arrived) * self._gain[at]
        limit, half = self._limit[at], self._gap[at] / 2
        turned = np.clip(felt, -limit, limit)
        self._moved[at] = np.clip(self._moved[at], turned - half, turned + half)
        return self._moved[at]

    def read(self, at: np.ndarray, observation: np.ndarray) -> np.ndarray:
        """What these bodies show when this is the truth."""
        self._steps[at] += 1
        self._readings[at, :-1] = self._readings[at, 1:]
        self._readings[at, -1] = self._noisy(at, observation)
        return self.shown(at)

    def shown(self, at: np.ndarray) -> np.ndarray:
        """What they show now."""
        return self._readings[at, self._readings.shape[1] - 1 - self._latency[at]]

    def _noisy(self, at: np.ndarray, observation: np.ndarray) -> np.ndarray:
        observation = np.array(observation, float)
        for position in np.flatnonzero(self._noise[at]):
            body = at[position]
            seed = (*self.seeds[body], int(self.episodes[body]), int(self._steps[body]), NOISE)
            drawn = np.random.default_rng(seed).standard_normal(observation.shape[1])
            observation[position] += self._noise[body] * drawn
        return observation

    def state(self) -> dict[str, np.ndarray]:
        """All that is under way: write into these arrays to take it back."""
        return {
            "commands": self._commands,
            "readings": self._readings,
            "moved": self._moved,
            "episodes": self.episodes,
            "steps": self._steps,
        }


class EffectBodies(Wrapped):
    """A domain some of whose bodies have effects, as `Domain` asks.

    A transition holds what the agent saw and what it asked for; reward and end are those of the true state and of the
    command that was obeyed. Wrap a domain that is as new: its first episodes count as begun here.
    """

    def __init__(
        self,
        inner: Domain,
        effects: Sequence[Effects],
        seeds: Sequence[tuple[int, ...]],
        sizes: Sequence[tuple[int, int]],
    ) -> None:
        """`sizes`: entries of an observation and of an action that are each body's own, where others only fill up."""
        super().__init__(inner)
        self._bodies = np.array([body for body, one in enumerate(effects) if one != NONE])
        self._place = np.full(len(effects), -1)
        self._place[self._bodies] = np.arange(len(self._bodies))
        observation, action = self.spec.observation_size, self.spec.action_size
        mine = [effects[body] for body in self._bodies], [seeds[body] for body in self._bodies]
        self._lines = Lines(*mine, observation, action)
        own = np.array([sizes[body] for body in self._bodies])
        self._seen, self._moves = (np.arange(n) < own[:, [k]] for k, n in enumerate((observation, action)))
        self._last_good = np.zeros((len(self._bodies), 2 * observation + action))
        self._shown = self._begin(np.arange(len(self._bodies)))

    @property
    def observation(self) -> np.ndarray:
        seen = np.array(self.inner.observation)
        seen[self._bodies] = self._shown
        return seen

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        self.inner.reset(ids, elapsed)
        mine = self._place[np.asarray(ids, int)]
        if len(mine := mine[mine >= 0]):
            self._shown[mine] = self._begin(mine)

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        ids, actions = np.asarray(ids), np.asarray(actions, float)
        at = np.flatnonzero(self._place[ids] >= 0)
        if not len(at) or not np.isfinite(actions).all():  # which the robot refuses before anything moves
            return self.inner.step(ids, actions)
        mine = self._place[ids[at]]
        asked = np.where(self._moves[mine], np.clip(actions[at], -1.0, 1.0), 0.0)
        obeyed = actions.copy()
        obeyed[at] = self._lines.command(mine, asked)
        rows = self.inner.step(ids, obeyed)
        shown = self._own(mine, self._lines.read(mine, rows.next_observation[at]))
        table = np.concatenate((self._shown[mine], asked, shown), axis=1)
        diverged, ended = rows.diverged[at], (rows.terminated | rows.truncated | rows.diverged)[at]
        table[diverged] = self._last_good[mine[diverged]]
        self._last_good[mine] = table
        edges = np.cumsum((self.spec.observation_size, self.spec.action_size))
        rows.observation[at], rows.action[at], rows.next_observation[at] = np.split(table, edges, axis=1)
        self._shown[mine] = shown
        if ended.any():
            self._shown[mine[ended]] = self._begin(mine[ended])
        return rows

    def save(self) -> dict[str, np.ndarray]:
        return self.inner.save() | {f"effects/{name}": array.copy() for name, array in self._saved().items()}

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        mine = {f"effects/{name}": array for name, array in self._saved().items()}
        for name, array in mine.items():
            if name not in saved or saved[name].shape != array.shape:
                raise OffdynError(f"load: {name} is not of these effects: build the bodies as they were when saved")
        self.inner.load({name: array for name, array in saved.items() if name not in mine})
        for name, array in mine.items():
            array[...] = saved[name]
        every = np.arange(len(self._bodies))
        self._shown = self._own(every, self._lines.shown(every))

    def _begin(self, mine: np.ndarray) -> np.ndarray:
        return self._own(mine, self._lines.begin(mine, self.inner.observation[self._bodies[mine]]))

    def _own(self, mine: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Without noise in entries that only fill up."""
        return np.where(self._seen[mine], shown, 0.0)

    def _saved(self) -> dict[str, np.ndarray]:
        return self._lines.state() | {"last_good": self._last_good}


ONE = np.zeros(1, int)  # the only body of a Gymnasium environment


class Line(Lines):
    """The lines of one body whose episodes follow from Gymnasium's seeds."""

    def __init__(self, effects: Effects, observation: int, action: int) -> None:
        super().__init__([effects], [(int(np.random.SeedSequence().generate_state(1)[0]),)], observation, action)

    def start(self, seed: int | None, observation: np.ndarray) -> np.ndarray:
        """Begin an episode, of a new stream of noise where a seed is given."""
        if seed is not None:
            self.seeds, self.episodes[:] = [(seed,)], 0
        return self.begin(ONE, observation[None])[0]

    def obeyed(self, action: np.ndarray) -> np.ndarray:
        return self.command(ONE, action[None])[0]

    def seen(self, observation: np.ndarray) -> np.ndarray:
        return self.read(ONE, observation[None])[0]


class Shifted(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Any environment behind such lines: `Shifted(env, delay=2, deadband=0.1)`.

    Commands count from -1, the lowest action, to 1, the highest; 0 lies in the middle. A noisy reading stays within the
    bounds of the observation space, as a sensor's does.
    """

    def __init__(self, env: gymnasium.Env, **effects: float) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, **effects)  # type: ignore[arg-type]
        super().__init__(env)
        self.effects = effects_from(effects)
        moved, seen = env.action_space, spaces.utils.flatten_space(env.observation_space)
        bounded = isinstance(moved, spaces.Box) and np.isfinite(moved.low).all() and np.isfinite(moved.high).all()
        if not bounded or not isinstance(seen, spaces.Box):
            raise OffdynError(
                f"effects need actions in a Box with finite bounds and observations that flatten to numbers; the "
                f"environment has {moved} and {env.observation_space}"
            )
        assert isinstance(moved, spaces.Box)
        self._low, self._width = moved.low.astype(float), moved.high.astype(float) - moved.low
        self._bounds = seen.low, seen.high
        self._line = Line(self.effects, seen.shape[0], moved.low.size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Start an episode with nothing under way."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._as_shown(self._line.start(seed, self._flat(observation))), info

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict]:
        """Act once; reward and ends are those of the true state."""
        asked = np.clip(2 * (np.asarray(action, float) - self._low) / self._width - 1, -1.0, 1.0)
        obeyed = np.clip(self._line.obeyed(asked.reshape(-1)), -1.0, 1.0).reshape(asked.shape)
        space: Any = self.env.action_space
        sent = np.clip((self._low + 0.5 * (obeyed + 1) * self._width).astype(space.dtype), space.low, space.high)
        observation, reward, terminated, truncated, info = self.env.step(sent)
        return self._as_shown(self._line.seen(self._flat(observation))), reward, terminated, truncated, info

    def _flat(self, observation: Any) -> np.ndarray:
        return np.asarray(spaces.utils.flatten(self.env.observation_space, observation), float)

    def _as_shown(self, flat: np.ndarray) -> Any:
        return spaces.utils.unflatten(self.env.observation_space, np.clip(flat, *self._bounds))
