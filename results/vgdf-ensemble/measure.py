"""Is a fixed amount of ensemble training harmless? VGDF's ensemble beside ones trained to convergence on the same rows.

    python results/vgdf-ensemble/measure.py --out FOLDER [--checkpoints 10000 100000] [--seeds 0 1 2] [--set NAME=VALUE]

Trains VGDF, preset paper, all runs as lanes of one cohort. At each checkpoint, counted in target rows: reference
ensembles are trained from scratch on the target rows stored so far, as the released code does (10 % held out, epochs
of batches of 256, until no member has improved its held-out squared error by more than 1 % for more than 5 epochs in a
row); both are scored on fresh target rows, and on which rows of source batches they keep. Also writes each run's
learning curve. `--resumable` saves the training at every evaluation; the same command then goes on from there.
"""

import argparse
import csv
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from offdyn.data.replay import unpack
from offdyn.data.rows import pack
from offdyn.domains import pairs
from offdyn.experiments import cohort_state
from offdyn.experiments.cohorts import Cohort
from offdyn.experiments.config import build
from offdyn.experiments.evaluate import evaluate
from offdyn.experiments.record import surroundings
from offdyn.files import write_atomically
from offdyn.learning.networks import Trained, descend
from offdyn.methods import vgdf
from offdyn.methods.parts import ensemble, scaling
from offdyn.methods.parts.ensemble import Ensemble
from offdyn.methods.vgdf import Learned
from offdyn.types import Array, Context, Spec

TASKS = ("halfcheetah-broken-back-thigh", "halfcheetah-no-thighs")
FRESH = 3  # the role in (seed, role, ...) that seeds starts; training and evaluation use 0, 1 and 2
BATCH, HELD_OUT, IMPROVEMENT, PATIENCE = 256, 0.1, 0.01, 5
REFERENCES = 2  # per run, with seeds of their own: how well they agree is the most that can be asked of ours
ACTING = 2**30  # clocks of the fresh rows, beyond all of training's


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


class Split(NamedTuple):
    """Target rows of one reference ensemble: inputs, scaled, and outcomes."""

    train: tuple[Array, Array]
    held_out: tuple[Array, Array]


class Reference:
    """Ensembles trained to convergence, one program for all runs and reference seeds."""

    def __init__(self, hyper: Any, spec: Spec, rows: int) -> None:
        self.hyper, self.spec = hyper, spec
        self.kept_back = max(1, int(HELD_OUT * rows))
        self.batch = min(BATCH, rows - self.kept_back)
        self.begin = jax.jit(jax.vmap(jax.vmap(self._begin, in_axes=(0, None)), in_axes=(0, 0)))
        self.epoch = jax.jit(jax.vmap(jax.vmap(self._epoch)), donate_argnums=1)

    def _begin(self, key: Array, rows: Array) -> tuple[Ensemble, Split]:
        shuffled = unpack(rows[jax.random.permutation(key, rows.shape[0])], self.spec)
        inputs, outcomes = ensemble.inputs_of(shuffled), ensemble.outcomes_of(shuffled)
        back = self.kept_back
        scale = scaling.fit(inputs[back:], jnp.asarray(rows.shape[0] - back))
        inputs = scale.apply(inputs)
        model = ensemble.init(jax.random.fold_in(key, 1), self.hyper, self.spec)
        return model._replace(scale=scale), Split((inputs[back:], outcomes[back:]), (inputs[:back], outcomes[:back]))

    def _epoch(self, key: Array, model: Ensemble, split: Split, active: Array) -> tuple[Ensemble, Array]:
        """Every row once, in each member's own order, the last incomplete batch left out; held-out error [members]."""
        inputs, outcomes = split.train
        steps = inputs.shape[0] // self.batch
        orders = jax.vmap(lambda k: jax.random.permutation(k, inputs.shape[0])[: steps * self.batch])(
            jax.random.split(key, self.hyper.members)
        )

        def step(live: Trained, rows: Array) -> tuple[Trained, None]:
            return descend(
                lambda members: (ensemble.loss(members, inputs[rows], outcomes[rows], self.hyper, self.spec), None),
                live,
                self.hyper.ensemble_learning_rate,
            )[0], None

        batches = orders.reshape(self.hyper.members, steps, self.batch).swapaxes(0, 1)
        live, _ = jax.lax.scan(step, model.live, batches)
        live = jax.tree.map(lambda new, old: jnp.where(active, new, old), live, model.live)
        guess = ensemble.predict(live.value, split.held_out[0], self.hyper, self.spec)
        return model._replace(live=live), jnp.square(guess.mean - split.held_out[1]).mean((1, 2))

    def train(self, rows: Array, seed: int, most_epochs: int) -> tuple[Ensemble, np.ndarray]:
        """([lanes, references, ...] ensembles, epochs each took) from rows [lanes, n, width]."""
        keys = jax.random.split(jax.random.key(seed), (len(rows), REFERENCES))
        model, split = self.begin(keys, rows)
        best = np.full((*keys.shape, self.hyper.members), np.inf)
        waited, epochs = np.zeros(keys.shape, int), np.zeros(keys.shape, int)
        while (active := waited <= PATIENCE).any() and epochs.max() < most_epochs:
            orders = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(0, None)), in_axes=(0, None))(
                keys, 2 + epochs.max()
            )
            model, found = self.epoch(orders, model, split, active)
            error = np.asarray(found, float)
            better = error < (1 - IMPROVEMENT) * best
            best = np.where(better & active[..., None], error, best)
            waited = np.where(active, np.where(better.any(-1), 0, waited + 1), waited)
            epochs += active
        return model, epochs


def fresh_rows(cohort: Cohort, count: int, index: int, threads: int | None) -> np.ndarray:
    """[lanes, n, width]: target rows of the current stochastic policies, in bodies built afresh."""
    steps = min(count, cohort.spec.time_limit)
    bodies = max(1, count // steps)
    lanes = cohort.lanes_count
    starts = [(seed, FRESH, index, body) for seed in cohort.seeds for body in range(bodies)]
    domain = pairs.open_bodies([(task, "target") for task in cohort.tasks for _ in range(bodies)], starts, threads)
    ids, packed = np.arange(lanes * bodies), []
    for step in range(steps):
        seen = domain.observation.astype(np.float32).reshape(lanes, bodies, -1)
        _, actions, _ = cohort.learner.programs.act(
            cohort.learner.keys, cohort.learner.lanes, seen[:, :1], seen, np.int32(ACTING + step)
        )
        packed.append(pack(domain.step(ids, np.asarray(actions).reshape(len(ids), -1))))
    domain.close()
    return np.stack(packed).reshape(steps, lanes, bodies, -1).swapaxes(0, 1).reshape(lanes, steps * bodies, -1)


def compare(cohort: Cohort, references: Ensemble, fresh: np.ndarray, batches: int) -> list[dict[str, float]]:
    """Ours against the references, for every run."""
    spec, hyper = cohort.spec, dataclasses.replace(cohort.runs[0].hyper, warm_up=0)
    n = cohort.runs[0].sac.batch_size
    filled = int(min(cohort.source_rows, cohort.learner.experience.source.shape[1]))
    stored = cohort.learner.experience.target[:, : cohort.target_rows]

    def one(key: Array, lane: Any, models: Ensemble, source: Array, stored: Array, fresh: Array) -> dict[str, Array]:
        """`models`: ours first, then the references."""
        drawn = unpack(source[jax.random.randint(key, (batches, n), 0, filled)], spec)
        mine = dataclasses.replace(lane.hyper, warm_up=0)

        def kept(model: Ensemble, draws: int) -> Array:
            """[batches, n]: the rows the filter keeps, by this ensemble and with these random draws."""

            def of_batch(rows: Any, number: Array) -> Array:
                key_of_batch = jax.random.fold_in(jax.random.fold_in(key, draws), number)
                learned = Learned(model, None)
                ctx = Context(spec, lane.agent, learned, lane.sac, mine, key_of_batch, jnp.asarray(0))
                return vgdf.correct(rows, ctx)[0].weight

            return jax.vmap(of_batch)(drawn, jnp.arange(batches))

        def overlap(a: Array, b: Array) -> Array:
            return (a * b).sum() / a.sum()

        changes = unpack(stored, spec)
        changes = changes.next_observation - changes.observation
        unit = scaling.fit(changes, jnp.asarray(stored.shape[0])).deviation
        scores = [ensemble.errors(model, unpack(fresh, spec), unit, hyper, spec) for model in models]
        ours, *others = (kept(model, 1) for model in models)
        return {
            "error": scores[0][0],
            "reference_error": jnp.stack([score[0] for score in scores[1:]]).mean(),
            "log_likelihood": scores[0][1],
            "reference_log_likelihood": jnp.stack([score[1] for score in scores[1:]]).mean(),
            "overlap_with_reference": jnp.stack([overlap(ours, other) for other in others]).mean(),
            "overlap_of_references": overlap(*others),
            "overlap_with_itself_other_draws": overlap(ours, kept(models[0], 2)),
            "chance": ours.mean(),
        }

    apart = [jax.tree.map(lambda leaf, r=r: leaf[:, r], references) for r in range(REFERENCES)]
    models = [cohort.learner.lanes.learned.ensemble, *apart]
    found = jax.jit(jax.vmap(one))(
        cohort.learner.keys, cohort.learner.lanes, models, cohort.learner.experience.source, stored, fresh
    )
    by_name = {name: np.asarray(value, float) for name, value in found.items()}
    return [{name: float(value[lane]) for name, value in by_name.items()} for lane in range(cohort.lanes_count)]


def check(cohort: Cohort, index: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """One checkpoint."""
    started = time.perf_counter()
    stored = cohort.learner.experience.target[:, : cohort.target_rows]
    reference = Reference(cohort.runs[0].hyper, cohort.spec, cohort.target_rows)
    models, epochs = reference.train(stored, 1000 + index, asked.most_epochs)
    taken = time.perf_counter() - started
    say(f"references: {epochs.min()} to {epochs.max()} epochs in {taken:.0f} s")
    fresh = fresh_rows(cohort, asked.fresh_rows, index, asked.threads)
    found = compare(cohort, models, fresh, asked.batches)
    about = {"target_rows": cohort.target_rows, "updates": cohort.updates, "references_seconds": round(taken, 1)}
    return [
        about | {"task": run.task.name, "seed": run.seed, "reference_epochs": epochs[lane].tolist()} | found[lane]
        for lane, run in enumerate(cohort.runs)
    ]


def write_curves(cohort: Cohort, out: Path, done: int, wall: float, asked: argparse.Namespace) -> None:
    """A line per run: returns of fresh episodes, and the notes' means since the last line."""
    seen = evaluate(
        cohort_state.policies(cohort),
        cohort.tasks,
        cohort.seeds,
        asked.episodes,
        0,
        index=cohort.clock,
        threads=asked.threads,
    )
    means = cohort.learner.drain() / max(1, done)
    say(f"step {cohort.clock}: target returns {np.round(seen.target_returns.mean(1)).tolist()}")
    for lane, run in enumerate(cohort.runs):
        returns = seen.target_returns[lane]
        line = {"source_steps": cohort.clock, "target_steps": cohort.target_rows, "updates": cohort.updates}
        line |= {"target_return_mean": returns.mean(), "target_return_std": returns.std(), "wall_seconds": round(wall)}
        line |= {name.replace(" ", "_"): means[lane, i] for i, name in enumerate(cohort.learner.programs.notes)}
        path = out / run.name / "curve.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with open(path, "a", newline="") as file:
            writer = csv.DictWriter(file, list(line), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(line)


def save(cohort: Cohort, folder: Path, progress: dict[str, Any]) -> None:
    """All that `load` needs; what a kill leaves half done is not looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    state, host = cohort_state.save(cohort)
    segments = progress["segments"]
    np.savez(folder / f"rows-{segments}.npz", **cohort_state.take_rows(cohort))
    progress["segments"] = segments + 1
    text = json.dumps({"host": host, "progress": progress})
    np.savez(folder / "next.npz", **state, text=np.frombuffer(text.encode(), np.uint8))
    os.replace(folder / "next.npz", folder / "state.npz")


def load(cohort: Cohort, folder: Path) -> dict[str, Any]:
    """The progress that was saved; the cohort goes on from there."""
    with np.load(folder / "state.npz") as file:
        state = {name: file[name] for name in file.files if name != "text"}
        said = json.loads(file["text"].tobytes())
    segments = [dict(np.load(folder / f"rows-{i}.npz")) for i in range(said["progress"]["segments"])]
    cohort_state.load(cohort, state, said["host"], segments)
    say(f"goes on at step {cohort.clock}")
    return said["progress"]


def cut_curves(cohort: Cohort, out: Path) -> None:
    """Forget lines that were written after what the cohort goes on from, or by another training."""
    for path in (out / run.name / "curve.csv" for run in cohort.runs):
        if path.exists():
            head, *lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join([head, *(line for line in lines if int(line.split(",")[0]) <= cohort.clock)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--checkpoints", type=int, nargs="+", default=[10_000, 100_000], help="in target rows")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--eval-interval", type=int, default=20_000, help="in source steps")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--fresh-rows", type=int, default=4000, help="per run and checkpoint")
    parser.add_argument("--batches", type=int, default=40, help="source batches whose kept rows are compared")
    parser.add_argument("--most-epochs", type=int, default=200, help="of a reference that does not converge")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--resumable", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()

    settings = dict(pair.split("=", 1) for pair in asked.set)
    settings["source_steps"] = max(asked.checkpoints) * int(settings.get("target_interval", 10))
    runs = [build(task, "vgdf", asked.preset, seed, settings)[0] for task in asked.tasks for seed in asked.seeds]
    cohort = Cohort(runs, asked.threads)
    progress: dict[str, Any] = {"segments": 0, "seconds": 0.0, "drained_at": 0, "checks": []}
    if asked.resumable and (asked.out / "state" / "state.npz").exists():
        progress = load(cohort, asked.out / "state")
    cut_curves(cohort, asked.out)
    command = "results/vgdf-ensemble/measure.py " + " ".join(sys.argv[1:])
    began = time.perf_counter() - progress["seconds"]
    say(f"{len(runs)} runs, {runs[0].schedule.source_steps} source steps each, on {jax.devices()[0].device_kind}")
    while cohort.clock < runs[0].schedule.source_steps:
        cohort.tick()
        reached = cohort.target_rows in asked.checkpoints and cohort.clock % runs[0].schedule.target_interval == 0
        if reached and all(line["target_rows"] != cohort.target_rows for line in progress["checks"]):
            say(f"checkpoint: {cohort.target_rows} target rows")
            progress["checks"] += check(cohort, len(progress["checks"]), asked)
        if cohort.clock % asked.eval_interval == 0 or reached:
            progress["seconds"] = time.perf_counter() - began
            write_curves(cohort, asked.out, cohort.updates - progress["drained_at"], progress["seconds"], asked)
            progress["drained_at"] = cohort.updates
            if asked.resumable:
                save(cohort, asked.out / "state", progress)
            else:
                cohort_state.take_rows(cohort)  # nobody wants them
        if reached:
            about = {"command": command, "seconds": round(progress["seconds"]), "rows": progress["checks"]}
            about |= {"failures": [[lane, *failure] for lane, failure in cohort.failures.items()]}
            about |= {"surroundings": surroundings(asked.threads)}
            write_atomically(asked.out / "summary.json", (json.dumps(about, indent=2) + "\n").encode())
            for line in progress["checks"][-len(runs) :]:
                say(json.dumps(line))


if __name__ == "__main__":
    main()
