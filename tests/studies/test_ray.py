"""Jobs on a real Ray cluster of three nodes on loopback addresses, one of which is killed half-way."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from offdyn._util.errors import OffdynError
from offdyn.algos.registry import RECIPES
from offdyn.studies import backends_ray
from offdyn.studies import job as jobs_of
from offdyn.studies.backends import Options, find
from offdyn.studies.backends_ray import Resources, resources
from offdyn.training.progress import Stop

from ..training.small import differing, outcome
from .small_jobs import (
    bring_to_end,
    locally,
    method_of,
    parent_of,
    process_of,
    runs_of,
    starts,
    states,
    when,
    write_jobs,
    written,
)

STORE = 80_000_000  # bytes of Ray's object store on each node: nothing of ours goes there


@pytest.fixture(scope="module")
def cluster(hurried_jobs: None) -> Iterator[Any]:
    """Three nodes of one CPU each, on addresses of their own that reach no further than this machine."""
    if os.environ.get("OFFDYN_NEEDS_RAY") != "1":
        pytest.importorskip("ray", reason="Ray is not installed; requirements/cluster.txt holds it")
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args=node_at(2) | {"include_dashboard": False})
    try:
        for number in (3, 4):
            made.add_node(**node_at(number))
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def node_at(number: int) -> dict[str, Any]:
    """Not at 127.0.0.1, which Ray takes to mean an address that other machines can reach."""
    return {
        "node_ip_address": f"127.0.0.{number}",
        "num_cpus": 1,
        "num_gpus": 0,
        "object_store_memory": STORE,
    }


def machine_of(node: Any) -> Any:
    """The process that stands for a node's machine."""
    return node.all_processes["raylet"][0].process


def ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = parent_of(process)
        yield process


class PowerCut(threading.Thread):
    """Kills a node as soon as a job has written a checkpoint there, and all that works on the job, at once."""

    def __init__(self, cluster: Any, jobs: Sequence[jobs_of.Job]) -> None:
        super().__init__(daemon=True)
        self.jobs = jobs
        self.victim: jobs_of.Job | None = None
        # Not the head, on which the cluster and its driver depend.
        self.machines = {machine_of(node).pid for node in cluster.worker_nodes}

    def run(self) -> None:
        deadline = time.monotonic() + 300
        while not self.victim and time.monotonic() < deadline:
            time.sleep(0.02)
            for job in self.jobs:
                with contextlib.suppress(OSError, IndexError):  # not begun, or just ended
                    if state_of(job) == "running" and is_saved(job):
                        self.cut(job)

    def cut(self, job: jobs_of.Job) -> None:
        process = process_of(job)
        machine = next((parent for parent in ancestors(process) if parent in self.machines), None)
        if machine is None or self.victim:
            return
        victims = (process, parent_of(process), machine)
        os.kill(process, signal.SIGSTOP)
        if state_of(job) != "running":  # it was quicker
            os.kill(process, signal.SIGCONT)
            return
        self.victim = job
        for victim in victims:
            os.kill(victim, signal.SIGSTOP)  # so that none sees another die
        for victim in victims:
            os.kill(victim, signal.SIGKILL)


def state_of(job: jobs_of.Job) -> str:
    return jobs_of.status(job.path).state


def is_saved(job: jobs_of.Job) -> bool:
    """Whether a checkpoint of the job is on disk."""
    saved = job.folder.glob("cohorts/*/manifest.json")
    return any(job.runs[0].name in (path.parent / "cohort.json").read_text() for path in saved)


def test_a_failing_job_stops_no_other_and_what_needs_it_never_begins(tmp_path, cluster):
    jobs = write_jobs(tmp_path, runs_of(["sac-tune", "sac"], [0]))
    broken = next(job for job in jobs if method_of(job) == "sac-src")
    (tmp_path / broken.runs[0].name).mkdir()
    (tmp_path / broken.runs[0].name / "config.yaml").write_text("not a run")
    stop = Stop()
    bring_to_end(find("ray", Options(address=cluster.address, cpus=1, retries=0)), jobs, stop)
    assert states(jobs) == {"sac-src": "failed", "sac-tune": "waiting", "sac": "done"}


def test_asked_to_stop_jobs_on_a_cluster_save_themselves(tmp_path, cluster):
    runs = runs_of(["sac-tune"], [0], source_steps=400_000, checkpoint_interval=400_000)  # far longer than a stop takes
    jobs = write_jobs(tmp_path, runs)
    stop = Stop()
    stopping = when((tmp_path / runs[0].name / "curve.csv").exists, lambda: setattr(stop, "wanted", True))
    bring_to_end(find("ray", Options(address=cluster.address, cpus=1)), jobs, stop)
    stopping.join()
    assert states(jobs) == {"sac-src": "stopped", "sac-tune": "waiting"}
    assert list(tmp_path.glob("cohorts/*/manifest.json"))


def test_machines_that_do_not_see_the_folder_are_named_before_anything_begins(tmp_path, cluster, monkeypatch):
    jobs = write_jobs(tmp_path, runs_of(["sac"], [0]))
    monkeypatch.setattr(backends_ray.remote, "token_file", lambda study, token: Path(study) / "hidden")
    monkeypatch.setattr(backends_ray, "_look", _look_briefly)
    with pytest.raises(OffdynError, match=r"127\.0\.0\.2: .* does not see the folder .*127\.0\.0\.4: "):
        bring_to_end(find("ray", Options(address=cluster.address)), jobs)
    assert states(jobs) == {"sac": "waiting"}


def _look_briefly(study: str, token: str) -> tuple[str, str]:
    from offdyn.studies import worker

    try:
        worker.check_folder(Path(study), token, patience=0.1)
    except worker.Unseen as error:
        return str(error), backends_ray.__version__
    return "", backends_ray.__version__


GPU_MACHINE, PLAIN_MACHINE = {"CPU": 32.0, "GPU": 4.0}, {"CPU": 6.0}


@pytest.mark.parametrize(
    ("options", "machines", "expected"),
    [
        (Options(), [GPU_MACHINE, PLAIN_MACHINE], Resources(8, 1)),  # a GPU and its share of the CPUs beside it
        (Options(gpus=0.5), [GPU_MACHINE], Resources(4, 0.5)),
        (Options(gpus=0), [GPU_MACHINE, PLAIN_MACHINE], Resources(6, 0)),
        (Options(), [PLAIN_MACHINE, {"CPU": 2.0}, {}], Resources(2, 0)),  # a job has a machine for itself
        (Options(cpus=3), [GPU_MACHINE], Resources(3, 1)),
    ],
)
def test_a_job_asks_for_its_share_of_a_machine(options, machines, expected):
    assert resources(options, machines) == expected


def test_what_no_machine_has_is_refused():
    with pytest.raises(OffdynError, match=r"asks for 1 CPUs and 5 GPUs, no machine .*32 CPUs and 4 GPUs"):
        resources(Options(cpus=1, gpus=5), [GPU_MACHINE])


@pytest.mark.slow
@pytest.mark.parametrize("methods", [["par", "darc", "sac-tune"], list(RECIPES)], ids=["three", "all"])
def test_a_study_survives_the_loss_of_a_machine_with_the_results_of_a_local_one(tmp_path, cluster, methods):
    if any(machine_of(node).poll() is not None for node in cluster.worker_nodes):
        cluster.add_node(**node_at(5))  # in place of the one that an earlier power cut took
    data = tmp_path / "rows.safetensors"
    runs = runs_of(methods, [0, 1], data, source_steps=2400, checkpoint_interval=400)
    expected = locally(tmp_path / "local", runs)
    study = tmp_path / "ray"
    jobs = write_jobs(study, runs)
    power_cut = PowerCut(cluster, jobs)
    power_cut.start()
    backend = find("ray", Options(address=cluster.address, cpus=1))
    told = bring_to_end(backend, jobs)
    power_cut.join()
    assert power_cut.victim, "no machine was lost while a job was at work there"
    assert states(jobs) == dict.fromkeys(map(method_of, jobs), "done")
    assert {run.name for run in runs} == set(written(study))
    assert differing(expected, outcome(study)) == []
    expected_starts = dict.fromkeys(map(method_of, jobs), 1) | {method_of(power_cut.victim): 2}
    assert starts(jobs) == expected_starts
    assert "resumed at step" in power_cut.victim.log.read_text()
    assert any(line.startswith(f"{power_cut.victim.id}: lost") for line in told)

    before = written(study)
    bring_to_end(backend, jobs)
    assert written(study) == before, "a finished run was done again"
    assert {method_of(job): jobs_of.status(job.path).starts for job in jobs} == expected_starts
