"""What the batched simulator promises: seeded starts, bodies that never disturb each other, exact resume."""

import mujoco
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs.robots import ROBOTS
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import resolve

MIXED = {
    "halfcheetah": ("halfcheetah", "halfcheetah-no-thighs", "halfcheetah-broken-back-thigh"),
    "hopper": ("hopper", "hopper-big-head", "hopper-broken-joints"),
    "walker": ("walker", "walker-no-right-thigh", "walker-broken-right-foot"),
    "ant": ("ant", "ant-short-feet", "ant-broken-hips"),
}
every_robot = pytest.mark.parametrize("name", ROBOTS)


def build(name, bodies=6, seed=0, **options):
    """Bodies of one robot that take turns between the source and two targets."""
    tasks = [resolve(MIXED[name][body % 3]) for body in range(bodies)]
    return Simulator(tasks, [(seed, body) for body in range(bodies)], **options)


def random_actions(simulator, steps, seed=1):
    shape = steps, len(simulator.observation), simulator.spec.action_size
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def walk(simulator, actions):
    """Rows of every body, stacked over the steps, and the observations chosen from."""
    every = np.arange(len(simulator.observation))
    rows = [simulator.step(every, chosen) for chosen in actions]
    return [np.stack(field) for field in zip(*rows, strict=True)]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


class Alone:
    """One body stepped by `mj_step`, with its own MjData: what the simulator must equal bit for bit."""

    def __init__(self, task, seeds, limit):
        self.robot, self.model, self.seeds, self.limit = task.robot, task.model(), seeds, limit
        self.data, self.episode = mujoco.MjData(self.model), 0
        self.start()

    def start(self):
        mujoco.mj_resetData(self.model, self.data)
        positions, velocities = self.robot.start(np.random.default_rng([*self.seeds, self.episode]))
        self.data.qpos += positions
        self.data.qvel += velocities
        mujoco.mj_forward(self.model, self.data)
        self.episode, self.elapsed = self.episode + 1, 0

    def x(self):
        return self.data.body("torso").xpos[0] if self.robot.name == "ant" else self.data.qpos[0]

    def observation(self):
        return self.robot.observe(self.data.qpos, self.data.qvel)

    def step(self, action):
        before, seen, self.data.ctrl[:] = float(self.x()), self.observation(), action
        mujoco.mj_step(self.model, self.data, nstep=self.robot.frame_skip)
        self.elapsed += 1
        reward, following = self.robot.reward(self.x() - before, action), self.observation()
        terminated = bool(self.robot.terminated(self.data.qpos, self.data.qvel))
        truncated = self.elapsed == self.limit and not terminated
        if terminated or truncated:
            self.start()
        return seen, action, reward, following, terminated, truncated, False


@every_robot
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_body_moves_as_if_stepped_alone_whatever_its_neighbours_subsets_and_threads(name, threads):
    simulator = build(name, threads=threads, time_limit=30)
    alone = [Alone(task, seeds, 30) for task, seeds in zip(simulator.tasks, simulator.seeds, strict=True)]
    rng = np.random.default_rng(2)
    for step in range(60):
        ids = np.arange(6) if step % 3 == 0 else rng.permutation(6)[: rng.integers(1, 7)]
        actions = rng.uniform(-1, 1, (len(ids), simulator.spec.action_size))
        rows = simulator.step(ids, actions)
        for place, body in enumerate(ids):
            assert same([field[place] for field in rows], alone[body].step(actions[place]))
        assert same(simulator.observation, [body.observation() for body in alone])
    assert all(body.episode > 1 for body in alone)


@every_robot
def test_the_same_seeds_give_the_same_rows_and_others_give_others(name):
    first, again, other = (build(name, seed=seed) for seed in (5, 5, 6))
    actions = random_actions(first, 20)
    rows = walk(first, actions)
    assert same(rows, walk(again, actions))
    assert not np.array_equal(rows[0], walk(other, actions)[0])


@every_robot
def test_starts_come_from_the_seeds_and_the_episode_number_and_differ_between_bodies_and_episodes(name):
    simulator = build(name)
    starts = [simulator.observation]
    simulator.reset(np.arange(6))
    starts.append(simulator.observation)
    assert len(np.unique(np.concatenate(starts), axis=0)) == 12
    for episode, seen in enumerate(starts):
        for body, task in enumerate(simulator.tasks):
            positions, velocities = simulator.robot.start(np.random.default_rng([0, body, episode]))
            assert np.array_equal(seen[body], simulator.robot.observe(task.model().qpos0 + positions, velocities))


@every_robot
def test_rows_have_the_sizes_of_the_spec_and_no_entry_of_an_observation_is_constant(name):
    simulator = build(name)
    rows = walk(simulator, random_actions(simulator, 40))
    observation, action, reward, following, terminated, truncated, diverged = rows
    size = simulator.spec.observation_size
    assert observation.shape == following.shape == (40, 6, size)
    assert action.shape == (40, 6, simulator.spec.action_size)
    assert reward.shape == terminated.shape == truncated.shape == diverged.shape == (40, 6)
    assert observation.dtype == reward.dtype == np.float64
    assert terminated.dtype == truncated.dtype == diverged.dtype == bool
    assert (observation.reshape(-1, size).std(axis=0) > 1e-6).all()
    assert not diverged.any()


def test_actions_are_clipped_and_handed_back_as_used():
    wild, clipped = build("hopper"), build("hopper")
    actions = 3 * random_actions(wild, 10)
    rows = walk(wild, actions)
    assert np.array_equal(rows[1], np.clip(actions, -1, 1))
    assert same(rows, walk(clipped, np.clip(actions, -1, 1)))


def test_a_time_limit_is_not_an_end_and_the_last_observation_is_not_the_first_of_the_next_episode():
    simulator = build("halfcheetah", time_limit=4)
    rows = walk(simulator, random_actions(simulator, 8))
    assert rows[5].all(axis=1).tolist() == rows[5].any(axis=1).tolist() == [False, False, False, True] * 2
    assert not rows[4].any()
    observation, following = rows[0], rows[3]
    assert np.array_equal(following[:3], observation[1:4])
    assert not (following[3] == observation[4]).all(axis=1).any()
    for body, task in enumerate(simulator.tasks):
        positions, velocities = simulator.robot.start(np.random.default_rng([0, body, 1]))
        assert np.array_equal(observation[4, body], simulator.robot.observe(task.model().qpos0 + positions, velocities))


def test_a_true_end_on_the_last_allowed_step_is_an_end_and_not_a_time_limit():
    simulator = build("hopper", time_limit=10)
    saved = simulator.save()
    saved["elapsed"][:] = 9
    saved["state"][0, 1 + 1] = 0.3  # body 0 lies on the floor; the state opens with the time, then qpos
    simulator.load(saved)
    rows = simulator.step(np.arange(6), np.zeros((6, 3)))
    assert rows.terminated.tolist() == [True] + [False] * 5
    assert rows.truncated.tolist() == [False] + [True] * 5


def test_staggered_bodies_reach_the_time_limit_one_after_the_other():
    simulator = build("halfcheetah", time_limit=12)
    simulator.reset(np.arange(6), elapsed=np.arange(6) * 2)
    truncated = walk(simulator, random_actions(simulator, 12))[5]
    assert truncated.argmax(axis=0).tolist() == [11, 9, 7, 5, 3, 1]
    with pytest.raises(OffdynError, match="time limit of 12"):
        simulator.reset(np.array([0]), elapsed=12)


@every_robot
def test_a_simulator_loaded_in_mid_episode_goes_on_bit_for_bit(name):
    simulator = build(name, threads=1, time_limit=40)
    actions = random_actions(simulator, 60)
    walk(simulator, actions[:25])
    saved = simulator.save()
    kept = {entry: array.copy() for entry, array in saved.items()}
    straight = walk(simulator, actions[25:])
    assert all(np.array_equal(saved[entry], kept[entry], equal_nan=True) for entry in kept)
    other = build(name, threads=2, time_limit=40)
    walk(other, actions[:7])
    other.load(saved)
    assert same(straight, walk(other, actions[25:]))
    assert all(np.array_equal(a, b) for a, b in zip(simulator.save().values(), other.save().values(), strict=True))


def test_what_other_bodies_saved_is_refused():
    with pytest.raises(OffdynError, match="saved with other bodies"):
        build("hopper", bodies=4).load(build("hopper").save())
    with pytest.raises(OffdynError, match="expected the entries"):
        build("hopper").load({})


def test_nothing_handed_out_is_changed_by_a_later_step_or_changes_one_when_written_to():
    simulator, untouched = build("hopper"), build("hopper")
    actions = random_actions(simulator, 40)
    seen = simulator.observation
    rows = simulator.step(np.arange(6), actions[0])
    kept = [field.copy() for field in (seen, *rows)]
    walk(simulator, actions[1:20])
    assert same(kept, (seen, *rows))
    walk(untouched, actions[:20])
    for array in (*rows, simulator.observation, simulator.divergences, *simulator.save().values()):
        array[...] = 1
    assert same(walk(simulator, actions[20:]), walk(untouched, actions[20:]))


def test_an_action_that_is_not_finite_is_refused_before_any_body_moves():
    simulator = build("hopper")
    before, actions = simulator.save(), np.zeros((3, 3))
    for bad in (np.nan, np.inf):
        actions[1, 2] = bad
        with pytest.raises(OffdynError, match=r"body 2, seeds \(0, 2\), .*hopper-broken-joints.*not finite"):
            simulator.step(np.array([5, 2, 0]), actions)
    after = simulator.save()
    assert all(np.array_equal(before[entry], after[entry], equal_nan=True) for entry in before)


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [([1, 1], "twice"), ([2, 0, 2], "twice"), ([0, 6], "0 to 5"), ([-1, 3], "0 to 5"), ([False, True], "at least one")],
)
def test_ids_that_name_no_body_or_one_twice_are_refused(ids, complaint):
    simulator = build("hopper")
    with pytest.raises(OffdynError, match=complaint):
        simulator.step(np.array(ids), np.zeros((len(ids), 3)))
    with pytest.raises(OffdynError, match=complaint):
        simulator.reset(np.array(ids))


def test_a_simulator_of_two_robots_or_with_too_few_seeds_is_refused():
    with pytest.raises(OffdynError, match="ant, hopper"):
        Simulator([resolve("hopper"), resolve("ant")], [(0,), (1,)])
    with pytest.raises(OffdynError, match="per body, got 2 and 1"):
        Simulator([resolve("hopper")] * 2, [(0,)])
    with pytest.raises(OffdynError, match="shape"):
        build("hopper").step(np.arange(6), np.zeros((6, 4)))


def test_a_closed_simulator_has_given_its_threads_back():
    simulator = build("hopper", threads=2)
    simulator.close()
    simulator.close()
    with pytest.raises(AttributeError):
        simulator.step(np.arange(6), np.zeros((6, 3)))
