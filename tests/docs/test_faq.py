"""Every message that docs/faq.md quotes is still one that the package prints."""

import ast
import re
from functools import cache

import pytest

from .pages import ROOT, blocks

QUOTED = [
    line.removeprefix("offdyn: ")
    for block in blocks(ROOT / "docs" / "faq.md")
    if block.language == "text"
    for line in block.lines
]
LEAST = 6  # letters of its own that a text must have: `{path}: {error}` would stand for anything
VALUE = 4  # words that may stand in a gap: a name, a number, a path, a few of them


@cache
def texts() -> list[re.Pattern[str]]:
    """What the package can print: its texts, with a group for each gap that a value fills."""
    found = set()
    for path in (ROOT / "offdyn").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            words = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            own = "".join(word for word in words if isinstance(word, str))
            if sum(map(str.isalpha, own)) >= LEAST and all(word is None or isinstance(word, str) for word in words):
                for gap in ("(.*?)", "(.*)"):  # short ones first, or long ones
                    found.add("".join(gap if word is None else re.escape(word) for word in words))
    return [re.compile(text) for text in sorted(found)]


def is_printed(message: str) -> bool:
    """Whether the package has the message, with a value, something left out, or a text of its own in every gap."""
    matches = (text.fullmatch(message) for text in texts())
    return any(match is not None and all(map(may_fill_a_gap, match.groups())) for match in matches)


def may_fill_a_gap(filling: str) -> bool:
    return "…" in filling or len(filling.split()) <= VALUE or is_printed(filling)


@pytest.mark.parametrize("message", QUOTED)
def test_a_message_that_is_quoted_is_printed(message: str) -> None:
    assert is_printed(message)


def test_the_page_quotes_at_least_fifteen_messages() -> None:
    assert len(set(QUOTED)) >= 15


@pytest.mark.parametrize("message", QUOTED)
def test_a_message_that_has_changed_is_noticed(message: str) -> None:
    """Values may be others, words may not; a message that lists what is known has the most values."""
    words = message.split()
    changed = [" ".join((*words[:at], "otherwise", *words[at + 1 :])) for at in range(len(words))]
    assert sum(map(is_printed, changed)) < 0.75 * len(words)
