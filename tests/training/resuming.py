"""The same runs in one piece and in parts, and whether that made a difference."""

import json
from pathlib import Path
from typing import Any

from .small import curve, differing, outcome, resume, train


def stopped_and_resumed(runs: list[Any], out: Path, *stops: int) -> None:
    train(runs, out, stop_at=stops[0])
    assert all(json.loads(path.read_text())["state"] == "stopped" for path in out.glob("*/provenance.json"))
    for clock in stops[1:]:
        resume(out, stop_at=clock)
    resume(out)


def check(runs: list[Any], folder: Path, *stops: int) -> dict[str, Any]:
    train(runs, folder / "whole")
    stopped_and_resumed(runs, folder / "parts", *stops)
    whole = outcome(folder / "whole")
    assert differing(whole, outcome(folder / "parts")) == []
    last = curve(folder / "whole" / runs[0].name)[-1]
    assert int(last["updates"]) > 200
    assert float(last["critic_loss"]) > 0
    return last
