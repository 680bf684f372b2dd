"""CQL+SAC: source rows train the critics with CQL's loss, target rows with SAC's.

Lyu et al. 2024, appendix "Implementation details". Presets: docs/methods/offline.md.
"""

from dataclasses import dataclass

import jax

from ..fields import lanewise
from ..learning.networks import Parameters
from ..types import Array, Batch, Context
from .cql import diagnose
from .method import Method, Preset
from .parts import conservative
from .parts.conservative import Conservatism

PRESETS = {
    "paper": Preset(),
    "released": Preset({"warm_up": 0}),
    "printed": Preset({"conservatism": "expectation"}),
}
SOURCE_SHARE = 0.5  # of the rows of an update


@lanewise
@dataclass(frozen=True)
class Hyper(Conservatism):
    """The conservative term's choices."""

    warm_up: int = 100_000  # updates before the conservative term


def critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    total: Array = jax.lax.cond(
        ctx.step < ctx.hyper.warm_up,
        lambda loss, critic: loss,
        lambda loss, critic: conservative.add(loss, critic, source, SOURCE_SHARE, ctx),
        loss,
        critic,
    )
    return total


CQL_SAC = Method(
    "cql+sac",
    "SAC on both domains, with conservative critics on the source rows",
    Hyper,
    presets=PRESETS,
    critic_loss=critic_loss,
    diagnose=diagnose,
)
