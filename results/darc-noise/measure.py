"""How much of a shift DARC's classifiers see under noise on their inputs, raw and standardised: writes summary.json.

    python results/darc-noise/measure.py

Rows of uniformly random actions in both bodies of a task; classifiers as in `--method darc`, but for their widths;
what they say of rows that they were not trained on.
"""

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from offdyn.data.replay import Replay, unpack
from offdyn.data.rows import pack
from offdyn.domains import pairs
from offdyn.learning.sac import Sac
from offdyn.methods.parts import classifiers
from offdyn.methods.parts.classifiers import Classifiers, Hyper
from offdyn.types import Context, Spec

# A hard shift of each robot and a mild one.
TASKS = ("halfcheetah-broken-back-thigh", "halfcheetah-gravity-1.2", "hopper-broken-joints", "hopper-gravity-1.2")
NOISES = (0.0, 0.1, 1.0)
SEEDS = (0, 1, 2)
BODIES, STEPS, HELD_OUT_STEPS = 20, 1000, 250  # rows per domain: 20,000 to learn from and 5,000 to ask about
UPDATES = 3000
HYPER = Hyper(classifier_widths=(64, 64), classifier_learning_rate=1e-3)


def random_rows(task: str, role: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed rows of the first steps, and of those after them."""
    pair = pairs.find(task)
    domain = pairs.open_bodies([(pair, role)] * BODIES, [(seed, body) for body in range(BODIES)])
    generator = np.random.default_rng((seed, role == "target"))
    ids, size = np.arange(BODIES), pairs.spec_of(pair).action_size
    rows = [pack(domain.step(ids, generator.uniform(-1.0, 1.0, (BODIES, size)))) for _ in range(STEPS + HELD_OUT_STEPS)]
    domain.close()
    return np.concatenate(rows[:STEPS]), np.concatenate(rows[STEPS:])


@partial(jax.jit, static_argnames="spec")
def trained(learned: Classifiers, hyper: Hyper, source: Any, target: Any, spec: Spec, seed: Any) -> Classifiers:
    """Lanes of classifiers, one for each noise, after all updates."""
    replays = [Replay(rows, jnp.int32(rows.shape[0]), spec, None) for rows in (source, target)]

    def update(learned: Classifiers, hyper: Hyper, step: Any) -> Classifiers:
        key = jax.random.fold_in(jax.random.key(seed), step)
        return classifiers.learn(*replays, Context(spec, None, learned, Sac(), hyper, key, step))[0]

    def updates(learned: Classifiers, step: Any) -> tuple[Classifiers, None]:
        return jax.vmap(update, in_axes=(0, 0, None))(learned, hyper, step), None

    return jax.lax.scan(updates, learned, jnp.arange(UPDATES))[0]


def asked(learned: Classifiers, hyper: Hyper, spec: Spec, source: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """Accuracies and log ratios on held-out rows, which get no noise."""
    sa, sas = classifiers.layouts(hyper, spec)
    right: dict[str, list[float]] = {"SA": [], "SAS": []}
    ratios = []
    for sign, rows in ((-1, unpack(source, spec)), (1, unpack(target, spec))):
        inputs = classifiers.inputs_of(rows)
        inputs = inputs if learned.scale is None else learned.scale.apply(inputs)
        networks = learned.live.value
        both = sa.apply(networks.sa, inputs[:, : sa.sizes[0]])
        margins = {"SA": classifiers.margin(both), "SAS": classifiers.margin(both + sas.apply(networks.sas, inputs))}
        for name, margin in margins.items():
            right[name].append(float((sign * margin > 0).mean()))
        ratios.append(float(classifiers.log_ratio(rows, Context(spec, None, learned, Sac(), hyper, None, 0)).mean()))
    return {
        "accuracy of SA": float(np.mean(right["SA"])),
        "accuracy of SAS": float(np.mean(right["SAS"])),
        "mean log ratio on source rows": ratios[0],
        "mean log ratio on target rows": ratios[1],
    }


def measure(task: str, seed: int) -> list[dict[str, Any]]:
    spec = pairs.spec_of(pairs.find(task))
    source, unseen_source = random_rows(task, "source", seed)
    target, unseen_target = random_rows(task, "target", seed)
    found = []
    for standardised in (False, True):
        hyper = dataclasses.replace(HYPER, standardise_inputs=standardised)
        lanes = jax.tree.map(lambda value: jnp.full(len(NOISES), value), hyper)
        lanes = dataclasses.replace(lanes, classifier_noise=jnp.asarray(NOISES))
        one = classifiers.init(jax.random.key(seed), hyper, spec)
        start = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(NOISES)), one)
        learned = trained(start, lanes, source, target, spec, seed)
        for lane, noise in enumerate(NOISES):
            mine = jax.tree.map(lambda leaf, lane=lane: leaf[lane], learned)
            answers = asked(mine, hyper, spec, unseen_source, unseen_target)
            found.append({"task": task, "seed": seed, "standardised": standardised, "noise": noise, **answers})
    return found


def deviations(robot: str) -> list[float]:
    """Of each observation entry, under random actions in the source."""
    spec = pairs.spec_of(pairs.find(robot))
    rows, _ = random_rows(robot, "source", seed=0)
    return [round(float(x), 3) for x in unpack(rows, spec).observation.std(0)]


def main() -> None:
    runs = [run for task in TASKS for seed in SEEDS for run in measure(task, seed)]
    scales = {robot: deviations(robot) for robot in ("halfcheetah", "hopper")}
    settings = {"updates": UPDATES, "rows per domain": BODIES * STEPS, "held-out rows": BODIES * HELD_OUT_STEPS}
    settings |= {name: getattr(HYPER, name) for name in ("classifier_widths", "classifier_learning_rate")}
    path = Path(__file__).with_name("summary.json")
    path.write_text(
        json.dumps({"settings": settings, "deviation of each observation entry": scales, "runs": runs}, indent=1) + "\n"
    )
    for run in runs:
        print(" ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in run.values()))


if __name__ == "__main__":
    main()
