"""The report: numbers against hand values, what is missing said, damaged files survived, files that others can read."""

import csv
import html
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.report import published
from offdyn.report.cells import compare
from offdyn.report.drawing import styles
from offdyn.report.figures import together
from offdyn.report.runs import gather, read_run
from offdyn.report.studies import studies
from offdyn.report.write import write

from .made_up import ABOUT, make_run, make_seeds

PAR, BASELINE = [100.0, 200.0, 600.0], [50.0, 60.0, 70.0, 80.0]


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def text_of(out: Path) -> str:
    """The page without its tags."""
    page = (out / "index.html").read_text()
    page = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.S)
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take seconds: where a test does not look at them, matplotlib is not there."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def told(runs: Path, out: Path) -> str:
    """What the report says is missing or not alike, with details."""
    _, notices = write([runs], out)
    return "\n".join("\n".join([notice.what, *notice.details]) for notice in notices)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two tasks, two methods, and one column of a dataset."""
    runs = tmp_path_factory.mktemp("runs")
    make_seeds(runs, PAR, "hopper-big-head", "par", provenance={"tuning_target_steps": 5000})
    make_seeds(runs, BASELINE, "hopper-big-head", "sac-tar")
    make_seeds(runs, [10.0, 20.0, 30.0], "ant-short-feet", "par")
    make_seeds(runs, [4000.0, 4200.0, 4400.0], "halfcheetah-no-thighs", "par", source_data="halfcheetah-medium")
    make_seeds(runs, [2000.0, 2000.0, 2000.0], "hopper-broken-joints", "h2o", source_data="hopper-medium")
    out = tmp_path_factory.mktemp("report")
    write([runs], out)
    return out


def test_the_table_of_returns_holds_mean_population_std_and_interquartile_mean(whole: Path) -> None:
    rows = {(row["task"], row["method"]): row for row in read(whole / "tables" / "online-returns.csv")}
    ours = rows["hopper-big-head", "par"]
    assert float(ours["mean"]) == pytest.approx(300.0)
    assert float(ours["std"]) == pytest.approx(np.sqrt((200**2 + 100**2 + 300**2) / 3))
    assert float(ours["iqm"]) == pytest.approx(300.0)  # of three runs none is trimmed
    assert 100.0 <= float(ours["iqm low"]) < 300.0 < float(ours["iqm high"]) <= 600.0
    baseline = rows["hopper-big-head", "sac-tar"]
    assert float(baseline["iqm"]) == pytest.approx(65.0)  # of four the lowest and the highest are
    assert baseline["finished"] == "4"
    assert "300 ± 216" in text_of(whole)
    assert r"300 $\pm$ 216" in (whole / "tables" / "online-returns.tex").read_text()


def test_scores_are_normalised_by_the_references_of_the_task(whole: Path) -> None:
    row = next(row for row in read(whole / "tables" / "online-normalised.csv") if row["method"] == "sac-tar")
    assert float(row["mean"]) == pytest.approx(100 * (65.0 + 26.34) / (3152.75 + 26.34))


def test_the_score_over_all_tasks_is_also_that_of_the_last_fifth_unless_a_curve_is_lost(tmp_path: Path) -> None:
    low, high = -26.34, 3152.75
    make_seeds(tmp_path / "runs", PAR, "hopper-big-head", "par")
    write([tmp_path / "runs"], tmp_path / "out")
    (row,) = read(tmp_path / "out" / "tables" / "online-aggregate.csv")
    name = "mean over the last fifth of training"
    assert float(row["mean"]) == pytest.approx(100 * (300 - low) / (high - low))
    assert float(row[name]) == pytest.approx(float(row["mean"]))  # the fifth of five evaluations alone is late
    assert float(row[f"{name} low"]) < float(row[name]) < float(row[f"{name} high"])
    next((tmp_path / "runs").glob("*/curve.csv")).unlink()
    write([tmp_path / "runs"], tmp_path / "again")
    (row,) = read(tmp_path / "again" / "tables" / "online-aggregate.csv")
    assert name not in row


def test_the_paper_stands_beside_ours_and_its_suspect_numbers_are_marked(whole: Path) -> None:
    rows = {row["task"]: row for row in read(whole / "tables" / "offline-returns.csv")}
    assert float(rows["halfcheetah-no-thighs"]["paper mean"]) == 5768
    assert rows["halfcheetah-no-thighs"]["paper suspect"] == "likely"
    assert float(rows["hopper-broken-joints"]["paper mean"]) == 2467
    assert rows["hopper-broken-joints"]["paper suspect"] == ""
    shown = text_of(whole)
    assert "5768 ± 117†" in shown
    assert "2467 ± 323 " in shown
    assert published.REASONS["likely"] in shown
    # No such number is in this table.
    assert published.REASONS["unclear"] not in (whole / "tables" / "offline-returns.md").read_text()
    assert published.ONLINE_NOTE in shown


def test_target_steps_spent_on_tuning_are_shown_where_they_are_known(whole: Path) -> None:
    rows = {(row["task"], row["method"]): row for row in read(whole / "tables" / "online-returns.csv")}
    assert rows["hopper-big-head", "par"]["tuning target steps"] == "5000"
    assert rows["ant-short-feet", "par"]["tuning target steps"] == ""
    assert "par: 5000" in text_of(whole)


def test_the_published_table_is_complete() -> None:
    table = published.table()
    methods = {method for _, _, method in table}
    assert len(table) == 3 * 8 * len(methods) == 120
    assert {(task, method) for (_, task, method), entry in table.items() if entry.suspect} == {
        ("halfcheetah-no-thighs", "par"), ("hopper-big-head", "par"), ("walker-no-right-thigh", "par"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "quality"),
    [
        ("hopper-medium", "medium"),
        ("hopper_medium_replay-v2", "medium-replay"),
        ("walker2d-medium-expert-v2", "medium-expert"),
        ("online", None),
        ("hopper-expert", None),
    ],
)
def test_a_datasets_name_says_its_quality(name: str, quality: str | None) -> None:
    assert published.quality_of(name) == quality


def test_run_time_is_per_run(whole: Path) -> None:
    row = read(whole / "tables" / "online-run-time.csv")[0]
    assert (float(row["wall seconds"]), float(row["updates per second"])) == (100.0, 50.0)


def test_learning_is_told_by_area_and_stuck_runs(whole: Path) -> None:
    rows = {(row["task"], row["method"]): row for row in read(whole / "tables" / "online-learning.csv")}
    # Straight lines from 0 to the final return: half of it on average.
    assert float(rows["hopper-big-head", "par"]["area under the curve"]) == pytest.approx(150.0)
    # A quarter of the way from 25.46 to 3146.84, our references: no run of 50 to 600 gets there.
    assert float(rows["hopper-big-head", "par"]["stuck below"]) == pytest.approx(25.46 + 0.25 * (3146.84 - 25.46))
    assert float(rows["hopper-big-head", "sac-tar"]["share of stuck runs"]) == 1.0


def test_every_table_is_csv_and_latex(whole: Path) -> None:
    tables = sorted((whole / "tables").glob("*.tex"))
    assert len(tables) >= 10
    for path in tables:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("%")]
        assert lines[0].startswith(r"\begin{tabular}")
        assert lines[-1] == r"\end{tabular}"
        columns = re.search(r"\{([lr]+)\}$", lines[0])
        assert columns
        body = [line for line in lines[1:-1] if line != r"\hline"]
        for line in body:
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns.group(1)) - 1
            plain = re.sub(r"\\[{}&%$#_]", "", line)
            assert plain.count("{") == plain.count("}")
            assert plain.count("$") % 2 == 0
            assert plain.isascii()
        records = read(path.with_suffix(".csv"))
        assert records
        assert all(None not in record and None not in record.values() for record in records)


def test_every_figure_is_png_and_pdf(whole: Path) -> None:
    names = {path.stem for path in (whole / "figures").iterdir()}
    assert {"online-curves", "online-finals", "online-correction", "online-profile", "offline-curves"} <= names
    for name in names:
        assert (whole / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (whole / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_holds_all_it_shows(whole: Path) -> None:
    page = (whole / "index.html").read_text()
    links = set(re.findall(r'(?:src|href)="([^"]*)"', page))
    own = [link for link in links if not link.startswith(("data:", "#"))]
    assert own
    assert all((whole / link).is_file() for link in own)
    assert all(f'id="{link[1:]}"' in page for link in links if link.startswith("#"))
    names = re.findall(r' id="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert not re.search(r"url\(|@import|https?://", page)


def test_the_same_runs_make_the_same_report(tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", PAR)
    for out in ("one", "two"):
        write([tmp_path / "runs"], tmp_path / out)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [f for f in files if (tmp_path / "one" / f).read_bytes() != (tmp_path / "two" / f).read_bytes()] == []


@pytest.mark.usefixtures("no_pictures")
def test_the_command_writes_a_report_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_seeds(tmp_path / "a", PAR)
    make_run(tmp_path / "b" / "deeper", method="sac-tar")
    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "4 runs: 3 finished, 1 running" in said
    assert str(tmp_path / "out" / "index.html") in said


@pytest.mark.usefixtures("no_pictures")
def test_half_finished_results_make_a_report_that_says_so(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_run(runs, seed=0, final=100.0)
    make_run(runs, seed=1, points=3)
    make_run(runs, seed=2, points=2, state="stopped")
    make_run(runs, seed=3, points=0, state="not started")
    make_run(runs, method="sac-tar", seed=0, points=2)
    said = told(runs, tmp_path / "out")
    assert "4 runs not finished" in said
    assert "seed-1: still running, or killed without a word, 200 of 400 target steps" in said
    assert "seed-2: stopped" in said
    assert "hopper-big-head: par: 0; sac-tar: none" in said or "hopper-big-head: sac-tar: none; par: 0" in said
    assert "fewer than 3 finished runs" in said
    shown = text_of(tmp_path / "out")
    assert "5 runs: 1 finished, 2 running, 1 stopped, 1 not started" in shown
    assert "n 1 of 4" in shown
    assert "n 0 of 1" in shown
    rows = {row["method"]: row for row in read(tmp_path / "out" / "tables" / "online-returns.csv")}
    assert rows["par"]["mean"] == "100.0"
    assert (rows["par"]["iqm low"], rows["sac-tar"]["mean"]) == ("", "")


def test_nothing_finished_is_a_report_too(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", points=0, state="not started")
    write([tmp_path / "runs"], tmp_path / "out")
    assert "1 run: 1 not started" in text_of(tmp_path / "out")


@pytest.mark.usefixtures("no_pictures")
def test_runs_that_a_study_wants_and_that_have_no_folder_yet_are_named(tmp_path: Path) -> None:
    path = make_run(tmp_path / "runs", final=1.0)
    (tmp_path / "runs" / "studies").mkdir()
    record = f"name: online\nruns: [{path.name}, hopper-big-head.darc.paper.seed-0]\n"
    (tmp_path / "runs" / "studies" / "online.yaml").write_text(record)
    (tmp_path / "runs" / "studies" / "broken.yaml").write_text("[")
    said = told(tmp_path / "runs", tmp_path / "out")
    assert "Study online: 1 of 2 runs are not there yet\nhopper-big-head.darc.paper.seed-0" in said


@pytest.mark.usefixtures("no_pictures")
def test_a_failed_run_is_in_no_average_and_its_reason_is_told(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_seeds(runs, PAR)
    failure = {"failure": {"quantity": "critic", "step": 777}}
    make_run(runs, seed=3, state="failed", points=2, provenance=failure)
    said = told(runs, tmp_path / "out")
    assert "1 run failed" in said
    assert "critic not finite at source step 777" in said
    assert "critic not finite at source step 777" in text_of(tmp_path / "out")
    assert read(tmp_path / "out" / "tables" / "online-returns.csv")[0]["mean"] == "300.0"


@pytest.mark.parametrize("name", ["config.yaml", "curve.csv", "provenance.json", "final.json"])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[1, 2", b"{}"])
def test_a_damaged_file_is_named_and_the_rest_is_reported(tmp_path: Path, name: str, content: bytes) -> None:
    paths = make_seeds(tmp_path, [1.0, 2.0])
    (paths[0] / name).write_bytes(content)
    run, whole = (read_run(path) for path in paths)
    assert [complaint.split(" is ")[0] for complaint in run.complaints] == [str(paths[0] / name)]
    assert whole.final_return == 2.0
    assert run.final_return == (1.0 if name == "curve.csv" else None)


def test_failed_and_unfinished_runs_are_drawn_as_far_as_they_came(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", seed=0, points=1)
    make_run(tmp_path / "runs", seed=1, points=3, state="failed", provenance={"failure": {"quantity": "x", "step": 1}})
    write([tmp_path / "runs"], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count('<div class="chart"') == 2  # curve and reward penalty
    assert page.count('<i class="cross"') == 2
    assert "Nothing to compare yet" in text_of(tmp_path / "out")


@pytest.mark.usefixtures("no_pictures")
def test_damaged_runs_are_listed_in_the_report(tmp_path: Path) -> None:
    paths = make_seeds(tmp_path / "runs", PAR)
    (paths[0] / "config.yaml").write_text("task: [")
    (paths[1] / "curve.csv").write_text("target_steps,target_return_mean\n0,abc\n")
    said = told(tmp_path / "runs", tmp_path / "out")
    assert "Missing or damaged files: 2" in said
    assert str(paths[0] / "config.yaml") in said
    assert str(paths[1] / "curve.csv") in said
    assert "3 runs: 2 finished, 1 damaged" in text_of(tmp_path / "out")


def test_a_run_that_lost_a_file_is_damaged_and_one_that_never_began_is_not(tmp_path: Path) -> None:
    began, never = make_run(tmp_path, seed=0, final=1.0), make_run(tmp_path, seed=1, points=0, state="not started")
    (began / "provenance.json").unlink()
    assert (read_run(began).state, read_run(began).complaints) == (
        "damaged", (f"{began / 'provenance.json'} is missing",),
    )  # fmt: skip
    assert (read_run(never).state, read_run(never).complaints) == ("not started", ())


def test_a_link_that_leads_back_up_is_followed_once(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(gather([tmp_path])) == 1


def test_a_line_cut_short_by_a_kill_is_no_damage(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    with open(path / "curve.csv", "a") as file:
        file.write("4000,4")
    run = read_run(path)
    assert run.complaints == ()
    assert len(run.column("target_steps")) == 5


@pytest.mark.usefixtures("no_pictures")
def test_runs_that_are_not_alike_are_named(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_seeds(runs, PAR)
    other = {"offdyn": "0.0.9", "device": {"kind": "NVIDIA H200"}, "models": {"source": "aa", "target": "cc"}}
    make_run(runs, seed=3, final=1.0, provenance=other)
    make_run(runs, method="sac-tar", final=1.0, precision="bfloat16")
    said = told(runs, tmp_path / "out")
    assert "2 precisions among the runs compared\nfloat32: 4 runs\nbfloat16: 1 run" in said
    assert "2 versions of offdyn among the runs compared" in said
    assert "0.0.9: 1 run" in said
    assert "2 devices among the runs compared" in said
    assert "different robot models" in said
    assert "hopper-big-head, target: bb, cc" in said


@pytest.mark.usefixtures("no_pictures")
def test_alike_and_complete_runs_raise_no_notice(tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", PAR)
    make_seeds(tmp_path / "runs", PAR, "hopper-big-head", "sac-tar")
    assert told(tmp_path / "runs", tmp_path / "out") == ""


def test_a_presets_own_penalty_is_one_column_over_all_tasks(tmp_path: Path) -> None:
    for task in ("hopper-big-head", "ant-short-feet"):  # whose penalties are 0.5 and 0.1
        make_seeds(tmp_path, [1.0, 2.0], task)
        make_seeds(tmp_path, [1.0, 2.0], task, penalty=0.0)
    (comparison,) = compare(gather([tmp_path]))
    assert comparison.labels == ["par", "par, penalty 0"]
    assert [len(comparison.column(label)) for label in comparison.labels] == [2, 2]


def test_presets_are_told_apart(tmp_path: Path) -> None:
    make_seeds(tmp_path, [1.0], preset="paper")
    make_seeds(tmp_path, [1.0], preset="released")
    (comparison,) = compare(gather([tmp_path]))
    assert comparison.labels == ["par, preset paper", "par, preset released"]


def test_how_a_run_was_watched_does_not_part_it_from_others(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=0, final=1.0, eval_interval=1000)
    make_run(tmp_path / "b", seed=1, final=2.0, eval_interval=2000)
    (comparison,) = compare(gather([tmp_path]))
    assert [cell.seeds for cell in comparison.cells] == [[0, 1]]


def test_a_parameter_study_is_found_and_drawn(tmp_path: Path) -> None:
    for penalty in (0.0, 0.1, 2.0):
        make_seeds(tmp_path / "runs", [penalty, penalty + 1, penalty + 2], penalty=penalty)
    write([tmp_path / "runs"], tmp_path / "out")
    (comparison,) = compare(gather([tmp_path / "runs"]))
    (study,) = studies(comparison)
    assert (study.method, study.setting, study.values(study.rows[0])) == ("par", "penalty", [0.0, 0.1, 2.0])
    (points,) = study.points.values()
    assert {value: list(finals) for value, finals in points.items()} == {
        0.0: [0.0, 1.0, 2.0], 0.1: [0.1, 1.1, 2.1], 2.0: [2.0, 3.0, 4.0],
    }  # fmt: skip
    assert (tmp_path / "out" / "figures" / "online-par-penalty.pdf").exists()


def test_an_interval_study_at_one_target_budget_is_one_study(tmp_path: Path) -> None:
    name = "source_steps_per_target_step"
    for interval in (2, 5):
        make_seeds(tmp_path, [1.0], target_steps=400, **{name: interval})
    (study,) = studies(compare(gather([tmp_path]))[0])
    assert (study.setting, study.values(study.rows[0])) == (name, [2.0, 5.0])
    for interval in (2, 5):
        make_seeds(tmp_path / "longer", [1.0], target_steps=800, **{name: interval})
    by_setting = {study.setting: study for study in studies(compare(gather([tmp_path]))[0])}
    assert by_setting[name].lines == ["preset paper, target steps 400", "preset paper, target steps 800"]


@pytest.mark.usefixtures("no_pictures")
def test_a_first_phase_is_listed_but_is_no_row_of_a_table(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first = make_run(runs, "hopper", "sac-src", final=5.0)
    make_run(runs, method="sac-tune", final=6.0, start_from=first.name)
    write([runs], tmp_path / "out")
    assert [row["task"] for row in read(tmp_path / "out" / "tables" / "online-returns.csv")] == ["hopper-big-head"]
    assert len(read(tmp_path / "out" / "tables" / "runs.csv")) == 2


@pytest.mark.usefixtures("no_pictures")
def test_the_same_run_counts_once(tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs" / "a", PAR)
    make_run(tmp_path / "runs" / "b", seed=0, final=9999.0)
    said = told(tmp_path / "runs", tmp_path / "out")
    assert "1 run left out" in said
    assert "made again (final return 9999 against 100)" in said
    write([tmp_path / "runs", tmp_path / "runs" / "a"], tmp_path / "out")
    (row,) = read(tmp_path / "out" / "tables" / "online-returns.csv")
    assert (row["finished"], float(row["mean"])) == ("3", 300.0)


def test_a_mean_curve_goes_as_far_as_all_seeds_have_come(tmp_path: Path) -> None:
    make_run(tmp_path, seed=0, final=8.0, points=5)
    make_run(tmp_path, seed=1, points=3)
    steps, values = together(gather([tmp_path]), "target_return_mean")
    np.testing.assert_array_equal(steps, [0, 100, 200])
    np.testing.assert_array_equal(values, [[0, 0], [2, 10], [4, 20]])


def test_many_columns_are_told_apart_by_colour_and_dashes() -> None:
    looks = styles([str(number) for number in range(28)]).values()
    assert len({(look.colour, look.dashes) for look in looks}) == 28


@pytest.mark.usefixtures("no_pictures")
def test_what_runs_say_is_text_and_never_markup(tmp_path: Path) -> None:
    path = make_run(tmp_path / "runs", final=1.0)
    nasty = "<script>alert(1)</script>"
    config = (path / "config.yaml").read_text().replace("preset: paper", f"preset: '{nasty}'")
    (path / "config.yaml").write_text(config.replace("name: hopper-big-head", "name: 'a & <b>_$%'"))
    about = ABOUT | {"state": "failed", "failure": nasty, "offdyn": nasty, "device": {"kind": nasty}}
    (path / "provenance.json").write_text(json.dumps(about))
    write([tmp_path / "runs"], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert nasty not in page
    assert html.escape(nasty) in page
    assert r"a \& $<$b$>$\_\$\%" in (tmp_path / "out" / "tables" / "online-returns.tex").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_without_matplotlib_the_tables_are_complete(tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", PAR)
    write([tmp_path / "runs"], tmp_path / "out")
    assert "need the Python package matplotlib" in text_of(tmp_path / "out")
    assert read(tmp_path / "out" / "tables" / "online-returns.csv")


@pytest.mark.usefixtures("no_pictures")
def test_a_report_takes_the_place_of_an_older_one_and_of_nothing_else(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", final=1.0)
    write([tmp_path / "runs"], tmp_path / "out")
    (tmp_path / "out" / "tables" / "old.csv").write_text("old")
    write([tmp_path / "runs"], tmp_path / "out")
    assert not (tmp_path / "out" / "tables" / "old.csv").exists()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "index.html").write_text("dear all")
    with pytest.raises(OffdynError, match="something else than a report"):
        write([tmp_path / "runs"], tmp_path / "letters")
    with pytest.raises(OffdynError, match="something else than a report"):
        write([tmp_path / "runs"], tmp_path / "runs")


def test_a_folder_without_runs_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(OffdynError, match="no run below it"):
        gather([tmp_path])
    with pytest.raises(OffdynError, match="no such folder"):
        gather([tmp_path / "nowhere"])
