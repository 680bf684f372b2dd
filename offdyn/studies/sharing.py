"""Several training processes on one GPU: they take turns unless NVIDIA's multi-process service runs them together."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .._util.cores import JOBS_AT_ONCE

SERVICE = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"  # where a program looks for the service; the user's own, if it is set
WORKERS_ON_A_GPU = 4
PATIENCE = 20.0  # seconds for the service to start or to end


def gpu_is_there() -> bool:
    """Whether this machine has a GPU of NVIDIA's, found without starting it."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def default_workers() -> int:
    """One cohort leaves most of a GPU idle between its small kernels; a processor is full with one."""
    return WORKERS_ON_A_GPU if gpu_is_there() else 1


@contextlib.contextmanager
def shared(workers: int, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """What to add to the environment of `workers` processes that train side by side."""
    if not gpu_is_there():  # nor may results differ from those of another backend, as they do with BLAS's threads
        yield {}
        return
    # NumPy's policies are small: threads of their own only get in each other's way.
    environment = {"OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS", "1")}
    if workers == 1:
        yield environment
        return
    environment[JOBS_AT_ONCE] = str(workers)
    # Each process takes what it needs, where JAX alone would take three quarters of the memory.
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if PIPES in os.environ:
        yield environment
        return
    if shutil.which(SERVICE) is None:
        say(f"{SERVICE} was not found: the {workers} jobs take turns on the GPU, which is slower than together")
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="offdyn-mps-") as folder:
        service = {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if (trouble := _ask(["-d"], service)) is not None:
            say(f"{SERVICE} did not start ({trouble}): the {workers} jobs take turns on the GPU")
            yield environment
            return
        try:
            yield environment | service
        finally:
            if (trouble := _ask([], service, "quit\n")) is not None:
                say(f"{SERVICE} did not end ({trouble}); its folder was {folder}")


def _ask(arguments: list[str], service: dict[str, str], words: str = "") -> str | None:
    """Give the service a command; what went wrong, if anything."""
    try:
        done = subprocess.run(
            [SERVICE, *arguments],
            input=words,
            env=os.environ | service,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
