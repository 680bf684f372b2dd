"""How the processor's cores are shared: by bodies and evaluation, and by jobs that train side by side."""

import os

JOBS_AT_ONCE = "OFFDYN_JOBS_AT_ONCE"  # in the environment: processes that train on this machine side by side


def default_threads() -> int:
    """Half of the cores for the physics: beside a GPU evaluation needs as many, without one the learner does.

    Of several jobs at once each gets its share, but a few at least: they do not all need as many at the same time.
    """
    return max(1, _share() // 2, _few())


def left_for_evaluation(threads: int) -> int:
    """The cores that this job's bodies leave, and again a few at least."""
    return max(1, _share() - threads, _few())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _share() -> int:
    return _cores() // int(os.environ.get(JOBS_AT_ONCE, "1"))


def _few() -> int:
    return min(4, _cores() // 2)
