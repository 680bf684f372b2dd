"""How many rows a cohort keeps, and whether they fit."""

from collections.abc import Sequence

import jax

from ..data.rows import row_width
from ..errors import OffdynError
from .config import RunConfig
from .devices import count_for
from .schedule import Schedule


def capacities(plan: Schedule) -> tuple[int, int]:
    """Rows of the source and of the target replay; one unused row where a domain is not collected."""
    source = min(plan.replay_size, plan.source_steps) if plan.source_bodies else 1
    target = min(plan.replay_size, plan.target_budget)
    return source, max(target, 1)


def replay_bytes(runs: Sequence[RunConfig]) -> int:
    """Device memory of a cohort's replays; a dataset, of which there is one copy for all, is small beside it."""
    return 4 * len(runs) * row_width(runs[0].spec) * sum(capacities(runs[0].schedule))


def check_memory(runs: Sequence[RunConfig]) -> None:
    """Refuse replays that cannot fit, before anything is trained."""
    lanes, width = len(runs), row_width(runs[0].spec)
    source, target = capacities(runs[0].schedule)
    needed = replay_bytes(runs)
    device = jax.devices()[0]
    if device.platform == "cpu":
        free = _free_memory()
    else:
        limit = (device.memory_stats() or {}).get("bytes_limit")
        free = None if limit is None else limit * count_for(lanes)  # each holds its share of the lanes
    if free is not None and needed > 0.9 * free:
        raise OffdynError(
            f"the replays of {lanes} runs need {needed / 2**30:.1f} GiB ({source + target} rows of {4 * width} bytes "
            f"each), this {device.platform} has {free / 2**30:.1f} GiB: lower replay_size, or train fewer seeds or "
            "tasks at a time"
        )


def _free_memory() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
