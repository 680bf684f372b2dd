"""Settings under their older names, and run folders that have them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.report.runs import read_run
from offdyn.studies.study import parse as parse_study
from offdyn.training.config import NEW_NAMES, RunConfig, build
from offdyn.training.run_folder import RunFolder, from_yaml, to_yaml

from .small import PUSH, SMALL_NETWORKS, differing, outcome, resume, train

BRIEF: dict[str, Any] = {"eval_interval": 120, "log_interval": 40, "checkpoint_interval": 100, "eval_episodes": 1}
BRIEF |= {"eval_source_episodes": 1, "final_episodes": 2, "batch_size": 8, "learning_starts": 4, "source_envs": 5}
BRIEF |= SMALL_NETWORKS
OLD = {"source_steps": 480, "target_interval": 10, "updates_per_step": 2}
NEW = {"target_steps": 48, "source_steps_per_target_step": 10, "updates_per_target_step": 20}
# Settings that came with the new names, and later.
CAME_LATER = ("random_steps", "backbone", "domain_input", "temperature_learning_rate", "weight_decay", "backup_critics",
              "actor_value", "entropy_per_action")  # fmt: skip


def one(**settings: Any) -> RunConfig:
    return build(PUSH, "sac", settings=BRIEF | settings)[0]


def as_it_was(config: RunConfig, *chosen: str) -> str:
    """The config.yaml that an older version would have written."""
    read = yaml.safe_load(to_yaml(config))
    settings, plan = read["settings"], config.schedule
    for name in (*NEW, *CAME_LATER):
        del settings[name]
    each = plan.source_steps_per_target_step
    for old, new in NEW_NAMES.items():
        settings[old] = settings.pop(new)
    settings |= {"source_steps": plan.source_steps, "target_interval": each, "control": "none"}
    settings["updates_per_step"] = plan.updates_each // (each if plan.has_source else 1)
    return yaml.safe_dump(read | {"chosen": list(chosen)}, sort_keys=False)


def test_the_older_names_ask_for_the_same_run() -> None:
    older, newer = one(**OLD), one(**NEW)
    assert older.computes_as(newer)
    assert older == newer
    assert not older.computes_as(one(**NEW | {"updates_per_target_step": 10}))


def test_a_setting_that_has_another_name_now_says_so_and_does_the_same() -> None:
    older = {"bodies": 2, "minimum_rows": 4, "rows": "both", "source_body": "stock"}
    newer = {"source_envs": 2, "learning_starts": 4, "learns_from": "both", "source_dynamics": "stock"}
    config, notices = build(PUSH, "sac", settings=older)
    assert config == build(PUSH, "sac", settings=newer)[0]
    assert [f"setting {old} is called {new} now" for old, new in zip(older, newer, strict=True)] == notices


def test_beta_is_the_penalty() -> None:
    (one, other), notices = offdyn.plan(PUSH, "par", beta=[0.1, 2.0])
    assert [one.hyper.penalty, other.hyper.penalty] == [0.1, 2.0]
    assert (one.chosen, notices) == (("penalty",), [])
    study = parse_study({"tasks": ["jetpack"], "methods": ["par"], "grid": {"beta": [3.0]}}, "any")
    assert study.runs()[0][0].hyper.penalty == 3.0
    with pytest.raises(OffdynError, match="settings beta and penalty say the same thing"):
        build(PUSH, "par", settings={"beta": 1.0, "penalty": 1.0})


def test_updates_per_step_are_those_of_a_target_step_where_there_is_no_source() -> None:
    alone = BRIEF | {"collects": "target", "learns_from": "target", "source_envs": None, **OLD}
    assert build(PUSH, "sac", settings=alone)[0].schedule.updates_each == 2
    assert (
        build(PUSH, "sac", settings=alone | {"source_data": "some-rows", "learns_from": "both"})[
            0
        ].schedule.updates_each
        == 20
    )


@pytest.mark.parametrize(("old", "new"), list(zip(OLD, NEW, strict=True)))
def test_a_setting_under_both_names_is_refused(old: str, new: str) -> None:
    with pytest.raises(OffdynError, match=f"settings {old} and {new} say the same thing"):
        one(**{old: OLD[old], new: NEW[new]})


@pytest.mark.parametrize(
    ("chosen", "part"),
    [
        (("target_interval",), ".target_interval-5."),
        (("updates_per_step",), ".updates_per_step-2."),
        (("bodies", "rows"), ".bodies-5.rows-both."),
        (("source_steps",), "push.sac.paper.seed-0"),
        (("source_steps", "target_interval", "updates_per_step"), ".target_interval-5.updates_per_step-2."),
    ],
)
def test_an_older_configuration_loads_and_keeps_its_name(chosen: tuple[str, ...], part: str) -> None:
    made = one(**OLD | {"target_interval": 5})
    read = from_yaml(as_it_was(made, *chosen), Path("config.yaml"))
    assert part in read.name
    assert read.settings() == made.settings()
    again = from_yaml(to_yaml(read), Path("config.yaml"))  # as today's version writes it
    assert again == read
    assert again.name == read.name


def test_a_setting_that_came_later_is_what_the_run_did_whatever_its_preset_says_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from offdyn.algos import registry
    from offdyn.algos.method import Preset

    made = one(**OLD)
    monkeypatch.setitem(registry.SAC.presets, "paper", Preset({"random_steps": 7}))  # type: ignore[index]
    assert one(**OLD).schedule.random_steps == 7
    assert from_yaml(as_it_was(made), Path("config.yaml")).schedule.random_steps == 0


def test_a_curve_with_older_columns_goes_on_under_them_and_is_read_under_todays(tmp_path: Path) -> None:
    folder = RunFolder.begin(tmp_path / "run", one())
    head = "source_steps,target_steps,target_return_mean,penalty_mean,reward_penalty,deviation_on_source_rows"
    (folder.path / "curve.csv").write_text(f"{head}\n0,0,1.0,,,\n")
    folder.put_back({"curve.csv": f"{head}\n0,0,1.0,,,\n".encode()})
    new = {"target_steps": 12, "source_steps": 120, "target_return_mean": 2.0, "reward_penalty": 0.5}
    folder.append_curve(new | {"deviation_on_source_transitions": 4.0, "a_new_one": 1.0})
    assert (folder.path / "curve.csv").read_text().splitlines() == [head, "0,0,1.0,,,", "120,12,2.0,0.5,0.5,4.0"]
    assert folder.curve()[1] == new | {"deviation_on_source_transitions": 4.0}
    assert read_run(folder.path).column("reward_penalty")[1] == 0.5


def test_an_older_folder_is_resumed_to_what_it_would_have_become(tmp_path: Path) -> None:
    made = one(**OLD | {"target_interval": 5})
    older = from_yaml(as_it_was(made, "target_interval"), Path("config.yaml"))
    train([older], tmp_path / "whole")
    train([older], tmp_path / "parts", stop_at=205)
    folder = tmp_path / "parts" / "push.sac.paper.target_interval-5.seed-0"
    text = as_it_was(older, "target_interval")
    (folder / "config.yaml").write_text(text)
    (cohort,) = (tmp_path / "parts").glob("cohorts/*/cohort.json")
    about = json.loads(cohort.read_text())
    del about["checksum"]  # which older versions did not write
    cohort.write_text(json.dumps(about | {"runs": {folder.name: text}}))
    assert "resumed at step 205" in resume(tmp_path / "parts").said
    assert (folder / "config.yaml").read_text() == text
    assert RunFolder.open(folder).state == "finished"
    (folder / "config.yaml").write_text(to_yaml(older))  # the only difference
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []
