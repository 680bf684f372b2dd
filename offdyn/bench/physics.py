"""How fast the simulator steps each robot, next to what the cores could do if they did nothing but physics.

The limit replays states and actions recorded from the same bodies under the same random policy, many MuJoCo steps
chained in one call. The simulator's figure is for whole environment steps: observations, rewards, ends and resets
included. All variants take turns within one run and each counts with its best turn, since machines are seldom quiet.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
from mujoco.batch import Batch

from ..envs.simulator import Simulator, lean_model
from ..envs.tasks import resolve
from .update_loop import TASKS

SEGMENT = 10  # environment steps replayed without leaving MuJoCo
WARM_UP = 50  # environment steps, until the bodies no longer move in step

Turn = Callable[[], float]  # works for a while; environment steps per second


def simulator_of(robot: str, bodies: int, threads: int) -> Simulator:
    """Half source bodies, half target bodies, warmed up."""
    tasks = [resolve(robot)] * (bodies - bodies // 2) + [resolve(TASKS[robot])] * (bodies // 2)
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


def replay_of(robot: str, bodies: int, threads: int, seconds: float) -> Turn:
    """Replays for about so many seconds."""
    simulator = simulator_of(robot, bodies, threads)
    models = {task.name: lean_model(task) for task in simulator.tasks}
    skip = simulator.robot.frame_skip

    def prepared(segments: int) -> Turn:
        which, states, actions = recorded(simulator, segments)
        batch = Batch(models[robot], nsim=segments, nthread=threads)
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


def stepping_of(robot: str, bodies: int, threads: int, seconds: float) -> Turn:
    """Steps the simulator for about so many seconds."""
    simulator, rng = simulator_of(robot, bodies, threads), np.random.default_rng(3)

    def step(steps: int) -> float:
        start = time.perf_counter()
        walk(simulator, steps, rng)
        return steps * bodies / (time.perf_counter() - start)

    rate = step(WARM_UP)
    return lambda: step(max(1, int(rate * seconds / bodies)))


def best_turns(variants: dict[str, Turn], repeats: int) -> dict[str, float]:
    """The best of each; every turn of one is followed by a turn of each other."""
    best = dict.fromkeys(variants, 0.0)
    for _ in range(repeats):
        for name, turn in variants.items():
            best[name] = max(best[name], turn())
    return best


def measure(robot: str, bodies: int, threads: Sequence[int], repeats: int, seconds: float) -> dict[str, float]:
    """Environment steps per second: `limit_N` and `threads_N` for each number of threads."""
    variants = {f"limit_{count}": replay_of(robot, bodies, count, seconds) for count in threads}
    variants |= {f"threads_{count}": stepping_of(robot, bodies, count, seconds) for count in threads}
    return best_turns(variants, repeats)
