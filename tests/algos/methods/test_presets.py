"""Settings: what the presets say, whose value wins, which may differ by lane."""

import dataclasses

import jax
import pytest

from offdyn._util.fields import lane_fields, static_fields
from offdyn.algos.par import Hyper
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Sac
from offdyn.envs.tasks import resolve
from offdyn.training.config import Schedule, build

from ...probes import SAME

TASK = "walker-no-right-thigh"
# beta by task: the paper's table, and the released code's README, the first-named of two.
PENALTIES = {
    "halfcheetah-broken-back-thigh": (1.0, 5.0),
    "halfcheetah-no-thighs": (2.0, 5.0),
    "hopper-broken-joints": (0.5, 0.05),
    "hopper-big-head": (0.5, 0.05),
    "walker-broken-right-foot": (0.5, 0.1),
    "walker-no-right-thigh": (0.5, 0.1),
    "ant-broken-hips": (0.1, 0.01),
    "ant-short-feet": (0.1, 0.01),
}
# What all presets share: the paper's table of settings, and its code where the paper is silent.
SHARED = {
    "discount": 0.99,
    "temperature": 0.2,
    "tune_temperature": False,
    "actor_learning_rate": 3e-4,
    "critic_learning_rate": 3e-4,
    "encoder_learning_rate": 3e-4,
    "target_rate": 0.005,
    "log_std_low": -20.0,
    "log_std_high": 2.0,
    "batch_size": 128,
    "actor_widths": (256, 256),
    "critic_widths": (256, 256),
    "encoder_widths": (256, 256),
    "code_size": 256,
    "critic_layer_norm": False,
    "actor_interval": 1,
    "entropy_in_backup": True,
    "gradient_clip": None,
    "normalise_observations": False,
    "slow_rate": 0.005,
    "target_steps": 100_000,
    "source_steps_per_target_step": 10,
    "learning_starts": 128,
    "replay_size": 1_000_000,
    "updates_per_target_step": 10,
    "random_steps": 0,
    "backbone": "classic",
    "domain_input": "none",
    "critics": 2,
    "backup_critics": None,
    "actor_value": "min",
    "weight_decay": 0.0,
}
PAPER = {
    "encoder_interval": 1,
    "encoder_batch": 128,
    "slow_encoder": False,
    "source_noise": 0.0,
    "encoder_activation": "elu",
    "normalise_code": True,
}
RELEASED = PAPER | {"encoder_interval": 200, "encoder_batch": 64, "slow_encoder": True, "source_noise": 0.2}
PRINTED = PAPER | {"encoder_activation": "relu", "normalise_code": False}
PRESETS = {"reported": RELEASED, "paper": PAPER, "released": RELEASED, "printed": PRINTED}


@pytest.mark.parametrize("method", ["par", "par-b"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_field_is_as_the_preset_promises(method, preset):
    config, notices = build(TASK, method, preset)
    settings = config.settings()
    assert {name: settings[name] for name in SHARED | PAPER} == SHARED | PRESETS[preset]
    assert notices == []


def test_a_method_has_the_presets_it_is_promised_with():
    assert list(METHODS["par"].presets) == list(METHODS["par-b"].presets) == list(PRESETS)
    found = {name: build(TASK, "sac", name)[0].sac for name in METHODS["sac"].presets}
    assert {name: (sac.source_noise, sac.target_noise, sac.batch_size) for name, sac in found.items()} == {
        "paper": (0.0, 0.0, 128),
        "released": (0.2, 0.0, 128),
        "odrl": (0.2, 0.2, 128),
    }


@pytest.mark.parametrize("task", PENALTIES)
def test_the_penalty_of_each_task_is_its_tables(task):
    resolve(task)  # there is such a task
    found = {preset: build(task, "par", preset)[0].hyper.penalty for preset in PRESETS}
    paper, released = PENALTIES[task]
    assert found == {"reported": paper, "paper": paper, "released": released, "printed": paper}


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
    key = build(TASK)[0].cohort_key()  # of the first preset
    assert build(TASK)[0].preset == "reported"
    same = [build(TASK, seed=5)[0], build(TASK, settings={"penalty": 9.0, "discount": 0.5})[0]]
    same.append(build("walker-broken-right-foot")[0])
    assert {run.cohort_key() for run in same} == {key}
    others = [build("hopper-big-head")[0], build(TASK, "par-b")[0], build(TASK, settings={"encoder_batch": 32})[0]]
    assert len({key, *(run.cohort_key() for run in others)}) == 4
