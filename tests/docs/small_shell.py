"""Runs the commands of a page as they stand, each training in small; equal trainings of several pages are made once."""

import dataclasses
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offdyn.cli.main import main
from offdyn.data.datasets import save
from offdyn.training import trainer as training
from offdyn.training.config import RunConfig
from offdyn.training.preparation import group
from offdyn.training.progress import ASKING
from offdyn.training.run_folder import RunFolder

from ..data.simulated import simulated, write_d4rl
from ..training.small import small
from .pages import ROOT, blocks

# What makes a command small, by how it begins: words put at its end, where they win over those before.
SMALLER = {
    ("offdyn", "collect"): ("--steps", "200", "--threads", "1"),
    ("offdyn", "evaluate"): ("--episodes", "1"),
    ("offdyn", "video"): ("--steps", "3"),
}
LOOKING = ("list", "--version", "study")
train_for_real = training.start


def in_small(run: RunConfig) -> RunConfig:
    """The run under its own name, with tiny networks and few steps."""
    less = small(run.method) | {"eval_interval": 100, "log_interval": 100, "source_envs": None, "random_steps": 0}
    less["target_steps"] = 200 // run.schedule.source_steps_per_target_step
    del less["source_steps"]
    parts = {name: getattr(run, name) for name in ("schedule", "sac", "hyper")}
    return dataclasses.replace(
        run,
        **{
            name: dataclasses.replace(part, **{key: value for key, value in less.items() if hasattr(part, key)})
            for name, part in parts.items()
        },
    )


class Shell:
    """A folder for each page, with the files that the page speaks of, and the trainings made so far."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.trained: dict[str, Path] = {}  # OUT, by the name of the run
        self.looked: set[frozenset[str]] = set()
        self.pretending = False
        patch.setattr(training, "start", self.start)
        patch.delenv("OFFDYN_DATA", raising=False)

    def enter(self, page: str) -> Path:
        """Go to the page's folder; a block of YAML that begins with `# NAME.yaml` is that file."""
        here = self.folder / page.replace("/", "-")
        if not here.exists():
            here.mkdir()
            for block in blocks(ROOT / page):
                named = re.match(r"# (\S+\.yaml)$", block.lines[0]) if block.language == "yaml" else None
                if named:
                    (here / named[1]).write_text(block.code)
            write_d4rl(here / "hopper_medium-v2.hdf5", simulated("hopper"))
            save(simulated("hopper"), here / "data" / "my-hopper.safetensors")
        self.patch.chdir(here)
        return here

    def start(self, runs: Sequence[RunConfig], out: Path, **options: Any) -> list[RunFolder]:
        """The first run of those asked for, in small; copied where another page has trained it."""
        if self.pretending:
            assert group(runs)
            return []
        first = in_small(runs[0])
        if first.name not in self.trained:
            train_for_real([first], out, **options)
            self.trained[first.name] = out.absolute()
        elif not (out / first.name).exists():
            shutil.copytree(self.trained[first.name], out, dirs_exist_ok=True)
        return [RunFolder.open(out / first.name)]

    def pretend(self, words: Sequence[str]) -> int:
        """The same for a command that trains, up to where the training would begin."""
        self.pretending = True
        try:
            return self.run(words)
        finally:
            self.pretending = False

    def run(self, words: Sequence[str]) -> int:
        """The exit code of an `offdyn` command; what only looks, and did so for another page, is not done again."""
        more = next((added for start, added in SMALLER.items() if start == tuple(words[: len(start)])), ())
        asked = frozenset((*words, *more))
        if asked in self.looked:
            return 0
        if words[1] in LOOKING:
            self.looked.add(asked)
        handlers = {number: signal.getsignal(number) for number in ASKING}
        try:
            return main([*words[1:], *more])
        except SystemExit as ended:  # what --help and --version do
            return int(ended.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
