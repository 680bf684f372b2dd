"""The commands and the Python of the page on custom environments run, and the notebook; trainings in small."""

import dataclasses
import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offdyn.cli.main import main
from offdyn.training import trainer as training
from offdyn.training.config import RunConfig
from offdyn.training.run_folder import RunFolder

pages = importlib.import_module("tests.docs.pages")
PAGE = Path(__file__).parents[2] / "docs" / "custom-environments.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALLER = {"evaluate": ["--episodes", "1"], "video": ["--steps", "3"]}
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
    less |= {"head_start": min(run.schedule.head_start, 100)}
    parts = {name: getattr(run, name) for name in ("schedule", "sac", "hyper")}
    return dataclasses.replace(
        run,
        **{
            name: dataclasses.replace(part, **{key: value for key, value in less.items() if hasattr(part, key)})
            for name, part in parts.items()
        },
    )


def start(runs: Sequence[RunConfig], out: Path, **options: Any) -> list[RunFolder]:
    """The first run of each method asked for, in small."""
    first = {run.method: run for run in reversed(runs)}
    return train_for_real([in_small(run) for run in reversed(first.values())], out, **options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the examples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def small_trainings(monkeypatch, shared_programs):
    monkeypatch.setattr(training, "start", start)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def test_what_the_page_says_runs(folder, small_trainings, capsys):
    ran = 0
    for command in pages.commands(PAGE):
        if command.why_not is None:
            words = [named for word in command.words[1:] for named in existing(word)]
            assert command.words[0] == "offdyn"
            assert main(words + SMALLER.get(words[0], [])) == 0, f"{command}\n{capsys.readouterr().err}"
            ran += 1
    for block in pages.blocks(PAGE):
        if block.language == "python" and block.code not in (EXAMPLES / "pendulums.py").read_text():
            exec(compile(block.code, f"{PAGE.name}:{block.line}", "exec"), {"__name__": "page"})
            ran += 1
    assert ran >= 12
    assert (folder / "pendulum-report" / "index.html").exists()
    assert (folder / "worn-pendulum" / "policy.py").exists()
    assert (folder / "learned.gif").stat().st_size > 1000


def existing(word: str) -> list[str]:
    """As a shell has it: the files that a pattern means."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def test_the_notebook_runs_from_its_first_cell_to_its_last(folder, small_trainings, capsys):
    cells = json.loads((EXAMPLES / "sim_to_sim.ipynb").read_text())["cells"]
    names = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            if "parameters" in cell["metadata"].get("tags", ()):
                names["settings"]["seeds"], names["episodes"] = [0], 1
    assert capsys.readouterr().out.count("seeds [") == 8
    assert all((folder / film).stat().st_size > 1000 for film in ("as-it-is.gif", "learned.gif"))


def test_the_notebook_holds_no_outputs():
    cells = json.loads((EXAMPLES / "sim_to_sim.ipynb").read_text())["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")


def test_friction_stops_a_pendulum_that_would_swing_on(folder):
    """Over 20 s without a motor: what friction takes of the energy, and that the simulator takes none."""
    example = importlib.import_module("pendulums")
    fastest = {}
    for made in (example.simulator, example.machine):
        env = made()
        env.reset(seed=0)
        env.unwrapped.state = np.array([np.pi - 0.5, 0.0])
        speeds = [abs(env.step(np.zeros(1, np.float32))[0][2]) for _ in range(400)]
        fastest[made.__name__] = max(speeds[-40:])
    assert fastest["machine"] < 0.1 < 1.0 < fastest["simulator"]


def test_the_machine_obeys_two_steps_late_and_with_seven_tenths_of_its_torque(folder):
    env = importlib.import_module("pendulums").machine()
    env.reset(seed=0)
    obeyed = []
    for _ in range(3):
        env.step(np.array([2.0], np.float32))
        obeyed.append(float(env.unwrapped.last_u))
    assert obeyed == pytest.approx([0.0, 0.0, 1.4])
