"""Real processes on a real robot, ended by real signals: what is resumed ends with the same bytes.

Here the default method: PAR and VGDF in the long suite, every method within a process in test_resume_methods.py.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .small import SHORT, differing, outcome

SETTINGS = (
    "--task hopper-broken-joints --seeds 0 1 --head-start 1000 --domain-input flag --target-steps 200 "
    "--eval-interval 500 --eval-episodes 2 --checkpoint-interval 50 --set learns_from=both actor_widths=8 "
    "critic_widths=8,8 batch_size=8 learning_starts=8 random_steps=30 log_interval=100 final_episodes=2 "
    "eval_source_episodes=1"
)
ASKED = SETTINGS.split()
PAR = f"--task hopper-big-head --method par --seeds 0 1 {SHORT}".split()
SHARED = " ".join(word for word in SHORT.split() if not word.startswith(("encoder_", "code_size")))
ENSEMBLE = "ensemble_widths=8 ensemble_batch=8 optimist_widths=8 members=3 warm_up=500"
VGDF = f"--task hopper-broken-joints --method vgdf --seeds 0 1 {SHARED} {ENSEMBLE}".split()
PATIENCE = 240.0  # seconds for a process on a busy machine

pytestmark = pytest.mark.usefixtures("compiled_as_by_users")


def begin(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "offdyn", *arguments, "--threads", "1"]
    surroundings = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=surroundings)


def finish(process: "subprocess.Popen[str]") -> str:
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    return said


def checkpoints(out: Path) -> Callable[[], tuple[str, ...]]:
    """The manifests as they are now: they change with every checkpoint."""

    def look() -> tuple[str, ...]:
        return tuple(path.read_text() for path in out.glob("cohorts/*/manifest.json"))

    return look


def writing(out: Path) -> Iterator[Path]:
    return out.glob("cohorts/*/step-*.tmp/*")


def end(process: "subprocess.Popen[str]", out: Path, number: int, when: Callable[[], bool]) -> int:
    """Send a signal once it has made a checkpoint of its own and `when` holds; its exit code."""
    look = checkpoints(out)
    before, deadline = look(), time.monotonic() + PATIENCE
    while look() == before or not when():
        assert process.poll() is None, f"ended too early: {process.communicate()[1]}"
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    return process.returncode


def after(seconds: float) -> Callable[[], bool]:
    """True so long after it was first asked."""
    began: list[float] = []

    def passed() -> bool:
        began.append(time.monotonic())
        return began[-1] - began[0] >= seconds

    return passed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, compiled_as_by_users: None) -> Path:
    """The training that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    finish(begin("train", *ASKED, "--out", str(out)))
    return out


def test_a_training_ended_by_every_signal_in_turn_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dice = random.Random()
    moment = dice.uniform(0.0, 0.3)
    first = begin("train", *ASKED, "--out", str(out))
    assert end(first, out, signal.SIGKILL, after(0.0)) == -signal.SIGKILL  # while actions are random still
    assert end(begin("resume", str(out)), out, signal.SIGKILL, after(moment)) == -signal.SIGKILL, moment
    assert end(begin("resume", str(out)), out, signal.SIGINT, after(0.05)) == 75
    assert end(begin("resume", str(out)), out, signal.SIGTERM, after(0.05)) == 75
    within_a_checkpoint = end(begin("resume", str(out)), out, signal.SIGKILL, lambda: any(writing(out)))
    assert within_a_checkpoint == -signal.SIGKILL
    said = finish(begin("resume", str(out)))
    assert "resumed at step" in said
    assert differing(outcome(whole), outcome(out)) == [], moment


@pytest.fixture
def hangup_counts() -> Iterator[None]:
    """Also where these tests run under nohup, which their processes would inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_counts")
def test_a_training_whose_terminal_closes_saves_itself_and_ends_with_the_same_bytes(
    whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert end(begin("train", *ASKED, "--out", str(out)), out, signal.SIGHUP, after(0.0)) == 75
    finish(begin("resume", str(out)))
    assert differing(outcome(whole), outcome(out)) == []


def test_a_training_under_nohup_outlives_its_terminal() -> None:
    code = "import signal; from offdyn.training.progress import stop_on_signals; stop = stop_on_signals(); "
    code += "signal.raise_signal(signal.SIGHUP); print(stop.wanted)"
    said = subprocess.run(["nohup", sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.slow
@pytest.mark.parametrize("asked", [ASKED, PAR, VGDF], ids=["head-start", "par", "vgdf"])
def test_a_training_killed_at_many_random_moments_ends_with_the_same_bytes(asked: list[str], tmp_path: Path) -> None:
    dice, whole = random.Random(), tmp_path / "whole"
    finish(begin("train", *asked, "--out", str(whole)))
    for attempt in range(4):
        out = tmp_path / f"out-{attempt}"
        moments = [dice.uniform(0.0, 0.6) for _ in range(3)]
        process = begin("train", *asked, "--out", str(out))
        for moment in moments:
            end(process, out, signal.SIGKILL, after(moment))
            process = begin("resume", str(out))
        finish(process)
        assert differing(outcome(whole), outcome(out)) == [], moments


@pytest.mark.slow
def test_a_training_killed_before_its_first_checkpoint_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = begin("train", *ASKED, "--out", str(out))
    while not list(out.glob("cohorts/*/cohort.json")):
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    finish(begin("resume", str(out)))
    assert differing(outcome(whole), outcome(out)) == []
