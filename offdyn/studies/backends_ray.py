"""Jobs on a Ray cluster: GPUs and CPUs asked for as its resources, every machine checked before the first job."""

import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from .._util.errors import OffdynError
from ..training.progress import Stop
from . import remote, worker
from .backends import Backend, Options, Say
from .job import Job

ANSWER = 120.0  # seconds that a machine may take to start a first worker
SHARE = 0.75  # of a GPU's memory, what JAX takes of a whole one


def ray(options: Options) -> Backend:
    """A Ray cluster, joined by its address, or one of this machine alone."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise OffdynError("--backend ray needs Ray: pip install 'offdyn[ray]', on every machine") from None
    if options.retries < 0:
        raise OffdynError(f"--retries: expected 0 or more, got {options.retries}")
    return Cluster(options)


@dataclass(frozen=True)
class Resources:
    """Of one job."""

    cpus: float
    gpus: float

    def fit(self, machine: dict[str, float]) -> bool:
        return self.cpus <= machine.get("CPU", 0) and self.gpus <= machine.get("GPU", 0)

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs and {self.gpus:g} GPUs"


def resources(options: Options, machines: Sequence[dict[str, float]]) -> Resources:
    """What a job asks for: unless told, one GPU and its share of the CPUs beside it, else a machine for itself."""
    gpus = options.gpus
    if gpus is None:
        gpus = 1.0 if any(machine.get("GPU", 0) for machine in machines) else 0.0
    cpus: float | None = options.cpus
    if cpus is None:
        able = [m for m in machines if m.get("CPU", 0) >= 1 and m.get("GPU", 0) >= gpus]
        jobs = [max(1, int(m.get("GPU", 0) / gpus)) if gpus else 1 for m in able]
        cpus = min((max(1, int(m["CPU"]) // n) for m, n in zip(able, jobs, strict=True)), default=1)
    asked = Resources(cpus, gpus)
    if not any(asked.fit(machine) for machine in machines):
        have = "; ".join(f"{m.get('CPU', 0):g} CPUs and {m.get('GPU', 0):g} GPUs" for m in machines)
        raise OffdynError(
            f"a job asks for {asked}, no machine of the cluster has that (they have {have}): ask for less"
        )
    return asked


class Cluster:
    """Ray's."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def run(self, jobs: Sequence[Job], study: Path, say: Say, stop: Stop) -> None:
        import ray

        study = study.absolute()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to others
        self._join(ray)
        try:
            with remote.token(study) as token:
                nodes = [node for node in ray.nodes() if node["Alive"]]
                asked = resources(self.options, [node["Resources"] for node in nodes])
                _check_machines(ray, nodes, study, token)
                say(f"Ray: {len(nodes)} machines, {asked} for a job")
                attendant = worker.Attendant(token, remote.environment(study) | _devices(asked.gpus))
                # Losses are counted by `drive`, which tells of them; Ray's own retries are silent.
                task = ray.remote(num_cpus=asked.cpus, num_gpus=asked.gpus, max_retries=0)(_attend)
                path = worker.token_file(study, token)
                remote.drive(jobs, lambda job: Task(ray, task, attendant, job), self.options.retries, say, stop, path)
        finally:
            ray.shutdown()

    def _join(self, ray: Any) -> None:
        address = self.options.address
        ours = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address or "local", log_to_driver=False, include_dashboard=None if address else False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = address or "this machine"
            raise OffdynError(f"no Ray cluster at {where} ({' '.join(str(error).split())})") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ours)  # which saves; Ray's would end this process at once


class Task:
    """A job that was handed to Ray."""

    def __init__(self, ray: Any, task: Any, attendant: worker.Attendant, job: Job) -> None:
        self.ray = ray
        self.reference = task.options(name=job.id).remote(attendant, str(job.path))

    def end(self) -> str | None:
        ready, _ = self.ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        try:
            self.ray.get(self.reference)
            return ""
        except self.ray.exceptions.RayTaskError as error:
            return str(error.cause)
        except self.ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    def ask_to_stop(self) -> None:
        self.ray.cancel(self.reference, force=False)


def _attend(attendant: worker.Attendant, path: str) -> int:
    return attendant(path)


def _devices(gpus: float) -> dict[str, str]:
    """A job sees the GPUs it was given, and takes no more memory than its share of one."""
    if gpus == 0:
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {"XLA_CLIENT_MEM_FRACTION": f"{SHARE * gpus:.3f}"} if gpus < 1 else {}


def _look(study: str, token: str) -> tuple[str, str]:
    """On each machine: what is wrong with it, if anything, and its offdyn."""
    try:
        worker.check_folder(Path(study), token)
        return "", __version__
    except worker.Unseen as error:
        return str(error), __version__


def _check_machines(ray: Any, nodes: Sequence[dict[str, Any]], study: Path, token: str) -> None:
    """Before the first job, so that a machine that cannot work does not take and fail one after another."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=0)(_look)
    looks = {
        node["NodeManagerAddress"]: look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(str(study), token)
        for node in sorted(nodes, key=lambda node: str(node["NodeManagerAddress"]))
    }
    wrong = []
    for address, seen in looks.items():
        try:
            error, version = ray.get(seen, timeout=ANSWER)
        except ray.exceptions.TaskUnschedulableError:
            continue  # it died, which Ray's list of machines tells later; it gets no jobs either
        except ray.exceptions.RayTaskError as failure:
            error, version = f"offdyn does not run there ({failure.cause})", __version__
        except ray.exceptions.RayError as failure:
            error, version = f"no answer ({type(failure).__name__})", __version__
        if version != __version__:
            error = f"it has offdyn {version}, the machine that drives the study {__version__}: install one version"
        if error:
            wrong.append(f"{address}: {error}")
    if wrong:
        raise OffdynError("not every machine of the cluster can work: " + "; ".join(wrong))
