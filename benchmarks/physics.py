"""How fast the simulator steps each robot, next to what one core could do if it did nothing but physics.

The limit replays states and actions recorded from the same bodies under the same random policy, many MuJoCo steps
chained in one call. The simulator's figure is for whole environment steps: observations, rewards, ends and resets
included. All variants take turns within one run and each counts with its best turn, since machines are seldom quiet.

    python benchmarks/physics.py [--robots hopper ant] [--out results/physics.json]
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch

from offdyn.domains.simulator import Simulator
from offdyn.domains.tasks import resolve

TARGETS = {
    "halfcheetah": "halfcheetah-no-thighs",
    "hopper": "hopper-big-head",
    "walker": "walker-no-right-thigh",
    "ant": "ant-short-feet",
}
EXPECTED = {1: {"hopper": 0.80}, 2: {}}  # of the limit, where another than the usual
USUALLY_EXPECTED = {1: 0.85, 2: 1.4}
SEGMENT = 10  # environment steps replayed without leaving MuJoCo
WARM_UP = 50  # environment steps, until the bodies no longer move in step


def simulator_of(robot: str, bodies: int, threads: int) -> Simulator:
    """Half source bodies, half target bodies, warmed up."""
    tasks = [resolve(robot)] * (bodies - bodies // 2) + [resolve(TARGETS[robot])] * (bodies // 2)
    simulator = Simulator(tasks, [(0, body) for body in range(bodies)], threads=threads)
    walk(simulator, WARM_UP, np.random.default_rng(1))
    return simulator


def walk(simulator: Simulator, steps: int, rng: np.random.Generator) -> None:
    every = np.arange(len(simulator.tasks))
    for actions in rng.uniform(-1, 1, (steps, len(every), simulator.spec.action_size)):
        simulator.step(every, actions)


def recorded(simulator: Simulator, segments: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bodies [n], their states [n, ...] and the next actions [n, SEGMENT, A], of segments in which no episode ends."""
    every, rng = np.arange(len(simulator.tasks)), np.random.default_rng(2)
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    while len(found) < segments:
        state = simulator.save()["state"]
        actions = rng.uniform(-1, 1, (SEGMENT, len(every), simulator.spec.action_size))
        whole = np.ones(len(every), bool)
        for chosen in actions:
            rows = simulator.step(every, chosen)
            whole &= ~(rows.terminated | rows.truncated | rows.diverged)
        found += [(body, state[body], actions[:, body]) for body in every[whole]]
    bodies, states, chosen = zip(*found[:segments], strict=True)
    return np.array(bodies), np.array(states), np.array(chosen)


def replay_of(robot: str, bodies: int, seconds: float) -> Callable[[], float]:
    """A function that replays for about so many seconds on one core and returns environment steps per second."""
    simulator = simulator_of(robot, bodies, threads=1)
    models = {task.name: task.model() for task in simulator.tasks}
    skip = simulator.robot.frame_skip

    def prepared(segments: int) -> Callable[[], float]:
        which, states, actions = recorded(simulator, segments)
        batch = Batch(models[robot], nsim=segments, nthread=1)
        batch.set_models([models[simulator.tasks[body].name] for body in which])
        control = np.repeat(actions, skip, axis=1)

        def replay() -> float:
            batch.state[...] = states
            start = time.perf_counter()
            batch.rollout(SEGMENT * skip, control, record=())
            return segments * SEGMENT / (time.perf_counter() - start)

        return replay

    rate = prepared(bodies)()
    return prepared(max(bodies, int(rate * seconds / SEGMENT)))


def stepping_of(robot: str, bodies: int, threads: int, seconds: float) -> Callable[[], float]:
    """A function that steps for about so many seconds and returns environment steps per second."""
    simulator, rng = simulator_of(robot, bodies, threads), np.random.default_rng(3)

    def step(steps: int) -> float:
        start = time.perf_counter()
        walk(simulator, steps, rng)
        return steps * bodies / (time.perf_counter() - start)

    rate = step(WARM_UP)
    return lambda: step(max(1, int(rate * seconds / bodies)))


def measure(robot: str, bodies: int, repeats: int, seconds: float) -> dict[str, float]:
    variants = {"limit": replay_of(robot, bodies, seconds)}
    variants |= {f"threads_{n}": stepping_of(robot, bodies, n, seconds) for n in (1, 2)}
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, run in variants.items():
            rates[name].append(run())
    best = {name: max(turns) for name, turns in rates.items()}
    return best | {f"ratio_{n}": best[f"threads_{n}"] / best["limit"] for n in (1, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--bodies", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.15, help="of one turn")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    asked = parser.parse_args()

    print(f"environment steps per second, {asked.bodies} bodies, half source, half target; ratio to the one-core limit")
    print("robot           limit  1 thread  ratio  expected  2 threads  ratio  expected")
    results = {}
    for robot in asked.robots:
        results[robot] = rates = measure(robot, asked.bodies, asked.repeats, asked.seconds)
        one, two = (EXPECTED[n].get(robot, USUALLY_EXPECTED[n]) for n in (1, 2))
        print(
            f"{robot:12} {rates['limit']:8.0f} {rates['threads_1']:9.0f} {rates['ratio_1']:6.2f} {one:9.2f} "
            f"{rates['threads_2']:10.0f} {rates['ratio_2']:6.2f} {two:9.2f}",
            flush=True,
        )
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "format": 1,
            "bodies": asked.bodies,
            "repeats": asked.repeats,
            "seconds": asked.seconds,
            "mujoco": mujoco.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "environment_steps_per_second": results,
        }
        asked.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
