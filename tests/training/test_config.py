"""A run's configuration: everything by one name, checked at the door, the same again from its file."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

from offdyn._util.errors import OffdynError
from offdyn.algos.registry import METHODS, RECIPES
from offdyn.training.config import build, coerce, lists_of_floats
from offdyn.training.preparation import group
from offdyn.training.run_folder import from_yaml, to_yaml

from .small import PUSH, run

WHERE = Path("config.yaml")
FINITE = {"allow_nan": False, "allow_infinity": False}
SETTINGS: dict[str, some.SearchStrategy[Any]] = {
    "penalty": some.floats(0, 1e6, **FINITE),
    "temperature": some.floats(1e-12, 1e3, **FINITE),
    "actor_learning_rate": some.floats(1e-30, 1.0, **FINITE),
    "source_noise": some.floats(0, 10, **FINITE),
    "target_rate": some.floats(1e-9, 1.0, **FINITE),
    "gradient_clip": some.none() | some.floats(1e-3, 1e3, **FINITE),
    "target_entropy": some.none() | some.floats(-10, 10, **FINITE),
    "actor_widths": some.lists(some.integers(1, 512), min_size=1, max_size=4).map(tuple),
    "critic_layer_norm": some.booleans(),
    "tune_temperature": some.booleans(),
    "source_envs": some.none() | some.sampled_from([1, 2, 5, 10]),
    "batch_size": some.integers(1, 4096),
    "eval_episodes": some.integers(1, 50),
    "encoder_activation": some.sampled_from(["relu", "elu"]),
    "checkpoint_interval": some.integers(1, 500).map(lambda n: 10 * n),
}
TASKS = ["hopper-big-head", "ant-short-feet", "walker-gravity-0.5", "push"]
chosen = some.fixed_dictionaries({}, optional=SETTINGS)


@given(values=chosen, task=some.sampled_from(TASKS), preset=some.sampled_from(["paper", "released", "printed"]),
       seed=some.integers(0, 2**32 - 1))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_a_configuration_loads_back_to_an_equal_one(values: dict[str, Any], task: str, preset: str, seed: int) -> None:
    config, _ = build(task, "par", preset, seed, values)
    again = from_yaml(to_yaml(config), WHERE)
    assert again == config
    assert again.name == config.name
    assert to_yaml(again) == to_yaml(config)
    assert len(config.name) <= 255
    assert "/" not in config.name


@given(text=some.text(max_size=40) | some.sampled_from(["{}", "[]", "format: 1", "format: [1]", "a: b: c"]))
@settings(deadline=None, max_examples=100)
def test_any_other_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(OffdynError):
        from_yaml(text, WHERE)


@pytest.mark.parametrize("field", ["task", "method", "preset", "seed", "settings"])
@pytest.mark.parametrize("value", [None, 3.5, [1], {"a": 1}, "zzz"])
def test_a_configuration_with_one_wrong_entry_is_refused_in_words(field: str, value: Any) -> None:
    read = yaml.safe_load(to_yaml(run())) | {field: value}
    with pytest.raises(OffdynError):
        from_yaml(yaml.safe_dump(read), WHERE)


def test_the_two_controls_together_leave_something_of_a_rows_own_deviation_or_nothing() -> None:
    build("hopper-big-head", "par", settings={"deviation_shuffled": 0.5, "deviation_averaged": 0.5})
    with pytest.raises(
        OffdynError, match="setting deviation_averaged: expected at most 1 together with deviation_shuf"
    ):
        build("hopper-big-head", "par", settings={"deviation_shuffled": 0.6, "deviation_averaged": 0.6})


def test_an_older_run_may_name_a_setting_that_is_gone_where_it_chose_nothing_by_it() -> None:
    read = yaml.safe_load(to_yaml(run()))
    read["settings"]["control"] = "none"
    assert from_yaml(yaml.safe_dump(read), WHERE) == run()
    read["settings"]["control"] = "shuffled"
    with pytest.raises(OffdynError, match="no setting of method 'par' 'control'"):
        from_yaml(yaml.safe_dump(read), WHERE)


def test_the_users_value_wins_over_the_recipes_and_that_over_the_presets() -> None:
    released = build("hopper-big-head", "par", "released")[0]
    assert (released.sac.source_noise, released.hyper.penalty, released.hyper.encoder_interval) == (0.2, 0.05, 200)
    mine = build("hopper-big-head", "par", "released", settings={"source_noise": 0.1, "penalty": 3})[0]
    assert (mine.sac.source_noise, mine.hyper.penalty, mine.hyper.encoder_interval) == (0.1, 3.0, 200)
    assert build("hopper-big-head", "sac-tar")[0].sac.batch_size == 256
    assert build("hopper-big-head", "sac-tar", settings={"batch_size": 32})[0].sac.batch_size == 32


def test_a_task_outside_the_tables_gets_a_penalty_and_a_notice() -> None:
    config, notices = build("hopper-gravity-0.5", "par")
    assert config.hyper.penalty == 0.5
    assert notices == ["hopper-gravity-0.5: not in the tables of preset 'reported', using penalty=0.5"]
    assert build("hopper-gravity-0.5", "par", settings={"penalty": 1})[1] == []
    assert build("hopper-big-head", "par")[1] == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("penalty", -1, "0 or more"),
        ("penalty", "nan", "a number"),
        ("critic_learning_rate", "inf", "a number"),
        ("penalty", "much", "a number"),
        ("penalty", True, "a number"),
        ("discount", 1.5, "from 0 to 1"),
        ("batch_size", 0, "at least 1"),
        ("batch_size", 2.5, "a whole number"),
        ("batch_size", "1e400", "a whole number"),
        ("tune_temperature", "perhaps", "true or false"),
        ("actor_widths", "", "one or more widths"),
        ("actor_widths", "256,many", "whole numbers such as 256,256"),
        ("source_envs", 3, "a divisor of 10"),
        ("source_envs", 0, "at least 1, or none"),
        ("source_steps", 1003, "a multiple of 10 (source_steps_per_target_step), say 1000"),
        ("eval_interval", 7, "a multiple of 10 (one tick), say 10"),
        ("learning_starts", 100_000, "less than the 100000 transitions the run can collect"),
        ("replay_size", 100, "at least learning_starts (128)"),
        ("replay_size", 1005, "a multiple of 10"),
        ("learns_from", "source", "what the run collects (it collects target)"),
        ("learns_from", "neither", "both, source, target or fading"),
        ("source_fades", 100, "20000, unless learns_from is fading"),
        ("target_rate", 0, "more than 0 and at most 1"),
        ("gradient_clip", 0, "more than 0, or none"),
        ("log_std_low", 3, "less than log_std_high"),
        ("encoder_activation", "gelu", "relu, elu or swish"),
        ("actor_learning_rate", 0, "more than 0"),
        ("deviation_shuffled", -0.1, "from 0 to 1"),
        ("deviation_averaged", 1.5, "from 0 to 1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OffdynError) as told:
        build("hopper-big-head", "par", settings={name: value} | ({"collects": "target"} if value == "source" else {}))
    assert str(told.value).startswith(f"setting {name}: expected ")
    assert expected in str(told.value)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "0", None, True])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(OffdynError, match="expected a whole number from 0 to 4294967295"):
        build("hopper-big-head", seed=seed)


def test_an_unknown_setting_gets_the_nearest_names() -> None:
    with pytest.raises(OffdynError, match="no setting of method 'par' 'penalti'; did you mean 'penalty'"):
        build("hopper-big-head", "par", settings={"penalti": 1})
    with pytest.raises(OffdynError, match="method 'sac' has no setting code_size: it is one of par, par-b"):
        build("hopper-big-head", "sac", settings={"code_size": 1})


def test_seeds_tasks_of_one_robot_and_scalars_share_a_cohort_and_others_do_not() -> None:
    one = [build("hopper-big-head", "par", seed=s, settings={"penalty": p})[0] for s in (0, 1) for p in (0.0, 1.0)]
    same_robot = build("hopper-broken-joints", "par")[0]
    other_robot = build("walker-no-right-thigh", "par")[0]
    other_method = build("hopper-big-head", "par-b")[0]
    other_static = build("hopper-big-head", "par", "paper")[0]
    grouped = group([*one, other_robot, same_robot, other_method, other_static])
    assert grouped == [[*one, same_robot], [other_robot], [other_method], [other_static]]


def test_a_run_asked_for_twice_is_refused() -> None:
    with pytest.raises(OffdynError, match="is asked for twice"):
        group([run(), run()])


def test_lists_of_scalars_are_runs_and_lists_of_widths_are_not() -> None:
    found = lists_of_floats("par", {"penalty": ["preset", 0], "temperature": "0.1,0.2", "actor_widths": [8, 8]})
    assert len(found) == 4
    assert [("penalty" in each, each["temperature"]) for each in found] == [
        (False, "0.1"), (False, "0.2"), (True, "0.1"), (True, "0.2"),
    ]  # fmt: skip
    assert all(each["actor_widths"] == [8, 8] for each in found)


@pytest.mark.parametrize("method", sorted(RECIPES))
def test_every_recipe_builds_with_every_preset_of_its_method(method: str) -> None:
    for preset in RECIPES[method].method.presets:
        data = {"source_data": "some-rows"} if RECIPES[method].offline else {}
        config = build(PUSH, method, preset, settings=data)[0]
        assert from_yaml(to_yaml(config), WHERE) == config


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_setting_can_be_given_as_text(method: str) -> None:
    config = build(PUSH, method)[0]
    for name, value in config.settings().items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        again = build(PUSH, method, settings={name: text})[0]
        assert again.settings() == config.settings()


def test_no_two_parts_have_a_setting_of_the_same_name() -> None:
    for method in METHODS:
        config = build(PUSH, method)[0]
        names = [f.name for part in (config.schedule, config.sac, config.hyper) for f in dataclasses.fields(part)]
        assert len(names) == len(set(names))


def test_text_becomes_the_settings_type() -> None:
    assert coerce("x", int, "1e6") == 1_000_000
    assert coerce("x", tuple[int, ...], "256x128") == (256, 128)
    assert coerce("x", float | None, "none") is None
    assert coerce("x", bool, "False") is False
