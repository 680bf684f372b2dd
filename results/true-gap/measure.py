"""Does a method know where the target differs? Its verdict on source rows, and what the target's body would have done.

    python results/true-gap/measure.py [--tasks TASK ...] [--steps 40000] [--seeds 0 1]    # writes rows.csv beside this

One training of SAC on both domains (PAR without its penalty, whose encoders learn all the same) gives the rows. On the
same rows DARC's classifiers and VGDF's ensemble are trained, as often as in a training of that length. Then some source
rows are drawn; MuJoCo is set to each row's state, and the row's action is taken in both bodies. All robots' states can
be read from their observations but for where they are, and velocities beyond what is observed.
"""

import argparse
import csv
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from offdyn.data.datasets.physics import follow
from offdyn.data.replay import Replay
from offdyn.domains import tasks
from offdyn.experiments.cohorts import Cohort
from offdyn.experiments.config import RunConfig, build
from offdyn.experiments.devices import offer_every_core
from offdyn.learning.sac import act, values
from offdyn.methods import vgdf
from offdyn.methods.par import PAR
from offdyn.methods.parts import classifiers, ensemble
from offdyn.types import Array, Batch, Context

HERE = Path(__file__).parent
TASKS = ("halfcheetah-no-thighs", "hopper-broken-joints", "walker-broken-right-foot", "ant-broken-hips")
ROWS = 2000  # looked at, of each run
COLUMNS = ("task", "seed", "gap", "off", "par", "darc", "vgdf", "ensemble", "ignorance", "value_gap")
AT_ONCE = 500  # steps of a side network in one call


def trained(runs: list[RunConfig], threads: int = 2) -> Cohort:
    cohort = Cohort(runs, threads)
    while cohort.clock < cohort.plan.length:
        cohort.tick()
        if cohort.clock % 5000 == 0:
            print(f"{runs[0].task.name}: step {cohort.clock}", flush=True)
    return cohort


def learned(start: Any, step: Callable[[Any, Array, jax.Array], Any], steps: int, key: jax.Array) -> Any:
    """After so many steps of `step(learned, number, key)`."""

    @jax.jit
    def some(learned: Any, first: Array) -> Any:
        def one(number: Array, learned: Any) -> Any:
            return step(learned, number, jax.random.fold_in(key, number))

        return jax.lax.fori_loop(first, jnp.minimum(first + AT_ONCE, steps), one, learned)

    for first in range(0, steps, AT_ONCE):
        start = some(start, jnp.int32(first))
    return start


def verdicts(run: RunConfig, lane: Any, source: Replay, target: Replay, rows: Batch, updates: int) -> dict[str, Array]:
    """How different each method takes each of the rows to be, and how far its own ensemble is off."""
    spec, keys = run.spec, jax.random.split(jax.random.key(run.seed), 6)
    ctx = Context(spec, lane.agent, lane.learned, lane.sac, lane.hyper, keys[0], jnp.int32(updates))

    paying = dataclasses.replace(lane.hyper, penalty=1.0)
    found = {"par": rows.reward - PAR.correct(rows, ctx._replace(hyper=paying))[0].reward}

    hyper: Any = build(run.task, "darc", "paper", run.seed, {})[0].hyper
    of_darc = learned(
        classifiers.init(keys[1], hyper, spec),
        lambda mine, at, key: classifiers.learn(
            source, target, ctx._replace(hyper=hyper, learned=mine, key=key, step=at)
        )[0],
        updates,
        keys[2],
    )
    found["darc"] = -classifiers.log_ratio(rows, ctx._replace(hyper=hyper, learned=of_darc))

    hyper = build(run.task, "vgdf", "paper", run.seed, {})[0].hyper
    every, interval = dataclasses.replace(hyper, ensemble_interval=1), hyper.ensemble_interval
    model = learned(
        ensemble.init(keys[3], hyper, spec),
        lambda mine, at, key: ensemble.learn(mine, target, ctx._replace(hyper=every, key=key, step=at * interval))[0],
        updates // interval,
        keys[4],
    )
    filtering = ctx._replace(hyper=hyper, learned=vgdf.Learned(model, None), key=keys[5])
    noise = jax.random.normal(keys[0], (hyper.members, *ensemble.outcomes_of(rows).shape))
    found["vgdf"] = -vgdf.log_likelihood(*vgdf.compare(rows, noise, filtering))[0]
    scaled = model.scale.apply(ensemble.inputs_of(rows))
    found["expected"] = rows.observation + ensemble.predict(model.live.value, scaled, hyper, spec).mean.mean(0)[:, 1:]
    return found


def looked_at(cohort: Cohort, lane_number: int) -> Iterator[tuple[Any, ...]]:
    run = cohort.runs[lane_number]
    lane, source_rows, target_rows = jax.device_get(
        jax.tree.map(lambda x: x[lane_number], (cohort.learner.lanes, *cohort.learner.experience))
    )
    sizes = jnp.int32(cohort.source_rows), jnp.int32(cohort.target_rows)
    source, target = (
        Replay(jnp.asarray(rows), size, run.spec, None)
        for rows, size in zip((source_rows, target_rows), sizes, strict=True)
    )
    rows = source.sample(jax.random.key(1000 + run.seed), ROWS)
    found = verdicts(run, lane, source, target, rows, cohort.updates)

    observation, action, after = (np.asarray(x, float) for x in (rows.observation, rows.action, rows.next_observation))
    again, there = (
        follow(body, observation, action).next_observation for body in (tasks.source_of(run.task), run.task)
    )
    stored = target.view(target.rows[: cohort.target_rows])
    unit = np.asarray((stored.next_observation - stored.observation).std(0), float) + 1e-6

    def away(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.sqrt(np.square((np.asarray(one) - np.asarray(other)) / unit).mean(-1))

    def worth(state: np.ndarray) -> np.ndarray:
        seen = jnp.asarray(state, jnp.float32)
        choice, _ = act(lane.agent.actor.value, seen, None, lane.sac, run.spec)
        value = values(lane.agent.target_critic, seen, choice, lane.sac, run.spec).min(0)
        return np.where(np.asarray(run.spec.ends(seen)), 0.0, np.asarray(value))

    columns = {
        "gap": away(there, again),
        "off": away(again, after),
        **{name: np.asarray(found[name]) for name in ("par", "darc", "vgdf")},
        "ensemble": away(found["expected"], after),
        "ignorance": away(found["expected"], there),
        "value_gap": np.abs(worth(there) - worth(again)),
    }
    for number in range(ROWS):
        yield (run.task.name, run.seed, *(f"{columns[name][number]:.4g}" for name in COLUMNS[2:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=Path, default=HERE / "rows.csv")
    asked = parser.parse_args()
    offer_every_core()
    settings = {"penalty": 0, "source_steps": asked.steps}
    with asked.out.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for task in asked.tasks:
            cohort = trained([build(task, "par", "paper", seed, settings)[0] for seed in asked.seeds])
            for lane in range(len(asked.seeds)):
                table.writerows(looked_at(cohort, lane))
                file.flush()
                print(f"{task}: seed {asked.seeds[lane]} looked at", flush=True)
            cohort.domain.close()


if __name__ == "__main__":
    main()
