"""The paper's three lemmas on random finite pairs: what holds to 1e-8, and what does not."""

import numpy as np

from . import lemmas
from .finite import Domain, action_values, mean_return, occupancy, state_values, summed_return, visits
from .pairs import pairs

CLOSE = 1e-8


def error(found: float, expected: float, domain: Domain) -> float:
    """In units of the largest return there can be."""
    return abs(found - expected) * (1 - domain.discount) / domain.largest_reward


def test_occupancies_and_returns_are_what_the_paper_defines():
    for source, _, policy, *_ in pairs():
        assert np.isclose(occupancy(source, policy).sum(), 1, atol=1e-12)
        assert error(mean_return(source, policy), (1 - source.discount) * summed_return(source, policy), source) < CLOSE
        step, chance, total = source.start, 1 - source.discount, np.zeros_like(source.start)
        for _ in range(40):
            total, chance = total + chance * step, chance * source.discount
            step = np.einsum("s,sa,sax->x", step, policy, source.transition)
        # What is left after 40 steps weighs discount^40.
        assert np.abs(visits(source, policy) - total).sum() <= source.discount**40 + CLOSE


def test_values_are_bounded_by_the_largest_reward_over_one_minus_the_discount():
    for source, _, policy, *_ in pairs():
        limit = source.largest_reward / (1 - source.discount) * (1 + CLOSE)
        assert np.abs(state_values(source, policy)).max() <= limit
        assert np.abs(action_values(source, policy)).max() <= limit


def test_the_telescoping_lemma_holds_for_the_discounted_sum():
    for source, target, policy, *_ in pairs():
        gap = summed_return(source, policy) - summed_return(target, policy)
        assert error(lemmas.telescoping(source, target, policy), gap, source) < CLOSE


def test_the_telescoping_lemma_is_off_by_one_minus_the_discount_for_the_mean_reward():
    fails = 0
    for source, target, policy, *_ in pairs():
        gap, printed = (
            mean_return(source, policy) - mean_return(target, policy),
            lemmas.telescoping(source, target, policy),
        )
        assert error((1 - source.discount) * printed, gap, source) < CLOSE
        fails += error(printed, gap, source) > CLOSE
    assert fails > 0.7 * len(pairs())


def test_the_extended_lemma_needs_a_discount_and_a_term_at_the_first_state():
    fails = 0
    for source, target, policy, other, *_ in pairs():
        gap = summed_return(source, policy) - summed_return(target, other)
        assert error(lemmas.extended(source, target, policy, other), gap, source) < CLOSE
        fails += error(lemmas.extended_as_printed(source, target, policy, other), gap, source) > CLOSE
    assert fails > 0.7 * len(pairs())


def test_the_extended_lemma_as_printed_is_no_statement_on_mean_rewards_either():
    fails = 0
    for source, target, policy, other, *_ in pairs():
        gap = mean_return(source, policy) - mean_return(target, other)
        fails += error(lemmas.extended_as_printed(source, target, policy, other), gap, source) > CLOSE
    assert fails > 0.7 * len(pairs())


def test_the_action_lemma_needs_the_same_two_corrections():
    fails = 0
    for source, _, policy, other, *_ in pairs():
        gap = summed_return(source, policy) - summed_return(source, other)
        assert error(lemmas.action(source, policy, other), gap, source) < CLOSE
        fails += error(lemmas.action_as_printed(source, policy, other), gap, source) > CLOSE
    assert fails > 0.5 * len(pairs())


def test_the_action_lemma_holds_as_printed_where_the_action_is_taken_not_a_step_later():
    for source, _, policy, other, *_ in pairs():
        gap = summed_return(source, policy) - summed_return(source, other)
        assert error(lemmas.action_where_it_is_taken(source, policy, other), gap, source) < CLOSE


def test_the_action_lemma_holds_as_printed_when_the_start_is_stationary():
    for source, _, policy, other, *_ in pairs():
        moves = np.einsum("sa,sax->sx", policy, source.transition)
        lazy = (np.eye(len(moves)) + moves) / 2  # has the same stationary laws, and no period
        for _ in range(60):  # 2^60 steps
            lazy = lazy @ lazy
            lazy /= lazy.sum(1, keepdims=True)
        settled = source._replace(start=source.start @ lazy)
        gap = summed_return(settled, policy) - summed_return(settled, other)
        assert error(lemmas.action_as_printed(settled, policy, other), gap, settled) < CLOSE


def test_the_telescoping_sum_of_the_action_lemma_ends_at_the_first_policy():
    """W_0 = J(pi_2) and W_infinity = J(pi_1); the paper prints J(pi_2) for both."""
    for source, _, policy, other, *_ in pairs():
        source = source._replace(discount=min(source.discount, 0.5))
        returns = lemmas.switching_returns(source, policy, other, 60)
        assert error(returns[0], summed_return(source, other), source) < CLOSE
        assert error(returns[-1], summed_return(source, policy), source) < CLOSE
        step = source.start
        advantage = ((policy - other) * action_values(source, other)).sum(-1)
        for before, after, weight in zip(returns, returns[1:], source.discount ** np.arange(60.0), strict=False):
            assert error(after - before, weight * float(step @ advantage), source) < CLOSE
            step = np.einsum("s,sa,sax->x", step, policy, source.transition)
