"""The losses and one whole update in NumPy, written from the paper's and SAC's formulas.

Only the random draws are taken from JAX: which rows an update samples and the noise of its actions.
"""

from typing import Any

import jax
import numpy as np

from offdyn.learning.sac import hook_key
from offdyn.types import Batch, Spec

from .in_numpy import (
    ACTIVATION,
    Adam,
    average_l1,
    clipped,
    flat,
    flat_twins,
    forward,
    network,
    q,
    slope,
    smaller,
    squashed_sample,
)


class Formulas:
    """Every loss, for given settings."""

    def __init__(self, spec: Spec, sac: Any, hyper: Any = None, method: str = "sac") -> None:
        self.spec, self.sac, self.hyper, self.method = spec, sac, hyper, method
        s, a = spec.observation_size, spec.action_size
        self.actor_sizes = (s, *sac.actor_widths, 2 * a)
        self.critic_sizes = (s + a, *sac.critic_widths, 1)
        if method != "sac":
            self.f_sizes = (s, *hyper.encoder_widths, hyper.code_size)
            self.g_sizes = ({"par": hyper.code_size, "par-b": s}[method] + a, *hyper.encoder_widths, hyper.code_size)

    def policy(self, actor: np.ndarray, s: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sac = self.sac
        return squashed_sample(network(actor, self.actor_sizes), s, noise, sac.log_std_low, sac.log_std_high)

    def twins(self, critics: np.ndarray, s: np.ndarray, a: np.ndarray) -> list[np.ndarray]:
        return [q(network(c, self.critic_sizes, self.sac.critic_layer_norm), s, a) for c in critics]

    def backup(self, actor: Any, targets: Any, temperature: float, rows: Batch, noise: np.ndarray) -> np.ndarray:
        action, log_pi = self.policy(actor, rows.next_observation, noise)
        value = smaller(*self.twins(targets, rows.next_observation, action))
        if self.sac.entropy_in_backup:
            value = value - temperature * log_pi
        return np.where(rows.terminated > 0.5, rows.reward, rows.reward + self.sac.discount * value)

    def critic_loss(self, critics: np.ndarray, rows: Batch, y: np.ndarray) -> np.ndarray:
        one, two = self.twins(critics, rows.observation, rows.action)
        return np.mean(rows.weight * (one - y) ** 2) + np.mean(rows.weight * (two - y) ** 2)

    def actor_loss(self, actor: Any, critics: Any, temperature: float, s: np.ndarray, noise: np.ndarray) -> Any:
        action, log_pi = self.policy(actor, s, noise)
        return np.mean(temperature * log_pi - smaller(*self.twins(critics, s, action)))

    def temperature_loss(self, log_temperature: np.ndarray, log_pi: np.ndarray) -> np.ndarray:
        """Zero slope where the entropy is the wanted one."""
        wanted = -self.spec.action_size if self.sac.target_entropy is None else self.sac.target_entropy
        return np.mean(-log_temperature * (log_pi + wanted))

    def code(self, f: np.ndarray, s: np.ndarray) -> np.ndarray:
        z = forward(network(f, self.f_sizes), s, ACTIVATION[self.hyper.encoder_activation])
        return average_l1(z) if self.hyper.normalise_code else z

    def errors(self, encoders: np.ndarray, rows: Batch, aim: np.ndarray | None = None) -> np.ndarray:
        """[n, code]: predicted minus actual code; `aim` holds the encoders that code the next state."""
        length = sum((i + 1) * o for i, o in zip(self.f_sizes[:-1], self.f_sizes[1:], strict=True))
        f, g = encoders[:length], encoders[length:]
        now = self.code(f, rows.observation) if self.method == "par" else rows.observation
        activation = ACTIVATION[self.hyper.encoder_activation]
        predicted = forward(network(g, self.g_sizes), np.hstack((now, rows.action)), activation)
        return predicted - self.code((encoders if aim is None else aim)[:length], rows.next_observation)

    def encoder_loss(self, encoders: np.ndarray, rows: Batch, aim: np.ndarray | None = None) -> np.ndarray:
        """PAR's aim is frozen: a copy of the encoders; PAR-B's is not."""
        return np.mean(self.errors(encoders, rows, aim) ** 2)

    def deviation(self, encoders: np.ndarray, rows: Batch) -> np.ndarray:
        """[n]: what the penalty's weight multiplies."""
        return (self.errors(encoders, rows) ** 2).mean(1)


class Twin:
    """All networks of one run, moved by `update` alone."""

    def __init__(self, formulas: Formulas, agent: Any, learned: Any, source: Any, target: Any) -> None:
        self.formulas, sac, hyper = formulas, formulas.sac, formulas.hyper
        self.replays = [Batch(*map(np.asarray, replay.view(replay.rows))) for replay in (source, target)]
        self.actor = Adam(flat(agent.actor.value), sac.actor_learning_rate)
        self.critic = Adam(flat_twins(agent.critic.value), sac.critic_learning_rate)
        self.target_critic = flat_twins(agent.target_critic)
        self.log_temperature = Adam(agent.log_temperature.value, sac.temperature_learning_rate)
        if formulas.method != "sac":
            self.encoders = Adam(flat(jax.tree.leaves(learned.live.value)), hyper.encoder_learning_rate)
            self.slow = self.encoders.value
        self.penalties = np.zeros(0)

    def drawn(self, role: int, key: jax.Array, count: int) -> Batch:
        rows = self.replays[role]
        index = np.asarray(jax.random.randint(key, (count,), 0, len(rows.reward)))
        return Batch(*(column[index] for column in rows))

    def update(self, key: jax.Array, step: int) -> None:
        maths, sac, hyper = self.formulas, self.formulas.sac, self.formulas.hyper
        source = self.drawn(0, hook_key(key, "source rows"), sac.batch_size)
        target = self.drawn(1, hook_key(key, "target rows"), sac.batch_size)
        if maths.method != "sac":
            if step % hyper.encoder_interval == 0:
                rows = self.drawn(1, hook_key(key, "learn"), hyper.encoder_batch)
                aim = self.encoders.value.copy() if maths.method == "par" else None
                self.encoders.step(slope(lambda v: maths.encoder_loss(v, rows, aim), self.encoders.value))
            measuring = self.slow if hyper.slow_encoder else self.encoders.value
            self.penalties = hyper.penalty * maths.deviation(measuring, source)
            source = source._replace(reward=source.reward - self.penalties)
        rows = Batch(*map(np.concatenate, zip(source, target, strict=True)))
        shape = (len(rows.reward), maths.spec.action_size)

        noise = np.asarray(jax.random.normal(hook_key(key, "backup"), shape))
        temperature = np.exp(self.log_temperature.value)
        y = maths.backup(self.actor.value, self.target_critic, temperature, rows, noise)
        gradient = slope(lambda v: maths.critic_loss(v, rows, y), self.critic.value)
        self.critic.step(clipped(gradient, sac.gradient_clip))
        self.target_critic = (1 - sac.target_rate) * self.target_critic + sac.target_rate * self.critic.value
        if maths.method != "sac":
            self.slow = (1 - hyper.slow_rate) * self.slow + hyper.slow_rate * self.encoders.value

        if step % sac.actor_interval:
            return
        noise = np.asarray(jax.random.normal(hook_key(key, "actor"), shape))
        _, log_pi = maths.policy(self.actor.value, rows.observation, noise)
        gradient = slope(
            lambda v: maths.actor_loss(v, self.critic.value, temperature, rows.observation, noise), self.actor.value
        )
        self.actor.step(clipped(gradient, sac.gradient_clip))
        if sac.tune_temperature:
            self.log_temperature.step(slope(lambda v: maths.temperature_loss(v, log_pi), self.log_temperature.value))
