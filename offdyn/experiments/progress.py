"""What a person sees of a training: a live table of all lanes, or plain lines where there is no terminal."""

import sys
import time
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

    def __init__(self) -> None:
        self.last: tuple[int, float] | None = None
        self.speed = 0.0

    def update(self, clock: int) -> None:
        now = time.perf_counter()
        if self.last is not None and clock > self.last[0]:
            newest = (clock - self.last[0]) / max(now - self.last[1], 1e-9)
            self.speed = newest if not self.speed else 0.7 * self.speed + 0.3 * newest
        if self.last is None or clock != self.last[0]:
            self.last = clock, now

    def left(self, clock: int, total: int) -> str:
        return _duration((total - clock) / self.speed) if self.speed else "?"


def _duration(seconds: float) -> str:
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
            print(text, file=sys.stderr, flush=True)

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        shown = "" if penalty is None else f"   penalty {penalty:.3f}"
        self.say(f"{run}   target return {target_return:.1f}{shown}")

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.pace.update(clock)
        now = time.perf_counter()
        if now - self.said > self.EVERY or clock == total:
            self.said = now
            self.say(
                f"step {clock} of {total}   {self.pace.speed:.0f} steps/s per run   "
                f"{_duration(wall)} so far, {self.pace.left(clock, total)} left"
            )

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
        from rich.table import Table

        share = f"{100 * self.clock / self.total:.1f} %" if self.total else "compiling"
        title = (
            f"step {self.clock} of {self.total} ({share})   {self.pace.speed:.0f} steps/s per run   "
            f"{_duration(self.wall)} so far, {self.pace.left(self.clock, self.total)} left"
        )
        table = Table("run", "target return", "penalty", title=title, title_justify="left")
        for run, (target_return, penalty) in self.newest.items():
            table.add_row(run, f"{target_return:.1f}", "" if penalty is None else f"{penalty:.3f}")
        return table

    def say(self, text: str, detail: bool = False) -> None:
        if self.details or not detail:
            self.live.console.print(text)

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        self.newest[run] = target_return, penalty

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.pace.update(clock)
        self.clock, self.total, self.wall = clock, total, wall

    def close(self) -> None:
        self.live.stop()


def for_people(details: bool = False) -> Progress:
    """The live table in a terminal, plain lines elsewhere."""
    if sys.stderr.isatty():
        try:
            return LiveTable(details)
        except ImportError:
            pass
    return Lines(details)
