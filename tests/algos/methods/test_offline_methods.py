"""Methods on a dataset: what presets and recipes promise, who wins, and which rows CQL-0 learns from."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.algos.registry import METHODS, RECIPES
from offdyn.training.config import RunConfig, build, lists_of_floats

from ...probes import HALF_FLIPPED, SAME, learn, programs_of, random_rows, short_run

TASKS = (
    "halfcheetah-broken-back-thigh",
    "halfcheetah-no-thighs",
    "hopper-broken-joints",
    "hopper-big-head",
    "walker-broken-right-foot",
    "walker-no-right-thigh",
    "ant-broken-hips",
    "ant-short-feet",
)


def on_data(task: Any, method: str, preset: str | None = "paper", **settings: Any) -> tuple[RunConfig, list[str]]:
    return build(task, method, preset, settings={"source_data": "a-dataset", **settings})


def test_presets_set_only_settings_that_exist_for_data_too():
    for method in METHODS.values():
        for preset in method.presets.values():
            by_task = {name for fields in preset.offline_by_task.values() for name in fields}
            assert {*preset.offline, *by_task} <= on_data(SAME, method.name, None)[0].settings().keys()


def test_the_users_value_wins_and_a_recipes_wins_over_the_presets():
    config, _ = on_data(TASKS[0], "par", "released", balance=5.0, critic_layer_norm=True)  # the released README's
    assert (config.hyper.balance, config.hyper.penalty, config.sac.critic_layer_norm) == (5.0, 1.0, True)
    assert on_data(TASKS[0], "par", penalty=0.1)[0].hyper.penalty == 0.1
    assert on_data(TASKS[0], "sac+bc", penalty=0.1)[0].hyper.penalty == 0.1
    assert not on_data(TASKS[0], "par", cloning=False)[0].hyper.cloning


@pytest.mark.parametrize("method", [name for name, recipe in RECIPES.items() if not recipe.offline])
def test_nothing_clones_where_the_source_is_acted_in(method):
    assert not getattr(build(SAME, method)[0].hyper, "cloning", False)


def test_vgdf_on_a_dataset_is_vgdf_with_cloning_whichever_way_it_is_named():
    named, plain = (on_data(TASKS[0], name)[0] for name in ("vgdf+bc", "vgdf"))
    assert (named.schedule, named.sac, named.hyper) == (plain.schedule, plain.sac, plain.hyper)


@pytest.mark.parametrize("method", ["sac+bc", "cql-0", "vgdf+bc"])
def test_recipes_for_datasets_say_so_where_there_is_none(method):
    with pytest.raises(OffdynError, match=f"'{method.replace('+', '[+]')}' learns from a dataset"):
        build(SAME, method)


def test_the_papers_parameter_studies_are_lanes_of_one_program():
    studied = {"penalty": [0, 0.1, 0.5, 1, 2], "balance": [1, 2.5, 5, 10]}
    runs = [on_data(TASKS[0], "par", **settings)[0] for settings in lists_of_floats("par", studied)]
    found = [(run.hyper.penalty, run.hyper.balance) for run in runs]
    assert found == list(product(studied["penalty"], studied["balance"]))
    assert len({run.cohort_key() for run in runs}) == 1


def test_sac_with_cloning_is_par_with_penalty_zero():
    alone, twin = (on_data(TASKS[0], name, **extra)[0] for name, extra in (("sac+bc", {}), ("par", {"penalty": 0})))
    assert (alone.schedule, alone.sac, alone.hyper) == (twin.schedule, twin.sac, twin.hyper)


def test_cql_0_learns_from_no_target_row():
    run = short_run(
        HALF_FLIPPED, "cql", **RECIPES["cql-0"].defaults | {"collects": "both", "batch_size": 16, "sampled_actions": 2}
    )
    assert run.schedule.learns_from == "source"
    programs, first = programs_of([run], updates=20)
    source = random_rows(HALF_FLIPPED, "source", 100, seed=1)[None]
    outcomes = []
    for target in (random_rows(HALF_FLIPPED, "target", 100, seed=2)[None], np.full_like(source, np.nan)):
        lanes = learn(programs, jax.tree.map(jnp.array, first), [run], source, target, calls=2)
        assert np.asarray(lanes.fault).max() == 0
        outcomes.append(jax.tree.leaves(lanes.agent))
    for one, other in zip(*outcomes, strict=True):
        assert np.array_equal(one, other)
