"""How long a cohort should take on this machine, by the rates of results/tables/speed.csv."""

from collections.abc import Sequence

import jax

from .._util.cores import default_threads, every
from ..algos.networks import Network
from ..algos.sac import actor_network, critic_network
from ..envs import pairs
from ..training.config import RunConfig
from ..training.hardware import beside_a_gpu

OF_SAC = {"par": 1.95, "par-b": 1.61, "darc": 1.6, "vgdf": 3.3, "cql": 11.1, "cql+sac": 11.2, "h2o": 12.4, "duo": 2.0}
CORE = 7e10  # operations per second of one core, updates of any width; one lane keeps two of them busy
GPU, GROWTH, CLASSIC = 6e13, 0.3, 6e8  # of an H200, at an update of so many operations; larger ones are quicker
LAUNCH = 2.5e-4  # seconds of an update that a GPU spends on no lane
STEPS = {"halfcheetah": 46_570, "hopper": 19_630, "walker": 15_270, "ant": 7_399}  # per second of one core
OTHERS_STEPS = 5_000
POLICY = 2e10  # operations per second of an evaluated policy
COMPILATION = 20.0  # seconds; a program that was kept takes two


def seconds(runs: Sequence[RunConfig], threads: int | None = None) -> float:
    """Of the whole cohort; episodes count at their longest."""
    plan, threads = runs[0].schedule, threads or default_threads(beside_a_gpu())
    evaluation = of_episode_step(runs, threads) * pairs.spec_of(runs[0].task).time_limit
    evaluations = (plan.length // plan.eval_interval + 1) * evaluation
    final = evaluation * plan.final_episodes / max(plan.eval_episodes + plan.eval_source_episodes, 1)
    training = 0.0 if plan.tested_only else of_tick(runs, len(every()), threads) * plan.length / plan.tick
    # Evaluations run beside training: with a GPU on other hardware than it, otherwise on the same cores.
    both = max(training, evaluations) if beside_a_gpu() else training + evaluations
    return COMPILATION + both + final


def of_tick(runs: Sequence[RunConfig], cores: int, threads: int) -> float:
    """Seconds of one tick of all lanes."""
    first, lanes = runs[0], len(runs)
    plan, needed = first.schedule, _of_update(runs[0])
    envs = plan.tick * bool(plan.source_env_count) + plan.acts_in_target * plan.tick / plan.source_steps_per_target_step
    steps = lanes * envs / (_steps(first) * threads)
    if jax.default_backend() == "cpu":
        return plan.updates_per_tick * lanes * needed / (CORE * min(cores, 2 * lanes)) + steps
    rate = GPU * (needed / CLASSIC) ** GROWTH
    return max(plan.updates_per_tick * (LAUNCH + lanes * needed / rate), steps)


def of_episode_step(runs: Sequence[RunConfig], threads: int) -> float:
    """Seconds of one step of all episodes of an evaluation."""
    first, plan = runs[0], runs[0].schedule
    episodes = len(runs) * (plan.eval_episodes + plan.eval_source_episodes)
    return episodes * (1 / (_steps(first) * threads) + _products(actor_network(first.sac, first.spec)) / POLICY)


def _of_update(run: RunConfig) -> float:
    """Operations of one lane."""
    sac, method = run.sac, run.recipe.method
    actor, critic = _products(actor_network(sac, run.spec)), sac.critics * _products(critic_network(sac, run.spec))
    rows = sac.batch_size * (2 if run.schedule.learns_from == "both" else 1)
    backup, critics = actor + critic, 3 * critic
    return rows * (backup + critics + (3 * actor + 2 * critic) / sac.actor_interval) * OF_SAC.get(method.name, 1.0)


def _products(network: Network) -> int:
    return 2 * sum(a * b for a, b in network.shapes)


def _steps(run: RunConfig) -> int:
    return STEPS.get(pairs.family_of(run.task), OTHERS_STEPS)
