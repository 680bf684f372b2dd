"""How good a policy is: the mean action, in environments that are built afresh and that training never sees.

And what is written down of it beside training: the lines of the runs' curves and metrics.

Beside a GPU in processes of their own, each `python -m offdyn.training.evaluation`, which load no JAX: in one process
training and evaluation would wait for each other. What goes through the pipes is JSON and safetensors.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from .._util import cores
from .._util.child import Child, parent
from ..data.transition import pack
from ..envs import pairs
from ..envs.custom import EnvironmentFailed
from ..envs.domain import Domain, Rows
from ..envs.pairs import Pair
from ..envs.residual import Residual, ResidualBodies
from ..policies.trained import Policies
from .progress import Evaluated, Progress

if TYPE_CHECKING:  # both load JAX
    from .cohort import Cohort
    from .run_folder import RunFolder

EVALUATION = 2  # the role in (seed, role, ...) that seeds starts; training uses 0 for source and 1 for target
PIECES_FOR_EACH = 3  # of an evaluation, about as long as each other, for every child: fewer, and the last is waited for
PATIENCE = 300.0  # seconds that a training waits for an evaluation before it says so, and again
MOST_PROCESSES = 8  # of one thread each: threads of one process would wait for each other at every step


class Evaluation(NamedTuple):
    """Returns of fresh episodes, and some of the target rows seen."""

    target_returns: np.ndarray  # [lanes, episodes]
    source_returns: np.ndarray
    # [lanes, n, width] packed target rows, which training never sees, and [lanes, n]: 0 where there were fewer than n.
    held_out: tuple[np.ndarray, np.ndarray] | None
    target_steps: np.ndarray | None = None  # [lanes] that it took, where custom environments may be dear


def evaluate(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    target_episodes: int,
    source_episodes: int,
    *,
    index: int,
    threads: int | None = None,
    kept_rows: int = 0,
    padded: bool = False,
    residuals: Sequence[Residual | None] = (),
) -> Evaluation:
    """Whole episodes of every lane's policy, all stepped together; evaluation number `index` has its own starts.

    `residuals`: of each lane, where some move the actions of base policies.
    """
    if isinstance(tasks[0], pairs.OwnPair):
        try:
            return _evaluate_own(policies, tasks, seeds, residuals, target_episodes, source_episodes, index, kept_rows)
        except EnvironmentFailed as failure:
            raise EnvironmentFailed(f"in an evaluation: {failure}") from failure
    roles = ["target"] * target_episodes + ["source"] * source_episodes
    starts = [(seed, EVALUATION, index, episode) for seed in seeds for episode in range(len(roles))]
    returns, stepped, packed = _play(policies, tasks, residuals, roles, starts, 1, kept_rows > 0, threads, padded)
    held_out = _selection(stepped, packed, kept_rows, len(tasks), target_episodes, len(roles)) if packed else None
    return Evaluation(returns[:, :target_episodes], returns[:, target_episodes:], held_out)


def episodes(domain: Domain, act: Callable[[np.ndarray], np.ndarray], bodies: int) -> Iterator[tuple[np.ndarray, Rows]]:
    """An episode of every body, stepped together: those that still run, and their rows."""
    running = np.arange(bodies)
    while len(running):
        actions = act(pairs.seen_by(domain, running)).reshape(bodies, -1)[running]
        rows = domain.step(running, np.nan_to_num(actions))
        yield running, rows
        running = running[~(rows.terminated | rows.truncated | rows.diverged)]


def in_lanes(policies: Policies) -> Callable[[np.ndarray], np.ndarray]:
    """Mean actions of bodies that lie lane by lane, as many of each."""
    return lambda seen: policies(seen.reshape(policies.lanes, -1, seen.shape[-1]))


def _evaluate_own(
    policies: Policies,
    tasks: Sequence[Pair],
    seeds: Sequence[int],
    residuals: Sequence[Residual | None],
    target_episodes: int,
    source_episodes: int,
    index: int,
    kept_rows: int,
) -> Evaluation:
    """The same where an environment may be dear: one target per lane, its episodes one after the other."""
    lanes = len(tasks)
    in_target = [(seed, EVALUATION, index, 0, 0) for seed in seeds]
    in_source = [(seed, EVALUATION, index, 1, body) for seed in seeds for body in range(source_episodes)]
    target, stepped, packed = _play(policies, tasks, residuals, ["target"], in_target, target_episodes, True)
    source, _, _ = _play(policies, tasks, residuals, ["source"] * source_episodes, in_source, 1, False)
    held_out = _selection(stepped, packed, kept_rows, lanes, 1, 1) if kept_rows and packed else None
    steps = np.bincount(np.concatenate([np.zeros(0, int), *stepped]), minlength=lanes)
    return Evaluation(target, source, held_out, steps)


def _play(
    policies: Policies,
    tasks: Sequence[Pair],
    residuals: Sequence[Residual | None],
    roles: Sequence[str],
    starts: Sequence[tuple[int, ...]],
    rounds: int,
    keeps: bool,
    threads: int | None = None,
    padded: bool = False,
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """(returns [lanes, rounds x roles], and where kept the bodies that made each step and their packed rows)."""
    stepped: list[np.ndarray] = []
    packed: list[np.ndarray] = []
    lanes, at_once = len(tasks), len(roles)
    if not rounds * at_once:
        return np.zeros((lanes, 0)), stepped, packed
    domain = pairs.open_bodies([(task, role) for task in tasks for role in roles], starts, threads, padded=padded)
    if any(residuals):
        domain = ResidualBodies(domain, [residual for residual in residuals for _ in roles])
    returns = np.zeros((rounds, lanes * at_once))
    try:
        for episode in range(rounds):
            for running, rows in episodes(domain, in_lanes(policies), lanes * at_once):
                returns[episode, running] += rows.reward
                if keeps:
                    stepped.append(running)
                    packed.append(pack(rows))
    finally:
        domain.close()
    return returns.reshape(rounds, lanes, at_once).swapaxes(0, 1).reshape(lanes, -1), stepped, packed


def _selection(
    stepped: list[np.ndarray], packed: list[np.ndarray], n: int, lanes: int, target_episodes: int, per_lane: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each lane n of its target rows, evenly spread over all it saw, and weights that tell rows from padding."""
    rows = np.concatenate(packed)
    lane, episode = np.divmod(np.concatenate(stepped), per_lane)
    chosen = np.zeros((lanes, n, rows.shape[1]), np.float32)
    weight = np.zeros((lanes, n), np.float32)
    for number in range(lanes):
        mine = np.flatnonzero((lane == number) & (episode < target_episodes))
        take = min(n, len(mine))
        chosen[number, :take] = rows[mine[np.linspace(0, len(mine) - 1, take).astype(int)]]
        weight[number, :take] = 1.0
    return chosen, weight


class Evaluator:
    """Evaluates the policies of a cohort: in this process, or, beside a GPU, in children.

    A child gets all lanes' tasks once and then the policies of a few lanes at a time; it gives back their returns.
    """

    def __init__(
        self,
        tasks: Sequence[Pair],
        seeds: Sequence[int],
        threads: int,
        padded: bool,
        residuals: Sequence[Residual | None] = (),
    ) -> None:
        self.tasks, self.seeds, self.threads, self.padded = tasks, seeds, threads, padded
        self.residuals = residuals
        from .hardware import beside_a_gpu  # not in a child, which needs no device

        # May hold what cannot be told to another process.
        own = isinstance(tasks[0], pairs.OwnPair) or any(residuals)
        count = min(len(tasks), cores.left_for_evaluation(threads), MOST_PROCESSES) if beside_a_gpu() and not own else 0
        self.children = [self._begin() for _ in range(count)]
        self.pool = ThreadPoolExecutor(max(1, count), "evaluation")  # of threads that wait for the children
        self.spent = np.ones(len(tasks))  # seconds that each lane's newest evaluation took, its share where they shared

    def _begin(self) -> Child:
        child = Child(__name__, "that evaluates policies")
        about = {
            "tasks": [task.to_mapping() for task in self.tasks],
            "seeds": list(self.seeds),
            "padded": self.padded,
            "cores": cores.every() if cores.taken() else [],
        }
        child.send(json.dumps(about).encode())
        return child

    def __call__(
        self, policies: Policies, target_episodes: int, source_episodes: int, *, index: int, kept_rows: int = 0
    ) -> Evaluation:
        """As `evaluate`."""
        wanted: dict[str, Any] = {
            "target_episodes": target_episodes,
            "source_episodes": source_episodes,
            "index": index,
            "kept_rows": kept_rows,
        }
        if not self.children:
            here: dict[str, Any] = {"threads": self.threads, "padded": self.padded, "residuals": self.residuals}
            return evaluate(policies, self.tasks, self.seeds, **here, **wanted)
        waiting = iter(self._pieces())
        parts: dict[int, dict[str, np.ndarray]] = {}

        def serve(child: Child) -> None:
            for lanes in waiting:
                started = time.perf_counter()
                child.send(json.dumps({"lanes": lanes, **wanted}).encode())
                child.send(save(policies.stacked(np.array(lanes))))
                answer = load(child.receive())
                for number, lane in enumerate(lanes):
                    parts[lane] = {name: array[number : number + 1] for name, array in answer.items()}
                self.spent[lanes] = (time.perf_counter() - started) / len(lanes)

        list(self.pool.map(serve, self.children))
        joined = {name: np.concatenate([parts[lane][name] for lane in sorted(parts)]) for name in parts[0]}
        held_out = (joined["held_out_rows"], joined["held_out_weight"]) if "held_out_rows" in joined else None
        return Evaluation(joined["target_returns"], joined["source_returns"], held_out)

    def _pieces(self) -> list[list[int]]:
        """Lanes that one child evaluates together, the longest first: the last ones to end are then short.

        Lanes of one robot cost less together than one by one, by a third where the robot's own steps are cheap.
        """
        longest = self.spent.sum() / (PIECES_FOR_EACH * len(self.children))
        pieces: list[list[int]] = []
        newest: dict[str, list[int]] = {}  # by robot
        for lane in np.argsort(-self.spent, kind="stable").tolist():
            robot = pairs.family_of(self.tasks[lane])
            if robot not in newest or self.spent[[*newest[robot], lane]].sum() > longest:
                newest[robot] = []
                pieces.append(newest[robot])
            newest[robot].append(lane)
        return sorted(pieces, key=lambda lanes: -self.spent[lanes].sum())

    def close(self) -> None:
        """End the children; one in the middle of an evaluation is not waited for."""
        for child in self.children:
            child.process.kill()
        self.pool.shutdown()  # its threads see the end of their child
        for child in self.children:
            child.close()


class Measurements:
    """Evaluates a cohort and writes what comes of it, and of its updates, into its runs' folders."""

    def __init__(
        self,
        cohort: "Cohort",
        folders: "list[RunFolder]",
        threads: int,
        progress: Progress,
        wall: Callable[[], float],  # seconds of training so far
    ) -> None:
        self.cohort, self.folders, self.progress, self.wall = cohort, folders, progress, wall
        self.plan = cohort.plan
        metrics, lanes = len(cohort.learner.programs.metrics), len(folders)
        self.since_log, self.since_evaluation = np.zeros((lanes, metrics)), np.zeros((lanes, metrics))
        self.updates_at_log = self.updates_at_evaluation = 0
        self.held_out: tuple[np.ndarray, np.ndarray] | None = None
        self.pending: tuple[Future[Evaluation], Callable[[Evaluation], None]] | None = None
        # Metrics that came while an evaluation was under way: their lines follow its line, however long it takes.
        self.waiting: list[tuple[int, int, dict[str, float | None]]] = []  # (lane, clock, metrics)
        self.pool = ThreadPoolExecutor(1, "evaluation")
        self.evaluator = Evaluator(cohort.tasks, cohort.seeds, threads, self.plan.padded, cohort.residuals)
        self.evaluated_at: int | None = None  # clock of the newest line of the curve
        self.returns_shown = 0  # of the cohort's target returns, those that a line of the curve has told
        self.evaluation_steps = np.zeros(lanes, np.int64)  # in custom targets
        self.news: list[Evaluated] = []  # that nobody took yet

    def close(self) -> None:
        self.pool.shutdown()
        self.evaluator.close()

    def evaluate(self) -> None:
        """Send the policies to be evaluated beside training; their line enters the curve when that is done.

        A policy that was told its domain plays the source, too, as in the target: that is the one to be deployed.
        """
        self.collect()
        self._drain()
        cohort, plan = self.cohort, self.plan
        updates = cohort.updates - self.updates_at_evaluation
        means = self.since_evaluation / max(updates, 1)
        self.since_evaluation[:] = 0
        self.updates_at_evaluation = cohort.updates
        diagnostics = cohort.diagnose(self.held_out) if updates else {}
        clock, wall, alive = cohort.clock, self.wall(), cohort.alive
        counts = (cohort.source_rows, cohort.target_rows, cohort.updates)
        trained = cohort.target_returns[self.returns_shown :]
        self.returns_shown = len(cohort.target_returns)
        names = cohort.learner.programs.metrics

        def record(result: Evaluation) -> None:
            self.held_out, self.evaluated_at = result.held_out, clock
            self._count_steps(result)
            for lane in np.flatnonzero(alive):
                metrics: dict[str, float | None] = {
                    name: float(means[lane, i]) if updates else None for i, name in enumerate(names)
                }
                metrics |= {name: _number(diagnostics, name, int(lane)) for name in cohort.learner.programs.diagnostics}
                mine = np.array([value for at, value in trained if at == lane])
                target = result.target_returns[lane] if plan.eval_episodes else mine
                self._record(int(lane), clock, counts, wall, target, result.source_returns[lane], metrics)

        policies = cohort.policies()
        if plan.keep_policies:
            for lane in np.flatnonzero(alive):
                write_policy(self.folders[lane], policies, int(lane), f"policies/step-{clock:09d}")
        future = self.pool.submit(
            self.evaluator,
            policies,
            plan.eval_episodes,
            plan.eval_source_episodes,
            index=clock // plan.eval_interval,
            kept_rows=cohort.learner.programs.diagnosed_rows,
        )
        self.pending = future, record

    def _record(
        self,
        lane: int,
        clock: int,
        counts: tuple[int, int, int],
        wall: float,
        target: np.ndarray,
        source: np.ndarray,
        metrics: dict[str, float | None],
    ) -> None:
        folder = self.folders[lane]
        mean = float(target.mean()) if target.size else None
        line = {
            "source_steps": counts[0],
            "target_steps": counts[1],
            "updates": counts[2],
            "target_return_mean": mean,
            "target_return_std": float(target.std()) if target.size else None,
            "source_return_mean": float(source.mean()) if source.size else None,
            "normalised": None if mean is None else pairs.normalised(folder.config.task, mean),
            "reward_penalty": metrics.get("reward penalty", 0.0),
            "wall_seconds": round(wall, 3),
        }
        whole = line | {name.replace(" ", "_"): value for name, value in metrics.items()}
        folder.append_curve(whole)
        folder.append_metrics(clock, {k: v for k, v in line.items() if k.endswith(("mean", "std", "normalised"))})
        if mean is not None:
            self.progress.evaluated(folder.config.name, mean, line["reward_penalty"])
        self.news.append(Evaluated(folder.path, counts[1], mean, line["source_return_mean"], whole))

    def take_news(self) -> list[Evaluated]:
        """Evaluations recorded since the last call."""
        taken, self.news = self.news, []
        return taken

    def evaluate_final(self) -> Evaluation:
        """Fresh episodes of the final policies."""
        plan = self.plan
        index = plan.length // plan.eval_interval + 1
        final = self.evaluator(self.cohort.policies(), plan.final_episodes, 0, index=index)
        self._count_steps(final)
        return final

    def _count_steps(self, evaluation: Evaluation) -> None:
        if evaluation.target_steps is not None:
            self.evaluation_steps += evaluation.target_steps

    def collect_if_done(self) -> None:
        if self.pending is not None and self.pending[0].done():
            self.collect()

    def collect(self) -> None:
        """Wait for the evaluation under way, if any, and record it."""
        if self.pending is not None:
            future, record = self.pending
            while wait([future], PATIENCE).not_done:
                self.progress.say(
                    f"step {self.cohort.clock}: training waits for an evaluation, for {PATIENCE:.0f} s more; where "
                    "bodies have cores of their own, it gets only what all other programs leave"
                )
            self.pending = None
            record(future.result())
        for lane, clock, metrics in self.waiting:
            self.folders[lane].append_metrics(clock, metrics)
        self.waiting.clear()

    def give_up(self) -> None:
        """Wait for the evaluation under way, if any, and record nothing."""
        if self.pending is not None:
            self.pending[0].exception()
            self.pending = None

    def _drain(self) -> None:
        sums = self.cohort.learner.drain()
        self.since_log += sums
        self.since_evaluation += sums

    def log(self) -> None:
        """What the updates since the last log told, as a line of metrics for each run."""
        self._drain()
        cohort = self.cohort
        updates = cohort.updates - self.updates_at_log
        means = self.since_log / max(updates, 1)
        for lane in np.flatnonzero(cohort.alive):
            metrics: dict[str, float | None] = {
                "updates": cohort.updates,
                "target_steps": cohort.target_rows,
            }
            for role, name in enumerate(("source", "target")):
                returns = [value for at, kind, value in cohort.finished if at == lane and kind == role]
                metrics[f"training return {name}"] = float(np.mean(returns)) if returns else None
            metrics |= {
                name: float(means[lane, i]) if updates else None
                for i, name in enumerate(cohort.learner.programs.metrics)
            }
            metrics["diverged bodies"] = self._divergences(int(lane))
            self.waiting.append((int(lane), cohort.clock, metrics))
        if self.pending is None:
            self.collect()
        self.since_log[:] = 0
        self.updates_at_log = cohort.updates
        cohort.finished.clear()

    def _divergences(self, lane: int) -> int:
        cohort = self.cohort
        counts = cohort.domain.divergences
        source = counts[: len(cohort.source_ids)].reshape(len(self.folders), -1)[lane].sum()
        target = counts[len(cohort.source_ids) :].reshape(len(self.folders), -1)[lane].sum()
        return int(source + target)

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(arrays, counters) for a checkpoint."""
        state = {"since_log": self.since_log, "since_evaluation": self.since_evaluation}
        if self.held_out is not None:
            state |= {"held_out_rows": self.held_out[0], "held_out_weight": self.held_out[1]}
        host = {
            "updates_at_log": self.updates_at_log,
            "updates_at_evaluation": self.updates_at_evaluation,
            "evaluated_at": self.evaluated_at,
            "returns_shown": self.returns_shown,
            "evaluation_steps": self.evaluation_steps.tolist(),
        }
        return state, host

    def load(self, state: Mapping[str, np.ndarray], host: Mapping[str, Any]) -> None:
        """Go on where `save` was called."""
        self.since_log, self.since_evaluation = state["since_log"].copy(), state["since_evaluation"].copy()
        if "held_out_rows" in state:
            self.held_out = state["held_out_rows"], state["held_out_weight"]
        self.updates_at_log, self.updates_at_evaluation = host["updates_at_log"], host["updates_at_evaluation"]
        self.evaluated_at = host.get("evaluated_at")
        self.returns_shown = host.get("returns_shown", 0)
        self.evaluation_steps += np.asarray(host.get("evaluation_steps", 0))


def _number(diagnostics: dict[str, np.ndarray], name: str, lane: int) -> float | None:
    """None where there was nothing to measure."""
    return float(diagnostics[name][lane]) if name in diagnostics and not np.isnan(diagnostics[name][lane]) else None


def write_policy(folder: "RunFolder", policies: Policies, lane: int, name: str = "policy") -> None:
    """A lane's policy, of the size of its own robot, as a file of its run."""
    own = policies.lane(lane).cut(pairs.spec_of(folder.config.task))
    folder.write_policy(own.named(), own.steps, name)


def main() -> None:
    """A child: evaluate what comes until the training closes the pipe."""
    training = parent()
    try:
        about = json.loads(training.receive())
        if about["cores"]:
            cores.stand_back(about["cores"])
        tasks = [pairs.find(task) for task in about["tasks"]]
        while True:
            wanted = json.loads(training.receive())
            policies = Policies.from_stacked(load(training.receive()))
            lanes = wanted.pop("lanes")
            own, seeds = [tasks[lane] for lane in lanes], [about["seeds"][lane] for lane in lanes]
            done = evaluate(policies, own, seeds, threads=1, padded=about["padded"], **wanted)
            arrays = {"target_returns": done.target_returns, "source_returns": done.source_returns}
            if done.held_out is not None:
                arrays |= {"held_out_rows": done.held_out[0], "held_out_weight": done.held_out[1]}
            training.send(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
