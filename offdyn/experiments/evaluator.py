"""Evaluation beside a training on a GPU, in processes of its own: in one process the two would wait for each other.

A child gets all lanes' tasks once and then one lane's policy at a time, whichever is next; it gives back the returns.
What goes through the pipes is JSON and safetensors. A child is `python -m offdyn.experiments.evaluator`.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from safetensors.numpy import load, save

from ..child import Child, parent
from ..domains import pairs
from .cores import left_for_evaluation
from .evaluate import Evaluation, Policies, evaluate

MOST_PROCESSES = 8  # of one thread each: threads of one process would wait for each other at every step


class Evaluator:
    """Evaluates the policies of a cohort: in this process, or, beside a GPU, in children."""

    def __init__(self, tasks: Sequence[pairs.Pair], seeds: Sequence[int], threads: int, padded: bool) -> None:
        self.tasks, self.seeds, self.threads, self.padded = tasks, seeds, threads, padded
        from .devices import beside_a_gpu  # not in a child, which needs no device

        own = isinstance(tasks[0], pairs.OwnPair)  # may hold what cannot be told to another process
        count = min(len(tasks), left_for_evaluation(threads), MOST_PROCESSES) if beside_a_gpu() and not own else 0
        self.children = [self._begin() for _ in range(count)]
        self.pool = ThreadPoolExecutor(max(1, count), "evaluation")  # of threads that wait for the children
        self.spent = np.zeros(len(tasks))  # seconds that each lane's newest evaluation took

    def _begin(self) -> Child:
        child = Child(__name__, "that evaluates policies")
        about = {
            "tasks": [task.to_mapping() for task in self.tasks],
            "seeds": list(self.seeds),
            "padded": self.padded,
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
        # Those that took longest come first: the last ones to end are then short, and the children end together.
        waiting = iter(np.argsort(-self.spent, kind="stable").tolist())
        parts: dict[int, dict[str, np.ndarray]] = {}

        def serve(child: Child) -> None:
            for lane in waiting:
                started = time.perf_counter()
                child.send(json.dumps({"lane": lane, **wanted}).encode())
                child.send(save(policies.stacked(np.array([lane]))))
                parts[lane] = load(child.receive())
                self.spent[lane] = time.perf_counter() - started

        list(self.pool.map(serve, self.children))
        joined = {name: np.concatenate([parts[lane][name] for lane in sorted(parts)]) for name in parts[0]}
        held_out = (joined["held_out_rows"], joined["held_out_weight"]) if "held_out_rows" in joined else None
        return Evaluation(joined["target_returns"], joined["source_returns"], held_out)

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
        tasks = [pairs.find(task) for task in about["tasks"]]
        while True:
            wanted = json.loads(training.receive())
            policies = Policies.from_stacked(load(training.receive()))
            lane = slice(wanted["lane"], wanted.pop("lane") + 1)
            done = evaluate(policies, tasks[lane], about["seeds"][lane], threads=1, padded=about["padded"], **wanted)
            arrays = {"target_returns": done.target_returns, "source_returns": done.source_returns}
            if done.held_out is not None:
                arrays |= {"held_out_rows": done.held_out[0], "held_out_weight": done.held_out[1]}
            training.send(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
