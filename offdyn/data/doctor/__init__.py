"""The doctor: what is wrong with a dataset or with a pair of domains, in words."""

from pathlib import Path

from ...domains.pairs import Pair
from ..datasets import DataError, Dataset, open_dataset
from ..datasets.bodies import body_of, check_sizes
from .body import LEAST, check_body, replay, sample
from .episodes import check_ends, check_returns, check_successors
from .finding import KINDS, Finding, fatal, found
from .pair import diagnose_pair
from .rows import check_constants, check_duplicates, check_numbers
from .subject import Subject

__all__ = ["KINDS", "Finding", "diagnose", "diagnose_dataset", "diagnose_pair", "fatal"]


def diagnose(wanted: str | Path, robot: str | Pair | None = None) -> tuple[Dataset | None, list[Finding]]:
    """Open a dataset by name or path and look at it; one that cannot be opened is a finding too."""
    try:
        dataset = open_dataset(wanted, robot)
    except DataError as error:
        return None, [found(error.kind, True, str(error))]
    return dataset, diagnose_dataset(dataset, robot)


def diagnose_dataset(dataset: Dataset, robot: str | Pair | None = None) -> list[Finding]:
    """What is wrong, fatal things first; `robot` (or a task) names the body, else the card does.

    Every row is looked at; a few hundred are simulated again. A million rows take a few seconds.
    """
    if len(dataset) == 0:
        return [found("empty", True, "there are no rows")]
    findings, body = [], body_of(dataset, robot)
    if body is None:
        findings.append(found("unknown-robot", False, "nothing says which robot made these rows"))
    else:
        try:
            check_sizes(dataset, body)
        except DataError as error:
            findings.append(found(error.kind, True, str(error)))
            body = None
    subject = Subject(dataset, body)
    rows = sample(subject)
    replayed = replay(subject.task, dataset, rows) if subject.task is not None and len(rows) >= LEAST else None
    for check in (check_numbers, check_constants, check_duplicates, check_ends, check_returns):
        findings += check(subject)
    findings += check_successors(subject, replayed)
    findings += check_body(subject, replayed)
    return sorted(findings, key=lambda finding: not finding.fatal)
