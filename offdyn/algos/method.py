"""What a method is: how it differs from SAC, as a record of functions that do nothing by default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from .._util.fields import lanewise
from .._util.types import Array, Batch, Context, Spec
from ..data.replay import Replay
from .networks import Parameters

Metrics = dict[str, Array]  # what a hook wants logged, by name; each a scalar


@lanewise
@dataclass(frozen=True)
class NoHyper:
    """No settings of its own."""


@dataclass(frozen=True)
class Preset:
    """A set of choices under one name: fields for every task, and fields for some tasks."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Fields a task outside `by_task` gets, with a printed notice.
    otherwise: Mapping[str, Any] = field(default_factory=dict)
    # Fields that every task gets where the source is a dataset, in place of those by task.
    offline: Mapping[str, Any] = field(default_factory=dict)
    # Fields that some tasks get there; they win over those.
    offline_by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _init(key: jax.Array, hyper: Any, spec: Spec, sac: Any = None) -> Any:
    return ()


def _learn(source: Replay, target: Replay, ctx: Context) -> tuple[Any, Metrics]:
    return ctx.learned, {}


def _correct(source: Batch, ctx: Context) -> tuple[Batch, Metrics]:
    return source, {}


def _critic_loss(loss: Array, critic: Parameters, source: Batch, ctx: Context) -> Array:
    return loss


def _actor_loss(loss: Array, actor: Parameters, policy: Any, source: Batch, ctx: Context) -> Array:
    return loss


def _diagnose(source: Replay, target: Replay, newest: Batch, held_out: Batch, ctx: Context) -> Metrics:
    return {}


@dataclass(frozen=True)
class Method:
    """How a method differs from SAC. Each function takes the thing to change first and returns its replacement."""

    name: str
    summary: str
    hyper: type = NoHyper
    compares_domains: bool = False  # a run must then collect both
    pads: bool = False  # right also where `Spec.present` says that some entries only fill up
    presets: Mapping[str, Preset] = field(default_factory=lambda: {"paper": Preset()})  # the first is the default
    program: str = ""  # the method whose Hyper and functions these are, where runs of both may share a program
    # Further members, each an agent of its own, by what it learns from: target or both. The best one is deployed.
    others: tuple[str, ...] = ()
    # The method's own networks: (random key, its hyperparameters, sizes, SAC's fields).
    init: Callable[[jax.Array, Any, Spec, Any], Any] = _init
    # Train them, given both replays.
    learn: Callable[[Replay, Replay, Context], tuple[Any, Metrics]] = _learn
    # Edit the source transitions of one update: what came of a state and an action, and the weight; these two stay.
    correct: Callable[[Batch, Context], tuple[Batch, Metrics]] = _correct
    # Rewrite a loss: (loss, critics, source batch, ctx) and (loss, actor, policy terms, source batch, ctx).
    critic_loss: Callable[[Array, Parameters, Batch, Context], Array] = _critic_loss
    actor_loss: Callable[[Array, Parameters, Any, Batch, Context], Array] = _actor_loss
    # Who acts in the source: (observation [n, S], ctx) -> actions; None: the actor's sample.
    explore: Callable[[Array, Context], Array] | None = None
    # What is too dear to compute at every update: (source, target, newest of target, held out of target, ctx).
    diagnose: Callable[[Replay, Replay, Batch, Batch, Context], Metrics] = _diagnose
