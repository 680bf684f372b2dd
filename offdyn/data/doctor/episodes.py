"""Faults of episodes: where they begin and end, what follows what, and what they earn."""

from collections.abc import Iterator

import numpy as np

from ...envs.effects import NONE
from ...envs.tasks import reference
from .dynamics import Replayed, looks_like_a_start, replay
from .finding import Finding, found
from .subject import Subject

SUSPECTS, LEAPS = 2000, 256  # rows simulated again at most: those in doubt, and the greatest leaps
TORN = 0.5  # error, as a share of the step's change, from which a successor is not the row's own
NUDGE = 1e-5  # relative: what rounding to float32 can do to a bound
# Returns that count as 0 and 100 for the stock robots (D4RL's); beyond three times that range nothing was ever seen.
SCALES = {"halfcheetah": (-280.2, 12135.0), "hopper": (-20.3, 3234.3), "walker": (1.6, 4592.3), "ant": (-325.6, 3879.7)}
BEYOND = 3.0


def check_rolled(subject: Subject) -> Iterator[Finding]:
    """Where the next observation is the step's own one, `constant-rows` tells."""
    if subject.rolled:
        some = np.flatnonzero(subject.unfollowed)
        where = f"{abs(subject.rolled)} transitions {'later' if subject.rolled > 0 else 'earlier'}"
        said = f"{len(some)} next observations are not what the following transition saw; most were seen {where}"
        yield found("rolled-next-observations", True, said, some)


def check_successors(subject: Subject, replayed: Replayed | None) -> Iterator[Finding]:
    rows, ends = subject.dataset, subject.ends
    reading = rows.card.get("reading") or {}
    if subject.shuffled:
        some = np.flatnonzero(subject.unfollowed)
        said = f"{len(some)} of {len(rows)} next observations are not what the following transition saw"
        yield found("shuffled-rows", False, said, some)
        return
    torn = torn_rows(subject, replayed)
    elsewhere = torn & (ends | subject.unfollowed)
    merged = torn & ~elsewhere
    unmarked = subject.unfollowed & ~torn
    if elsewhere.any():
        bad = np.flatnonzero(elsewhere)
        yield found("next-of-another-episode", True, f"{len(bad)} next observations belong to another episode", bad)
    if merged.any():
        bad = np.flatnonzero(merged)
        said = f"{len(bad)} steps lead from one episode into the start of another, and no end is marked there"
        yield found("missing-time-limits", True, said, bad)
    elif unmarked.any():
        bad = np.flatnonzero(unmarked)
        yield found("missing-time-limits", False, f"{len(bad)} episodes break off without a marked end", bad)
    elif reading.get("time_limits") == "assumed":
        cut = np.flatnonzero(rows.truncated)
        said = f"the file marks no time limits: every 1000th step of an episode was taken for one ({len(cut)} times)"
        yield found("missing-time-limits", False, said, cut)


def torn_rows(subject: Subject, replayed: Replayed | None) -> np.ndarray:
    """[n] bool: rows whose next observation is of another episode, as far as that can be told."""
    rows, ends = subject.dataset, subject.ends
    doubtful = (subject.unfollowed | (ends & subject.followed)) & subject.finite
    if subject.task is None:
        return doubtful
    reset = looks_like_a_start(subject.task, rows.next_observation)
    torn = reset & ~looks_like_a_start(subject.task, rows.observation) & subject.finite
    suspects = np.flatnonzero(doubtful & ~torn & subject.simulable)[:SUSPECTS]
    if replayed is not None and replayed.same:
        # The engine is exact, so that any wrong successor can be told: try the greatest leaps.
        suspects = np.union1d(suspects, _leaps(subject))
    bar = max(TORN, 3 * replayed.size) if replayed is not None else TORN
    again = replay(subject.task, rows, suspects)
    torn[suspects] |= again.error > bar
    # Beyond the rows simulated again, those in the same doubt share the verdict of all that were.
    rest = doubtful & ~torn & subject.simulable
    rest[suspects] = False
    judged = torn[suspects[doubtful[suspects]]]
    return torn | (rest if len(judged) and judged.all() else np.zeros_like(rest))


def _leaps(subject: Subject) -> np.ndarray:
    rows = subject.dataset
    good = subject.simulable & ~subject.dataset.terminated
    deviation = rows.observation[subject.finite][:10_000].std(axis=0) + 1e-3
    with np.errstate(invalid="ignore", over="ignore"):
        leap = np.square(rows.next_observation - rows.observation) @ (1 / np.square(deviation))
    leap[~good] = -1.0
    count = min(LEAPS, int(good.sum()))
    return np.argpartition(-leap, max(count - 1, 0))[:count] if count else np.zeros(0, np.int64)


def check_ends(subject: Subject) -> Iterator[Finding]:
    rows, limit = subject.dataset, subject.limit
    if limit is not None and (subject.lengths > limit).any() and not subject.shuffled:
        bad = np.flatnonzero(subject.lengths > limit)
        said = f"the longest episode has {subject.lengths.max()} steps; the time limit is {limit}"
        yield found("episode-too-long", False, said, bad)
    if subject.spec is None:
        return
    dead, alive = _surely(subject)
    wrong = rows.terminated & alive
    at_limit = wrong & (subject.lengths == limit)
    if at_limit.any():
        bad = np.flatnonzero(at_limit)
        said = f"{len(bad)} episodes end as terminal at step {limit}, where the robot is not at an end"
        yield found("time-limit-as-end", True, said, bad)
    if (early := wrong & ~at_limit).any():
        bad = np.flatnonzero(early)
        # A computed successor is that of our engine, which may stop just short of the end.
        computed = bool((rows.card.get("reading") or {}).get("ends_computed"))
        said = f"{len(bad)} of {rows.terminated.sum()} terminal rows lead to a state that ends no episode"
        yield found("terminal-but-alive", not computed, said, bad)
    if (missed := ~subject.ends & dead).any():
        bad = np.flatnonzero(missed)
        yield found(
            "alive-but-terminal", True, f"{len(bad)} transitions lead to an end and are not marked terminal", bad
        )


def _surely(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """(dead, alive) [n] bool: what the next observation shows, whichever way it was rounded."""
    assert subject.spec is not None
    after = subject.dataset.next_observation
    said = [np.asarray(subject.spec.ends(after * factor)) for factor in (1 - NUDGE, 1.0, 1 + NUDGE)]
    dead, alive = np.logical_and.reduce(said), ~np.logical_or.reduce(said)
    if subject.task is not None:  # a clipped velocity may have been one that ends the episode
        alive &= subject.simulable
        dead &= subject.task.effects == NONE  # an old or noisy reading does not show the end
    return dead & subject.finite, alive & subject.finite


def check_returns(subject: Subject) -> Iterator[Finding]:
    if subject.task is None or subject.shuffled:
        return
    low, high = reference(subject.task) or SCALES[subject.task.robot.name]
    bounds = subject.dataset.episodes()
    sums = np.add.reduceat(np.where(np.isfinite(subject.dataset.reward), subject.dataset.reward, 0.0), bounds[:, 0])
    # An episode longer than the limit is judged by its mean.
    returns = sums / np.maximum(1.0, (bounds[:, 1] - bounds[:, 0]) / subject.task.robot.spec.time_limit)
    strange = (returns > low + BEYOND * (high - low)) | (returns < low - BEYOND * (high - low))
    if strange.any():
        worst = returns[strange][np.abs(returns[strange]).argmax()]
        said = f"{strange.sum()} episodes return as much as {worst:.0f}; {low:.0f} to {high:.0f} is usual"
        stock = not subject.task.shift  # another body, say one with stronger motors, may do what the stock one cannot
        yield found("impossible-returns", stock, said, bounds[strange, 0])
