"""results/ is what its tables say, and takes every run in once and whole."""

import csv
import importlib
import json
import re
import shutil
import sys
import tarfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
TABLES = ("runs.csv.gz", "finals.csv", "studies.csv")


def load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules there, by name and anew: they keep what they read."""
    names = [path.stem for path in folder.glob("*.py")]
    monkeypatch.syspath_prepend(folder)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load(RESULTS, monkeypatch)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The scripts beside a copy of the tables, to be written to."""
    shutil.copytree(RESULTS, tmp_path / "results")
    modules = load(tmp_path / "results", monkeypatch)
    monkeypatch.setattr(modules.make, "write_all", lambda: None)
    return modules


def run_folder(
    out: Path, *, seed: int = 7, state: str = "finished", chosen: tuple[str, ...] = (), **settings: Any
) -> Path:
    """As offdyn writes one, of three evaluations."""
    folder = out / f"hopper-big-head.sac.seed-{seed}"
    folder.mkdir(parents=True)
    settings = {"final_episodes": 2, "padded": True} | settings
    config = {"format": 1, "task": {"name": "hopper-big-head"}, "method": "sac", "preset": "paper", "seed": seed}
    config |= {"chosen": ["padded", *chosen], "settings": settings}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    header = "source_steps,target_steps,updates,target_return_mean,source_return_mean,normalised,mean_value,losses\n"
    lines = [f"{10 * step},{step},{10 * step},{1000 + step},2000.123456,{step / 100},,1\n" for step in (0, 100, 200)]
    (folder / "curve.csv").write_text(header + "".join(lines))
    provenance = {"state": state, "offdyn": "0.2.0", "packages": {"jax": "0.11.2"}, "device": {"kind": "cpu"}}
    (folder / "provenance.json").write_text(json.dumps(provenance | {"wall_seconds": 12.5}))
    if state == "finished":
        final = {"final_mean": 500.0, "final_std": 1.0, "final_normalised": 16.5, "final_returns": [499.0, 501.0]}
        (folder / "final.json").write_text(json.dumps(final))
    return folder


def test_pages_figures_and_summary_are_what_the_tables_give(results: Any) -> None:
    assert results.make.outdated() == [], "run `python results/make.py`"


def test_every_run_is_there_once_and_every_evaluation_is_of_one(results: Any) -> None:
    store = results.store
    finals = [store.key(row) for row in store.table("finals.csv")]
    assert [run for run, times in Counter(finals).items() if times > 1] == []
    assert {store.key(line) for line in store.table("runs.csv.gz")} <= set(finals)
    assert {run[0] for run in finals} == {row["study"] for row in store.table("studies.csv")}
    clock = ("source_steps", "target_steps", "updates")
    evaluations = Counter((*store.key(line), *map(line.get, clock)) for line in store.table("runs.csv.gz"))
    assert [run for run, times in evaluations.items() if times > 1] == []


def test_a_method_of_the_summary_can_be_computed_from_the_finals_in_a_few_lines() -> None:
    with (RESULTS / "finals.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["study"] == "sac-tune"]
    scores = np.sort([float(row["normalised"]) for row in rows])
    told = json.loads((RESULTS / "summary.json").read_text())["eight_tasks"]
    (said,) = [row for row in told if row["method"] == "sac-tune" and row["backbone"] == "classic"]
    assert said["runs"] == len(rows) == 24
    assert said["iqm"] == pytest.approx(scores[6:18].mean(), abs=0.006)
    assert said["mean"] == pytest.approx(scores.mean(), abs=0.006)  # as many runs on each task
    assert said["stuck"] == sum(row["stuck"] == "true" for row in rows)
    assert said["iqm_interval"][0] < said["iqm"] < said["iqm_interval"][1]
    draws = np.random.default_rng(1).integers(3, size=(4000, 8, 3))
    of_tasks = np.array([[float(r["normalised"]) for r in rows if r["task"] == t] for t in {r["task"] for r in rows}])
    drawn = np.sort(np.take_along_axis(of_tasks[None], draws, axis=2).reshape(4000, 24), axis=1)[:, 6:18].mean(1)
    np.testing.assert_allclose(said["iqm_interval"], np.quantile(drawn, [0.025, 0.975]), atol=1.5)


def test_a_new_run_adds_its_lines_and_nothing_else_and_is_taken_in_once(copy: Any, tmp_path: Path) -> None:
    before = {name: copy.store.table(name) for name in TABLES}
    run_folder(tmp_path / "runs", chosen=("penalty", "backbone"), penalty=0.0, backbone="simba", domain_input="flag")
    asked = ["--add", str(tmp_path / "runs"), "--study", "mine"]
    with pytest.raises(SystemExit, match="1"):
        copy.make.main(asked)  # what a new study is, must be said
    copy.make.main([*asked, "--about", "made up"])
    added = {name: [row for row in copy.store.table(name) if row["study"] == "mine"] for name in TABLES}
    for name in TABLES:
        assert [row for row in copy.store.table(name) if row["study"] != "mine"] == list(before[name])
    (final,) = added["finals.csv"]
    assert copy.store.key(final) == ("mine", "hopper-big-head", "sac", "simba", "paper", "penalty=0", "7")
    assert (final["final_mean"], final["stuck"], final["state"], final["updates"]) == (
        "500",
        "true",
        "finished",
        "2000",
    )
    assert final["command"].endswith("--seeds 7 --set backbone=simba padded=true penalty=0")
    assert [line["target_return"] for line in added["runs.csv.gz"]] == ["1000", "1100", "1200"]
    assert {line["source_return"] for line in added["runs.csv.gz"]} == {"2000.12"}
    whole = {name: (copy.store.HERE / name).read_bytes() for name in TABLES}
    with pytest.raises(SystemExit, match="1"):
        copy.make.main(asked)
    assert {name: (copy.store.HERE / name).read_bytes() for name in TABLES} == whole


def test_runs_come_packed_too_and_one_that_did_not_end_only_as_cut_short(
    copy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder(tmp_path / "runs", seed=8)
    run_folder(tmp_path / "runs", seed=9, state="stopped")
    with tarfile.open(tmp_path / "runs.tgz", "w:gz") as packed:
        packed.add(tmp_path / "runs", "runs")
    asked = ["--add", str(tmp_path / "runs.tgz"), "--study", "mine", "--about", "made up", "--apart"]
    with pytest.raises(SystemExit, match="1"):
        copy.make.main(asked)
    assert "seed-9: stopped" in capsys.readouterr().err
    copy.make.main([*asked, "--cut-short"])
    states = {row["seed"]: row["state"] for row in copy.store.table("finals.csv") if row["study"] == "mine"}
    assert states == {"8": "finished", "9": "cut short"}
    assert {row["study"]: row["compared"] for row in copy.store.table("studies.csv")}["mine"] == "no"


def test_settings_of_older_and_newer_runs_have_one_spelling(results: Any) -> None:
    adding = results.adding
    old = {"source_steps": 100_000, "target_interval": 10, "updates_per_step": 1, "collects": "both", "penalty": 0.3}
    new = {"target_steps": 10_000, "source_steps_per_target_step": 10, "updates_per_target_step": 10, "penalty": 0.3}
    chosen = ("penalty", "source_steps")
    assert adding.variant(*adding.today(old, chosen), {}) == "penalty=0.3 target_steps=10000"
    assert adding.variant(*adding.today(new, ("penalty", "target_steps")), {}) == "penalty=0.3 target_steps=10000"
    assert adding.variant(new, ("penalty", "target_steps"), {"penalty": "0.3"}) == "target_steps=10000"
    settings, _ = adding.today(old, chosen)
    assert {name: settings[name] for name in new} == new
    assert adding.variant(*adding.today(old | {"source_steps": 1_000_000}, chosen), {}) == "penalty=0.3"
    assert adding.preset_of("head-start", "simba")["critic_widths"] == "128x128"
    assert adding.preset_of("head-start", "gone") == {}


def test_what_is_usual_elsewhere_is_told_where_the_preset_has_something_else(results: Any) -> None:
    adding = results.adding
    plain, average = {"domain_input": "none"}, {"actor_average": None}
    assert adding.variant(plain, plain, {}) == ""
    assert adding.variant(plain, plain, adding.preset_of("head-start", "fading")) == "domain_input=none"
    assert adding.variant(average, average, adding.preset_of("head-start", "fading")) == "actor_average=none"


def test_target_steps_to_a_score_are_those_of_the_mean_over_tasks(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ("sac", "classic", "paper", "")
    steps = np.array([0.0, 50_000.0, 100_000.0])
    scores = {"one": (0.0, 50.0, 100.0), "two": (0.0, 0.0, 50.0)}  # their mean: 0, 25, 75
    curves = {
        ("mine", task, *group, "0"): {"target_steps": steps, "normalised": np.array(some)}
        for task, some in scores.items()
    }
    monkeypatch.setattr(results.scores, "curves", lambda: curves)
    monkeypatch.setattr(results.scores, "tasks", lambda: list(scores))
    monkeypatch.setattr(results.scores, "studies", lambda *_: {"mine"})
    assert [results.scores.target_steps_to(level, group) for level in (25.0, 50.0, 76.0)] == [50_000, 75_000, None]


def test_a_place_in_a_page_that_nothing_writes_is_a_mistake(results: Any) -> None:
    with pytest.raises(results.store.Refused, match="no table 'nothing'"):
        results.pages.filled("<!-- from the runs: nothing -->\n<!-- end -->")


def test_every_table_and_figure_of_the_paper_has_a_verdict(results: Any) -> None:
    claims = results.claims.claims()
    said = " ".join(claim["where"] for claim in claims)
    parts = ["figure 1", "figure 2", "figure 3a", "3b", *(f"figure {n}" for n in (4, 5, 6, 7)), "figure 8a", "8b"]
    parts += ["figure 9", "figure 10", "figure 11", "table 1", "table 2", "table 3", "table 4"]
    assert [part for part in parts if not re.search(rf"{part}\b", said)] == []
    assert {claim["verdict"] for claim in claims} <= {"holds", "does not hold", "cannot be decided"}
    known = {"where", "claim", "command", "ours", "wanted", "deviations", "verdict", "because"}
    assert [claim for claim in claims if not set(claim) <= known] == []


@pytest.mark.parametrize(
    ("said", "of", "more"),
    [("SAC-tar on all 8", 8, "holds"), ("is best on 6", 6, "holds"), ("SAC-tune on 7", 1, "does not hold")],
)
def test_a_verdict_that_goes_beyond_the_interval_is_refused(results: Any, said: str, of: int, more: str) -> None:
    (claim,) = [claim for claim in results.claims.claims() if said in claim["claim"]]
    results.claims.ours(claim)
    with pytest.raises(results.store.Refused, match="more than the runs"):
        results.claims.ours(claim | {"verdict": more, "ours": claim["ours"] | {"of": of}})


def test_a_claim_without_a_run_cannot_be_decided(results: Any) -> None:
    for claim in results.claims.claims():
        assert "ours" in claim or claim["verdict"] == "cannot be decided", claim


def test_a_number_of_tasks_ahead_is_what_the_finals_give(results: Any) -> None:
    tasks = results.scores.tasks()

    def means(study: str) -> Any:
        rows = [row for row in results.store.table("finals.csv") if row["study"] == study]
        return np.array([np.mean([float(r["normalised"]) for r in rows if r["task"] == t]) for t in tasks])

    found, runs = results.claims.figure("released", ["sac-tune"])
    assert found.value == (means("par-released") > means("sac-tune")).sum()
    assert found.interval.low < found.value < found.interval.high
    assert runs == 64
    found, _ = results.claims.figure("released", ["sac-tune", "sac-tar"], points=True)
    best = np.maximum(means("sac-tune"), means("sac-tar"))
    assert found.value == pytest.approx((means("par-released") - best).mean())


def test_a_shipped_study_counts_the_finished_runs_that_it_asks_for(results: Any) -> None:
    asked_for = [r for r in results.store.table("finals.csv") if r["study"] in ("sac-tar", "sac-tune", "sac-src")]
    assert results.claims.counted("online")[:2] == (260, len(asked_for))
    assert results.claims.counted("par-b") == (40, 0, 20)  # PAR's `paper` for its `reported`, five seeds on four tasks
    assert results.claims.counted("online", "vgdf") == (40, 0, 24)
    assert results.claims.counted("runtime")[1] == 0  # those that there are shared their program


def test_a_run_of_the_same_preset_with_another_setting_is_not_counted(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    finals = results.store.table("finals.csv")
    rows = [dict(row) for row in finals if row["study"] == "sac-tar" and row["backbone"] == "classic"]
    rows[0]["settings"] += " temperature=0.1"
    rows[1]["state"] = "cut short"
    monkeypatch.setattr(results.claims, "table", lambda name: rows)
    assert results.claims.counted("online", "sac-tar")[1] == len(rows) - 2
