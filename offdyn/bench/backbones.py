"""Milliseconds per update of SAC on a backbone at some widths, and the hours that they make of a run."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..algos.backbones import backbone
from ..algos.sac import Sac
from ..training.config import build
from .update_loop import TASKS, UpdateLoop

WIDTHS = (64, 128, 256)  # of the critics; the actor's are in proportion
TARGET_STEPS = 100_000  # of a run
METHOD, ROBOT = "sac", "halfcheetah"


def settings_of(name: str, width: int) -> dict[str, Any]:
    """A backbone at another width."""
    own = {"actor_widths": Sac.actor_widths, "critic_widths": Sac.critic_widths, **backbone(name).settings}
    usual = own["critic_widths"][0]
    scaled = {key: tuple(max(1, w * width // usual) for w in own[key]) for key in ("actor_widths", "critic_widths")}
    return {"backbone": name, **scaled}


def measure(name: str, lanes: Sequence[int], repeats: int) -> Iterator[dict[str, Any]]:
    """For each width and number of lanes, the fastest of some turns."""
    for width in WIDTHS:
        settings = settings_of(name, width)
        plan = build(TASKS[ROBOT], METHOD, settings=settings)[0].schedule
        for count in lanes:
            # Nothing holds on to it: its replays go before the next ones are made.
            seconds = UpdateLoop(
                count, method=METHOD, robot=ROBOT, updates=plan.updates_per_tick, settings=settings
            ).seconds_per_update(repeats)
            yield {
                "backbone": name,
                "robot": ROBOT,
                "width": width,
                "lanes": count,
                "milliseconds": 1e3 * seconds,
                "updates_per_target_step": plan.updates_each,
                "hours": seconds * plan.updates_each * TARGET_STEPS / 3600,
            }
