"""What goes into and out of a cohort: an earlier run's networks, policies to evaluate, agents, all a resume needs."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._util.errors import OffdynError
from .._util.types import SOURCE, TARGET
from ..algos.networks import DOMAIN_INPUTS
from ..algos.sac import actor_network
from ..data.replay import Moments
from ..data.transition import row_width
from ..envs import pairs
from .cohort import Cohort, Failures
from .hardware import capacities
from .leaves import fill_leaves, matching, named_leaves
from .policies import Policies, StdHead
from .program import Experience, Lane


def start(cohort: Cohort, starts: Mapping[int, Mapping[str, np.ndarray]]) -> None:
    """Some lanes go on with the networks of earlier runs, by their names in agent.safetensors."""
    now = {"agent": cohort.learner.lanes.agent, "moments": cohort.learner.lanes.moments}
    filled = {}
    for name, leaf in named_leaves(now).items():
        of_lanes = np.array(leaf)
        # A temperature that is not tuned is this run's setting, not the earlier run's.
        if "log_temperature" not in name or cohort.runs[0].sac.tune_temperature:
            for lane, arrays in starts.items():
                of_lanes[lane] = matching(name, arrays, of_lanes[lane])
        filled[name] = of_lanes
    cohort.learner.lanes = cohort.learner.lanes._replace(**fill_leaves(now, filled))


def policies(cohort: Cohort, domain: float = TARGET) -> Policies:
    """A copy of the policies on the host, as they act in a domain; the target's know their source's side, too."""
    lanes = cohort.settled
    network = actor_network(cohort.runs[0].sac, cohort.spec)
    steps, arrays = network.steps, _deployed(cohort, lanes)
    source_bias = None
    if steps[0] in DOMAIN_INPUTS:
        if domain == TARGET:
            source_bias = _within(SOURCE, steps[0], arrays)[1][:, None]
        steps, arrays = steps[1:], _within(domain, steps[0], arrays)
    *arrays, weight, bias = [array if array.ndim == 3 else array[:, None] for array in arrays]
    actions = cohort.spec.action_size  # the mean comes first, then the log-std
    bounds = np.stack([np.asarray(bound) for bound in (lanes.sac.log_std_low, lanes.sac.log_std_high)])
    std_head = StdHead(np.ascontiguousarray(weight[..., actions:]), bias[..., actions:], bounds.T)
    arrays += [weight[..., :actions], bias[..., :actions]]
    mean = deviation = None
    if lanes.moments is not None:
        mean = np.array(lanes.moments.mean)[:, None]
        deviation = np.array(jax.vmap(Moments.deviation)(lanes.moments))[:, None]
    return Policies(steps, tuple(map(np.ascontiguousarray, arrays)), mean, deviation, std_head, source_bias)


def _deployed(cohort: Cohort, lanes: Lane) -> list[np.ndarray]:
    """The actor's arrays of each lane's deployed member."""
    members = [agent.actor.value for agent in (lanes.agent, *lanes.others)]
    every, chosen = np.arange(cohort.lanes_count), cohort.members.deployed
    return [np.stack([np.asarray(array) for array in same])[chosen, every] for same in zip(*members, strict=True)]


def _within(domain: float, how: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The network of one domain: what its first layer makes of the domain is a part of that layer's bias."""
    said: Any = domain
    if how == "embedding":
        table, *arrays = arrays
        said = table[:, round(domain)][:, None]
    weight, bias, *others = arrays
    size = weight.shape[1] - DOMAIN_INPUTS[how]
    seen, of_domain = weight[:, :size], weight[:, size:]
    return [seen, bias + (said * of_domain if how == "flag" else said @ of_domain)[:, 0], *others]


def agent_arrays(cohort: Cohort, lane: int) -> dict[str, np.ndarray]:
    """One run's networks and optimisers by name, and what its observations are normalised by."""
    lanes = cohort.settled
    tree = {"agent": lanes.agent, "others": lanes.others, "learned": lanes.learned, "moments": lanes.moments}
    return {name: np.asarray(leaf[lane]) for name, leaf in named_leaves(tree).items()}


def take_rows(cohort: Cohort) -> dict[str, np.ndarray]:
    """Those that are not on disk yet, with their flags; whoever takes them puts them there before the next take."""
    rows = {}
    for role, new in cohort.new_rows.items():
        if new.nbytes:
            rows[role], rows[f"{role}_flags"] = new.take()
    return rows


def save(cohort: Cohort) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(state, counters) for a checkpoint; its rows are those that were ever taken."""
    state = {f"lanes/{name}": np.asarray(leaf) for name, leaf in named_leaves(cohort.settled).items()}
    state |= {f"physics/{name}": array for name, array in cohort.domain.save().items()}
    state["running_return"] = cohort.running_return.copy()
    host = {
        "clock": cohort.clock,
        "source_rows": cohort.source_rows,
        "target_rows": cohort.target_rows,
        "updates": cohort.updates,
        "failures": [[lane, *failure] for lane, failure in cohort.failures.items()],
        "finished": cohort.finished,
        "learned_at": cohort.learned_at,
        "playing": cohort.playing,
        "target_returns": cohort.target_returns,
        "members": cohort.members.save(),
        "source_data": None if cohort.source_data is None else cohort.source_data.sha256,
    }
    return state, host


def load(
    cohort: Cohort, state: dict[str, np.ndarray], host: dict[str, Any], segments: list[dict[str, np.ndarray]]
) -> None:
    """Go on exactly where `save` was called; in custom environments, with new episodes.

    Replays are filled from the rows that are left, one after the other, whatever was lost between them.
    """
    if cohort.source_data is not None and host["source_data"] != cohort.source_data.sha256:
        raise OffdynError(
            f"{cohort.plan.source_data}: not the dataset this training began with (sha256 "
            f"{cohort.source_data.sha256[:12]}, was {host['source_data'][:12]}); put that one back to resume"
        )
    cohort.learner.lanes = fill_leaves(
        cohort.learner.lanes, {k[6:]: v for k, v in state.items() if k.startswith("lanes/")}
    )
    cohort.domain.load({k[8:]: v for k, v in state.items() if k.startswith("physics/")})
    cohort.running_return = state["running_return"].copy()
    cohort.clock, cohort.updates = host["clock"], host["updates"]
    cohort.source_rows, cohort.target_rows = host["source_rows"], host["target_rows"]
    cohort.failures = Failures({lane: (quantity, at) for lane, quantity, at in host["failures"]})
    cohort.finished = [(lane, role, value) for lane, role, value in host["finished"]]
    cohort.learned_at, cohort.playing = host.get("learned_at"), host.get("playing", False)
    if "members" in host:
        cohort.members.load(host["members"])
    cohort.target_returns = [(lane, value) for lane, value in host.get("target_returns", [])]
    if isinstance(cohort.domain, pairs.OwnBodies):
        cohort.running_return[:], cohort.playing = 0.0, False
    rings = []
    for name, capacity in zip(("source", "target"), capacities(cohort.plan), strict=True):
        ring = np.zeros((cohort.lanes_count, capacity, row_width(cohort.spec)), np.float32)
        position = 0
        for segment in segments:
            if name in segment:
                new = segment[name]
                ring[:, (position + np.arange(new.shape[1])) % capacity] = new
                position += new.shape[1]
        given = cohort.source_rows if name == "source" else cohort.target_rows
        if position > given:
            raise ValueError(f"{position} {name} transitions, where {given} were made")
        cohort.lost[name] = given - position
        rings.append(cohort.learner.devices.deal(ring))
    cohort.learner.experience = Experience(*rings)
    if cohort.source_data is not None:
        cohort.learner.experience = cohort.learner.experience._replace(
            source=cohort.learner.devices.share(cohort.source_data.rows)
        )
