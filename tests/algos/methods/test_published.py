"""One table of what was published, with a source for each value, and every preset of the paper's methods held to it."""

import dataclasses
from typing import Any

import pytest

from offdyn.algos.registry import RECIPES
from offdyn.algos.sac import Sac
from offdyn.envs.tasks import resolve
from offdyn.training.config import build

Published = dict[str, tuple[Any, str]]  # by setting: its value, and who says so

TABLE_2, TABLE_3 = "Lyu et al. 2024, table 2", "Lyu et al. 2024, table 3"
ALGORITHM, DETAILS = "Lyu et al. 2024, algorithm 1", "Lyu et al. 2024, appendix, implementation details"
PAR_CODE, PAR_RUN = "released PAR, algo/PAR.py", "released PAR, train.py"
PAR_OFFLINE, PAR_README = "released PAR, algo/PAR_offline.py and train_offline.py", "released PAR, README"
GOOGLE, ODRL = "google-research, darc", "ODRL, algo/online_online"
VGDF_CODE, VGDF_TABLE = "released VGDF", "Xu et al. 2023, table of hyperparameters"
H2O_CODE, CORL = "released H2O, Network/Weight_net.py and SimpleSAC/sim2real_sac.py", "CORL, algorithms/offline/cql.py"
OURS = "ours: docs/methods"

SHARED: Published = {
    "discount": (0.99, TABLE_2),
    "temperature": (0.2, TABLE_2),
    "tune_temperature": (False, DETAILS),
    "actor_learning_rate": (3e-4, TABLE_2),
    "critic_learning_rate": (3e-4, TABLE_2),
    "weight_decay": (0.0, PAR_CODE),
    "target_rate": (0.005, TABLE_2),
    "log_std_low": (-20.0, TABLE_2),
    "log_std_high": (2.0, TABLE_2),
    "batch_size": (128, TABLE_2),
    "actor_widths": ((256, 256), TABLE_2),
    "critic_widths": ((256, 256), TABLE_2),
    "critic_layer_norm": (False, PAR_CODE),
    "critics": (2, "Lyu et al. 2024, equation 3"),
    "backup_critics": (None, "Lyu et al. 2024, equation 4: the minimum of both"),
    "actor_value": ("min", "Lyu et al. 2024, equation 5"),
    "actor_interval": (1, ALGORITHM),
    "entropy_in_backup": (True, "Lyu et al. 2024, equation 4"),
    "gradient_clip": (None, PAR_CODE),
    "normalise_observations": (False, PAR_CODE),
    "source_noise": (0.0, ALGORITHM),
    "target_noise": (0.0, PAR_RUN),
    "collects": ("both", ALGORITHM),
    "learns_from": ("both", "Lyu et al. 2024, equation 3"),
    "target_steps": (100_000, "Lyu et al. 2024, section 5.1"),
    "source_steps_per_target_step": (10, TABLE_2),
    "updates_per_target_step": (10, ALGORITHM),
    "random_steps": (0, PAR_RUN),
    "learning_starts": (128, PAR_CODE),
    "replay_size": (1_000_000, TABLE_2),
    "time_limits_end": (False, PAR_RUN),
    "eval_interval": (10_000, "released PAR, config"),
    "eval_episodes": (10, PAR_RUN),
}
# Of actor, critics or method, what no publication speaks of: what is not tuned, and what we added.
UNPUBLISHED = {
    "actor_average", "backbone", "domain_input", "precision", "temperature_learning_rate", "temperature_per_domain",
    "target_entropy", "entropy_per_action", "weigh", "deviation_shuffled", "deviation_averaged", "weight_shuffled",
    "weight_averaged", "source_fades", "error_bound", "standardise_inputs", "weigh_conservatism",
}  # fmt: skip

CLONING: Published = {
    "cloning": (False, "Lyu et al. 2024, equation 5"),
    "balance": (5.0, TABLE_2),
    "normalise_balance": (True, "Lyu et al. 2024, equation 6"),
}
ON_DATA: Published = {
    "collects": ("target", "Lyu et al. 2024, section 5.2"),
    "cloning": (True, "Lyu et al. 2024, equation 6"),
    "balance": (5.0, TABLE_3),
}
PAR: Published = CLONING | {
    "encoder_learning_rate": (3e-4, TABLE_2),
    "slow_rate": (0.005, PAR_CODE),
    "objective": ("par", "Lyu et al. 2024, equation 1"),
    "encoder_interval": (1, ALGORITHM),
    "encoder_batch": (128, TABLE_2),
    "slow_encoder": (False, ALGORITHM),
    "encoder_widths": ((256, 256), TABLE_2),
    "code_size": (256, TABLE_2),
    "encoder_activation": ("elu", PAR_CODE),
    "normalise_code": (True, PAR_CODE),
}
PAR_RELEASED: Published = PAR | {
    "encoder_interval": (200, PAR_CODE),
    "encoder_batch": (64, PAR_CODE),
    "slow_encoder": (True, PAR_CODE),
    "source_noise": (0.2, PAR_RUN),
}
PAR_PRINTED: Published = PAR | {
    "encoder_activation": ("relu", TABLE_2),
    "normalise_code": (False, "Lyu et al. 2024, equation 1"),
}
PAR_ON_DATA: Published = ON_DATA | {"penalty": (1.0, TABLE_3)}
PAR_RELEASED_ON_DATA: Published = ON_DATA | {
    "penalty": (1.0, PAR_OFFLINE),
    "balance": (2.5, PAR_OFFLINE),
    "encoder_batch": (128, PAR_OFFLINE),
    "slow_encoder": (False, PAR_OFFLINE),
}
PAR_REPORTED_ON_DATA: Published = PAR_RELEASED_ON_DATA | {
    "balance": (5.0, PAR_README),
    "critic_layer_norm": (True, PAR_README),
}
PAR_B: Published = {"objective": ("par-b", "Lyu et al. 2024, section 6.1")}

TARGET_ALONE: Published = {
    "collects": ("target", DETAILS),
    "learns_from": ("target", DETAILS),
    "batch_size": (256, TABLE_2),
    "updates_per_target_step": (1, DETAILS),
}
SOURCE_ALONE: Published = {
    "collects": ("source", DETAILS),
    "learns_from": ("source", DETAILS),
    "batch_size": (256, TABLE_2),
}
PAR_NOISE: Published = {"source_noise": (0.2, PAR_RUN)}
TUNED_IN_ODRL: Published = {
    "source_noise": (0.2, "ODRL, train_tune.py"),
    "target_noise": (0.2, "ODRL, train_tune.py"),
    "batch_size": (128, "ODRL, config/mujoco/sac"),
}

CLASSIFIERS: Published = {
    "classifier_learning_rate": (3e-4, TABLE_2),
    "classifier_noise": (1.0, DETAILS),
    "classifier_widths": ((256, 256), TABLE_2),
    "classifier_batch": (128, TABLE_2),
    "classifier_interval": (1, GOOGLE),
    "warm_up": (100_000, TABLE_2),
    "join_logits": (True, GOOGLE),
    "join_same_noise": (True, OURS),
    "classifier_bound": (None, GOOGLE),
}
DARC: Published = CLASSIFIERS | {"weight_low": (1.0, GOOGLE), "weight_high": (1.0, GOOGLE)}
DARC_WEIGHT: Published = CLASSIFIERS | {
    "penalty": (0.0, DETAILS),
    "weight_low": (1e-4, DETAILS),
    "weight_high": (1.0, DETAILS),
}
SOURCE_TRANSITIONS: Published = {
    "learns_from": ("source", f"{GOOGLE}; {ODRL}; {DETAILS}, the loss of DARC-weight"),
    "batch_size": (256, f"{GOOGLE}; {ODRL}"),
}
ORIGINAL: Published = SOURCE_TRANSITIONS | {
    "classifier_batch": (256, GOOGLE),
    "classifier_widths": ((32,), GOOGLE),
    "join_same_noise": (False, GOOGLE),
    "tune_temperature": (True, GOOGLE),
    "temperature": (1.0, GOOGLE),
    "temperature_learning_rate": (3e-4, GOOGLE),
}
UNWEIGHTED: Published = {"penalty": (1.0, GOOGLE)}
UNCLIPPED: Published = {"weight_low": (0.0, GOOGLE), "weight_high": (1e6, "ours: a loss that stays finite")}

VGDF: Published = CLONING | {
    "kept_share": (0.25, TABLE_2),
    "members": (7, TABLE_2),
    "ensemble_widths": ((200, 200, 200, 200), "released VGDF, whose fifth layer of table 2 is the last"),
    "ensemble_learning_rate": (1e-3, VGDF_CODE),
    "ensemble_decay": (1.0, VGDF_CODE),
    "ensemble_interval": (10, OURS),
    "ensemble_batch": (256, VGDF_CODE),
    "warm_up": (100_000, TABLE_2),
    "imagined": ("sample", "Xu et al. 2023, algorithm 1"),
    "compared": ("next value", "Xu et al. 2023, section 4"),
    "least_log_likelihood": (None, "Xu et al. 2023, section 4"),
    "loss_scale": (1.0, "Lyu et al. 2024, equation 3"),
    "optimistic": (True, DETAILS),
    "optimist_widths": ((256, 256), TABLE_2),
}
VGDF_RELEASED: Published = VGDF | {
    "imagined": ("mean plus variance", VGDF_CODE),
    "compared": ("backup", VGDF_CODE),
    "least_log_likelihood": (-103.97, "released VGDF: float32, exp of a log probability"),
    "actor_interval": (2, VGDF_CODE),
    "gradient_clip": (100.0, VGDF_CODE),
    "log_std_low": (-10.0, VGDF_CODE),
    "loss_scale": (2.0, VGDF_CODE),
    "time_limits_end": (True, VGDF_CODE),
}
VGDF_ON_DATA: Published = ON_DATA | {"optimistic": (False, VGDF_CODE)}
VGDF_RELEASED_ON_DATA: Published = VGDF_ON_DATA | {
    "normalise_balance": (False, VGDF_CODE),
    "updates_per_target_step": (20, VGDF_CODE),
    "ensemble_interval": (20, OURS),
    "warm_up": (200_000, VGDF_CODE),
}

CONSERVATIVE: Published = {
    "conservative_weight": (10.0, TABLE_2),
    "conservatism": ("logsumexp", CORL),
    "sampled_actions": (10, CORL),
}
PRINTED_CONSERVATIVE: Published = {"conservatism": ("expectation", DETAILS)}
LIVE_TARGET: Published = {"collects": ("target", "Lyu et al. 2024, section 5.2")}
DATASET_ALONE: Published = {
    "collects": ("none", DETAILS),
    "learns_from": ("source", DETAILS),
    "batch_size": (256, TABLE_2),
}
CORLS: Published = {
    "actor_widths": ((256, 256, 256), CORL),
    "critic_widths": ((256, 256, 256), CORL),
    "actor_learning_rate": (3e-5, CORL),
    "temperature": (1.0, CORL),
    "tune_temperature": (True, CORL),
    "temperature_learning_rate": (3e-5, CORL),
    "target_entropy": (None, "CORL: minus the number of actions"),
    "entropy_in_backup": (False, CORL),
    "normalise_observations": (True, CORL),
}
H2O: Published = CLASSIFIERS | CONSERVATIVE | LIVE_TARGET | {
    "penalty": (0.0, DETAILS),
    "weight_low": (1e-4, DETAILS),
    "weight_high": (1.0, DETAILS),
    "classifier_noise": (0.1, H2O_CODE),
    "classifier_batch": (256, H2O_CODE),
    "classifier_bound": (2.0, H2O_CODE),
}  # fmt: skip

LIVE: dict[tuple[str, str], Published] = {
    ("par", "reported"): PAR_RELEASED,
    ("par", "paper"): PAR,
    ("par", "released"): PAR_RELEASED,
    ("par", "printed"): PAR_PRINTED,
    ("sac", "paper"): {},
    ("sac", "released"): PAR_NOISE,
    ("sac", "odrl"): TUNED_IN_ODRL,
    ("sac-tar", "paper"): TARGET_ALONE,
    ("sac-tar", "released"): TARGET_ALONE | PAR_NOISE,
    ("sac-tar", "odrl"): TARGET_ALONE | TUNED_IN_ODRL,
    ("sac-tune", "paper"): TARGET_ALONE,
    ("sac-tune", "released"): TARGET_ALONE | PAR_NOISE,
    ("sac-tune", "odrl"): TARGET_ALONE | TUNED_IN_ODRL,
    ("sac-src", "paper"): SOURCE_ALONE,
    ("sac-src", "released"): SOURCE_ALONE | PAR_NOISE,
    ("sac-src", "odrl"): SOURCE_ALONE | TUNED_IN_ODRL,
    ("darc", "paper"): DARC,
    ("darc", "source-only"): DARC | SOURCE_TRANSITIONS,
    ("darc", "original"): DARC | ORIGINAL | UNWEIGHTED,
    ("darc-weight", "paper"): DARC_WEIGHT,
    ("darc-weight", "source-only"): DARC_WEIGHT | SOURCE_TRANSITIONS,
    ("darc-weight", "original"): DARC_WEIGHT | ORIGINAL | UNCLIPPED,
    ("vgdf", "paper"): VGDF,
    ("vgdf", "released"): VGDF_RELEASED,
    ("vgdf", "reported"): VGDF_RELEASED,
}
DATASET: dict[tuple[str, str], Published] = {
    ("par", "reported"): PAR_RELEASED | PAR_REPORTED_ON_DATA,
    ("par", "paper"): PAR | PAR_ON_DATA,
    ("par", "released"): PAR_RELEASED | PAR_RELEASED_ON_DATA,
    ("par", "printed"): PAR_PRINTED | PAR_ON_DATA,
    ("vgdf+bc", "paper"): VGDF | VGDF_ON_DATA,
    ("vgdf+bc", "released"): VGDF_RELEASED | VGDF_RELEASED_ON_DATA,
    ("vgdf+bc", "reported"): VGDF_RELEASED | VGDF_ON_DATA,
    ("cql-0", "paper"): CONSERVATIVE | DATASET_ALONE,
    ("cql-0", "released"): CONSERVATIVE | DATASET_ALONE | CORLS,
    ("cql+sac", "paper"): CONSERVATIVE | LIVE_TARGET,
    ("cql+sac", "printed"): CONSERVATIVE | LIVE_TARGET | PRINTED_CONSERVATIVE,
    ("h2o", "paper"): H2O,
    ("h2o", "printed"): H2O | PRINTED_CONSERVATIVE,
}
for table in (LIVE, DATASET):  # the variant, and the ablation
    table |= {("par-b", preset): values | PAR_B for (method, preset), values in table.items() if method == "par"}
ABLATION: Published = {"penalty": (0.0, "Lyu et al. 2024, section 5.3: beta = 0")}
DATASET |= {("sac+bc", preset): values | ABLATION for (method, preset), values in DATASET.items() if method == "par"}

# By task: PAR's beta in the paper's table 3 and in the released README, the first of two; DARC's in table 3; and nu in
# VGDF's own config/vgdf_bc, which has none for the ant.
BY_TASK = {
    "halfcheetah-broken-back-thigh": (1.0, 5.0, 2.0, 5.0),
    "halfcheetah-no-thighs": (2.0, 5.0, 0.5, 5.0),
    "hopper-broken-joints": (0.5, 0.05, 2.0, 10.0),
    "hopper-big-head": (0.5, 0.05, 1.0, 10.0),
    "walker-broken-right-foot": (0.5, 0.1, 1.0, 5.0),
    "walker-no-right-thigh": (0.5, 0.1, 1.0, 10.0),
    "ant-broken-hips": (0.1, 0.01, 1.0, 5.0),
    "ant-short-feet": (0.1, 0.01, 0.1, 5.0),
}
TASK = "walker-broken-right-foot"


def of_task(method: str, preset: str, on_data: bool, task: str) -> Published:
    """What the table has for one task alone."""
    paper, readme, darc, nu = BY_TASK[task]
    if method in ("par", "par-b") and not on_data:
        return {"penalty": (readme, PAR_README) if preset == "released" else (paper, TABLE_3)}
    if method == "darc" and preset != "original":
        return {"penalty": (darc, TABLE_3)}
    return {"balance": (nu, VGDF_CODE)} if (method, preset) == ("vgdf+bc", "released") else {}


CASES = [(method, preset, on_data) for on_data, table in ((False, LIVE), (True, DATASET)) for method, preset in table]


def settings(method: str, preset: str, on_data: bool, task: str) -> dict[str, Any]:
    config, notices = build(task, method, preset, settings={"source_data": "a-dataset"} if on_data else {})
    assert notices == []
    return config.settings()


def table_of(method: str, preset: str, on_data: bool, task: str) -> Published:
    own = (DATASET if on_data else LIVE)[method, preset]
    return SHARED | own | of_task(method, preset, on_data, task)


@pytest.mark.parametrize(("method", "preset", "on_data"), CASES)
def test_every_value_of_a_preset_is_the_published_one(method: str, preset: str, on_data: bool) -> None:
    published = table_of(method, preset, on_data, TASK)
    found = settings(method, preset, on_data, TASK)
    assert {name: found[name] for name in published} == {name: value for name, (value, _) in published.items()}


@pytest.mark.parametrize("task", BY_TASK)
def test_what_a_preset_has_for_one_task_is_the_published_value(task: str) -> None:
    resolve(task)  # there is such a task
    for method, preset, on_data in CASES:
        if published := of_task(method, preset, on_data, task):
            found = settings(method, preset, on_data, task)
            assert {name: found[name] for name in published} == {name: value for name, (value, _) in published.items()}


@pytest.mark.parametrize(("method", "preset", "on_data"), CASES)
def test_no_setting_of_actor_critics_or_method_is_left_out(method: str, preset: str, on_data: bool) -> None:
    parts = (Sac, RECIPES[method].method.hyper)
    names = {field.name for part in parts for field in dataclasses.fields(part)}
    assert names - set(table_of(method, preset, on_data, TASK)) <= UNPUBLISHED


@pytest.mark.parametrize("method", sorted({method for method, _, _ in CASES}))
def test_no_preset_is_left_out(method: str) -> None:
    held = {preset for name, preset, _ in CASES if name == method}
    assert held == set(RECIPES[method].method.presets)


def test_pars_default_is_what_the_paper_reported() -> None:
    assert [next(iter(RECIPES[method].method.presets)) for method in ("par", "par-b")] == ["reported", "reported"]
