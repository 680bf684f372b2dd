"""The built site: no warning, nothing from elsewhere, every page reachable, and a search that works from disk.

Without Chromium what needs a browser is skipped, or fails where the variable OFFDYN_NEEDS_BROWSER is 1.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ..report.browser import Browser, installed
from .pages import PAGES, ROOT

FETCHED = re.compile(
    r"""<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
)
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")
RESULTS = "document.querySelectorAll('.md-search-result__item').length"


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does. With --quiet, --strict would see no warning and let all pass."""
    command = ["mkdocs", "build", "--strict"]
    assert f"{' '.join(command)}\n" in (ROOT / "Makefile").read_text()
    no_notice = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command, "--site-dir", str(out)],
        cwd=folder, capture_output=True, text=True, check=False, env=no_notice,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("INFO ") for line in done.stderr.splitlines()), done.stderr
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    command = installed()
    if command is None:
        said = "no browser: install Debian's package chromium to test the site"
        if os.environ.get("OFFDYN_NEEDS_BROWSER") == "1":
            pytest.fail(said)
        pytest.skip(said)
    browser = Browser(command)
    yield browser
    browser.close()


def fetched_from_elsewhere(text: str) -> list[str]:
    return FETCHED.findall(text) + IN_STYLES.findall(text)


def test_no_page_and_no_style_asks_another_host_for_anything(site: Path) -> None:
    asked = {
        str(path.relative_to(site)): found
        for path in [*site.rglob("*.html"), *site.rglob("*.css")]
        if (found := fetched_from_elsewhere(path.read_text()))
    }
    assert asked == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://host/a.js"></script>',
        '<link rel="stylesheet" href="//host/a.css">',
        "@import 'https://host/a.css'",
        "p { background: url(https://host/a.png) }",
    ],
)
def test_what_would_be_fetched_is_noticed(text: str) -> None:
    assert len(fetched_from_elsewhere(text)) == 1


def test_every_fault_in_a_page_fails_the_build(tmp_path: Path) -> None:
    faults = ["[a page](nowhere.md)", "[an anchor](#nowhere)", "![a picture](nowhere.png)", "[a path](/other.md)"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n" + "\n".join(faults))
    (tmp_path / "docs" / "other.md").write_text("# A page that no entry of the navigation leads to\n")
    ours = f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
    (tmp_path / "mkdocs.yml").write_text(ours + "hooks: []\nplugins: []\nnav: [index.md]\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == len(faults) + 1


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    text = (ROOT / "mkdocs.yml").read_text()
    assert sorted(written) == sorted(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"])))


def test_no_page_has_a_gap_that_was_to_be_filled() -> None:
    gaps = [
        f"{page.name}: {gap}" for page in PAGES for gap in re.findall(r"@[A-Z]+@|\bTODO\b|\bTBD\b", page.read_text())
    ]
    assert gaps == []


def test_results_that_a_page_links_to_come_along(site: Path) -> None:
    assert "small-world.png" in (site / "methods" / "sac.html").read_text()
    assert (site / "results" / "figures" / "small-world.png").is_file()
    assert (site / "results" / "index.html").is_file()


def test_the_search_finds_a_setting_in_a_site_opened_from_disk(site: Path, browser: Browser) -> None:
    browser.open(site / "methods" / "par.html", 1280)
    typed = "query.value = 'encoder_interval'; query.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}))"
    browser.run("document.querySelector('[data-md-toggle=search]').click()")
    browser.run(f"(() => {{ const query = document.querySelector('.md-search__input'); query.focus(); {typed} }})()")
    until = time.monotonic() + 30
    while not browser.run(RESULTS):
        assert time.monotonic() < until, "nothing was found"
        time.sleep(0.05)
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:", "about:"))] == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["faq", "datasets", "api"])
def test_a_page_is_never_wider_than_the_window(page: str, width: int, site: Path, browser: Browser) -> None:
    browser.open(site / f"{page}.html", width)
    assert browser.run("document.documentElement.scrollWidth") <= width
