"""Finite decision problems whose returns, values and occupancies are exact: each is one linear solve in float64."""

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Domain(NamedTuple):
    transition: Array  # [state, action, next state]
    reward: Array  # [state, action]
    start: Array  # [state]
    discount: float

    @property
    def largest_reward(self) -> float:  # r_max
        return float(np.abs(self.reward).max())


def averaged(policy: Array, of_actions: Array) -> Array:
    """[state]: what the policy expects of a table [state, action]."""
    return (policy * of_actions).sum(-1)


def state_values(domain: Domain, policy: Array) -> Array:
    """V [state]: V = r + discount P V under the policy."""
    moves = np.einsum("sa,sax->sx", policy, domain.transition)
    return np.linalg.solve(np.eye(len(moves)) - domain.discount * moves, averaged(policy, domain.reward))


def action_values(domain: Domain, policy: Array) -> Array:
    """Q [state, action]."""
    return domain.reward + domain.discount * domain.transition @ state_values(domain, policy)


def visits(domain: Domain, policy: Array) -> Array:
    """[state]: (1 - discount) times the discounted sum of the chances to be there at step 0, 1, 2, ..."""
    moves = np.einsum("sa,sax->sx", policy, domain.transition)
    return np.linalg.solve(np.eye(len(moves)) - domain.discount * moves.T, (1 - domain.discount) * domain.start)


def occupancy(domain: Domain, policy: Array) -> Array:
    """rho [state, action], which sums to 1."""
    return visits(domain, policy)[:, None] * policy


def summed_return(domain: Domain, policy: Array) -> float:
    """The discounted sum of rewards: J of the proofs."""
    return float(domain.start @ state_values(domain, policy))


def mean_return(domain: Domain, policy: Array) -> float:
    """The mean reward under rho: J as the paper's section 3 defines it, (1 - discount) times the sum."""
    return float((occupancy(domain, policy) * domain.reward).sum())


def total_variation(p: Array, q: Array) -> Array:
    return np.abs(p - q).sum(-1) / 2


def divergence(p: Array, q: Array) -> Array:
    """KL(p || q) in nats over the last axis; infinite where p puts weight outside q's support.

    Summed as p (x - log(1 + x)) with x = q/p - 1: no term is negative, and nothing cancels where q is close to p.
    """
    there = p > 0
    divisor = np.where(there, p, 1.0)
    excess = np.where(there, (q - p) / divisor, 0.0)
    with np.errstate(divide="ignore"):
        log_ratio = np.where(np.abs(excess) < 0.5, np.log1p(excess), np.log(np.where(there, q, 1.0) / divisor))
        return np.where(there, np.maximum(p * (excess - log_ratio), 0.0), q).sum(-1)


def entropy(p: Array) -> Array:
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1)
