"""What a shell offers at a TAB: commands, flags and names, from a script alone."""

import shlex
import subprocess

import pytest

from offdyn.algos.registry import RECIPES
from offdyn.cli.completion import Command, command_of, known_values, script
from offdyn.cli.main import main, parser

NO_PROGRAMS = {"PATH": "/nonexistent"}  # whatever a script starts, it does not find


@pytest.fixture(scope="module")
def in_bash() -> str:
    return script("bash", parser())


def offered(in_bash: str, typed: str) -> list[str]:
    """What bash offers behind these words, the last of which is not finished."""
    words = ["offdyn", *typed.split(" ")]
    asked = (
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _offdyn; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"{in_bash}\n{asked}"],
        env=NO_PROGRAMS,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("tr", ["train"]),
        ("train --metho", ["--method"]),
        ("train --method vgdf", ["vgdf", "vgdf+bc"]),
        ("train --method par sac-tar", ["sac-tar", "sac-tar-10"]),
        ("train --task hopper-big-head walker-b", ["walker-broken-right-foot"]),
        ("train --task hopper --backbone s", ["simba"]),
        ("train --backbone simba s", []),
        ("train --preset rel", ["released"]),
        ("train --seeds ", []),
        ("study pl", ["plan"]),
        ("study plan onl", ["online"]),
        ("check --json hopper-medium-r", ["hopper-medium-replay"]),
        ("tune --trials ", []),
        ("tune --trials 4 jet", ["jetpack"]),
        ("completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_offers_what_fits_and_starts_no_program(in_bash: str, typed: str, expected: list[str]) -> None:
    assert offered(in_bash, typed) == expected


def every_command() -> list[Command]:
    return list(command_of(parser(), known_values()).all())


def test_every_flag_of_every_command_is_offered_by_any_shell_of_the_family() -> None:
    """As a plain sh reads it, which knows neither bash nor zsh."""
    common = script("zsh", parser()).partition("_offdyn() {")[0]
    for command in every_command():
        done = subprocess.run(
            ["/bin/sh", "-c", f"{common}\n_offdyn_offer {command.path} -"], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [name for flag in command.flags for name in flag.names], command.path
        assert "--help" in done.stdout


def test_fish_has_a_line_for_every_flag_with_the_names_it_takes() -> None:
    lines = script("fish", parser()).splitlines()
    for command in every_command():
        for name in (name for flag in command.flags for name in flag.names if name.startswith("--")):
            assert any(f" -l {name[2:]} " in f"{line} " and command.path.split(" ")[-1] in line for line in lines), name
    methods = next(line for line in lines if " -l method " in line)
    assert all(method in shlex.split(methods)[shlex.split(methods).index("-a") + 1].split() for method in RECIPES)


def test_the_command_prints_the_script_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == script(shell, parser())
    assert main(["completion", "fsh"]) == 2
    assert "did you mean 'fish'" in capsys.readouterr().err
