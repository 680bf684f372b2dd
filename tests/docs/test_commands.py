"""Every command of README.md and docs/ runs as it stands, in small, or its page says why it does not."""

import argparse
import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from offdyn.algos.backbones import BACKBONES
from offdyn.cli.main import parser
from offdyn.cli.study import _asked_for
from offdyn.studies.run import planned

from ..envs.test_picture import says_what_to_install
from .pages import PAGES, ROOT, blocks, commands, spans
from .small_shell import Shell

# Pages whose commands, or whose Python, another test runs.
RUN_BY = {
    "docs/custom-environments.md": "tests/custom/test_pages.py",
}
PYTHON_RUN_BY = RUN_BY | {
    "docs/datasets.md": "tests/data/test_datasets_page.py",
}

WRITTEN = [command for page in PAGES for command in commands(page)]
HERE = [command for command in WRITTEN if command.why_not is None and command.page not in RUN_BY]
OFFDYN = [command for command in WRITTEN if command.words[0] == "offdyn" and command.page not in RUN_BY]
PYTHON = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "python" and block.why_not("") is None and block.page not in PYTHON_RUN_BY
]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, made_once: None) -> Iterator[Shell]:
    backbones = dict(BACKBONES)
    with pytest.MonkeyPatch.context() as patch:
        yield Shell(tmp_path_factory.mktemp("pages"), patch)
    BACKBONES.clear()
    BACKBONES.update(backbones)  # without those that a page has registered


def test_a_command_that_no_test_runs_says_why() -> None:
    assert [str(command) for command in HERE if command.words[0] != "offdyn"] == []


def test_a_test_that_a_reason_names_exists() -> None:
    """By its function: a file alone would leave open whether anything in it does what the page says."""
    reasons = {why for page in PAGES for block in blocks(page) for _, why in block.not_run}
    for reason in reasons:
        for file, function in re.findall(r"(tests/[\w/]+(?:\.py)?)(?:::(\w+))?", reason):
            assert function, f"{reason}: which test of {file}?"
            assert f"def {function}(" in (ROOT / file).read_text(), reason


@pytest.mark.parametrize("page", sorted({one.page for one in (*HERE, *PYTHON)}))
def test_what_a_page_says_runs(page: str, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands first, then Python, which often looks at what they made."""
    shell.enter(page)
    for command in (command for command in HERE if command.page == page):
        code, said = shell.run(command.words), capsys.readouterr().err
        if "cannot render" in said and says_what_to_install():
            continue  # no OpenGL on this machine, which the command has said
        assert code == 0, f"{command}\n{said}"
    for block in (block for block in PYTHON if block.page == page):
        exec(compile(block.code, f"{block.page}:{block.line}", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", sorted({command.page for command in OFFDYN}))
def test_what_a_page_asks_for_can_be_asked_for(page: str, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it takes hours: flags, tasks, methods, presets, settings and studies are right; nothing is trained."""
    shell.enter(page)
    for command in [command for command in OFFDYN if command.page == page and "--version" not in command.words]:
        try:
            asked = parser().parse_args(command.words[1:])
        except SystemExit:
            pytest.fail(f"{command}\n{capsys.readouterr().err}")
        if asked.command == "train":
            assert shell.pretend(command.words) == 0, f"{command}\n{capsys.readouterr().err}"
        elif asked.command == "study" and asked.action != "list":
            study, wanted, _ = _asked_for(asked)
            few = () if study.name == "demo" else ("hopper",)  # all of the others would take seconds
            some = dataclasses.replace(wanted, seeds=(0,), only=wanted.only or few)
            assert planned(study, some, Path("nowhere"))[0].runs


def test_a_command_mentioned_in_passing_exists_with_its_flags() -> None:
    unknown = []
    for mentioned in [mention for page in PAGES for mention in spans(page)]:
        known, flags = deepest(parser(), mentioned.words[1:])
        if not known or any(word.startswith("--") and word not in flags for word in mentioned.words):
            unknown.append(str(mentioned))
    assert unknown == []


def deepest(command: argparse.ArgumentParser, words: Sequence[str]) -> tuple[bool, set[str]]:
    """Whether the words begin with a command of this parser, or with none at all, and the flags it takes."""
    choices = [action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    if choices and words and not words[0].startswith("-"):
        wanted = [choices[0].get(word) for word in words[0].split("|")]
        return (False, set()) if None in wanted else deepest(wanted[0], words[1:])
    return True, {flag for action in command._actions for flag in action.option_strings}


@pytest.mark.parametrize(("page", "test"), PYTHON_RUN_BY.items())
def test_a_page_that_another_test_runs_is_named_there(page: str, test: str) -> None:
    assert (ROOT / page).is_file()
    assert Path(page).name in (ROOT / test).read_text()
