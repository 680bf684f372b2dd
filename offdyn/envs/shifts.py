"""The named shifts, each a short list of edits of a stock robot, and the families that take any number.

The eight targets of the paper follow the released model files; docs/tasks.md has every number.
"""

from collections.abc import Callable
from typing import NamedTuple

from .._util.errors import OffdynError
from .edits import EVERY, Edit, Factor, Offset, actuator, body, geom, gravity, joint
from .effects import Effects

__all__ = ["EVERY", "FAMILIES", "SHIFTS", "Edit", "Effects", "Factor", "Offset"]
__all__ += ["actuator", "body", "geom", "gravity", "joint"]

# What the paper lists; the released model files change more (see docs/tasks.md).
NO_THIGHS_AS_PRINTED = (
    geom("bthigh", ends=(0, 0, 0, -0.0001, 0, -0.0001)),
    body("bshin", position=(-0.0001, 0, -0.0001)),
    geom("fthigh", ends=(0, 0, 0, 0.0001, 0, 0.0001)),
    body("fshin", position=(0.0001, 0, 0.0001)),
)
NO_THIGHS = (
    *NO_THIGHS_AS_PRINTED,
    geom("bshin", ends=(0, 0, 0, -0.13, 0, -0.15)),
    body("bfoot", position=(-0.13, 0, -0.15)),
    geom("bfoot", size=(0.046, 0.07)),
    geom("fshin", ends=(0, 0, 0, 0.01, 0, -0.16)),
    body("ffoot", position=(0.01, 0, -0.16)),
)
BIG_HEAD_AS_PRINTED = (geom("torso_geom", size=0.125),)
BIG_HEAD = (*BIG_HEAD_AS_PRINTED, geom("thigh_geom", size=0.04))
# The paper gives walker's points in the world's frame; these are the same in the bodies' frames.
NO_RIGHT_THIGH = (
    geom("thigh_geom", ends=(0, 0, 0, 0, 0, -0.005)),
    joint("leg_joint", position=(0, 0, 0.695)),
    geom("leg_geom", ends=(0, 0, 0.695, 0, 0, -0.05)),
    joint("foot_joint", position=(-0.2, 0, 0.3)),
    geom("foot_geom", ends=(-0.2, 0, 0.3, 0, 0, 0.3)),
)
SHORT_FEET = (
    geom("left_ankle_geom", ends=(0, 0, 0, 0.1, 0.1, 0)),
    geom("right_ankle_geom", ends=(0, 0, 0, -0.1, 0.1, 0)),
)

# name, kind, edits, what a reader of the list should know
SHIFTS: list[tuple[str, str, tuple[Edit, ...], str]] = [
    ("halfcheetah-broken-back-thigh", "kinematic", (joint("bthigh", range=Factor(0.01)),),
     "back thigh joint keeps 1/100 of its range"),
    ("halfcheetah-no-thighs", "morphology", NO_THIGHS,
     "both thighs shrink to a point; shins and feet take the shape of the released model file"),
    ("halfcheetah-no-thighs-as-printed", "morphology", NO_THIGHS_AS_PRINTED,
     "both thighs shrink to a point; nothing else"),
    ("hopper-broken-joints", "kinematic",
     (joint("thigh_joint", range=Factor(0.001)), joint("foot_joint", range=Factor(0.4))),
     "thigh joint keeps 1/1000 of its range, foot joint 4/10"),
    ("hopper-big-head", "morphology", BIG_HEAD, "torso radius 0.05 to 0.125 m, thigh radius 0.05 to 0.04 m"),
    ("hopper-big-head-as-printed", "morphology", BIG_HEAD_AS_PRINTED, "torso radius 0.05 to 0.125 m"),
    ("walker-broken-right-foot", "kinematic", (joint("foot_joint", range=Factor(0.01)),),
     "right foot joint keeps 1/100 of its range"),
    ("walker-no-right-thigh", "morphology", NO_RIGHT_THIGH,
     "right thigh shrinks to 5 mm, right shin grows from 0.5 to 0.745 m, right foot hangs 0.2 m above the left"),
    ("ant-broken-hips", "kinematic", (joint("hip_1", range=Factor(0.01)), joint("hip_2", range=Factor(0.01))),
     "both front hips keep 1/100 of their range"),
    ("ant-short-feet", "morphology", SHORT_FEET, "both front feet keep 1/4 of their length"),
]  # fmt: skip


LEAST_FACTOR, MOST_FACTOR = 1e-6, 1e6


class Family(NamedTuple):
    """A shift of one number: `ROBOT-FAMILY-NUMBER` is its task."""

    what: str  # changes, with {} for the number
    shift: Callable[[float], Edit | Effects]
    example: str = "2.0"


def _times(make: Callable[[Factor], Edit]) -> Callable[[float], Edit]:
    """A multiple of what the robot has."""

    def edit(by: float) -> Edit:
        if not LEAST_FACTOR <= by <= MOST_FACTOR:
            raise OffdynError(f"the factor must be from {LEAST_FACTOR:g} to {MOST_FACTOR:g}")
        return make(Factor(by))

    return edit


FAMILIES: dict[str, Family] = {
    # Floor and robot alike: MuJoCo takes the larger friction of two touching geoms, so this scales every contact's.
    "friction": Family("friction of every contact times {}", _times(lambda by: geom(EVERY, friction=by))),
    "gravity": Family("gravity times {}", _times(gravity)),
    "mass": Family("mass and inertia of every body times {}", _times(lambda by: body(EVERY, mass=by))),
    "damping": Family("damping of every joint times {}", _times(lambda by: joint(EVERY, damping=by))),
    "armature": Family("armature of every joint times {}", _times(lambda by: joint(EVERY, armature=by))),
    "strength": Family("torque of every actuator times {}", _times(lambda by: actuator(EVERY, strength=by)), "0.7"),
    "mass-offset": Family("{} kg more mass in the torso", lambda by: body("torso", mass=Offset(by)), "1.5"),
    "centre-of-mass": Family(
        "the torso's centre of mass {} m further ahead", lambda by: body("torso", centre=Offset(by)), "0.05"
    ),
    "delay": Family("delay of every command, in steps: {}", lambda by: Effects(delay=by), "2"),  # type: ignore[arg-type]
    "latency": Family("age of every observation, in steps: {}", lambda by: Effects(latency=by), "1"),  # type: ignore[arg-type]
    "deadband": Family("commands below {} do nothing", lambda by: Effects(deadband=by), "0.1"),
    "backlash": Family("a gap of {} in every command, felt when it turns", lambda by: Effects(backlash=by), "0.05"),
    "torque-limit": Family("commands are cut at {}", lambda by: Effects(torque_limit=by), "0.6"),
    "noise": Family("noise of deviation {} on every observation", lambda by: Effects(noise=by), "0.01"),
}
