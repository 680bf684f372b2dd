"""Ctrl-C, SIGTERM and a closed terminal as a wish to stop that training looks at: it saves itself first."""

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import Stop

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_signals(answer: str = "saving and stopping ...") -> "Stop":
    """The first of these is answered and sets the wish; a second Ctrl-C or SIGTERM ends the process at once.

    Where a terminal closes, the kernel and the shell may both send SIGHUP, and nothing can be written any more.
    """
    from .trainer import Stop

    stop = Stop()
    terminals = [output for output in (1, 2) if os.isatty(output)]

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            stop.wanted = True
            for output in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), output)
            return
        if stop.wanted:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.wanted = True
        print(answer, file=sys.stderr)

    for number in ASKING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # which is what nohup asks for
            signal.signal(number, ask)
    return stop
