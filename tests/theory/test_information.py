"""Theorems 4.2 and 4.3 on random finite pairs: the information difference, and how the divergences really add up."""

import numpy as np

from . import information as info
from .finite import Domain, total_variation
from .pairs import pairs

CLOSE = 1e-8


def equal(left: float, right: float) -> bool:
    return bool(np.isclose(left, right, rtol=CLOSE, atol=CLOSE))


def test_the_integral_of_theorem_4_2_is_the_information_difference_and_has_both_signs():
    signs = []
    for source, target, policy, *_ in pairs():
        both = info.channels(source, target, policy)
        difference = info.information_difference(*both)
        assert equal(info.log_ratio_of_posteriors(*both), difference)
        assert equal(info.information_difference(*both[::-1]), -difference)
        signs.append(np.sign(round(difference, 8)))
    assert 0.2 < np.mean(np.array(signs) < 0) < 0.8


def test_the_information_difference_vanishes_as_the_target_approaches_the_source():
    for source, target, policy, *_ in pairs():
        nearer = source._replace(transition=source.transition + 1e-9 * (target.transition - source.transition))
        assert abs(info.information_difference(*info.channels(source, nearer, policy))) < 1e-6


def test_theorem_4_3_is_an_identity_between_the_integrals_neither_of_which_is_a_divergence():
    negative = 0
    for source, target, policy, *_ in pairs():
        both = info.channels(source, target, policy)
        dynamics = info.log_ratio_of_dynamics(*both)
        assert equal(info.log_ratio_of_posteriors(*both), dynamics - info.entropy_difference(*both))
        negative += dynamics < -CLOSE
    assert negative > 0.2 * len(pairs())


def test_theorem_4_3_fails_for_divergences_in_either_meaning():
    fails = {info.posterior_divergence: 0, info.averaged_posterior_divergence: 0}
    finite = 0
    for source, target, policy, *_ in pairs():
        first, second = info.channels(source, target, policy)
        printed = info.dynamics_divergence(second, first) + info.entropy_difference(second, first)
        finite += np.isfinite(printed)
        for meaning in fails:
            fails[meaning] += bool(np.isfinite(printed)) and not equal(meaning(second, first), printed)
    assert all(count > 0.5 * finite for count in fails.values())


def test_theorem_4_3_corrected_divergences_of_codes_and_of_outcomes_add_up_to_that_of_the_dynamics():
    finite = 0
    for source, target, policy, *_ in pairs():
        both = info.channels(source, target, policy)
        for first, second in (both, both[::-1]):
            parts = info.posterior_divergence(first, second) + info.outcome_divergence(first, second)
            assert equal(info.dynamics_divergence(first, second), parts)
            finite += np.isfinite(parts)
    assert finite > len(pairs())


def test_averaging_over_next_states_drawn_apart_does_affect_the_result():
    """The paper: one may also write the expectation over s'_src and s'_tar, 'it should not affect the result'."""
    positive = 0
    for source, _, policy, *_ in pairs():
        same = info.channels(source, source, policy)
        assert equal(info.information_difference(*same), 0)
        positive += info.averaged_posterior_divergence(*same) > 1e-3
    assert positive > 0.4 * len(pairs())


def test_pinsker_holds():
    for source, target, *_ in pairs():
        apart = total_variation(source.transition, target.transition)
        assert (apart <= np.sqrt(info.divergence(source.transition, target.transition) / 2) + CLOSE).all()


def test_the_entropy_term_is_no_constant_of_the_two_domains():
    """Action 0 makes the outcomes differ in entropy, action 1 does not: the policy decides."""
    still, tossed = np.eye(2), np.full((2, 2), 0.5)
    source = Domain(np.stack((still, still), 1), np.zeros((2, 2)), np.array([1.0, 0.0]), 0.5)
    target = source._replace(transition=np.stack((tossed, still), 1))
    terms = [info.entropy_difference(*info.channels(source, target, np.eye(2)[[action, action]])) for action in (0, 1)]
    assert np.allclose(terms, [-np.log(2), 0])


def test_the_information_difference_is_blind_to_states_that_swap():
    source = Domain(np.eye(2)[:, None], np.zeros((2, 1)), np.full(2, 0.5), 0.5)
    target = source._replace(transition=np.eye(2)[::-1, None])
    both = info.channels(source, target, np.ones((2, 1)))
    assert equal(info.information_difference(*both), 0)
    assert info.dynamics_divergence(*both) == np.inf
