"""The commands and the Python of the two pages on custom environments run, each training in small."""

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offdyn.cli.main import main
from offdyn.training import trainer as training
from offdyn.training.config import RunConfig
from offdyn.training.run_folder import RunFolder

pages = importlib.import_module("tests.docs.pages")
DOCS = Path(__file__).parents[2] / "docs"
FILE = "# pendulums.py\n"
LESS = {
    "target_steps": 20,
    "eval_interval": 100,
    "log_interval": 100,
    "checkpoint_interval": 100,
    "learning_starts": 4,
    "batch_size": 8,
    "actor_widths": (64, 64),
    "critic_widths": (64, 64),
    "encoder_widths": (64, 64),
    "code_size": 64,
    "encoder_batch": 8,
}
EVALUATIONS = {"eval_episodes": 1, "eval_source_episodes": 1, "final_episodes": 1}
train_for_real = training.start


def in_small(run: RunConfig) -> RunConfig:
    less = LESS | (EVALUATIONS if run.schedule.eval_episodes else {})
    parts = {name: getattr(run, name) for name in ("schedule", "sac", "hyper")}
    return dataclasses.replace(
        run,
        **{
            name: dataclasses.replace(part, **{key: value for key, value in less.items() if hasattr(part, key)})
            for name, part in parts.items()
        },
    )


def start(runs: Sequence[RunConfig], out: Path, **options: Any) -> list[RunFolder]:
    """The first run of those asked for, in small."""
    return train_for_real([in_small(runs[0])], out, **options)


@pytest.mark.parametrize("page", ["worked-example.md", "custom-environments.md"])
def test_what_the_page_says_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "start", start)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (code,) = [b.code for b in pages.blocks(DOCS / "worked-example.md") if b.code.startswith(FILE)]
    (tmp_path / "pendulums.py").write_text(code)
    ran = 0
    for command in pages.commands(DOCS / page):
        if command.why_not is None:
            words = [*command.words[1:], *(["--episodes", "1"] if "evaluate" in command.words else [])]
            assert command.words[0] == "offdyn"
            assert main(words) == 0, f"{command}\n{capsys.readouterr().err}"
            ran += 1
    for block in pages.blocks(DOCS / page):
        if block.language == "python" and not block.code.startswith(FILE):
            exec(compile(block.code, f"{page}:{block.line}", "exec"), {"__name__": "page"})
            ran += 1
    assert ran >= 3
    if page == "worked-example.md":
        assert (tmp_path / "pendulum-report" / "index.html").exists()
        assert (tmp_path / "heavy-pendulum" / "policy.py").exists()
