"""Evaluation beside a training on a GPU, in processes of its own: in one process the two would wait for each other.

A child gets all lanes' tasks once and then the policies of a few lanes at a time; it gives back their
returns. What goes through the pipes is JSON and safetensors. A child is `python -m offdyn.training.evaluator`.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from safetensors.numpy import load, save

from .._util import cores
from .._util.child import Child, parent
from ..envs import pairs
from .evaluation import Evaluation, evaluate
from .policies import Policies

PIECES_FOR_EACH = 3  # of an evaluation, about as long as each other, for every child: fewer, and the last is waited for
MOST_PROCESSES = 8  # of one thread each: threads of one process would wait for each other at every step


class Evaluator:
    """Evaluates the policies of a cohort: in this process, or, beside a GPU, in children."""

    def __init__(self, tasks: Sequence[pairs.Pair], seeds: Sequence[int], threads: int, padded: bool) -> None:
        self.tasks, self.seeds, self.threads, self.padded = tasks, seeds, threads, padded
        from .hardware import beside_a_gpu  # not in a child, which needs no device

        own = isinstance(tasks[0], pairs.OwnPair)  # may hold what cannot be told to another process
        count = min(len(tasks), cores.left_for_evaluation(threads), MOST_PROCESSES) if beside_a_gpu() and not own else 0
        self.children = [self._begin() for _ in range(count)]
        self.pool = ThreadPoolExecutor(max(1, count), "evaluation")  # of threads that wait for the children
        self.spent = np.ones(len(tasks))  # seconds that each lane's newest evaluation took, its share where they shared

    def _begin(self) -> Child:
        child = Child(__name__, "that evaluates policies")
        about = {
            "tasks": [task.to_mapping() for task in self.tasks],
            "seeds": list(self.seeds),
            "padded": self.padded,
            "cores": cores.every() if cores.taken() else [],
        }
        child.send(json.dumps(about).encode())
        return child

    def __call__(
        self, policies: Policies, target_episodes: int, source_episodes: int, *, index: int, kept_rows: int = 0
    ) -> Evaluation:
        """As `evaluate`."""
        wanted = {
            "target_episodes": target_episodes,
            "source_episodes": source_episodes,
            "index": index,
            "kept_rows": kept_rows,
        }
        if not self.children:
            return evaluate(policies, self.tasks, self.seeds, threads=self.threads, padded=self.padded, **wanted)
        waiting = iter(self._pieces())
        parts: dict[int, dict[str, np.ndarray]] = {}

        def serve(child: Child) -> None:
            for lanes in waiting:
                started = time.perf_counter()
                child.send(json.dumps({"lanes": lanes, **wanted}).encode())
                child.send(save(policies.stacked(np.array(lanes))))
                answer = load(child.receive())
                for number, lane in enumerate(lanes):
                    parts[lane] = {name: array[number : number + 1] for name, array in answer.items()}
                self.spent[lanes] = (time.perf_counter() - started) / len(lanes)

        list(self.pool.map(serve, self.children))
        joined = {name: np.concatenate([parts[lane][name] for lane in sorted(parts)]) for name in parts[0]}
        held_out = (joined["held_out_rows"], joined["held_out_weight"]) if "held_out_rows" in joined else None
        return Evaluation(joined["target_returns"], joined["source_returns"], held_out)

    def _pieces(self) -> list[list[int]]:
        """Lanes that one child evaluates together, the longest first: the last ones to end are then short.

        Lanes of one robot cost less together than one by one, by a third where the robot's own steps are cheap.
        """
        longest = self.spent.sum() / (PIECES_FOR_EACH * len(self.children))
        pieces: list[list[int]] = []
        newest: dict[str, list[int]] = {}  # by robot
        for lane in np.argsort(-self.spent, kind="stable").tolist():
            robot = pairs.family_of(self.tasks[lane])
            if robot not in newest or self.spent[[*newest[robot], lane]].sum() > longest:
                newest[robot] = []
                pieces.append(newest[robot])
            newest[robot].append(lane)
        return sorted(pieces, key=lambda lanes: -self.spent[lanes].sum())

    def close(self) -> None:
        """End the children; one in the middle of an evaluation is not waited for."""
        for child in self.children:
            child.process.kill()
        self.pool.shutdown()  # its threads see the end of their child
        for child in self.children:
            child.close()


def main() -> None:
    """A child: evaluate what comes until the training closes the pipe."""
    training = parent()
    try:
        about = json.loads(training.receive())
        if about["cores"]:
            cores.stand_back(about["cores"])
        tasks = [pairs.find(task) for task in about["tasks"]]
        while True:
            wanted = json.loads(training.receive())
            policies = Policies.from_stacked(load(training.receive()))
            lanes = wanted.pop("lanes")
            own, seeds = [tasks[lane] for lane in lanes], [about["seeds"][lane] for lane in lanes]
            done = evaluate(policies, own, seeds, threads=1, padded=about["padded"], **wanted)
            arrays = {"target_returns": done.target_returns, "source_returns": done.source_returns}
            if done.held_out is not None:
                arrays |= {"held_out_rows": done.held_out[0], "held_out_weight": done.held_out[1]}
            training.send(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
