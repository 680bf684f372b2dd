"""What is to be trained, as lines to read: each cohort's runs, memory and time on this machine."""

from collections.abc import Iterator, Mapping, Sequence

from .._util.errors import OffdynError
from ..training.config import RunConfig
from ..training.hardware import replay_bytes
from ..training.progress import duration
from . import pace
from .job import ENDED
from .plan import Plan

HINT = "~: an estimate; `offdyn study plan --measure` times a few ticks and keeps the result"


def of_study(todo: Plan, *, measured: bool, threads: int | None = None) -> Iterator[str]:
    """What is left of a study."""
    done = sum(todo.state_of(run) in ENDED for run in todo.runs)
    yield f"{len(todo.runs)} runs, {done} of them done already; what is left is {len(todo.left)} cohorts, one job each"
    if todo.left:
        yield from table("job", {job.id: job.runs for job in todo.left}, measured=measured, threads=threads)


def table(
    head: str, cohorts: Mapping[str, Sequence[RunConfig]], *, measured: bool, threads: int | None = None
) -> Iterator[str]:
    """Line by line, as measuring takes a while."""
    wide = max(len(head), *map(len, cohorts))
    yield f"{head:<{wide}}  runs  source steps  target steps  replay memory   time here"
    total, exact, unknown = 0.0, True, list[str]()
    for name, runs in cohorts.items():
        plan = runs[0].schedule
        try:
            if measured:
                pace.measure(runs, threads)
            found, known = pace.estimate(runs, threads)
            exact, total = exact and known, total + found.seconds(runs)
            shown = ("" if known else "~") + duration(found.seconds(runs))
        except OffdynError as error:
            unknown.append(f"{name}: {error}")
            shown = "?"
        memory = f"{replay_bytes(runs) / 2**30:.2f} GiB"
        length = plan.length if plan.source_env_count else 0
        budget = 0 if plan.tested_only else plan.target_budget
        yield f"{name:<{wide}}  {len(runs):>4}  {length:>12}  {budget:>12}  {memory:>13}  {shown:>10}"
    from jax import devices

    whole = " without those that could not be measured" if unknown else ""
    yield f"about {duration(total)}, one cohort after another, on this machine ({devices()[0].device_kind}){whole}"
    yield from unknown if exact else (*unknown, HINT)
