"""How the processor's cores are shared: by bodies, evaluation and all else of a training, and by jobs at once."""

import os
import socket
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

JOBS_AT_ONCE = "OFFDYN_JOBS_AT_ONCE"  # in the environment: processes that train on this machine side by side
QUIET = 0.25  # share of the cores that others may keep busy where a training takes some for itself
LOOKED_AT = 0.1  # seconds
STAT = Path("/proc/stat")

_before: list[int] = []  # the cores of this process before it left some of them to its bodies
# Whose a core is: a name in Linux' abstract namespace belongs to one process, and ends with it.
_CLAIM = "\0offdyn-core-{}"
_claims: list[socket.socket] = []


def every() -> list[int]:
    """The cores that this training may use, its bodies' included."""
    if _before:
        return list(_before)
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def default_threads(beside_a_gpu: bool) -> int:
    """For the physics: half of the cores where the learner needs the others, five of eight beside a GPU.

    Of several jobs at once each gets its share, but a few at least: they do not all need as many at the same time.
    """
    share = _share() * 5 // 8 if beside_a_gpu and _jobs() == 1 else _share() // 2
    return max(1, share, _few())


def left_for_evaluation(threads: int) -> int:
    """How many processes evaluate: one for each core that the bodies leave, and again a few at least.

    Those that stand back find every core while bodies wait for their actions: half as many as there are cores, then.
    """
    return max(1, _share() // 2 if _before else _share() - threads, _few())


def take(count: int) -> list[int]:
    """So many cores for bodies alone: no thread of this process runs there until `give_back`.

    A thread that wakes up on a body's core has it for a turn of the scheduler, 3 ms, and all others wait for that body.
    None, where none is left for the training, or another training or other programs use the cores it may use. Trainings
    that were started on cores of their own (`taskset`) do not get in each other's way.
    """
    free = every()
    if taken() or _jobs() > 1 or count >= len(free) or not hasattr(os, "sched_setaffinity"):
        return []
    with suppress(OSError):  # not every container lets a process look around, or choose its cores
        if _busy(free) <= QUIET and _claim(free):
            _before[:] = free
            _keep_to(free[count:])
            return free[:count]
    give_back()
    return []


def give_back() -> None:
    """Bodies have no cores of their own any more."""
    if _before:
        with suppress(OSError):
            _keep_to(_before)
        _before.clear()
        _renounce()


def taken() -> bool:
    """Whether this training has cores for its bodies alone."""
    return bool(_before)


def stand_back(cores: Iterable[int]) -> None:
    """Run on any of these cores, but only while nobody else wants it: who wakes up there need not wait for us."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, cores)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _claim(wanted: Iterable[int]) -> bool:
    """Make all of these cores this training's; none, where one is another's."""
    for core in wanted:
        _claims.append(socket.socket(socket.AF_UNIX))
        try:
            _claims[-1].bind(_CLAIM.format(core))
        except OSError:
            _renounce()
            return False
    return True


def _renounce() -> None:
    while _claims:
        _claims.pop().close()


def _keep_to(cores: Iterable[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended since
            os.sched_setaffinity(int(thread), cores)


def _busy(some: Collection[int]) -> float:
    """The share of these cores that is busy just now."""
    before = _spent(some)
    time.sleep(LOOKED_AT)
    idle, whole = (now - then for now, then in zip(_spent(some), before, strict=True))
    return 1 - idle / max(whole, 1)


def _spent(some: Collection[int]) -> tuple[int, int]:
    """Ticks of the clock that these cores together were idle, and all there were."""
    lines = (line.split() for line in STAT.read_text().splitlines())
    by_core = {name: [int(number) for number in numbers[:8]] for name, *numbers in lines if name.startswith("cpu")}
    spent = [by_core[name] for core in some if (name := f"cpu{core}") in by_core]  # a container may hide some
    return sum(each[3] + each[4] for each in spent), sum(map(sum, spent))


def _jobs() -> int:
    return int(os.environ.get(JOBS_AT_ONCE, "1"))


def _share() -> int:
    return len(every()) // _jobs()


def _few() -> int:
    return min(4, len(every()) // 2)
