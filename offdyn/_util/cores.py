"""How the processor's cores are shared: by bodies, evaluation and all else of a training, and by jobs at once."""

import os
from collections.abc import Iterable
from contextlib import suppress

JOBS_AT_ONCE = "OFFDYN_JOBS_AT_ONCE"  # in the environment: processes that train on this machine side by side

_before: list[int] = []  # the cores of this process before it left some of them to its bodies


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
    None, where none is left for the training, or it is one of several jobs at once. Trainings that are started by hand
    side by side need cores of their own (`taskset`), or `OFFDYN_JOBS_AT_ONCE`.
    """
    free = every()
    if taken() or _jobs() > 1 or count >= len(free) or not hasattr(os, "sched_setaffinity"):
        return []
    _before[:] = free
    try:
        _keep_to(free[count:])
    except OSError:  # not every container lets a process choose its cores
        give_back()
        return []
    return free[:count]


def give_back() -> None:
    """Bodies have no cores of their own any more."""
    if _before:
        with suppress(OSError):
            _keep_to(_before)
        _before.clear()


def taken() -> bool:
    """Whether this training has cores for its bodies alone."""
    return bool(_before)


def stand_back(cores: Iterable[int]) -> None:
    """Run on any of these cores, but only while nobody else wants it: who wakes up there need not wait for us."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, cores)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _keep_to(cores: Iterable[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended since
            os.sched_setaffinity(int(thread), cores)


def _jobs() -> int:
    return int(os.environ.get(JOBS_AT_ONCE, "1"))


def _share() -> int:
    return len(every()) // _jobs()


def _few() -> int:
    return min(4, len(every()) // 2)
