"""A run in its source alone can have the target's body for it: what can be learned where there is no gap."""

import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs.tasks import resolve, source_of
from offdyn.training.cohort import Cohort
from offdyn.training.config import build

TASK = "hopper-big-head"
SMALL = {"actor_widths": (4,), "critic_widths": (4,), "source_steps": 200, "learning_starts": 20}


@pytest.mark.parametrize("body", ["stock", "shifted"])
def test_the_source_bodies_are_those_asked_for(body):
    run, _ = build(TASK, "sac-src", "paper", 0, SMALL | {"source_dynamics": body})
    bodies = Cohort([run], threads=1).domain.tasks
    target = resolve(TASK)
    assert set(bodies) == {target if body == "shifted" else source_of(target)}


@pytest.mark.parametrize(("method", "body"), [("par", "shifted"), ("sac-tar", "shifted"), ("sac-src", "longer")])
def test_elsewhere_it_is_refused(method, body):
    with pytest.raises(OffdynError, match="setting source_dynamics: expected stock"):
        build(TASK, method, "paper", 0, {"source_dynamics": body})
