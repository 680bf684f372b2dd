"""DARC: add to a source reward how much likelier the row's next state is in the target than in the source.

Eysenbach et al. 2021, "Off-Dynamics Reinforcement Learning: Training for Transfer with Domain Classifiers", algorithm
1; Lyu et al. 2024, appendix "Implementation details", for the coefficients. Presets: docs/methods/darc.md.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from ..fields import lanewise
from ..types import Batch, Context
from .method import Method, Notes, Preset
from .parts import classifiers

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
    "rows": "source",
    "batch_size": 256,
    "classifier_batch": 256,
    "classifier_widths": (32,),
    "join_same_noise": False,
    "tune_temperature": True,
    "temperature": 1.0,
}
PRESETS = {
    "paper": Preset(
        by_task={task: {"penalty": penalty} for task, penalty in PAPER_PENALTY.items()},
        otherwise={"penalty": PENALTY_ELSEWHERE},
    ),
    "original": Preset({**ORIGINAL, "penalty": 1.0}),
}


@lanewise
@dataclass(frozen=True)
class Hyper(classifiers.Hyper):
    """The classifiers' choices and the correction's weight."""

    penalty: float = 1.0  # beta: weight of the log ratio in the source reward


def correct(source: Batch, ctx: Context) -> tuple[Batch, Notes]:
    """r <- r - penalty * gap, gap = log p_source(s'|s, a) - log p_target(s'|s, a); nothing before the warm-up ends."""
    gap = -classifiers.log_ratio(source, ctx)
    deducted = jnp.where(ctx.step >= ctx.hyper.warm_up, ctx.hyper.penalty * gap, 0.0)
    notes = {
        "reward penalty": deducted.mean(),
        "dynamics gap": gap.mean(),
        "source reward size": jnp.abs(source.reward).mean(),
    }
    return source._replace(reward=source.reward - deducted), notes


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
