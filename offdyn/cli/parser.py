"""How every command reads its arguments: one sentence for each mistake, with the nearest word that is known."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .._util.errors import near, shown

MISTAKE = 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; `{self.prog} --help` shows what can be asked for", file=sys.stderr)
        sys.exit(MISTAKE)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        asked, rest = super().parse_known_args(args, namespace)
        if rest:
            flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
            named = rest[0].partition("=")[0]
            self.error(f"unknown argument {shown(rest[0])}{near(named, flags if named.startswith('-') else ())}")
        return asked, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            said = f"no {shown(value)}{near(str(value), action.choices)} (known: {', '.join(action.choices)})"
            raise argparse.ArgumentError(action, said)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if arg_string == "":
            raise argparse.ArgumentError(action, "expected a value, got an empty one")
        return super()._get_value(action, arg_string)


def whole(least: int, most: int) -> Callable[[str], int]:
    """The type of a flag: a whole number in these bounds."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}, got {shown(text)}")
        return number

    return read


COUNT = whole(1, 10**9)
SEED = whole(0, 2**32 - 1)
THREADS = whole(1, 4096)
