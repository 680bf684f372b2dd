"""The studies that come with offdyn are the paper's tables and figures; what is wrong in a file is said in words."""

import functools
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from offdyn._util.errors import OffdynError
from offdyn.studies.study import load, parse, shipped
from offdyn.training.config import RunConfig
from offdyn.training.preparation import group

from .tiny import content

# Runs of each of the paper's studies, counted by hand: tasks x methods x values x qualities x seeds, and runs that
# others continue from.
COUNTS = {
    "online": 8 * 6 * 5 + 4 * 5,  # sac-src of each robot and seed
    "offline": 8 * 5 * 3 * 5 + 4 * 3 * 5,  # cql-src of each robot, quality and seed
    "penalty": 8 * 5 * 5,
    "interval": 8 * 4 * 5,
    "offline-penalty": 4 * 5 * 2 * 5,
    "offline-balance": 4 * 4 * 2 * 5,
    "par-b": 4 * 2 * 5,
    "correction": 6 * 2 * 5,
    "runtime": 5,
}
# The same of our own: the demo, and those that choose and test a default; of `search` its first stage's 19 methods.
OURS = {
    "demo": 5 * 5,
    "search": 8 * 19 * 2,
    "confirm": 8 * 3 * 5,
    "second-suite": 8 * 3 * 2,
    "ablation": 4 * 10 * 3,
}
# Of methods that are not trained with the preset `paper`: in the studies of that name, or in all.
PRESETS = {("online", "darc"): "source-only", ("online", "darc-weight"): "source-only", ("online", "vgdf"): "released"}
USUAL_PRESETS = {"par": "reported", "par-b": "reported"}
KINEMATIC = ("broken-back-thigh", "broken-joints", "broken-right-foot", "broken-hips")


@functools.cache
def all_runs(name: str) -> list[RunConfig]:
    return load(name).runs()[0]


def runs(name: str, **options: Any) -> list[RunConfig]:
    return load(name).runs(**options)[0] if options else all_runs(name)


def test_a_folder_of_a_studys_name_is_not_taken_for_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "online").mkdir()
    assert load("online").name == "online"


def test_there_is_one_for_each_table_and_figure() -> None:
    assert set(shipped()) == set(COUNTS) | set(OURS)


@pytest.mark.parametrize("name", COUNTS | OURS)
def test_each_has_the_runs_that_were_counted(name: str) -> None:
    made = runs(name)
    assert len(made) == len({run.name for run in made}) == (COUNTS | OURS)[name]
    assert load(name).name == name
    assert load(name).what


def test_the_demos_par_and_its_ablation_share_a_program_and_the_baselines_have_its_target_steps() -> None:
    _, par, ablation, *baselines = runs("demo", seeds=[0])
    assert {name for name, value in par.settings().items() if ablation.settings()[name] != value} == {"penalty"}
    assert par.hyper.penalty == 2
    assert [len(cohort) for cohort in group([par, ablation, *baselines])] == [2, 1, 1]
    assert [run.schedule.target_budget for run in baselines] == [120, 120] == [par.schedule.target_budget] * 2
    assert [run.sac.batch_size for run in baselines] == [2 * par.sac.batch_size] * 2
    assert [run.schedule.updates_each for run in (par, *baselines)] == [150, 1, 150]


@pytest.mark.parametrize(("name", "updates"), [("search", 500_000), ("confirm", 10**6), ("second-suite", 10**6)])
def test_what_is_compared_on_one_backbone_has_one_budget_and_as_many_updates(name: str, updates: int) -> None:
    for run in runs(name):
        plan = run.schedule
        assert (run.sac.backbone, plan.padded) == ("simba", True)
        if plan.acts_in_target:
            assert plan.target_budget == 100_000
            assert 0.8 <= plan.updates_per_tick * plan.length / plan.tick / updates <= 1.05


def test_a_choice_is_tested_with_seeds_and_on_tasks_that_it_was_not_made_on() -> None:
    search = load("search")
    chosen_on = {*search.seeds, *(seed for stage in search.stages for seed in stage.seeds)}
    assert chosen_on == {0, 1, 2, 3, 4}
    assert not chosen_on & set(load("confirm").seeds)
    assert set(load("confirm").tasks) == set(search.tasks)
    second = load("second-suite").tasks
    assert not set(second) & set(search.tasks)
    assert Counter(task.split("-")[0] for task in second) == {"halfcheetah": 2, "hopper": 2, "walker": 2, "ant": 2}
    assert {task.split("-")[1] for task in second} == {"gravity", "friction", "damping", "mass", "armature", "strength"}


def test_without_residual_networks_all_else_is_as_in_simba() -> None:
    labels = ("all of it", "no residual networks")
    whole, plain = (runs("ablation", seeds=[0], only=["hopper", label])[0].settings() for label in labels)
    assert {name for name in whole if plain[name] != whole[name]} == {"backbone", "actor_widths"}


@pytest.mark.parametrize("name", COUNTS)
def test_every_run_has_the_papers_target_steps_and_preset(name: str) -> None:
    for run in runs(name):
        assert run.preset == PRESETS.get((name, run.method), USUAL_PRESETS.get(run.method, "paper"))
        plan = run.schedule
        if plan.acts_in_target:
            assert plan.target_budget == 100_000
        else:
            assert run.method in ("sac-src", "cql-src", "cql-0")


def test_f_changes_the_length_but_neither_the_target_steps_nor_when_one_looks() -> None:
    made = runs("interval", seeds=[0], only=["hopper-big-head"])
    assert [run.schedule.source_steps for run in made] == [200_000, 500_000, 1_000_000, 2_000_000]
    assert {run.schedule.eval_interval // run.schedule.source_steps_per_target_step for run in made} == {1000}
    assert [run.schedule.source_env_count for run in made] == [2, 5, 10, 10]


def test_the_offline_studies_learn_from_the_robots_own_datasets() -> None:
    made = runs("offline", seeds=[0], only=["cql+sac"])
    counted = Counter(run.schedule.source_data for run in made)
    robots, qualities = ("halfcheetah", "hopper", "walker", "ant"), ("medium", "medium-replay", "medium-expert")
    assert counted == {f"{robot}-{quality}": 2 for robot, quality in itertools.product(robots, qualities)}
    assert {(run.hyper.penalty, run.hyper.balance) for run in runs("offline-balance", seeds=[0])} == {
        (1.0, balance) for balance in (1.0, 2.5, 5.0, 10.0)
    }


@pytest.mark.parametrize("name", ["offline-penalty", "offline-balance", "par-b"])
def test_where_the_paper_took_four_tasks_two_are_kinematic(name: str) -> None:
    tasks = {run.task.name for run in runs(name, seeds=[0])}
    assert len(tasks) == 4
    assert sum(task.endswith(KINEMATIC) for task in tasks) == 2


def test_only_takes_tasks_robots_methods_and_qualities() -> None:
    assert {run.task.name for run in runs("penalty", only=["ant"])} == {"ant-broken-hips", "ant-short-feet"}
    chosen = runs("offline", seeds=[3], only=["hopper-big-head", "walker", "medium", "h2o"])
    assert [(run.task.name, run.method, run.schedule.source_data, run.seed) for run in chosen] == [
        ("hopper-big-head", "h2o", "hopper-medium", 3),
        ("walker-broken-right-foot", "h2o", "walker-medium", 3),
        ("walker-no-right-thigh", "h2o", "walker-medium", 3),
    ]
    tuned = runs("online", seeds=[0], only=["sac-tune", "hopper"])
    assert [run.method for run in tuned] == ["sac-src", "sac-tune", "sac-tune"]
    with pytest.raises(OffdynError, match=r"'hoper'; did you mean 'hopper'.*"):
        runs("online", only=["hoper"])


def test_a_label_can_be_asked_for_too_and_tells_two_of_one_method_apart() -> None:
    released = {"method": "par", "preset": "released", "label": "as released"}
    two = parse(content("par", released), "tiny")
    assert [run.preset for run in two.runs(only=["as released"])[0]] == ["released"] * 2
    assert len(two.runs()[0]) == 4


def test_a_grid_is_every_combination_and_preset_means_the_presets_own() -> None:
    made = parse(content("par", grid={"penalty": ["preset", 0], "encoder_interval": [1, 2]}), "tiny").runs([0])[0]
    found = [(run.hyper.penalty, run.hyper.encoder_interval) for run in made]
    assert found == [(2.0, 1), (2.0, 2), (0.0, 1), (0.0, 2)]


MISTAKES = {
    "a key": ({"task": ["hopper"]}, "no key of a study 'task'; did you mean 'tasks'"),
    "tasks": ({"tasks": []}, "tasks: expected a list of one or more"),
    "a task": ({"tasks": ["hopper-bighead"]}, "hopper-big-head"),
    "a task's type": ({"tasks": [7]}, "tasks: expected names of tasks, got 7"),
    "a method": ({"methods": ["parr"]}, "no method 'parr'; did you mean 'par'"),
    "a method's key": ({"methods": [{"method": "par", "setings": {}}]}, "no key of a method 'setings'"),
    "a mapping without a method": ({"methods": [{"preset": "paper"}]}, "expected a name or a mapping"),
    "a preset": ({"methods": [{"method": "par", "preset": "papr"}]}, "no preset of method 'par' 'papr'"),
    "the same twice": ({"methods": ["par", "par"]}, "par stands there twice; give each a label"),
    "a seed": ({"seeds": [0, -1]}, "seeds: expected whole numbers from 0 on, got -1"),
    "a seed twice": ({"seeds": [2, 2]}, "seeds: 2 stands there twice"),
    "a grid": ({"grid": {"penalty": 1}}, "grid penalty: expected a list"),
    "F without a budget": ({"grid": {"source_steps_per_target_step": [2, 5]}}, "target_steps"),
    "F, by its older name, without a budget": ({"grid": {"target_interval": [2, 5]}}, "target_steps"),
    "a budget without F": ({"target_steps": 1000}, "source_steps_per_target_step"),
    "qualities": ({"qualities": ["medium"]}, "expected source_data with {quality}"),
    "no qualities": ({"source_data": "{robot}-{quality}"}, "expected qualities"),
    "settings": ({"settings": ["penalty"]}, "settings: expected names and values"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_what_was_expected(mistake: str) -> None:
    change, expected = MISTAKES[mistake]
    with pytest.raises(OffdynError) as said:
        parse(content("par") | change, "tiny")
    assert expected in str(said.value)


def test_a_setting_that_a_method_does_not_have_is_refused() -> None:
    with pytest.raises(OffdynError, match=r"method 'sac' has no setting penalty: it is one of par"):
        parse(content("sac", grid={"penalty": [0, 1]}), "tiny").runs()


@pytest.mark.parametrize(("text", "expected"), [("tasks: [", "not YAML"), ("- 1", "expected names and values")])
def test_a_file_that_is_not_a_study_is_named(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(OffdynError, match=rf"mine\.yaml: .*{expected}"):
        load(path)
    with pytest.raises(OffdynError, match="cannot be read"):
        load(tmp_path / "other.yaml")
    with pytest.raises(OffdynError, match="no study 'onlin'; did you mean 'online'"):
        load("onlin")


def test_the_example_in_the_manual_is_a_study() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", manual, flags=re.DOTALL)
    mine = parse(yaml.safe_load(example), "mine")
    assert len(mine.runs()[0]) == 2 * 2 * 4 * 3
