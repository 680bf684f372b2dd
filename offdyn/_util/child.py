"""Processes of ours that work for this one: messages go through their pipes, each after its length."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence

from .errors import OffdynError

LENGTH = struct.Struct("<Q")  # before every message
# A scheduler sends these to every process of a job. The training then saves, for which it needs its children; they end
# when it closes their pipes.
LEFT_TO_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Channel:
    """Messages in and out, by file descriptors."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer

    def send(self, message: bytes = b"") -> None:
        rest = memoryview(LENGTH.pack(len(message)) + message)
        while rest:
            rest = rest[os.write(self._writer, rest) :]

    def receive(self) -> bytes:
        return self._exactly(LENGTH.unpack(self._exactly(LENGTH.size))[0])

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = os.read(self._reader, size)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Child:
    """`python -m MODULE`, and what is said to it and by it."""

    def __init__(self, module: str, what: str, files: Sequence[int] = ()) -> None:
        self.what = what  # "that evaluates policies"
        # Many small products go faster without threads.
        surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=surroundings,
            pass_fds=files,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._channel = Channel(self.process.stdout.fileno(), self.process.stdin.fileno())

    def send(self, message: bytes = b"") -> None:
        try:
            self._channel.send(message)
        except OSError:
            self._died()

    def receive(self) -> bytes:
        try:
            return self._channel.receive()
        except (OSError, EOFError):
            return self._died()

    def _died(self) -> bytes:
        code = self.process.wait()
        raise OffdynError(f"a process {self.what} ended with exit code {code}; what it said is above")

    def close(self) -> None:
        """End it; if it is at work, that is not waited for."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def parent() -> Channel:
    """In a child: the way to who started it."""
    for number in LEFT_TO_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever is printed must not get among the answers
    return Channel(0, answers)
