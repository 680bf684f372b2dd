"""What is logged now and then: of the right rows, also when the replay has begun to overwrite itself."""

import jax
import numpy as np
import pytest

from offdyn._util.types import Batch
from offdyn.algos import par
from offdyn.training.cohort import Cohort
from offdyn.training.program import DIAGNOSED_ROWS

from ...probes import HALF_FLIPPED, random_rows, short_run

CAPACITY = 400


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    settings = {"source_steps": 16_000, "eval_interval": 16_000, "log_interval": 16_000, "checkpoint_interval": 16_000}
    made = Cohort([short_run(HALF_FLIPPED, replay_size=CAPACITY, **settings)])
    made.source_rows = 1  # there is nothing to say before the first
    return made


@pytest.mark.parametrize("written", [300, 400, 401, 650, 1199])
def test_fresh_target_rows_are_the_newest_ones_also_in_a_ring_that_has_wrapped(cohort, written):
    stream = random_rows(HALF_FLIPPED, "target", bodies=written, seed=3)
    ring = np.zeros((1, CAPACITY, stream.shape[1]), np.float32)
    for number, row in enumerate(stream):
        ring[0, number % CAPACITY] = row
    cohort.learner.experience, cohort.target_rows = cohort.learner.experience._replace(target=ring), written

    state, action, _, after, _ = np.split(stream[-DIAGNOSED_ROWS:], (2, 4, 5, 7), axis=1)
    rows = Batch(state, action, None, after, None, None)
    live, hyper = cohort.learner.lanes.learned.live.value, cohort.runs[0].hyper
    encoders = type(live)(*(tuple(array[0] for array in network) for network in live))
    expected = par.deviation(encoders, rows, hyper, cohort.spec).mean()
    np.testing.assert_allclose(cohort.diagnose(None)["deviation on fresh target transitions"][0], expected, rtol=1e-4)


def test_before_the_first_evaluation_there_is_no_deviation_on_held_out_rows(cohort):
    cohort.target_rows = 300
    seen = cohort.diagnose(None)
    assert np.isnan(seen["deviation on held-out target transitions"]).all()
    assert np.isfinite(seen["deviation on fresh target transitions"]).all()


def test_on_a_cpu_the_codes_of_all_lanes_are_decomposed_one_by_one():
    # A batch of them waited for ever where lanes were on as many devices as there are cores.
    drawn = np.random.default_rng(0).normal(size=(3, 6, 6)).astype(np.float32)
    symmetric = drawn @ drawn.transpose(0, 2, 1)
    found = jax.vmap(par.eigenvalues)(symmetric)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(symmetric), rtol=1e-4, atol=1e-4)
    program = jax.jit(jax.vmap(par.eigenvalues)).lower(symmetric).as_text()
    calls = [line for line in program.splitlines() if "custom_call @lapack" in line]
    assert calls
    assert not any("3x6x6" in call for call in calls), calls
