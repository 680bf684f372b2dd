"""The losses and one whole update in NumPy, written from the paper's and SAC's formulas.

Only the random draws are taken from JAX: which transitions an update samples, the noise of its actions and which
critics make its backup.
"""

from typing import Any

import jax
import numpy as np

from offdyn._util.types import Batch, Spec
from offdyn.algos.sac import hook_key

from .in_numpy import Adam, Net, average_l1, clipped, flat, flat_stack, least, slope, squashed_sample


class Formulas:
    """Every loss, for given settings."""

    def __init__(self, spec: Spec, sac: Any, hyper: Any = None, method: str = "sac") -> None:
        self.spec, self.sac, self.hyper, self.method = spec, sac, hyper, method
        s, a = spec.observation_size, spec.action_size
        blocks, seen = sac.backbone == "simba", sac.domain_input
        norm = "before" if sac.backbone == "ensemble" else "after" if sac.critic_layer_norm else "none"
        self.actor = Net((s, *sac.actor_widths, 2 * a), blocks=blocks, domain=seen)
        self.critic = Net((s + a, *sac.critic_widths, 1), norm, blocks=blocks, domain=seen)
        if method != "sac":
            sees = {"par": hyper.code_size, "par-b": s}[method]
            self.f = Net((s, *hyper.encoder_widths, hyper.code_size), activation=hyper.encoder_activation)
            self.g = Net((sees + a, *hyper.encoder_widths, hyper.code_size), activation=hyper.encoder_activation)

    def policy(
        self, actor: np.ndarray, s: np.ndarray, noise: np.ndarray, domain: Any = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        return squashed_sample(self.actor.apply(actor, s, domain), noise, self.sac.log_std_low, self.sac.log_std_high)

    def values(self, critics: np.ndarray, s: np.ndarray, a: np.ndarray, domain: Any = 0.0) -> list[np.ndarray]:
        """Of each critic."""
        return [self.critic.apply(critic, np.hstack((s, a)), domain)[:, 0] for critic in critics]

    def temperature(self, temperature: np.ndarray, domain: Any) -> np.ndarray:
        """Of each transition, where each domain, the target first, has one."""
        return np.where(domain == 1, temperature[1], temperature[0]) if np.ndim(temperature) else temperature

    def draws(self, key: jax.Array, rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The noise of a backup's actions, and the critics it takes the minimum of; None: all."""
        chosen = None
        if self.sac.backup_critics is not None:
            key, draw = jax.random.split(key)
            chosen = jax.random.choice(draw, self.sac.critics, (self.sac.backup_critics,), replace=False)
        noise = jax.random.normal(key, (rows, self.spec.action_size))
        return np.asarray(noise, float), None if chosen is None else np.asarray(chosen)

    def backup(self, actor: Any, targets: Any, temperature: float, rows: Batch, draws: Any) -> np.ndarray:
        noise, chosen = draws
        action, log_pi = self.policy(actor, rows.next_observation, noise, rows.domain)
        targets = targets if chosen is None else targets[chosen]
        value = least(self.values(targets, rows.next_observation, action, rows.domain))
        if self.sac.entropy_in_backup:
            value = value - self.temperature(temperature, rows.domain) * log_pi
        return np.where(rows.terminated > 0.5, rows.reward, rows.reward + self.sac.discount * value)

    def critic_loss(self, critics: np.ndarray, rows: Batch, y: np.ndarray) -> np.ndarray:
        every = self.values(critics, rows.observation, rows.action, rows.domain)
        return sum(np.mean(rows.weight * (value - y) ** 2) for value in every)

    def climbed(self, critics: np.ndarray, s: np.ndarray, action: np.ndarray, domain: Any = 0.0) -> np.ndarray:
        """[n]: what the actor climbs."""
        every = self.values(critics, s, action, domain)
        return least(every) if self.sac.actor_value == "min" else sum(every) / len(every)

    def actor_loss(
        self, actor: Any, critics: Any, temperature: float, s: np.ndarray, noise: np.ndarray, domain: Any = 0.0
    ) -> Any:
        action, log_pi = self.policy(actor, s, noise, domain)
        return np.mean(self.temperature(temperature, domain) * log_pi - self.climbed(critics, s, action, domain))

    def temperature_loss(self, log_temperature: np.ndarray, log_pi: np.ndarray, domain: Any) -> np.ndarray:
        """Zero slope where the entropy, of each domain if each has a temperature, is the wanted one."""
        if log_temperature.ndim:
            return sum(self.temperature_loss(each, log_pi[domain == d], d) for d, each in enumerate(log_temperature))
        sac = self.sac
        wanted = sac.entropy_per_action * self.spec.action_size if sac.target_entropy is None else sac.target_entropy
        return np.mean(-log_temperature * (log_pi + wanted))

    def code(self, f: np.ndarray, s: np.ndarray) -> np.ndarray:
        z = self.f.apply(f, s)
        return average_l1(z) if self.hyper.normalise_code else z

    def errors(self, encoders: np.ndarray, rows: Batch, aim: np.ndarray | None = None) -> np.ndarray:
        """[n, code]: predicted minus actual code; `aim` holds the encoders that code the next state."""
        f, g = np.split(encoders, [self.f.length])
        now = self.code(f, rows.observation) if self.method == "par" else rows.observation
        predicted = self.g.apply(g, np.hstack((now, rows.action)))
        return predicted - self.code((encoders if aim is None else aim)[: self.f.length], rows.next_observation)

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
        columns = [replay.view(replay.packed)._asdict() for replay in (source, target)]
        self.replays = [
            Batch(
                **{name: np.asarray(column) for name, column in each.items()}
                | {"domain": np.full(len(each["reward"]), d)}
            )
            for each, d in zip(columns, (1.0, 0.0), strict=True)
        ]
        self.actor = Adam(flat(agent.actor.value), sac.actor_learning_rate, sac.weight_decay)
        self.critic = Adam(flat_stack(agent.critic.value), sac.critic_learning_rate, sac.weight_decay)
        self.target_critic = flat_stack(agent.target_critic)
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
        count = len(rows.reward)

        temperature = np.exp(self.log_temperature.value)
        draws = maths.draws(hook_key(key, "backup"), count)
        y = maths.backup(self.actor.value, self.target_critic, temperature, rows, draws)
        # A critic's part of the loss is its own.
        gradient = np.stack(
            [slope(lambda v: maths.critic_loss(v[None], rows, y), critic) for critic in self.critic.value]
        )
        self.critic.step(clipped(gradient, sac.gradient_clip))
        self.target_critic = (1 - sac.target_rate) * self.target_critic + sac.target_rate * self.critic.value
        if maths.method != "sac":
            self.slow = (1 - hyper.slow_rate) * self.slow + hyper.slow_rate * self.encoders.value

        if step % sac.actor_interval:
            return
        noise = np.asarray(jax.random.normal(hook_key(key, "actor"), (count, maths.spec.action_size)))
        critics, states, domain = self.critic.value, rows.observation, rows.domain
        _, log_pi = maths.policy(self.actor.value, states, noise, domain)
        gradient = slope(lambda v: maths.actor_loss(v, critics, temperature, states, noise, domain), self.actor.value)
        self.actor.step(clipped(gradient, sac.gradient_clip))
        if sac.tune_temperature:
            self.log_temperature.step(
                slope(lambda v: maths.temperature_loss(v, log_pi, domain), self.log_temperature.value)
            )
