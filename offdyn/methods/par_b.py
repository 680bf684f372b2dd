"""PAR-B: the paper's alternative objective, in which g sees the state itself and f is trained through its target too.

Lyu et al. 2024, section 5.4 and appendix: minimise (g(s, a) - f(s'))^2 over f and g. A constant f with g equal to it is
a global minimum, at which every penalty is 0: watch "variance of the code". Everything else is as in PAR.
"""

import jax.numpy as jnp

from ..learning.networks import Layout
from ..learning.sac import pair_inputs
from ..types import Array, Batch, Spec
from .par import PRESETS
from .parts import encoders
from .parts.encoders import Hyper, Networks, Pair


def layouts(hyper: Hyper, spec: Spec) -> Pair:
    sizes = (spec.observation_size + spec.action_size, *hyper.encoder_widths, hyper.code_size)
    fan_in = spec.initial_fan_in + spec.action_size
    return Pair(encoders.state_layout(hyper, spec), Layout(sizes, fan_in, activation=hyper.encoder_activation))


def predict(networks: Networks, rows: Batch, hyper: Hyper, pair: Pair) -> tuple[Array, Array]:
    """g(s, a) and f(s'), both with gradient."""
    actual = encoders.code(networks.f, rows.next_observation, hyper, pair)
    return pair.prediction.apply(networks.g, jnp.concatenate((rows.observation, rows.action), axis=-1)), actual


PAR_B = encoders.mismatch_method(
    "par-b",
    "PAR with the paper's alternative encoder objective, which can collapse",
    PRESETS,
    layouts,
    predict,
    lambda hyper, spec: pair_inputs(spec),
)
