"""Late commands, old and noisy readings, motors that do not obey: each by hand, then wherever they are used."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from offdyn._util.errors import OffdynError
from offdyn.envs import pairs
from offdyn.envs.effects import Effects, Lines, Shifted, effects_from
from offdyn.envs.gym import RobotEnv
from offdyn.envs.processes import BodyProcesses
from offdyn.envs.simulator import Simulator
from offdyn.envs.tasks import TASKS, check_pair, resolve

ONE = np.zeros(1, int)
MANY = {"delay": 3, "deadband": 0.1, "torque_limit": 0.8, "backlash": 0.2, "noise": 0.02, "latency": 2}
FAMILIES = ["delay-2", "latency-1", "deadband-0.1", "backlash-0.05", "torque-limit-0.6", "noise-0.01"]


def worn(robot: str = "hopper", **effects: float) -> object:
    """A task with everything at once, and a lighter robot."""
    said = {"name": f"worn-{robot}", "robot": robot, "edits": [{"body": "torso", "mass": {"offset": 0.5}}]}
    return resolve(said | {"effects": effects or MANY})


def line(**effects: float) -> Lines:
    """Of one body with one number to see and one to move, at the start of an episode that begins at 7."""
    made = Lines([Effects(**effects)], [(3,)], 1, 1)
    made.begin(ONE, np.array([[7.0]]))
    return made


def obeyed(made: Lines, *commands: float) -> list[float]:
    return [float(made.command(ONE, np.array([[command]]))[0, 0]) for command in commands]


def shown(made: Lines, *truths: float) -> list[float]:
    return [float(made.read(ONE, np.array([[truth]]))[0, 0]) for truth in truths]


def test_a_late_command_arrives_after_zeros_and_every_command_arrives_once_in_order():
    assert obeyed(line(delay=2), 0.1, 0.2, 0.3, 0.4) == [0.0, 0.0, 0.1, 0.2]


def test_an_episode_begins_with_no_command_under_way():
    late = line(delay=2)
    obeyed(late, 0.1, 0.2, 0.3)
    late.begin(ONE, np.array([[7.0]]))
    assert obeyed(late, 0.4, 0.5, 0.6) == [0.0, 0.0, 0.4]


def test_a_command_in_the_dead_band_does_nothing_and_one_outside_is_obeyed_whole():
    assert obeyed(line(deadband=0.1), 0.09, -0.09, 0.1, 0.11, -0.5) == [0.0, 0.0, 0.1, 0.11, -0.5]


def test_a_gap_is_crossed_at_every_turn():
    """Width 0.2: the output trails by 0.1 on the way up, stands still for 0.2 of the way back, then trails by 0.1."""
    said = obeyed(line(backlash=0.2), 0.05, 0.1, 0.4, 0.5, 0.4, 0.3, 0.25, -0.2)
    np.testing.assert_allclose(said, [0.0, 0.0, 0.3, 0.4, 0.4, 0.4, 0.35, -0.1], atol=1e-15)


def test_a_gain_multiplies_commands_and_a_torque_limit_cuts_them():
    assert obeyed(line(strength=0.5), 0.4, -1.0) == [0.2, -0.5]
    assert obeyed(line(torque_limit=0.6), 0.4, 0.7, -1.0) == [0.4, 0.6, -0.6]
    assert obeyed(line(strength=2.0, torque_limit=0.6), 0.2, 0.5) == [0.4, 0.6]


def test_an_old_reading_is_the_first_one_until_the_next_arrives():
    old = line(latency=2)
    assert old.shown(ONE)[0, 0] == 7.0
    assert shown(old, 8.0, 9.0, 10.0, 11.0) == [7.0, 7.0, 8.0, 9.0]


def test_noise_follows_from_seed_episode_and_step_and_has_the_deviation_that_was_asked_for():
    one, again = line(noise=0.5), line(noise=0.5)
    assert shown(one, *[0.0] * 5) == shown(again, *[0.0] * 5)
    one.begin(ONE, np.array([[7.0]]))
    assert shown(one, 0.0) != shown(again, 0.0)
    wide = Lines([Effects(noise=0.5)], [(3,)], 20_000, 1)
    drawn = wide.begin(ONE, np.zeros((1, 20_000)))
    assert drawn.std() == pytest.approx(0.5, rel=0.02)
    assert drawn.mean() == pytest.approx(0.0, abs=0.02)


def test_a_reading_keeps_its_noise_while_it_is_shown():
    old = line(latency=1, noise=0.5)
    first = old.shown(ONE)[0, 0]
    assert first != 7.0
    assert shown(old, 8.0)[0] == first


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("hopper-delay-2.5", "delay: expected a whole number of steps, 0 to 50, got 2.5"),
        ("hopper-delay-51", "0 to 50, got 51"),
        ("hopper-latency--1", "latency: expected a whole number"),
        ("hopper-strength-0", r"the factor must be from 1e-06 to 1e\+06"),
        ("hopper-deadband-1", "deadband: expected 0 or more and less than 1"),
        ("hopper-backlash-2", "backlash: expected 0 or more and less than 2"),
        ("hopper-torque-limit-1.5", "torque_limit: expected more than 0 and at most 1"),
        ("hopper-noise--0.1", "noise: expected 0 or more"),
        ("hopper-mass-offset-0", "an offset of 0 keeps"),
        ("hopper-delay-2-noise-0.01", "a name holds one family"),
        ("hopper-dealy-2", "did you mean 'hopper-delay-2'"),
        ({"name": "a", "robot": "hopper", "effects": {"dealy": 2}}, "effects: no effect 'dealy'.*'delay'"),
        ({"name": "a", "robot": "hopper", "effects": [{"delay": 2}]}, "effects are a mapping"),
        ({"name": "a", "robot": "hopper", "effects": {"delay": "2"}}, "delay: expected a whole number"),
        ({"name": "hopper", "robot": "hopper", "effects": {"delay": 2}}, "belongs to a built-in task"),
    ],
)
def test_what_is_impossible_is_refused_in_words(said, message):
    with pytest.raises(OffdynError, match=message):
        resolve(said)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_a_task_of_every_robot_whose_yaml_form_gives_it_back(family):
    for robot in TASKS["hopper"], TASKS["ant"]:
        task = resolve(f"{robot.name}-{family}")
        assert resolve(task.to_mapping()) == task
        assert task.fingerprint() != robot.fingerprint()
        check_pair(robot, task)
    assert resolve(f"hopper-{family}-legacy").effects == resolve(f"hopper-{family}").effects


def test_effects_that_change_nothing_are_no_shift_and_no_others_share_a_fingerprint():
    prints = {resolve(f"hopper-{family}").fingerprint() for family in FAMILIES}
    assert len(prints) == len(FAMILIES)
    still = resolve("hopper-delay-0")
    assert still.fingerprint() == TASKS["hopper"].fingerprint()
    with pytest.raises(OffdynError, match="there is no shift"):
        check_pair(TASKS["hopper"], still)


def test_effects_and_edits_meet_in_one_task():
    task = worn()
    assert task.effects == effects_from(MANY)
    heavier = task.model().body("torso").mass[0] - TASKS["hopper"].model().body("torso").mass[0]
    assert heavier == pytest.approx(0.5)
    assert resolve(task.to_mapping()) == task


# Bodies with effects beside bodies without, of one robot or of several.
def bodies_of(*tasks: object) -> list[tuple[object, str]]:
    return [(task, role) for task in tasks for role in ("source", "target", "target")]


ALIKE = bodies_of(worn(), resolve("hopper-delay-2"), resolve("hopper-big-head"))
SEVERAL = bodies_of(worn("ant"), worn("hopper"), resolve("walker-no-right-thigh"))


def opened(bodies, how: str):
    seeds = [(number, 5) for number in range(len(bodies))]
    if how == "processes":
        return pairs.with_effects(BodyProcesses(bodies, seeds, 2, True), bodies, seeds)
    return pairs.open_bodies(bodies, seeds, threads=1, padded=how == "padded")


def walk(domain, seed: int, steps: int) -> list[np.ndarray]:
    """Everything that a domain gives in random steps of random subsets, with starts in between."""
    rng, count, seen = np.random.default_rng(seed), len(domain.observation), []
    for step in range(steps):
        ids = np.sort(rng.choice(count, rng.integers(1, count + 1), replace=False))
        seen += [domain.observation, *domain.step(ids, rng.uniform(-1.3, 1.3, (len(ids), domain.spec.action_size)))]
        if step % 7 == 6:
            domain.reset(ids[:2], np.array([998, 3])[: len(ids)])
    return [*seen, domain.divergences]


@pytest.mark.parametrize(("bodies", "how"), [(ALIKE, "simulator"), (SEVERAL, "padded"), (SEVERAL, "processes")])
def test_what_was_saved_continues_to_the_bit(bodies, how):
    domain, again = opened(bodies, how), opened(bodies, how)
    walk(domain, 0, 20)
    again.load(domain.save())
    for one, other in zip(walk(domain, 1, 20), walk(again, 1, 20), strict=True):
        np.testing.assert_array_equal(one, other)
    domain.close(), again.close()


def test_robots_in_processes_show_what_they_show_in_one():
    together, apart = opened(SEVERAL, "padded"), opened(SEVERAL, "processes")
    for one, other in zip(walk(together, 2, 40), walk(apart, 2, 40), strict=True):
        np.testing.assert_array_equal(one, other)
    together.close(), apart.close()


def test_what_a_body_shows_depends_on_no_neighbour_and_entries_that_fill_up_stay_zero():
    together = opened(SEVERAL, "padded")
    alone = pairs.open_bodies([SEVERAL[4]], [(4, 5)], threads=1)
    np.testing.assert_array_equal(together.observation[4, :11], alone.observation[0])
    for action in np.random.default_rng(0).uniform(-1, 1, (30, 8)):
        mine = together.step(np.array([4]), action[None])
        its = alone.step(np.array([0]), action[None, :3])
        np.testing.assert_array_equal(mine.next_observation[0, :11], its.next_observation[0])
        np.testing.assert_array_equal(mine.action[0, :3], its.action[0])
        assert not mine.next_observation[0, 11:].any()
        assert not mine.action[0, 3:].any()


def test_a_transition_holds_what_was_seen_and_asked_for_and_the_robot_does_what_arrived():
    task = resolve("hopper-delay-1")
    late = pairs.open_bodies([(task, "target")], [(1,)], threads=1)
    prompt = Simulator([TASKS["hopper"]], [(1,)], threads=1)
    before = np.zeros((1, 3))
    for action in np.random.default_rng(0).uniform(-1.5, 1.5, (60, 1, 3)):
        seen = late.observation
        rows, stock = late.step(ONE, action), prompt.step(ONE, before)
        np.testing.assert_array_equal(rows.observation, seen)
        np.testing.assert_array_equal(rows.action, np.clip(action, -1, 1))
        np.testing.assert_array_equal(rows.next_observation, stock.next_observation)
        np.testing.assert_array_equal(rows.reward, stock.reward)
        assert rows.terminated == stock.terminated
        before = np.zeros((1, 3)) if rows.terminated or rows.truncated else action


def test_the_last_observation_of_an_episode_is_as_old_as_any_and_the_next_begins_afresh():
    old, prompt = (pairs.open_bodies([(resolve(name), "target")], [(1,)]) for name in ("hopper-latency-1", "hopper"))
    last, ended = prompt.observation, False
    while not ended:
        mine, its = old.step(ONE, np.ones((1, 3))), prompt.step(ONE, np.ones((1, 3)))
        np.testing.assert_array_equal(mine.next_observation, last)
        last, ended = its.next_observation, bool(its.terminated[0])
        assert ended == mine.terminated[0]
    np.testing.assert_array_equal(old.observation, prompt.observation)


def test_a_robot_that_breaks_repeats_its_last_good_row_as_the_agent_knew_it():
    task = resolve({"name": "brittle", "robot": "hopper", "effects": {"delay": 1, "latency": 1}})
    domain = pairs.open_bodies([(task, "target")], [(1,)], threads=1)
    good = [domain.step(ONE, np.full((1, 3), 0.3)) for _ in range(4)][-1]
    domain.inner._qvel[0] = 1e12
    broken = domain.step(ONE, np.full((1, 3), 0.9))
    assert broken.diverged.all()
    for field in ("observation", "action", "next_observation", "reward"):
        np.testing.assert_array_equal(getattr(broken, field), getattr(good, field))


def test_a_command_that_is_not_finite_is_refused_before_anything_moves():
    domain = pairs.open_bodies([(worn(), "target")], [(1,)], threads=1)
    before = domain.save()
    with pytest.raises(OffdynError, match="is not finite"):
        domain.step(ONE, np.full((1, 3), np.nan))
    after = domain.save()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


@pytest.mark.parametrize("family", [*FAMILIES[:-1], "mass-offset-1.5"])
def test_the_gymnasium_view_does_what_the_batch_does(family):
    name = f"walker-{family}"
    env = gymnasium.make("offdyn/task-v0", task=name)
    batch = pairs.open_bodies([(resolve(name), "target")], [(0,)], threads=1)
    simulator = getattr(batch, "inner", batch)
    seen, _ = env.reset(seed=4)
    robot = env.unwrapped
    simulator._qpos[0], simulator._qvel[0] = robot.data.qpos, robot.data.qvel
    simulator._x[0] = robot.data.qpos[0]
    simulator._observation[0] = robot.robot.observe(robot.data.qpos, robot.data.qvel)
    simulator.observation = simulator._observation.copy()
    if batch is not simulator:
        batch._shown = batch._begin(ONE)
    for action in np.random.default_rng(0).uniform(-1, 1, (30, 6)).astype(np.float32):
        seen, reward, terminated, _, _ = env.step(action)
        rows = batch.step(ONE, action[None])
        np.testing.assert_array_equal(seen, rows.next_observation[0])
        assert reward == pytest.approx(rows.reward[0], abs=1e-12)
        if terminated:
            break


def test_the_noise_of_a_gymnasium_robot_follows_from_its_seed():
    def rollout(seed: int) -> np.ndarray:
        env = RobotEnv("hopper-noise-0.1")
        first, _ = env.reset(seed=seed)
        seen = [first, *(env.step(np.zeros(3))[0] for _ in range(3)), env.reset()[0]]
        assert not np.array_equal(seen[0], env.robot.observe(env.data.qpos, env.data.qvel))
        return np.array(seen)

    np.testing.assert_array_equal(rollout(5), rollout(5))
    assert not np.array_equal(rollout(5), rollout(6))


class Cart(gymnasium.Env):
    """Its place is the sum of its commands, in metres of [-10, 10], and is told in a Dict."""

    observation_space = spaces.Dict({"place": spaces.Box(-10, 10, (1,), np.float64)})
    action_space = spaces.Box(0.0, 4.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 1.0
        return self._seen(), {}

    def step(self, action):
        self.place += float(action[0])
        return self._seen(), self.place, False, False, {}

    def _seen(self):
        return {"place": np.array([self.place])}


def test_any_environment_may_stand_behind_effects_in_its_own_units():
    env = Shifted(Cart(), delay=1, latency=1)
    places = [env.reset(seed=0)[0]["place"][0]]
    rewards = []
    for action in (4.0, 0.0, 3.0):
        seen, reward, *_ = env.step(np.array([action], np.float32))
        places.append(seen["place"][0])
        rewards.append(reward)
    assert rewards == [3.0, 7.0, 7.0]  # 2, the middle, arrives before the first 4
    assert places == [1.0, 1.0, 3.0, 7.0]
    env = Shifted(Cart(), torque_limit=0.5, noise=100.0)
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert env.step(np.array([4.0], np.float32))[1] == pytest.approx(1.0 + 3.0)


def test_an_environment_without_bounds_on_its_actions_is_refused():
    cart = Cart()
    cart.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    with pytest.raises(OffdynError, match="Box with finite bounds"):
        Shifted(cart, delay=1)
    with pytest.raises(OffdynError, match="did you mean 'delay'"):
        Shifted(Cart(), dealy=1)
