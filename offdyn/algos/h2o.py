"""H2O: DARC-weight with conservative critics on the source transitions.

Niu et al. 2022, "When to Trust Your Simulator", with the roles as Lyu et al. 2024 turn them round (appendix
"Implementation details"): the source is the dataset, the target is live. Presets: docs/methods/offline.md.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from .._util.fields import lanewise, setting
from .._util.types import Array, Batch, Context
from . import darc
from .common import classifiers, conservative
from .common.conservative import Conservatism
from .cql import diagnose
from .cql_sac import SOURCE_SHARE
from .method import Method, Preset
from .networks import Parameters

PRESETS = {"paper": Preset(), "printed": Preset({"conservatism": "expectation"})}


@lanewise
@dataclass(frozen=True)
class Hyper(Conservatism, darc.Hyper):
    """DARC-weight's choices and the conservative term's; `warm_up` concerns the weights alone."""

    penalty: float = setting(0.0, least=0)
    weight_low: float = setting(1e-4, least=0)
    classifier_noise: float = setting(0.1, least=0)  # the official code's, which the paper kept
    classifier_batch: int = setting(256, most=10**6)
    classifier_bound: float | None = setting(2.0, above=0)  # the official code's: no weight is below exp(-4)
    weigh_conservatism: bool = False  # a transition's weight multiplies its conservative term too


def critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    if not ctx.hyper.weigh_conservatism:
        source = source._replace(weight=jnp.ones_like(source.weight))
    return conservative.add(loss, critic, source, SOURCE_SHARE, ctx)


H2O = Method(
    "h2o",
    "darc-weight with conservative critics on the source transitions",
    Hyper,
    compares_domains=True,
    presets=PRESETS,
    init=classifiers.init,
    learn=classifiers.learn,
    correct=darc.correct,
    critic_loss=critic_loss,
    diagnose=diagnose,
)
