"""Whether a run's settings can be what they are: their types, their ranges, and what excludes what."""

import dataclasses
import math
import types
import typing
from typing import TYPE_CHECKING, Any

from .._util.errors import OffdynError, shown
from .._util.fields import expected
from ..algos.sac import actor_network, critic_network
from ..envs.pairs import OwnPair, Task

if TYPE_CHECKING:
    from .config import RunConfig

LONGEST = 2**31 - 1  # source steps or updates: both are counted in 32 bits


def coerce(name: str, kind: Any, value: Any) -> Any:
    """`value` (text from a command line, or what YAML gave) as the setting's type."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if types.NoneType in options and (value is None or value in ("none", "None", "")):
        return None
    want = next(option for option in options if option is not types.NoneType)
    try:
        if want is bool:
            return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
        if want is int:
            number = float(value)
            if isinstance(value, bool) or number != int(number):
                raise ValueError
            return int(number)
        if want is float:
            if isinstance(value, bool):
                raise ValueError
            if not math.isfinite(float(value)):
                raise ValueError
            return float(value)
        if want is str:
            return str(value)
        parts = value.replace("x", ",").split(",") if isinstance(value, str) else value
        parts = [parts] if isinstance(parts, int) else parts
        return tuple(coerce(name, int, part) for part in parts if part != "")
    except (ValueError, TypeError, KeyError, OverflowError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        needed = words.get(want, "whole numbers such as 256,256")
        raise OffdynError(f"setting {name}: expected {needed}, got {shown(value)}") from None


def check(config: "RunConfig") -> None:
    """Refuse what cannot run, in words."""
    plan, sac, values = config.schedule, config.sac, config.settings()

    def need(ok: bool, name: str, wanted: str) -> None:
        if not ok:
            raise OffdynError(f"setting {name}: expected {wanted}, got {shown(values[name])}")

    for part in (plan, sac, config.hyper):
        for field in dataclasses.fields(part):
            need((said := expected(field, values[field.name])) is None, field.name, said or "")
    need(sac.temperature > 0 or not sac.tune_temperature, "temperature", "more than 0 where it is tuned")
    need(sac.log_std_low < sac.log_std_high, "log_std_low", "less than log_std_high")
    for shuffled, averaged in (("deviation_shuffled", "deviation_averaged"), ("weight_shuffled", "weight_averaged")):
        need(values.get(shuffled, 0) + values.get(averaged, 0) <= 1, averaged, f"at most 1 together with {shuffled}")
    need(
        sac.domain_input == "none" or plan.learns_from == "both",
        "domain_input",
        "none, where one domain alone is learned from",
    )
    split = not sac.temperature_per_domain or (sac.tune_temperature and plan.learns_from == "both")
    need(split, "temperature_per_domain", "false, unless it is tuned on both domains")
    need(sac.critics >= (sac.backup_critics or 1), "backup_critics", f"at most critics ({sac.critics}), or none")
    need(
        not sac.critic_layer_norm or sac.backbone == "classic", "critic_layer_norm", "false: it is an option of classic"
    )
    if plan.padded:
        need(isinstance(config.task, Task), "padded", "false: only robots are padded")
        need(config.recipe.method.pads, "padded", f"false: {config.method} needs each robot's own size")
    actor_network(sac, config.spec), critic_network(sac, config.spec)  # which say what widths they cannot have
    gap = plan.source_dynamics == "stock" or (plan.collects == "source" and isinstance(config.task, Task))
    need(gap, "source_dynamics", "stock: only a run of a robot in its source alone (sac-src) can have it shifted")
    recorded = plan.target_log is None or isinstance(config.task, OwnPair)
    need(recorded, "target_log", "none: it records a custom --target; --keep-replay keeps the transitions of a task")
    offline = plan.source_data is not None
    if plan.padded:
        plain = not offline and not values.get("cloning", False)
        need(plain, "padded", "false: with a dataset each robot has a program of its own")
    if isinstance(config.task, OwnPair) and plan.collects in ("both", "source"):
        config.task.reference("source")  # without one, it says so
    if offline:
        need(plan.collects in ("target", "none"), "collects", "target or none: the source is a dataset")
        used = plan.learns_from != "target" or "learns_from" in config.recipe.fixed
        need(used, "learns_from", "both or source: the dataset's, too")
    has = {"source": plan.collects in ("both", "source") or offline, "target": plan.acts_in_target}
    fed = all(has.values()) if plan.learns_from == "both" else has[plan.learns_from]
    need(fed, "learns_from", f"what the run collects (it collects {plan.collects})")
    if config.recipe.method.compares_domains:
        need(all(has.values()), "collects", f"both: {config.method} compares the two domains")
    if plan.collects == "both":
        bodies = plan.source_env_count
        each = plan.source_steps_per_target_step
        fits = each % bodies == 0 or bodies > each
        need(fits, "source_envs", f"a divisor of {each} (source_steps_per_target_step), or more than that")
    else:
        each = plan.source_steps_per_target_step
        fair = plan.shares_updates or each % plan.tick == 0
        need(fair, "source_envs", f"a divisor of {each} (source_steps_per_target_step)")
    for name in ("eval_interval", "log_interval", "checkpoint_interval"):
        nearest = max(plan.tick, round(values[name] / plan.tick) * plan.tick)
        need(values[name] % plan.tick == 0, name, f"a multiple of {plan.tick} (one tick), say {nearest}")
    long = max(plan.source_steps, plan.target_steps * plan.updates_each)
    need(long <= LONGEST, "target_steps", f"at most {LONGEST} source steps and updates in all, with {long}")
    shares = plan.source_steps % plan.tick == 0
    need(shares, "target_steps", f"whole ticks of {plan.tick} source steps, got {plan.source_steps} of them;")
    budget = plan.source_steps if plan.collects == "source" else plan.target_budget
    enough = plan.collects == "none" or plan.learning_starts < budget
    need(enough, "learning_starts", f"less than the {budget} transitions the run can collect")
    need(plan.replay_size >= plan.learning_starts, "replay_size", f"at least learning_starts ({plan.learning_starts})")
    if plan.source_env_count:
        need(plan.replay_size % plan.source_env_count == 0, "replay_size", f"a multiple of {plan.source_env_count}")
