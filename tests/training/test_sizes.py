"""Absurd sizes are refused in words, before anything is made or written."""

from pathlib import Path

import pytest

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.training import hardware
from offdyn.training.config import build


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--set batch_size=99999999999999", "batch_size: expected at most 1000000, got 99999999999999"),
        ("--set updates_per_target_step=1e12", "updates_per_target_step: expected at most 1000000, or none"),
        ("--set updates_per_step=1e12", "updates_per_target_step: expected at most 1000000, or none"),
        ("--set target_steps=1e300", "target_steps: expected at most 1000000000"),
        ("--set target_steps=1e9", "target_steps: expected at most 2147483647 source steps and updates in all"),
        ("--set source_steps=1e18", "target_steps: expected at most"),
        ("--set actor_widths=1000000000", "actor_widths: expected one or more widths"),
        (f"--set actor_widths={','.join(1000 * '8')}", "actor_widths: expected one or more widths"),
        ("--set code_size=1e9", "code_size: expected at most 65536"),
        ("--set critics=1e9", "critics: expected at most 1000"),
        ("--set critic_learning_rate=1e300", "critic_learning_rate: expected at most 1e+30"),
        ("--set eval_episodes=1e9", "eval_episodes: expected at most 10000"),
        ("--set objective=nonsense", "objective: expected par or par-b, got 'nonsense'"),
        (f"--set batch_size={5000 * '9'}", "batch_size: expected a whole number"),
        ("--threads 12345678901234567890123456", "--threads: expected a whole number from 1 to 4096"),
    ],
)
def test_an_absurd_setting_is_refused_and_nothing_is_left(
    asked: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--task", "hopper-big-head", "--method", "par", *asked.split()]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told) < 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", ["hopper-gravity-1e30", "hopper-gravity-1e999", "hopper-mass-1e-30"])
def test_a_shift_beyond_any_robot_is_refused(task: str) -> None:
    with pytest.raises(OffdynError, match=r"the factor must be from 1e-06 to 1e\+06"):
        build(task)


@pytest.mark.parametrize(
    "settings",
    [
        {"actor_widths": "65536x65536x65536"},
        {"critic_widths": (65536,) * 64, "critics": 1000},
        {"code_size": 65536, "encoder_widths": "65536x65536"},
        {"batch_size": 10**6},
        {"encoder_batch": 10**6},
    ],
)
def test_networks_and_batches_are_counted_before_they_are_made(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda: 4 * 2**30)
    ordinary = [build("hopper-big-head", "par", seed=seed)[0] for seed in range(5)]
    hardware.check_memory(ordinary)
    with pytest.raises(
        OffdynError, match=r"networks of 1 runs and their batches need [\d.]+ GiB, this .* lower widths"
    ):
        hardware.check_memory([build("hopper-big-head", "par", settings=settings)[0]])
