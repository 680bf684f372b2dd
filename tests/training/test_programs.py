"""What a cohort's programs are made of."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.data.transition import row_width
from offdyn.training import hardware, trainer
from offdyn.training.config import build
from offdyn.training.program import Programs, lane_settings, run_keys

from . import small

WHOLE = jax.lax.Precision.HIGHEST
SMALL = {"actor_widths": "8,8", "critic_widths": "8,8", "batch_size": 8}


def products(jaxpr: Any) -> Iterator[Any]:
    """The precision of every product, those of loops, branches and calls included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from products(inner)


@pytest.mark.parametrize("method", ["par", "darc", "vgdf"])
def test_every_product_of_a_program_is_in_full_float32_where_that_is_asked_for(method: str) -> None:
    def precisions(precision: str) -> set[Any]:
        run, _ = build("hopper-big-head", method, settings=SMALL | {"precision": precision})
        programs = Programs(run.recipe.method, run.spec, run.sac, run.hyper, "both", 2)
        keys = run_keys([0, 1])
        lanes = jax.eval_shape(programs.init, keys, *lane_settings([run, run]))
        rows, size, step = jnp.zeros((2, 20, row_width(run.spec))), np.int32(20), np.int32(10)
        learn = jax.make_jaxpr(programs.learn)(keys, lanes, rows, rows, size, size, step, np.ones(2, bool))
        seen = jnp.zeros((2, 3, run.spec.observation_size))
        act = jax.make_jaxpr(programs.act)(keys, lanes, seen, seen[:, :1], step, np.zeros(2, np.int32))
        found = [*products(learn.jaxpr), *products(act.jaxpr)]
        assert len(found) > 10
        return set(found)

    assert precisions("float32") == {None}
    assert precisions("full") == {(WHOLE, WHOLE)}


def test_a_process_does_not_keep_the_programs_of_all_cohorts_it_ever_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared = []
    monkeypatch.setattr(hardware, "_trained", itertools.count(1))
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    for _ in range(2 * hardware.COHORTS):
        hardware.forget_programs()
    assert len(cleared) == 2


def test_every_cohort_counts_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr(trainer, "forget_programs", lambda: counted.append(True))
    small.train([small.run("sac-tar", source_envs=None)], tmp_path)
    assert counted == [True]
