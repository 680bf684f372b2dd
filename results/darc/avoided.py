"""Does a policy do in the source what the target cannot do? Joint angles of final policies in the unshifted body.

    python results/darc/avoided.py RUNS      # a folder of runs with their policies; writes avoided.csv beside this

Ten episodes of the mean action in the source. Of each joint whose range the target has changed: the share of steps that
end outside the target's range, by more than 0.05 rad (limits are soft), and the mean of how far.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

from offdyn.domains import pairs, tasks
from offdyn.experiments.evaluate import Policy
from offdyn.report.runs import Run, gather

HERE = Path(__file__).parent
EPISODES, SOFT = 10, 0.05
LEFT_OUT = {"ant": 2}  # coordinates of the root that an observation does not hold; of the planar robots 1


def broken_joints(task: tasks.Task) -> Iterator[tuple[str, int, np.ndarray]]:
    """(name, place in an observation, range in the target), where the target's range is another than the source's."""
    source, target = tasks.source_of(task).model(), task.model()
    for joint in range(source.njnt):
        if target.jnt_limited[joint] and not np.array_equal(source.jnt_range[joint], target.jnt_range[joint]):
            name = mujoco.mj_id2name(source, mujoco.mjtObj.mjOBJ_JOINT, joint)
            place = source.jnt_qposadr[joint] - LEFT_OUT.get(task.robot.name, 1)
            yield name, int(place), target.jnt_range[joint]


def seen(run: Run, task: tasks.Task) -> np.ndarray:
    """[steps, observation], of all episodes."""
    policy = Policy(run.path / "policy.safetensors")
    domain = pairs.open_bodies([(task, "source")] * EPISODES, [(run.seed, 3, body) for body in range(EPISODES)], None)
    alive, observations = np.arange(EPISODES), []
    for _ in range(1000):
        rows = domain.step(alive, policy(domain.observation[alive]))
        observations.append(rows.next_observation)
        alive = alive[~(rows.terminated | rows.truncated)]
        if not len(alive):
            break
    domain.close()
    return np.concatenate(observations)


def main(folder: str) -> None:
    with (HERE / "avoided.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("task", "method", "seed", "joint", "share_outside", "mean_outside_rad"))
        for run in gather([Path(folder)]):
            task = tasks.resolve(run.task)
            joints = list(broken_joints(task))
            observations = seen(run, task) if joints else np.zeros((0, 0))
            for name, place, (low, high) in joints:
                angle = observations[:, place]
                outside = np.maximum(0, np.maximum(low - angle, angle - high))
                row = (run.task, run.method, run.seed, name)
                table.writerow((*row, f"{(outside > SOFT).mean():.3f}", f"{outside.mean():.4f}"))
                print(*row, f"{(outside > SOFT).mean():.3f}", f"{outside.mean():.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
