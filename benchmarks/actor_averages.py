"""Averages of one actor at several rates, beside each other in one training: which of them to deploy.

Training does not see them, so that all are of the same runs: python benchmarks/actor_averages.py --to FILE.jsonl
--rates 1e-3 1e-4 --deployed 1e-4 -- --task hopper-broken-joints --out runs. Behind `--`: what `offdyn train` takes.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1]))
from offdyn.algos import sac
from offdyn.cli.main import main as offdyn
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
        return tuple(drift(each, live, its) for each, its in zip(slow, rates, strict=True))

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


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--to", type=Path, required=True)
    asked.add_argument("--rates", type=float, nargs="+", default=[1e-3, 3e-4, 1e-4, 3e-5])
    asked.add_argument("--deployed", type=float, default=1e-4)
    asked.add_argument("train", nargs="*")
    asked = asked.parse_args()
    asked.to.parent.mkdir(parents=True, exist_ok=True)
    keep_averages(asked.rates, asked.rates.index(asked.deployed), asked.to)
    return offdyn(["train", *asked.train, "--set", f"actor_average={asked.deployed}"])


if __name__ == "__main__":
    sys.exit(main())
