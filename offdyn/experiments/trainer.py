"""One cohort from where it is to its end: evaluation beside training, logs, checkpoints, stops."""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..domains import pairs
from ..domains.own import EnvironmentFailed
from ..errors import OffdynError
from . import own_target, provenance, starts
from .checkpoint import CohortFolder
from .cohorts import Cohort
from .evaluate import Evaluation, Policies
from .evaluator import Evaluator
from .programs import DIAGNOSED_ROWS
from .progress import Progress
from .record import RunFolder

LAST_TRAINING_EPISODES = 10  # that stand for the final policy where no fresh ones are played


class Stopped(Exception):
    """Training was asked to stop, or an environment of one's own failed, and saved itself first."""


@dataclass
class Stop:
    """Set by a signal; looked at once per tick."""

    wanted: bool = False


class Trainer:
    """One cohort from where it is to its end."""

    def __init__(
        self, folders: list[RunFolder], cohort: CohortFolder, threads: int, progress: Progress, stop: Stop
    ) -> None:
        self.folders, self.disk, self.threads = folders, cohort, threads
        self.progress, self.stop = progress, stop
        self.wall_before, self.started = 0.0, time.perf_counter()
        self.runs = [folder.config for folder in folders]
        self.cohort = Cohort(self.runs, threads)
        self.plan = self.cohort.plan
        notes, lanes = len(self.cohort.programs.notes), len(folders)
        self.since_log, self.since_evaluation = np.zeros((lanes, notes)), np.zeros((lanes, notes))
        self.updates_at_log = self.updates_at_evaluation = 0
        self.held_out: tuple[np.ndarray, np.ndarray] | None = None
        self.pending: tuple[Future[Evaluation], Callable[[Evaluation], None]] | None = None
        # Metrics that came while an evaluation was under way: their lines follow its line, however long it takes.
        self.waiting: list[tuple[int, int, dict[str, float | None]]] = []  # (lane, clock, metrics)
        self.pool = ThreadPoolExecutor(1, "evaluation")
        self.evaluator = Evaluator(self.cohort.tasks, self.cohort.seeds, threads, self.plan.padded)
        self.started_from: dict[int, dict[str, Any]] = {}  # by lane: the run whose networks it began with
        self.evaluated_at: int | None = None  # clock of the newest line of the curve
        self.returns_shown = 0  # of the cohort's target returns, those that a line of the curve has told
        self.evaluation_steps = np.zeros(lanes, np.int64)  # in targets of one's own
        self._load()
        self.logs = own_target.attend(self.cohort, folders, progress)
        self.reported = set(self.cohort.failures)

    @property
    def wall(self) -> float:
        """Seconds of training so far, stops left out."""
        return self.wall_before + time.perf_counter() - self.started

    def run(self) -> None:
        """Train to the end, or until asked to stop."""
        cohort, plan = self.cohort, self.plan
        try:
            self._write_provenance("running")
            while cohort.clock < plan.length and cohort.alive.any():
                if cohort.clock % plan.eval_interval == 0 and cohort.clock != self.evaluated_at:
                    self._evaluate()
                while cohort.plays_next and cohort.alive.any() and not self.stop.wanted:
                    cohort.play()
                if not (cohort.plays_next and self.stop.wanted):
                    self._tick()
                self.progress.advanced(cohort.clock, plan.length, self.wall)
                if self.stop.wanted:
                    self._checkpoint()
                    self._write_provenance("stopped")
                    self._publish()
                    raise Stopped
                if cohort.clock % plan.checkpoint_interval == 0 and cohort.clock < plan.length:
                    self._checkpoint()
            self._finish()
            self._publish()
        except EnvironmentFailed as failure:
            self._save_after(failure)
            raise Stopped(str(failure)) from failure
        except OSError as error:
            self._collect_quietly()
            raise OffdynError(
                f"writing failed at step {cohort.clock}: {error}. Nothing that was saved is lost: make room and "
                f"continue with `offdyn resume {self.disk.path.parent.parent}`"
            ) from error
        finally:
            self.pool.shutdown()
            self.evaluator.close()
            for folder in self.folders:
                folder.close()
            for log in self.logs:
                log.close()
            cohort.domain.close()

    def _tick(self) -> None:
        cohort, plan = self.cohort, self.plan
        cohort.tick()
        if cohort.clock == plan.length:
            cohort.look_for_faults()
        self._report_failures()
        if self.pending is not None and self.pending[0].done():
            self._collect()
        if cohort.clock % plan.log_interval == 0:
            self._log()

    def _save_after(self, failure: EnvironmentFailed) -> None:
        """All that was done before an environment failed is kept, and so is what it had done in the same tick."""
        with contextlib.suppress(EnvironmentFailed):  # the evaluation under way may have met the same trouble
            self._collect()
        self._checkpoint()
        self._write_provenance("stopped")
        self._publish()
        self.progress.say(f"{failure}. Nothing that was done before is lost; see to it, then resume")

    def _publish(self) -> None:
        for log in self.logs:
            log.publish()

    def _evaluate(self) -> None:
        """Send the policies to be evaluated beside training; their line enters the curve when that is done."""
        self._collect()
        self._drain()
        cohort, plan = self.cohort, self.plan
        updates = cohort.updates - self.updates_at_evaluation
        means = self.since_evaluation / max(updates, 1)
        self.since_evaluation[:] = 0
        self.updates_at_evaluation = cohort.updates
        diagnostics = cohort.diagnose(self.held_out) if updates else {}
        clock, wall, alive = cohort.clock, self.wall, cohort.alive
        counts = (cohort.source_rows, cohort.target_rows, cohort.updates)
        trained = cohort.target_returns[self.returns_shown :]
        self.returns_shown = len(cohort.target_returns)
        names = cohort.programs.notes

        def record(result: Evaluation) -> None:
            self.held_out, self.evaluated_at = result.held_out, clock
            if result.target_steps is not None:
                self.evaluation_steps += result.target_steps
            for lane in np.flatnonzero(alive):
                notes: dict[str, float | None] = {
                    name: float(means[lane, i]) if updates else None for i, name in enumerate(names)
                }
                notes |= {name: _number(diagnostics, name, int(lane)) for name in cohort.programs.diagnostics}
                mine = np.array([value for at, value in trained if at == lane])
                target = result.target_returns[lane] if plan.eval_episodes else mine
                self._record_evaluation(int(lane), clock, counts, wall, target, result.source_returns[lane], notes)

        policies = cohort.policies()
        if plan.keep_policies:
            for lane in np.flatnonzero(alive):
                self._write_policy(policies, int(lane), f"policies/step-{clock:09d}")
        future = self.pool.submit(
            self.evaluator,
            policies,
            plan.eval_episodes,
            plan.eval_source_episodes,
            index=clock // plan.eval_interval,
            kept_rows=DIAGNOSED_ROWS,
        )
        self.pending = future, record

    def _record_evaluation(
        self,
        lane: int,
        clock: int,
        counts: tuple[int, int, int],
        wall: float,
        target: np.ndarray,
        source: np.ndarray,
        notes: dict[str, float | None],
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
            "penalty_mean": notes.get("reward penalty", 0.0),
            "wall_seconds": round(wall, 3),
        }
        folder.append_curve(line | {name.replace(" ", "_"): value for name, value in notes.items()})
        folder.append_metrics(clock, {k: v for k, v in line.items() if k.endswith(("mean", "std", "normalised"))})
        if mean is not None:
            self.progress.evaluated(folder.config.name, mean, line["penalty_mean"])

    def _collect(self) -> None:
        """Wait for the evaluation under way, if any, and record it."""
        if self.pending is not None:
            future, record = self.pending
            self.pending = None
            record(future.result())
        for lane, clock, metrics in self.waiting:
            self.folders[lane].append_metrics(clock, metrics)
        self.waiting.clear()

    def _collect_quietly(self) -> None:
        if self.pending is not None:
            self.pending[0].exception()
            self.pending = None

    def _drain(self) -> None:
        sums = self.cohort.drain()
        self.since_log += sums
        self.since_evaluation += sums

    def _log(self) -> None:
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
                name: float(means[lane, i]) if updates else None for i, name in enumerate(cohort.programs.notes)
            }
            metrics["diverged bodies"] = self._divergences(int(lane))
            self.waiting.append((int(lane), cohort.clock, metrics))
        if self.pending is None:
            self._collect()
        self.since_log[:] = 0
        self.updates_at_log = cohort.updates
        cohort.finished.clear()

    def _divergences(self, lane: int) -> int:
        cohort = self.cohort
        counts = cohort.domain.divergences
        source = counts[: len(cohort.source_ids)].reshape(len(self.folders), -1)[lane].sum()
        target = counts[len(cohort.source_ids) :].reshape(len(self.folders), -1)[lane].sum()
        return int(source + target)

    def _report_failures(self) -> None:
        for lane, (quantity, at) in self.cohort.failures.items():
            if lane not in self.reported:
                self.reported.add(lane)
                self._write_agent(lane)
                name = self.runs[lane].name
                self._write_provenance("running")
                self.progress.say(f"{name} stopped: its {quantity} was not finite at step {at}; the others go on")

    def _checkpoint(self) -> None:
        self._collect()
        state, host, rows = self.cohort.save()
        self._report_failures()  # what only the newest updates brought about: a resume would take it for told
        state |= {"since_log": self.since_log, "since_evaluation": self.since_evaluation}
        if self.held_out is not None:
            state |= {"held_out_rows": self.held_out[0], "held_out_weight": self.held_out[1]}
        host |= {
            "updates_at_log": self.updates_at_log,
            "updates_at_evaluation": self.updates_at_evaluation,
            "wall": self.wall,
            "evaluated_at": self.evaluated_at,
            "returns_shown": self.returns_shown,
            "evaluation_steps": self.evaluation_steps.tolist(),
            "started_from": [[lane, about] for lane, about in self.started_from.items()],
            "files": [folder.flush() for folder in self.folders],
        }
        self._write_policies()
        self.disk.save(self.cohort.clock, state, host, rows)
        self.cohort.saved()
        self.progress.say(f"checkpoint at step {self.cohort.clock}", detail=True)

    def _load(self) -> None:
        saved, complaints = self.disk.load()
        for complaint in complaints:
            self.progress.say(f"{complaint}; using the checkpoint before it")
        if saved is None:
            self._start_lanes()
            if any(folder.started for folder in self.folders):
                self.progress.say("no checkpoint was written yet: starting from the beginning")
            for folder in self.folders:
                folder.cut_back({})
            return
        self.cohort.load(saved.state, saved.host, saved.segments)
        self.since_log, self.since_evaluation = saved.state["since_log"].copy(), saved.state["since_evaluation"].copy()
        if "held_out_rows" in saved.state:
            self.held_out = saved.state["held_out_rows"], saved.state["held_out_weight"]
        self.updates_at_log = saved.host["updates_at_log"]
        self.updates_at_evaluation = saved.host["updates_at_evaluation"]
        self.wall_before = saved.host["wall"]
        self.evaluated_at = saved.host.get("evaluated_at")
        self.returns_shown = saved.host.get("returns_shown", 0)
        self.evaluation_steps += np.asarray(saved.host.get("evaluation_steps", 0))
        self.started_from = {lane: about for lane, about in saved.host.get("started_from", [])}
        for folder, lengths in zip(self.folders, saved.host["files"], strict=True):
            folder.cut_back(lengths)
        self.progress.say(f"resumed at step {saved.clock}")

    def _start_lanes(self) -> None:
        """Lanes that go on from an earlier run take its networks; where that run failed, so do they."""
        begun = {}
        for lane, folder in enumerate(self.folders):
            out = folder.path.parent
            if starts.failed(folder.config, out):
                self.cohort.failures[lane] = ("run it goes on from", 0)
            elif (start := starts.load(folder.config, out)) is not None:
                begun[lane] = start.arrays
                self.started_from[lane] = dict(start.about)
        if begun:
            self.cohort.start(begun)

    def _finish(self) -> None:
        """The last evaluation, fresh episodes of the final policy, and everything a result needs."""
        cohort, plan = self.cohort, self.plan
        if cohort.alive.any() and self.evaluated_at != cohort.clock:
            self._evaluate()
            self._collect()
        final = None
        if cohort.alive.any() and plan.final_episodes:
            index = plan.length // plan.eval_interval + 1
            final = self.evaluator(cohort.policies(), plan.final_episodes, 0, index=index)
            if final.target_steps is not None:
                self.evaluation_steps += final.target_steps
        self._write_policies()
        for folder in self.folders:
            folder.flush()
        for lane in np.flatnonzero(cohort.alive):
            folder = self.folders[lane]
            self._write_agent(int(lane))
            trained = np.array([value for at, value in cohort.target_returns if at == lane][-LAST_TRAINING_EPISODES:])
            if final is not None:
                folder.write_json("final.json", folder.summary(final.target_returns[lane]))
            elif len(trained):
                folder.write_json("final.json", folder.summary(trained) | {"final_of": "training episodes"})
        self.disk.keep_rows(cohort.save()[2])
        self._write_provenance("finished")
        self.disk.finish()

    def _write_policies(self) -> None:
        policies = self.cohort.policies()
        for lane in range(len(self.folders)):
            self._write_policy(policies, lane)

    def _write_policy(self, policies: Policies, lane: int, name: str = "policy") -> None:
        own = policies.lane(lane).cut(pairs.spec_of(self.runs[lane].task))
        self.folders[lane].write_policy(own.arrays(), name)

    def _write_agent(self, lane: int) -> None:
        self.folders[lane].write_agent(self.cohort.agent_arrays(lane))

    def _write_provenance(self, state: str) -> None:
        provenance.write(
            self.folders,
            self.cohort,
            state,
            threads=self.threads,
            wall=self.wall,
            started_from=self.started_from,
            evaluation_steps=self.evaluation_steps,
        )


def _number(diagnostics: dict[str, np.ndarray], name: str, lane: int) -> float | None:
    """None where there was nothing to measure."""
    return float(diagnostics[name][lane]) if name in diagnostics and not np.isnan(diagnostics[name][lane]) else None
