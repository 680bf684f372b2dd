"""Cases in processes that may die or hang: each has a number, from which all that is drawn in it follows."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

HANG = 180.0  # seconds for one case on a busy machine
# The server of all processes: it has imported everything and computed nothing, so that a process costs milliseconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.chaos.imported"])


@dataclass
class Case:
    """How one case ended."""

    part: str
    number: int
    about: str = ""  # what was done, in words
    findings: list[str] = field(default_factory=list)  # what should not have happened
    counts: Counter[str] = field(default_factory=Counter)

    def found(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.findings.append(f"{kind}: {what}")


Play = Callable[[Random, Path, Case], None]


def draws(seed: int, part: str, number: int) -> Random:
    return Random(f"{seed} {part} {number}")


def in_processes(play: Play, part: str, seed: int, numbers: Sequence[int], folder: Path) -> Iterator[Case]:
    """Each case in turn, in one process as long as that lives; a case that kills or hangs it is a finding."""
    left = list(numbers)
    while left:
        ours, theirs = PROCESSES.Pipe(duplex=False)
        arguments = (theirs, play, part, seed, left, folder)
        process = PROCESSES.Process(target=_serve, args=arguments, name=f"chaos-{part}")
        process.start()
        theirs.close()
        while left:
            case = Case(part, left[0])
            try:
                if not ours.poll(HANG):
                    case.found("hangs", f"no end after {HANG:.0f} s")
                    process.kill()
                else:
                    case = ours.recv()
            except EOFError:
                process.join()
                case.found("crashes", f"its process ended with {process.exitcode}")
            yield case
            left = left[1:]
            if case.counts["hangs"] or case.counts["crashes"]:
                break
        process.join()
        ours.close()


def _serve(pipe: Any, play: Play, part: str, seed: int, numbers: Sequence[int], folder: Path) -> None:
    for number in numbers:
        case, place = Case(part, number), folder / f"{part}-{number}"
        place.mkdir(parents=True)
        os.chdir(place)
        play(draws(seed, part, number), place, case)
        pipe.send(case)


def begin(action: Callable[..., int], said: Path, *arguments: Any) -> Any:
    """A process of its own that does this; what it says goes into the file."""
    process = PROCESSES.Process(target=_alone, args=(action, said, arguments))
    process.start()
    return process


def _alone(action: Callable[..., int], said: Path, arguments: tuple[Any, ...]) -> None:
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for place in (1, 2):
        os.dup2(output, place)
    code = action(*arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end(process: Any, patience: float = HANG) -> int | None:
    """Its exit code; None: it hung, and was ended."""
    process.join(patience)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    return process.exitcode


def signal_after(process: Any, number: signal.Signals, seconds: float) -> None:
    """Unless it ends before."""
    process.join(seconds)
    if process.exitcode is None:
        os.kill(process.pid, number)


class Clock:
    """How long something may go on."""

    def __init__(self, seconds: float) -> None:
        self.began, self.seconds = time.monotonic(), seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds
