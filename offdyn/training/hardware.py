"""The machine: its devices, among which lanes are dealt out, their memory, and the programs compiled for them."""

import hashlib
import itertools
import math
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Along

from .. import __version__
from .._util.cores import every, taken
from .._util.errors import OffdynError
from .._util.files import free_memory
from .._util.types import Array
from ..data.transition import row_width
from .config import RunConfig
from .program import Programs, fresh_lane
from .progress import Progress

PACKAGES = ("jax", "jaxlib", "optax", "numpy", "scipy", "mujoco-core", "gymnasium", "safetensors")
LANES = "lanes"  # the only axis of the mesh


def beside_a_gpu() -> bool:
    """Whether the processor only simulates and sends: bodies and evaluation then get processes of their own."""
    return jax.default_backend() != "cpu"


def count_for(lanes: int) -> int:
    """The most devices of this process that can have equally many lanes each."""
    return max(count for count in range(1, jax.local_device_count() + 1) if lanes % count == 0)


def describe(lanes: int) -> str:
    """Which devices these lanes use, where there are several: `, on 2 of 4 devices (...)`."""
    there, used = jax.local_device_count(), count_for(lanes)
    if there == 1:
        return ""
    if used == min(there, lanes):
        return f", {lanes // used} on each of {used} devices"
    return f", on {used} of {there} devices: they are dealt out evenly, and {lanes} cannot be among more"


def offer_every_core() -> None:
    """Make each core that this process may use a device of its own, for machines without a GPU.

    Lanes on cores of their own do not wait for each other at every product. Changes nothing once JAX has begun to
    compute, where the user chose the devices, and on a GPU.
    """
    by_flag = "--xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if by_flag or getattr(jax.config, "jax_num_cpu_devices", -1) != -1:
        return
    with suppress(RuntimeError):  # JAX computes already
        jax.config.update("jax_num_cpu_devices", len(every()))


class Devices:
    """Those that hold one cohort, its lanes in order."""

    def __init__(self, lanes: int, count: int | None = None) -> None:
        self.count = count or count_for(lanes)
        self.mesh = Mesh(np.array(jax.local_devices()[: self.count]), (LANES,))
        # None: wherever JAX puts it, as for a program of one device.
        self.by_lane = NamedSharding(self.mesh, Along(LANES)) if self.count > 1 else None
        self.everywhere = NamedSharding(self.mesh, Along()) if self.count > 1 else None

    def deal(self, by_lane: Any) -> Any:
        """Arrays with a leading lane axis, each lane to its device."""
        return jax.device_put(by_lane, self.by_lane)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """As `deal`, without ever being whole on one device."""
        return jax.numpy.zeros(shape, device=self.by_lane)

    def share(self, array: Any) -> Array:
        """The same on every device."""
        return jax.device_put(array, self.everywhere)

    def spread(self, programs: Programs, shared_source: bool = False) -> Programs:
        """Each device runs the program of its own lanes; what one device holds alone stays as it is."""
        if self.count > 1:
            lane, same = Along(LANES), Along()
            source = same if shared_source else lane
            rows_and_counters = (lane, lane, source, lane, same, same, same)
            self._spread(programs, "init", (lane, lane, lane, lane))
            self._spread(programs, "act", (lane, lane, lane, lane, same, lane))
            self._spread(programs, "store", (lane, lane, same), donated=0)
            self._spread(programs, "observe", (lane, lane), donated=0)
            self._spread(programs, "learn", (*rows_and_counters, lane), donated=1)
            self._spread(programs, "keep", (lane, lane, lane), donated=1)
            self._spread(programs, "settle", (lane, lane, lane))
            self._spread(programs, "diagnose", (*rows_and_counters, lane, lane))
            self._spread(programs, "clear", (lane,), donated=0)
        return programs

    def _spread(self, programs: Programs, name: str, places: tuple[Any, ...], donated: int | tuple[()] = ()) -> None:
        # Replication is not checked: nothing that is returned is shared.
        local = jax.shard_map(
            getattr(programs, name), mesh=self.mesh, in_specs=places, out_specs=Along(LANES), check_vma=False
        )
        setattr(programs, name, jax.jit(local, donate_argnums=donated))


def replay_bytes(runs: Sequence[RunConfig]) -> int:
    """Device memory of a cohort's replays; a dataset, of which there is one copy for all, is small beside it."""
    return 4 * len(runs) * row_width(runs[0].spec) * sum(runs[0].schedule.capacities)


def lane_bytes(run: RunConfig) -> int:
    """Device memory of one lane's networks and of the batches that go through them, counted before any is made."""
    method, spec = run.recipe.method, run.spec
    lane = jax.eval_shape(lambda: fresh_lane(method, spec, jax.random.key(0), run.sac, run.hyper))
    shapes = [array.shape for array in jax.tree.leaves((lane.agent, lane.others, lane.learned))]
    units = sum(math.prod(shape) // shape[-2] for shape in shapes if len(shape) > 1)
    rows = max(size for name, size in run.settings().items() if name.endswith(("_batch", "batch_size")))
    # A copy is kept and a new state is under way. Optimisers have the weights' shapes: as much as activations take.
    return 4 * (3 * sum(map(math.prod, shapes)) + 2 * rows * units)


def check_memory(runs: Sequence[RunConfig]) -> None:
    """Refuse what cannot fit, before anything is trained."""
    lanes, width = len(runs), row_width(runs[0].spec)
    rows, networks = replay_bytes(runs), lanes * lane_bytes(runs[0])
    device = jax.devices()[0]
    if device.platform == "cpu":
        free = free_memory()
    else:
        limit = (device.memory_stats() or {}).get("bytes_limit")
        free = None if limit is None else limit * count_for(lanes)  # each holds its share of the lanes
    if free is None or rows + networks <= 0.9 * free:
        return
    here = f"this {device.platform} has {free / 2**30:.1f} GiB"
    if rows > networks:
        raise OffdynError(
            f"the replays of {lanes} runs need {rows / 2**30:.1f} GiB ({sum(runs[0].schedule.capacities)} transitions "
            f"of {4 * width} bytes each), {here}: lower replay_size, or train fewer seeds or tasks at a time"
        )
    raise OffdynError(
        f"the networks of {lanes} runs and their batches need {networks / 2**30:.1f} GiB, {here}: lower widths or "
        "batch sizes, or train fewer seeds or tasks at a time"
    )


COHORTS = 20  # of one process, after which their programs go
_trained = itertools.count(1)


def forget_programs() -> None:
    """Now and then: JAX keeps what it compiled of every cohort, some 20 MiB for each other program."""
    if next(_trained) % COHORTS == 0:
        jax.clear_caches()


LARGEST = 2**30  # bytes; beyond them the programs that were not used for longest go


def keep_programs(progress: Progress) -> None:
    """Let every process on this machine use the same compiled programs.

    On a GPU more than time is at stake. The compiler times rival kernels there and picks the fastest, which differs
    from process to process, and with it the last bits of every result: without this, a resumed cohort would leave the
    path of one that never stopped.
    """
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    if chosen or not getattr(jax.config, "jax_enable_compilation_cache", True):
        return
    try:
        folder = cache_folder()
        make_room(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        progress.say(f"compiled programs cannot be kept ({error}): every start compiles anew")
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # if something was compiled before, JAX has noted that there is none


def cache_folder() -> Path:
    """One for each kind of processor: code for another one may not run on this."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    backend = jax.default_backend()
    name = backend if backend != "cpu" else f"cpu-{_processor()}"
    return user / "offdyn" / "programs" / name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    except OSError:
        known = set(os.uname())
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:12]


def make_room(folder: Path, largest: int = LARGEST) -> None:
    """Make the folder, see that it can be written to, and keep it from growing for ever."""
    folder.mkdir(parents=True, exist_ok=True)
    trial = folder / f"trial-{os.getpid()}"
    try:
        trial.write_bytes(bytes(2**16))  # on a full disk a file can be made, but not filled
    finally:
        trial.unlink(missing_ok=True)
    kept = []
    for file in folder.iterdir():
        try:
            found = file.stat()
        except FileNotFoundError:  # another process tidies up too
            continue
        kept.append((max(found.st_atime, found.st_mtime), found.st_size, file))
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= largest:
            return
        file.unlink(missing_ok=True)
        total -= size


def surroundings(threads: int | None) -> dict[str, Any]:
    """Versions and hardware, as they matter to a result."""
    device = jax.devices()[0]
    return {
        "offdyn": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "machine": {"processor": _processor_name(), "cores": len(every()), "system": platform.platform()},
        "physics_threads": threads,
        "bodies_have_cores": taken(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
