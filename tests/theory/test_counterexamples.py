"""Each counterexample gives the numbers that a hand computes for it, and none can be smaller."""

import numpy as np
import pytest

from . import bounds, counterexamples, lemmas
from . import information as info
from .finite import mean_return, summed_return
from .pairs import pairs

LOG2, LOG3 = np.log(2), np.log(3)

BY_HAND = {
    "lemma B.1, J a mean": [1 / 2, 1, 1],
    "lemma B.2, one policy": [1, 2, 1],
    "lemma B.3": [1, 0, 1],
    "theorem 4.2, sign": [-LOG2],
    "theorem 4.2, E[KL]": [0, 3 / 8 * LOG3 / 2],  # two draws from (3/4, 1/4) differ with chance 3/8
    "theorem 4.3": [0, 0, LOG3 / 2, LOG3 / 2],
    "theorem 4.4": [-1, 0, -2 * np.sqrt(2) * np.sqrt(LOG3 / 2), -2],
    "theorem 4.4, no noise": [2 / 3 - 2, 0, -4],
    "TV bound, attained": [-2, -2],
    "theorem 4.5": [-2, 0, 0, -8],
    "assumption 4.1": [0, 1 / 2, 1],
    "one code for all": [-1, 0, 0],
    "close codes": [-1, 1e-6, 0],
    "good and bad merged": [-2, 0, 0],
    "mean of left and right": [-2, 0, 1],
}


def test_every_counterexample_was_worked_by_hand():
    assert [name for name, _ in counterexamples.rows()] == list(BY_HAND)


@pytest.mark.parametrize(("name", "numbers"), list(counterexamples.rows()))
def test_a_counterexample_gives_the_numbers_worked_by_hand(name, numbers):
    assert list(numbers.values()) == pytest.approx(BY_HAND[name], abs=1e-8)


def test_with_one_state_the_printed_statements_hold():
    alone = [pair for pair in pairs() if len(pair.source.start) == 1]
    assert len(alone) > 20
    for source, target, policy, other, *_ in alone:
        rounding = 1e-8 * source.largest_reward / (1 - source.discount)
        gap = summed_return(source, policy) - summed_return(target, other)
        assert lemmas.extended_as_printed(source, target, policy, other) == pytest.approx(gap, abs=rounding)
        assert lemmas.action_as_printed(source, policy, other) == pytest.approx(gap, abs=rounding)
        fall = mean_return(source, policy) - mean_return(target, policy)
        assert lemmas.telescoping(source, target, policy) == pytest.approx(fall, abs=rounding)
        assert fall == pytest.approx(0, abs=rounding)  # no bound below 0 can fail
        both = info.channels(source, target, policy)
        assert info.information_difference(*both) == pytest.approx(0, abs=1e-12)
        assert info.dynamics_divergence(*both) == pytest.approx(0, abs=1e-12)


def test_with_one_action_the_action_lemma_and_the_offline_bound_in_total_variation_hold_as_printed():
    forced = [pair for pair in pairs() if pair.policy.shape[1] == 1]
    assert len(forced) > 50
    for source, target, policy, other, *_ in forced:
        assert lemmas.action_as_printed(source, policy, other) == pytest.approx(0, abs=1e-8 * source.largest_reward)
        bound = bounds.policies_apart_after_a_step(source, policy, other)
        bound += bounds.by_total_variation(source, target, other)
        lost = summed_return(source, policy) - summed_return(target, policy)
        assert lost <= bound + 1e-8 * source.largest_reward / (1 - source.discount)


def test_two_states_with_different_codes_cannot_hide_a_shift_from_an_exact_encoder():
    """So three states are the least for the mean of left and right."""
    for chance in np.linspace(0.01, 1, 30):
        source = counterexamples.domain(counterexamples.STAY, reward=[1, 0], start=[1, 0])
        target = counterexamples.moved_to(source, [[1 - chance, chance], [0, 1]])
        _, numbers = counterexamples.deviations("", [0, 1], source, target)
        assert numbers["D in source"] == pytest.approx(chance**2)
