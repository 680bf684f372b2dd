"""The last edge: what nobody foresaw is one sentence and a file, and a user's mistake never gets there."""

import sys
from pathlib import Path

import pytest

from offdyn.cli import main as cli
from offdyn.cli.main import main
from offdyn.cli.parser import MISTAKE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def crashes(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def list_all(asked: object) -> int:
        raise error

    monkeypatch.setattr(cli, "list_all", list_all)
    return main(["list", "--json"])


@pytest.mark.parametrize("error", [TypeError("two\nlines"), SystemExit(0), MemoryError(), OSError("no name")])
def test_an_unforeseen_error_is_one_sentence_and_a_file(
    error: BaseException, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crashes(error, monkeypatch) == 70
    said = capsys.readouterr().err
    (file,) = here.glob("offdyn-crash-*.txt")
    assert said.count("\n") == 1
    assert str(file) in said
    assert "Traceback" not in said
    written = file.read_text()
    assert "command: offdyn list --json" in written
    assert "numpy" in written
    assert type(error).__name__ in written


def test_a_crash_where_nothing_can_be_written_says_all_it_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from offdyn.cli import crash

    monkeypatch.setattr(crash.Path, "cwd", lambda: Path("/proc/nowhere"))
    monkeypatch.setattr(crash.tempfile, "gettempdir", lambda: "/proc/nowhere")
    assert crashes(TypeError("lost"), monkeypatch) == 70
    assert "TypeError: lost" in capsys.readouterr().err


def test_a_file_that_cannot_be_had_is_a_mistake(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crashes(PermissionError(13, "Permission denied", "there"), monkeypatch) == MISTAKE
    assert capsys.readouterr().err == "offdyn: there: Permission denied\n"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("source", ["sys:exit", "leaves:make"])
def test_a_factory_or_module_that_exits_does_not_end_the_program_well(
    source: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(here)
    code = main(["train", "--source", source, "--target", "Pendulum-v1", "--out", "runs"])
    sys.modules.pop("leaves", None)
    assert code == MISTAKE
    assert f"source {source}" in capsys.readouterr().err
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--task", "jetpack", "--method", ""],
        ["train", "--task", "jetpack", "--out", ""],
        ["train", "--task", ""],
        ["train", "--task", "jetpack", "--set", ""],
        ["train", "--task", "jetpack", "--penalty="],
        ["resume", ""],
        ["evaluate", ""],
        ["check", ""],
        ["report", "", "--out", "there"],
        ["collect", ""],
    ],
)
def test_an_empty_value_is_refused(arguments: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == MISTAKE
    assert "expected a value, got an empty one" in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_what_no_terminal_can_show_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Odd:
        fatal = False

        def __str__(self) -> str:
            return "named a\ud800b"

    monkeypatch.setattr("offdyn.data.doctor.report.examine", lambda *asked: Odd())
    assert main(["check", "anything"]) == 0
    assert capsys.readouterr().out == "named a\\ud800b\n"
