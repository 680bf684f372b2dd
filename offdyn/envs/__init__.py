"""What the agent acts in: four robots, their shifts, and any other pair of domains."""

from .opengl import import_mujoco_safely

import_mujoco_safely()


def register() -> None:
    """Make every named task known to `gymnasium.make` as `offdyn/NAME-v0`; nothing is built before it is asked for."""
    import gymnasium

    from .robots import TIME_LIMIT
    from .tasks import TASKS

    entry_point = f"{__name__}.gym:RobotEnv"
    for name in TASKS:
        kwargs = {"task": name}
        gymnasium.register(f"offdyn/{name}-v0", entry_point, kwargs=kwargs, max_episode_steps=TIME_LIMIT)
    # For a family or a shift of yours: gymnasium.make("offdyn/task-v0", task="hopper-gravity-0.5").
    gymnasium.register("offdyn/task-v0", entry_point, max_episode_steps=TIME_LIMIT)
