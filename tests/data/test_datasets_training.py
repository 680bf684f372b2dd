"""A file in D4RL's format, all the way: written, checked, and trained on."""

from pathlib import Path

import pytest

import offdyn
from offdyn.cli.main import main
from offdyn.training.cohort import Cohort

from .simulated import simulated, write_d4rl

SMALL = {
    "actor_widths": 8,
    "critic_widths": 8,
    "encoder_widths": 8,
    "code_size": 8,
    "encoder_batch": 8,
    "batch_size": 8,
}


def test_a_d4rl_file_is_checked_and_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dataset = simulated("hopper")
    file = write_d4rl(tmp_path / "hopper_random-v2.hdf5", dataset, without=("next_observations",))
    assert main(["check", str(file)]) == 0
    runs, _ = offdyn.plan(
        "hopper-big-head", "par", source_data=str(file), learning_starts=8, source_steps=2000, **SMALL
    )
    cohort = Cohort(runs, threads=1)
    assert len(cohort.source_data.rows) == (~dataset.truncated).sum()
    for _ in range(12):
        cohort.tick()
    assert cohort.updates > 0
    assert not cohort.failures
