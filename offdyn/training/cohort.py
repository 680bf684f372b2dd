"""A cohort: runs that share one program, how all of their state advances by a tick, and what a checkpoint has of it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._util import types
from .._util.errors import OffdynError
from .._util.types import Spec
from ..algos.networks import DOMAIN_INPUTS
from ..algos.sac import actor_network
from ..data.replay import Moments
from ..data.transition import pack, row_width
from ..envs import pairs
from ..envs.custom_batch import OwnBodies
from ..envs.domain import NoBodies, Rows
from ..envs.processes import BodyProcesses
from ..envs.residual import ResidualBodies
from ..envs.tasks import Task
from ..policies.base import as_chosen
from ..policies.trained import Policies, StdHead
from .checkpoint import NewRows
from .config import RunConfig, residuals_of
from .hardware import Devices, beside_a_gpu
from .program import DeviceSources, Experience, Lane, Learner, fill_leaves, matching, named_leaves

SOURCE, TARGET = 0, 1  # roles in (seed, role, body), which seeds a body's starts
TRUNCATED, DIVERGED = 1, 2  # bits of a stored row's flag
WINDOW = 10  # newest target episodes of a member that speak for it
TURN = 10  # every so many target episodes the members take turns, however they do
ROLE = 4  # in (seed, role, ...), which seeds draws; bodies' starts use 0 to 3


class Failures(dict[int, tuple[str, int]]):
    """Of each lane that failed the quantity that was not finite and the source step.

    No more of it reaches an environment or a replay buffer.
    """

    def alive(self, lanes: int) -> np.ndarray:
        """[lanes] bool: the runs that go on."""
        return np.array([lane not in self for lane in range(lanes)])

    def note(self, faults: np.ndarray, names: Sequence[str], step: int) -> None:
        """What the device found in its updates: [lanes, 2], first 0 or one more than the position of a name."""
        for lane in np.flatnonzero(faults[:, 0]):
            self.setdefault(int(lane), (names[faults[lane, 0] - 1], step))

    def guard_actions(self, actions: np.ndarray, lane_of: np.ndarray, step: int) -> np.ndarray:
        return self._guard(actions, lane_of, "action", ~np.isfinite(actions).all(axis=1), step)

    def guard_rows(self, packed: np.ndarray, lane_of: np.ndarray, spec: Spec, step: int) -> np.ndarray:
        finite = np.isfinite(packed)
        if not self and finite.all():
            return packed
        reward = spec.observation_size + spec.action_size  # its column
        packed = self._guard(packed, lane_of, "observation", ~np.delete(finite, reward, axis=1).all(axis=1), step)
        return self._guard(packed, lane_of, "reward", ~finite[:, reward], step)

    def _guard(self, values: np.ndarray, lane_of: np.ndarray, quantity: str, bad: np.ndarray, step: int) -> np.ndarray:
        """A lane with a value that is not finite stops; what it would have stored or done becomes zero."""
        for lane in np.unique(lane_of[bad]):
            self.setdefault(int(lane), (quantity, step))
        if self:
            failed = np.isin(lane_of, list(self))
            values = np.where(failed[:, None], 0.0, values).astype(values.dtype)
        return values


class Members:
    """The members of each lane and their newest returns in the target.

    Each lane draws one of the newest returns of each member, and the member with the largest acts: equal ones alternate
    by chance, and one that does worse acts the less, the surer that is.
    """

    def __init__(self, seeds: Sequence[int], count: int) -> None:
        self.seeds, self.count = list(seeds), count
        self.acting = np.zeros(len(self.seeds), np.int32)
        self.returns: list[list[list[float]]] = [[[] for _ in range(count)] for _ in self.seeds]
        self.episodes = [0] * len(self.seeds)

    @property
    def deployed(self) -> np.ndarray:
        """[lanes]: the member with the largest mean of its newest returns; the first before there are any."""
        means = [[float(np.mean(newest)) if newest else -np.inf for newest in lane] for lane in self.returns]
        return np.array([int(np.argmax(lane)) for lane in means], np.int32)

    def ended(self, lane: int, gained: float) -> None:
        """A target episode of this lane is over: note its return, choose who acts next."""
        if self.count == 1:
            return
        newest = self.returns[lane]
        mine = newest[self.acting[lane]]
        mine.append(gained)
        del mine[:-WINDOW]
        self.episodes[lane] += 1
        self.acting[lane] = self._next(lane)

    def _next(self, lane: int) -> int:
        number, newest = self.episodes[lane], self.returns[lane]
        untried = [member for member, returns in enumerate(newest) if not returns]
        if untried:
            return untried[0]
        if number % TURN == 0:
            return number // TURN % self.count
        generator = np.random.default_rng((self.seeds[lane], ROLE, number))
        return int(np.argmax([generator.choice(returns) for returns in newest]))

    def save(self) -> dict[str, Any]:
        return {"acting": self.acting.tolist(), "returns": self.returns, "episodes": self.episodes}

    def load(self, saved: dict[str, Any]) -> None:
        self.acting = np.array(saved["acting"], np.int32)
        self.returns, self.episodes = saved["returns"], saved["episodes"]


class SourceData(NamedTuple):
    """The rows of a dataset as the device takes them."""

    name: str
    rows: np.ndarray  # [n, width] float32
    sha256: str  # of the rows
    out_of_reach: int = 0  # transitions left out: no residual on the base policy leads to their actions

    @property
    def about(self) -> dict[str, Any]:
        """For a run's provenance."""
        about = {"name": self.name, "rows": len(self.rows), "sha256": self.sha256}
        return about | ({"out_of_reach": self.out_of_reach} if self.out_of_reach else {})


def open_source(run: RunConfig) -> SourceData:
    """The dataset that the run names."""
    from ..data.datasets import open_dataset  # only where there is one

    wanted, out_of_reach = str(run.schedule.source_data), 0
    dataset = open_dataset(wanted, target=run.task)
    if run.base is not None:
        dataset, out_of_reach = as_chosen(dataset, wanted, run.base, run.task)
    rows = dataset.rows()
    name = str(dataset.card.get("name") or Path(wanted).stem)
    return SourceData(name, rows, hashlib.sha256(rows.tobytes()).hexdigest(), out_of_reach)


class Cohort:
    """All state of some runs, and how it advances."""

    def __init__(self, runs: Sequence[RunConfig], threads: int | None = None) -> None:
        first = runs[0]
        self.runs, self.plan = list(runs), first.schedule
        self.spec, self.normalises = first.spec, first.sac.normalise_observations
        self.lanes_count, self.bodies = len(runs), self.plan.source_env_count
        self.tasks, self.seeds = [run.task for run in runs], [run.seed for run in runs]
        self.residuals = residuals_of(runs)
        self.learner = Learner(runs, Devices(len(runs)))
        self.domain = self._open_bodies(threads)
        self.on_device: DeviceSources | None = None  # the sources, where they step where all is learned
        if isinstance(self.domain, OwnBodies) and self.domain.on_device and self.learner.devices.count == 1:
            self.on_device = DeviceSources(self.domain, self.lanes_count, self.plan.time_limits_end)
        self.source_ids = np.arange(self.lanes_count * self.bodies)
        self.target_ids = len(self.source_ids) + np.arange(self.lanes_count * self.plan.acts_in_target)
        every_lane = np.arange(self.lanes_count)
        self.lane_of = np.concatenate((np.repeat(every_lane, self.bodies), every_lane))  # of each body
        self.clock = self.source_rows = self.target_rows = self.updates = 0
        self.lost = {"source": 0, "target": 0}  # of the rows those that no replay has: their file was damaged
        self._chosen: Any = None  # the next tick's actions, where the device is at them already
        self.learned_at: int | None = None  # the clock of the newest updates: a tick that failed learns only once
        self.playing = False  # in the middle of a target episode with a frozen policy
        self.failures = Failures()
        self.members = Members(self.seeds, 1 + len(first.recipe.method.others))
        self.running_return = np.zeros(len(self.source_ids) + len(self.target_ids))
        self.finished: list[tuple[int, int, float]] = []  # (lane, role, return) of training episodes since the last log
        self.target_returns: list[tuple[int, float]] = []  # (lane, return) of all target episodes, if not evaluated
        self.new_rows = {role: NewRows(self.lanes_count, row_width(self.spec)) for role in ("source", "target")}
        self.source_data: SourceData | None = None
        if self.plan.source_data is not None:
            self.source_data = open_source(first)
            self.learner.take(self.source_data.rows)

    def _open_bodies(self, threads: int | None) -> Any:
        lanes = list(zip(self.tasks, self.seeds, strict=True))
        role = "source" if self.plan.source_dynamics == "stock" else "target"
        bodies = [(task, role) for task, _ in lanes for _ in range(self.bodies)]
        starts = [(seed, SOURCE, body) for _, seed in lanes for body in range(self.bodies)]
        if self.plan.acts_in_target:
            bodies += [(task, "target") for task, _ in lanes]
            starts += [(seed, TARGET, 0) for _, seed in lanes]
        robots = [(task, role) for task, role in bodies if isinstance(task, Task)]
        domain: Any = NoBodies(self.spec)
        self._in_processes = bool(robots and threads and beside_a_gpu())
        if robots and threads and self._in_processes:
            domain = BodyProcesses(robots, starts, threads, self.plan.padded)
            domain = pairs.with_effects(domain, robots, starts)
        elif bodies:
            domain = pairs.open_bodies(bodies, starts, threads, self.plan.env_processes, self.plan.padded)
        if any(self.residuals):
            of_sources = [residual for residual in self.residuals for _ in range(self.bodies)]
            domain = ResidualBodies(domain, of_sources + self.residuals * self.plan.acts_in_target)
        if self.bodies > 1:
            # Staggered, so that time limits do not end all episodes of a run at once.
            spent = np.arange(self.bodies) * self.spec.time_limit // self.bodies
            domain.reset(np.arange(self.lanes_count * self.bodies), np.tile(spent, self.lanes_count))
        return domain

    @property
    def alive(self) -> np.ndarray:
        """[lanes] bool: the runs that go on."""
        return self.failures.alive(self.lanes_count)

    @property
    def settled(self) -> Lane:
        """The lanes, those that failed as they were when last known to be well; the newest updates may have failed."""
        self.look_for_faults()
        return self.learner.settled(self.alive)

    @property
    def may_learn(self) -> bool:
        enough = self.plan.learning_starts
        source_ready = not self.bodies or self._stored("source") >= enough
        # Rows of a whole episode count one by one, as those of single steps do: the updates are as many.
        stored = min(self._stored("target"), self.plan.target_steps_due(self.clock))
        return source_ready and (not self.plan.acts_in_target or self.clock < self.plan.head_start or stored >= enough)

    @property
    def plays_next(self) -> bool:
        """Whether a target step of a whole episode comes before the next tick."""
        left = self.plan.target_mode == "episodic" and self.target_rows < self.plan.target_budget
        return left and (self.playing or self.clock == self._target_clock)

    @property
    def _target_clock(self) -> int:
        """When the next target step is due."""
        return self.plan.head_start + self.target_rows * self.plan.source_steps_per_target_step

    def _stored(self, role: str) -> int:
        """Rows that a domain's replay was given, those that were overwritten counted, too."""
        return (self.source_rows if role == "source" else self.target_rows) - self.lost[role]

    def _sizes(self) -> tuple[np.int32, np.int32]:
        """Rows of the source and of the target replay that are filled."""
        source, target = self.plan.capacities
        source_rows = min(self._stored("source"), source) if self.source_data is None else len(self.source_data.rows)
        return np.int32(source_rows), np.int32(min(self._stored("target"), target))

    def tick(self) -> None:
        """Act, learn beside the physics, store."""
        ids = self._bodies_at(self.clock)
        chosen, self._chosen = self._chosen or self._choose(ids, self.clock), None
        split = int((ids < len(self.source_ids)).sum())
        sent = self.on_device if split else None
        if sent is not None:  # before the updates: then nobody waits for these
            sent.step(chosen, self.alive, with_target=len(ids) > split)
            chosen, ids = (np.zeros(0, np.float32), *chosen[1:]), ids[split:]
        if self.may_learn and self.plan.learns_at(self.clock) and self.learned_at != self.clock:
            self.learn()
            self.learned_at = self.clock
        source_actions, target_actions, faults = jax.device_get(chosen)
        self._note_faults(faults)
        actions = np.concatenate((source_actions, target_actions), axis=None).reshape(-1, self.spec.action_size)
        made = [] if sent is None else [(self.source_ids, self._told(sent), sent.rows)]
        made.append((ids, self._act(ids, actions[: len(ids)]), None))
        if self._in_processes and not self.normalises and self.members.count == 1:
            # The device is at the next actions while these rows are looked at.
            self._chosen = self._choose(self._bodies_at(self.clock + self.plan.tick), self.clock + self.plan.tick)
        for acted, rows, packed in made:
            self._take_in(acted, rows, packed)
        self.clock += self.plan.tick

    def _bodies_at(self, clock: int) -> np.ndarray:
        """Those that act in the tick that begins then."""
        sources = self.source_ids if self.plan.source_acts_at(clock) else self.source_ids[:0]
        if len(self.target_ids) and self.plan.target_acts_at(clock) and self.plan.target_mode == "steps":
            return np.concatenate((sources, self.target_ids))
        return sources

    def learn(self) -> None:
        """Have the device sent to the updates of one tick."""
        self.learner.learn(self._sizes(), self.updates, self.alive)
        self.updates += self.plan.updates_per_tick

    def play(self) -> None:
        """One target step of a whole episode, with the policy as it is: source and updates wait until it is over."""
        _, actions, faults = jax.device_get(self._choose(self.target_ids, self._target_clock))
        self._note_faults(faults)
        rows = self._act(self.target_ids, actions.reshape(self.lanes_count, -1))
        self.playing = not self._take_in(self.target_ids, rows).any()

    def _choose(self, ids: np.ndarray, number: int) -> Any:
        """Every lane's actions, of its sources only where these are in `ids`. `number` seeds what is drawn."""
        split, size = len(self.source_ids), self.spec.observation_size
        seen = pairs.seen_by(self.domain, ids)
        if not (ids < split).any():
            source_seen = np.zeros((self.lanes_count, 0, size), np.float32)
        elif self.on_device is not None:
            source_seen = self.on_device.seen
        else:
            source_seen = seen[:split].reshape(self.lanes_count, self.bodies, size).astype(np.float32)
        target_seen = seen[split:].reshape(self.lanes_count, -1, size).astype(np.float32)
        return self.learner.act(source_seen, target_seen, number, self.members.acting)

    def _act(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        return self.domain.step(ids, self.failures.guard_actions(actions, self.lane_of[ids], self.clock))

    def _told(self, sent: DeviceSources) -> Rows:
        """What the host has to know of the step that was sent."""
        for lane in np.flatnonzero(~sent.well()):
            self.failures.setdefault(int(lane), ("action", self.clock))
        return sent.told()

    def _take_in(self, ids: np.ndarray, rows: Rows, packed: Any = None) -> np.ndarray:
        """Count and store what came of it, packed on the device or here; which episodes ended."""
        lane_of = self.lane_of[ids]
        if packed is None:
            packed = self._pack(rows, lane_of)
        ended = rows.terminated | rows.truncated | rows.diverged
        self._count_returns(ids, lane_of, rows.reward, ended)
        flags = (TRUNCATED * rows.truncated + DIVERGED * rows.diverged).astype(np.uint8)
        split = int((ids < len(self.source_ids)).sum())
        self._store(packed, flags, split, len(ids) > split)
        return ended

    def _pack(self, rows: Rows, lane_of: np.ndarray) -> np.ndarray:
        if self.plan.time_limits_end:
            rows = rows._replace(terminated=rows.terminated | rows.truncated)
        with np.errstate(over="ignore"):
            packed = pack(rows)
        return self.failures.guard_rows(packed, lane_of, self.spec, self.clock)

    def look_for_faults(self) -> None:
        """Those of the updates just done; otherwise the next tick tells."""
        self._note_faults(np.asarray(self.learner.lanes.fault))

    def _note_faults(self, faults: np.ndarray) -> None:
        self.failures.note(faults, self.learner.programs.faults, self.clock - self.plan.tick)

    def _count_returns(self, ids: np.ndarray, lane_of: np.ndarray, reward: np.ndarray, ended: np.ndarray) -> None:
        self.running_return[ids] += reward
        for position in np.flatnonzero(ended):
            body = ids[position]
            role = SOURCE if body < len(self.source_ids) else TARGET
            gained, self.running_return[body] = float(self.running_return[body]), 0.0
            if (own := pairs.own_bodies(self.domain)) is not None and own.interrupted[body]:
                continue  # nobody knows what it would have gained
            self.finished.append((int(lane_of[position]), role, gained))
            if role == TARGET:
                self.members.ended(int(lane_of[position]), gained)
            if role == TARGET and not self.plan.eval_episodes:
                self.target_returns.append((int(lane_of[position]), gained))

    def _store(self, packed: Any, flags: np.ndarray, split: int, with_target: bool) -> None:
        source_capacity, target_capacity = self.plan.capacities
        width, on_host = packed.shape[-1], isinstance(packed, np.ndarray)
        if split:
            new = packed[:split].reshape(self.lanes_count, self.bodies, width) if on_host else packed
            self._put("source", new, self._stored("source") % source_capacity)
            flags_of = flags[:split].reshape(self.lanes_count, self.bodies)
            self.new_rows["source"].append(new if on_host else None, flags_of)
            self.source_rows += self.bodies
            if self.new_rows["source"].awaited >= self.learner.block:
                self._bring_rows()
        if with_target:
            new = packed[split:].reshape(self.lanes_count, 1, width)
            self._put("target", new, self._stored("target") % target_capacity)
            self.new_rows["target"].append(new, flags[split:].reshape(self.lanes_count, 1))
            self.target_rows += 1

    def _bring_rows(self) -> None:
        """To the host, from the replay buffer, what only the device has: at the latest before it is overwritten."""
        if awaited := self.new_rows["source"].awaited:
            self.new_rows["source"].fill(self.learner.newest(self._stored("source"), awaited))

    def _put(self, role: str, new: Any, position: int) -> None:
        if self.source_data is None:
            self.learner.observe(new)
        self.learner.store(role, new, position)

    def diagnose(self, held_out: tuple[np.ndarray, np.ndarray] | None) -> dict[str, np.ndarray]:
        """Each diagnostic [lanes]; empty before there are rows of each domain that gives any."""
        nothing_yet = self.bodies and not self._stored("source")
        if nothing_yet or (self.plan.acts_in_target and not self._stored("target")):
            return {}
        sizes = self._sizes()[0], np.int32(self._stored("target"))
        return self.learner.diagnose(sizes, self.updates, held_out)

    def continue_from(self, starts: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Some lanes go on with the networks of earlier runs, by their names in agent.safetensors."""
        now = {"agent": self.learner.lanes.agent, "moments": self.learner.lanes.moments}
        filled = {}
        for name, leaf in named_leaves(now).items():
            of_lanes = np.array(leaf)
            # A temperature that is not tuned is this run's setting, not the earlier run's.
            if "log_temperature" not in name or self.runs[0].sac.tune_temperature:
                for lane, arrays in starts.items():
                    # An average begins with the actor, where that run kept none.
                    known = name if name in arrays else name.replace(".slow_actor", ".actor.value")
                    of_lanes[lane] = matching(known, arrays, of_lanes[lane])
            filled[name] = of_lanes
        self.learner.lanes = self.learner.lanes._replace(**fill_leaves(now, filled))

    def agent_arrays(self, lane: int) -> dict[str, np.ndarray]:
        """One run's networks and optimisers by name, and what its observations are normalised by."""
        lanes = self.settled
        tree = {"agent": lanes.agent, "others": lanes.others, "learned": lanes.learned, "moments": lanes.moments}
        return {name: np.asarray(leaf[lane]) for name, leaf in named_leaves(tree).items()}

    def policies(self) -> Policies:
        """A copy of the policies on the host, as they act in the target; they know their source's side, too."""
        lanes = self.settled
        network = actor_network(self.runs[0].sac, self.spec)
        steps, arrays = network.steps, self._deployed(lanes)
        source_bias = None
        if steps[0] in DOMAIN_INPUTS:
            source_bias = _within(types.SOURCE, steps[0], arrays)[1][:, None]
            steps, arrays = steps[1:], _within(types.TARGET, steps[0], arrays)
        *arrays, weight, bias = [array if array.ndim == 3 else array[:, None] for array in arrays]
        actions = self.spec.action_size  # the mean comes first, then the log-std
        bounds = np.stack([np.asarray(bound) for bound in (lanes.sac.log_std_low, lanes.sac.log_std_high)])
        std_head = StdHead(np.ascontiguousarray(weight[..., actions:]), bias[..., actions:], bounds.T)
        arrays += [weight[..., :actions], bias[..., :actions]]
        mean = deviation = None
        if lanes.moments is not None:
            mean = np.array(lanes.moments.mean)[:, None]
            deviation = np.array(jax.vmap(Moments.deviation)(lanes.moments))[:, None]
        return Policies(steps, tuple(map(np.ascontiguousarray, arrays)), mean, deviation, std_head, source_bias)

    def _deployed(self, lanes: Lane) -> list[np.ndarray]:
        """The actor's arrays of each lane's deployed member."""
        members = [agent.deployed for agent in (lanes.agent, *lanes.others)]
        every, chosen = np.arange(self.lanes_count), self.members.deployed
        return [np.stack([np.asarray(array) for array in same])[chosen, every] for same in zip(*members, strict=True)]

    def take_rows(self) -> dict[str, np.ndarray]:
        """Those that are not on disk yet, with their flags; whoever takes them puts them there before the next take."""
        rows = {}
        self._bring_rows()
        for role, new in self.new_rows.items():
            if new.nbytes:
                rows[role], rows[f"{role}_flags"] = new.take()
        return rows

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(state, counters) for a checkpoint; its rows are those that were ever taken."""
        state = {f"lanes/{name}": np.asarray(leaf) for name, leaf in named_leaves(self.settled).items()}
        state |= {f"physics/{name}": array for name, array in self.domain.save().items()}
        state["running_return"] = self.running_return.copy()
        host = {
            "clock": self.clock,
            "source_rows": self.source_rows,
            "target_rows": self.target_rows,
            "updates": self.updates,
            "failures": [[lane, *failure] for lane, failure in self.failures.items()],
            "finished": self.finished,
            "learned_at": self.learned_at,
            "playing": self.playing,
            "target_returns": self.target_returns,
            "members": self.members.save(),
            "source_data": None if self.source_data is None else self.source_data.sha256,
        }
        return state, host

    def load(self, state: dict[str, np.ndarray], host: dict[str, Any], segments: list[dict[str, np.ndarray]]) -> None:
        """Go on exactly where `save` was called; in custom environments, with new episodes.

        Replays are filled from the rows that are left, one after the other, whatever was lost between them.
        """
        if self.source_data is not None and host["source_data"] != self.source_data.sha256:
            raise OffdynError(
                f"{self.plan.source_data}: not the dataset this training began with (sha256 "
                f"{self.source_data.sha256[:12]}, was {host['source_data'][:12]}); put that one back to resume"
            )
        self.learner.lanes = fill_leaves(
            self.learner.lanes, {k[6:]: v for k, v in state.items() if k.startswith("lanes/")}
        )
        self.domain.load({k[8:]: v for k, v in state.items() if k.startswith("physics/")})
        self.running_return = state["running_return"].copy()
        self.clock, self.updates = host["clock"], host["updates"]
        self.source_rows, self.target_rows = host["source_rows"], host["target_rows"]
        self.failures = Failures({lane: (quantity, at) for lane, quantity, at in host["failures"]})
        self.finished = [(lane, role, value) for lane, role, value in host["finished"]]
        self.learned_at, self.playing = host.get("learned_at"), host.get("playing", False)
        if "members" in host:
            self.members.load(host["members"])
        self.target_returns = [(lane, value) for lane, value in host.get("target_returns", [])]
        if pairs.own_bodies(self.domain) is not None:
            self.running_return[:], self.playing = 0.0, False
        rings = []
        for name, capacity in zip(("source", "target"), self.plan.capacities, strict=True):
            ring = np.zeros((self.lanes_count, capacity, row_width(self.spec)), np.float32)
            position = 0
            for segment in segments:
                if name in segment:
                    new = segment[name]
                    ring[:, (position + np.arange(new.shape[1])) % capacity] = new
                    position += new.shape[1]
            given = self.source_rows if name == "source" else self.target_rows
            if position > given:
                raise ValueError(f"{position} {name} transitions, where {given} were made")
            self.lost[name] = given - position
            rings.append(self.learner.devices.deal(ring))
        self.learner.experience = Experience(*rings)
        if self.source_data is not None:
            self.learner.experience = self.learner.experience._replace(
                source=self.learner.devices.share(self.source_data.rows)
            )


def _within(domain: float, how: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The network of one domain: what its first layer makes of the domain is a part of that layer's bias."""
    said: Any = domain
    if how == "embedding":
        table, *arrays = arrays
        said = table[:, round(domain)][:, None]
    weight, bias, *others = arrays
    size = weight.shape[1] - DOMAIN_INPUTS[how]
    seen, of_domain = weight[:, :size], weight[:, size:]
    return [seen, bias + (said * of_domain if how == "flag" else said @ of_domain)[:, 0], *others]
