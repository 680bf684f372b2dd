"""CQL: SAC whose critics give the source transitions' own actions more than any others.

Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning", equation 4. On a dataset alone it is
the paper's CQL-0. Presets: docs/methods/offline.md.
"""

from dataclasses import dataclass

from .._util.fields import lanewise
from .._util.types import Array, Batch, Context
from ..data.replay import Replay
from .common import conservative
from .common.conservative import Conservatism
from .method import Method, Metrics, Preset
from .networks import Parameters

# What the public implementation that the paper names does otherwise, as far as it is a choice here.
RELEASED = {
    "actor_widths": (256, 256, 256),
    "critic_widths": (256, 256, 256),
    "actor_learning_rate": 3e-5,
    "temperature_learning_rate": 3e-5,
    "temperature": 1.0,
    "tune_temperature": True,
    "entropy_in_backup": False,
    "normalise_observations": True,
}
PRESETS = {"paper": Preset(), "released": Preset(RELEASED)}
SOURCE_SHARE = 1.0  # of the transitions: written for source transitions alone


@lanewise
@dataclass(frozen=True)
class Hyper(Conservatism):
    """The conservative term's choices."""


def critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    return conservative.add(loss, critic, source, SOURCE_SHARE, ctx)


def diagnose(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    return conservative.diagnose(source, ctx)


CQL = Method(
    "cql",
    "SAC with conservative critics on the source transitions",
    Hyper,
    presets=PRESETS,
    critic_loss=critic_loss,
    diagnose=diagnose,
)
