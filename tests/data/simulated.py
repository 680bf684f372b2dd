"""Small datasets made with the real simulator, and D4RL-style files of them, sound or broken on purpose."""

from functools import cache
from pathlib import Path

import h5py
import numpy as np

from offdyn.data.datasets import COLUMNS, Dataset, join, made_here
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import resolve

BODIES = 3


@cache
def simulated(task_name: str, steps: int = 300, time_limit: int | None = None, halve_margins: bool = True) -> Dataset:
    """Random actions, one body after the other; the last episode of each is cut."""
    task = resolve(task_name)
    seeds = [(3, body) for body in range(BODIES)]
    simulator = Simulator([task] * BODIES, seeds, threads=1, time_limit=time_limit, halve_margins=halve_margins)
    draw = np.random.default_rng(1)
    action = np.zeros((BODIES, simulator.spec.action_size))
    made = []
    for _ in range(steps):
        action = 0.6 * action + 0.6 * draw.uniform(-1, 1, action.shape)
        made.append(simulator.step(np.arange(BODIES), action))
    simulator.close()
    parts = [Dataset(*(np.stack([getattr(rows, name)[b] for rows in made]) for name in COLUMNS)) for b in range(BODIES)]
    return join(parts, name=f"{task_name}-random", made={"policy": "random"}, seed=3, **made_here(task))


def with_columns(dataset: Dataset, **columns: np.ndarray) -> Dataset:
    """The dataset with some columns replaced."""
    return Dataset(**(dataset.arrays() | columns), card=dict(dataset.card))


def write_d4rl(path: Path, dataset: Dataset, *, without: tuple[str, ...] = (), **replaced: np.ndarray) -> Path:
    """The dataset as D4RL writes it: float64 would do as well, plural names, infos and metadata beside."""
    columns = {
        "observations": dataset.observation.astype(np.float64),
        "actions": dataset.action,
        "rewards": dataset.reward,
        "next_observations": dataset.next_observation,
        "terminals": dataset.terminated,
        "timeouts": dataset.truncated,
        "infos/qpos": np.zeros((len(dataset), 6)),
        "infos/action_log_probs": np.zeros(len(dataset)),
        "metadata/algorithm": np.bytes_("SAC"),
        "metadata/policy/fc0/weight": np.zeros((4, 4)),
    }
    columns |= replaced
    with h5py.File(path, "w") as file:
        for name, column in columns.items():
            if name not in without:
                file.create_dataset(name, data=column, compression="gzip" if np.ndim(column) else None)
    return path
