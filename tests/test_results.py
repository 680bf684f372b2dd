"""What results/ publishes: runs come in whole and finished, and the pages say what the files beside them say."""

import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offdyn.report.runs import gather

from .report.made_up import make_run, make_seeds

RESULTS = Path(__file__).parents[1] / "results"
STUDY = RESULTS / "evidence-plan" / "par.yaml"


@pytest.fixture(scope="module")
def scripts() -> Iterator[Any]:
    """The scripts of results/ by their names; they import each other as scripts do, by the folder they lie in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RESULTS)
        yield import_module
        for name in ("about", "contents", "every_seed", "index", "keep", "short_runs"):
            sys.modules.pop(name, None)


@pytest.fixture
def keep(scripts: Any) -> Any:
    return scripts("keep")


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def refused(script: Any, arguments: list[Any], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="2"):
        script.main([str(argument) for argument in arguments])
    return capsys.readouterr().err


def test_of_a_run_its_settings_curve_finals_and_provenance_are_kept(keep: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", final=1.0)
    (run / "policy.safetensors").write_bytes(b"weights")
    (run / "metrics.jsonl").write_text("{}")
    (tmp_path / "runs" / "cohorts").mkdir()
    keep.main([str(tmp_path / "runs"), str(tmp_path / "out")])
    four = {f"{run.name}/{name}" for name in ("config.yaml", "curve.csv", "final.json", "provenance.json")}
    assert names(tmp_path / "out") == four | {"about.yaml"}
    assert (tmp_path / "out" / run.name / "curve.csv").read_bytes() == (run / "curve.csv").read_bytes()
    keep.main([str(tmp_path / "runs"), str(tmp_path / "out"), "--policies"])
    assert names(tmp_path / "out") == four | {"about.yaml", f"{run.name}/policy.safetensors"}


def test_what_is_there_already_is_never_overwritten(
    keep: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_seeds(tmp_path / "old", [1.0])
    make_seeds(tmp_path / "new", [2.0, 3.0])
    keep.main([str(tmp_path / "old"), str(tmp_path / "out")])
    before = {name: (tmp_path / "out" / name).read_bytes() for name in names(tmp_path / "out")}
    assert "there already, with other content" in refused(keep, [tmp_path / "new", tmp_path / "out"], capsys)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in names(tmp_path / "out")} == before


def test_unfinished_runs_are_refused_or_left_behind_by_name_and_failed_ones_kept(
    keep: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    make_run(runs, seed=0, final=1.0)
    make_run(runs, seed=1, points=2)
    make_run(runs, seed=2, state="failed", points=2)
    said = refused(keep, [runs, out], capsys)
    assert "1 of 3 runs are not finished" in said
    assert "seed-1: running" in said
    assert not out.exists()
    keep.main([str(runs), str(out), "--finished-only"])
    said = capsys.readouterr().out
    assert "2 runs kept, 1 of them failed" in said
    assert "left behind: hopper-big-head.par.paper.seed-1 (running)" in said
    assert {path.name[-1] for path in out.iterdir() if path.is_dir()} == {"0", "2"}


def test_a_folder_notes_how_all_its_runs_were_made(scripts: Any, keep: Any, tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=0, final=1.0)
    make_run(tmp_path / "b", seed=1, final=1.0)
    out = tmp_path / "out"
    keep.main([*map(str, (tmp_path / "a", out, "--study", STUDY)), "--made", "2026-11-15", "--took", "20 minutes"])
    keep.main(
        [*map(str, (tmp_path / "b", out)), "--command", "offdyn train", "--made", "2026-11-16", "--took", "an hour"]
    )
    said = scripts("about").read(out)
    of_study = STUDY.read_text().splitlines()[0].removeprefix("# ")
    assert of_study.startswith("offdyn study run results/evidence-plan/par.yaml")
    assert (said.studies, said.commands) == (("evidence-plan/par.yaml",), (of_study, "offdyn train"))
    assert (said.made, said.took) == ("2026-11-15, 2026-11-16", "20 minutes and an hour")


def test_a_study_elsewhere_and_a_misspelt_key_are_mistakes(
    scripts: Any, keep: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs", final=1.0)
    arguments = [tmp_path / "runs", tmp_path / "out", "--study", tmp_path / "mine.yaml"]
    assert "expected a study's file below results/" in refused(keep, arguments, capsys)
    (tmp_path / "about.yaml").write_text("whta: PAR\n")
    with pytest.raises(keep.OffdynError, match="did you mean 'what'"):
        scripts("about").read(tmp_path)


def test_only_what_is_between_the_marks_of_a_page_is_replaced(scripts: Any) -> None:
    index = scripts("index")
    page = "ours\n<!-- from the runs: main -->\nold\n<!-- end -->\nours too\n"
    filled = index.filled(page, {"main": "new"})
    assert filled == "ours\n<!-- from the runs: main -->\n\nnew\n\n<!-- end -->\nours too\n"
    assert index.filled(filled, {"main": "new"}) == filled
    with pytest.raises(index.OffdynError, match="no part 'main'"):
        index.filled(page, {"other": "new"})


def test_what_is_missing_of_a_study_is_told_by_method_task_and_seed(scripts: Any) -> None:
    contents = scripts("contents")
    wanted, _ = contents.load(STUDY).runs()
    assert contents._missing(wanted, wanted) == "all"
    lacking = [run for run in wanted if run.preset == "released" or run.task.name == "ant-short-feet"]
    assert contents._missing(lacking, wanted) == "`par.paper`: ant-short-feet; `par.released`: all tasks"
    two = [run for run in wanted if run.name.endswith(("ant-short-feet.par.paper.seed-1", "hips.par.paper.seed-3"))]
    assert contents._missing(two, wanted) == "`par.paper`: ant-broken-hips (seeds 3), ant-short-feet (seeds 1)"
    assert contents._missing([], wanted) == ""


def test_a_planned_run_is_known_by_what_it_trains_not_by_how_it_was_watched_or_its_precision(
    scripts: Any, tmp_path: Path
) -> None:
    contents = scripts("contents")
    wanted, _ = contents.load(RESULTS / "evidence-plan" / "controls.yaml").runs()
    planned = next(
        run for run in wanted if run.task.name == "ant-broken-hips" and run.hyper.penalty == 0 and run.seed == 1
    )

    def known(**settings: Any) -> bool:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        whole = {"source_steps": 1_000_000, "penalty": 0.0} | settings
        (run,) = contents.gather([make_run(out, "ant-broken-hips", seed=1, final=1.0, **whole)])
        asked = contents._planned_as(planned.task.name, planned, planned.settings())
        return bool(contents._planned_as(run.task, run, run.settings) == asked)

    assert known()
    assert known(precision="bfloat16", eval_interval=20_000)
    assert not known(penalty=0.1)
    assert not known(source_steps=500_000)


def test_the_pages_say_what_the_runs_beside_them_say(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are compared by the files they were drawn from: to draw them takes ten times as long."""
    index = scripts("index")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    index.write([RESULTS], tmp_path / "report")
    assert index.outdated(tmp_path / "report") == [], "run `python results/index.py`"
    for page in index.PAGES:
        assert "<!-- from the runs: main -->" in page.read_text()


def test_the_report_on_all_results_finds_nothing_damaged_and_no_run_twice(tmp_path: Path, scripts: Any) -> None:
    contents = scripts("contents")
    runs = contents.compared()
    assert [complaint for run in runs for complaint in run.complaints] == []
    keys = [(run.path.name, run.settings["source_steps"]) for run in runs]
    assert len(keys) == len(set(keys))
    apart = [folder for folder in contents.by_folder() if contents.about.read(folder).apart]
    assert RESULTS / "engine-check" in apart


@pytest.mark.parametrize(
    "script",
    [
        "controls/figure",
        "darc/compare",
        "par-again/figure",
        "par-ant/figure",
        "sac-tune/compare",
        "twins/compare",
        "vgdf/compare",
    ],
)
def test_a_page_shows_the_tables_that_its_script_prints_from_the_runs_beside_it(
    script: str, scripts: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    monkeypatch.setattr(scripts("every_seed"), "draw", lambda out, *_, **__: drawn.append(out))
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the script adds to
    runpy.run_path(str(RESULTS / f"{script}.py"), run_name="__main__")
    page = ((RESULTS / script).parent / "README.md").read_text()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert rows
    assert [row for row in rows if row not in page.replace("**", "").splitlines()] == []
    assert [f"]({path.name})" in page for path in drawn] == [True]


def test_with_the_same_compiled_programs_a_second_start_on_a_gpu_had_the_same_numbers(scripts: Any) -> None:
    ants = RESULTS / "par-ant"
    begun = scripts("every_seed").curves_in(ants / "part-length-again.csv", {"mean_value", "target_return_mean"})
    for task, curves in begun.items():
        for seed, curve in zip((3, 4), curves, strict=True):
            whole = next(run for run in gather([ants]) if (run.task, run.seed) == (task, seed))
            for name, values in curve.items():
                # The table holds five digits; a step's number is among them.
                np.testing.assert_allclose(values, whole.column(name)[: len(values)], rtol=5.1e-5, err_msg=name)


def test_the_controls_on_the_small_world_are_those_of_the_table_beside_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RESULTS / "small-world"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "argv", ["controls.py", "--show"])
    runpy.run_path(str(folder / "controls.py"), run_name="__main__")
    sys.modules.pop("run")
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 9
    assert [row for row in rows if row not in (folder / "README.md").read_text().splitlines()] == []


def test_the_verdicts_on_source_rows_are_those_of_the_rows_beside_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, out, **__: drawn.append(out))
    runpy.run_path(str(RESULTS / "true-gap" / "show.py"), run_name="__main__")
    page = (RESULTS / "true-gap" / "README.md").read_text()
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 24
    assert [row for row in rows if row not in page.splitlines()] == []
    assert [f"]({path.name})" in page for path in drawn] == [True]


def test_short_runs_are_one_table_with_the_columns_that_were_asked_for(scripts: Any, tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", [1.0, 2.0])
    scripts("short_runs").main(str(tmp_path / "table.csv"), "task,penalty+wall_seconds", str(tmp_path / "runs"))
    header, *rows = (tmp_path / "table.csv").read_text().splitlines()
    assert header.startswith("task,penalty,seed,source_steps,")
    assert header.endswith(",entropy,wall_seconds")
    points = len(gather([tmp_path / "runs"])[0].column("source_steps"))
    assert {row.split(",")[2] for row in rows} == {"0", "1"}
    assert len(rows) == 2 * points


def test_every_seed_of_every_kind_is_drawn_where_it_has_numbers(scripts: Any, tmp_path: Path) -> None:
    make_seeds(tmp_path / "runs", [1.0, 2.0])
    every_seed = scripts("every_seed")
    columns = {"target_return_mean": "return", "penalty_mean": "deducted"}
    runs = gather([tmp_path / "runs"])
    curves = {"hopper-big-head": {"par": every_seed.curves_of(runs, columns), "none": []}}
    curves["hopper-big-head"]["par"][0]["penalty_mean"][1] = float("nan")
    figure = every_seed.draw(
        tmp_path / "curves.png", curves, columns, over="target_steps", logarithmic=["penalty_mean"]
    )
    returns, deducted = (axes.get_lines() for axes in figure.axes)
    assert [len(line.get_xdata()) for line in returns] == [5, 5, 0, 0]  # two seeds, and a key for each kind
    assert [len(line.get_xdata()) for line in deducted] == [4, 5, 0, 0]
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    curves["hopper-big-head"]["par"][0]["penalty_mean"][2] = -1.0
    figure = every_seed.draw(tmp_path / "curves.png", curves, columns, logarithmic=["penalty_mean"])
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "symlog"]  # a logarithm would hide it
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_the_chance_of_a_difference_over_tasks_is_that_of_dealing_the_runs_anew(scripts: Any) -> None:
    chance = scripts("every_seed").chance
    apart = [np.array([1.0, 1.0])] * 2, [np.array([0.0, 0.0])] * 2
    # One of a task's six deals has both ones on the one side, another on the other; both tasks must agree.
    assert chance(*apart) == pytest.approx(2 / 36, abs=0.006)
    assert chance(*apart[:1], apart[0]) == 1.0
