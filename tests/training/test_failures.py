"""What a lane that failed would have done or stored becomes zero, from then on; no other lane's does."""

import numpy as np

from offdyn._util.types import Spec
from offdyn.training.cohort import Failures

SPEC = Spec(2, 1, 2, 10, lambda seen: seen[..., 0] > 1)
LANE_OF = np.array([0, 0, 1, 1])


def test_a_lane_with_one_bad_action_does_nothing_any_more():
    failures = Failures()
    actions = np.array([[0.5], [0.6], [np.nan], [0.8]])
    np.testing.assert_array_equal(failures.guard_actions(actions, LANE_OF, 30), [[0.5], [0.6], [0.0], [0.0]])
    assert failures == {1: ("action", 30)}
    later = failures.guard_actions(np.ones((4, 1)), LANE_OF, 40)
    np.testing.assert_array_equal(later, [[1.0], [1.0], [0.0], [0.0]])
    assert failures == {1: ("action", 30)}  # the first failure is the one that is told
    np.testing.assert_array_equal(failures.alive(3), [True, False, True])


def test_the_column_says_whether_it_was_the_reward():
    reward = 3  # after two observations and an action
    for column, quantity in ((0, "observation"), (2, "observation"), (reward, "reward"), (5, "observation")):
        rows, failures = np.ones((4, 7), np.float32), Failures()
        rows[1, column] = np.inf
        guarded = failures.guard_rows(rows, LANE_OF, SPEC, 7)
        assert failures == {0: (quantity, 7)}
        np.testing.assert_array_equal(guarded, np.repeat([[0.0], [1.0]], 2, axis=0) * np.ones(7))
