"""The tables beside this file: reading them, writing them, and what a run is known by."""

import csv
import functools
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.resolve()

KEY = ("study", "task", "method", "backbone", "preset", "variant", "seed")
CURVE = {  # our column: curve.csv's
    "source_steps": "source_steps", "target_steps": "target_steps", "updates": "updates",
    "target_return": "target_return_mean", "source_return": "source_return_mean", "normalised": "normalised",
    "reward_penalty": "reward_penalty", "reward_size": "source_reward_size", "mean_value": "mean_value",
    "critic_loss": "critic_loss", "entropy": "entropy",
}  # fmt: skip


class Refused(Exception):
    """Something that the user can put right."""


@functools.cache
def table(name: str) -> tuple[dict[str, str], ...]:
    path = HERE / name
    if not path.exists():
        return ()
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return tuple(csv.DictReader(io.StringIO(text)))


def write_table(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """With the columns of the first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    whole = text.getvalue().encode()
    (HERE / name).write_bytes(gzip.compress(whole, 9, mtime=0) if name.endswith(".gz") else whole)
    table.cache_clear()


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def bases() -> dict[str, dict[str, str]]:
    """All settings of each base; finals.csv says where a run differs."""
    return dict(json.loads((HERE / "settings.json").read_text()))


def base_of(row: dict[str, Any]) -> str:
    return f"{row['method']} {row['backbone']} {row['preset']}"
