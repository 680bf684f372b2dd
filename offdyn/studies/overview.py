"""What is left of a study, as lines to read: each job's runs, memory and time on this machine."""

from collections.abc import Iterator

from .._util.errors import OffdynError
from ..training.hardware import replay_bytes
from ..training.progress import duration
from .job import ENDED, Job
from .plan import Plan


def describe(todo: Plan, *, measured: bool, threads: int | None = None) -> Iterator[str]:
    """Line by line, as measuring takes a while."""
    done = sum(todo.state_of(run) in ENDED for run in todo.runs)
    yield f"{len(todo.runs)} runs, {done} of them done already; what is left is {len(todo.left)} cohorts, one job each"
    if not todo.left:
        return
    wide = max(len(job.id) for job in todo.left)
    yield f"{'job':<{wide}}  runs  source steps  target steps  replay memory  time here"
    total, unknown = 0.0, list[str]()
    for job in todo.left:
        plan = job.runs[0].schedule
        shown = "-"
        if measured:
            try:
                seconds = _seconds(job, threads)
                total += seconds
                shown = duration(seconds)
            except OffdynError as error:
                unknown.append(f"{job.id}: {error}")
                shown = "?"
        memory = f"{replay_bytes(job.runs) / 2**30:.2f} GiB"
        length = plan.length if plan.source_env_count else 0
        budget = 0 if plan.tested_only else plan.target_budget
        yield f"{job.id:<{wide}}  {len(job.runs):>4}  {length:>12}  {budget:>12}  {memory:>13}  {shown:>9}"
    if measured:
        from jax import devices

        whole = " without those that could not be measured" if unknown else ""
        yield f"about {duration(total)} one job after another on this machine ({devices()[0].device_kind}){whole}"
        yield from unknown


def _seconds(job: Job, threads: int | None) -> float:
    from .pace import measure

    return measure(job.runs, threads).seconds(job.runs)
