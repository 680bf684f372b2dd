"""A row taken again from its observation alone."""

import numpy as np
import pytest

from offdyn.data.datasets.physics import follow, whole_state_seen
from offdyn.envs import pairs, tasks


@pytest.mark.parametrize("robot", ["ant", "halfcheetah", "hopper", "walker"])
def test_a_row_taken_again_from_its_observation_ends_where_it_ended(robot: str) -> None:
    source = tasks.TASKS[robot]
    domain = pairs.open_bodies([(source, "target")] * 4, [(0, 0, body) for body in range(4)], None)
    rng, rows = np.random.default_rng(0), []
    for _ in range(30):
        rows.append(domain.step(np.arange(4), rng.uniform(-1, 1, (4, source.robot.spec.action_size))))
    domain.close()
    names = ("observation", "action", "next_observation", "reward")
    seen, action, after, reward = (np.concatenate([getattr(some, name) for some in rows]) for name in names)
    known = whole_state_seen(source.robot, seen)
    assert known.sum() > 20
    again = follow(source, seen[known], action[known])
    np.testing.assert_allclose(again.next_observation, after[known], atol=1e-4)
    if not source.robot.measured_at_torso:  # the ant's way begins where its torso was one MuJoCo step before
        np.testing.assert_allclose(again.reward, reward[known], atol=1e-4)
    shifted = next(task for name, task in tasks.TASKS.items() if name.startswith(f"{robot}-"))
    assert np.abs(follow(shifted, seen[known], action[known]).next_observation - after[known]).max() > 0.01
