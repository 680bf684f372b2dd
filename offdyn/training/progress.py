"""What a person sees of a training: a live table of all lanes, or plain lines where there is no terminal.

A terminal that has closed, or a log that cannot grow, ends no training.
"""

import re
import sys
import time
from contextlib import suppress
from typing import Any, Protocol


class Progress(Protocol):
    """What training reports to."""

    def say(self, text: str, detail: bool = False) -> None:
        """A sentence; a detail is for those who asked for details."""

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        """A run's newest evaluation."""

    def advanced(self, clock: int, total: int, wall: float) -> None:
        """All runs of the cohort are at source step `clock` of `total`, after `wall` seconds."""

    def close(self) -> None:
        """No more is coming."""


class Quiet:
    """Says nothing."""

    def say(self, text: str, detail: bool = False) -> None: ...

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None: ...

    def advanced(self, clock: int, total: int, wall: float) -> None: ...

    def close(self) -> None: ...


class _Pace:
    """Steps per second of late, and the time left at that pace."""

    EVERY = 2.0  # seconds over which a speed is measured

    def __init__(self) -> None:
        self.last: tuple[int, float] | None = None
        self.speed = 0.0

    def update(self, clock: int) -> None:
        now = time.perf_counter()
        if self.last is None or clock < self.last[0]:  # the first cohort, or the next
            self.last, self.speed = (clock, now), 0.0
        elif now - self.last[1] >= self.EVERY:
            newest = (clock - self.last[0]) / (now - self.last[1])
            self.speed = newest if not self.speed else 0.7 * self.speed + 0.3 * newest
            self.last = clock, now

    def describe(self, clock: int, total: int, wall: float) -> str:
        """At most 78 columns."""
        speed = f"{self.speed:.0f}" if self.speed else "?"
        left = duration((total - clock) / self.speed) if self.speed else "?"
        left = "0:00" if clock == total else left
        return f"step {clock} of {total}   {speed} steps/s a run   {duration(wall)} so far   {left} left"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Lines:
    """One plain line per evaluation and a few per minute in between."""

    EVERY = 20.0  # seconds between two lines of progress

    def __init__(self, details: bool = False) -> None:
        self.details, self.pace, self.said = details, _Pace(), 0.0

    def say(self, text: str, detail: bool = False) -> None:
        if self.details or not detail:
            with suppress(OSError):
                print(text, file=sys.stderr, flush=True)

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        shown = "" if penalty is None else f"   penalty {penalty:.3f}"
        self.say(f"{run}   target return {target_return:.1f}{shown}")

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.pace.update(clock)
        now = time.perf_counter()
        if now - self.said > self.EVERY or clock == total:
            self.said = now
            self.say(self.pace.describe(clock, total, wall))

    def close(self) -> None: ...


class LiveTable:
    """A table of all runs that redraws itself."""

    def __init__(self, details: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        self.details, self.pace = details, _Pace()
        self.clock, self.total, self.wall = 0, 0, 0.0
        self.newest: dict[str, tuple[float, float | None]] = {}
        self.live = Live(console=Console(stderr=True), get_renderable=self._table, refresh_per_second=2)
        self.live.start()

    def _table(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if not self.total:
            return Text("compiling ...")
        title = Text(self.pace.describe(self.clock, self.total, self.wall))
        if not self.newest:
            return title
        shared, names = short_names(list(self.newest), self.live.console.width - 26)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(Text(shared), no_wrap=True)
        table.add_column("target return", justify="right", no_wrap=True)
        table.add_column("penalty", justify="right", no_wrap=True)
        for name, (target_return, penalty) in zip(names, self.newest.values(), strict=True):
            table.add_row(Text(name), f"{target_return:.1f}", "" if penalty is None else f"{penalty:.3f}")
        return Group(title, table)

    def say(self, text: str, detail: bool = False) -> None:
        if self.details or not detail:
            with suppress(OSError):
                self.live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        self.newest[run] = target_return, penalty

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.pace.update(clock)
        self.clock, self.total, self.wall = clock, total, wall

    def close(self) -> None:
        with suppress(OSError):
            self.live.stop()


def short_names(runs: list[str], width: int) -> tuple[str, list[str]]:
    """What all names have in common, and each name without it: `hopper-big-head.par.paper`, `[seed-0, seed-1]`.

    None is wider than `width`: what is too long loses its middle.
    """
    parts = [re.split(r"\.(?=[a-z])", run) for run in runs]  # not at the point of a number
    others = parts[1:] or [parts[0][:-1]]
    common = [part for part in parts[0] if all(part in each for each in others)]
    names = [".".join(part for part in each if part not in common) for each in parts]
    return _fit(".".join(common), width), [_fit(name, width) for name in names]


def _fit(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    end = max(1, width // 2)
    return f"{text[: max(0, width - end - 1)]}…{text[-end:]}"


def for_people(details: bool = False) -> Progress:
    """The live table in a terminal, plain lines elsewhere."""
    if sys.stderr.isatty():
        try:
            return LiveTable(details)
        except ImportError:
            pass
    return Lines(details)
