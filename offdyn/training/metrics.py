"""What is measured of a cohort: evaluations beside training, and the lines of its runs' curves and metrics."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import jax
import numpy as np

from .._util.types import SOURCE, TARGET
from ..algos.networks import DOMAIN_INPUTS
from ..algos.sac import actor_network
from ..data.replay import Moments
from ..envs import pairs
from ..policies.trained import Policies, StdHead
from .cohort import Cohort
from .evaluation import Evaluation, Evaluator
from .program import DIAGNOSED_ROWS, Lane
from .progress import Evaluated, Progress
from .run_folder import RunFolder

PATIENCE = 300.0  # seconds that a training waits for an evaluation before it says so, and again


class Measurements:
    """Evaluates a cohort and writes what comes of it, and of its updates, into its runs' folders."""

    def __init__(
        self,
        cohort: Cohort,
        folders: list[RunFolder],
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

        policies = policies_of(cohort)
        if plan.keep_policies:
            for lane in np.flatnonzero(alive):
                write_policy(self.folders[lane], policies, int(lane), f"policies/step-{clock:09d}")
        future = self.pool.submit(
            self.evaluator,
            policies,
            plan.eval_episodes,
            plan.eval_source_episodes,
            index=clock // plan.eval_interval,
            kept_rows=DIAGNOSED_ROWS,
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
        final = self.evaluator(policies_of(self.cohort), plan.final_episodes, 0, index=index)
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


def write_policy(folder: RunFolder, policies: Policies, lane: int, name: str = "policy") -> None:
    """A lane's policy, of the size of its own robot, as a file of its run."""
    own = policies.lane(lane).cut(pairs.spec_of(folder.config.task))
    folder.write_policy(own.named(), own.steps, name)


def _number(diagnostics: dict[str, np.ndarray], name: str, lane: int) -> float | None:
    """None where there was nothing to measure."""
    return float(diagnostics[name][lane]) if name in diagnostics and not np.isnan(diagnostics[name][lane]) else None


def policies_of(cohort: Cohort) -> Policies:
    """A copy of the policies on the host, as they act in the target; they know their source's side, too."""
    lanes = cohort.settled
    network = actor_network(cohort.runs[0].sac, cohort.spec)
    steps, arrays = network.steps, _deployed(cohort, lanes)
    source_bias = None
    if steps[0] in DOMAIN_INPUTS:
        source_bias = _within(SOURCE, steps[0], arrays)[1][:, None]
        steps, arrays = steps[1:], _within(TARGET, steps[0], arrays)
    *arrays, weight, bias = [array if array.ndim == 3 else array[:, None] for array in arrays]
    actions = cohort.spec.action_size  # the mean comes first, then the log-std
    bounds = np.stack([np.asarray(bound) for bound in (lanes.sac.log_std_low, lanes.sac.log_std_high)])
    std_head = StdHead(np.ascontiguousarray(weight[..., actions:]), bias[..., actions:], bounds.T)
    arrays += [weight[..., :actions], bias[..., :actions]]
    mean = deviation = None
    if lanes.moments is not None:
        mean = np.array(lanes.moments.mean)[:, None]
        deviation = np.array(jax.vmap(Moments.deviation)(lanes.moments))[:, None]
    return Policies(steps, tuple(map(np.ascontiguousarray, arrays)), mean, deviation, std_head, source_bias)


def _deployed(cohort: Cohort, lanes: Lane) -> list[np.ndarray]:
    """The actor's arrays of each lane's deployed member."""
    members = [agent.actor.value for agent in (lanes.agent, *lanes.others)]
    every, chosen = np.arange(cohort.lanes_count), cohort.members.deployed
    return [np.stack([np.asarray(array) for array in same])[chosen, every] for same in zip(*members, strict=True)]


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
