"""Whether a source and a target make a sound experiment: alike in form, repeatable, and really different."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._util.errors import OffdynError
from ..._util.types import Spec
from ...envs import pairs
from ...envs.domain import Rows
from ...envs.effects import NONE
from ...envs.tasks import Task
from ..datasets.dataset import COLUMNS, Dataset
from .dynamics import replay, sample
from .finding import Finding, found
from .subject import Subject

BODIES, STEPS = 4, 250  # of each role: 1000 random steps
SMALLEST = 1e-4  # share of a step's change that counts as a difference: above float32's rounding in a contact


class Apart(NamedTuple):
    """How far one action drives source and target apart in one step from the same state."""

    mean: float  # as a share of the step's change
    affected: float  # share of steps in which they differ at all


def diagnose_pair(wanted: "str | Path | Mapping[str, Any] | pairs.Pair") -> list[Finding]:
    """What is wrong with a task: its target beside its source, under random actions."""
    return examine_pair(pairs.find(wanted))[1]


def examine_pair(pair: pairs.Pair) -> tuple[Apart | None, list[Finding]]:
    """How far source and target lie apart, where that can be measured, and what is wrong with them."""
    try:
        first, again = _roll(pair), _roll(pair)
    except OffdynError as broke_at_once:
        return None, [found("unstable", True, str(broke_at_once))]
    apart = divergence(pair, first)
    findings = [
        *_compare_specs(*_specs(pair)),
        *_check_repeatable(first, again),
        *_check_finite(first),
        *_check_difference(pair, first, apart),
    ]
    return apart, sorted(findings, key=lambda finding: not finding.fatal)


def divergence(pair: pairs.Pair, rolled: dict[str, list[Rows]]) -> Apart:
    """Measured in states that random actions lead the source to; else, or with effects, in first states."""
    if isinstance(pair, Task) and pair.effects == NONE:
        columns = {name: np.concatenate([getattr(rows, name) for rows in rolled["source"]]) for name in COLUMNS}
        subject = Subject(Dataset(**columns, card={}), pair)
        error = replay(pair, subject.dataset, sample(subject)).error
    else:
        source, target = rolled["source"][0], rolled["target"][0]
        change = np.linalg.norm(source.next_observation - source.observation, axis=1)
        error = np.linalg.norm(source.next_observation - target.next_observation, axis=1) / np.maximum(change, 1e-9)
    return Apart(float(np.minimum(error, 1e3).mean()), float((error > SMALLEST).mean()))


def _roll(pair: pairs.Pair) -> dict[str, list[Rows]]:
    """Source and target bodies from the same starts with the same actions."""
    spec = pairs.spec_of(pair)
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, BODIES, spec.action_size))
    rolled = {}
    for role in ("source", "target"):
        bodies = pairs.open_bodies([(pair, role)] * BODIES, [(7, body) for body in range(BODIES)], threads=1)
        rolled[role] = [bodies.step(np.arange(BODIES), action) for action in actions]
        bodies.close()
    return rolled


def _specs(pair: pairs.Pair) -> tuple[Spec, Spec]:
    specs = []
    for role in ("source", "target"):
        bodies = pairs.open_bodies([(pair, role)], [(0,)], threads=1)
        specs.append(bodies.spec)
        bodies.close()
    return specs[0], specs[1]


def _compare_specs(source: Spec, target: Spec) -> Iterator[Finding]:
    if source[:2] != target[:2]:
        said = f"the source has {source[0]} observation entries and {source[1]} actions, the target {target[:2]}"
        yield found("unequal-spaces", True, said)
    if source.time_limit != target.time_limit:
        said = f"the source is cut after {source.time_limit} steps, the target after {target.time_limit}"
        yield found("unequal-limits", True, said)


def _check_repeatable(first: dict[str, list[Rows]], again: dict[str, list[Rows]]) -> Iterator[Finding]:
    for role in first:
        for step, (one, other) in enumerate(zip(first[role], again[role], strict=True)):
            if any(a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True)):
                said = f"the {role}, started twice from one seed, differs at step {step}"
                yield found("not-deterministic", True, said)
                break


def _check_finite(rolled: dict[str, list[Rows]]) -> Iterator[Finding]:
    for role, steps in rolled.items():
        if not all(np.isfinite(rows.next_observation).all() and np.isfinite(rows.reward).all() for rows in steps):
            yield found("not-finite", True, f"random actions lead the {role} to NaN or infinity")
        if broken := sum(int(rows.diverged.sum()) for rows in steps):
            yield found("unstable", False, f"physics broke in {broken} of {STEPS * BODIES} steps of the {role}")


def _check_difference(pair: pairs.Pair, rolled: dict[str, list[Rows]], apart: Apart) -> Iterator[Finding]:
    if isinstance(pair, Task) and len(set(pairs.fingerprints(pair).values())) == 1:
        yield found("no-shift", True, f"'{pair.name}' is the same body as its source")
        return
    sights = zip(rolled["source"], rolled["target"], strict=True)
    alike = all(np.allclose(a.next_observation, b.next_observation, SMALLEST, SMALLEST) for a, b in sights)
    if alike and apart.affected == 0:
        said = f"source and target did the same in {STEPS * BODIES} steps from the same starts with the same actions"
        yield found("same-motion", False, said)
