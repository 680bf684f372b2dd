"""Whatever it trains, a cohort that was stopped and resumed ends with the same bytes as one that never stopped."""

from pathlib import Path

import pytest

from offdyn.algos.method import Method
from offdyn.algos.registry import METHODS

from .resuming import check
from .small import run

CORRECTING = sorted(name for name, method in METHODS.items() if method.correct is not Method("", "").correct)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_resumed_cohort_equals_one_that_never_stopped(method: str, tmp_path: Path) -> None:
    last = check([run(method, seed=0), run(method, seed=1)], tmp_path, 135, 270)
    if method in CORRECTING:
        weight = float(last.get("mean_weight_of_source_transitions", 1.0))
        assert abs(float(last["reward_penalty"])) > 0.01 or weight < 0.99


def test_methods_that_correct_are_found() -> None:
    assert "par" in CORRECTING
    assert "sac" not in CORRECTING
