"""Every method on the demo's world: trains, then writes curves.csv, finals.csv, provenance.json and the pictures.

    python results/small-world/run.py [--seeds 0 1 2 3 4] [--work FOLDER]

Takes six minutes on two cores. `--work` keeps the runs; the same command then goes on where it was stopped.
"""

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import offdyn
from offdyn.demo import AGENT, ENCODERS, FULL, INTERVAL, PENALTY, ROWS, SCHEDULE
from offdyn.experiments.qualities import Collector
from offdyn.experiments.record import RunFolder, surroundings

HERE = Path(__file__).parent
WORLD = "jetpack"
DATA_ROWS = 18_000  # as many as the online methods collect in the source
# A tenth of the run, as 100,000 updates are of the paper's.
WARM_UP = {"warm_up": FULL["source_steps"] // 10}
CLASSIFIERS = {"classifier_widths": (32, 32), "classifier_batch": ROWS}
ENSEMBLE = {"ensemble_widths": (32, 32), "ensemble_batch": ROWS, "optimist_widths": (32, 32)}
BOTH, ONE = {"batch_size": ROWS}, {"batch_size": 2 * ROWS}
PAR = {**BOTH, **ENCODERS}
ONLINE: dict[str, tuple[str, dict[str, Any]]] = {
    "sac-tar": ("sac-tar", ONE),
    "sac-tar-10": ("sac-tar-10", {**ONE, "updates_per_step": INTERVAL}),
    "sac-tune": ("sac-tune", ONE),
    "sac": ("sac", BOTH),
    "par": ("par", {**PAR, "penalty": PENALTY}),
    "darc": ("darc", {**BOTH, **CLASSIFIERS, **WARM_UP}),
    "darc-weight": ("darc-weight", {**BOTH, **CLASSIFIERS, **WARM_UP}),
    "vgdf": ("vgdf", {**BOTH, **ENSEMBLE, **WARM_UP}),
}
OFFLINE: dict[str, tuple[str, dict[str, Any]]] = {
    "par, dataset": ("par", {**PAR, "penalty": PENALTY}),
    "sac+bc": ("sac+bc", PAR),
    "cql-0": ("cql-0", ONE),
    "cql+sac": ("cql+sac", {**BOTH, **WARM_UP}),
    "h2o": ("h2o", {**BOTH, **CLASSIFIERS, **WARM_UP}),
    "vgdf+bc": ("vgdf+bc", {**BOTH, **ENSEMBLE, **WARM_UP}),
}
COLOURS = ("#000000", "#999999", "#56B4E9", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito


def trained(label: str, method: str, settings: dict[str, Any], seeds: list[int], work: Path) -> list[RunFolder]:
    """The runs of one method; those an earlier call finished are read."""
    out = work / label.replace(", ", "-")
    if not out.exists():
        offdyn.train(WORLD, method, seeds=seeds, out=out, **{**SCHEDULE, **FULL, **AGENT, **settings})
    elif any(RunFolder.open(path.parent).state != "finished" for path in out.glob("*/config.yaml")):
        offdyn.resume(out)
    found = [RunFolder.open(path.parent) for path in sorted(out.glob("*/config.yaml"))]
    return [run for run in found if run.config.method == method]


def source_data(work: Path, seeds: list[int]) -> str:
    """Rows of a policy trained in the source, actions drawn."""
    first = trained("sac-src", "sac-src", ONE, seeds, work)[0]
    collector = Collector(work / "data", steps=DATA_ROWS)
    return str(collector.collect_policy(first.path, "jetpack-trained"))


def write(name: str, columns: tuple[str, ...], lines: list[tuple[Any, ...]]) -> None:
    with open(HERE / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([columns, *lines])


def about(name: str, command: str, methods: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """The command, each method's settings, and the versions and hardware at hand."""
    settings = {label: {field: str(value) for field, value in how[1].items()} for label, how in methods.items()}
    said = {"command": f"results/small-world/{command}", "settings": settings, **surroundings(None)}
    (HERE / name).write_text(json.dumps(said, indent=2) + "\n")


def draw(runs: dict[str, list[RunFolder]], path: Path, title: str) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for colour, (label, members) in zip(COLOURS, runs.items(), strict=False):
        curves = [member.curve() for member in members]
        steps = [line["target_steps"] for line in curves[0]]
        returns = np.array([[line["target_return_mean"] for line in curve] for curve in curves])
        if len(steps) == 1:  # tested once
            axes.axhline(returns.mean(), color=colour, linestyle="--", linewidth=1.5, label=label)
            continue
        axes.plot(steps, returns.T, color=colour, linewidth=0.5, alpha=0.4)
        axes.plot(steps, returns.mean(0), color=colour, linewidth=2, label=label)
    axes.set(xlabel="target steps", ylabel="target return (20 episodes)", title=title)
    axes.legend(fontsize=8, ncols=2)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--work", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        work = asked.work or Path(made)
        online = {label: trained(label, *how, asked.seeds, work) for label, how in ONLINE.items()}
        data = source_data(work, asked.seeds)
        offline = {
            label: trained(label, method, {**settings, "source_data": data}, asked.seeds, work)
            for label, (method, settings) in OFFLINE.items()
        }
        runs = online | offline
        curves, finals = [], []
        for label, members in runs.items():
            for run in members:
                final = json.loads((run.path / "final.json").read_text())
                finals.append((label, run.config.seed, round(final["final_mean"], 3), run.provenance["wall_seconds"]))
                for line in run.curve():
                    at = (int(line["target_steps"]), int(line["updates"]))
                    curves.append((label, run.config.seed, *at, round(line["target_return_mean"], 3)))
            returns = [line[2] for line in finals if line[0] == label]
            print(f"{label:14} {np.mean(returns):7.2f} +- {np.std(returns):5.2f}   {returns}")
        write("curves.csv", ("method", "seed", "target_steps", "updates", "target_return_mean"), curves)
        write("finals.csv", ("method", "seed", "final_mean", "wall_seconds"), finals)
        about("provenance.json", f"run.py --seeds {' '.join(map(str, asked.seeds))}", ONLINE | OFFLINE)
        draw(online, HERE / "online.png", "jetpack, live source")
        draw({"par, live source": runs["par"], **offline}, HERE / "offline.png", "jetpack, the source a dataset")


if __name__ == "__main__":
    main()
