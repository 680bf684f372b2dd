"""What is to be trained, as lines to read: each cohort's runs, memory and time on this machine."""

from collections.abc import Iterator, Mapping, Sequence

from ..training.config import RunConfig
from ..training.hardware import replay_bytes
from ..training.progress import duration
from . import cost
from .job import ENDED
from .plan import Plan


def of_study(todo: Plan, threads: int | None = None) -> Iterator[str]:
    """What is left of a study."""
    done = sum(todo.state_of(run) in ENDED for run in todo.runs)
    yield f"{len(todo.runs)} runs, {done} of them done already; what is left is {len(todo.left)} cohorts, one job each"
    if todo.left:
        yield from table("job", {job.id: job.runs for job in todo.left}, threads)


def table(head: str, cohorts: Mapping[str, Sequence[RunConfig]], threads: int | None = None) -> Iterator[str]:
    from jax import devices

    wide = max(len(head), *map(len, cohorts))
    yield f"{head:<{wide}}  runs  source steps  target steps  replay memory   time here"
    total = 0.0
    for name, runs in cohorts.items():
        plan, seconds = runs[0].schedule, cost.seconds(runs, threads)
        total += seconds
        memory = f"{replay_bytes(runs) / 2**30:.2f} GiB"
        length = plan.length if plan.source_env_count else 0
        budget = 0 if plan.tested_only else plan.target_budget
        yield f"{name:<{wide}}  {len(runs):>4}  {length:>12}  {budget:>12}  {memory:>13}  {'~' + duration(seconds):>10}"
    yield f"about {duration(total)}, one cohort after another, on this machine ({devices()[0].device_kind})"
