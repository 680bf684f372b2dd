"""Random pairs of finite domains with two policies, of the kinds at which statements of this sort tend to break."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from .finite import Array, Domain

SHIFTS = ("unrelated", "slight", "nearly deterministic", "deterministic", "absorbing", "relabelled")
POLICIES = ("stochastic", "deterministic", "differing at the start only")


class Pair(NamedTuple):
    source: Domain
    target: Domain
    policy: Array  # [state, action]: pi, and pi_1 of the lemmas on two policies
    other: Array  # [state, action]: pi_D, and pi_2 of the lemmas
    shift: str
    policies: str


def one_hot(rng: np.random.Generator, shape: tuple[int, ...], width: int) -> Array:
    return np.eye(width)[rng.integers(width, size=shape)]


def moves_of(rng: np.random.Generator, shift: str, states: int, actions: int) -> tuple[Array, Array]:
    """Source and target transitions."""

    def spread() -> Array:
        return rng.dirichlet(np.ones(states), size=(states, actions))

    def certain() -> Array:
        return one_hot(rng, (states, actions), states)

    if shift == "unrelated":
        return spread(), spread()
    if shift == "slight":
        source, share = spread(), 10 ** rng.uniform(-6, -1)
        return source, (1 - share) * source + share * spread()
    if shift == "nearly deterministic":
        rest = 10 ** rng.uniform(-12, -2)
        return (1 - rest) * certain() + rest * spread(), (1 - rest) * certain() + rest * spread()
    if shift == "deterministic":
        return certain(), certain()
    if shift == "absorbing":
        source, target = spread(), spread()
        for moves in source, target:
            ends = rng.random(states) < 0.4
            moves[ends] = np.eye(states)[ends][:, None]
        return source, target
    source = spread()
    return source, source[..., rng.permutation(states)]


def policies_of(rng: np.random.Generator, kind: str, start: Array, actions: int) -> tuple[Array, Array]:
    states = len(start)
    if kind == "deterministic":
        return one_hot(rng, (states,), actions), one_hot(rng, (states,), actions)
    policy, other = rng.dirichlet(np.ones(actions), size=(2, states))
    return policy, np.where((start > 0)[:, None], other, policy) if kind == POLICIES[2] else other


def draw(rng: np.random.Generator, shift: str, policies: str) -> Pair:
    states, actions = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    source, target = moves_of(rng, shift, states, actions)
    reward = rng.uniform(-1, 1, size=(states, actions)) * 10 ** rng.uniform(-3, 3)
    from_one_state = policies == POLICIES[2] or rng.random() < 0.5
    start = one_hot(rng, (), states) if from_one_state else rng.dirichlet(np.ones(states))
    discount = float(rng.choice([rng.uniform(0.01, 0.9), 0.99, 0.999]))
    policy, other = policies_of(rng, policies, start, actions)
    source_domain = Domain(source, reward, start, discount)
    return Pair(source_domain, source_domain._replace(transition=target), policy, other, shift, policies)


@cache
def pairs(per_kind: int = 30, seed: int = 0) -> tuple[Pair, ...]:
    """The same pairs every time, so many for each kind of shift and of policies."""

    def drawn() -> Iterator[Pair]:
        rng = np.random.default_rng(seed)
        for shift in SHIFTS:
            for policies in POLICIES:
                for _ in range(per_kind):
                    yield draw(rng, shift, policies)

    return tuple(drawn())
