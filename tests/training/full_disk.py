"""A disk that fills up at a chosen write."""

import builtins
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboardX import record_writer

from offdyn._util import files
from offdyn.training import run_folder


class FullDisk:
    """Counts every way in which something reaches the disk; number `fails_at` of them finds no room."""

    def __init__(self, patch: pytest.MonkeyPatch, fails_at: int | None) -> None:
        self.count, self.fails_at = 0, fails_at
        for module in (files, run_folder, record_writer):
            patch.setattr(module, "open", self.open, raising=False)
        for module, name in ((os, "replace"), (os, "fsync"), (Path, "mkdir")):
            patch.setattr(module, name, self.refusing(getattr(module, name)))

    def step(self) -> None:
        self.count += 1
        if self.count == self.fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    def refusing(self, action: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            self.step()
            return action(*arguments, **options)

        return act

    def open(self, path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        file = builtins.open(path, mode, *more, **options)  # noqa: SIM115 (the caller closes it)
        if any(letter in mode for letter in "wa+"):
            whole = file.write

            def write(content: Any) -> int:
                if self.count + 1 == self.fails_at:
                    whole(content[: len(content) // 2])
                    file.flush()
                self.step()
                return whole(content)

            file = Writing(file, write)
        return file


class Writing:
    """A file whose `write` is another."""

    def __init__(self, file: Any, write: Callable[[Any], int]) -> None:
        self.file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "Writing":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
