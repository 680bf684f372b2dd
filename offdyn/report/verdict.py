"""Who leads and by how much, in one sentence."""

from collections.abc import Mapping, Sequence

from .bootstrap import Estimate, difference, estimate
from .statistics import Scores, iqm
from .tables import shown, shown_interval

NAMED = 3  # methods at the top that a sentence names


def verdict(scores: Mapping[str, Scores], measure: str, over: str, digits: int = 0) -> str:
    """Scores by method: the highest IQM, and how far it is above the next that is not level with it."""
    if not scores:
        return f"No run has finished yet {over}; the curves show how far they have come."
    scores = {_in_a_sentence(label): values for label, values in scores.items()}
    ranked = sorted(scores, key=lambda label: -float(iqm(scores[label])))
    best, others = ranked[0], ranked[1:]
    if not others:
        return f"{best} reaches {measure} {_told(estimate(scores[best]), digits)} {over}."
    ahead = {label: difference(scores[best], scores[label]) for label in others}
    lead = f"{_told(ahead[others[0]], digits)} above {others[0]}"
    if any(one.interval is None for one in ahead.values()):
        seeds = "Too few seeds for an interval."
        return f"{best} is ahead {over}: {measure} {_value(scores[best], digits)}, {lead}. {seeds}"
    level = [label for label, one in ahead.items() if one.interval is not None and one.interval.low <= 0]
    if not level:
        return f"{best} wins {over}: {measure} {_value(scores[best], digits)}, {lead}, the next best."
    top = _level(scores, [best, *level], measure, over, digits)
    apart = f", {_told(ahead[level[0]], digits)} apart" if len(level) == 1 else ""
    below = [label for label in others if label not in level]
    rest = f"; {below[0]} is {_told(ahead[below[0]], digits)} below {best}" if below else ""
    return f"{top}{apart}{rest}."


def _level(scores: Mapping[str, Scores], labels: Sequence[str], measure: str, over: str, digits: int) -> str:
    """The methods at the top, between which the intervals do not decide; of many only the first by name."""
    values = [_value(scores[label], digits) for label in labels]
    if len(labels) > NAMED:
        return f"{labels[0]} and {len(labels) - 1} others are level {over}: {measure} {values[0]} to {values[-1]}"
    return f"{_listed(labels)} are level {over}: {measure} {_listed(values)}"


def _in_a_sentence(label: str) -> str:
    """A method's settings in brackets: their commas are not those of the sentence."""
    method, comma, settings = label.partition(", ")
    return f"{method} ({settings})" if comma else label


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _value(scores: Scores, digits: int) -> str:
    return shown(float(iqm(scores)), digits)


def _told(found: Estimate, digits: int) -> str:
    """8 [2, 14]."""
    return shown(float(found.value), digits) + shown_interval(found.interval, digits)
