"""Averages of one actor at several rates, beside each other in one training: which of them to deploy.

Training does not see them, so that all are of the same runs.

    python benchmarks/actor_averages.py train --to FILE.jsonl --rates 1e-3 1e-4 --deployed 1e-4 -- TRAIN-ARGUMENTS
    python benchmarks/actor_averages.py deploy --to FILE.jsonl --rate 1e-3 --runs RUNS --out OUT

`train` takes behind `--` what `offdyn train` takes, `deploy` writes the runs as if that rate's average were theirs.
"""

import argparse
import csv
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
from offdyn.algos import sac
from offdyn.cli.main import main as offdyn
from offdyn.envs import pairs
from offdyn.training import evaluation
from offdyn.training.cohort import Cohort

LIVE = -1  # in place of an average's number: the actor that learns
EPISODES = 5  # of each average per evaluation; of the final ones as many as of the deployed


def keep_averages(rates: list[float], deployed: int, to: Path) -> None:
    """From here on agents keep one average per rate, and each is evaluated where the deployed one is."""
    looked_at = [deployed]
    init, drift, policies, evaluate = sac.init, sac.drift, Cohort.policies, evaluation.Evaluator.__call__

    @contextmanager
    def looking_at(number: int) -> Iterator[None]:
        looked_at[0] = number
        yield
        looked_at[0] = deployed

    def init_all(*arguments: Any) -> sac.Agent:
        agent = init(*arguments)
        return agent._replace(slow_actor=tuple(jax.tree.map(jnp.array, agent.slow_actor) for _ in rates))

    def drift_all(slow: Any, live: Any, rate: Any) -> Any:
        if not isinstance(slow[0], tuple):  # target critics
            return drift(slow, live, rate)
        first = jnp.where(rate > rates[deployed], rate, 0.0)  # larger than any of theirs while there were few updates
        return tuple(drift(each, live, jnp.maximum(its, first)) for each, its in zip(slow, rates, strict=True))

    def chosen(agent: sac.Agent) -> Any:
        return agent.actor.value if looked_at[0] == LIVE else agent.slow_actor[looked_at[0]]

    def policies_of_all(cohort: Cohort) -> Any:
        main, others = policies(cohort), {}
        for number in range(LIVE, len(rates)):
            if number != deployed:
                with looking_at(number):
                    others[number] = policies(cohort)
        names = [run.name for run in cohort.runs]
        object.__setattr__(main, "beside", (names, cohort.target_rows, others))
        return main

    def evaluate_all(self: Any, main: Any, target_episodes: int, source_episodes: int, **rest: Any) -> Any:
        result = evaluate(self, main, target_episodes, source_episodes, **rest)
        final = not source_episodes
        names, steps, others = main.beside
        found = {deployed: result.target_returns}
        for number, other in others.items():
            count = target_episodes if final else EPISODES
            found[number] = evaluate(self, other, count, 0, index=rest["index"]).target_returns
        with to.open("a") as lines:
            for number, returns in found.items():
                rate = None if number == LIVE else rates[number]
                for name, its in zip(names, returns.mean(1).tolist(), strict=True):
                    line = {"run": name, "target_steps": steps, "final": final, "rate": rate, "return": round(its, 2)}
                    lines.write(json.dumps(line) + "\n")
        return result

    sac.init, sac.drift = init_all, drift_all
    sac.Agent.deployed = property(chosen)  # type: ignore[assignment, method-assign]
    Cohort.policies = policies_of_all  # type: ignore[method-assign]
    evaluation.Evaluator.__call__ = evaluate_all  # type: ignore[method-assign]


def deploy(to: Path, rate: float, runs: Path, out: Path) -> None:
    """The runs' folders with the returns of that rate's average, of which the means alone are known."""
    found: dict[tuple[str, int, bool], list[float]] = defaultdict(list)  # several before the first target step
    for line in map(json.loads, to.read_text().splitlines()):
        if line["rate"] == rate:
            found[line["run"], line["target_steps"], line["final"]].append(line["return"])
    for folder in sorted(path.parent for path in runs.glob("*/curve.csv")):
        config = yaml.safe_load((folder / "config.yaml").read_text())
        task = pairs.find(config["task"]["name"])
        config["settings"]["actor_average"] = rate
        (out / folder.name).mkdir(parents=True)
        (out / folder.name / "config.yaml").write_text(yaml.safe_dump(config))
        shutil.copy(folder / "provenance.json", out / folder.name)
        with (folder / "curve.csv").open(newline="") as file:
            curve = list(csv.DictReader(file))
        for line in curve:
            value = found[folder.name, int(line["target_steps"]), False].pop(0)
            line["target_return_mean"], line["target_return_std"] = str(value), ""
            line["normalised"] = str(pairs.normalised(task, value))
        with (out / folder.name / "curve.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(curve[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(curve)
        (value,) = found[folder.name, int(curve[-1]["target_steps"]), True]
        final = {"format": 1, "final_mean": value, "final_normalised": pairs.normalised(task, value)}
        (out / folder.name / "final.json").write_text(json.dumps(final))


def main() -> int:
    commands = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = commands.add_subparsers(dest="command", required=True)
    train, deploys = known.add_parser("train"), known.add_parser("deploy")
    for command in (train, deploys):
        command.add_argument("--to", type=Path, required=True, metavar="FILE.jsonl")
    train.add_argument("--rates", type=float, nargs="+", default=[1e-3, 3e-4, 1e-4, 3e-5])
    train.add_argument("--deployed", type=float, default=1e-4)
    train.add_argument("train", nargs="*")
    deploys.add_argument("--rate", type=float, required=True)
    deploys.add_argument("--runs", type=Path, required=True)
    deploys.add_argument("--out", type=Path, required=True)
    asked = commands.parse_args()
    if asked.command == "deploy":
        deploy(asked.to, asked.rate, asked.runs, asked.out)
        return 0
    asked.to.parent.mkdir(parents=True, exist_ok=True)
    keep_averages(asked.rates, asked.rates.index(asked.deployed), asked.to)
    return offdyn(["train", *asked.train, "--set", f"actor_average={asked.deployed}"])


if __name__ == "__main__":
    sys.exit(main())
