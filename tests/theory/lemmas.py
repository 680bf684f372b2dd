"""The right-hand sides of the paper's three lemmas (its appendix B), as printed and corrected."""

import numpy as np

from .finite import Array, Domain, action_values, averaged, occupancy, state_values, visits


def telescoping(one: Domain, two: Domain, policy: Array) -> float:
    """Lemma B.1: discount/(1 - discount) E_rho1[ (P1 - P2) V2 ]."""
    surprise = (one.transition - two.transition) @ state_values(two, policy)
    return horizon(one) * one.discount * float((occupancy(one, policy) * surprise).sum())


def extended_as_printed(one: Domain, two: Domain, policy: Array, other: Array) -> float:
    """Lemma B.2: 1/(1 - discount) E_rho1[ P1 pi1 Q2 - P2 pi2 Q2 ], rho1 of pi1 in domain 1, Q2 of pi2 in domain 2."""
    return horizon(one) * after_one_step(one, two, policy, other)


def extended(one: Domain, two: Domain, policy: Array, other: Array) -> float:
    """The same with the missing discount and the missing choice at the first state."""
    values = action_values(two, other)
    return at_the_start(one, policy, other, values) + one.discount * horizon(one) * after_one_step(
        one, two, policy, other
    )


def action_as_printed(domain: Domain, policy: Array, other: Array) -> float:
    """Lemma B.3: 1/(1 - discount) E_{rho1, s'~P}[ pi1 Q2 - pi2 Q2 at s' ], both policies in one domain."""
    return extended_as_printed(domain, domain, policy, other)


def action(domain: Domain, policy: Array, other: Array) -> float:
    return extended(domain, domain, policy, other)


def action_where_it_is_taken(domain: Domain, policy: Array, other: Array) -> float:
    """1/(1 - discount) E_{s~rho1}[ pi1 Q2 - pi2 Q2 at s ]: the printed sentence without its step to s'."""
    advantage = averaged(policy - other, action_values(domain, other))
    return horizon(domain) * float(visits(domain, policy) @ advantage)


def switching_returns(domain: Domain, policy: Array, other: Array, switches: int) -> Array:
    """W_0, W_1, ...: the return of acting by the policy for so many steps and by the other ever after."""
    value, returns = state_values(domain, other), []
    for _ in range(switches):
        returns.append(float(domain.start @ value))
        value = averaged(policy, domain.reward + domain.discount * domain.transition @ value)
    return np.array(returns)


def horizon(domain: Domain) -> float:
    return 1 / (1 - domain.discount)


def after_one_step(one: Domain, two: Domain, policy: Array, other: Array) -> float:
    values = action_values(two, other)
    expected = one.transition @ averaged(policy, values) - two.transition @ averaged(other, values)
    return float((occupancy(one, policy) * expected).sum())


def at_the_start(domain: Domain, policy: Array, other: Array, values: Array) -> float:
    return float(domain.start @ averaged(policy - other, values))
