"""Which runs a report compares, which stand apart, and the table in short: means, intervals, stuck runs."""

import json
import sys
from pathlib import Path

import pytest

from offdyn._util.errors import OffdynError
from offdyn.report.brief import in_short
from offdyn.report.cells import compare
from offdyn.report.drawing import COLOURS, columns_for
from offdyn.report.figures import corrections
from offdyn.report.parts import looks, parts, widest
from offdyn.report.results import scores, shared_scores
from offdyn.report.runs import gather
from offdyn.report.tables import markdown
from offdyn.report.write import write

from .made_up import make_run, make_seeds

PAR, BASELINE = [100.0, 200.0, 600.0], [50.0, 60.0, 70.0, 80.0]


def test_a_folder_that_stands_apart_is_left_out_and_named_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    make_seeds(tmp_path / "runs" / "main", PAR)
    make_seeds(tmp_path / "runs" / "trial" / "deeper", [1.0, 2.0])
    (tmp_path / "runs" / "trial" / "about.yaml").write_text("what: a trial\napart: made in haste\n")
    (tmp_path / "runs" / "main" / "about.yaml").write_text("what: the comparison\n")
    _, notices = write([tmp_path / "runs"], tmp_path / "out")
    said = "\n".join("\n".join([notice.what, *notice.details]) for notice in notices)
    assert "2 runs not shown" in said
    assert f"{tmp_path / 'runs' / 'trial'} (2 runs): made in haste" in said
    assert "left out" not in said  # nothing is found twice
    assert "300 ± 216" in (tmp_path / "out" / "tables" / "online-returns.md").read_text()
    assert len(gather([tmp_path / "runs" / "trial"])) == 2
    _, notices = write([tmp_path / "runs" / "trial", tmp_path / "runs"], tmp_path / "out")
    assert not any("not shown" in notice.what for notice in notices)
    (tmp_path / "runs" / "main" / "about.yaml").write_text("what: [")
    with pytest.raises(OffdynError, match=r"no run below it .*main, trial in it stand apart"):
        gather([tmp_path / "runs"])


def test_a_curve_or_a_provenance_alone_is_no_run_and_both_are_one_without_settings(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", final=1.0)
    for name, files in {
        "curve": ["curve.csv"],
        "study": ["provenance.json"],
        "lost": ["curve.csv", "provenance.json"],
    }.items():
        (tmp_path / "runs" / name).mkdir()
        for file in files:
            (tmp_path / "runs" / name / file).write_text("{}")
    assert sorted(run.path.name for run in gather([tmp_path])) == ["hopper-big-head.par.paper.seed-0", "lost"]


def test_variants_stand_in_a_part_of_their_own_beside_the_method_as_it_comes(tmp_path: Path) -> None:
    for task in ("hopper-big-head", "ant-short-feet"):
        make_seeds(tmp_path, PAR, task)
        make_seeds(tmp_path, BASELINE, task, "sac-tar")
    make_seeds(tmp_path, PAR, "ant-short-feet", penalty=0.0)
    (comparison,) = compare(gather([tmp_path]))
    main, variants = parts(comparison)
    assert main.comparison.labels == ["par", "sac-tar"]
    assert len(main.comparison.rows) == 2
    assert variants.comparison.labels == ["par", "par, penalty 0"]
    assert [row.task for row in variants.comparison.rows] == ["ant-short-feet"]
    assert widest(parts(comparison)) == parts(comparison)


def test_a_method_as_it_comes_looks_the_same_in_every_figure_and_no_variant_has_its_colour(tmp_path: Path) -> None:
    for method in ("sac-tar", "par-b", "par"):
        make_seeds(tmp_path, PAR, method=method)
    for penalty in range(7):
        make_seeds(tmp_path, PAR, penalty=float(penalty))
    (comparison,) = compare(gather([tmp_path]))
    main, variants = (looks(part) for part in parts(comparison))
    correction = corrections(comparison)
    assert correction is not None
    deducts = {style.label: style for style in correction.legend}
    assert {"par", "par-b", "par, penalty 6"} <= deducts.keys()
    assert main["par"] == variants["par"] == deducts["par"]
    assert main["par-b"] == deducts["par-b"]
    for drawn in (variants, deducts):
        assert len({style.colour for style in drawn.values()}) == min(len(drawn), len(COLOURS))
        assert len({(style.colour, style.dashes) for style in drawn.values()}) == len(drawn)


def test_a_method_on_another_backbone_stands_among_the_methods_as_they_come(tmp_path: Path) -> None:
    make_seeds(tmp_path, PAR, target_steps=2000)
    for settings in ({}, {"backbone": "simba"}, {"backbone": "simba", "batch_size": 64}):
        make_seeds(tmp_path, BASELINE, method="sac-tar", target_steps=2000, **settings)
    main, variants = parts(compare(gather([tmp_path]))[0])
    assert main.comparison.labels == ["par", "sac-tar", "sac-tar, backbone simba"]
    assert variants.about == ", variants of sac-tar"


def test_a_study_of_one_setting_alone_is_one_part(tmp_path: Path) -> None:
    for penalty in (0.0, 0.1):
        make_seeds(tmp_path, PAR, penalty=penalty)
    (part,) = parts(compare(gather([tmp_path]))[0])
    assert part.comparison.labels == ["par, penalty 0", "par, penalty 0.1"]


def test_runs_of_an_earlier_version_stand_in_one_column_with_those_of_today(tmp_path: Path) -> None:
    older, *_ = make_seeds(tmp_path, PAR)
    said = (older / "config.yaml").read_text()
    was = said.replace("  deviation_shuffled: 0.0\n  deviation_averaged: 0.0\n", "  control: none\n")
    assert was != said
    (older / "config.yaml").write_text(was)
    (comparison,) = compare(gather([tmp_path]))
    assert comparison.labels == ["par"]
    (older / "config.yaml").write_text(was.replace("control: none", "control: shuffled"))
    (comparison,) = compare(gather([tmp_path]))
    assert len(comparison.labels) == 2


def test_in_short_tells_the_mean_its_interval_and_how_many_halfcheetahs_are_stuck(tmp_path: Path) -> None:
    make_seeds(tmp_path, [1600.0, 1700.0, 6300.0, 6400.0, 6500.0], "halfcheetah-no-thighs")
    (part,) = parts(compare(gather([tmp_path]))[0])
    table = in_short(part)
    (line,) = [line for line in table.to_markdown().splitlines() if line.startswith("| halfcheetah-no-thighs |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    mean, interval, n = cells[1].split("<br>")
    assert (mean, n) == ("4500", "n 5, 2 stuck")
    low, high = map(float, interval.strip("[]").split(","))
    assert 1600 < low < 4500 < high < 6500
    assert cells[2:] == ["5768 / 5161 / 10517†"]
    (record,) = table.records
    assert (record["stuck"], record["stuck below"]) == (2, 2000.0)


def test_a_run_that_ends_below_where_it_began_is_stuck_unless_it_goes_on_from_another(tmp_path: Path) -> None:
    # Above 1170, a quarter of the way between our references.
    make_seeds(tmp_path / "fresh", [1300.0, 1200.0, 2700.0], "ant-broken-hips", begin=1500.0)
    tuned = {"provenance": {"start_from": {"run": "another"}}}
    make_seeds(tmp_path / "tuned", [1300.0, 1200.0, 2700.0], "ant-broken-hips", "sac-tune", begin=1500.0, **tuned)
    (part,) = parts(compare(gather([tmp_path]))[0])
    counted = {record["method"]: record["stuck"] for record in in_short(part).records}
    assert counted == {"par": 2, "sac-tune": 0}


def test_the_line_below_which_runs_are_stuck_is_that_of_the_tasks_references(tmp_path: Path) -> None:
    for task in ("hopper-broken-joints", "hopper-gravity-0.5"):
        make_seeds(tmp_path / task, [100.0, 400.0, 4000.0], task)
    (comparison,) = compare(gather([tmp_path]))
    below = {
        record["task"]: record.get("stuck below") for part in parts(comparison) for record in in_short(part).records
    }
    ours = 35.55 + 0.25 * (3073.27 - 35.55)
    assert below == {"hopper-broken-joints": pytest.approx(ours), "hopper-gravity-0.5": None}


def test_a_robot_that_stands_still_is_stuck_where_it_is_paid_for_being_alive(tmp_path: Path) -> None:
    make_seeds(tmp_path / "walker", [1007.0, 1015.0, 1100.0, 2700.0], "walker-broken-right-foot")
    make_seeds(tmp_path / "cheetah", [2500.0, 2600.0], "halfcheetah-no-thighs")
    swaying = make_run(tmp_path / "swaying", "walker-broken-right-foot", seed=4, final=1000.0) / "final.json"
    swaying.write_text(json.dumps(json.loads(swaying.read_text()) | {"final_returns": [700.0, 1300.0]}))
    (comparison,) = compare(gather([tmp_path]))
    counted = {record["task"]: record["stuck"] for part in parts(comparison) for record in in_short(part).records}
    assert counted == {"walker-broken-right-foot": 2, "halfcheetah-no-thighs": 0}


def test_scores_by_our_own_references_stand_beside_those_by_published_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_seeds(tmp_path, PAR)
    (comparison,) = compare(gather([tmp_path]))
    bounds: dict[str, tuple[float, float] | None] = {"published": (0.0, 300.0), "measured": (100.0, 200.0)}
    monkeypatch.setattr("offdyn.report.results.reference", lambda task, kind="published": bounds[kind])
    for kind, score in (("published", 100.0), ("measured", 200.0)):
        table = scores(comparison, kind)
        assert table is not None
        assert table.records[0]["mean"] == pytest.approx(score)
    bounds["measured"] = None  # before there are any
    assert scores(comparison, "measured") is None


def test_a_column_that_lacks_most_tasks_is_left_out_rather_than_the_tasks(tmp_path: Path) -> None:
    tasks = ("hopper-big-head", "ant-short-feet", "ant-broken-hips", "hopper-broken-joints")
    for task in tasks:
        make_seeds(tmp_path, PAR, task)
        make_seeds(tmp_path, BASELINE, task, "sac-tar")
    make_seeds(tmp_path, PAR, "ant-short-feet", "darc")
    (comparison,) = compare(gather([tmp_path]))
    scores = shared_scores(comparison)
    assert {label: set(found) for label, found in scores.items()} == {"par": set(tasks), "sac-tar": set(tasks)}


def test_the_best_of_a_row_is_marked_in_every_format(tmp_path: Path) -> None:
    make_seeds(tmp_path, PAR)
    make_seeds(tmp_path, BASELINE, method="sac-tar")
    table = in_short(parts(compare(gather([tmp_path]))[0])[0])
    assert '<td class="best" data-head="par"><strong>300</strong>' in table.to_html()
    assert "| **300**<br>" in table.to_markdown()
    assert r"\textbf{300}" in table.to_latex()
    assert "<strong>65" not in table.to_html()


def test_what_a_table_says_is_no_markup_in_markdown() -> None:
    assert markdown("a_b|c<d>*e* [1, 2]") == r"a\_b\|c\<d\>\*e\* [1, 2]"


@pytest.mark.parametrize(("panels", "columns"), [(1, 1), (2, 2), (4, 2), (6, 3), (8, 4), (24, 4)])
def test_panels_stand_so_that_few_places_are_empty(panels: int, columns: int) -> None:
    assert columns_for(panels) == columns
