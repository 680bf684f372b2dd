"""The paper's bounds on J_src(pi) - J_tar(pi), as numbers: how far the target may fall below the source."""

from collections.abc import Callable

import numpy as np

from .finite import Array, Domain, divergence, entropy, occupancy, total_variation, visits
from .information import (
    Channel,
    averaged_posterior_divergence,
    channels,
    entropy_difference,
    log_ratio_of_posteriors,
    outcome_divergence,
    posterior_divergence,
    weighted,
)

# (source, target, the policy whose visits are meant) -> the two terms under the roots, each averaged over rho.
Reading = Callable[[Domain, Domain, Array], tuple[float, float]]


def reach(domain: Domain) -> float:
    """2 discount r_max / (1 - discount)^2: what a total variation of 1 at every step may cost."""
    return 2 * domain.discount * domain.largest_reward / (1 - domain.discount) ** 2


def anyway(domain: Domain) -> float:
    """2 discount r_max / (1 - discount): no two returns differ by more if the first reward is the same."""
    return reach(domain) * (1 - domain.discount)


def by_total_variation(source: Domain, target: Domain, policy: Array) -> float:
    """Proof of theorem 4.4, sixth line."""
    apart = total_variation(source.transition, target.transition)
    return reach(source) * float((occupancy(source, policy) * apart).sum())


def by_divergence(source: Domain, target: Domain, policy: Array) -> float:
    """Proof of theorem 4.4, line (i): sqrt(2) discount r_max / (1 - discount)^2 E sqrt KL(P_src || P_tar | s, a)."""
    root = np.sqrt(divergence(source.transition, target.transition) / 2)
    return reach(source) * weighted(occupancy(source, policy), root)


def by_codes(source: Channel, target: Channel, domain: Domain) -> float:
    """Total variation between P_src(s' | z) and P_tar(s' | z), for codes that need not tell pairs apart."""
    return reach(domain) * weighted(source.weight, total_variation(source.forward, target.forward))


def by_representation(source: Domain, target: Domain, policy: Array) -> float:
    """Theorem 4.4 corrected: KL(P_src(s') || P_tar(s')) where the printed bound has a difference of entropies."""
    both = channels(source, target, policy)
    roots = np.sqrt(posterior_divergence(*both)) + np.sqrt(outcome_divergence(*both))
    return reach(source) * float(roots) / np.sqrt(2)


def as_printed(reading: Reading, source: Domain, target: Domain, policy: Array) -> float:
    """Theorem 4.4 as printed: sqrt(2) discount r_max / (1 - discount)^2 (E sqrt KL(z | s') + E sqrt |H - H|)."""
    return reach(source) * sum(reading(source, target, policy)) / np.sqrt(2)


def one_pair_at_a_time(source: Domain, target: Domain, policy: Array) -> tuple[float, float]:
    """For given (s, a) the code z is one point whatever s' is: no mismatch; the entropies are those of P(. | s, a)."""
    roots = np.sqrt(np.abs(entropy(source.transition) - entropy(target.transition)))
    return 0.0, weighted(occupancy(source, policy), roots)


def of_the_integral(source: Domain, target: Domain, policy: Array) -> tuple[float, float]:
    """The integral of theorem 4.2's proof, whose sign is dropped to have a root at all."""
    first, second = channels(source, target, policy)
    return abs(log_ratio_of_posteriors(second, first)) ** 0.5, entropy_term(first, second)


def of_next_states_drawn_apart(source: Domain, target: Domain, policy: Array) -> tuple[float, float]:
    both = channels(source, target, policy)
    return averaged_posterior_divergence(*both) ** 0.5, entropy_term(*both)


def of_the_same_next_state(source: Domain, target: Domain, policy: Array) -> tuple[float, float]:
    both = channels(source, target, policy)
    return posterior_divergence(*both) ** 0.5, entropy_term(*both)


def entropy_term(source: Channel, target: Channel) -> float:
    return abs(entropy_difference(source, target)) ** 0.5


READINGS: tuple[Reading, ...] = (
    one_pair_at_a_time,
    of_the_integral,
    of_next_states_drawn_apart,
    of_the_same_next_state,
)


def policies_apart_after_a_step(source: Domain, policy: Array, data: Array) -> float:
    """Term (a) of theorem 4.5 as printed: 4 r_max / (1 - discount)^2 E_{rho, s'~P_src} TV(pi_D || pi) at s'."""
    after = np.einsum("sa,sax->x", occupancy(source, data), source.transition)
    return policy_cost(source) * float(after @ total_variation(data, policy))


def policies_apart(source: Domain, policy: Array, data: Array) -> float:
    """Term (a) corrected: the same at the states s that rho itself weighs, the first among them."""
    return policy_cost(source) * float(visits(source, data) @ total_variation(data, policy))


def policy_cost(domain: Domain) -> float:
    return 4 * domain.largest_reward / (1 - domain.discount) ** 2
