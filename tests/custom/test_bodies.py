"""Custom environments: spaces, bounds, limits, ends, and what happens when one of them gives up."""

import functools
import importlib
import multiprocessing
import signal
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
import pytest

from offdyn import OffdynError
from offdyn.envs import custom, custom_batch, pairs
from offdyn.envs.custom import EnvironmentFailed
from offdyn.envs.custom_batch import OwnBodies
from offdyn.envs.effects import Effects

HERE = "tests.custom.environments"
environments: Any = importlib.import_module(HERE)


def named(name: str) -> str:
    return f"{HERE}:{name}"


def pair(source: str = "source", target: str = "target", **options: Any) -> custom.OwnPair:
    return custom.pair_of(named(source), named(target), **options)


def bodies(of: custom.OwnPair, sources: int = 2, targets: int = 1, processes: str = "off") -> OwnBodies:
    roles = ["source"] * sources + ["target"] * targets
    return OwnBodies(of, roles, [(3, number) for number in range(len(roles))], processes)


def by_hand(env: gymnasium.Env, seeds: tuple[int, ...], actions: np.ndarray, middle: float = 1.0, half: float = 4.0):
    """The rows of one environment in the plainest loop there is."""
    episode, rows = 0, []

    def start() -> np.ndarray:
        return env.reset(seed=int(np.random.default_rng([*seeds, episode]).integers(2**31)))[0]

    seen = start()
    for action in actions:
        after, reward, terminated, truncated, _ = env.step((middle + half * action).astype(np.float32))
        rows.append((seen, action, reward, after, terminated, truncated and not terminated))
        seen = after
        if terminated or truncated:
            episode += 1
            seen = start()
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("processes", ["off", "on"])
def test_rows_are_those_of_a_plain_loop_and_none_leads_into_the_next_episode(processes):
    domain = bodies(pair(), processes=processes)
    ids, actions = np.arange(3), np.random.default_rng(0).uniform(-1, 1, (60, 3, 1))
    seen, played = [], []
    for action in actions:
        seen.append(domain.observation.copy())
        played.append(domain.step(ids, action))
    domain.close()
    assert sum(rows.terminated.sum() for rows in played) > 2
    assert sum(rows.truncated.sum() for rows in played) > 2
    for body, make in enumerate((environments.source, environments.source, environments.target)):
        expected = by_hand(make(), (3, body), actions[:, body])
        for name, column in zip(played[0]._fields[:6], expected, strict=True):
            found = np.array([getattr(rows, name)[body] for rows in played])
            np.testing.assert_allclose(found, column, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal([one[body] for one in seen], [rows.observation[body] for rows in played])


def test_some_bodies_can_act_while_the_others_stay_as_they_are():
    domain = bodies(pair())
    before = domain.observation.copy()
    rows = domain.step(np.array([1]), np.ones((1, 1)))
    assert rows.next_observation.shape == (1, 2)
    np.testing.assert_array_equal(domain.observation[[0, 2]], before[[0, 2]])
    assert (domain.observation[1] != before[1]).any()
    assert [len(env.unwrapped.acted) for env in domain._together.env.envs] == [0, 1]


def test_a_dictionary_is_flattened_in_the_order_the_pair_tells():
    domain = bodies(found := pair("parts_source", "parts_target"))
    assert found.observation == (("a", 2), ("b", 1))
    seen = domain.observation
    assert seen.shape == (3, 3)
    np.testing.assert_allclose(seen[:, 0], seen[:, 2], atol=1e-6)  # b repeats the first entry of a


def test_actions_reach_the_environments_own_bounds():
    found = pair()
    assert (found.action_low, found.action_high) == ((-3.0,), (5.0,))
    low, high = pairs.action_bounds(found)
    assert (low[0], high[0]) == (-3.0, 5.0)
    domain = bodies(found, sources=0)
    for action in (-1.0, 0.0, 1.0, 7.0):
        domain.seen_by(np.array([0]))
        domain.step(np.array([0]), np.array([[action]]))
    assert domain._alone[0].unwrapped.acted == pytest.approx([-3.0, 1.0, 5.0, 5.0])


def test_a_time_limit_of_the_users_is_a_cut_and_not_an_end():
    domain = bodies(pair("limitless", "limitless", time_limit=4))
    ended = [domain.step(np.arange(3), np.zeros((3, 1))) for _ in range(8)]
    assert [rows.truncated.tolist() for rows in ended] == [[n % 4 == 3] * 3 for n in range(8)]
    assert not any(rows.terminated.any() for rows in ended)


def test_an_end_at_the_time_limit_is_an_end(monkeypatch):
    monkeypatch.setattr(environments, "limitless", lambda: environments.Point(edge=-9.0))
    domain = bodies(pair("limitless", "limitless", time_limit=1))
    rows = domain.step(np.arange(3), np.zeros((3, 1)))
    assert rows.terminated.all()
    assert not rows.truncated.any()


def test_first_episodes_can_be_staggered():
    domain = bodies(pair("limitless", "limitless", time_limit=6), sources=2, targets=0)
    domain.reset(np.arange(2), np.array([0, 3]))
    cuts = [domain.step(np.arange(2), np.zeros((2, 1))).truncated.tolist() for _ in range(9)]
    assert [n for n, cut in enumerate(cuts) if cut[0]] == [5]
    assert [n for n, cut in enumerate(cuts) if cut[1]] == [2, 8]


def test_a_registered_id_brings_its_own_limit():
    found = custom.pair_of("Pendulum-v1", "Pendulum-v1")
    assert (found.time_limit, found.action_low, found.spec.observation_size) == (200, (-2.0,), 3)


def test_nobody_has_to_reset_the_target_before_it_is_looked_at(monkeypatch):
    resets = []
    reset = environments.Point.reset
    monkeypatch.setattr(environments.Point, "reset", lambda self, **how: resets.append(1) or reset(self, **how))
    domain = bodies(pair(), sources=0)
    assert not resets
    for _ in range(17):
        domain.seen_by(np.arange(1))
        rows = domain.step(np.arange(1), np.zeros((1, 1)))
    assert rows.truncated[0]
    assert len(resets) == 1
    assert domain.observation is not None
    assert len(resets) == 2


def test_what_was_done_before_another_body_failed_is_given_out_later_and_not_done_again(monkeypatch):
    monkeypatch.setattr(environments.Failing, "broken_at", 1)
    monkeypatch.setattr(environments.Failing, "steps", 0)
    told: list[Any] = []
    domain = bodies(pair(target="failing"), sources=1, targets=2)
    domain.heard = lambda number, row: told.append((number, row.reward))
    with pytest.raises(EnvironmentFailed, match=r"target tests.custom.environments:failing, step 1 .*motor 3 stalled"):
        domain.step(np.arange(3), np.full((3, 1), 0.1))
    again = bodies(pair(target="failing"), sources=1, targets=2)
    again.load(domain.save())
    rows = again.step(np.arange(3), np.full((3, 1), 0.1))
    assert told == [(0, rows.reward[1])]
    assert environments.Failing.steps == 2
    assert rows.truncated.tolist() == [False, True, False]  # its episode could not be saved
    assert again.interrupted.tolist() == [False, True, False]
    # The next episodes are others than those that were lost.
    assert (again.observation[1] != domain._seen[1]).any()


@pytest.mark.parametrize(("how", "words"), [("nan", "not finite"), ("shape", "7 numbers, its space has 2")])
def test_rubbish_from_a_target_is_a_failure_in_words(monkeypatch, how, words):
    monkeypatch.setattr(environments.Failing, "broken_at", 0)
    monkeypatch.setattr(environments.Failing, "steps", 0)
    monkeypatch.setattr(environments.Failing, "how", how)
    with pytest.raises(EnvironmentFailed, match=words):
        bodies(pair(target="failing"), sources=0).step(np.arange(1), np.zeros((1, 1)))


def test_a_reset_that_takes_long_is_announced(monkeypatch):
    monkeypatch.setattr("offdyn.envs.custom_batch.PATIENCE", 0.01)
    reset = environments.Point.reset

    def slow(self: Any, **how: Any) -> Any:
        heard.wait(10.0)
        return reset(self, **how)

    import threading

    heard, said = threading.Event(), []
    monkeypatch.setattr(environments.Point, "reset", slow)
    domain = bodies(pair(), sources=0)
    domain.say = lambda text: (said.append(text), heard.set())
    assert domain.observation is not None
    assert said == [f"waiting for the target {named('target')} to be reset ..."]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("source", "discrete", r"target .*discrete: its action space is Discrete"),
        ("source", "discrete_observation", r"target .*its observation space is Discrete"),
        ("source", "camera", r"target .*camera: it shows images of 64 x 48 x 3; policies here see vectors"),
        ("source", "unbounded", r"target .*unbounded: its action space is Box.*finite bounds"),
        ("source", "weaker", r"their actions lie in \[-3.0\] to \[5.0\] and in \[-1.0\] to \[1.0\]"),
        ("source", "parts_target", r"their observations are observation \(2\) and a \(2\), b \(1\)"),
        ("limitless", "target", r"time limits None and 17: say which with --time-limit"),
        ("limitless", "limitless", r"limitless says nothing of a time limit: give one with --time-limit"),
        ("source", "nothing", r"expected it to return a gymnasium.Env, it gave NoneType"),
        ("source", "unplugged", r"cannot be made: ConnectionError: no robot at this address"),
        ("source", "absent", r"no function 'absent' in module"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(source, target, words):
    with pytest.raises(OffdynError, match=words):
        pair(source, target)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("Pendulun-v1", r"no environment has this id \(did you mean Pendulum-v1"),
        ("no_such_module:make", r"module 'no_such_module' cannot be imported from here"),
        ("Pendulum-v1-delay-2", r"effects follow a \?: \"Pendulum-v1\?delay=2\""),
        (
            gymnasium.make("Pendulum-v1"),
            r"expected a function that makes .* say target=lambda: \.\.\.",
        ),
        (7, r"target: expected a Gymnasium id, module:function or a function, got 7"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_in_words(reference, words):
    with pytest.raises(OffdynError, match=words):
        custom.pair_of(named("source"), reference)


def test_a_pair_is_read_back_without_making_its_environments(monkeypatch):
    found = pair()
    monkeypatch.setattr(custom, "make", functools.partial(pytest.fail, "an environment was made"))
    assert pairs.find(found.to_mapping()) == found
    assert pairs.source_of(found).target == found.source


def test_functions_without_a_name_are_kept_in_mind():
    found = custom.pair_of(lambda: environments.source(), lambda: environments.target())
    assert found.name == "source-to-target"
    assert bodies(found).observation.shape == (3, 2)
    custom.GIVEN.clear()
    with pytest.raises(OffdynError, match=r"offdyn.resume\(OUT, source=..., target=...\)"):
        bodies(found)


def test_a_target_that_is_its_source_is_no_pair_unless_that_is_meant():
    same = pair("source", "source")
    with pytest.raises(OffdynError, match="there is no shift"):
        pairs.check(same, allow_no_shift=False)
    pairs.check(same, allow_no_shift=True)


@pytest.mark.parametrize(
    ("took", "worked", "cores", "pays"),
    [(0.01, 0.01, 8, False), (1.0, 1.0, 8, True), (1.0, 1.0, 2, False), (1.0, 0.1, 2, True)],
)
def test_processes_pay_for_long_steps_with_cores_to_spare_or_that_only_wait(monkeypatch, took, worked, cores, pays):
    makers = [functools.partial(bodies(pair(), sources=0)._maker("source"), seeds=(0,))] * 2
    clock = types.SimpleNamespace(perf_counter=iter((0.0, took)).__next__, thread_time=iter((0.0, worked)).__next__)
    monkeypatch.setattr(custom_batch, "time", clock)
    monkeypatch.setattr(custom_batch, "every", lambda: list(range(cores)))
    monkeypatch.setattr(custom_batch, "_main_can_be_imported_again", lambda: True)
    assert custom_batch._pays(makers) is pays
    monkeypatch.setattr(custom_batch, "_main_can_be_imported_again", lambda: False)
    assert custom_batch._pays(makers) is False


def test_effects_after_a_question_mark_stand_between_the_agent_and_any_environment():
    late = custom.pair_of("Pendulum-v1", "Pendulum-v1?delay=1&noise=0.1")
    assert (late.name, late.time_limit) == ("Pendulum-v1-to-Pendulum-v1_delay_1_noise_0.1", 200)
    assert custom.names_environment("Pendulum-v1?delay=1")
    env = custom.make(late.target, "target")
    assert env.get_wrapper_attr("effects") == Effects(delay=1, noise=0.1)
    domain = bodies(pair(target="target?delay=1"), sources=0)
    still, moved = (domain.step(np.arange(1), np.array([[0.5]])) for _ in range(2))
    np.testing.assert_array_equal(still.next_observation, still.observation)  # 0, the middle, moves nothing
    assert (moved.next_observation != moved.observation).all()
    domain.close()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("dealy=2", "target .*target[?]dealy=2: no effect 'dealy'.*'delay'"),
        ("delay=2.5", "delay: expected a whole number of steps"),
        ("delay", "expected EFFECT=NUMBER, such as delay=2&deadband=0.1; got 'delay'"),
        ("delay=1&delay=2", "delay is given twice"),
    ],
)
def test_effects_that_cannot_be_read_are_refused_by_the_environments_name(asked, message):
    with pytest.raises(OffdynError, match=message):
        pair(target=f"target?{asked}")


def play_in_a_thread() -> None:
    """As an evaluation makes its bodies, in a process that somebody else began."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: bodies(pair()).step(np.arange(3), np.zeros((3, 1)))).result()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_bodies_in_a_process_that_the_user_began_leave_its_signals_alone():
    process = multiprocessing.get_context("spawn").Process(target=play_in_a_thread)
    process.start()
    process.join()
    assert process.exitcode == 0
