"""What the originals compute, written from their formulas in plain NumPy: our methods give the same numbers.

The presets are those that follow the released code. Only random draws are taken from JAX.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offdyn._util.types import Batch, Context
from offdyn.algos import cql, darc, h2o, vgdf
from offdyn.algos import sac as core
from offdyn.algos.common import classifiers
from offdyn.algos.common.classifiers import Classifiers, Networks
from offdyn.algos.common.ensemble import Ensemble
from offdyn.algos.common.scaling import Scale
from offdyn.algos.method import Method
from offdyn.algos.networks import Trained
from offdyn.algos.sac import Sac
from offdyn.envs.robots import ROBOTS

SPEC = ROBOTS["hopper"].spec
S, A, N = SPEC.observation_size, SPEC.action_size, 128  # transitions of a batch
SMALL = {"actor_widths": (6, 5), "critic_widths": (7, 4)}
KEY = jax.random.key(11)
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
Layers = list[tuple[np.ndarray, np.ndarray]]  # a weight [in, out] and a bias [out] each


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Float64, so that nothing but a formula can differ."""
    with jax.enable_x64(True):
        yield


def assert_same(ours: Any, originals: Any) -> None:
    np.testing.assert_allclose(ours, originals, rtol=1e-8, atol=1e-8)


def net(rng: np.random.Generator, *sizes: int, gain: float = 1.0) -> Layers:
    return [(gain * rng.normal(size=(a, b)) / np.sqrt(a), 0.2 * rng.normal(size=b)) for a, b in pairwise(sizes)]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def swish(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def forward(layers: Layers, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray] = relu) -> np.ndarray:
    for weight, bias in layers[:-1]:
        x = activation(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def arrays(layers: Layers) -> tuple[jax.Array, ...]:
    """As our networks keep them."""
    return tuple(jnp.asarray(array) for pair in layers for array in pair)


def stacked(nets: Sequence[Layers]) -> tuple[jax.Array, ...]:
    return tuple(jnp.stack(several) for several in zip(*map(arrays, nets), strict=True))


def policy(actor: Layers, s: np.ndarray, noise: np.ndarray, log_std_low: float) -> tuple[np.ndarray, np.ndarray]:
    """A tanh-Gaussian action and the log of its density: the Gaussian's, less log(1 - a^2)."""
    mean, log_std = np.split(forward(actor, s), 2, axis=1)
    log_std = np.clip(log_std, log_std_low, 2.0)
    action = np.tanh(mean + np.exp(log_std) * noise)
    gaussian = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return action, (gaussian - np.log(1 - action**2)).sum(1)


def q(critic: Layers, s: np.ndarray, a: np.ndarray) -> np.ndarray:
    return forward(critic, np.hstack((s, a)))[:, 0]


class Nets:
    """A policy, two critics and two target critics at random, and the same as an agent of ours."""

    def __init__(self, rng: np.random.Generator, sac: Sac, sureness: Any) -> None:
        self.actor = net(rng, S, *sac.actor_widths, 2 * A)
        self.actor[-1][1][A:] -= sureness
        self.critics, self.targets = ([net(rng, S + A, *sac.critic_widths, 1, gain=2.0) for _ in "12"] for _ in "12")
        made = core.init(jax.random.key(0), sac, SPEC)
        self.agent = made._replace(
            actor=Trained(arrays(self.actor), None),
            critic=Trained(stacked(self.critics), None),
            target_critic=stacked(self.targets),
        )

    def least_target(self, s: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.minimum(*(q(critic, s, a) for critic in self.targets))


def transitions(rng: np.random.Generator, spread: float = 0.1) -> Batch:
    """About upright: some states end an episode and some do not."""
    now, after = spread * rng.normal(size=(2, N, S)) + np.eye(S)[0] * 0.85
    action, reward = np.tanh(rng.normal(size=(N, A))), rng.normal(size=N)
    ended = (rng.random(N) < 0.2).astype(float)
    return Batch(*map(jnp.asarray, (now, action, reward, after, ended, np.ones(N), np.zeros(N))))


def in_numpy(rows: Batch) -> Batch:
    return Batch(*map(np.asarray, rows))


def chosen(part: Any, fields: dict[str, Any]) -> Any:
    names = {field.name for field in dataclasses.fields(part)}
    return part(**{name: value for name, value in fields.items() if name in names})


def context(method: Method, preset: str, rng: np.random.Generator, **fields: Any) -> tuple[Nets, Context]:
    """What a method sees after its warm-up, with small networks."""
    every = {**method.presets[preset].fields, **SMALL, **fields}
    sac, hyper = chosen(Sac, every), chosen(method.hyper, every)
    # Of VGDF's policy some logs of deviations lie above its bound and some below.
    nets = Nets(rng, sac, (0.0, 5.0, 15.0) if method is vgdf.VGDF else 0.0)
    step = jnp.asarray(getattr(hyper, "warm_up", 0))
    return nets, Context(SPEC, nets.agent, None, sac, hyper, KEY, step)


# VGDF


def ensemble_of(rng: np.random.Generator) -> tuple[list[Layers], Scale]:
    """Members that change a state little and are rather sure of it."""
    members = [net(rng, S + A, 9, 8, 2 * (1 + S), gain=1.5) for _ in range(7)]
    for member in members:
        weight, bias = member[-1]
        weight[:, 1 : 1 + S] *= 0.05
        bias[: 1 + S], bias[1 + S :] = 0.0, bias[1 + S :] - 3.0
    return members, Scale(rng.normal(size=S + A), rng.uniform(0.5, 2.0, S + A))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def imagined(member: Layers, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of [r, s' - s]; the log of the variance lies softly between -10 and 0.5."""
    mean, log_variance = np.split(forward(member, inputs, swish), 2, axis=1)
    log_variance = 0.5 - softplus(0.5 - log_variance)
    log_variance = -10.0 + softplus(log_variance + 10.0)
    return mean, np.exp(log_variance)


def hopper_goes_on(s: np.ndarray) -> np.ndarray:
    return (s[:, 0] > 0.7) & (np.abs(s[:, 1]) < 0.2)


def vgdfs_values(rows: Batch, nets: Nets, members: list[Layers], scale: Scale, noise: np.ndarray) -> Any:
    """V_k [7, n] and v [n]: whole backups, the former of the mean plus the variance and of the mean action."""
    inputs = (np.hstack((rows.observation, rows.action)) - scale.mean) / scale.deviation
    fictitious = []
    for member in members:
        mean, variance = imagined(member, inputs)
        outcome = mean + variance
        after = rows.observation + outcome[:, 1:]
        action, _ = policy(nets.actor, after, np.zeros((N, A)), -10.0)
        fictitious.append(outcome[:, 0] + 0.99 * hopper_goes_on(after) * nets.least_target(after, action))
    action, _ = policy(nets.actor, rows.next_observation, noise, -10.0)
    ahead = nets.least_target(rows.next_observation, action)
    return np.stack(fictitious), rows.reward + 0.99 * (1 - rows.terminated) * ahead


def normal_density(v: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return np.exp(-((v - mean) ** 2) / (2 * deviation**2)) / (deviation * np.sqrt(2 * np.pi))


def vgdf_case(seed: int, reward: float = 1.0) -> tuple[Nets, Context, Batch, np.ndarray, np.ndarray]:
    """Also the values that the original compares; the larger rewards are, the less likely are the transitions."""
    rng = np.random.default_rng(seed)
    nets, ctx = context(vgdf.VGDF, "released", rng, ensemble_widths=(9, 8), optimistic=False)
    members, scale = ensemble_of(rng)
    ctx = ctx._replace(learned=vgdf.Learned(Ensemble(Trained(stacked(members), None), scale), None))
    rows = transitions(rng)
    rows = rows._replace(reward=reward * rows.reward)
    noise = np.asarray(jax.random.normal(jax.random.split(KEY)[1], (N, A)))
    return nets, ctx, rows, *vgdfs_values(in_numpy(rows), nets, members, scale, noise)


@SEEDS
def test_vgdf_compares_the_originals_values(seed: int) -> None:
    _, ctx, rows, fictitious, own = vgdf_case(seed)
    outcome_key, action_key = jax.random.split(KEY)
    noise = jax.random.normal(outcome_key, (7, N, 1 + S))
    ours = jax.jit(lambda rows: vgdf.compare(rows, noise, ctx._replace(key=action_key)))(rows)
    assert_same(ours[0], fictitious)
    assert_same(ours[1], own)


@SEEDS
def test_vgdf_keeps_the_quarter_that_the_original_keeps(seed: int) -> None:
    _, ctx, rows, fictitious, own = vgdf_case(seed)
    deviation = np.sqrt(((fictitious - fictitious.mean(0)) ** 2).sum(0) / 6) + 1e-8
    density = normal_density(own, fictitious.mean(0), deviation)
    corrected, notes = jax.jit(lambda rows: vgdf.VGDF.correct(rows, ctx))(rows)
    likely = np.log(density, where=density > 0, out=np.full(N, -np.inf))
    found, ours = vgdf.log_likelihood(fictitious, own)
    assert_same(ours, deviation)
    assert_same(found[density > 0], likely[density > 0])
    assert np.array_equal(corrected.weight, density > np.quantile(density, 0.75))
    assert corrected.weight.sum() == N / 4
    assert_same(notes["least log likelihood kept"], np.quantile(likely, 0.75))


@SEEDS
def test_vgdf_drops_what_has_no_likelihood_in_the_originals_float32(seed: int) -> None:
    """Where most likelihoods round to 0 the original's quantile is 0, and it keeps fewer than a quarter."""
    _, ctx, rows, fictitious, own = vgdf_case(seed, reward=2000.0)
    deviation = fictitious.std(0, ddof=1) + 1e-8
    off = (own - fictitious.mean(0)) / deviation
    density = np.exp((-0.5 * off**2 - np.log(deviation * np.sqrt(2 * np.pi))).astype(np.float32))
    gate = density > np.quantile(density, 0.75)
    assert 0 < gate.sum() < N / 4
    corrected, _ = jax.jit(lambda rows: vgdf.VGDF.correct(rows, ctx))(rows)
    assert np.array_equal(corrected.weight, gate)


def test_the_smallest_deviation_is_that_of_the_original() -> None:
    """1e-8 where all members agree."""
    agreed, one_off = np.full((7, 1), 3.0), np.array([3.0 + 2e-8])
    found, deviation = vgdf.log_likelihood(agreed, one_off)
    assert_same(deviation / 1e-8, [1.0])
    np.testing.assert_allclose(found, np.log(normal_density(one_off, 3.0, 1e-8)), rtol=1e-5)


@SEEDS
def test_vgdfs_critics_count_every_row_of_the_batch_kept_or_not(seed: int) -> None:
    nets, ctx, source, fictitious, own = vgdf_case(seed)
    rng = np.random.default_rng(seed + 10)
    target, y = transitions(rng), rng.normal(size=2 * N)
    density = normal_density(own, fictitious.mean(0), fictitious.std(0, ddof=1) + 1e-8)
    gate = density > np.quantile(density, 0.75)
    original = 0.0
    for critic in nets.critics:
        off_source = q(critic, np.asarray(source.observation), np.asarray(source.action)) - y[:N]
        off_target = q(critic, np.asarray(target.observation), np.asarray(target.action)) - y[N:]
        original += np.mean(off_target**2) + np.mean(gate * off_source**2)
    corrected, _ = jax.jit(lambda rows: vgdf.VGDF.correct(rows, ctx))(source)
    critics = nets.agent.critic.value
    loss, _ = core.critic_loss(critics, core.join(corrected, target), y, ctx.sac, SPEC)
    assert_same(vgdf.VGDF.critic_loss(loss, critics, corrected, ctx), original)


# DARC and H2O


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def settled(layers: Layers, spread: float) -> Layers:
    """Each output has mean 0 and this deviation over normal inputs."""
    found = forward(layers, np.random.default_rng(7).normal(size=(1000, len(layers[0][0]))))
    weight, bias = layers[-1]
    layers[-1] = (weight * spread / found.std(0), (bias - found.mean(0)) * spread / found.std(0))
    return layers


class Judges:
    """The two classifiers at random; their logits are those of source and target, in this order."""

    def __init__(self, rng: np.random.Generator, joined: bool, spread: float, bound: float | None = None) -> None:
        self.joined, self.bound = joined, bound
        self.sa, self.sas = (settled(net(rng, size, 6, 5, 2), spread) for size in (S + A, 2 * S + A))

    @property
    def learned(self) -> Classifiers:
        return Classifiers(Trained(Networks(arrays(self.sa), arrays(self.sas)), None), None)

    def logits(self, layers: Layers, x: np.ndarray) -> np.ndarray:
        return forward(layers, x) if self.bound is None else self.bound * np.tanh(forward(layers, x))

    def log_p(self, sas: np.ndarray, sa: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """log p_SA and log p_SAS, [n, 2] each; `sa`: other inputs for SA."""
        ours = self.logits(self.sa, sas[:, : S + A] if sa is None else sa)
        whole = self.logits(self.sas, sas)
        return log_softmax(ours), log_softmax(whole + ours if self.joined else whole)

    def delta(self, rows: Batch) -> np.ndarray:
        """log p_SAS(target) - log p_SAS(source) - log p_SA(target) + log p_SA(source), without noise."""
        sa, sas = self.log_p(np.hstack((rows.observation, rows.action, rows.next_observation)))
        return sas[:, 1] - sas[:, 0] - sa[:, 1] + sa[:, 0]

    def loss(self, sas: np.ndarray, sa: np.ndarray) -> float:
        """Cross-entropy of both over n source inputs, then n target inputs; label 1 is the target."""
        label = np.repeat((0, 1), len(sas) // 2)
        return sum(-np.mean(log_p[np.arange(len(sas)), label]) for log_p in self.log_p(sas, sa))


CLASSIFIERS = {"classifier_widths": (6, 5)}


@SEEDS
@pytest.mark.parametrize(("joined", "preset", "beta"), [(False, "paper", 2.0), (True, "original", 1.0)])
def test_darcs_reward_is_the_originals(joined: bool, preset: str, beta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = darc.DARC.presets[preset].by_task.get("hopper-broken-joints", {})
    _, ctx = context(darc.DARC, preset, rng, **table, **CLASSIFIERS, join_logits=joined)
    judges, rows = Judges(rng, joined, spread=1.0), transitions(rng, spread=1.0)
    corrected, notes = darc.DARC.correct(rows, ctx._replace(learned=judges.learned))
    delta_r = -judges.delta(in_numpy(rows))
    assert np.ptp(delta_r) > 1.0
    assert_same(corrected.reward, rows.reward - beta * delta_r)
    assert_same(notes["dynamics gap"], delta_r.mean())
    assert np.array_equal(corrected.weight, np.ones(N))


@SEEDS
@pytest.mark.parametrize(("preset", "low", "high"), [("paper", 1e-4, 1.0), ("original", 0.0, 1e6)])
def test_darc_weights_weights_are_the_clipped_ratio(preset: str, low: float, high: float, seed: int) -> None:
    """The original clips nothing; we clip at a million, to keep the loss finite."""
    rng = np.random.default_rng(seed)
    _, ctx = context(darc.DARC_WEIGHT, preset, rng, **CLASSIFIERS)
    judges, rows = Judges(rng, True, spread=3.0), transitions(rng, spread=1.0)
    judges.sas[-1][1][1] -= 4.5  # most transitions are the source's: weights below, between and above the bounds
    corrected, _ = darc.DARC_WEIGHT.correct(rows, ctx._replace(learned=judges.learned))
    ratio = np.exp(judges.delta(in_numpy(rows)))
    assert ratio.min() < 1e-4 < np.median(ratio)
    assert ratio.max() > 1.0
    np.testing.assert_allclose(corrected.weight, np.clip(ratio, low, high), rtol=1e-5, atol=1e-9)
    assert np.array_equal(corrected.reward, rows.reward)


def noisy(rng: np.random.Generator, deviation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs of n source and n target transitions, and noise for SA and for SAS."""
    inputs = rng.normal(size=(2 * N, 2 * S + A))
    return inputs, deviation * rng.normal(size=(2 * N, S + A)), deviation * rng.normal(size=inputs.shape)


@SEEDS
@pytest.mark.parametrize(("joined", "preset"), [(False, "paper"), (True, "original")])
def test_the_classifiers_loss_is_darcs(joined: bool, preset: str, seed: int) -> None:
    """With noise of its own for each, and the SA logits of the original in the sum."""
    rng = np.random.default_rng(seed)
    _, ctx = context(darc.DARC, preset, rng, **CLASSIFIERS, join_logits=joined)
    judges, (inputs, for_sa, for_sas) = Judges(rng, joined, spread=1.0), noisy(rng, 1.0)
    ours, _ = classifiers.loss(judges.learned.live.value, inputs, (for_sa, for_sas), ctx.hyper, SPEC)
    assert_same(ours, judges.loss(inputs + for_sas, inputs[:, : S + A] + for_sa))


@SEEDS
def test_h2os_weights_are_the_originals(seed: int) -> None:
    """Logits are 2 tanh of a network's, those of SAS the sum of both networks': the target is H2O's real data."""
    rng = np.random.default_rng(seed)
    _, ctx = context(h2o.H2O, "paper", rng, **CLASSIFIERS)
    judges, rows = Judges(rng, True, spread=1.0, bound=2.0), transitions(rng, spread=1.0)
    corrected, _ = h2o.H2O.correct(rows, ctx._replace(learned=judges.learned))
    ratio = np.exp(judges.delta(in_numpy(rows)))
    assert np.exp(-4) < ratio.min() < 0.1
    assert ratio.max() > 1.5
    assert_same(corrected.weight, np.clip(ratio, 1e-5, 1.0))
    assert np.array_equal(corrected.reward, rows.reward)


@SEEDS
def test_h2os_classifiers_loss_is_half_the_originals(seed: int) -> None:
    """Half: a mean over both domains, for which Adam cares nothing. One noise for both networks, as there."""
    rng = np.random.default_rng(seed)
    _, ctx = context(h2o.H2O, "paper", rng, **CLASSIFIERS)
    judges, (inputs, _, noise) = Judges(rng, True, spread=1.0, bound=2.0), noisy(rng, 0.1)
    ours, _ = classifiers.loss(judges.learned.live.value, inputs, (noise[:, : S + A], noise), ctx.hyper, SPEC)
    simulated, real = np.split(inputs + noise, 2)
    original = 0.0
    for of_real, of_simulated in zip(judges.log_p(real), judges.log_p(simulated), strict=True):
        original += np.mean(-of_real[:, 1] - of_simulated[:, 0])
    assert_same(ours, original / 2)


# CQL


def log_sum_exp(scores: np.ndarray) -> np.ndarray:
    return np.log(np.exp(scores).sum(0))


def cqls_actions(nets: Nets, rows: Batch) -> list[tuple[np.ndarray, Any]]:
    """30 actions at each state and the log of their densities: uniform, of pi(.|s), of pi(.|s')."""
    here_key, next_key, uniform_key = jax.random.split(KEY, 3)
    uniform = np.asarray(jax.random.uniform(uniform_key, (10, N, A), minval=-1.0, maxval=1.0))
    drawn: list[tuple[np.ndarray, Any]] = [(action, np.log(0.5**A)) for action in uniform]
    for states, key in ((rows.observation, here_key), (rows.next_observation, next_key)):
        for one in jax.random.split(key, 10):
            noise = np.asarray(jax.random.normal(one, (N, A)))
            drawn.append(policy(nets.actor, states, noise, -20.0))
    return drawn


@SEEDS
def test_cqls_loss_is_the_originals(seed: int) -> None:
    """mean (Q_i - y)^2 + 10 mean (LSE_i - Q_i(s, a)), both critics added; y without an entropy term."""
    rng = np.random.default_rng(seed)
    nets, ctx = context(cql.CQL, "released", rng)
    batch = transitions(rng)
    rows, backup_key = in_numpy(batch), jax.random.key(12)
    following, _ = policy(nets.actor, rows.next_observation, np.asarray(jax.random.normal(backup_key, (N, A))), -20.0)
    ahead = nets.least_target(rows.next_observation, following)
    y = rows.reward + 0.99 * (1 - rows.terminated) * ahead
    drawn = cqls_actions(nets, rows)
    assert len(drawn) == 30
    original = 0.0
    for critic in nets.critics:
        own = q(critic, rows.observation, rows.action)
        scores = np.stack([q(critic, rows.observation, action) - density for action, density in drawn])
        original += np.mean((own - y) ** 2) + 10.0 * np.mean(log_sum_exp(scores) - own)

    @jax.jit
    def ours(batch: Batch) -> tuple[Any, Any]:
        aim, critics = core.backup(nets.agent, batch, backup_key, ctx.sac, SPEC), nets.agent.critic.value
        loss, _ = core.critic_loss(critics, batch, aim, ctx.sac, SPEC)
        return aim, cql.CQL.critic_loss(loss, critics, batch, ctx)

    aim, loss = ours(batch)
    assert_same(aim, y)
    assert_same(loss, original)
