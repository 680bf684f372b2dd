"""The list of all runs: how each is, how it was set, what it ran on, and its curve in small."""

import base64
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.files import content as content_of
from .cells import return_digits
from .notices import PACKAGES
from .runs import STATES, Run
from .tables import DASH, files, head_of, shown

HEAD = (
    "run", "state", "task", "source", "method", "preset", "seed", "final return", "target steps", "curve", "versions",
    "device",
)  # fmt: skip
WIDTH, HEIGHT = 96, 26  # of a curve, in pixels
LARGEST_POSTER = 1_000_000  # bytes; ours have some ten thousand


def listing(runs: Sequence[Run]) -> str:
    """A table that can be sorted and filtered."""
    states = [state for state in STATES if any(run.state == state for run in runs)]
    options = "".join(f'<option value="{state}">{state}</option>' for state in states)
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    body = "\n".join(map(_line, runs))
    return (
        '<div class="tools" hidden><label>Words <input id="words" type="search" placeholder="par hopper 0.5"></label>'
        f'<label>State <select id="state"><option value="">any</option>{options}</select></label>'
        '<output id="shown"></output></div>\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="All runs"><table class="sortable">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
        f'<p class="files">{files("tables/runs", "csv")}</p>'
    )


def _line(run: Run) -> str:
    final = run.final_return
    why = f"<small>{html.escape('; '.join(filter(None, [run.failure, *run.complaints])))}</small>"
    versions = ", ".join(f"{package} {run.version(package)}" for package in PACKAGES if run.version(package))
    seed = str(run.seed) if run.method else DASH
    texts = [run.task, _source(run), run.method, run.preset, seed]
    contents = [
        f'<span class="state {run.state.split()[-1]}">{html.escape(run.state)}</span>{why}',
        *(html.escape(text or DASH) for text in texts),
        shown(final, 0 if final is None else return_digits(run.task, [final])),
        str(run.target_steps),
        sparkline(run),
        *(html.escape(text or DASH) for text in (versions, run.device)),
    ]
    sort = {"final return": f' data-sort="{"" if final is None else final}"'}
    cells = "".join(
        f"<td{head_of(head)}{sort.get(head, '')}>{content}</td>"
        for head, content in zip(HEAD[1:], contents, strict=True)
    )
    name = f'<td class="word">{html.escape(run.path.name)}{_poster(run)}{_settings(run)}</td>'
    return f'<tr data-state="{html.escape(run.state)}">{name}{cells}</tr>'


def _source(run: Run) -> str:
    return run.source if run.method else ""


def _poster(run: Run) -> str:
    """The frame that `offdyn video` left, where it did."""
    try:
        image = content_of(run.path / "poster.png")
    except OSError:
        return ""
    if not image.startswith(b"\x89PNG") or len(image) > LARGEST_POSTER:
        return ""
    said = html.escape(f"A frame of a video of {run.path.name}: source and target side by side")
    return f'<img class="poster" alt="{said}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'


def _settings(run: Run) -> str:
    """The whole configuration, folded."""
    if not run.method:
        return ""
    lines = [
        f"<b>{html.escape(f'{name}: {_plain(value)}')}</b>"
        if name in run.chosen
        else html.escape(f"{name}: {_plain(value)}")
        for name, value in run.settings.items()
    ]
    where = html.escape(run.shown_as)
    listed = "\n".join(lines)
    return f"<details><summary>settings</summary><pre>{where}\nBold: given by hand.\n{listed}</pre></details>"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)


def sparkline(run: Run) -> str:
    """Target return over evaluations, each on its own scale."""
    returns = run.column("target_return_mean")
    returns = returns[np.isfinite(returns)]
    if len(returns) < 2:
        return DASH
    low, high = float(returns.min()), float(returns.max())
    x = np.linspace(1, WIDTH - 1, len(returns))
    y = HEIGHT - 2 - (HEIGHT - 4) * (returns - low) / ((high - low) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    digits = return_digits(run.task, [low, high])
    said = f"{len(returns)} evaluations, target return from {low:.{digits}f} to {high:.{digits}f}"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{said}"><title>{said}</title>'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.2"/></svg>'
    )


def record(run: Run) -> dict[str, Any]:
    """A line of runs.csv."""
    about = {
        "folder": run.shown_as,
        "state": run.state,
        "reason": "; ".join([run.failure, *run.complaints]).strip("; "),
    }
    if run.method:
        about |= {
            "task": run.task,
            "source": run.source,
            "method": run.method,
            "preset": run.preset,
            "seed": str(run.seed),
        }
    numbers = {"final return": run.final_return, "last evaluation": run.last_return, "target steps": run.target_steps}
    versions = {package: run.version(package) for package in PACKAGES}
    given = " ".join(f"{name}={_plain(run.settings[name])}" for name in run.chosen if name in run.settings)
    return about | numbers | versions | {"device": run.device, "given by hand": given}
