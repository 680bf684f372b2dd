"""The page itself: one file that needs nothing beside it and asks nothing of any network."""

import base64
import html
from collections.abc import Sequence
from importlib import resources

from .. import __version__
from .drawing import Figure, Style
from .notices import Notice
from .tables import Table, files

GENERATOR = f"offdyn report {__version__}"
MARK = '<meta name="generator" content="offdyn report'
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(
    summary: str,
    notices: Sequence[Notice],
    results: Sequence[Table],
    figures: Sequence[tuple[Figure, Sequence[tuple[str, bytes]]]],
    no_figures: str,
    costs: Sequence[Table],
    listing: str,
    stuck: str,
    folders: Sequence[str],
) -> str:
    """All sections in reading order."""
    style, script = (_own(f"page.{ending}") for ending in ("css", "js"))
    drawn = "\n".join(_figure(figure, panels) for figure, panels in figures) or f"<p>{html.escape(no_figures)}</p>"
    notes = (
        f'<details id="stuck"><summary>What stuck means</summary><p>{html.escape(stuck)}</p></details>' if stuck else ""
    )
    tables, other = ("\n".join(table.to_html() for table in some) for some in (results, costs))
    sections = [("results", "Results", notes + tables or "<p>No run has a configuration that can be read.</p>")]
    sections += [
        ("figures", "Figures", drawn),
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
<h1>offdyn report</h1>
<p class="summary">{html.escape(summary)}</p>
<p class="quiet">{html.escape(", ".join(folders))} · offdyn {__version__}</p>
<nav>{links}</nav>
{_notices(notices)}
{body}
<script>
{script}</script>
</body></html>
"""


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text()


def _notices(notices: Sequence[Notice]) -> str:
    if not notices:
        return "<p>Nothing is missing: every run is finished, seeds and versions are the same throughout.</p>"
    lines = []
    for notice in notices:
        details = "".join(f"<li>{html.escape(line)}</li>" for line in notice.details)
        lines.append(f"<li><details><summary>{html.escape(notice.what)}</summary><ul>{details}</ul></details></li>")
    listed = "".join(lines)
    return f'<section id="notices"><h2>Before you believe it</h2><ul class="notices">{listed}</ul></section>'


def _figure(figure: Figure, panels: Sequence[tuple[str, bytes]]) -> str:
    shown = "\n".join(
        f"<figure><figcaption><h4>{html.escape(title)}</h4></figcaption>"
        f'<img alt="{html.escape(f"{figure.title}: {title}")}" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"></figure>'
        for title, svg in panels
    )
    legend = "".join(map(_key, figure.legend))
    return (
        f'<section id="{html.escape(figure.name)}"><h3>{html.escape(figure.title)}</h3>'
        f'<p>{html.escape(figure.caption)}</p><ul class="legend">{legend}</ul><div class="panels">{shown}</div>'
        f'<p class="files">{files(f"figures/{html.escape(figure.name)}", "png", "pdf")}</p></section>'
    )


def _key(style: Style) -> str:
    dashes = f' stroke-dasharray="{" ".join(f"{2 * length:g}" for length in style.dashes)}"' if style.dashes else ""
    line = f'<line x1="0" y1="5" x2="36" y2="5" stroke="{style.colour}" stroke-width="3"{dashes}/>'
    return f'<li><svg width="36" height="10" aria-hidden="true">{line}</svg>{html.escape(style.label)}</li>'
