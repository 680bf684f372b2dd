"""Jobs side by side on one GPU: the service that lets them is started for them and ended after them."""

import os
from pathlib import Path

import pytest

from offdyn.studies import sharing


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a GPU and a service that writes down what it is asked, and where."""
    folder = tmp_path / "bin"
    folder.mkdir()
    service = folder / sharing.SERVICE
    service.write_text(f'#!/bin/sh\necho "$1 $(cat) ${sharing.PIPES}" >> {tmp_path}/asked\n')
    service.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv(sharing.PIPES, raising=False)
    monkeypatch.setattr(sharing, "gpu_is_there", lambda: True)
    return tmp_path


def asked(machine: Path) -> list[list[str]]:
    file = machine / "asked"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def test_the_service_runs_while_the_jobs_do(machine: Path) -> None:
    said: list[str] = []
    with sharing.shared(3, said.append) as environment:
        pipes = environment[sharing.PIPES]
        assert asked(machine) == [["-d", pipes]]
        assert Path(pipes).is_dir()
        assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert environment[sharing.JOBS_AT_ONCE] == "3"
    assert asked(machine)[1:] == [["quit", pipes]]
    assert not Path(pipes).exists()
    assert said == []


def test_it_ends_where_a_job_breaks_its_driver(machine: Path) -> None:
    with pytest.raises(ZeroDivisionError), sharing.shared(2, lambda text: None):
        _ = 1 / 0
    assert [words[0] for words in asked(machine)] == ["-d", "quit"]


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_started_for_one_job_or_beside_a_service_of_the_users(
    machine: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if workers > 1:
        monkeypatch.setenv(sharing.PIPES, "/somewhere/else")
    with sharing.shared(workers, lambda text: None) as environment:
        assert sharing.PIPES not in environment
    assert asked(machine) == []


def test_without_the_service_or_where_it_fails_the_jobs_run_all_the_same(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    (machine / "bin" / sharing.SERVICE).write_text("#!/bin/sh\necho no such device >&2\nexit 3\n")
    with sharing.shared(2, said.append) as environment:
        assert sharing.PIPES not in environment
    assert "no such device" in said[0]
    (machine / "bin" / sharing.SERVICE).unlink()
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with sharing.shared(2, said.append):
        assert "was not found" in said[1]


def test_a_processor_gets_one_job_at_a_time_and_a_gpu_four(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, workers in ((True, 4), (False, 1)):
        monkeypatch.setattr(sharing, "gpu_is_there", lambda there=there: there)
        assert sharing.default_workers() == workers


def test_without_a_gpu_nothing_is_changed_for_the_jobs(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "gpu_is_there", lambda: False)
    with sharing.shared(3, lambda text: None) as environment:
        assert environment == {}
    assert asked(machine) == []
