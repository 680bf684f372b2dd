"""Whole updates against NumPy, step by step: who moves, when, on which rows, in which order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn.data.replay import Replay
from offdyn.experiments.config import RunConfig
from offdyn.learning import sac as core
from offdyn.methods.recipes import METHODS

from ..probes import HALF_FLIPPED, random_rows, short_run
from .twin import Formulas, Twin

SPEC = HALF_FLIPPED.spec
KEY = 11


def small(method: str, preset: str = "paper", **settings: Any) -> RunConfig:
    """Rates large enough that a wrong step shows; batches of the preset's size for the encoders."""
    quick = {"actor_learning_rate": 0.01, "critic_learning_rate": 0.02, "target_rate": 0.1, "batch_size": 8}
    quick |= {name: (3, 4) for name in ("actor_widths", "critic_widths")}
    if method != "sac":
        quick |= {"encoder_widths": (3, 4), "code_size": 4, "encoder_learning_rate": 0.03, "slow_rate": 0.2}
    return short_run(HALF_FLIPPED, method, preset, **quick | settings)


# What runs, and the numbers of its updates.
CASES: dict[str, tuple[RunConfig, range]] = {
    "par paper": (small("par", penalty=2.0), range(5)),
    "par released": (small("par", "released", penalty=2.0), range(198, 204)),
    "par printed": (small("par", "printed", penalty=2.0), range(3)),
    "par-b paper": (small("par-b", penalty=2.0), range(4)),
    "par-b released": (small("par-b", "released", penalty=2.0), range(399, 402)),
    "clipped, temperature tuned, actor every third": (
        small("sac", gradient_clip=0.05, tune_temperature=True, temperature_learning_rate=0.1, actor_interval=3),
        range(7),
    ),
    "LayerNorm, no entropy in the backup, entropy wanted": (
        small("sac", critic_layer_norm=True, entropy_in_backup=False, tune_temperature=True, target_entropy=0.7),
        range(4),
    ),
}


def run_both(config: RunConfig, steps: range) -> list[tuple[Any, Any, Any, Twin, dict[str, np.ndarray]]]:
    """After each update: agent, learned, notes of the engine; the NumPy twin; what the twin's networks were."""
    method, sac, hyper = METHODS[config.recipe.method.name], config.sac, config.hyper
    source, target = (random_rows(HALF_FLIPPED, role, 30, seed).astype(float) for seed, role in enumerate(("source", "target")))
    source[::4, -1] = 1.0  # some rows that end
    agent_key, method_key, run_key = jax.random.split(jax.random.key(KEY), 3)
    replays = [Replay(jnp.asarray(rows), jnp.asarray(30), SPEC, None) for rows in (source, target)]

    @jax.jit
    def update(agent: Any, learned: Any, sac: Any, hyper: Any, key: jax.Array, step: jax.Array) -> Any:
        return core.update(
            agent, learned, *replays, method=method, rows="both", sac=sac, hyper=hyper, spec=SPEC, key=key, step=step
        )

    agent, learned = core.init(agent_key, sac, SPEC), method.init(method_key, hyper, SPEC)
    twin = Twin(Formulas(SPEC, sac, hyper, method.name), agent, learned, *replays)
    seen = []
    for step in steps:
        key = jax.random.fold_in(run_key, step)
        agent, learned, notes = update(agent, learned, sac, hyper, key, step)
        twin.update(key, step)
        values = {"actor": twin.actor.value, "critic": twin.critic.value, "target": twin.target_critic}
        values["log temperature"] = twin.log_temperature.value
        values["penalty"] = twin.penalties
        if method.name != "sac":
            values |= {"encoders": twin.encoders.value, "slow": twin.slow}
        seen.append((agent, learned, notes, values))
    return seen


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def course(request):
    config, steps = CASES[request.param]
    with jax.enable_x64(True):
        return config, steps, run_both(config, steps)


def same(ours: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-9)


def test_every_network_follows_numpy_through_every_update(course):
    config, _, seen = course
    for number, (agent, learned, _, twin) in enumerate(seen):
        same(agent.critic.value, twin["critic"])
        same(agent.target_critic, twin["target"])
        same(agent.actor.value, twin["actor"])
        same(agent.log_temperature.value, twin["log temperature"])
        if "encoders" in twin:
            same(learned.live.value, twin["encoders"])
        if "encoders" in twin and config.hyper.slow_encoder and number:
            same(learned.slow, seen[number - 1][3]["slow"])  # what this update's penalty was measured with
    assert not np.allclose(seen[0][3]["critic"], seen[-1][3]["critic"])
    assert not np.allclose(seen[0][3]["actor"], seen[-1][3]["actor"])


def test_the_noted_penalty_is_that_of_the_rows_drawn(course):
    config, _, seen = course
    for _, _, notes, twin in seen:
        if "encoders" in twin:
            same(notes["reward penalty"], twin["penalty"].mean())
            assert twin["penalty"].min() > 0
            same(notes["deviation on source rows"], twin["penalty"].mean() / config.hyper.penalty)
        else:
            assert "reward penalty" not in notes


def test_actor_temperature_and_encoders_move_at_their_intervals_and_no_other_time(course):
    config, steps, seen = course
    for before, after, step in zip(seen[:-1], seen[1:], steps[1:], strict=True):
        acted = step % config.sac.actor_interval == 0
        assert np.array_equal(before[0].actor.value, after[0].actor.value) != acted
        tuned = acted and config.sac.tune_temperature
        assert np.array_equal(before[0].log_temperature.value, after[0].log_temperature.value) != tuned
        assert not np.array_equal(before[0].critic.value, after[0].critic.value)
        if config.recipe.method.name != "sac":
            trained = step % config.hyper.encoder_interval == 0
            assert np.array_equal(before[1].live.value, after[1].live.value) != trained
            assert (after[2]["encoder loss"] > 0) == trained


def test_the_slow_encoders_are_kept_only_where_the_preset_asks_for_them(course):
    config, _, seen = course
    for _, learned, _, twin in seen:
        if "encoders" in twin:
            assert (learned.slow is not None) == (config.preset == "released")
