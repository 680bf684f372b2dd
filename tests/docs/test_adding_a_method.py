"""The method that docs/api.md adds, with the code that stands there."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offdyn.algos.registry import METHODS, RECIPES

from .pages import python_blocks

METHOD, TRIAL, TEST = python_blocks("docs/api.md")[-3:]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, shared_programs: None) -> Iterator[dict[str, Any]]:
    """The names of the page's script, run in a folder where the method's file lies."""
    folder = tmp_path_factory.mktemp("adding")
    (folder / "par_capped.py").write_text(METHOD)
    known = [(registry, dict(registry)) for registry in (METHODS, RECIPES)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        names: dict[str, Any] = {"__name__": "script"}
        exec(TRIAL, names)
        yield names
    sys.modules.pop("par_capped", None)
    for registry, before in known:
        registry.clear()
        registry.update(before)


def test_the_method_trains_both_caps_in_one_program(script: dict[str, Any]) -> None:
    capped, unbounded = script["runs"]
    assert capped.state == unbounded.state == "finished"
    assert len(list(Path(capped.path.parent, "cohorts").iterdir())) == 1
    assert capped.curve()[-1]["reward_penalty"] <= 0.2
    assert capped.curve()[-1]["share_at_the_cap"] > 0
    assert unbounded.curve()[-1]["share_at_the_cap"] == 0


def test_its_metrics_are_logged_by_name(script: dict[str, Any]) -> None:
    for run in script["runs"]:
        logged = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        assert any("share at the cap" in line for line in logged)


def test_the_pages_own_test_fails_when_the_method_is_broken_as_the_page_says(script: dict[str, Any]) -> None:
    exec(TEST, script)
    script["test_no_transition_loses_more_than_the_cap"]()
    broken: dict[str, Any] = {"__name__": "par_capped"}
    exec(METHOD.replace("jnp.minimum", "jnp.maximum"), broken)
    script["PAR_CAPPED"] = broken["PAR_CAPPED"]
    with pytest.raises(AssertionError):
        script["test_no_transition_loses_more_than_the_cap"]()
