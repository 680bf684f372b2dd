"""The first screen: who leads, bars, curves, and text from files that is never markup."""

import html
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offdyn.report.cells import compare, reference, return_digits
from offdyn.report.charts import ticks
from offdyn.report.drawing import Points
from offdyn.report.overview import Overview, common_steps, overviews
from offdyn.report.parts import parts
from offdyn.report.runs import gather
from offdyn.report.verdict import verdict
from offdyn.report.write import write

from .made_up import ABOUT, make_run, make_seeds
from .test_stuck import custom

HIGH, LOW = [50.0, 51.0, 52.0, 53.0], [10.0, 11.0, 12.0, 13.0]
MEASURE, OVER = "IQM", "on a task"


def seen(runs: Path) -> list[Overview]:
    return [one for comparison in compare(gather([runs])) for one in overviews(parts(comparison))]


def test_a_method_wins_where_the_interval_of_the_difference_lies_above_0() -> None:
    said = verdict({"darc": LOW, "par": HIGH}, MEASURE, OVER)
    assert said.startswith("par wins on a task: IQM 52, 40 [")
    assert said.endswith("] above darc, the next best.")


def test_methods_are_level_where_it_holds_0_and_the_next_is_told() -> None:
    said = verdict({"par": HIGH, "vgdf": [49.0, 50.0, 54.0, 55.0], "darc": LOW}, MEASURE, OVER)
    assert said.startswith("vgdf and par are level on a task: IQM 52 and 52, ") or said.startswith("par and vgdf are")
    assert " apart; darc is 40 [" in said


def test_of_many_level_methods_only_the_first_is_named() -> None:
    said = verdict(
        {name: [value + shift for value in HIGH] for shift, name in zip((0, 0.1, 0.2, 0.3), "abcd", strict=True)},
        MEASURE,
        OVER,
    )
    assert said == "d and 3 others are level on a task: IQM 52 to 52."


def test_the_settings_of_a_method_are_no_items_of_a_sentence() -> None:
    near = [value + 0.5 for value in HIGH]
    said = verdict({"par": HIGH, "par, penalty 2.5, temperature 0.4": near, "par, penalty 0": LOW}, MEASURE, OVER)
    assert said.startswith("par (penalty 2.5, temperature 0.4) and par are level on a task: ")
    assert "; par (penalty 0) is 4" in said


def test_few_seeds_lone_methods_and_no_runs_are_told_as_they_are() -> None:
    few = verdict({"par": [50.0, 52.0], "darc": LOW}, MEASURE, OVER)
    assert few == "par is ahead on a task: IQM 51, 40 above darc. Too few seeds for an interval."
    assert verdict({"par": [50.0, 50.0, 50.0]}, MEASURE, OVER) == "par reaches IQM 50 [50, 50] on a task."
    assert "No run has finished yet on a task" in verdict({}, MEASURE, OVER)


def test_tasks_with_references_are_averaged_by_normalised_score_and_others_stand_alone(tmp_path: Path) -> None:
    for task in ("hopper-big-head", "ant-short-feet", custom("lab-robot"), "hopper-gravity-0.5"):
        make_seeds(tmp_path, HIGH, task)
        make_seeds(tmp_path, LOW, task, "sac-tar")
    together, *alone = seen(tmp_path)
    assert together.sentence.startswith("par wins over 2 tasks: normalised IQM ")
    assert [one.sentence.split(":")[0] for one in alone] == [
        "par wins on hopper-gravity-0.5", "par wins on lab-robot",
    ]  # fmt: skip
    assert "IQM of the return 51.5" in alone[0].sentence
    assert len({one.figure.name for one in (together, *alone)}) == 3


def test_bars_and_curves_are_iqms_over_all_runs_of_the_tasks(tmp_path: Path) -> None:
    tasks = ("hopper-big-head", "ant-short-feet")
    for task in tasks:
        make_seeds(tmp_path, HIGH, task)
    (one,) = seen(tmp_path)
    bars, lines = one.figure.panels
    scores = []
    for task in tasks:
        low, high = reference(task) or (0.0, 1.0)
        scores += [100 * (final - low) / (high - low) for final in HIGH]
    expected = np.mean(sorted(scores)[2:6])
    assert bars.bars[0].value == pytest.approx(expected)
    (curve,) = lines.series
    np.testing.assert_array_equal(curve.line.x, [0, 100, 200, 300, 400])
    assert curve.line.y[-1] == pytest.approx(expected)
    assert curve.band is not None
    assert curve.band.low[-1] <= expected <= curve.band.high[-1]


def test_a_method_that_does_not_learn_in_the_target_is_a_level_line(tmp_path: Path) -> None:
    make_seeds(tmp_path, HIGH, method="sac-src")
    make_seeds(tmp_path, LOW, method="par")
    (one,) = seen(tmp_path)
    lines = {series.style.label: series.line for series in one.figure.panels[1].series}
    assert len(set(lines["sac-src"].y)) == 1
    assert list(lines["sac-src"].x) == [0, 400]


def test_a_task_of_one_method_is_left_to_the_tables_where_others_are_compared(tmp_path: Path) -> None:
    make_seeds(tmp_path, HIGH, "hopper", "sac-src")
    (alone,) = seen(tmp_path)
    assert alone.sentence.startswith("sac-src reaches")
    make_seeds(tmp_path, HIGH)
    make_seeds(tmp_path, LOW, method="sac-tar")
    (compared,) = seen(tmp_path)
    assert compared.sentence.startswith("par wins on hopper-big-head")


def test_variants_beside_their_method_are_one_picture_and_no_second_one_of_the_method_alone(tmp_path: Path) -> None:
    make_seeds(tmp_path, HIGH)
    make_seeds(tmp_path, LOW, penalty=0.0)
    (one,) = seen(tmp_path)
    assert one.sentence.startswith("par wins on hopper-big-head")
    assert one.figure.panels[0].names == ["par", "par, penalty 0"]


def test_finished_runs_are_not_cut_short_by_running_ones(tmp_path: Path) -> None:
    make_seeds(tmp_path, HIGH)
    make_run(tmp_path, seed=9, points=2)
    (one,) = seen(tmp_path)
    assert one.figure.panels[1].series[0].line.x[-1] == 400


def test_curves_are_averaged_where_the_run_that_was_evaluated_least_often_was() -> None:
    often, seldom = Points(np.arange(0.0, 11.0), np.zeros(11)), Points(np.array([0.0, 5.0, 12.0]), np.zeros(3))
    assert common_steps([often, seldom]).tolist() == [0, 5]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (-0.3, 0.21, [-0.2, 0, 0.2]), (980, 1013, [980, 990, 1000, 1010])],
)
def test_ticks_are_round_and_within(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_an_axis_has_two_ticks_at_least() -> None:
    assert ticks(-63.7, -60.5, 3) == [-63, -62, -61]
    draw = np.random.default_rng(0)
    for low, width in zip(draw.normal(0, 1000, 500), draw.uniform(0.01, 3000, 500), strict=True):
        assert len(ticks(low, low + width, 3)) >= 2


def test_small_returns_of_custom_environments_are_told_apart(tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", [0.9, 0.92, 0.94, 0.96], custom("grasp"))
    make_seeds(tmp_path / "runs", [0.51, 0.53, 0.55, 0.57], custom("grasp"), "sac-tar")
    (shown,) = seen(tmp_path / "runs")
    assert shown.sentence.startswith("par wins on grasp: IQM of the return 0.930, 0.390 [")
    write([tmp_path / "runs"], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    for text in ("0.930 ± 0.022", "IQM 0.540", ">0.930<", 'data-sort="0.96">0.960'):
        assert text in page, text


def test_returns_have_three_digits_and_those_of_our_robots_none_behind_the_point() -> None:
    returns = (0.0, -0.05, 2.5, -61.2, 950.0)
    assert [return_digits("grasp", [0.0, value]) for value in returns] == [0, 3, 2, 1, 0]
    assert {return_digits("hopper-big-head", [value]) for value in returns} == {0}


class Page(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes = set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags |= {tag}
        self.attributes |= {name for name, _ in attrs}


def looked_at(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page


def test_nothing_that_files_say_is_markup_or_leads_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nasty = """../../x"><img src=q onerror='alert(1)'></script><b onclick=y>"""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for folder, name in (("quiet", "quiet"), (nasty.replace("/", ""), nasty)):
        runs, out = tmp_path / folder, tmp_path / ("quiet-report" if name == "quiet" else "report")
        for path in [*make_seeds(runs, LOW), *make_seeds(runs, HIGH, penalty=0.0)]:
            text = (path / "config.yaml").read_text()
            for field in ("method: par\n", "preset: paper\n", "name: hopper-big-head\n"):
                text = text.replace(field, f"{field.split(':')[0]}: {json.dumps(name)}\n")
            (path / "config.yaml").write_text(text)
            (path / "provenance.json").write_text(json.dumps(ABOUT | {"state": "finished", "device": {"kind": name}}))
        write([runs], out)
    quiet, loud = ((tmp_path / out / "index.html").read_text() for out in ("quiet-report", "report"))
    assert looked_at(loud).tags == looked_at(quiet).tags
    assert looked_at(loud).attributes == looked_at(quiet).attributes
    assert html.escape(nasty) in loud
    assert {path.parent for path in tmp_path.rglob("*.md")} == {
        tmp_path / "quiet-report/tables",
        tmp_path / "report/tables",
    }
