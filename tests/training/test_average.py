"""An averaged actor: a recursion by hand, what is tested and saved, and starts from runs that kept none."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import TARGET
from offdyn.algos import sac as core
from offdyn.algos.sac import Sac
from offdyn.data.replay import unpack
from offdyn.training.cohort import Cohort
from offdyn.training.config import RunConfig, build

from .resuming import stopped_and_resumed
from .small import PUSH, SMALL_NETWORKS, differing, outcome, rows_of, train

BRIEF: dict[str, Any] = {"eval_episodes": 1, "eval_source_episodes": 1, "final_episodes": 2, "batch_size": 8}
BRIEF |= {"learning_starts": 4, "log_interval": 40, "checkpoint_interval": 60, "eval_interval": 40, **SMALL_NETWORKS}


def one(seed: int = 0, **settings: Any) -> RunConfig:
    return build(PUSH, "sac", seed=seed, settings=BRIEF | {"target_steps": 20} | settings)[0]


def test_each_update_brings_it_nearer_to_the_actor_the_first_ones_more() -> None:
    sac = Sac(actor_average=0.25, actor_widths=(4,), critic_widths=(4,))
    agent = core.init(jax.random.key(0), sac, PUSH.spec)
    batch = unpack(jnp.asarray(rows_of(PUSH, 16).rows()), PUSH.spec, TARGET)
    learn = jax.jit(partial(core.learn, sac=sac, spec=PUSH.spec))
    for step, rate in ((0, 1.0), (10, 0.5), (30, 0.25), (1000, 0.25)):
        before = agent
        agent, _ = learn(agent, batch, key=jax.random.key(step), step=jnp.asarray(step))
        assert before.slow_actor is not None
        assert agent.slow_actor is not None
        for slow, now, new in zip(before.slow_actor, agent.actor.value, agent.slow_actor, strict=True):
            np.testing.assert_allclose(new, (1 - rate) * slow + rate * now, atol=1e-6)
        assert np.allclose(agent.slow_actor[0], agent.actor.value[0], atol=1e-7) == (rate == 1)


@pytest.mark.usefixtures("optimised")
def test_it_is_the_policy_that_is_tested_and_saved_and_the_actor_the_one_that_acts() -> None:
    averaged, plain = (Cohort([one(**more)], 1) for more in ({"actor_average": 0.01}, {}))
    for cohort in (averaged, plain):
        while cohort.clock < 100:
            cohort.tick()
    np.testing.assert_array_equal(averaged.learner.experience.target, plain.learner.experience.target)
    agent = averaged.settled.agent
    assert agent.slow_actor is not None
    np.testing.assert_array_equal(averaged.policies().arrays[0], agent.slow_actor[0])
    np.testing.assert_array_equal(plain.policies().arrays[0], agent.actor.value[0])


def test_a_resumed_run_has_the_same_one_and_a_run_may_start_from_one_that_kept_none(tmp_path: Path) -> None:
    runs = [one(actor_average=0.1), one(1, actor_average=0.1)]
    train(runs, tmp_path / "whole")
    stopped_and_resumed(runs, tmp_path / "parts", 25, 70)
    assert differing(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []
    first = one()
    train([first], tmp_path / "first")
    second = one(actor_average=0.1, start_from=str(tmp_path / "first" / first.name))
    train([second], tmp_path / "second")
