"""Evaluation beside a training on a GPU, in processes of its own: in one process the two would wait for each other.

A child gets its lanes' tasks once and then, for each evaluation, their policies; it gives back the returns. What goes
through the pipes is JSON and safetensors, each after its length. `python -m offdyn.experiments.evaluator` is a child.
"""

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np
from safetensors.numpy import load, save

from ..domains import pairs
from ..errors import OffdynError
from .evaluate import Evaluation, Policies, evaluate

MOST_PROCESSES = 8  # of one thread each: threads of one process would wait for each other at every step
LENGTH = struct.Struct("<Q")  # before every message


class Evaluator:
    """Evaluates the policies of a cohort: in this process, or, beside a GPU, in children."""

    def __init__(self, tasks: Sequence[pairs.Pair], seeds: Sequence[int], threads: int, padded: bool) -> None:
        self.tasks, self.seeds, self.threads, self.padded = tasks, seeds, threads, padded
        import jax  # not in a child, which needs no device

        own = isinstance(tasks[0], pairs.OwnPair)  # may hold what cannot be told to another process
        # As many cores as training's own bodies have, which are half of all.
        count = 0 if own or jax.default_backend() == "cpu" else min(len(tasks), threads, MOST_PROCESSES)
        # Dealt out in turn, so that every child has some of each robot.
        self.lanes = [np.arange(number, len(tasks), count) for number in range(count)]
        self.children = [self._begin(lanes) for lanes in self.lanes]
        self.pool = ThreadPoolExecutor(max(1, count), "evaluation")  # of threads that wait for the children

    def _begin(self, lanes: np.ndarray) -> "subprocess.Popen[bytes]":
        # Many small products go faster without threads.
        surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", __name__]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=surroundings)
        about = {
            "tasks": [self.tasks[lane].to_mapping() for lane in lanes],
            "seeds": [self.seeds[lane] for lane in lanes],
            "padded": self.padded,
        }
        _write(child.stdin, json.dumps(about).encode())
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
        parts = list(self.pool.map(lambda number: self._ask(number, policies, wanted), range(len(self.children))))
        order = np.argsort(np.concatenate(self.lanes))
        joined = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
        held_out = (joined["held_out_rows"], joined["held_out_weight"]) if "held_out_rows" in joined else None
        return Evaluation(joined["target_returns"], joined["source_returns"], held_out)

    def _ask(self, number: int, policies: Policies, wanted: dict[str, Any]) -> dict[str, np.ndarray]:
        child = self.children[number]
        try:
            _write(child.stdin, json.dumps(wanted).encode())
            _write(child.stdin, save(policies.stacked(self.lanes[number])))
            return load(_read(child.stdout))
        except (OSError, EOFError):
            raise OffdynError(
                f"a process that evaluates policies ended with exit code {child.wait()}; what it said is above"
            ) from None

    def close(self) -> None:
        """End the children; one in the middle of an evaluation is not waited for."""
        for child in self.children:
            child.kill()
            child.communicate()
        self.pool.shutdown()


def _write(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(LENGTH.pack(len(message)) + message)
    pipe.flush()


def _read(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    message = pipe.read(LENGTH.unpack(head)[0])
    if len(message) < LENGTH.unpack(head)[0]:
        raise EOFError
    return message


def main() -> None:
    """A child: evaluate what comes until the training closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the training's to answer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not get among the answers
    try:
        about = json.loads(_read(sys.stdin.buffer))
        tasks = [pairs.find(task) for task in about["tasks"]]
        while True:
            wanted = json.loads(_read(sys.stdin.buffer))
            policies = Policies.from_stacked(load(_read(sys.stdin.buffer)))
            done = evaluate(policies, tasks, about["seeds"], threads=1, padded=about["padded"], **wanted)
            arrays = {"target_returns": done.target_returns, "source_returns": done.source_returns}
            if done.held_out is not None:
                arrays |= {"held_out_rows": done.held_out[0], "held_out_weight": done.held_out[1]}
            _write(answers, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
