"""What must hold on a GPU: processes agree to the last bit, so that a resume leaves no trace there either."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("compiled_as_by_users"),
    pytest.mark.skipif(jax.default_backend() != "gpu", reason="no GPU here"),
]
TRAIN = ["--task", "halfcheetah-no-thighs", "--seeds", "0", "1", "--source-steps", "6000", "--eval-interval", "2000"]
TRAIN += ["--eval-episodes", "1", "--checkpoint-interval", "1000", "--set", "final_episodes=1"]


def offdyn(*arguments: str, cache: Path, **kwargs: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", "offdyn", *arguments]
    return subprocess.run(command, env=environment, text=True, capture_output=True, **kwargs)  # type: ignore[call-overload]


def test_a_run_killed_on_a_gpu_and_resumed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert offdyn("train", *TRAIN, "--out", str(whole), cache=tmp_path).returncode == 0
    with pytest.raises(subprocess.TimeoutExpired):  # which kills the process with SIGKILL
        offdyn("train", *TRAIN, "--out", str(broken), cache=tmp_path, timeout=_moment_after_a_checkpoint(tmp_path))
    assert list(broken.glob("cohorts/*/manifest.json")), "it was killed before its first checkpoint"
    assert offdyn("resume", str(broken), cache=tmp_path).returncode == 0
    for path in sorted(whole.glob("*/*.safetensors")):
        assert path.read_bytes() == (broken / path.relative_to(whole)).read_bytes(), path.name


def _moment_after_a_checkpoint(tmp_path: Path) -> float:
    """Seconds after which a run like these, its programs compiled, has checkpointed and not ended yet."""
    import time

    started = time.perf_counter()
    timed = tmp_path / "timed"
    assert offdyn("train", *TRAIN, "--out", str(timed), cache=tmp_path).returncode == 0
    return 0.75 * (time.perf_counter() - started)
