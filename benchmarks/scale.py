"""Memory and time of PAR's updates against lanes, replay size and network width: a table and a figure.

    python benchmarks/scale.py [--quick] [--out scale]

writes scale-DEVICE.json, .md and .png. Memory is that of all devices together: what stays there (networks with their
optimisers, replays) and what an update needs besides, as the compiler states it. Time is the fastest of some ticks.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

from offdyn.bench.update_loop import ROWS, UpdateLoop
from offdyn.training.config import build
from offdyn.training.hardware import offer_every_core, surroundings

LANES, SHARED = (1, 4, 12, 40, 80, 160), 12  # the second: of all points that vary something else
WIDTHS, REPLAYS = (256, 512, 1024), (ROWS, 100_000, 1_000_000)
QUICK_LANES, QUICK_SHARED, QUICK_WIDTHS, QUICK_REPLAYS = (1, 2, 4), 2, (64, 128, 256), (ROWS, 100_000)
WIDTH = 256  # of a preset's networks
GIB = 2**30


def wide(width: int) -> dict[str, Any]:
    """Every hidden layer of every network so wide."""
    config = build("halfcheetah-no-thighs", "par", "paper", 0)[0]
    return {
        name: (width,) * len(value) for name, value in config.settings().items() if name.endswith("_widths") and value
    }


def points(quick: bool) -> list[tuple[int, int, int]]:
    """(lanes, width, replay rows), each once."""
    lanes, shared, widths, replays = (
        (QUICK_LANES, QUICK_SHARED, QUICK_WIDTHS, QUICK_REPLAYS) if quick else (LANES, SHARED, WIDTHS, REPLAYS)
    )
    wanted = [(count, WIDTH, ROWS) for count in lanes]
    wanted += [(shared, width, ROWS) for width in widths] + [(shared, WIDTH, rows) for rows in replays]
    return list(dict.fromkeys(wanted))


def measure(lanes: int, width: int, rows: int, repeats: int) -> dict[str, Any]:
    learner = UpdateLoop(lanes, rows=rows, settings=wide(width))
    seconds = learner.seconds_per_update(repeats)
    analysis = learner.programs.learn.lower(*learner.arguments()).compile().memory_analysis()
    return {
        "lanes": lanes,
        "width": width,
        "replay_rows": rows,
        "devices": learner.devices.count,
        "milliseconds": 1e3 * seconds,
        "run_updates_per_second": lanes / seconds,
        "network_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(learner.state)),
        "replay_bytes": sum(rows.nbytes for rows in learner.rows),
        "working_bytes": None if analysis is None else int(analysis.temp_size_in_bytes) * learner.devices.count,
        "compile_seconds": learner.compile_seconds,
    }


def gib(count: int | None) -> str:
    return "?" if count is None else f"{count / GIB:.3f}"


COLUMNS = ("lanes", "width", "replay rows", "ms/update", "run-updates/s", "networks, GiB", "replays, GiB")
COLUMNS += ("working, GiB", "compiled, s")
HEADER = f"| {' | '.join(COLUMNS)} |"


def line(row: dict[str, Any]) -> str:
    return (
        f"| {row['lanes']} | {row['width']} | {row['replay_rows']:,} | {row['milliseconds']:.3f} "
        f"| {row['run_updates_per_second']:,.0f} | {gib(row['network_bytes'])} | {gib(row['replay_bytes'])} "
        f"| {gib(row['working_bytes'])} | {row['compile_seconds']:.1f} |"
    )


def draw(found: list[dict[str, Any]], device: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullLocator

    shared = next(row["lanes"] for row in found if row["width"] != WIDTH or row["replay_rows"] != ROWS)
    panels = {
        "lanes": [row for row in found if row["width"] == WIDTH and row["replay_rows"] == ROWS],
        "width": [row for row in found if row["lanes"] == shared and row["replay_rows"] == ROWS],
        "replay_rows": [row for row in found if row["lanes"] == shared and row["width"] == WIDTH],
    }
    titles = {
        "lanes": f"lanes (width {WIDTH}, replays of {ROWS:,} rows)",
        "width": f"width of all layers ({shared} lanes)",
        "replay_rows": f"rows of each replay ({shared} lanes)",
    }
    figure, axes = pyplot.subplots(2, 3, figsize=(11, 5.6), sharey="row")
    for column, (name, rows) in enumerate(panels.items()):
        rows = sorted(rows, key=lambda row: row[name])
        at = [row[name] for row in rows]
        above, below = axes[0][column], axes[1][column]
        above.plot(at, [row["milliseconds"] / row["lanes"] for row in rows], "o-", color="#0072B2")
        above.set_ylabel("ms per run-update" if column == 0 else "")
        kinds = (("network_bytes", "networks", "#D55E00"), ("replay_bytes", "replays", "#009E73"))
        for kind, label, colour in (*kinds, ("working_bytes", "an update besides", "#CC79A7")):
            known = [(x, row[kind] / GIB) for x, row in zip(at, rows, strict=True) if row[kind]]
            below.plot(*zip(*known, strict=True), "o-", color=colour, label=label) if known else None
        below.set_ylabel("GiB" if column == 0 else "")
        below.set_xlabel(titles[name])
        for axis in (above, below):
            axis.set(xscale="log", yscale="log", xticks=at)
            axis.set_xticks(at, [f"{x:,}" for x in at])
            axis.xaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_locator(NullLocator())
            axis.grid(alpha=0.3)
    figure.legend(*axes[1][0].get_legend_handles_labels(), frameon=False, loc="upper right", ncols=3)
    figure.suptitle(f"PAR, preset paper, halfcheetah, {device}", x=0.05, ha="left")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and small points, for a machine without a GPU")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("scale"))
    asked = parser.parse_args()
    offer_every_core()
    # Empty at first, so that the times to compile are those of a first start; asking for memory then costs no second.
    programs = tempfile.TemporaryDirectory(prefix="offdyn-scale-")
    jax.config.update("jax_compilation_cache_dir", programs.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    device = jax.devices()[0]
    name = "cpu" if device.platform == "cpu" else device.device_kind.split()[-1].lower()
    print(f"{device.device_kind}, PAR, preset paper, halfcheetah")
    print(HEADER)
    load = os.getloadavg()[0]  # of others, before this began
    found = []
    for point in points(asked.quick):
        found.append(measure(*point, asked.repeats))
        print(line(found[-1]), flush=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python", "benchmarks/scale.py", *sys.argv[1:]])
    about = {"command": command, "load": load, "rows": found, "surroundings": surroundings(None)}
    (asked.out / f"scale-{name}.json").write_text(json.dumps(about, indent=2) + "\n")
    dashes = "|" + "---:|" * len(COLUMNS)
    title = f"# PAR's updates against lanes, width and replay size, {device.device_kind}\n\nMade by `{command}`.\n\n"
    table = "\n".join([HEADER, dashes, *map(line, found)])
    (asked.out / f"scale-{name}.md").write_text(title + table + "\n")
    draw(found, device.device_kind, asked.out / f"scale-{name}.png")
    print(f"wrote {asked.out}/scale-{name}.json, .md, .png")
    programs.cleanup()


if __name__ == "__main__":
    main()
