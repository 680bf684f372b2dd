"""Whole updates against NumPy, step by step: who moves, when, on which rows, in which order."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import SOURCE, TARGET
from offdyn.algos import sac as core
from offdyn.algos.networks import fresh
from offdyn.algos.par import Encoders, Networks
from offdyn.algos.registry import METHODS
from offdyn.algos.sac import Agent
from offdyn.data.replay import Replay
from offdyn.training.config import RunConfig

from ...probes import HALF_FLIPPED, random_rows, short_run
from .in_numpy import Net, flat, flat_stack
from .twin import Formulas, Twin

SPEC = HALF_FLIPPED.spec


def small(method: str, preset: str = "paper", **settings: Any) -> RunConfig:
    """Rates large enough that a wrong step shows; batches of the preset's size for the encoders."""
    quick = {"actor_learning_rate": 0.01, "critic_learning_rate": 0.02, "target_rate": 0.1, "batch_size": 8}
    quick |= {name: (4,) for name in ("actor_widths", "critic_widths")}
    if method != "sac":
        quick |= {"encoder_widths": (4,), "code_size": 4, "encoder_learning_rate": 0.03, "slow_rate": 0.2}
    return short_run(HALF_FLIPPED, method, preset, **quick | settings)


TEMPERED = {"temperature_learning_rate": 0.1}
# What runs, and the numbers of its updates.
CASES: dict[str, tuple[RunConfig, range]] = {
    "par paper": (small("par", penalty=2.0), range(5)),
    "par released": (small("par", "released", penalty=2.0), range(198, 204)),
    "par released, encoders every third": (small("par", "released", penalty=2.0, encoder_interval=3), range(8)),
    "par-b paper": (small("par-b", penalty=2.0), range(4)),
    "clipped, temperature tuned, actor every third": (
        small("sac", gradient_clip=0.05, tune_temperature=True, temperature_learning_rate=0.1, actor_interval=3),
        range(7),
    ),
    "LayerNorm, no entropy in the backup, entropy wanted": (
        small("sac", critic_layer_norm=True, entropy_in_backup=False, tune_temperature=True, target_entropy=0.7),
        range(4),
    ),
    # The decay is large enough to show.
    "simba, flag": (small("sac", backbone="simba", domain_input="flag", weight_decay=0.5, **TEMPERED), range(4)),
    "a temperature per domain": (
        small("sac", temperature_per_domain=True, tune_temperature=True, domain_input="flag", **TEMPERED),
        range(3),
    ),
    "ensemble, embedding": (
        small("sac", backbone="ensemble", domain_input="embedding", actor_interval=2, **TEMPERED),
        range(3),
    ),
}


def first_networks(maths: Formulas) -> tuple[Agent, Any]:
    """Random in float64, the LayerNorm's arrays too, with target critics away from the critics."""
    generator, count = np.random.default_rng(7), maths.sac.critics

    def draw(net: Net, *count: int) -> Any:
        return jax.tree.map(jnp.asarray, net.parameters(generator.normal(0.0, 0.5, (*count, net.length))))

    actor, critic, target = draw(maths.actor), *(draw(maths.critic, count) for _ in "12")
    first = [0.7, 0.2] if maths.sac.temperature_per_domain else maths.sac.temperature
    log_temperature = jnp.log(jnp.asarray(first))
    agent = Agent(fresh(actor), fresh(critic), target, fresh(log_temperature))
    if maths.method == "sac":
        return agent, ()
    networks = Networks(draw(maths.f), draw(maths.g))
    return agent, Encoders(fresh(networks), networks if maths.hyper.slow_encoder else None)


def run_both(config: RunConfig, steps: range) -> list[tuple[dict[str, np.ndarray], Any, dict[str, np.ndarray]]]:
    """After each update: the engine's networks as vectors, its notes, the NumPy twin's networks."""
    method, sac, hyper = METHODS[config.recipe.method.name], config.sac, config.hyper
    source, target = (random_rows(HALF_FLIPPED, role, 30, seed=3).astype(float) for role in ("source", "target"))
    source[::4, -1] = 1.0  # some rows that end
    replays = [
        Replay(jnp.asarray(rows), jnp.asarray(30), SPEC, None, domain)
        for rows, domain in ((source, SOURCE), (target, TARGET))
    ]

    @jax.jit
    def update(agent: Any, learned: Any, sac: Any, hyper: Any, key: jax.Array, step: jax.Array) -> Any:
        return core.update(
            agent,
            learned,
            *replays,
            method=method,
            learns_from="both",
            sac=sac,
            hyper=hyper,
            spec=SPEC,
            key=key,
            step=step,
        )

    maths = Formulas(SPEC, sac, hyper, method.name)
    agent, learned = first_networks(maths)
    twin = Twin(maths, agent, learned, *replays)
    seen = []
    for step in steps:
        key = jax.random.fold_in(jax.random.key(11), step)
        agent, learned, notes = update(agent, learned, sac, hyper, key, step)
        twin.update(key, step)
        ours = {"actor": flat(agent.actor.value), "critic": flat_stack(agent.critic.value)}
        ours |= {"target": flat_stack(agent.target_critic), "temperature": np.asarray(agent.log_temperature.value)}
        theirs = {"actor": twin.actor.value, "critic": twin.critic.value, "target": twin.target_critic}
        theirs |= {"temperature": twin.log_temperature.value, "penalty": twin.penalties}
        if method.name != "sac":
            ours["encoders"], theirs["encoders"] = flat(jax.tree.leaves(learned.live.value)), twin.encoders.value
            ours["slow"] = None if learned.slow is None else flat(jax.tree.leaves(learned.slow))
            theirs["slow"] = twin.slow
        seen.append((ours, notes, theirs))
    return seen


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def course(request):
    config, steps = CASES[request.param]
    with jax.enable_x64(True):
        return config, steps, run_both(config, steps)


def same(ours: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-9)


def test_every_network_follows_numpy_through_every_update(course):
    _, _, seen = course
    for ours, _, theirs in seen:
        for name in ours.keys() - {"slow"}:
            same(ours[name], theirs[name])
    assert not np.allclose(seen[0][0]["critic"], seen[-1][0]["critic"])
    assert not np.allclose(seen[0][0]["actor"], seen[-1][0]["actor"])


def test_the_noted_penalty_is_that_of_the_rows_drawn(course):
    config, _, seen = course
    for _, notes, theirs in seen:
        if "encoders" in theirs:
            same(notes["reward penalty"], theirs["penalty"].mean())
            assert theirs["penalty"].min() > 0
            same(notes["deviation on source transitions"], theirs["penalty"].mean() / config.hyper.penalty)
        else:
            assert "reward penalty" not in notes


def test_a_penalty_is_measured_with_slow_encoders_that_moved_once_in_each_update_before(course):
    config, _, seen = course
    for (_, _, before), (ours, _, _) in pairwise(seen):
        if "slow" in ours:
            assert (ours["slow"] is not None) == (config.preset == "released")
        if ours.get("slow") is not None:
            same(ours["slow"], before["slow"])
    if config.preset == "released":
        assert not np.allclose(seen[-1][0]["slow"], seen[-1][0]["encoders"])


def test_actor_temperature_and_encoders_move_at_their_intervals_and_no_other_time(course):
    config, steps, seen = course
    for (before, _, _), (after, notes, _), step in zip(seen[:-1], seen[1:], steps[1:], strict=True):
        acted = step % config.sac.actor_interval == 0
        moved = {name: not np.array_equal(before[name], after[name]) for name in after}
        assert moved["actor"] == acted
        assert moved["temperature"] == (acted and config.sac.tune_temperature)
        assert moved["critic"]
        assert moved["target"]
        if config.method != "sac":
            trained = step % config.hyper.encoder_interval == 0
            assert moved["encoders"] == trained
            assert (float(notes["encoder loss"]) > 0) == trained
