"""One cohort from where it is to its end: when it is measured and saved, what stops it; all cohorts of a folder."""

import contextlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from .._util import files
from .._util.cores import default_threads
from .._util.errors import OffdynError
from ..envs import pairs
from ..envs.custom import EnvironmentFailed
from .checkpoint import COHORTS, CohortFolder, Saved
from .cohort import Cohort
from .config import RunConfig
from .evaluation import Measurements, write_policy
from .hardware import beside_a_gpu, describe, forget_programs, keep_programs, surroundings
from .preparation import (
    FAILED,
    UNNAMED,
    attend_target,
    checked,
    cohort_folder,
    finish_making,
    group,
    load_start,
    make_folders,
    methods_of,
    start_failed,
)
from .progress import CallbackFailed, Callbacks, Progress, Quiet, Stop, Stopped
from .run_folder import FORMAT, RECORDED, RunFolder, from_yaml

ROWS_FILE = 64 * 2**20  # bytes of new rows that do not wait for a checkpoint: it would stop the training for as long
ENDED = ("finished", "failed")  # states of a run that nothing is left to do for
LAST_TRAINING_EPISODES = 10  # that stand for the final policy where no fresh ones are played


class Trainer:
    """One cohort from where it is to its end."""

    def __init__(
        self,
        folders: list[RunFolder],
        cohort: CohortFolder,
        threads: int,
        progress: Progress,
        stop: Stop,
        callbacks: Callbacks,
    ) -> None:
        self.folders, self.disk, self.threads = folders, cohort, threads
        self.progress, self.stop, self.callbacks = progress, stop, callbacks
        self.wall_before, self.started = 0.0, time.perf_counter()
        self.runs = [folder.config for folder in folders]
        self.cohort = Cohort(self.runs, threads)
        self.plan = self.cohort.plan
        self.measured = Measurements(self.cohort, folders, threads, progress, lambda: self.wall)
        self.started_from: dict[int, dict[str, Any]] = {}  # by lane: the run whose networks it began with
        self._load()
        self.logs = attend_target(self.cohort, folders, progress)
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
                if cohort.clock % plan.eval_interval == 0 and cohort.clock != self.measured.evaluated_at:
                    self.measured.evaluate()
                while cohort.plays_next and cohort.alive.any() and not self.stop.wanted:
                    cohort.play()
                if not (cohort.plays_next and self.stop.wanted):
                    self._tick()
                self.progress.advanced(cohort.clock, plan.length, self.wall)
                if self.stop.wanted:
                    self._save_and_leave()
                    self._call_back(saved=True)
                    raise Stopped
                if saves := cohort.clock % plan.checkpoint_interval == 0 and cohort.clock < plan.length:
                    self._checkpoint()
                self._call_back(saves)
            self._finish()
            self._publish()
            self._call_back(saved=True)
        except CallbackFailed as failure:
            if self.disk.locked:  # not where all is done
                self._save_and_leave()
                advice = f"saved at step {cohort.clock}: mend it, then resume {self.disk.path.parent.parent}"
                raise CallbackFailed(f"{failure}; {advice}") from failure.__cause__
            raise
        except EnvironmentFailed as failure:
            self._save_after(failure)
            raise Stopped(str(failure)) from failure
        except OSError as error:
            self.measured.give_up()
            raise OffdynError(
                f"writing failed at step {cohort.clock}: {error}. Nothing that was saved is lost: make room and "
                f"continue with `offdyn resume {self.disk.path.parent.parent}`"
            ) from error
        finally:
            self.measured.close()
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
        self.measured.collect_if_done()
        if cohort.clock % plan.log_interval == 0:
            self.measured.log()
        if sum(rows.nbytes for rows in cohort.new_rows.values()) >= ROWS_FILE:
            self.disk.add_rows(cohort.take_rows())

    def _save_after(self, failure: EnvironmentFailed) -> None:
        """All that was done before an environment failed is kept, and so is what it had done in the same tick."""
        with contextlib.suppress(EnvironmentFailed):  # the evaluation under way may have met the same trouble
            self.measured.collect()
        self._save_and_leave()
        self.progress.say(f"{failure}. Nothing that was done before is lost; see to it, then resume")

    def _save_and_leave(self) -> None:
        self._checkpoint()
        self._write_provenance("stopped")
        self._publish()

    def _call_back(self, saved: bool) -> None:
        """Tell the user's functions what is new; here a failure of theirs leaves nothing half done."""
        for news in self.measured.take_news():
            self.callbacks.call("on_evaluation", news)
        for lane in np.flatnonzero(self.cohort.alive) if saved else ():
            self.callbacks.call("on_checkpoint", self.folders[lane].path, self.cohort.target_rows)

    def _publish(self) -> None:
        for log in self.logs:
            log.publish()

    def _report_failures(self) -> None:
        for lane, (quantity, at) in self.cohort.failures.items():
            if lane not in self.reported:
                self.reported.add(lane)
                self._write_agent(lane)
                name = self.runs[lane].name
                self._write_provenance("running")
                self.progress.say(f"{name} stopped: its {quantity} was not finite at step {at}; the others go on")

    def _checkpoint(self) -> None:
        self.measured.collect()
        state, host = self.cohort.save()
        self._report_failures()  # what only the newest updates brought about: a resume would take it for told
        measured, counts = self.measured.save()
        host |= counts | {
            "wall": self.wall,
            "started_from": [[lane, about] for lane, about in self.started_from.items()],
        }
        for folder in self.folders:
            folder.flush()
        self._write_policies()
        state |= measured | self._records()
        self.disk.save(self.cohort.clock, state, host, self.cohort.take_rows())
        self.progress.say(f"checkpoint at step {self.cohort.clock}", detail=True)

    def _load(self) -> None:
        saved, told = self.disk.load()
        for text in told:
            self.progress.say(text)
        if saved is None:
            self._start_lanes()
            if any(folder.started for folder in self.folders):
                self.progress.say("no checkpoint was written yet: starting from the beginning")
            for folder in self.folders:
                folder.put_back({})
            return
        try:
            self._continue(saved)
        except OffdynError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise OffdynError(
                f"{self.disk.path}: its checkpoint at step {saved.clock} is not one of this training ({error!r}): it "
                "was changed by hand, or saved by another version"
            ) from error
        self.progress.say(f"resumed at step {saved.clock}")

    def _continue(self, saved: Saved) -> None:
        """Go on from this checkpoint."""
        clock, plan = saved.clock, self.plan
        if saved.host["clock"] != clock or not 0 <= clock <= plan.length or clock % plan.tick:
            raise ValueError(f"step {saved.host['clock']} of {plan.length}")
        self.cohort.load(saved.state, saved.host, saved.segments)
        self.measured.load(saved.state, saved.host)
        self.wall_before = float(saved.host["wall"])
        self.started_from = {lane: about for lane, about in saved.host.get("started_from", [])}
        for lane, folder in enumerate(self.folders):
            for text in self._put_back(folder, lane, saved):
                self.progress.say(text)

    def _records(self) -> dict[str, np.ndarray]:
        """Curves and metrics as the runs' files have them, for the checkpoint."""
        kept = {f"files/{lane}/{name}": folder.record[name] for lane, folder in enumerate(self.folders)
                for name in RECORDED}  # fmt: skip
        return {name: np.frombuffer(bytes(text), np.uint8) for name, text in kept.items() if text}

    def _put_back(self, folder: RunFolder, lane: int, saved: Saved) -> list[str]:
        """A run's curve and metrics as they were then; what was amiss, in words."""
        if "files" in saved.host:  # a checkpoint of older versions
            record, lost = folder.recorded_until(saved.host["files"][lane])
            return lost + folder.put_back(record)
        found = {name: saved.state.get(f"files/{lane}/{name}") for name in RECORDED}
        return folder.put_back({name: text.tobytes() for name, text in found.items() if text is not None})

    def _start_lanes(self) -> None:
        """Lanes that continue from an earlier run take its networks; where that run failed, so do they."""
        begun = {}
        for lane, folder in enumerate(self.folders):
            out = folder.path.parent
            if start_failed(folder.config, out):
                self.cohort.failures[lane] = (FAILED, 0)
            elif (start := load_start(folder.config, out)) is not None:
                begun[lane] = start.arrays
                self.started_from[lane] = dict(start.about)
        if begun:
            self.cohort.continue_from(begun)

    def _finish(self) -> None:
        """The last evaluation, fresh episodes of the final policy, and everything a result needs."""
        cohort, plan = self.cohort, self.plan
        if cohort.alive.any() and self.measured.evaluated_at != cohort.clock:
            self.measured.evaluate()
            self.measured.collect()
        final = None
        if cohort.alive.any() and plan.final_episodes:
            final = self.measured.evaluate_final()
        self._write_policies()
        for folder in self.folders:
            for text in folder.mend():
                self.progress.say(text)
            folder.flush()
        for lane in np.flatnonzero(cohort.alive):
            folder = self.folders[lane]
            self._write_agent(int(lane))
            trained = np.array([value for at, value in cohort.target_returns if at == lane][-LAST_TRAINING_EPISODES:])
            if final is not None:
                folder.write_json("final.json", folder.summary(final.target_returns[lane]))
            elif len(trained):
                folder.write_json("final.json", folder.summary(trained) | {"final_of": "training episodes"})
        if len(self.folders) > 1 and not self.disk.has_checkpoint:
            self._checkpoint()  # for a kill between the first run that says it is finished and the last
        if self.disk.keeps_rows:
            self.disk.keep_rows(cohort.take_rows())
        self._write_provenance("finished")
        self.disk.finish()

    def _write_policies(self) -> None:
        policies = self.cohort.policies()
        for lane, folder in enumerate(self.folders):
            write_policy(folder, policies, lane)

    def _write_agent(self, lane: int) -> None:
        self.folders[lane].write_agent(self.cohort.agent_arrays(lane))

    def _write_provenance(self, state: str) -> None:
        """Where the numbers come from; a run that failed is failed, whatever the state of the others."""
        cohort = self.cohort
        about = {"format": FORMAT} | surroundings(self.threads)
        about |= {"written_at": datetime.now(UTC).isoformat(timespec="seconds")}
        for lane, folder in enumerate(self.folders):
            failure = cohort.failures.get(lane)
            about_run: dict[str, Any] = {
                "state": "failed" if failure else state,
                "preset": folder.config.preset,
                "models": pairs.fingerprints(folder.config.task),
                "lanes_in_cohort": len(self.folders),
                "wall_seconds": round(self.wall, 1),
                "source_steps": cohort.source_rows,
                "target_steps": cohort.target_rows,
                "updates": cohort.updates,
            }
            if isinstance(folder.config.task, pairs.OwnPair):
                about_run["evaluation_target_steps"] = int(self.measured.evaluation_steps[lane])
            if folder.config.schedule.tuning_target_steps is not None:
                about_run["tuning_target_steps"] = folder.config.schedule.tuning_target_steps
            if lane in self.started_from:
                about_run["start_from"] = dict(self.started_from[lane])
            if cohort.source_data is not None:
                about_run["source_data"] = cohort.source_data.about
            if any((dropped := self.disk.dropped).values()):
                about_run["dropped_transitions"] = dropped  # each domain's ranges: first, and one after the last
            if failure:
                about_run["failure"] = {"quantity": failure[0], "step": failure[1]}
            folder.write_json("provenance.json", about | about_run)


def start(
    runs: Sequence[RunConfig],
    out: Path,
    *,
    threads: int | None = None,
    keep_replay: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
    callbacks: Callbacks | None = None,
) -> list[RunFolder]:
    """Train all runs, cohort by cohort; a run that fails says so in its folder and stops no other."""
    trainers = make_folders(checked(runs, out, progress or Quiet()), out, keep_replay)
    return _train_all(trainers, threads, progress or Quiet(), stop or Stop(), callbacks)


def resume(
    out: Path,
    *,
    drop_damaged: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    callbacks: Callbacks | None = None,
) -> list[RunFolder]:
    """Continue every unfinished cohort of a folder where its last checkpoint was.

    `drop_damaged`: without transitions whose file is damaged in every checkpoint.
    """
    finish_making(out)
    progress = progress or Quiet()
    # Also where the file is gone that says which runs a cohort has.
    begun = (path for path in (out / COHORTS).glob("*") if path.is_dir())
    found = sorted(path for path in begun if not {entry.name for entry in path.iterdir()} <= UNNAMED)
    if not found:
        raise OffdynError(f"{out}: nothing to resume there (no {COHORTS}/*/cohort.json); name the --out of a training")
    unfinished = _unfinished([CohortFolder(path, drop_damaged) for path in found], out, progress)
    return _train_all(unfinished, threads, progress, stop or Stop(), callbacks)


def complete(
    runs: Sequence[RunConfig],
    out: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[RunFolder]:
    """Train the runs of one cohort to their end from wherever they are, and no others of the folder.

    The caller sees to it that no other process begins the same cohort at the same time.
    """
    cohorts = group(runs)
    if len(cohorts) != 1:
        raise OffdynError(f"expected runs that can share one program, got {len(cohorts)} kinds of them")
    disk = cohort_folder((run.name for run in cohorts[0]), out)
    if not (disk / "cohort.json").exists():
        start(runs, out, threads=threads, progress=progress, stop=stop)
    else:
        trainers = _unfinished([CohortFolder(disk)], out, progress or Quiet())
        _train_all(trainers, threads, progress or Quiet(), stop or Stop())
    return [RunFolder.open(out / run.name) for run in runs]


def _unfinished(
    cohorts: Sequence[CohortFolder], out: Path, progress: Progress
) -> list[tuple[list[RunFolder], CohortFolder]]:
    """The cohorts that have runs left to do, locked."""
    trainers = []
    for cohort in cohorts:
        configs = cohort.runs()
        folders = [RunFolder(out / name, from_yaml(text, cohort.path)) for name, text in configs.items()]
        if not _has_work(folders, cohort, progress):
            continue
        for folder, text in zip(folders, configs.values(), strict=True):
            folder.restore(text)
        cohort.lock()
        trainers.append((folders, cohort))
    # A run that continues from another comes after it.
    return sorted(trainers, key=lambda trainer: any(folder.config.schedule.start_from for folder in trainer[0]))


def _has_work(folders: Sequence[RunFolder], cohort: CohortFolder, progress: Progress) -> bool:
    """Whether a cohort is to be trained; where all is done and whole, what a kill at the very end left goes."""
    states = [folder.state for folder in folders]
    if all(state in ENDED for state in states):
        lacking = [folder.path for folder in folders if not _is_whole(folder)]
        if not lacking:
            cohort.finish()
        elif cohort.has_checkpoint:
            progress.say(f"{lacking[0]} lacks files that a finished or failed run leaves: going on from its checkpoint")
            return True
        return False
    if "finished" in states and not cohort.has_checkpoint:
        left = next(folder.path for folder in folders if folder.state not in ENDED)
        progress.say(f"{left} cannot be trained: the checkpoints of {cohort.path} are gone, as its runs were done")
        return False
    return True


def _is_whole(folder: RunFolder) -> bool:
    """Whether all is there that a run of its state leaves."""
    leaves = ["policy.safetensors", "agent.safetensors"]
    try:
        about = folder.provenance
        if about["state"] == "failed" and about["failure"]["quantity"] == FAILED:
            leaves.remove("agent.safetensors")  # it never had one
        for name in leaves:
            with files.arrays(folder.path / name):
                pass
        no_result = about["state"] == "failed" or not folder.config.schedule.final_episodes
        return no_result or folder.final is not None
    except (OSError, SafetensorError, OffdynError):
        return False


def _train_all(
    trainers: list[tuple[list[RunFolder], CohortFolder]],
    threads: int | None,
    progress: Progress,
    stop: Stop,
    callbacks: Callbacks | None = None,
) -> list[RunFolder]:
    done = []
    threads = threads or default_threads(beside_a_gpu())
    keep_programs(progress)
    try:
        for number, (folders, cohort) in enumerate(trainers, start=1):
            methods = methods_of(folder.config for folder in folders)
            runs = f"{len(folders)} runs of {methods}{describe(len(folders))}"
            progress.say(f"cohort {number} of {len(trainers)}: {runs}")
            Trainer(folders, cohort, threads, progress, stop, callbacks or Callbacks()).run()
            forget_programs()
            done += folders
    finally:
        for _, cohort in trainers:
            cohort.unlock()
        progress.close()
    return done
