"""Bodies in processes of their own do what they do in one."""

import numpy as np
import pytest

from offdyn._util.child import LEFT_TO_THE_PARENT
from offdyn._util.errors import OffdynError
from offdyn.envs import pairs
from offdyn.envs.domain import Domain
from offdyn.envs.processes import BodyProcesses
from offdyn.envs.tasks import resolve

SEVERAL = ["hopper-big-head", "ant-short-feet", "hopper-broken-joints", "hopper-big-head", "halfcheetah-no-thighs"]
ONE = ["hopper-big-head", "hopper-broken-joints", "hopper-big-head"]


def described(names: list[str]) -> tuple[list[tuple[object, str]], list[tuple[int, ...]]]:
    bodies = [(resolve(name), ("source", "target")[number % 2]) for number, name in enumerate(names)]
    return bodies, [(number, 7) for number in range(len(names))]


@pytest.fixture(params=[(SEVERAL, True, 2), (SEVERAL, True, 9), (ONE, False, 2)], ids=["padded", "many", "one robot"])
def both(request):
    """The same bodies in one process and in several."""
    names, padded, processes = request.param
    alone = pairs.open_bodies(*described(names), threads=1, padded=padded)
    apart = BodyProcesses(*described(names), processes, padded)
    yield alone, apart
    alone.close()
    apart.close()
    assert all(child.process.returncode is not None for child in apart._children)


def agree(alone: Domain, apart: Domain, seed: int, steps: int = 40) -> None:
    rng, count = np.random.default_rng(seed), len(alone.observation)
    for _ in range(steps):
        np.testing.assert_array_equal(apart.observation, alone.observation)
        ids = np.sort(rng.choice(count, rng.integers(1, count + 1), replace=False))
        actions = rng.uniform(-1.3, 1.3, (len(ids), alone.spec.action_size))
        for mine, its in zip(apart.step(ids, actions), alone.step(ids, actions), strict=True):
            np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(apart.divergences, alone.divergences)


def test_rows_observations_and_starts_are_the_same(both):
    alone, apart = both
    assert apart.spec.observation_size == alone.spec.observation_size
    agree(alone, apart, seed=0)
    for domain in both:
        domain.reset(np.array([2, 0]), np.array([998, 990]))  # time limits near
    agree(alone, apart, seed=1, steps=20)


def test_what_is_saved_is_the_same_and_goes_on_in_any_number_of_processes(both):
    alone, apart = both
    agree(alone, apart, seed=2, steps=5)
    saved, theirs = alone.save(), apart.save()
    assert saved.keys() == theirs.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(theirs[name], array)
    agree(alone, apart, seed=3, steps=5)
    alone.load(theirs)
    apart.load(saved)
    agree(alone, apart, seed=4, steps=5)


def test_a_signal_to_all_processes_of_a_job_ends_none_that_steps_bodies():
    apart = BodyProcesses(*described(ONE), 2)
    for child in apart._children:
        for number in LEFT_TO_THE_PARENT:
            child.process.send_signal(number)
    assert np.isfinite(apart.step(np.arange(3), np.zeros((3, 3))).reward).all()
    for child in apart._children:  # without a training they end by themselves
        child.process.stdin.close()
        assert child.process.wait(10) == 0
    apart.close()


def test_what_a_process_refuses_is_refused_here_and_its_end_is_told():
    apart = BodyProcesses(*described(ONE), 2)
    actions = np.zeros((3, 3))
    only_the_last = np.where(np.arange(3)[:, None] == 2, np.nan, actions)
    # Its number is the one it has in its process; its seeds are its own.
    with pytest.raises(OffdynError, match=r"body 1, seeds \(2, 7\), .*is not finite"):
        apart.step(np.arange(3), only_the_last)
    apart.step(np.arange(3), actions)  # and the next step is as ever
    apart._children[1].process.kill()
    apart._children[1].process.wait()
    with pytest.raises(OffdynError, match="a process that steps bodies ended with exit code -9"):
        apart.step(np.arange(3), actions)
    apart.close()
