"""What PAR's penalty comes to where the dynamics are known.

Two lanes with one seed and the same target rows, in which actions push backwards on half of the plane. The source rows
of one come from that very domain, those of the other from the plane without the flip.
"""

import jax
import numpy as np
import pytest

from offdyn._util.types import Batch
from offdyn.data.replay import unpack

from ...probes import HALF_FLIPPED, learn, programs_of, random_rows, short_run
from ..core.in_numpy import flat
from ..core.twin import Formulas

SAME, SHIFTED = 0, 1
UPDATES = 1500


@pytest.fixture(scope="module")
def course(trains):
    size = {"encoder_widths": (64,), "code_size": 16, "encoder_learning_rate": 3e-3, "encoder_batch": 64}
    runs = [short_run(HALF_FLIPPED, "par", penalty=1.0, **size)] * 2
    target = np.stack([random_rows(HALF_FLIPPED, "target", 600, seed=1)] * 2)
    source = np.stack([random_rows(HALF_FLIPPED, role, 600, seed=2) for role in ("target", "source")])
    programs, lanes = programs_of(runs, updates=300)
    first = flat(leaf[0] for leaf in jax.tree.leaves(lanes.learned.live.value))
    device_source = jax.numpy.asarray(source)
    lanes = programs.clear(learn(programs, lanes, runs, device_source, target, calls=UPDATES // 300 - 1))
    lanes = learn(programs, lanes, runs, device_source, target, calls=1)
    return {
        "first": first,
        "last": [flat(leaf[lane] for leaf in jax.tree.leaves(lanes.learned.live.value)) for lane in (0, 1)],
        "lanes": lanes,
        "stored": (source, np.asarray(device_source)),
        "noted": dict(zip(programs.metrics, np.asarray(lanes.sums, float).T / 300, strict=True)),
        "maths": Formulas(HALF_FLIPPED.spec, runs[0].sac, runs[0].hyper, "par"),
    }


def deviations(course: dict, role: str, encoders: np.ndarray, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Of rows that no lane trained on: where the flip applies, and where not."""
    rows = Batch(*map(np.asarray, unpack(random_rows(HALF_FLIPPED, role, 1000, seed), HALF_FLIPPED.spec)))
    off, flipped = course["maths"].deviation(encoders, rows), rows.observation[:, 0] > 0
    return off[flipped], off[~flipped]


def test_the_penalty_falls_to_the_targets_own_prediction_error_where_the_domains_are_the_same(course):
    own = np.concatenate(deviations(course, "target", course["last"][SAME])).mean()
    noted = course["noted"]["reward penalty"][SAME]
    assert noted < 0.1 * np.concatenate(deviations(course, "target", course["first"])).mean()
    assert 0.5 * own < noted < 1.5 * own


def test_the_penalty_stays_above_it_where_half_of_the_state_space_is_flipped(course):
    own = np.concatenate(deviations(course, "target", course["last"][SHIFTED])).mean()
    assert course["noted"]["reward penalty"][SHIFTED] > 5 * own
    flipped, alike = deviations(course, "source", course["last"][SHIFTED])
    assert alike.mean() < 2 * own
    assert flipped.mean() > 10 * own


def test_encoders_never_see_a_source_row(course):
    for leaf in jax.tree.leaves(course["lanes"].learned):
        assert np.array_equal(leaf[SAME], leaf[SHIFTED])  # bit for bit
    critic = course["lanes"].agent.critic.value[0]
    assert not np.array_equal(critic[SAME], critic[SHIFTED])  # which do see the two lanes' rewards


def test_the_penalty_is_not_stored_in_the_replay(course):
    before, after = course["stored"]
    assert np.array_equal(before, after)
    assert course["noted"]["reward penalty"].min() > 0
