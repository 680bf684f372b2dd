"""`offdyn bench --backbone`: updates on a backbone at several widths, and the hours of a run."""

from pathlib import Path
from typing import Any

import pytest

from offdyn.bench import backbones, whole
from offdyn.bench.table import table
from offdyn.cli.main import main
from offdyn.training.config import build


def test_a_backbone_at_another_width_keeps_its_proportions() -> None:
    widths = {"actor_widths": (32,), "critic_widths": (64, 64)}
    assert backbones.settings_of("simba", 64) == {"backbone": "simba", **widths}
    assert backbones.settings_of("classic", 128) == {
        "backbone": "classic", "actor_widths": (128, 128), "critic_widths": (128, 128),
    }  # fmt: skip
    for name in ("classic", "simba", "ensemble"):
        usual, scaled = (build("hopper-big-head", "sac", settings=chosen)[0].sac for chosen in (
            {"backbone": name}, backbones.settings_of(name, 256)))  # fmt: skip
        assert usual == scaled


def test_hours_are_those_of_the_updates_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int, Any]] = []

    class Loop:
        def __init__(self, lanes: int, *, updates: int, settings: Any, **_: Any) -> None:
            made.append((lanes, updates, settings["critic_widths"]))

        def seconds_per_update(self, repeats: int) -> float:
            assert repeats == 3
            return 0.002

    monkeypatch.setattr(backbones, "UpdateLoop", Loop)
    rows = [row for name in ("simba", "ensemble") for row in backbones.measure(name, (1, 4), 3)]
    assert [(row["backbone"], row["width"], row["lanes"]) for row in rows[:4]] == [
        ("simba", 64, 1), ("simba", 64, 4), ("simba", 128, 1), ("simba", 128, 4),
    ]  # fmt: skip
    assert made[:2] == [(1, 5, (64, 64)), (4, 5, (64, 64))]
    assert made[-1] == (4, 20, (256, 256))
    assert rows[0]["hours"] == pytest.approx(0.002 * 5 * 1e5 / 3600)
    assert rows[-1]["hours"] == pytest.approx(0.002 * 20 * 1e5 / 3600)
    shown = table(whole.describe() | {"backbones": rows})
    assert "simba          64      1       2.000                     5     0.3" in shown
    assert "ensemble      256      4       2.000                    20     1.1" in shown


def test_a_loop_on_a_backbone_runs(monkeypatch: pytest.MonkeyPatch, shared_programs: None) -> None:
    monkeypatch.setattr(backbones, "WIDTHS", (8,))
    (row,) = backbones.measure("simba", (1,), 1)
    assert 0 < row["milliseconds"] < 60_000


def test_the_command_asks_for_these_backbones_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(whole, "_rows", lambda found, quick, say: iter(()))
    monkeypatch.setattr(backbones, "measure", lambda name, lanes, repeats: (asked.append(name), iter(()))[1])
    assert main(["bench", "--quick", "--backbone", "simba", "classic"]) == 0
    assert asked == ["simba", "classic"]
    assert "BACKBONES" not in capsys.readouterr().out
    assert main(["bench", "--backbone", "simbad"]) == 2
    assert "no backbone 'simbad'; did you mean 'simba'" in capsys.readouterr().err
    assert len(asked) == 2
