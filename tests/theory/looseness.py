"""How far the bounds lie above the true loss on random pairs; python -m tests.theory.looseness."""

from collections.abc import Callable, Iterator

import numpy as np

from . import bounds
from .encoders import by_distance, fitted
from .finite import Array, Domain, summed_return

STATES, ACTIONS, PAIRS = 10, 3, 200
DISCOUNTS = (0.9, 0.99)

Moves = tuple[Array, Array]  # of the source and of the target


def law(rng: np.random.Generator) -> Array:
    return rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))


def unrelated(rng: np.random.Generator) -> Moves:
    return law(rng), law(rng)


def a_tenth(rng: np.random.Generator) -> Moves:
    source = law(rng)
    return source, 0.9 * source + 0.1 * law(rng)


def a_thousandth(rng: np.random.Generator) -> Moves:
    source = law(rng)
    return source, 0.999 * source + 0.001 * law(rng)


def first_state(rng: np.random.Generator) -> Moves:
    source, target = unrelated(rng)
    target[1:] = source[1:]
    return source, target


def first_state_without_noise(rng: np.random.Generator) -> Moves:
    states = np.eye(STATES)
    source = states[rng.integers(STATES, size=(STATES, ACTIONS))]
    target = source.copy()
    target[0] = np.roll(source[0], 1, axis=-1)  # one state further on, so that every action's outcome differs
    return source, target


SHIFTS: dict[str, Callable[[np.random.Generator], Moves]] = {
    "another law everywhere": unrelated,
    "a tenth of another law": a_tenth,
    "a thousandth of another law": a_thousandth,
    "another law at the first state": first_state,
    "no noise, other moves at the first state": first_state_without_noise,
}


def with_one_hot_codes(source: Domain, target: Domain, policy: Array) -> float:
    return by_distance(fitted(np.eye(STATES), target), source, target, policy)


def offline(source: Domain, target: Domain, policy: Array) -> float:
    """Data of a policy that does something else one time in ten."""
    data = 0.9 * policy + 0.1 / ACTIONS
    return bounds.policies_apart(source, policy, data) + bounds.by_total_variation(source, target, data)


BOUNDS = {
    "nothing known": lambda source, target, policy: bounds.anyway(source),
    "TV": bounds.by_total_variation,
    "KL": bounds.by_divergence,
    "codes and outcomes": bounds.by_representation,
    "offline, TV": offline,
    "deviation": with_one_hot_codes,
}


def ratios(shift: Callable[[np.random.Generator], Moves], discount: float) -> Array:
    """[pair, bound]: bound over |J_src - J_tar|."""
    rng = np.random.default_rng(0)
    measured = np.empty((PAIRS, len(BOUNDS)))
    for row in measured:
        before, after = shift(rng)
        source = Domain(before, rng.uniform(-1, 1, size=(STATES, ACTIONS)), np.eye(STATES)[0], discount)
        target = source._replace(transition=after)
        policy = rng.dirichlet(np.ones(ACTIONS), size=STATES)
        lost = abs(summed_return(source, policy) - summed_return(target, policy))
        row[:] = [bound(source, target, policy) / lost for bound in BOUNDS.values()]
    return measured


def cells() -> Iterator[tuple[str, float, Array]]:
    """For each kind of pairs and discount the median ratio of each bound."""
    for name, shift in SHIFTS.items():
        for discount in DISCOUNTS:
            yield name, discount, np.median(ratios(shift, discount), axis=0)


def two_digits(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,g}" if ratio < np.inf else "infinite"


def table() -> str:
    head = ["the target has", "discount", *BOUNDS]
    lines = [head, ["---"] * len(head)]
    lines += [[name, str(discount), *map(two_digits, medians)] for name, discount, medians in cells()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table())
