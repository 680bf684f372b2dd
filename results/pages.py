"""The tables of the pages: what stands between the marks `from the runs: NAME` and `end`."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from claims import claims, counted, ours
from offdyn.studies.study import shipped
from scores import SHOWN, between, compared, label, ranked, summary, tasks
from store import Refused

MARKED = re.compile(r"(<!-- from the runs: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def filled(page: str) -> str:
    """The page with its marked places written anew."""

    def anew(place: re.Match[str]) -> str:
        if place[2] not in TABLES:
            raise Refused(f"no table '{place[2]}' to write (known: {', '.join(TABLES)})")
        return f"{place[1]}\n{TABLES[place[2]]()}\n\n{place[3]}"

    return MARKED.sub(anew, page)


def markdown(head: str, rows: Iterable[Sequence[Any]], words: int = 1) -> str:
    """The first columns hold words, the others numbers."""
    ruler = f"|{' --- |' * words}{' ---: |' * (head.count('|') - 1 - words)}"
    return "\n".join([head, ruler, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def methods_table() -> str:
    def cell(row: dict[str, Any], name: str) -> str:
        return f"{row[name]:.0f}{between(row[f'{name}_interval'])}"

    head = "| method | IQM | mean | IQM at 50,000 target steps | target steps to PAR's mean | stuck |"
    rows = []
    for row in summary()["eight_tasks"]:
        name, reached = f"{row['label']}{' (prototype)' * row['prototype']}", row["target_steps_to_par"]
        cells = [cell(row, "iqm"), cell(row, "mean"), cell(row["at_50k"], "iqm"), f"{reached:,}" if reached else "more"]
        rows.append([name, *cells, f"{row['stuck']} of {row['runs']}"])
    return markdown(head, rows)


def finals_table() -> str:
    finals, failed = (compared(*SHOWN, column=column) for column in ("final_mean", "stuck"))

    def cell(runs: list[float], stuck: list[float]) -> str:
        return f"{np.mean(runs):.0f}" + f"<br>{sum(stuck):.0f} of {len(runs)}" * any(stuck)

    rows = [[task, *(cell(finals[group][task], failed[group][task]) for group in ranked())] for task in tasks()]
    return markdown(f"| task | {' | '.join(map(label, ranked()))} |", rows)


def penalty_table() -> str:
    rows = []
    for row in summary()["penalty_four_tasks"]:
        p = "" if row["p_against_par"] is None else f"{row['p_against_par']:.2g}"
        rows.append([row["label"], row["runs"], f"{row['mean']:.0f}{between(row['mean_interval'])}", p])
    return markdown("| | runs | mean score | p against PAR |", rows)


def claims_table() -> str:
    rows = []
    for claim in claims():
        verdict = f"**{claim['verdict']}**: {claim.get('because', 'no run yet')}"
        letters = f" ({', '.join(claim['deviations'])})" if "deviations" in claim else ""
        rows.append([claim["where"], claim["claim"], f"`{claim['command']}`", f"{ours(claim)}{letters}", verdict])
    return markdown("| paper | claim | command | ours | verdict |", rows, words=5)


def studies_table() -> str:
    rows = [(f"`{name}`", *counted(name)) for name in shipped() if name != "demo"]  # a minute, and run by the tests
    return markdown("| study | wanted | run | of another preset |", rows)


TABLES = {
    "methods": methods_table, "finals": finals_table, "penalty": penalty_table, "claims": claims_table,
    "studies": studies_table,
}  # fmt: skip
