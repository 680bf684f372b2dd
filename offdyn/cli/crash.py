"""The last edge: what nobody foresaw becomes one sentence, and a file for whoever mends it."""

import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib import metadata
from pathlib import Path

from .. import __version__

CRASHED = 70
PACKAGES = ("jax", "jaxlib", "numpy", "mujoco-core", "gymnasium", "h5py", "safetensors")


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what happened and where the whole of it stands."""
    text = describe(error, arguments)
    name = f"offdyn-crash-{datetime.now():%Y%m%d-%H%M%S}.txt"
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        with suppress(OSError), open(folder / name, "a") as file:
            file.write(text)
            said = f"offdyn: an unexpected error ({what}); please report it with {file.name}"
            print(said, file=sys.stderr)
            return CRASHED
    print(f"offdyn: an unexpected error, and no room to write it down\n{text}", file=sys.stderr)
    return CRASHED


def describe(error: BaseException, arguments: Sequence[str]) -> str:
    """Versions, command and traceback."""
    lines = [
        f"command: {shlex.join(['offdyn', *arguments])}",
        f"offdyn {__version__}, Python {platform.python_version()}, {platform.platform()}",
        ", ".join(f"{package} {_version(package)}" for package in PACKAGES),
    ]
    return "\n".join(lines) + "\n\n" + "".join(traceback.format_exception(error)) + "\n"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
