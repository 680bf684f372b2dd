"""PAR: deduct from a source reward how far the row's next state is from what the target's dynamics would give.

Lyu et al. 2024, "Cross-Domain Policy Adaptation by Capturing Representation Mismatch", algorithm 1; equation 3 for the
encoders, equation 4 for the reward. Presets: docs/methods/par.md, and docs/methods/offline.md for a source of data.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from ..learning.networks import Inputs, Layout
from ..types import Array, Batch, Spec
from .method import Preset
from .parts import encoders
from .parts.encoders import Hyper, Networks, Pair

# beta by task: the paper's table, and the released code's README, the first-named where it names two.
PAPER_PENALTY = {
    "halfcheetah-broken-back-thigh": 1.0,
    "halfcheetah-no-thighs": 2.0,
    "hopper-broken-joints": 0.5,
    "hopper-big-head": 0.5,
    "walker-broken-right-foot": 0.5,
    "walker-no-right-thigh": 0.5,
    "ant-broken-hips": 0.1,
    "ant-short-feet": 0.1,
}
RELEASED_PENALTY = {
    "halfcheetah-broken-back-thigh": 5.0,
    "halfcheetah-no-thighs": 5.0,
    "hopper-broken-joints": 0.05,
    "hopper-big-head": 0.05,
    "walker-broken-right-foot": 0.1,
    "walker-no-right-thigh": 0.1,
    "ant-broken-hips": 0.01,
    "ant-short-feet": 0.01,
}
PENALTY_ELSEWHERE = 0.5


# Where the source is a dataset: one beta and one nu for all tasks.
PAPER_OFFLINE = {"cloning": True, "balance": 5.0, "penalty": 1.0}
RELEASED_OFFLINE = {"cloning": True, "balance": 2.5, "penalty": 1.0, "encoder_batch": 128, "slow_encoder": False}


def preset(table: dict[str, float], offline: Mapping[str, object], **fields: object) -> Preset:
    by_task = {task: {"penalty": penalty} for task, penalty in table.items()}
    return Preset(fields, by_task, otherwise={"penalty": PENALTY_ELSEWHERE}, offline=offline)


RELEASED = {"encoder_interval": 200, "encoder_batch": 64, "slow_encoder": True, "source_noise": 0.2}
PRESETS = {
    "paper": preset(PAPER_PENALTY, PAPER_OFFLINE),
    "released": preset(RELEASED_PENALTY, RELEASED_OFFLINE, **RELEASED),
    "printed": preset(PAPER_PENALTY, PAPER_OFFLINE, encoder_activation="relu", normalise_code=False),
}


def layouts(hyper: Hyper, spec: Spec) -> Pair:
    inputs = hyper.code_size + spec.action_size
    sizes = (inputs, *hyper.encoder_widths, hyper.code_size)
    return Pair(encoders.state_layout(hyper, spec), Layout(sizes, inputs, activation=hyper.encoder_activation))


def predict(networks: Networks, rows: Batch, hyper: Hyper, pair: Pair) -> tuple[Array, Array]:
    """g(f(s), a) and the code it should be, f(s'), which gets no gradient (equation 3)."""
    n = len(rows.observation)
    both = jnp.concatenate((rows.observation, rows.next_observation))  # f runs once over both
    now, actual = jnp.split(encoders.code(networks.f, both, hyper, pair, learning_rows=n), 2)
    predicted = pair.prediction.apply(networks.g, jnp.concatenate((now, rows.action), axis=-1))
    return predicted, jax.lax.stop_gradient(actual)


def prediction_inputs(hyper: Hyper, spec: Spec) -> Inputs | None:
    if spec.present is None:
        return None
    action = spec.present.action
    return Inputs(jnp.concatenate((jnp.ones(hyper.code_size), action)), hyper.code_size + action.sum())


PAR = encoders.mismatch_method(
    "par",
    "SAC on both domains, source rewards penalised by representation mismatch",
    PRESETS,
    layouts,
    predict,
    prediction_inputs,
)
