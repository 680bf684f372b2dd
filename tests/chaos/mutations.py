"""What may have happened to a file, a folder or a word: every change is drawn from a `random.Random`."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

DEEP = 5000  # lists in one another
# What somebody may write in place of a value.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, -0.0, 1e308, 1e-320, float("nan"), float("inf"), "", " ", "x", "\0",
    "..", "../../outside", "/", "1e999", "nan", "ÿ\ud800", "a" * 5000, [], {}, [[]], [1, "x"], {"": 0}, {"format": 2},
)  # fmt: skip


def flip_bits(draw: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        position = draw.randrange(8 * len(changed))
        changed[position // 8] ^= 1 << position % 8
    return bytes(changed)


def truncate(draw: Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content))]


def cut_out(draw: Random, content: bytes) -> bytes:
    first, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + content[end:]


def put_in(draw: Random, content: bytes) -> bytes:
    new = draw.choice((b"\0", b"\xff\xfe", b"\n", b"{", b"[" * DEEP, draw.randbytes(40), b"-", b"9" * 5000, b'"'))
    position = draw.randrange(len(content) + 1)
    return content[:position] + new + content[position:]


def blank_out(draw: Random, content: bytes) -> bytes:
    first = draw.randrange(len(content))
    end = min(len(content), first + draw.choice((1, 16, 4096)))
    return content[:first] + bytes(end - first) + content[end:]


def change_a_digit(draw: Random, content: bytes) -> bytes:
    digits = [position for position, byte in enumerate(content[: 2**16]) if 48 <= byte < 58]
    if not digits:
        return flip_bits(draw, content)
    position = draw.choice(digits)
    return content[:position] + str(draw.randrange(10)).encode() + content[position + 1 :]


def replace_all(draw: Random, content: bytes) -> bytes:
    return draw.choice((b"", b"\0" * 64, b"[]", b"{}", b"null", b"[" * DEEP, b'{"a":' * DEEP, draw.randbytes(300)))


BYTES = (flip_bits, flip_bits, flip_bits, truncate, cut_out, put_in, blank_out, change_a_digit, replace_all)


def of_bytes(draw: Random, content: bytes) -> bytes:
    """The content with something changed."""
    return replace_all(draw, content) if not content else draw.choice(BYTES)(draw, content)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in it."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def of_tree(draw: Random, value: Any, values: tuple[Any, ...] = VALUES) -> Any:
    """What JSON or YAML holds, with one place of it changed."""
    found = places(value)
    if not found:
        return draw.choice(values)
    container, key = draw.choice(found)
    how = draw.randrange(5)
    if how == 0:
        del container[key]
    elif how == 1 and isinstance(container, dict):
        name = draw.choice(("", "../x", "/x", "\0", "cohorts", str(key).upper(), str(key) + "s", "a" * 300))
        container[name] = container.pop(key)
    elif how == 2 and isinstance(container[key], str) and container[key]:
        text = of_bytes(draw, container[key].encode(errors="replace")).decode(errors="replace")
        container[key] = text
    elif how == 3:
        container[key] = [container[key]] if draw.random() < 0.5 else {"x": container[key]}
    else:
        container[key] = draw.choice(values)
    return value


def of_json(draw: Random, content: bytes) -> bytes:
    """A JSON file with one place changed; where it has a checksum, perhaps with the right one."""
    try:
        said = of_tree(draw, json.loads(content))
    except (ValueError, RecursionError):
        return of_bytes(draw, content)
    if isinstance(said, dict) and "checksum" in said and draw.random() < 0.7:
        said.pop("checksum")
        said["checksum"] = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return json.dumps(said).encode()


def _rewrite(how: Callable[[Random, bytes], bytes]) -> Callable[[Random, Path], None]:
    def change(draw: Random, path: Path) -> None:
        path.write_bytes(how(draw, path.read_bytes()))

    return change


def delete(draw: Random, path: Path) -> None:
    path.unlink()


def make_a_folder(draw: Random, path: Path) -> None:
    path.unlink()
    path.mkdir()
    if draw.random() < 0.5:
        (path / "config.yaml").write_text("x")


def make_a_link(draw: Random, path: Path) -> None:
    """To the file itself, to nothing, to a sibling, or out of the folder."""
    siblings = sorted(other for other in path.parent.iterdir() if other != path)
    aims = [path, path.with_name("nowhere"), Path("/dev/null"), outside(path), *siblings[:1]]
    path.unlink()
    path.symlink_to(draw.choice(aims))


def make_a_pipe(draw: Random, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_a_link_beside(draw: Random, path: Path) -> None:
    """Where the next whole file is written first."""
    beside = path.with_name(path.name + ".tmp")
    if not beside.is_symlink():
        beside.symlink_to(outside(path))


def swap_with_another(draw: Random, path: Path) -> None:
    others = sorted(other for other in path.parent.parent.rglob("*") if other.is_file() and other != path)
    if others:
        shutil.copyfile(draw.choice(others), path)


def delete_its_folder(draw: Random, path: Path) -> None:
    shutil.rmtree(path.parent)


def loop_its_folder(draw: Random, path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(path.parent)


FILES = (
    *[_rewrite(of_bytes)] * 8,
    *[_rewrite(of_json)] * 5,
    *(delete, delete, make_a_folder, make_a_link, make_a_link, make_a_pipe, put_a_link_beside, swap_with_another),
    *(delete_its_folder, loop_its_folder),
)


def outside(path: Path) -> Path:
    """The file that nobody may touch, beside every damaged folder."""
    return next(parent / "outside" / "kept.txt" for parent in path.parents if (parent / "outside").is_dir())


def of_folder(draw: Random, folder: Path) -> list[str]:
    """Change one file of the folder or a few; what was done, in words."""
    done = []
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if not files:
            break
        path, how = draw.choice(files), draw.choice(FILES)
        before = path.stat().st_size
        how(draw, path)
        name = getattr(how, "__name__", "change")
        done.append(f"{name} {path.relative_to(folder)} ({before} bytes)")
    return done
