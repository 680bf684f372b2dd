"""The command `offdyn completion`: a script with every command, flag and name, so that a shell asks nobody at a TAB."""

import argparse
import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

DONE = 0
USE = {
    "bash": "add `source <(offdyn completion bash)` to ~/.bashrc",
    "zsh": "add `source <(offdyn completion zsh)` to ~/.zshrc, below compinit",
    "fish": "offdyn completion fish > ~/.config/fish/completions/offdyn.fish",
}
FRONTS = {
    "bash": """_offdyn() {
    local word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=($(compgen -W "$(_offdyn_offer "${COMP_WORDS[@]:1:COMP_CWORD}")" -- "$word"))
}
complete -o default -F _offdyn offdyn
""",
    "zsh": """_offdyn() {
    local offered="$(_offdyn_offer "${(@)words[2,CURRENT]}")"
    if [[ -n $offered ]]; then compadd -- ${(f)offered}; else _files; fi
}
compdef _offdyn offdyn
""",
}
ALSO_FILES = ("--task", "--source-data")  # flags that take a file in place of a name
# What is typed so far, the word under way last, in letters that every shell of the family reads.
OFFER = """_offdyn_offer() {{
    local command= flag= given=0
    while [ $# -gt 1 ]; do
        case "$1" in
        -*) flag=$1 given=0 ;;
        *)
            given=$((given + 1))
            case "${{command:+$command }}$1" in
            {commands}) if [ -z "$flag" ]; then command="${{command:+$command }}$1" given=0; fi ;;
            esac
            ;;
        esac
        shift
    done
    case "$1" in -*) flag=- ;; esac
    case "$command|$flag|$given" in
{cases}
    esac
}}
"""


@dataclass(frozen=True)
class Flag:
    """One flag of a command."""

    names: Sequence[str]
    help: str
    takes: str  # "", "one" or "many" values
    values: Sequence[str]  # where they are known


@dataclass(frozen=True)
class Command:
    """A command, or one of its own: what may follow it."""

    path: str
    help: str
    values: Sequence[str]  # of what stands without a flag
    flags: Sequence[Flag]
    inner: Sequence["Command"]

    def all(self) -> Iterator["Command"]:
        yield self
        for one in self.inner:
            yield from one.all()


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=tuple(USE), metavar="SHELL", help=f"{', '.join(USE)}")
    command.epilog = "\n".join(f"{shell}: {how}" for shell, how in USE.items())
    command.formatter_class = argparse.RawDescriptionHelpFormatter


def run(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    print(script(asked.shell, parser), end="")
    return DONE


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """All that this parser takes, for this shell."""
    root = command_of(parser, known_values())
    said = f"# {parser.prog} in {shell}: {USE[shell]}\n"
    return said + (_fish(root) if shell == "fish" else _offer(root) + FRONTS[shell])


def known_values() -> dict[str, list[str]]:
    """Names that can be told beforehand, by what the parser calls the argument."""
    from ..algos.backbones import BACKBONES
    from ..algos.registry import RECIPES
    from ..algos.sac import Sac
    from ..data.datasets.opening import QUALITIES
    from ..envs.pairs import WORLDS
    from ..envs.robots import ROBOTS
    from ..envs.tasks import table
    from ..studies.backends import BACKENDS
    from ..studies.study import shipped
    from ..training.config import Schedule

    choices = {
        field.name: list(field.metadata["choices"])
        for settings in (Sac, Schedule)
        for field in dataclasses.fields(settings)
        if "choices" in field.metadata
    }
    tasks = [*(str(row["task"]) for row in table()), *WORLDS]
    datasets = [f"{robot}-{quality}" for robot in ROBOTS for quality in QUALITIES]
    presets = dict.fromkeys(preset for recipe in RECIPES.values() for preset in recipe.method.presets)
    return choices | {
        "task": tasks,
        "wanted": [*tasks, *datasets],
        "method": list(RECIPES),
        "preset": list(presets),
        "backbone": list(BACKBONES),
        "robot": list(ROBOTS),
        "robots": list(ROBOTS),
        "source_data": datasets,
        "names": datasets,
        "study": list(shipped()),
        "backend": list(BACKENDS),
    }


def command_of(parser: argparse.ArgumentParser, known: Mapping[str, Sequence[str]], path: str = "") -> Command:
    """A parser and those within it, as a shell has to know them."""
    flags, values, inner = [], list[str](), list[Command]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, one in action.choices.items():
                made = command_of(one, known, f"{path} {name}".strip())
                inner.append(dataclasses.replace(made, help=helps.get(name, "")))
            continue
        names = list(map(str, action.choices or known.get(action.dest, ())))
        if action.option_strings:
            takes = "" if action.nargs == 0 else "many" if action.nargs == "+" else "one"
            flags.append(Flag(action.option_strings, action.help or "", takes, names))
        else:
            values += names
    return Command(path, "", [*values, *(one.path.split()[-1] for one in inner)], flags, inner)


def _offer(root: Command) -> str:
    cases = "\n".join(line for command in root.all() for line in _cases(command))
    return OFFER.format(commands=" | ".join(shlex.quote(one.path) for one in root.all() if one.path), cases=cases)


def _cases(command: Command) -> Iterator[str]:
    """Flags whose values are known, those whose values are not, then what needs no flag."""

    def case(pattern: str, words: Sequence[str]) -> str:
        return f"    {pattern}) printf '%s\\n' {' '.join(map(shlex.quote, words))} ;;"

    yield case(f'"{command.path}|-|"*', [name for flag in command.flags for name in flag.names])
    for flag in command.flags:
        given = "*" if flag.takes == "many" else "0"
        patterns = " | ".join(f'"{command.path}|{name}|"{given}' for name in flag.names)
        if flag.takes and flag.values:
            yield case(patterns, flag.values)
        elif flag.takes:
            yield f"    {patterns}) ;;"
    if command.values:
        yield case(f'"{command.path}|"*', command.values)


def _fish(root: Command) -> str:
    return "".join(f"{line}\n" for command in root.all() for line in _fish_lines(command))


def _fish_lines(command: Command) -> Iterator[str]:
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.path.split()]
    begin = f"complete -c offdyn -n {_quoted('; and '.join(seen) or '__fish_use_subcommand')}"
    helps = {one.path.split()[-1]: one.help for one in command.inner}
    for word in command.values:
        yield f"{begin} {'-f ' * (word in helps)}-a {_quoted(word)}{_described(helps.get(word, ''))}"
    for flag in command.flags:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
        alone = "-r" if flag.names[0] in ALSO_FILES else "-x"
        values = f" {alone} -a {_quoted(' '.join(flag.values))}" if flag.values else " -r" * bool(flag.takes)
        yield f"{begin} {names}{values}{_described(flag.help)}"


def _described(text: str) -> str:
    return f" -d {_quoted(text.replace('%%', '%'))}" if text else ""


def _quoted(text: str) -> str:
    """As fish reads it: a backslash before its two special letters, within single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
