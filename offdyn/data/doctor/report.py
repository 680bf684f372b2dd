"""What `offdyn check` prints: what was looked at, what was found, and whether it can be used."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._util.errors import OffdynError
from ...envs import custom, pairs
from ..datasets import Dataset, full_card
from . import diagnose
from .finding import Finding, fatal
from .pair import examine_pair


@dataclass(frozen=True)
class Report:
    """One examination."""

    checked: str
    kind: str  # dataset or pair
    facts: dict[str, Any]
    findings: list[Finding]

    @property
    def fatal(self) -> bool:
        return bool(fatal(self.findings))

    def to_json(self) -> str:
        findings = [finding.to_mapping() for finding in self.findings]
        whole = {"checked": self.checked, "kind": self.kind, "fatal": self.fatal, **self.facts, "findings": findings}
        return json.dumps(whole, indent=2)

    def __str__(self) -> str:
        lines = [f"{self.kind} {self.checked}"]
        lines += [f"  {name.replace('_', ' ')}: {_shown(value)}" for name, value in self.facts.items()]
        lines += [str(finding) for finding in self.findings]
        warnings = len(self.findings) - len(fatal(self.findings))
        verdict = "not fit for training" if self.fatal else "fit for training"
        counted = [f"{len(fatal(self.findings))} fatal"] * self.fatal + [f"{warnings} to know of"] * bool(warnings)
        return "\n".join([*lines, f"{verdict}: {', '.join(counted) or 'nothing found'}"])


def examine(wanted: str, robot: str | None = None, target: str | None = None) -> Report:
    """Look at a file, a dataset's name, or a task; `target` is the task or environment that a dataset is for."""
    goal = None if target is None else pairs.meant(target)
    if wanted.endswith((".yaml", ".yml")):
        return _of_pair(pairs.find(wanted), wanted, goal)
    if not (wanted.startswith(("minari:", "lerobot:")) or Path(wanted).expanduser().exists()):
        try:
            pair = pairs.find(wanted)
        except OffdynError as no_task:
            if custom.names_environment(wanted):
                raise OffdynError(
                    f"{wanted} is an environment, no dataset and no task; a pair is looked at by "
                    "`offdyn train --source S --target T --dry-run`"
                ) from None
            near = str(no_task).split(" (known")[0]
            return _of_data(wanted, robot, goal, f"; {near}: `offdyn list` prints all tasks")
        return _of_pair(pair, wanted, goal)
    return _of_data(wanted, robot, goal)


def _of_data(wanted: str, robot: str | None, target: pairs.Pair | None, no_task: str = "") -> Report:
    try:
        dataset, findings = diagnose(wanted, robot, target)
    except OffdynError as error:
        raise OffdynError(f"{error}{no_task}") from None
    return Report(wanted, "dataset", {} if dataset is None else _facts(dataset), findings)


def _of_pair(pair: pairs.Pair, wanted: str, target: pairs.Pair | None) -> Report:
    if target is not None:
        raise OffdynError(f"{wanted} is a task; --target says what a dataset is for: leave one of the two out")
    apart, findings = examine_pair(pair)
    facts: dict[str, Any] = {"bodies": bodies} if (bodies := pairs.fingerprints(pair)) else {}
    if apart is not None:
        facts["one_step_divergence"] = round(apart.mean, 6)  # mean, as a share of the step's change
        facts["share_of_steps_affected"] = round(apart.affected, 4)
    return Report(wanted, "pair", facts, findings)


def _facts(dataset: Dataset) -> dict[str, Any]:
    card = full_card(dataset)
    names = ("name", "robot", "shift", "steps", "episodes", "return_mean", "return_std", "made", "reading")
    return {name: card[name] for name in names if card.get(name) is not None}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_shown(inner)}" for name, inner in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
