"""The doctor: what is wrong with a dataset or with a pair of domains, in words."""

from collections.abc import Iterator
from pathlib import Path

from ...envs import pairs
from ...envs.pairs import OwnPair, Pair
from ..datasets import DataError, Dataset, open_dataset
from ..datasets.actions import bounded, bounds_of, known_bounds, recorded_bounds
from ..datasets.bodies import body_of, check_sizes
from ..datasets.opening import Target
from .dynamics import LEAST, check_body, replay, sample
from .episodes import check_ends, check_returns, check_rolled, check_successors
from .finding import KINDS, Finding, fatal, found
from .pair import diagnose_pair
from .subject import Subject
from .transitions import check_actions, check_constants, check_duplicates, check_numbers, check_rewards

__all__ = ["KINDS", "Finding", "diagnose", "diagnose_dataset", "diagnose_pair", "fatal"]


def diagnose(
    wanted: str | Path, robot: str | Pair | None = None, target: Target | None = None
) -> tuple[Dataset | None, list[Finding]]:
    """Open a dataset by name or path and look at it; one that cannot be opened is a finding too."""
    goal = None if target is None else pairs.meant(target)
    try:
        dataset = open_dataset(wanted, robot, goal)
    except DataError as error:
        return None, [found(error.kind, True, str(error))]
    return dataset, diagnose_dataset(dataset, robot, goal)


def diagnose_dataset(dataset: Dataset, robot: str | Pair | None = None, target: Target | None = None) -> list[Finding]:
    """What is wrong, fatal things first; `robot` (or a task) names the body, else the target's source, else the card.

    Every row is looked at; a few hundred are simulated again. A million rows take a few seconds.
    """
    if len(dataset) == 0:
        return [found("empty", True, "there are no transitions")]
    goal = None if target is None else pairs.meant(target)
    findings, body = [], _body(dataset, robot, goal)
    if body is None and not isinstance(goal, OwnPair):
        findings.append(found("unknown-robot", False, "nothing says which robot made these transitions"))
    for pair in (body, goal):
        try:
            dataset = dataset if pair is None else _of(pair, dataset)
        except DataError as error:
            findings.append(found(error.kind, True, str(error)))
            body = goal = None
            break
    findings += check_actions(dataset, known_bounds(dataset), recorded_bounds(dataset))
    subject = Subject(dataset if body is None else bounded(dataset, bounds_of(body)), body)
    for check in (check_numbers, check_constants, check_duplicates, check_rewards):
        findings += check(subject)
    findings += check_rolled(subject) if subject.rolled is not None else _check_steps(subject)
    return sorted(findings, key=lambda finding: not finding.fatal)


def _body(dataset: Dataset, robot: str | Pair | None, goal: Pair | None) -> Pair | None:
    """Whose rows they should be: of a custom environment nobody knows ends and dynamics."""
    if robot is not None or goal is None:
        body = body_of(dataset, robot)
    else:
        body = goal if isinstance(goal, OwnPair) else pairs.source_of(goal)
    return None if isinstance(body, OwnPair) else body


def _of(pair: Pair, dataset: Dataset) -> Dataset:
    check_sizes(dataset, pair)
    return bounded(dataset, bounds_of(pair))


def _check_steps(subject: Subject) -> Iterator[Finding]:
    """What needs the next observations to be those of their rows."""
    rows = sample(subject)
    replayed = replay(subject.task, subject.dataset, rows) if subject.task is not None and len(rows) >= LEAST else None
    yield from check_ends(subject)
    yield from check_returns(subject)
    yield from check_successors(subject, replayed)
    yield from check_body(subject, replayed)
