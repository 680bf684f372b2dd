"""What passes between a training and its user: what is shown, functions of theirs, numbers for W&B, a wish to stop.

A terminal that has closed, a log that cannot grow, or W&B out of reach ends no training.
"""

import io
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from .._util import files
from .._util.errors import OffdynError

if TYPE_CHECKING:
    from .config import RunConfig
    from .run_folder import RunFolder


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


@dataclass(frozen=True, repr=False)
class Evaluated:
    """One evaluation of one run, as its line of curve.csv has it."""

    folder: Path  # of the run
    target_steps: int  # that it had made then
    target_return: float | None  # mean over episodes; None where none was played
    source_return: float | None
    metrics: Mapping[str, float | None]  # the whole line, by column

    @property
    def name(self) -> str:
        return self.folder.name

    def __repr__(self) -> str:
        returns = (("target", self.target_return), ("source", self.source_return))
        shown = "".join(f", {domain} return {value:.1f}" for domain, value in returns if value is not None)
        return f"Evaluated({self.name!r}, target step {self.target_steps}{shown}, {len(self.metrics)} metrics)"


OnEvaluation = Callable[[Evaluated], Any]
OnCheckpoint = Callable[[Path, int], Any]  # a run's folder and its target steps


class CallbackFailed(OffdynError):
    """A user's function raised, which is its cause."""


@dataclass(frozen=True)
class Callbacks:
    """What to call; None: nothing."""

    on_evaluation: OnEvaluation | None = None
    on_checkpoint: OnCheckpoint | None = None

    def __post_init__(self) -> None:
        for name, function in vars(self).items():
            if function is not None and not callable(function):
                raise OffdynError(f"{name}: expected a function, got {function!r}")

    def call(self, name: str, *about: Any) -> None:
        """That function, if there is one; where it raises, it is named."""
        function = getattr(self, name)
        if function is None:
            return
        try:
            function(*about)
        except Exception as error:
            whose = getattr(function, "__qualname__", type(function).__qualname__)
            raise CallbackFailed(f"{name}, your {whose}, raised {type(error).__name__}: {error}") from error


WANDB_FORMAT = 1  # of wandb.json
WANDB = "wandb.json"  # in the run's folder
MISSING = "the Python package wandb is not installed: pip install 'offdyn[wandb]', or train without --wandb"
NO_KEY = "W&B knows no key here: run `wandb login`, or set WANDB_MODE=offline and upload later with `wandb sync`"
FORBIDDEN = "\\#?%:"  # in the name of a project
LONGEST_NAME = 128  # characters of a name
STOPPED = 75  # the exit code of a training that can be resumed
# Quiet, without copies of code, terminal and machine; no call may hold up the training for long.
WANDB_SETTINGS: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "init_timeout": 20,
    "finish_timeout": 60,
}
_absent: list[str] = []  # why W&B is not there for this process, once one run found out: the others need not wait


def check_wandb(runs: Iterable["RunConfig"]) -> None:
    """Before a training begins, refuse what cannot work at all."""
    _absent.clear()
    for project in {run.schedule.wandb for run in runs} - {None}:
        names = str(project).split("/")
        if len(names) > 2 or any(not n or len(n) > LONGEST_NAME or set(n) & set(FORBIDDEN) for n in names):
            raise OffdynError(f"--wandb {project}: expected PROJECT or TEAM/PROJECT, without any of {FORBIDDEN}")
        try:
            import wandb
        except ImportError as error:
            raise OffdynError(f"--wandb {project}: {MISSING}") from error
        if not _may_send(wandb):
            raise OffdynError(f"--wandb {project}: {NO_KEY}")


def _may_send(wandb: Any) -> bool:
    """Whether there is a key, or none is needed; a version that cannot tell finds out when the first run begins."""
    try:
        online = wandb.setup().settings.mode == "online"
        return not online or wandb.login(prompt=False, verify=False)
    except Exception:
        return True


class Mirror:
    """What W&B gets of one run: each line of its curve and metrics, after that line is in the run's own file."""

    def __init__(self, folder: "RunFolder") -> None:
        self.folder = folder
        self._run: Any = None

    def log(self, kind: str, numbers: Mapping[str, Any]) -> None:
        """One line; the first one opens the run, or the one it was before a resume."""
        if _absent:
            return
        try:
            if self._run is not None:
                self._send(kind, numbers)
            elif self._open():
                self._send_all()
            else:
                self._send(kind, numbers)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """The run is over for now: finished, failed, or stopped and to be resumed."""
        run, self._run = self._run, None
        if run is None:
            return
        try:
            state, final = self.folder.state, self.folder.path / "final.json"
            if state == "finished" and final.exists():
                read = json.loads(files.content(final))
                run.summary.update({name: value for name, value in read.items() if isinstance(value, float)})
            if state == "stopped":
                run.mark_preempting()
            run.finish(exit_code={"finished": 0, "stopped": STOPPED}.get(state, 1))
            self.folder.write_json(WANDB, self._about() | {"closed": True})
        except Exception as error:
            self._give_up(error)

    def _send(self, kind: str, numbers: Mapping[str, Any]) -> None:
        there = {name: value for name, value in numbers.items() if value is not None and value == value}
        self._run.log({f"{kind}/{name}".replace(" ", "_"): value for name, value in there.items()})

    def _send_all(self) -> None:
        """After a crash, which may have cost W&B lines that the run's files have: a line twice does no harm."""
        for line in self.folder.curve():
            self._send("curve", line)
        metrics = self.folder.path / "metrics.jsonl"
        for text in files.content(metrics).splitlines() if metrics.exists() else []:
            self._send("metrics", json.loads(text))

    def _open(self) -> bool:
        """Whether this goes on after a crash."""
        import wandb

        config = self.folder.config
        team, _, project = str(config.schedule.wandb).rpartition("/")
        about = self._about()
        self.folder.write_json(WANDB, about | {"closed": False})
        self._run = wandb.init(
            entity=team or None,
            project=project,
            id=about["id"],
            resume="allow",
            name=config.name[-LONGEST_NAME:],
            group=config.name.rpartition(".seed-")[0][:LONGEST_NAME],
            dir=str(self.folder.path),
            config={"task": config.task.name, "method": config.method, "preset": config.preset, "seed": config.seed}
            | config.settings(),
            reinit="create_new",  # lanes train side by side
            settings=wandb.Settings(**{k: v for k, v in WANDB_SETTINGS.items() if k in wandb.Settings.model_fields}),
        )
        self._run.define_metric("metrics/*", step_metric="metrics/source_steps")
        counted = "target_steps" if config.schedule.acts_in_target else "updates"
        self._run.define_metric("curve/*", step_metric=f"curve/{counted}")
        if not self._run.offline:
            Lines().say(f"W&B: {self._run.url}")
        return not about["closed"]

    def _about(self) -> dict[str, Any]:
        """The id of the run there, drawn once, and whether it was closed in order."""
        try:
            read = json.loads(files.content(self.folder.path / WANDB))
            return {"format": WANDB_FORMAT, "id": str(read["id"]), "closed": bool(read["closed"])}
        except FileNotFoundError:
            return {"format": WANDB_FORMAT, "id": secrets.token_hex(4), "closed": True}

    def _give_up(self, error: Exception) -> None:
        """Once for all runs of this process; the run's own files have all the numbers."""
        self._run = None
        why = MISSING if isinstance(error, ImportError) else " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if not _absent:
            Lines().say(f"W&B gets no more numbers ({why}); the training goes on, and its own files have them all")
        _absent.append(why)


@dataclass
class Stop:
    """A wish to stop, looked at once per tick."""

    wanted: bool = False


class Stopped(Exception):
    """Training was asked to stop, or a custom environment failed, and saved itself first."""


ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def stop_on_signals(answer: str = "saving and stopping ...") -> Stop:
    """Ctrl-C, SIGTERM, SIGUSR1, a closed terminal: the first sets the wish; a second, SIGHUP aside, ends the process.

    Where a terminal closes, the kernel and the shell may both send SIGHUP, and nothing can be written any more.
    """
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
