"""The page in a real browser: no complaint, no request beyond itself, tables that sort and filter, nothing too wide.

Needs Debian's package chromium (or another Chromium or Chrome); without one the tests are skipped, or, where the
environment variable OFFDYN_NEEDS_BROWSER is 1, fail.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from offdyn.report.write import write

from .browser import Browser, installed
from .made_up import make_run, make_seeds
from .test_stuck import custom

LINES = "[...document.querySelectorAll('#runs tbody tr')]"
SHOWN = f"{LINES}.filter(row => !row.hidden)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs, out = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("report")
    make_seeds(runs, [100.0, 1000.0, 9.0], "hopper-big-head", "par")
    make_run(runs, seed=3, points=2, state="failed", provenance={"failure": {"quantity": "critic", "step": 7}})
    make_run(runs, method="sac-tar", points=3)
    make_seeds(runs, [4000.0, 4200.0, 4400.0], "halfcheetah-no-thighs", "par", source_data="halfcheetah-medium")
    write([runs], out)
    return out / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    command = installed()
    if command is None:
        said = "no browser: install Debian's package chromium to test the page"
        if os.environ.get("OFFDYN_NEEDS_BROWSER") == "1":
            pytest.fail(said)
        pytest.skip(said)
    tab = Browser(command)
    yield tab
    tab.close()


@pytest.fixture
def tab(browser: Browser, report: Path) -> Browser:
    """The page, freshly opened at desktop width."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(report, 1280)
    return browser


def column(tab: Browser, head: str) -> list[str]:
    """The cells shown in a column of the list of runs."""
    heads = tab.run("[...document.querySelectorAll('#runs th')].map(head => head.textContent)")
    return tab.run(f"{SHOWN}.map(row => row.cells[{heads.index(head)}].firstChild.textContent.trim())")


def click(tab: Browser, head: str) -> None:
    tab.run(f"[...document.querySelectorAll('#runs th button')].find(b => b.textContent === '{head}').click()")


def choose(tab: Browser, element: str, value: str) -> None:
    tab.run(
        f"(() => {{ const it = document.getElementById('{element}'); it.value = '{value}';"
        "it.dispatchEvent(new Event('input')); it.dispatchEvent(new Event('change')) })()"
    )


def test_the_page_complains_of_nothing_and_asks_for_nothing_but_itself(tab: Browser, report: Path) -> None:
    click(tab, "final return")
    choose(tab, "words", "par")
    assert tab.complaints == []
    assert [address for address in tab.requests if not address.startswith("data:")] == [report.resolve().as_uri()]


def test_the_browser_hears_complaints_and_requests(tab: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<img src='missing.png'><script>console.error('oh'); nowhere()</script>")
    tab.open(tmp_path / "bad.html", 1280)
    tab.run("1")
    assert any("oh" in complaint for complaint in tab.complaints)
    assert any("nowhere" in complaint for complaint in tab.complaints)
    assert any(address.endswith("missing.png") for address in tab.requests)


def test_every_picture_is_drawn(tab: Browser) -> None:
    widths = tab.run(
        "[...document.querySelectorAll('.chart > svg, .bar .mean')].map(it => it.getBoundingClientRect().width)"
    )
    assert len(widths) >= 8
    assert all(widths)


def test_a_click_on_a_name_hides_its_lines_and_another_shows_them(tab: Browser) -> None:
    curves = "[...document.querySelectorAll('#online-overview g.series')].map(it => getComputedStyle(it).display)"
    name = "document.querySelector('#online-overview .key')"
    before = tab.run(curves)
    tab.run(f"{name}.click()")
    assert tab.run(curves).count("none") == before.count("none") + 1
    assert tab.run(f"{name}.getAttribute('aria-pressed')") == "false"
    tab.run(f"{name}.click()")
    assert tab.run(curves) == before


def test_the_pointer_reads_the_values_of_a_chart(tab: Browser) -> None:
    chart = "document.querySelector('#online-curves .chart')"
    tab.run(
        f"(() => {{ const box = {chart}.getBoundingClientRect();"
        f"{chart}.dispatchEvent(new PointerEvent('pointermove', {{ clientX: box.right, clientY: box.top }})) }})()"
    )
    said = tab.run(f"{chart}.querySelector('.tip').textContent")
    assert "400 steps in the target" in said
    assert "par370" in said  # the mean of 100, 1000 and 9
    tab.run(f"{chart}.dispatchEvent(new PointerEvent('pointerleave'))")
    assert tab.run(f"{chart}.querySelector('.tip').hidden")


def test_runs_are_sorted_by_number_and_those_without_one_stay_last(tab: Browser) -> None:
    click(tab, "final return")
    assert column(tab, "final return") == ["9", "100", "1000", "4000", "4200", "4400", "–", "–"]
    click(tab, "final return")
    assert column(tab, "final return") == ["4400", "4200", "4000", "1000", "100", "9", "–", "–"]
    assert tab.run("document.querySelectorAll('#runs th[aria-sort]').length") == 1


def test_runs_are_sorted_by_words(tab: Browser) -> None:
    click(tab, "method")
    assert column(tab, "method") == ["par"] * 7 + ["sac-tar"]
    click(tab, "method")
    assert column(tab, "method") == ["sac-tar"] + ["par"] * 7


def test_runs_are_filtered_by_words_and_by_state(tab: Browser) -> None:
    choose(tab, "words", "PAR no-thighs")
    assert column(tab, "task") == ["halfcheetah-no-thighs"] * 3
    choose(tab, "words", "")
    choose(tab, "state", "failed")
    assert column(tab, "state") == ["failed"]
    assert tab.run("document.getElementById('shown').textContent") == "1 of 8 runs"
    choose(tab, "words", "no-thighs")
    assert tab.run("document.getElementById('shown').textContent") == "0 of 8 runs"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window_and_no_table_than_the_page(
    browser: Browser, report: Path, width: int
) -> None:
    browser.open(report, width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    beyond = browser.run("[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth)")
    assert len(beyond) >= 6
    assert max(beyond) <= 1
    sizes = browser.run("[...document.querySelectorAll('p, td')].map(it => parseFloat(getComputedStyle(it).fontSize))")
    assert min(sizes) >= 11


def test_no_word_of_the_list_of_runs_is_cut_but_the_names_of_runs(browser: Browser, tmp_path: Path) -> None:
    named = {"preset": "reported", "batch_size": 32, "learning_starts": 50}
    make_seeds(tmp_path / "runs", [1.0, 2.0, 3.0], custom("one-to-other"), "par", **named)
    write([tmp_path / "runs"], tmp_path / "out")
    browser.open(tmp_path / "out" / "index.html", 1280)
    lines = "document.createRange(); r.selectNodeContents(it); return r.getClientRects().length"
    for head in ("state", "preset", "method", "final return"):
        found = browser.run(f"""[...document.querySelectorAll('#runs td[data-head="{head}"]')]
            .map(it => it.querySelector('.state') ?? it).map(it => {{ const r = {lines} }})""")
        assert set(found) == {1}, head


def test_four_panels_are_two_by_two(browser: Browser, tmp_path: Path) -> None:
    for task in ("hopper-big-head", "halfcheetah-no-thighs", "walker-no-right-thigh", "ant-short-feet"):
        make_seeds(tmp_path / "runs", [1000.0, 1200.0, 1400.0], task)
    write([tmp_path / "runs"], tmp_path / "out")
    browser.open(tmp_path / "out" / "index.html", 1400)
    of_four = "[...document.querySelectorAll('.panels')].filter(it => it.children.length === 4)"
    columns = browser.run(f"{of_four}.map(it => getComputedStyle(it).gridTemplateColumns.split(' ').length)")
    assert len(columns) >= 2
    assert set(columns) == {2}


def test_a_table_without_room_for_its_columns_names_them_at_every_value(browser: Browser, report: Path) -> None:
    browser.open(report, 390)
    value = "document.querySelector('#runs .stacked td[data-head=\"final return\"]')"
    assert browser.run(f"getComputedStyle({value}, '::before').content") == '"final return"'
    browser.open(report, 1280)
    assert browser.run("document.querySelectorAll('#runs .stacked').length") == 0


def test_it_can_be_printed(tab: Browser, tmp_path: Path) -> None:
    tab.print_to(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    unfolded = tab.run("[...document.querySelectorAll('#notices details')].map(it => it.open)")
    assert unfolded
    assert all(unfolded)
    tab.ask("Emulation.setEmulatedMedia", media="print")
    assert tab.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    tab.ask("Emulation.setEmulatedMedia", media="")
