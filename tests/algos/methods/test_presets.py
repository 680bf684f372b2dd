"""Settings: what the presets say, whose value wins, which may differ by lane."""

import dataclasses

import jax
import pytest

from offdyn._util.fields import static_fields
from offdyn.algos.par import Hyper
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Sac
from offdyn.training.config import Schedule, build

from ...probes import SAME

TASK = "walker-no-right-thigh"


def test_the_users_value_wins_over_presets_and_recipes():
    chosen = {"penalty": 3.0, "source_noise": 0.1, "encoder_batch": 32}
    settings = build(TASK, "par", "released", settings=chosen)[0].settings()
    assert {name: settings[name] for name in chosen} == chosen
    assert settings["encoder_interval"] == 200  # the rest stays the preset's
    assert build(TASK, "sac-tar")[0].sac.batch_size == 256  # a recipe's own default ...
    assert build(TASK, "sac-tar", settings={"batch_size": 7})[0].sac.batch_size == 7  # ... gives way too


def test_a_task_outside_the_tables_gets_a_half_and_a_notice_unless_the_user_chose():
    config, notices = build(SAME, "par", "released")
    assert config.hyper.penalty == 0.5
    assert len(notices) == 1
    assert "penalty=0.5" in notices[0]
    assert SAME.name in notices[0]
    config, notices = build(SAME, "par", "released", settings={"penalty": 0.0})
    assert (config.hyper.penalty, notices) == (0.0, [])
    assert build(SAME, "sac")[1] == []


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_no_two_settings_of_a_run_share_a_name(method):
    names = [field.name for part in (Schedule, Sac, method.hyper) for field in dataclasses.fields(part)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_preset_sets_only_settings_that_exist(method):
    names = {field.name for part in (Schedule, Sac, method.hyper) for field in dataclasses.fields(part)}
    for preset in method.presets.values():
        by_task = {name for fields in preset.by_task.values() for name in fields}
        assert names >= {*preset.fields, *preset.otherwise, *by_task}


def lane_fields(settings):
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.type is float}


def test_floats_vary_by_lane_and_all_else_is_static():
    controls = {"deviation_shuffled", "deviation_averaged"}
    assert set(lane_fields(Hyper())) == {"penalty", "encoder_learning_rate", "slow_rate", "balance"} | controls
    assert jax.tree.leaves(Hyper(penalty=4.0)) == list(lane_fields(Hyper(penalty=4.0)).values())
    assert lane_fields(Sac()).keys() >= {"discount", "temperature", "source_noise", "log_std_low"}
    assert static_fields(Sac()).keys() >= {"batch_size", "gradient_clip", "target_entropy", "critic_layer_norm"}
    assert not lane_fields(Sac()).keys() & static_fields(Sac()).keys()
    # Equal static fields make one compiled program, whatever the floats.
    assert jax.tree.structure(Sac(discount=0.5)) == jax.tree.structure(Sac())
    assert jax.tree.structure(Sac(batch_size=64)) != jax.tree.structure(Sac())


def test_runs_share_a_cohort_exactly_when_their_static_settings_agree():
    key = build(TASK, "par")[0].cohort_key()  # of the first preset
    assert build(TASK, "par")[0].preset == "reported"
    same = [build(TASK, "par", seed=5)[0], build(TASK, "par", settings={"penalty": 9.0, "discount": 0.5})[0]]
    same.append(build("walker-broken-right-foot", "par")[0])
    assert {run.cohort_key() for run in same} == {key}
    others = [
        build("hopper-big-head", "par")[0],
        build(TASK, "par-b")[0],
        build(TASK, "par", settings={"encoder_batch": 32})[0],
    ]
    assert len({key, *(run.cohort_key() for run in others)}) == 4
