"""What these tests share: one world by name, and one training that nothing disturbed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from offdyn.envs import pairs

from . import small


@pytest.fixture(scope="module", autouse=True)
def programs(made_once: None) -> None:
    """Each program is traced and compiled once."""


@pytest.fixture(scope="session", autouse=True)
def known_world(shared_programs: None) -> Iterator[None]:
    """A resume finds the world by its name."""
    pairs.WORLDS[small.PUSH.name] = small.PUSH
    yield
    del pairs.WORLDS[small.PUSH.name]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of PAR that ran from beginning to end; for reading only."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    small.train(small.two_runs(), out, keep_replay=True)
    return out


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that were stopped at step 315, fifteen steps after a checkpoint."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    small.train(small.two_runs(), out, stop_at=315)
    return out


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    shutil.copytree(stopped, tmp_path / "out")
    return tmp_path / "out"
