"""What the deviation that PAR measures does bound, on random finite pairs with random encoders."""

import numpy as np

from . import encoders
from .encoders import Encoder, fitted
from .finite import Domain, summed_return
from .pairs import pairs

ROUNDING = 1e-8


def random_codes(rng: np.random.Generator, states: int) -> np.ndarray:
    return rng.normal(size=(states, int(rng.integers(1, 4))))


def test_deviations_on_source_and_on_target_rows_together_bound_the_loss_for_any_encoder():
    rng = np.random.default_rng(2)
    finite = 0
    for source, target, policy, *_ in pairs():
        code = random_codes(rng, len(source.start))
        if rng.random() < 0.2:
            code[-1] = code[0]
        exact = fitted(code, target)
        for encoder in (exact, Encoder(code, exact.prediction + rng.normal(size=exact.prediction.shape))):
            bound = encoders.by_distance(encoder, source, target, policy)
            lost = summed_return(source, policy) - summed_return(target, policy)
            assert lost <= bound + ROUNDING * source.largest_reward / (1 - source.discount)
            finite += bound < np.inf
    assert finite > len(pairs())


def test_the_penalised_source_return_is_below_the_target_return_when_the_target_is_certain_and_states_are_told_apart():
    rng = np.random.default_rng(3)
    checked = 0
    for source, target, policy, *_ in pairs():
        target = target._replace(transition=np.eye(len(source.start))[target.transition.argmax(-1)])
        encoder = fitted(random_codes(rng, len(source.start)), target)
        penalty = encoders.sufficient_penalty(encoder.code, source)
        if not 0 < penalty < 1e6 * source.largest_reward:
            continue  # a single state, or two codes so close that rounding decides
        checked += 1
        pessimistic = encoders.penalised_return(encoder, source, policy, penalty)
        scale = penalty * encoders.distances(encoder.code).max() ** 2 + source.largest_reward
        assert pessimistic <= summed_return(target, policy) + ROUNDING * scale / (1 - source.discount)
    assert checked > 0.5 * len(pairs())


def test_a_certain_target_has_no_deviation_on_its_own_rows_and_a_random_one_has():
    """So the deviation does not vanish between identical domains: it holds the target's own noise."""
    rng = np.random.default_rng(4)
    noise: dict[str, list[float]] = {"deterministic": [], "unrelated": []}
    for _, target, policy, _, shift, _ in pairs():
        if shift in noise and len(target.start) > 1:
            encoder = fitted(random_codes(rng, len(target.start)), target)
            noise[shift].append(encoders.mean_deviation(encoder, target, policy, target))
    assert max(noise["deterministic"]) < 1e-20
    assert min(noise["unrelated"]) > 1e-3


def test_the_deviation_on_target_rows_is_what_catches_a_mean_that_looks_like_a_state():
    """State 1 stays in the source; the target goes left or right of it, whose mean code is its own."""
    stays, leaves = np.eye(3)[:, None], np.eye(3)[:, None].copy()
    leaves[1, 0] = [0.5, 0, 0.5]
    source = Domain(stays, np.array([[-1.0], [1.0], [-1.0]]), np.array([0.0, 1.0, 0.0]), 0.5)
    target, only = source._replace(transition=leaves), np.ones((3, 1))
    encoder = fitted(np.array([[0.0], [1.0], [2.0]]), target)
    assert encoders.mean_distance(encoder, source, only, source) == 0
    lost = summed_return(source, only) - summed_return(target, only)
    assert 0 < lost <= encoders.by_distance(encoder, source, target, only)
