"""DARC-weight: let a source row count as much as the target's dynamics would produce it.

Lyu et al. 2024, appendix "Implementation details"; the variant with importance weights of Eysenbach et al. 2021.
Presets: docs/methods/darc.md.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from ..fields import lanewise
from ..types import Array, Batch, Context
from .darc import ORIGINAL
from .method import Method, Notes, Preset
from .parts import classifiers

# The original clips nothing. A row that weighs a million leaves the others none anyway, and the loss stays finite.
UNCLIPPED = {"weight_low": 0.0, "weight_high": 1e6}
PRESETS = {"paper": Preset(), "original": Preset({**ORIGINAL, **UNCLIPPED})}


@lanewise
@dataclass(frozen=True)
class Hyper(classifiers.Hyper):
    """The classifiers' choices and the range of the weights."""

    weight_low: float = 1e-4
    weight_high: float = 1.0


def weights(log_ratio: Array, low: Array, high: Array) -> Array:
    """[n]: p_target(s'|s, a) / p_source(s'|s, a), clipped."""
    return jnp.clip(jnp.exp(log_ratio), low, high)


def effective_share(weight: Array) -> Array:
    """(sum w)^2 / (n sum w^2): 1 where all rows count alike, 1/n where one row is all that counts."""
    share = weight / jnp.maximum(weight.max(), 1e-30)  # which the ratio does not notice, and squares stay finite
    return jnp.square(share.mean()) / jnp.maximum(jnp.square(share).mean(), 1e-30)


def correct(source: Batch, ctx: Context) -> tuple[Batch, Notes]:
    """Weight each source row by the ratio of the dynamics; all alike before the warm-up ends."""
    hyper: Hyper = ctx.hyper
    log_ratio = classifiers.log_ratio(source, ctx)
    clipped = weights(log_ratio, hyper.weight_low, hyper.weight_high)
    weight = jnp.where(ctx.step >= hyper.warm_up, clipped, 1.0)
    notes = {
        "mean weight of source rows": weight.mean(),
        "effective sample size": effective_share(weight),
        "dynamics gap": -log_ratio.mean(),
    }
    return source._replace(weight=weight), notes


DARC_WEIGHT = Method(
    "darc-weight",
    "SAC on both domains, source rows weighted by the ratio of the dynamics",
    Hyper,
    compares_domains=True,
    pads=True,
    presets=PRESETS,
    init=classifiers.init,
    learn=classifiers.learn,
    correct=correct,
)
