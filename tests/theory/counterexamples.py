"""The smallest finite domains at which printed statements of the paper fail; python -m tests.theory.counterexamples."""

from collections.abc import Iterator, Sequence

import numpy as np

from . import bounds, encoders, lemmas
from . import information as info
from .finite import Array, Domain, averaged, mean_return, occupancy, summed_return

HALF = 0.5  # the discount of all of them

Row = tuple[str, dict[str, float]]
Moves = Sequence[Sequence[float]]


def domain(*moves: Moves, reward: list, start: list[float]) -> Domain:
    """One list of next-state laws, a row per state, for each action; rewards per state, or per state and action."""
    transition = np.stack([np.array(move, float) for move in moves], 1)
    per_action = np.array(reward, float).reshape(len(start), -1)
    return Domain(transition, np.broadcast_to(per_action, transition.shape[:2]), np.array(start, float), HALF)


def moved_to(other: Domain, *moves: Moves) -> Domain:
    return other._replace(transition=np.stack([np.array(move, float) for move in moves], 1))


STAY, SWAP, TO_ZERO, TO_ONE = [[1, 0], [0, 1]], [[0, 1], [1, 0]], [[1, 0], [1, 0]], [[0, 1], [0, 1]]
ONLY = np.ones((2, 1))  # the policy where there is one action


def fall(source: Domain, target: Domain, policy: Array) -> float:
    return summed_return(target, policy) - summed_return(source, policy)


def lost_footing() -> Row:
    source = domain(STAY, reward=[1, 0], start=[1, 0])
    target = moved_to(source, TO_ONE)
    return "lemma B.1, J a mean", {
        "left": mean_return(source, ONLY) - mean_return(target, ONLY),
        "printed": lemmas.telescoping(source, target, ONLY),
        "left for a sum": -fall(source, target, ONLY),
    }


def lost_footing_extended() -> Row:
    source = domain(STAY, reward=[1, 0], start=[1, 0])
    target = moved_to(source, TO_ONE)
    return "lemma B.2, one policy", {
        "left": -fall(source, target, ONLY),
        "printed": lemmas.extended_as_printed(source, target, ONLY, ONLY),
        "corrected": lemmas.extended(source, target, ONLY, ONLY),
    }


def first_choice() -> Row:
    only = domain(TO_ONE, TO_ONE, reward=[[1, 0], [0, 0]], start=[1, 0])
    takes_it, leaves_it = np.eye(2)[[0, 0]], np.eye(2)[[1, 0]]
    return "lemma B.3", {
        "left": summed_return(only, takes_it) - summed_return(only, leaves_it),
        "printed": lemmas.action_as_printed(only, takes_it, leaves_it),
        "corrected": lemmas.action(only, takes_it, leaves_it),
    }


def forgetful_target() -> Row:
    source = domain(STAY, reward=[0, 0], start=[HALF, HALF])
    both = info.channels(source, moved_to(source, TO_ZERO), ONLY)
    return "theorem 4.2, sign", {"h": info.information_difference(*both)}


def identical_domains() -> Row:
    source = domain([[3 / 4, 1 / 4], [1 / 4, 3 / 4]], reward=[0, 0], start=[HALF, HALF])
    both = info.channels(source, source, ONLY)
    return "theorem 4.2, E[KL]", {
        "h": info.information_difference(*both),
        "E[KL]": info.averaged_posterior_divergence(*both),
    }


def biased_coins() -> tuple[Domain, Domain]:
    source = domain([[3 / 4, 1 / 4]] * 2, reward=[1, -1], start=[1, 0])
    return source, moved_to(source, [[1 / 4, 3 / 4]] * 2)


def coin_mismatch() -> Row:
    source, target = info.channels(*biased_coins(), ONLY)
    return "theorem 4.3", {
        "left": info.posterior_divergence(target, source),
        "left as E[KL]": info.averaged_posterior_divergence(target, source),
        "printed": info.dynamics_divergence(target, source) + info.entropy_difference(target, source),
        "KL of s'": info.outcome_divergence(target, source),
    }


def coin_returns() -> Row:
    pair = biased_coins()
    return "theorem 4.4", {
        "J_tar - J_src": fall(*pair, ONLY),
        "bound in all readings": -max(bounds.as_printed(reading, *pair, ONLY) for reading in bounds.READINGS),
        "corrected": -bounds.by_representation(*pair, ONLY),
        "in TV": -bounds.by_total_variation(*pair, ONLY),
    }


def swapped() -> Row:
    source = domain(STAY, reward=[1, -1], start=[1, 0])
    target = moved_to(source, SWAP)
    # From state 0 the target never reaches state 0 again in one step: the fourth reading has no P_tar(z | s') there.
    readings = [reading for reading in bounds.READINGS if reading is not bounds.of_the_same_next_state]
    return "theorem 4.4, no noise", {
        "J_tar - J_src": fall(source, target, ONLY),
        "in three readings": -max(bounds.as_printed(reading, source, target, ONLY) for reading in readings),
        "in TV": -bounds.by_total_variation(source, target, ONLY),
    }


def unseen_action() -> Row:
    source = domain(TO_ONE, TO_ONE, reward=[-1, 1], start=[1, 0])
    target = moved_to(source, TO_ONE, STAY)
    policy, data = np.eye(2)[[1, 0]], np.eye(2)[[0, 0]]
    mismatch = max(bounds.as_printed(reading, source, target, data) for reading in bounds.READINGS)
    dynamics = bounds.by_total_variation(source, target, data)
    return "theorem 4.5", {
        "J_tar - J_src": fall(source, target, policy),
        "bound in all readings": -bounds.policies_apart_after_a_step(source, policy, data) - mismatch,
        "in TV": -bounds.policies_apart_after_a_step(source, policy, data) - dynamics,
        "in TV, corrected": -bounds.policies_apart(source, policy, data) - dynamics,
    }


def idle_action() -> Row:
    """An exact fit gives both actions one code, since both lead to one state in the target."""
    source = domain(STAY, SWAP, reward=[0, 0], start=[1, 0])
    target = moved_to(source, STAY, STAY)
    encoder = encoders.fitted(np.array([[0.0], [1.0]]), target)
    chance = np.full((2, 2), HALF)
    weight = occupancy(source, chance)[0]
    return "assumption 4.1", {
        "z(0, a) - z(0, b)": float((encoder.prediction[0, 0] - encoder.prediction[0, 1])[0]),
        "P_src(0 | z)": float(averaged(weight, source.transition[0, :, 0]) / weight.sum()),
        "P_src(0 | 0, a)": float(source.transition[0, 0, 0]),
    }


def deviations(name: str, code: list[float], source: Domain, target: Domain) -> Row:
    encoder = encoders.fitted(np.array(code)[:, None], target)
    policy = np.ones((len(code), 1))
    return name, {
        "J_tar - J_src": fall(source, target, policy),
        "D in source": encoders.mean_deviation(encoder, source, policy, source),
        "D in target": encoders.mean_deviation(encoder, source, policy, target),
    }


def blind_encoders() -> Iterator[Row]:
    source = domain(STAY, reward=[1, 0], start=[1, 0])
    target = moved_to(source, TO_ONE)
    yield deviations("one code for all", [0, 0], source, target)
    yield deviations("close codes", [0, 0.001], source, target)

    to_good, to_bad = [[0, 1, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 1, 0], [0, 0, 1]]
    source = domain(to_good, reward=[0, 1, -1], start=[1, 0, 0])
    yield deviations("good and bad merged", [0, 1, 1], source, moved_to(source, to_bad))

    stays, left_or_right = (
        np.eye(3).tolist(),
        [[HALF, 0, HALF] if state == 1 else np.eye(3)[state] for state in range(3)],
    )
    source = domain(stays, reward=[-1, 1, -1], start=[0, 1, 0])
    yield deviations("mean of left and right", [0, 1, 2], source, moved_to(source, left_or_right))


def tight() -> Row:
    """Not a counterexample: the total variation bound is attained."""
    source = domain([[0, 1, 0], [0, 1, 0], [0, 0, 1]], reward=[0, 1, -1], start=[1, 0, 0])
    target = moved_to(source, [[0, 0, 1], [0, 1, 0], [0, 0, 1]])
    policy = np.ones((3, 1))
    return "TV bound, attained", {
        "J_tar - J_src": fall(source, target, policy),
        "in TV": -bounds.by_total_variation(source, target, policy),
    }


def rows() -> Iterator[Row]:
    for row in (lost_footing, lost_footing_extended, first_choice, forgetful_target, identical_domains, coin_mismatch):
        yield row()
    for row in (coin_returns, swapped, tight, unseen_action, idle_action):
        yield row()
    yield from blind_encoders()


def number(value: float) -> str:
    return f"{value:.4g}" if abs(value) > 1e-12 else "0"


def table() -> str:
    lines = []
    for name, numbers in rows():
        cells = [f"{what}: {number(value)}" for what, value in numbers.items()]
        half = len(cells) if len(cells) < 4 else 2
        lines += [f"{name:<24}" + "   ".join(cells[:half])]
        lines += [" " * 24 + "   ".join(cells[half:])] if cells[half:] else []
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
