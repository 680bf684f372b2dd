"""How fast the simulator steps each robot, next to what one core could do if it did nothing but physics.

The limit replays states and actions recorded from the same bodies under the same random policy, many MuJoCo steps
chained in one call. The simulator's figure is for whole environment steps: observations, rewards, ends and resets
included. All variants take turns within one run and each counts with its best turn, since machines are seldom quiet.

    python benchmarks/physics.py [--robots hopper ant] [--out FILE.json]
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
EXPECTED = {1: 0.85, 2: 1.4}  # of the limit at 40 bodies, by the number of threads
EXPECTED_OF_HOPPER = {1: 0.80, 2: 1.4}  # under random actions it starts anew every 20 steps
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


def measure(robots: list[str], bodies: int, repeats: int, seconds: float) -> dict[str, dict[str, float]]:
    """The best turn of each variant of each robot; every turn of one is followed by a turn of each other."""
    variants = {}
    for robot in robots:
        variants[robot, "limit"] = replay_of(robot, bodies, seconds)
        for threads in (1, 2):
            variants[robot, f"threads_{threads}"] = stepping_of(robot, bodies, threads, seconds)
    best = dict.fromkeys(variants, 0.0)
    for _ in range(repeats):
        for variant, run in variants.items():
            best[variant] = max(best[variant], run())
    rates = {robot: {name: best[robot, name] for name in ("limit", "threads_1", "threads_2")} for robot in robots}
    for rate in rates.values():
        rate |= {f"ratio_{threads}": rate[f"threads_{threads}"] / rate["limit"] for threads in (1, 2)}
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--bodies", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=40, help="turns of each variant")
    parser.add_argument("--seconds", type=float, default=0.1, help="of one turn")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    asked = parser.parse_args()

    print(f"environment steps per second, {asked.bodies} bodies, half source, half target")
    print("ratio: to the one-core limit; expected: the least ratio, at 40 bodies")
    print("robot           limit  1 thread  ratio  expected  2 threads  ratio  expected")
    results = measure(asked.robots, asked.bodies, asked.repeats, asked.seconds)
    for robot, rates in results.items():
        one, two = (EXPECTED_OF_HOPPER if robot == "hopper" else EXPECTED).values()
        print(
            f"{robot:12} {rates['limit']:8.0f} {rates['threads_1']:9.0f} {rates['ratio_1']:6.2f} {one:9.2f} "
            f"{rates['threads_2']:10.0f} {rates['ratio_2']:6.2f} {two:9.2f}"
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
