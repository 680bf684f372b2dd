"""Does a policy do in the source what the target cannot do? Joint angles of final policies in the unshifted body.

    python results/darc/avoided.py RUNS OUT.csv      # a folder of runs with their policies

Ten episodes of the mean action in the source. Of each joint whose range the target has changed: the share of steps that
end outside the target's range, by more than 0.05 rad (limits are soft), and the mean of how far.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

from offdyn.domains import tasks
from offdyn.report.runs import gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from final_policies import played

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


def main(folder: str, out: str) -> None:
    with Path(out).open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("task", "method", "seed", "joint", "share_outside", "mean_outside_rad"))
        for run in gather([Path(folder)]):
            task = tasks.resolve(run.task)
            joints = list(broken_joints(task))
            if not joints:
                continue
            observations = np.concatenate([rows.next_observation for _, rows in played(run, "source")])
            for name, place, (low, high) in joints:
                angle = observations[:, place]
                outside = np.maximum(0, np.maximum(low - angle, angle - high))
                row = (run.task, run.method, run.seed, name)
                table.writerow((*row, f"{(outside > SOFT).mean():.3f}", f"{outside.mean():.4f}"))
                print(*row, f"{(outside > SOFT).mean():.3f}", f"{outside.mean():.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
