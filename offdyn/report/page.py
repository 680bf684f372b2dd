"""The page itself: one file that needs nothing beside it and asks nothing of any network."""

import html
from collections.abc import Sequence
from importlib import resources

from .. import __version__
from . import charts
from .drawing import Figure
from .notices import Notice, count
from .overview import Overview
from .tables import Table, folded

GENERATOR = f"offdyn report {__version__}"
MARK = '<meta name="generator" content="offdyn report'
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(
    summary: str,
    seen_first: Sequence[Overview],
    notices: Sequence[Notice],
    results: Sequence[Table],
    figures: Sequence[Figure],
    no_files: str,
    costs: Sequence[Table],
    listing: str,
    stuck: str,
    folders: Sequence[str],
) -> str:
    """All sections in reading order."""
    style, script = (_own(f"page.{ending}") for ending in ("css", "js"))
    nothing = ["<p>Nothing to compare yet: no run has finished.</p>"]
    first, *more = [_overview(one, not no_files) for one in seen_first] or nothing
    drawn = "\n".join(charts.figure(figure, not no_files) for figure in figures)
    without = f'<p class="quiet">{html.escape(no_files)}</p>' if no_files else ""
    tables, other = ("\n".join(table.to_html() for table in some) for some in (results, costs))
    told = folded("What stuck means", [stuck])
    sections = [("results", "Results", told + tables or "<p>No run has a configuration that can be read.</p>")]
    sections += [
        ("figures", "Figures", drawn and without + drawn),
        ("learning", "Learning and run time", other),
        ("runs", "All runs", listing),
    ]
    links = " ".join(f'<a href="#{name}">{title}</a>' for name, title, content in sections if content)
    body = "\n".join(
        f'<section id="{n}"><h2>{title}</h2>{content}</section>' for n, title, content in sections if content
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{GENERATOR}">
<link rel="icon" href="data:,">
<title>offdyn report</title>
<style>
{style}</style></head><body>
<header><h1>offdyn report</h1><nav>{links}</nav></header>
{first}
<p class="quiet">{html.escape(summary)} {html.escape(", ".join(folders))} · offdyn {__version__}</p>
{_notices(notices)}
{"".join(more)}
{body}
<script>
{script}</script>
</body></html>
"""


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text()


def _overview(one: Overview, with_files: bool) -> str:
    """Who leads, in a sentence and as a picture whose bars are its legend."""
    drawn = charts.figure(one.figure, with_files)
    return f'<div class="overview"><p class="verdict">{html.escape(one.sentence)}</p>{drawn}</div>'


def _notices(notices: Sequence[Notice]) -> str:
    if not notices:
        return "<p>Nothing is missing: every run is finished, seeds and versions are the same throughout.</p>"
    lines = []
    for notice in notices:
        details = "".join(f"<li>{html.escape(line)}</li>" for line in notice.details)
        lines.append(f"<li><details><summary>{html.escape(notice.what)}</summary><ul>{details}</ul></details></li>")
    said = f"Before you believe it: {count(len(notices), 'note')}"
    return f'<details id="notices"><summary>{said}</summary><ul class="notices">{"".join(lines)}</ul></details>'
