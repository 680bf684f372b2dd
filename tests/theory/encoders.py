"""PAR's deviation on finite domains: tables of codes f(s) and predictions g(s, a), and what they bound."""

from typing import NamedTuple

import numpy as np

from .finite import Array, Domain, occupancy, state_values
from .information import weighted


class Encoder(NamedTuple):
    code: Array  # f [state, dimension]
    prediction: Array  # g [state, action, dimension]


def fitted(code: Array, target: Domain) -> Encoder:
    """The predictions that minimise the paper's objective on target rows: the mean code of the next state.

    A prediction may depend on f(s) only, so this is a valid g wherever states with one code have the same mean.
    """
    return Encoder(code, target.transition @ code)


def deviation(encoder: Encoder) -> Array:
    """D [state, action, next state]: the squared distance from prediction to code."""
    return ((encoder.prediction[:, :, None] - encoder.code) ** 2).sum(-1)


def mean_deviation(encoder: Encoder, visited: Domain, policy: Array, rows_of: Domain) -> float:
    """D over the pairs that the policy visits in one domain, with next states of another: what a penalty deducts."""
    weight = occupancy(visited, policy)[..., None] * rows_of.transition
    return weighted(weight, deviation(encoder))


def mean_distance(encoder: Encoder, visited: Domain, policy: Array, rows_of: Domain) -> float:
    """The same for the root of D."""
    weight = occupancy(visited, policy)[..., None] * rows_of.transition
    return weighted(weight, np.sqrt(deviation(encoder)))


def distances(code: Array) -> Array:
    return np.sqrt(((code[:, None] - code) ** 2).sum(-1))


def steepness(code: Array, value: Array) -> float:
    """L: by how much the value changes per unit of code; infinite if one code stands for two values."""
    change = np.abs(value[:, None] - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(change > 0, change / distances(code), 0.0).max())


def separation(code: Array) -> float:
    """c: the least distance between the codes of two states."""
    apart = distances(code)[~np.eye(len(code), dtype=bool)]
    return float(apart.min(initial=np.inf))


def by_distance(encoder: Encoder, source: Domain, target: Domain, policy: Array) -> float:
    """discount L / (1 - discount) (E sqrt D on source rows + on target rows), pairs as visited in the source."""
    slope = steepness(encoder.code, state_values(target, policy))
    if slope == np.inf:
        return np.inf
    both = sum(mean_distance(encoder, source, policy, rows) for rows in (source, target))
    return source.discount / (1 - source.discount) * slope * both


def sufficient_penalty(code: Array, domain: Domain) -> float:
    """beta = 2 discount r_max / ((1 - discount) c^2)."""
    return 2 * domain.discount * domain.largest_reward / ((1 - domain.discount) * separation(code) ** 2)


def penalised_return(encoder: Encoder, source: Domain, policy: Array, penalty: float) -> float:
    """The discounted sum of source rewards less penalty x D."""
    reward = source.reward - penalty * (source.transition * deviation(encoder)).sum(-1)
    return float(source.start @ state_values(source._replace(reward=reward), policy))
