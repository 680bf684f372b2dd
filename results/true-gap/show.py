"""Prints the tables of rows.csv and rows-later.csv and draws figure.png: python results/true-gap/show.py"""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import mannwhitneyu, spearmanr

HERE = Path(__file__).parent
SIGNALS = {
    "par": "PAR: deviation",
    "darc": "DARC: log ratio, source to target",
    "vgdf": "VGDF: - log likelihood",
    "ensemble": "ensemble: distance to s'",
}
UNTOUCHED, TOUCHED = 0.01, 0.1  # gaps below which a row is the same in both bodies, and above which it is not
KEPT = 0.25  # VGDF's share
FEWEST = 50  # rows of either kind
OFF = 0.01  # rows that taken again in the source end farther than this from where they ended are left out
NONE = 1e-3  # where rows without a gap are drawn
SHOWN = (0.005, 0.97)  # quantiles between which signals are drawn

Columns = dict[str, np.ndarray]


def read(name: str) -> dict[tuple[str, str], Columns]:
    """By task and seed, the rows whose states could be read from their observations."""
    found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader((HERE / name).open()):
        if float(row["off"]) < OFF and row["gap"] != "nan":  # where the target's physics broke
            found[row["task"], row["seed"]].append(row)
    numbers = [name for name in row if name not in ("task", "seed")]
    return {
        key: {name: np.array([float(row[name]) for row in rows]) for name in numbers} for key, rows in found.items()
    }


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(spearmanr(one, other).statistic)


def told_apart(signal: np.ndarray, gap: np.ndarray) -> str:
    """How likely a touched row has the higher signal than an untouched one."""
    low, high = signal[gap < UNTOUCHED], signal[gap > TOUCHED]
    if min(len(low), len(high)) < FEWEST:
        return "–"
    return f"{mannwhitneyu(high, low).statistic / len(low) / len(high):.2f}"


def kept_gap(signal: np.ndarray, gap: np.ndarray) -> float:
    """Mean gap of the rows with the lowest signals, over that of all."""
    return float(gap[signal <= np.quantile(signal, KEPT)].mean() / gap.mean())


def print_tables(runs: dict[tuple[str, str], Columns]) -> None:
    for (task, seed), rows in runs.items():
        gap = rows["gap"]
        cells = [
            task,
            seed,
            f"{len(gap)}",
            f"{np.median(gap):.2g}",
            f"{(gap < UNTOUCHED).mean():.0%}".replace("%", " %"),
        ]
        cells += [f"{rank_correlation(rows[name], gap):.2f}" for name in SIGNALS]
        cells += [told_apart(rows[name], gap) for name in SIGNALS]
        print(f"| {' | '.join(cells)} |")
    for (task, seed), rows in runs.items():
        cells = [task, seed]
        cells += [f"{kept_gap(rows[name], rows['gap']):.2f}" for name in SIGNALS]
        cells += [f"{rank_correlation(rows[name], rows['ignorance']):.2f}" for name in SIGNALS]
        cells += [f"{rank_correlation(rows[name], rows['value_gap']):.2f}" for name in SIGNALS]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    runs = read("rows.csv")
    print_tables(runs)
    print_tables(read("rows-later.csv"))
    draw(runs)


def draw(runs: dict[tuple[str, str], Columns]) -> None:
    tasks = list(dict.fromkeys(task for task, _ in runs))
    size = 1 + 2.6 * len(tasks), 1 + 2.2 * len(SIGNALS)  # inches
    figure, axes = plt.subplots(len(SIGNALS), len(tasks), figsize=size, squeeze=False, layout="constrained")
    for column, task in zip(axes.T, tasks, strict=True):
        for panel, name in zip(column, SIGNALS, strict=True):
            for (other, seed), rows in runs.items():
                if other == task:
                    shown = np.maximum(rows["gap"], NONE), rows[name]
                    panel.plot(*shown, ".", markersize=1.5, alpha=0.4, label=f"seed {seed}")
            panel.set_xscale("log")
            every = np.concatenate([rows[name] for key, rows in runs.items() if key[0] == task])
            panel.set_ylim(*np.quantile(every, SHOWN))
        column[0].set_title(task, fontsize=9)
        column[-1].set_xlabel(f"true gap ({NONE}: none)")
    for panel, shown in zip(axes[:, 0], SIGNALS.values(), strict=True):
        panel.set_ylabel(shown, fontsize=8)
    axes[0, 0].legend(fontsize=7, markerscale=6)
    figure.savefig(HERE / "figure.png", dpi=70)


if __name__ == "__main__":
    main()
