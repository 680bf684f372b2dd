"""Ctrl-C and SIGTERM as a wish to stop that training looks at: it saves itself first."""

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .experiments.trainer import Stop


def stop_on_signals(answer: str = "saving and stopping ...") -> "Stop":
    """The first Ctrl-C or SIGTERM is answered and sets the wish; a second one of either ends the process at once."""
    from .experiments.trainer import Stop

    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.wanted = True
        print(answer, file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop
