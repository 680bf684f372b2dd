"""The references under results/ are what their files say, and every study of the evidence is the runs it promises."""

import csv
import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from offdyn.domains import tasks
from offdyn.domains.tasks import TASKS, normalised, reference
from offdyn.errors import OffdynError
from offdyn.experiments.config import RunConfig
from offdyn.experiments.record import RunFolder
from offdyn.studies.scale import scaled
from offdyn.studies.study import load

RESULTS = Path(__file__).parents[1] / "results"
REFERENCES, PLAN = RESULTS / "references", RESULTS / "evidence-plan"
EIGHT = [name for name, task in TASKS.items() if reference(task)]


@functools.cache
def runs_of(name: str) -> tuple[RunConfig, ...]:
    folder = REFERENCES if name == "high" else PLAN
    return tuple(load(folder / f"{name}.yaml").runs()[0])


@functools.cache
def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"references_{name}", REFERENCES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def others(run: RunConfig, *names: str) -> dict[str, object]:
    """Every setting but these."""
    return {name: value for name, value in run.settings().items() if name not in names}


def test_the_plan_states_how_many_runs_each_study_has() -> None:
    stated = {}
    for line in (PLAN / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].endswith(".yaml`"):  # the table of studies, not that of their pieces
            stated[cells[0].strip("`")] = int(cells[2])
    files = {path.name for path in PLAN.glob("*.yaml")} | {"high.yaml"}
    assert stated == {name: len(runs_of(name.removesuffix(".yaml"))) for name in files}


def test_every_study_names_the_command_that_runs_it() -> None:
    for path in (*PLAN.glob("*.yaml"), REFERENCES / "high.yaml"):
        first = path.read_text().splitlines()[0]
        assert first.startswith(f"# offdyn study run results/{path.parent.name}/{path.name} --out runs/")


def test_a_twin_is_its_run_without_penalty_and_a_control_has_it_without_its_content() -> None:
    of = {(run.task.name, run.preset, run.seed): run for run in runs_of("par")}
    seen = set()
    for twin in (*runs_of("twins"), *runs_of("controls")):
        run = of[twin.task.name, twin.preset, twin.seed]
        differ = {name for name, value in twin.settings().items() if run.settings()[name] != value} - {"eval_interval"}
        (name,) = differ
        assert twin.settings()[name] == (0 if name == "penalty" else 1)
        seen.add((twin.preset, name))
    assert seen == {
        ("released", "penalty"),
        ("paper", "penalty"),
        ("paper", "deviation_shuffled"),
        ("paper", "deviation_averaged"),
    }


def test_a_control_of_vgdf_counts_as_many_rows_without_their_choice() -> None:
    of = {(run.task.name, run.seed): run for run in runs_of("rivals") if run.method == "vgdf"}
    seen = set()
    for control in runs_of("filter"):
        run = of[control.task.name, control.seed]
        ((name, value),) = {n: v for n, v in control.settings().items() if run.settings()[n] != v}.items()
        seen.add((name, value))
    assert seen == {("weight_shuffled", 1), ("weight_averaged", 1)}


def test_bodies_alone_differ_where_bodies_are_compared() -> None:
    runs = runs_of("bodies")
    assert len({repr(sorted(others(run, "bodies", "penalty").items())) for run in runs}) == 1
    assert {run.schedule.source_bodies for run in runs} == {1, 10}
    assert {run.schedule.target_budget for run in runs} == {30_000}


def test_a_high_reference_is_learned_from_a_million_target_steps_and_nothing_else() -> None:
    runs = runs_of("high")
    assert sorted({run.task.name for run in runs}) == sorted(EIGHT)
    for plan in (run.schedule for run in runs):
        assert (plan.collects, plan.rows, plan.source_data, plan.start_from) == ("source", "source", None, None)
        assert plan.source_body == "shifted"  # so that every step is in the target's body
        assert (plan.source_steps, plan.target_budget, plan.updates_per_tick) == (1_000_000, 0, plan.tick)


def test_low_references_cover_the_tasks_and_are_known_to_a_hundredth_of_the_published_span() -> None:
    low = {line["task"]: float(line["standard_error"]) for line in lines(REFERENCES / "low.csv")}
    for name in EIGHT:
        least, most = reference(TASKS[name]) or (0.0, 0.0)
        assert low[name] < 0.01 * (most - least)


def test_the_low_references_shown_are_those_of_the_file() -> None:
    shown = (REFERENCES / "README.md").read_text()
    for line in lines(REFERENCES / "low.csv"):
        value, error = float(line["low"]), float(line["standard_error"])
        assert f"| {line['task']} | {value:.1f} ± {error:.1f} |" in shown


def test_a_low_reference_can_be_measured_again() -> None:
    task = TASKS["walker-no-right-thigh"]  # whose random episodes are the shortest
    noted = next(line for line in lines(REFERENCES / "low.csv") if line["task"] == task.name)
    again = script("low").row(task, script("low").play_at_random(task, int(noted["episodes"])))
    assert again["low"] == pytest.approx(float(noted["low"]), abs=float(noted["standard_error"]))


def test_random_play_is_whole_episodes_of_the_shifted_body() -> None:
    play = script("low").play_at_random
    shifted, again = (play(TASKS["hopper-big-head"], 3) for _ in range(2))
    np.testing.assert_array_equal(shifted.returns, again.returns)
    assert not np.isclose(shifted.returns, play(TASKS["hopper"], 3).returns).any()
    assert (play(TASKS["halfcheetah-no-thighs"], 1).steps == 1000).all()


def finished(folder: Path, run: RunConfig, mean: float) -> None:
    made = RunFolder.create(folder, run)
    made.write_json("final.json", {"final_mean": mean})
    made.write_json("provenance.json", {"format": 1, "state": "finished"})


def test_a_high_reference_is_the_best_of_its_seeds_and_waits_for_all_of_them(tmp_path: Path) -> None:
    complete, incomplete = "hopper-big-head", "ant-short-feet"
    for run in runs_of("high"):
        if run.task.name == complete or (run.task.name == incomplete and run.seed == 0):
            finished(tmp_path, run, [3000.0, 100.0, 2000.0][run.seed])
    rows = script("high").rows(script("high").finals(tmp_path, runs_of("high")), (0, 1, 2))
    assert rows == [{"task": complete, "high": 3000.0, "seed_0": 3000.0, "seed_1": 100.0, "seed_2": 2000.0}]


def test_a_shortened_run_is_no_high_reference(tmp_path: Path) -> None:
    finished(tmp_path, scaled(runs_of("high")[0], 0.01), 1.0)
    with pytest.raises(OffdynError, match="not a run of high"):
        script("high").finals(tmp_path, runs_of("high"))


def test_scores_can_be_on_our_own_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS["hopper-big-head"]
    text = script("high").scale({task.name: 25.0}, [{"task": task.name, "high": 2025.0}])
    (tmp_path / "scores.csv").write_text(text)
    monkeypatch.setitem(tasks.REFERENCES, "measured", str(tmp_path / "scores.csv"))
    tasks._references.cache_clear()
    try:
        assert normalised(task, 1025.0, "measured") == 50.0
        assert normalised(TASKS["ant-short-feet"], 0.0, "measured") is None
        assert reference(task) != (25.0, 2025.0)
    finally:
        tasks._references.cache_clear()


def test_our_own_scale_takes_its_low_values_from_the_file_beside_the_runs() -> None:
    low = {line["task"]: float(line["low"]) for line in lines(REFERENCES / "low.csv")}
    for name in EIGHT:
        bounds = reference(TASKS[name], "measured")
        assert bounds is None or (bounds[0] == low[name] and bounds[0] < bounds[1])
