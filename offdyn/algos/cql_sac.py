"""CQL+SAC: source transitions train the critics with CQL's loss, target transitions with SAC's.

Lyu et al. 2024, appendix "Implementation details". Presets: docs/methods/offline.md.
"""

from dataclasses import dataclass

from .._util.fields import lanewise
from .._util.types import Array, Batch, Context
from .common import conservative
from .common.conservative import Conservatism
from .cql import diagnose
from .method import Method, Preset
from .networks import Parameters

PRESETS = {"paper": Preset(), "printed": Preset({"conservatism": "expectation"})}
SOURCE_SHARE = 0.5  # of the transitions of an update


@lanewise
@dataclass(frozen=True)
class Hyper(Conservatism):
    """The conservative term's choices."""


def critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    return conservative.add(loss, critic, source, SOURCE_SHARE, ctx)


CQL_SAC = Method(
    "cql+sac",
    "SAC on both domains, with conservative critics on the source transitions",
    Hyper,
    presets=PRESETS,
    critic_loss=critic_loss,
    diagnose=diagnose,
)
