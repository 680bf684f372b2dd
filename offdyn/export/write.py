"""From a run's folder to a folder with its policy and the contract."""

import os
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from .._util.errors import OffdynError, unknown
from ..training.run_folder import RunFolder
from . import FORMATS
from .contract import contract
from .parts import Parts, parts_of


def export(run: str | Path, kind: str, out: str | Path | None = None) -> Path:
    """Write the deterministic policy of a run as files that need no offdyn; a folder that exists is left alone."""
    if kind not in FORMATS:
        raise unknown("export format", kind, FORMATS)
    folder = RunFolder.open(Path(run))
    policy = folder.policy(normalised=True)
    out = folder.path / "export" / kind if out is None else Path(out)
    if out.exists():
        raise OffdynError(f"{out} exists already: name another folder with --out, or delete it")
    parts = parts_of(policy, folder.config)
    # Imported now: only whoever asks for a format needs its packages.
    files_of: Callable[[Parts], dict[str, bytes]] = import_module(f".{kind}_format", __package__).files
    files = files_of(parts)
    files["contract.yaml"] = contract(folder, policy, parts, kind, files).encode()
    try:
        _write(out, files)
    except OSError as error:
        raise OffdynError(f"{out}: cannot be written ({error}); nothing was exported") from None
    return out


def _write(out: Path, files: dict[str, bytes]) -> None:
    """All files or none: written beside, then renamed."""
    beside = out.with_name(out.name + ".tmp")
    shutil.rmtree(beside, ignore_errors=True)  # what a kill may have left
    try:
        beside.mkdir(parents=True)
        for name, content in files.items():
            (beside / name).write_bytes(content)
        os.rename(beside, out)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
