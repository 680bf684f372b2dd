"""Backbones: the networks, optimiser and rhythm that SAC stands on, whatever the method.

A backbone is a record. What it sets are defaults: a preset's value wins over them, a user's over both. To add one, add
a record here, and a function for its networks where `mlp` and `residual` do not do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._util.errors import OffdynError, unknown
from .networks import Network, mlp

Build = Callable[[tuple[int, ...], int], Network]  # (input, hidden ..., output), inputs that are not constant


@dataclass(frozen=True)
class Backbone:
    """Networks of actor and critics, and the settings that go with them."""

    name: str
    summary: str
    actor: Build
    critic: Build
    # Fields of Sac and Schedule, where they differ from those classes' own defaults, which are `classic`.
    settings: Mapping[str, Any] = field(default_factory=dict)


def residual(sizes: tuple[int, ...], initial_fan_in: int) -> Network:
    """SimBa's network (Lee et al. 2025, section 4): one pre-norm block per hidden size, four times as wide inside.

    x <- W0 input;  x <- x + W2 relu(W1 norm(x)) per block;  W norm(x)
    Their first and last weights are orthogonal, ours normal of the same variance.
    """
    inputs, *widths, outputs = sizes
    if len(set(widths)) != 1:
        raise OffdynError(f"blocks of a residual network are equally wide, got {', '.join(map(str, widths))}")
    width, blocks = widths[0], len(widths)
    steps = ("linear", *("keep", "norm", "linear", "relu", "linear", "add") * blocks, "norm", "linear")
    inner = ((width, 4 * width), (4 * width, width)) * blocks
    return Network(steps, ((inputs, width), *inner, (width, outputs)), initial_fan_in, initial="he")


def normed(sizes: tuple[int, ...], initial_fan_in: int) -> Network:
    """RLPD's critics (Ball et al. 2023): LayerNorm between each hidden layer and its activation."""
    return mlp(sizes, initial_fan_in, norm="before")


CLASSIC = Backbone("classic", "two layers of 256, temperature 0.2: SAC as the paper has it", mlp, mlp)

SIMBA = Backbone(
    "simba",
    "residual networks with normalised observations and a tuned temperature (SimBa), 256 wide",
    residual,
    residual,
    {
        # SimBa, table of hyperparameters; half its width, at which our first measurements were made.
        "critic_widths": (256, 256),
        "actor_widths": (128,),
        "critic_layer_norm": False,
        "actor_learning_rate": 1e-4,
        "critic_learning_rate": 1e-4,
        "temperature_learning_rate": 1e-4,
        "weight_decay": 1e-2,
        "temperature": 0.01,
        "tune_temperature": True,
        "entropy_per_action": -0.5,
        "normalise_observations": True,
        # Ours: as many of each as fit into one update's worth of a target step on a GPU shared by 40 runs.
        "source_steps_per_target_step": 5,
        "updates_per_target_step": 5,
        "random_steps": 500,
        "learning_starts": 500,
    },
)

ENSEMBLE = Backbone(
    "ensemble",
    "ten critics with LayerNorm, two random ones in the backup (REDQ, RLPD)",
    mlp,
    normed,
    {
        # RLPD's: ten critics, two in the backup, the actor on their mean once per 20 critic steps (as REDQ).
        "critics": 10,
        "critic_layer_norm": False,
        "backup_critics": 2,
        "actor_value": "mean",
        "updates_per_target_step": 20,
        "actor_interval": 20,
        # RLPD begins at 1 and tunes it, with minus half the actions as the wanted entropy.
        "temperature": 1.0,
        "tune_temperature": True,
        "entropy_per_action": -0.5,
        # Ours: RLPD has 5,000 of each, which here would be a twentieth of the target steps.
        "random_steps": 500,
        "learning_starts": 500,
    },
)

BACKBONES: dict[str, Backbone] = {backbone.name: backbone for backbone in (CLASSIC, SIMBA, ENSEMBLE)}


def backbone(name: str) -> Backbone:
    """The backbone of this name, or an error with the nearest ones."""
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    return BACKBONES[name]
