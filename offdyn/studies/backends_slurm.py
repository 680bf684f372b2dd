"""Jobs as Slurm jobs, by submitit: requeued after a preemption or at the time limit, where they go on."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._util.errors import OffdynError
from ..training.progress import Stop
from . import remote, worker
from .backends import Backend, Options, Say
from .job import JOBS, Job

TIMES = 1000  # that a job may reach its time limit: it continues from there, so it comes to an end
WARNING = 120  # seconds before a limit at which Slurm tells a job, which then saves itself


def submitit(options: Options) -> Backend:
    """The Slurm cluster to which this machine can submit."""
    if shutil.which("srun") is None:
        raise OffdynError(
            "--backend submitit: no Slurm here (srun is not found); run this where you can submit, or use "
            "--backend local"
        )
    return Slurm(options, "slurm")


class Slurm:
    """What submitit submits to: "slurm", or "local" processes that stand for it."""

    def __init__(self, options: Options, cluster: str) -> None:
        try:
            import submitit
        except ImportError:
            raise OffdynError("--backend submitit needs submitit: pip install 'offdyn[slurm]'") from None
        for name, value, least in (("retries", options.retries, 0), ("minutes", options.minutes, 1)):
            if value < least:
                raise OffdynError(f"--{name}: expected {least} or more, got {value}")
        if options.gpus is not None and options.gpus != int(options.gpus):
            raise OffdynError(f"--gpus: Slurm gives whole GPUs, got {options.gpus}")
        self.submitit, self.options, self.cluster = submitit, options, cluster

    def run(self, jobs: Sequence[Job], study: Path, say: Say, stop: Stop) -> None:
        study = study.absolute()
        executor = self._executor(study)
        with remote.token(study) as token:
            attendant = Requeued(token, remote.environment(study))
            path, retries = worker.token_file(study, token), self.options.retries
            remote.drive(jobs, lambda job: Submitted(executor, attendant, job), retries, say, stop, path)

    def _executor(self, study: Path) -> Any:
        """What submitit itself writes lies below the jobs: Slurm's own output is there too."""
        options = self.options
        folder = study / JOBS / "submitit"
        executor = self.submitit.AutoExecutor(
            folder, cluster=self.cluster, slurm_max_num_timeout=TIMES, local_max_num_timeout=TIMES
        )
        asked: dict[str, Any] = {
            "name": f"offdyn-{study.name}",
            "timeout_min": options.minutes,
            "gpus_per_node": int(options.gpus or 0) or None,
            "cpus_per_task": options.cpus,
            "slurm_partition": options.partition,
        }
        chosen = {name: value for name, value in asked.items() if value is not None}
        # Slurm's own requeue after the loss of a machine beside submitit's after a signal.
        also = {"slurm_signal_delay_s": WARNING, "slurm_additional_parameters": {"requeue": True}}
        executor.update_parameters(**chosen, **also)
        return executor


class Requeued(worker.Attendant):
    """An attendant that submitit can send round again."""

    def checkpoint(self, path: str) -> Any:
        """Called when Slurm wants the machine back: let the job save itself, and submit the very same again."""
        from submitit.helpers import DelayedSubmission

        self.ask_to_stop()
        return DelayedSubmission(Requeued(self.token, self.environment), path)

    __submitit_checkpoint__ = checkpoint  # its name after submitit 1.5


class Submitted:
    """A job that was handed to Slurm."""

    def __init__(self, executor: Any, attendant: Requeued, job: Job) -> None:
        self.job = executor.submit(attendant, str(job.path))

    def end(self) -> str | None:
        if not self.job.done():
            return None
        try:
            error = self.job.exception()
        except Exception as failure:  # submitit raises what it likes for a job without result
            error = failure
        return "" if error is None else f"{self.job.state}: {(str(error).strip().splitlines() or [''])[-1]}"

    def ask_to_stop(self) -> None:
        self.job.cancel(check=False)
