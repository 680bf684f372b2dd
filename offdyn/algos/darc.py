"""DARC: add to a source reward how much likelier the transition's next state is in the target than in the source.

DARC-weight: let the transition count by as much instead; it is the variant with importance weights of Eysenbach et al.

Eysenbach et al. 2021, "Off-Dynamics Reinforcement Learning: Training for Transfer with Domain Classifiers", algorithm
1; Lyu et al. 2024, appendix "Implementation details", for the coefficients. Presets: docs/methods/darc-vgdf.md.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from .._util.fields import lanewise, setting
from .._util.types import Array, Batch, Context
from .common import classifiers
from .method import Method, Metrics, Preset

PAPER_PENALTY = {
    "halfcheetah-broken-back-thigh": 2.0,
    "halfcheetah-no-thighs": 0.5,
    "hopper-broken-joints": 2.0,
    "hopper-big-head": 1.0,
    "walker-broken-right-foot": 1.0,
    "walker-no-right-thigh": 1.0,
    "ant-broken-hips": 1.0,
    "ant-short-feet": 0.1,
}
PENALTY_ELSEWHERE = 1.0
# What the first release of DARC does otherwise, as far as it is a choice here.
ORIGINAL = {
    "learns_from": "source",
    "batch_size": 256,
    "classifier_batch": 256,
    "classifier_widths": (32,),
    "join_same_noise": False,
    "tune_temperature": True,
    "temperature": 1.0,
}
WEIGHTED = {"penalty": 0.0, "weight_low": 1e-4, "weight_high": 1.0}
# The original clips nothing. A transition that weighs a million leaves nothing to others, and the loss stays finite.
UNCLIPPED = {"penalty": 0.0, "weight_low": 0.0, "weight_high": 1e6}
PENALTIES: dict[str, Any] = {
    "by_task": {task: {"penalty": penalty} for task, penalty in PAPER_PENALTY.items()},
    "otherwise": {"penalty": PENALTY_ELSEWHERE},
}
# What Google's code, ODRL and the paper's printed loss have; `paper` learns from the transitions of both domains.
SOURCE_ONLY = {"learns_from": "source"}
PRESETS = {
    "paper": Preset(**PENALTIES),
    "source-only": Preset(SOURCE_ONLY, **PENALTIES),
    "original": Preset({**ORIGINAL, "penalty": 1.0}),
}


@lanewise
@dataclass(frozen=True)
class Hyper(classifiers.Hyper):
    """The classifiers' choices and what their log ratio does to a source transition."""

    penalty: float = setting(1.0, least=0)  # beta: weight of the log ratio in the source reward
    weight_low: float = setting(1.0, least=0)  # the transition counts as much as the ratio says, between these two
    weight_high: float = setting(1.0, least=0)


def weights(log_ratio: Array, low: Array, high: Array) -> Array:
    """[n]: p_target(s'|s, a) / p_source(s'|s, a), clipped."""
    return jnp.clip(jnp.exp(log_ratio), low, high)


def effective_share(weight: Array) -> Array:
    """(sum w)^2 / (n sum w^2): 1 where all transitions count alike, 1/n where one is all that counts."""
    share = weight / jnp.maximum(weight.max(), 1e-30)  # which the ratio does not notice, and squares stay finite
    return jnp.square(share.mean()) / jnp.maximum(jnp.square(share).mean(), 1e-30)


def correct(source: Batch, ctx: Context) -> tuple[Batch, Metrics]:
    """r <- r - penalty * gap, gap = log p_source(s'|s, a) - log p_target(s'|s, a); weight <- exp(-gap), clipped.

    Nothing before the warm-up ends. DARC has all transitions count alike, DARC-weight no penalty.
    """
    hyper: Hyper = ctx.hyper
    log_ratio = classifiers.log_ratio(source, ctx)
    begun = ctx.step >= hyper.warm_up
    penalty = jnp.where(begun, -hyper.penalty * log_ratio, 0.0)
    weight = jnp.where(begun, weights(log_ratio, hyper.weight_low, hyper.weight_high), 1.0)
    metrics = {
        "reward penalty": penalty.mean(),
        "dynamics gap": -log_ratio.mean(),
        "source reward size": jnp.abs(source.reward).mean(),
        "mean weight of source transitions": weight.mean(),
        "effective sample size": effective_share(weight),
    }
    return source._replace(reward=source.reward - penalty, weight=weight), metrics


DARC = Method(
    "darc",
    "SAC on both domains, source rewards corrected by the log ratio of the dynamics",
    Hyper,
    compares_domains=True,
    pads=True,
    presets=PRESETS,
    init=classifiers.init,
    learn=classifiers.learn,
    correct=correct,
)
DARC_WEIGHT = replace(
    DARC,
    name="darc-weight",
    summary="SAC on both domains, source transitions weighted by the ratio of the dynamics",
    presets={
        "paper": Preset(WEIGHTED),
        "source-only": Preset({**WEIGHTED, **SOURCE_ONLY}),
        "original": Preset({**ORIGINAL, **UNCLIPPED}),
    },
    program=DARC.name,
)
