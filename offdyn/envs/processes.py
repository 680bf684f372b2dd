"""Bodies dealt out among processes, for a training beside a GPU, whose own process has enough to do in every step.

Actions and rows lie in memory that all of them see; a message only says that they are there. A process is
`python -m offdyn.envs.processes`.
"""

import contextlib
import functools
import json
import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from .._util import cores
from .._util.child import Channel, Child, parent
from .._util.errors import OffdynError
from . import pairs
from .domain import Domain, Rows
from .padding import padded as padded_spec
from .tasks import Task, resolve

IN_MEMORY = "/dev/shm"  # where it exists: elsewhere the system writes the file to a disk now and then


def _layout(observation_size: int, action_size: int) -> "np.dtype[np.void]":
    """What the shared memory holds of one body."""
    row = [
        ("observation", "f8", observation_size),
        ("action", "f8", action_size),
        ("reward", "f8"),
        ("next_observation", "f8", observation_size),
        ("terminated", "?"),
        ("truncated", "?"),
        ("diverged", "?"),
    ]
    return np.dtype(
        [
            ("steps", "?"),  # whether it is among those that step
            ("wanted", "f8", action_size),  # the action it is given
            ("now", "f8", observation_size),  # what it sees
            ("divergences", "i8"),
            ("row", row),  # what its newest step gave
        ]
    )


class BodyProcesses:
    """As `Domain` asks, without effects. What a body does depends on no other, in however many processes it is."""

    def __init__(
        self,
        bodies: Sequence[tuple[Task, str]],
        seeds: Sequence[tuple[int, ...]],
        processes: int,
        padded: bool = False,
    ) -> None:
        robot = bodies[0][0].robot.spec
        self.spec = padded_spec(robot) if padded else robot
        # By robot, so that every process gets as many of each as the others, whatever a robot's step costs.
        self._robot = np.array([task.robot.name for task, _ in bodies])
        by_robot = np.argsort(self._robot, kind="stable")
        self._bodies = [np.sort(by_robot[number::processes]) for number in range(min(processes, len(bodies)))]
        self._place = np.argsort(np.concatenate(self._bodies))  # of each body in the memory: a process' lie together

        self._children: list[Child] = []
        self._cores = cores.take(len(self._bodies))
        try:
            self._start(bodies, seeds, padded)
        except BaseException:
            self.close()
            raise

    def _start(self, bodies: Sequence[tuple[Task, str]], seeds: Sequence[tuple[int, ...]], padded: bool) -> None:
        size = self.spec.observation_size, self.spec.action_size
        with tempfile.TemporaryFile(dir=IN_MEMORY if os.path.isdir(IN_MEMORY) else None) as shared:
            file = shared.fileno()
            os.ftruncate(file, len(bodies) * _layout(*size).itemsize)
            self._memory = np.frombuffer(mmap.mmap(file, 0), _layout(*size))
            for _ in self._bodies:
                self._children.append(Child(__name__, "that steps bodies", [file]))
        first = np.cumsum([0, *map(len, self._bodies)]).tolist()
        for number, mine in enumerate(self._bodies):
            about = {
                "file": file,
                "size": size,
                "from": first[number],
                "to": first[number + 1],
                "bodies": [(json.dumps(bodies[body][0].to_mapping()), bodies[body][1]) for body in mine],
                "seeds": [seeds[body] for body in mine],
                "padded": padded,
            }
            self._children[number].send(json.dumps(about).encode())
        for child, core in zip(self._children, self._cores, strict=False):  # as many, or none
            os.sched_setaffinity(child.process.pid, {core})
        self._hear()

    @property
    def observation(self) -> np.ndarray:
        return self._memory["now"][self._place]

    @property
    def divergences(self) -> np.ndarray:
        return self._memory["divergences"][self._place]

    def reset(self, ids: np.ndarray, elapsed: np.ndarray | int = 0) -> None:
        spent = dict(zip(ids.tolist(), np.broadcast_to(elapsed, len(ids)).tolist(), strict=True))
        for child, mine in zip(self._children, self._bodies, strict=True):
            chosen = [(number, spent[body]) for number, body in enumerate(mine.tolist()) if body in spent]
            child.send(json.dumps({"reset": chosen}).encode())
        self._hear()

    def step(self, ids: np.ndarray, actions: np.ndarray) -> Rows:
        stepped = self._place[ids]
        self._memory["steps"] = False
        self._memory["steps"][stepped] = True
        self._memory["wanted"][stepped] = actions
        for child in self._children:
            child.send()
        self._hear()
        rows = self._memory["row"][stepped]
        return Rows(*(rows[name] for name in Rows._fields))

    def _hear(self) -> None:
        """Wait until all processes are done; what one of them refuses is refused here."""
        said = [child.receive() for child in self._children]
        if refusals := [answer for answer in said if answer]:
            raise OffdynError(refusals[0].decode())

    def save(self) -> dict[str, np.ndarray]:
        """As one process would save all bodies: a training can go on with any number of them."""
        whole: dict[str, np.ndarray] = {}
        for child, mine in zip(self._children, self._bodies, strict=True):
            child.send(json.dumps({"save": True}).encode())
            for name, part in load(child.receive()).items():
                everyone, places = self._of(name, mine)
                if name not in whole:
                    whole[name] = np.zeros((len(everyone), *part.shape[1:]), part.dtype)
                whole[name][places] = part
        return whole

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        for child, mine in zip(self._children, self._bodies, strict=True):
            parts = {name: array[self._of(name, mine)[1]] for name, array in saved.items()}
            child.send(json.dumps({"load": True}).encode())
            child.send(save({name: np.ascontiguousarray(part) for name, part in parts.items() if len(part)}))
        self._hear()

    def _of(self, name: str, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bodies that a saved array is about, of one robot where its name says so, and mine among them."""
        robot, named, _ = name.partition("/")
        about = self._robot == robot if named else np.ones(len(self._robot), bool)
        everyone = np.flatnonzero(about)
        return everyone, np.searchsorted(everyone, mine[about[mine]])

    def close(self) -> None:
        if self._cores:
            cores.give_back()
        for child in self._children:
            child.close()


def _serve(training: Channel) -> None:
    about = json.loads(training.receive())
    layout = _layout(*about["size"])
    memory = np.frombuffer(mmap.mmap(about["file"], 0), layout)[about["from"] : about["to"]]
    find = functools.cache(lambda task: resolve(json.loads(task)))  # to find one is to compile it
    bodies = [(find(task), role) for task, role in about["bodies"]]
    seeds = [tuple(seed) for seed in about["seeds"]]
    domain = pairs.open_robots(bodies, seeds, threads=1, padded=about["padded"])
    memory["now"] = domain.observation
    training.send()
    while True:
        order = training.receive()
        try:
            answer = _obey(json.loads(order), domain, training) if order else _step(domain, memory)
        except OffdynError as refusal:
            answer = str(refusal).encode()
        memory["now"], memory["divergences"] = domain.observation, domain.divergences
        training.send(answer)


def _step(domain: Domain, memory: np.ndarray) -> bytes:
    ids = np.flatnonzero(memory["steps"])
    if len(ids):
        rows = domain.step(ids, memory["wanted"][ids])
        for name, values in rows._asdict().items():
            memory["row"][name][ids] = values
    return b""


def _obey(order: dict[str, Any], domain: Domain, training: Channel) -> bytes:
    if "save" in order:
        return save({name: np.ascontiguousarray(array) for name, array in domain.save().items()})
    if "load" in order:
        domain.load(load(training.receive()))
    elif order["reset"]:
        ids, elapsed = np.array(order["reset"]).T
        domain.reset(ids, elapsed)
    return b""


def main() -> None:
    """A child: step its bodies until the training closes the pipe."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(parent())


if __name__ == "__main__":
    main()
