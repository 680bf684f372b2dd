"""P(z), P(z | s') and P(s' | z) when z stands for the pair (s, a), and the quantities of theorems 4.2 and 4.3."""

from typing import NamedTuple

import numpy as np

from .finite import Array, Domain, divergence, entropy, occupancy


class Channel(NamedTuple):
    """One domain seen as a channel from codes to next states."""

    weight: Array  # P(z) [code]
    forward: Array  # P(s' | z) [code, next state]

    @property
    def joint(self) -> Array:
        return self.weight[:, None] * self.forward

    @property
    def after(self) -> Array:  # P(s')
        return self.joint.sum(0)

    @property
    def backward(self) -> Array:
        """P(z | s') [next state, code]; P(z) at next states that never come."""
        seen = self.after > 0
        return np.where(seen[:, None], self.joint.T / np.where(seen, self.after, 1.0)[:, None], self.weight)


def channels(source: Domain, target: Domain, policy: Array) -> tuple[Channel, Channel]:
    """Both domains fed with the same codes, those of the pairs that the policy visits in the source."""
    weight = occupancy(source, policy).ravel()
    before, after = (domain.transition.reshape(len(weight), -1) for domain in (source, target))
    return Channel(weight, before), Channel(weight, after)


def merged(channel: Channel, code_of_pair: Array) -> Channel:
    """The same domain under an encoder that gives several pairs one code: P(s' | code) averages over them."""
    joint = np.zeros((code_of_pair.max() + 1, channel.forward.shape[1]))
    np.add.at(joint, code_of_pair, channel.joint)
    weight = joint.sum(1)
    seen = weight > 0
    return Channel(weight, np.where(seen[:, None], joint / np.where(seen, weight, 1.0)[:, None], channel.after))


def information(channel: Channel) -> float:
    """I(z; s') in nats."""
    return weighted(channel.weight, divergence(channel.forward, channel.after))


def information_difference(source: Channel, target: Channel) -> float:
    """h of theorem 4.2: I(z; s'_tar) - I(z; s'_src)."""
    return information(target) - information(source)


def log_ratio_of_posteriors(source: Channel, target: Channel) -> float:
    """E log P(z | s'_tar) / P(z | s'_src): the triple integral of the proof of theorem 4.2, which it calls a KL."""
    return expected_log(target.joint.T, target.backward) - expected_log(source.joint.T, source.backward)


def log_ratio_of_dynamics(source: Channel, target: Channel) -> float:
    """E log P(s'_tar | z) / P(s'_src | z): the triple integral of the proof of theorem 4.3."""
    return expected_log(target.joint, target.forward) - expected_log(source.joint, source.forward)


def expected_log(weight: Array, probability: Array) -> float:
    return float((weight * np.log(np.where(weight > 0, probability, 1.0))).sum())


def averaged_posterior_divergence(first: Channel, second: Channel) -> float:
    """E KL( P(z | s'_1) || P(z | s'_2) ) over next states drawn apart for one z: the proof says it is the same."""
    together = np.einsum("z,zx,zy->xy", first.weight, first.forward, second.forward)
    each = divergence(first.backward[:, None], second.backward[None])
    return float(np.where(together > 0, together * np.where(together > 0, each, 0.0), 0.0).sum())


def posterior_divergence(first: Channel, second: Channel) -> float:
    """The conditional KL( P_1(z | s') || P_2(z | s') ), the same s' on both sides, averaged over P_1(s')."""
    return weighted(first.after, divergence(first.backward, second.backward))


def dynamics_divergence(first: Channel, second: Channel) -> float:
    """The conditional KL( P_1(s' | z) || P_2(s' | z) ), averaged over P(z)."""
    return weighted(first.weight, divergence(first.forward, second.forward))


def outcome_divergence(first: Channel, second: Channel) -> float:
    """KL( P_1(s') || P_2(s') )."""
    return float(divergence(first.after, second.after))


def entropy_difference(first: Channel, second: Channel) -> float:
    return float(entropy(first.after) - entropy(second.after))


def weighted(weight: Array, amount: Array) -> float:
    """A mean in which what has no weight may be infinite."""
    return float(np.where(weight > 0, weight * np.where(weight > 0, amount, 0.0), 0.0).sum())
