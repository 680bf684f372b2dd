"""Theorems 4.4 and 4.5 on random finite pairs: the bounds that hold, and how often the printed ones do not."""

import numpy as np
import pytest

from . import bounds
from .finite import Array, Domain, mean_return, summed_return
from .information import channels, merged
from .pairs import POLICIES, Pair, pairs

ROUNDING = 1e-8


def loss(source: Domain, target: Domain, policy: Array) -> float:
    return summed_return(source, policy) - summed_return(target, policy)


def slack(bound: float, pair: Pair) -> float:
    """By how much the bound exceeds what it bounds, in units of the largest return there can be."""
    source, target, policy, *_ = pair
    return (bound - loss(source, target, policy)) * (1 - source.discount) / source.largest_reward


@pytest.mark.parametrize("bound", [bounds.by_total_variation, bounds.by_divergence, bounds.by_representation])
def test_the_online_bound_holds(bound):
    for pair in pairs():
        assert slack(bound(*pair[:3]), pair) > -ROUNDING


def test_the_online_bounds_hold_for_mean_rewards_too():
    """A bound that is negative on the right survives when its left side shrinks by 1 - discount."""
    for source, target, policy, *_ in pairs():
        fall = mean_return(source, policy) - mean_return(target, policy)
        assert fall <= bounds.by_total_variation(source, target, policy) + ROUNDING * source.largest_reward


def test_each_step_of_the_online_proof_is_looser_than_the_one_before():
    for source, target, policy, *_ in pairs():
        tight, loose, looser = (
            bound(source, target, policy)
            for bound in (bounds.by_total_variation, bounds.by_divergence, bounds.by_representation)
        )
        assert tight <= loose * (1 + 1e-6) + ROUNDING * bounds.reach(source)
        assert loose <= looser * (1 + 1e-6) + ROUNDING * bounds.reach(source)


def test_no_pair_loses_more_than_the_bound_anyone_could_give():
    for pair in pairs():
        assert slack(bounds.anyway(pair.source), pair) > -ROUNDING


def test_codes_that_merge_pairs_still_bound_the_loss_when_both_domains_are_averaged_alike():
    rng = np.random.default_rng(1)
    for pair in pairs():
        both = channels(*pair[:3])
        codes = rng.integers(0, 3, size=len(both[0].weight))
        coarse = bounds.by_codes(merged(both[0], codes), merged(both[1], codes), pair.source)
        assert slack(coarse, pair) > -ROUNDING
        assert coarse <= bounds.by_codes(*both, pair.source) * (1 + 1e-6) + ROUNDING * bounds.reach(pair.source)


def offline(policies_term: float, pair: Pair, mismatch=bounds.by_total_variation) -> float:
    return policies_term + mismatch(pair.source, pair.target, pair.other)


@pytest.mark.parametrize("mismatch", [bounds.by_total_variation, bounds.by_divergence, bounds.by_representation])
def test_the_offline_bound_holds_with_the_policies_compared_where_they_act(mismatch):
    for pair in pairs():
        bound = offline(bounds.policies_apart(pair.source, pair.policy, pair.other), pair, mismatch)
        assert slack(bound, pair) > -ROUNDING


def test_the_offline_bound_holds_as_printed_when_the_policies_agree_at_the_first_state():
    for pair in pairs():
        agreeing = np.where((pair.source.start > 0)[:, None], pair.policy, pair.other)
        pair = pair._replace(other=agreeing)
        bound = offline(bounds.policies_apart_after_a_step(pair.source, pair.policy, pair.other), pair)
        assert slack(bound, pair) > -ROUNDING


def test_the_offline_bound_compares_the_policies_where_it_matters_least_when_they_differ_only_at_the_start():
    fewer = [pair for pair in pairs() if pair.policies == POLICIES[2]]
    for pair in fewer:
        printed = bounds.policies_apart_after_a_step(pair.source, pair.policy, pair.other)
        right = bounds.policies_apart(pair.source, pair.policy, pair.other)
        at_start = float(pair.source.start @ bounds.total_variation(pair.other, pair.policy))
        expected = (1 - pair.source.discount) * bounds.policy_cost(pair.source) * at_start
        assert np.isclose(right, expected + pair.source.discount * printed, rtol=1e-8)
