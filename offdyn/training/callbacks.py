"""The user's functions that a training calls: after each evaluation of a run, and after each save."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._util.errors import OffdynError


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
