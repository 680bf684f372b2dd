"""Starting is quick: nothing slow is imported before it is needed, and compiled programs are found again."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from offdyn.bench.update_loop import UpdateLoop
from offdyn.training import hardware
from offdyn.training.hardware import keep_programs, make_room

from .training.small import SMALL_NETWORKS, StopAt

IMPORTED = "import sys, offdyn; print(any(name.partition('.')[0] == 'jax' for name in sys.modules))"
HELP = """
import sys
from offdyn.cli.main import main
try:
    main(["--help"])
finally:
    print("jax" in sys.modules)
"""


@pytest.mark.parametrize("script", [IMPORTED, HELP])
def test_importing_and_asking_for_help_do_not_start_jax(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user's empty cache folder, as of a process that has not compiled yet."""
    from jax.experimental.compilation_cache import compilation_cache

    limits = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
    names = ("jax_compilation_cache_dir", *limits)
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def learned() -> list[bytes]:
    """All that two small runs hold after their first updates."""
    learner = UpdateLoop(2, method="sac", robot="hopper", rows=64, settings=SMALL_NETWORKS | {"batch_size": 8})
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(learner.state)]


def test_programs_from_the_cache_compute_the_same_bits(own_cache: Path) -> None:
    keep_programs(StopAt())
    fresh = learned()
    kept = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*-cache")}
    assert any("learn" in path.name for path in kept)
    assert learned() == fresh  # to JAX, the functions of another learner are new
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("*-cache")} == kept, "compiled again"


def test_a_cache_that_cannot_be_used_costs_a_notice(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_cache.write_text("a file where the folder should be")
    watcher = StopAt()
    keep_programs(watcher)
    own_cache.unlink()
    monkeypatch.setattr(Path, "write_bytes", _no_room)
    keep_programs(watcher)
    assert len(watcher.said) == 2
    assert all("cannot be kept" in text and "compiles anew" in text for text in watcher.said)
    assert not jax.config.jax_compilation_cache_dir
    assert not list(own_cache.rglob("trial-*"))


def _no_room(path: Path, content: bytes) -> None:
    path.touch()
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_jax_own_settings_hold(own_cache: Path, tmp_path: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "elsewhere"))
    keep_programs(StopAt())
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "elsewhere")
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        keep_programs(StopAt())
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    assert not own_cache.exists()


def test_what_was_not_used_for_longest_leaves_the_cache(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    make_room(tmp_path, largest=2000)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "middle"}


def test_another_processor_has_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    here = hardware.cache_folder()
    monkeypatch.setattr(hardware, "_processor", lambda: "another")
    assert hardware.cache_folder() != here
