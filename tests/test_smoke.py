"""The shortest walk through the package that would notice a broken installation."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import offdyn  # noqa: F401  registers the environments

pytestmark = pytest.mark.smoke


def listed(*arguments: str) -> str:
    script = Path(sys.executable).with_name("offdyn")
    return subprocess.run([script, "list", *arguments], check=True, capture_output=True, text=True).stdout


def test_the_list_command_names_robots_tasks_and_methods() -> None:
    inventory = json.loads(listed("--json"))
    assert inventory.keys() >= {"robots", "tasks", "methods"}
    assert "hopper-big-head" in listed()


@pytest.mark.parametrize("robot", ["halfcheetah", "hopper", "walker", "ant"])
def test_a_source_and_its_gravity_shift_part_after_a_step(robot: str) -> None:
    landings = []
    for env in (
        gymnasium.make(f"offdyn/{robot}-v0"),
        gymnasium.make("offdyn/task-v0", task=f"{robot}-gravity-0.5"),
    ):
        env.reset(seed=0)
        landings.append(env.step(np.zeros(env.action_space.shape, np.float32))[0])
    assert not np.allclose(*landings)
