"""What a person sees of a training: a live table of all lanes in a terminal or a notebook, plain lines elsewhere.

A terminal that has closed, or a log that cannot grow, ends no training.
"""

import io
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


class Table:
    """The newest of all runs, to be drawn again and again; how, its kinds say."""

    def __init__(self, details: bool = False) -> None:
        self.details, self.pace = details, _Pace()
        self.clock, self.total, self.wall = 0, 0, 0.0
        self.newest: dict[str, tuple[float, float | None]] = {}

    def drawn(self, width: int) -> Any:
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        if not self.total:
            return Text("compiling ...")
        title = Text(self.pace.describe(self.clock, self.total, self.wall))
        if not self.newest:
            return title
        shared, names = short_names(list(self.newest), width - 26)
        table = Grid(box=None, pad_edge=False, header_style="bold")
        table.add_column(Text(shared), no_wrap=True)
        table.add_column("target return", justify="right", no_wrap=True)
        table.add_column("penalty", justify="right", no_wrap=True)
        for name, (target_return, penalty) in zip(names, self.newest.values(), strict=True):
            table.add_row(Text(name), f"{target_return:.1f}", "" if penalty is None else f"{penalty:.3f}")
        return Group(title, table)

    def evaluated(self, run: str, target_return: float, penalty: float | None) -> None:
        self.newest[run] = target_return, penalty

    def advanced(self, clock: int, total: int, wall: float) -> None:
        self.pace.update(clock)
        self.clock, self.total, self.wall = clock, total, wall


class LiveTable(Table):
    """In a terminal: redraws itself."""

    def __init__(self, details: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(details)
        console = Console(stderr=True)
        self.live = Live(console=console, get_renderable=lambda: self.drawn(console.width), refresh_per_second=2)
        self.live.start()

    def say(self, text: str, detail: bool = False) -> None:
        if self.details or not detail:
            with suppress(OSError):
                self.live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        with suppress(OSError):
            self.live.stop()


class NotebookTable(Table):
    """In a Jupyter notebook: one output that is replaced; needs no widgets."""

    EVERY = 1.0  # seconds between two drawings
    WIDTH = 100

    def __init__(self, details: bool = False) -> None:
        super().__init__(details)
        self.shown: Any = None  # the handle of the output
        self.at = 0.0

    def say(self, text: str, detail: bool = False) -> None:
        if self.details or not detail:
            print(text, flush=True)

    def advanced(self, clock: int, total: int, wall: float) -> None:
        super().advanced(clock, total, wall)
        if clock == total or time.perf_counter() - self.at > self.EVERY:
            self._show()

    def close(self) -> None:
        if self.total:
            self._show()

    def _show(self) -> None:
        from IPython.display import display
        from rich.console import Console

        self.at = time.perf_counter()
        text = io.StringIO()
        Console(file=text, width=self.WIDTH, force_jupyter=False).print(self.drawn(self.WIDTH))
        drawn = {"text/plain": text.getvalue()}
        if self.shown is None:
            self.shown = display(drawn, raw=True, display_id=True)
        else:
            self.shown.update(drawn, raw=True)


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
    """The live table in a terminal or a notebook, plain lines elsewhere."""
    if in_notebook():
        return NotebookTable(details)
    if sys.stderr.isatty():
        try:
            return LiveTable(details)
        except ImportError:
            pass
    return Lines(details)


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this: it has imported both, and a terminal's IPython only one of them."""
    return "ipykernel" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def chosen(wanted: Progress | bool | None) -> Progress:
    """What a user of Python asked for: a display or none; None: one where somebody looks at it."""
    if isinstance(wanted, bool) or wanted is None:
        shown = wanted or (wanted is None and (in_notebook() or sys.stderr.isatty()))
        return for_people() if shown else Quiet()
    return wanted
