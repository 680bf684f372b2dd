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
from offdyn.experiments.evaluate import EVALUATION, Policy, steps
from offdyn.report.runs import Run, gather

HERE = Path(__file__).parent
EPISODES, INDEX = 10, 1000  # an evaluation number that training never reaches
SOFT = 0.05  # rad
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
    policies = Policy(run.path / "policy.safetensors").policies
    starts = [(run.seed, EVALUATION, INDEX, episode) for episode in range(EPISODES)]
    domain = pairs.open_bodies([(task, "source")] * EPISODES, starts, None)
    observations = [rows.next_observation for _, rows in steps(domain, policies, 1, EPISODES)]
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
