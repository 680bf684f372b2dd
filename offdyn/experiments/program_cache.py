"""Compiled programs, kept in the user's cache folder: the second start of a cohort finds those of the first.

JAX's own settings hold: JAX_ENABLE_COMPILATION_CACHE=0 keeps nothing, JAX_COMPILATION_CACHE_DIR keeps it elsewhere.
"""

import hashlib
import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from .progress import Progress

LARGEST = 2**30  # bytes; beyond them the programs that were not used for longest go


def keep_programs(progress: Progress) -> None:
    """Let every process on this machine use the same compiled programs.

    On a GPU more than time is at stake. The compiler times rival kernels there and picks the fastest, which differs
    from process to process, and with it the last bits of every result: without this, a resumed cohort would leave the
    path of one that never stopped.
    """
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    if chosen or not getattr(jax.config, "jax_enable_compilation_cache", True):
        return
    try:
        folder = cache_folder()
        make_room(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        progress.say(f"compiled programs cannot be kept ({error}): every start compiles anew")
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # if something was compiled before, JAX has noted that there is none


def cache_folder() -> Path:
    """One for each kind of processor: code for another one may not run on this."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    platform = jax.default_backend()
    name = platform if platform != "cpu" else f"cpu-{_processor()}"
    return user / "offdyn" / "programs" / name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    except OSError:
        known = set(os.uname())
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:12]


def make_room(folder: Path, largest: int = LARGEST) -> None:
    """Make the folder, see that it can be written to, and keep it from growing for ever."""
    folder.mkdir(parents=True, exist_ok=True)
    trial = folder / f"trial-{os.getpid()}"
    try:
        trial.write_bytes(bytes(2**16))  # on a full disk a file can be made, but not filled
    finally:
        trial.unlink(missing_ok=True)
    kept = []
    for file in folder.iterdir():
        try:
            found = file.stat()
        except FileNotFoundError:  # another process tidies up too
            continue
        kept.append((max(found.st_atime, found.st_mtime), found.st_size, file))
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= largest:
            return
        file.unlink(missing_ok=True)
        total -= size
