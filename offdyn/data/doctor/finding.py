"""What the doctor can say: each kind of fault by name, why it matters and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

SHOWN = 5  # rows named in a finding


class Kind(NamedTuple):
    """What is the same in all findings of one name."""

    why: str
    remedy: str


KINDS: dict[str, Kind] = {
    # a file that cannot be used
    "unreadable": Kind("nothing can be learned from it", "fetch it again or make it anew"),
    "empty": Kind("there is nothing to learn from", "fetch it again or make it anew"),
    "hash-mismatch": Kind(
        "the transitions are not those the card speaks of, so no number in the card can be trusted",
        "fetch it again; if you changed them yourself, write them with offdyn.data.datasets.save",
    ),
    "wrong-shape": Kind("steps cannot be told from the columns", "write one row of every column for each step"),
    "wrong-dtype": Kind("a value is not what its column means", "write numbers as floats and ends as booleans"),
    "contact-forces": Kind(
        "our ant does not observe contact forces, and behaviour that relied on them cannot be learned without",
        "use data of an ant whose entries from 27 on are zero, as in D4RL",
    ),
    "image-observations": Kind(
        "policies here see vectors of numbers", "use a dataset of positions and velocities, or encode each image first"
    ),
    "unknown-action-bounds": Kind(
        "one recorded number is a full action in one environment and a tenth of it in another",
        "name the environment with --target, or write action_low and action_high into the card",
    ),
    "wrong-robot": Kind("its states and actions mean something else", "name the robot that made it with --robot"),
    "unknown-robot": Kind(
        "ends, rewards, returns and dynamics were not checked", "say --robot NAME, or write the robot into the card"
    ),
    # rows
    "nan-or-infinity": Kind("one of these turns every weight of a network into NaN", "remove the episodes it is in"),
    "action-out-of-range": Kind(
        "no policy can take these, and the environment clips or refuses them",
        "name the environment they are for with --target, map them with offdyn.data.datasets.with_action_bounds, or "
        "clip them if the environment did",
    ),
    "small-actions": Kind(
        "in a file of ours actions lie in [-1, 1]; in other units each would be executed too weakly",
        "map them with offdyn.data.datasets.with_action_bounds, or leave them if the policy was that careful",
    ),
    "constant-action": Kind("nothing shows what another action would do", "check that the column was recorded"),
    "constant-column": Kind("what the robot senses there was lost", "check that the column was recorded"),
    "constant-rows": Kind(
        "a moving robot never sees exactly the same again: the successor was not recorded",
        "store the observation after the step, not the one before it twice",
    ),
    "duplicated-rows": Kind("they count twice in every batch", "remove the copies, or leave them if that is meant"),
    "duplicated-episodes": Kind("they count twice in every batch", "remove the copies; were files joined twice?"),
    "no-rewards": Kind(
        "all that is done is equally good, so nothing can be learned", "check that rewards were recorded"
    ),
    # episodes
    "rolled-next-observations": Kind(
        "critics and dynamics models learn steps that were never made",
        "undo the shift: the next observation is what the same step led to",
    ),
    "next-of-another-episode": Kind(
        "critics and dynamics models learn a jump that no robot can make",
        "store the last observation of an episode before the reset, or drop the steps named here",
    ),
    "missing-time-limits": Kind(
        "where one episode runs into the next, returns are wrong and a reset may look like a step",
        "mark the last step of each time-limited episode in `timeouts` (D4RL) or `truncated`",
    ),
    "shuffled-rows": Kind(
        "without the order of time, neither episodes nor returns can be told; single steps may still be right",
        "write the steps in the order they were made, one body after the other, each with what it led to",
    ),
    "episode-too-long": Kind("returns do not compare with those of the time-limited task", "cut it at the time limit"),
    "time-limit-as-end": Kind(
        "a cut episode is taken for a fall: values are too low wherever the clock happened to run out",
        "move these flags from `terminals` to `timeouts` (from terminated to truncated)",
    ),
    "terminal-but-alive": Kind(
        "the critic sees no future where there is one", "mark true ends only; see docs/tasks.md"
    ),
    "alive-but-terminal": Kind("the critic sees a future after the robot has fallen", "mark these steps as terminal"),
    # against the robot
    "wrong-body": Kind(
        "source and target are compared by their dynamics, and these are not the named body's",
        "name the body that made it with --robot, or make the data anew",
    ),
    "other-engine": Kind(
        "an older physics engine, or a body slightly changed, adds to the shift that is studied",
        "fine for learning; for a clean comparison make the data anew with `offdyn collect`",
    ),
    "wrong-reward": Kind(
        "source and target must pay alike: these rewards are not the robot's", "undo any scaling, or recompute them"
    ),
    "impossible-returns": Kind("no robot of this kind earns that", "look for scaled, summed or shifted rewards"),
    # a pair of domains
    "unequal-spaces": Kind("one policy cannot act in both", "choose two bodies of one robot"),
    "unequal-limits": Kind("returns in the two do not compare", "give both the same time limit"),
    "not-deterministic": Kind("no result could be repeated", "look for randomness that the seed does not govern"),
    "no-shift": Kind("there is nothing to learn across", "choose a target with a shift: `offdyn list`"),
    "same-motion": Kind(
        "the shift shows nowhere that random actions lead, so that results may not depend on it",
        "make the shift stronger, or check that it changes what you meant",
    ),
    "not-finite": Kind("one of these turns every weight of a network into NaN", "make the shift milder"),
    "unstable": Kind("MuJoCo gave up on some steps, and training repeats one instead", "make the shift milder"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    name: str
    fatal: bool
    what: str
    count: int = 0  # rows concerned
    first: tuple[int, ...] = ()  # the first few of them, as numbered in the dataset

    @property
    def why(self) -> str:
        return KINDS[self.name].why

    @property
    def remedy(self) -> str:
        return KINDS[self.name].remedy

    def to_mapping(self) -> dict[str, Any]:
        return {**asdict(self), "first": list(self.first), "why": self.why, "what to do": self.remedy}

    def __str__(self) -> str:
        where = f" (row{'s' * (self.count > 1)} {', '.join(map(str, self.first))}" if self.first else ""
        where += f"{', …' * (self.count > len(self.first))})" if self.first else ""
        grade = "FATAL" if self.fatal else "warning"
        return f"{grade}: {self.name}: {self.what}{where}\n    why: {self.why}\n    what to do: {self.remedy}"


def found(name: str, fatal: bool, what: str, rows: Sequence[int] | np.ndarray = ()) -> Finding:
    """A finding about some rows."""
    assert name in KINDS, name
    return Finding(name, fatal, what, len(rows), tuple(int(row) for row in rows[:SHOWN]))


def fatal(findings: Iterable[Finding]) -> list[Finding]:
    """Those that training refuses."""
    return [finding for finding in findings if finding.fatal]
