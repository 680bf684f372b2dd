"""Datasets by name: ROBOT-random, -medium, -expert, -medium-replay and -medium-expert, and those of a user's policy."""

import json
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..._util.errors import OffdynError, unknown
from ...envs import pairs
from ...envs.pairs import Pair
from ...envs.robots import ROBOTS
from ...policies.trained import Policies
from ...training.progress import Progress, Quiet
from ...training.run_folder import RunFolder
from ..datasets import Dataset, join, load, made_here, save
from ..datasets.opening import QUALITIES
from .episodes import Act, bodies_for, play, uniform, without_unfinished
from .snapshots import Behaviour, draw, read_behaviour

STEPS = 1_000_000
RECIPE = 1  # raised whenever the same seed and policy would give other rows
COLLECTING = 4  # the role in (seed, role, ...) that seeds starts; training, evaluation and picking use 0 to 3


@dataclass(frozen=True)
class Plan:
    """What a dataset will be: everything its rows depend on, and how to make them."""

    name: str
    recipe: Mapping[str, Any]  # goes into the card: a file with the same one is the same file
    make: Callable[[], Dataset]


@dataclass(frozen=True)
class Collector:
    """Where datasets go, and what is common to all of them."""

    out: Path
    steps: int | None = None  # None: a million, and of medium-replay all
    seed: int = 0
    behaviours: Path | None = None  # None: the shipped ones
    threads: int | None = None
    progress: Progress = Quiet()  # noqa: RUF009 (it has no state)

    def collect(self, *names: str) -> list[Path]:
        """Make and write these datasets, those aside whose very file is there; none, where one cannot be made."""
        return [self._write(plan) for plan in [self._plan(name) for name in names]]

    def collect_policy(self, policy: Path, name: str, task: str | Pair | None = None) -> Path:
        """Rows of a run's policy, or of a policy's file, in any body of its robot."""
        if not re.fullmatch(r"\w[\w.+-]*", name) or re.search(r"-v\d+$", name):
            raise OffdynError(
                f"--name {name}: expected letters, digits and . _ + -, and no -v2 at its end: that is D4RL's"
            )
        path = policy
        if policy.is_dir():
            task = RunFolder.open(policy).config.task if task is None else task
            path = policy / "policy.safetensors"
        behaviour = read_behaviour(path)
        task = behaviour.about.get("robot") if task is None else task
        if task is None:
            raise OffdynError(
                f"--policy {policy}: in which body shall it act? Say --task NAME; `offdyn list` prints them"
            )
        return self._write(self._of_policy(name, pairs.find(task), behaviour))

    def _plan(self, name: str) -> Plan:
        robot, quality = split(name)
        task = pairs.find(robot)
        if quality == "random":
            said = "actions drawn uniformly from [-1, 1]"
            return self._simple(name, task, uniform(pairs.spec_of(task).action_size), None, {"made": said})
        if quality == "medium-expert":
            return self._joined(name, task, [self._plan(f"{robot}-{part}") for part in ("medium", "expert")])
        if quality == "medium-replay":
            return self._replay(name, task)
        return self._of_policy(name, task, self._behaviour(robot, quality))

    def _behaviour(self, robot: str, quality: str) -> Behaviour:
        shipped = Path(str(resources.files("offdyn.data") / "behaviours"))
        path = (self.behaviours or shipped) / f"{robot}-{quality}.safetensors"
        if not path.exists():
            raise OffdynError(
                f"{path}: no such behaviour policy; `offdyn collect --train DIR --robots {robot}` trains it, "
                "--behaviours DIR/behaviours uses it"
            )
        return read_behaviour(path)

    def _simple(self, name: str, task: Pair, act: Act, sha256: str | None, card: Mapping[str, Any]) -> Plan:
        rows = self.steps or STEPS
        recipe = self._recipe(task, rows, sha256) | {"bodies": bodies_for(rows)}

        def make() -> Dataset:
            seed = self.seed, COLLECTING, zlib.crc32(name.encode())
            dataset = play(task, act, rows, seed, threads=self.threads, advanced=self._watch(rows))[:rows]
            return dataset.described(**_body(task), policy_sha256=sha256, seed=self.seed, stochastic=True, **card)

        return Plan(name, recipe, make)

    def _of_policy(self, name: str, task: Pair, behaviour: Behaviour) -> Plan:
        _check_fits(behaviour, task)
        about = behaviour.about
        trained, level = about.get("training_step"), about.get("return_mean")
        when = "" if trained is None else f" after {trained} steps of training"
        score = "" if level is None else f" (stochastic return {level:.0f} in {about['return_episodes']} episodes)"
        card = {
            "made": f"actions drawn from the policy of {about.get('run')}{when}{score}",
            "quality": about.get("quality"),
            "level_wanted": about.get("level_wanted"),
            "level_met": about.get("level_met"),
            "level_reached": level,
            "training_step": trained,
            "picked": about.get("picked"),
        }
        return self._simple(name, task, _drawn(behaviour.policies), behaviour.sha256, card)

    def _replay(self, name: str, task: Pair) -> Plan:
        """What a training collected on its way to medium; of fewer steps the newest."""
        path = None if self.behaviours is None else self.behaviours / f"{name}.safetensors"
        if path is None or not path.exists():
            raise OffdynError(
                f"{name}: it is what a training collected on its way to medium, which no policy can play; "
                f"`offdyn collect {name} --train DIR` trains, and makes it"
            )
        whole = load(path)
        part = whole[-self.steps :] if self.steps else whole
        recipe = self._recipe(task, len(part), None) | {"replay_sha256": whole.card["sha256"]}
        return Plan(name, recipe, lambda: part)

    def _joined(self, name: str, task: Pair, parts: Sequence[Plan]) -> Plan:
        def make() -> Dataset:
            made = [self._made(part) for part in parts]
            whole = [without_unfinished(part) for part in made]
            if not all(map(len, whole)):
                raise OffdynError(f"{name}: no episode ended within {len(made[0])} steps; ask for more with --steps")
            cut = [len(part) - len(rest) for part, rest in zip(made, whole, strict=True)]
            kept = ("name", "policy_sha256", "level_wanted", "level_met", "level_reached", "training_step", "picked")
            cards = [
                {key: part.card.get(key) for key in kept}
                | {"name": plan.name, "steps": len(part), "rows_cut": rows_cut}
                for plan, part, rows_cut in zip(parts, whole, cut, strict=True)
            ]
            said = " and ".join(f"{card['name']} ({card['steps']} transitions)" for card in cards)
            return join(whole).described(
                **_body(task), policy_sha256=[card["policy_sha256"] for card in cards], seed=self.seed, stochastic=True,
                made=f"{said} one after the other, each without its last, unfinished episode",
                quality="medium-expert", parts=cards,
            )  # fmt: skip

        recipe = {"parts": [dict(part.recipe) for part in parts]}
        return Plan(name, recipe, make)

    def _recipe(self, task: Pair, rows: int, sha256: str | None) -> dict[str, Any]:
        body = _body(task)
        engine = {"model": body["model"], "mujoco": body["mujoco"]}
        return {"recipe": RECIPE, "task": task.name, **engine, "rows": rows, "seed": self.seed, "policy_sha256": sha256}

    def _watch(self, total: int) -> Callable[[int], None]:
        started, told = time.perf_counter(), 0

        def advanced(rows: int) -> None:
            nonlocal told
            if told < min(rows, total):  # what comes beyond the total, to end the episodes, is not told
                told = min(rows, total)
                self.progress.advanced(told, total, time.perf_counter() - started)

        return advanced

    def _path(self, plan: Plan) -> Path:
        return self.out / f"{plan.name}.safetensors"

    def _made(self, plan: Plan) -> Dataset:
        """From its file, where that is there."""
        path = self._path(plan)
        if path.exists() and (found := load(path)).card.get("recipe") == _as_stored(plan.recipe):
            return found
        self.progress.say(f"{plan.name} ...")
        return plan.make()

    def _write(self, plan: Plan) -> Path:
        path = self._path(plan)
        if path.exists():
            recipe = load(path).card.get("recipe")
            if recipe != _as_stored(plan.recipe):
                raise OffdynError(f"{path} is there, and of another recipe ({_difference(recipe, plan.recipe)}): "
                                  "delete it, or choose another --out")  # fmt: skip
            self.progress.say(f"{path} is there already, made just so: kept")
            return path
        self.progress.say(f"{plan.name} ...")
        written = save(plan.make().described(name=plan.name, recipe=dict(plan.recipe)), path)
        card = written.card
        score = "" if card["return_mean"] is None else f"return {card['return_mean']:.1f} +- {card['return_std']:.1f}"
        self.progress.say(f"{path}: {card['steps']} transitions, {card['episodes']} episodes, {score}")
        return path


def split(name: str) -> tuple[str, str]:
    """ROBOT-QUALITY as robot and quality."""
    for quality in sorted(QUALITIES, key=len, reverse=True):
        robot = name.removesuffix(f"-{quality}")
        if robot != name and (robot in ROBOTS or robot in pairs.WORLDS):
            return robot, quality
    raise unknown("dataset to collect", name, [f"{robot}-{q}" for robot in ROBOTS for q in QUALITIES])


def expand(names: Sequence[str]) -> list[str]:
    """ROBOT-all as all of that robot's."""
    every = [
        f"{name.removesuffix('-all')}-{quality}" if name.endswith("-all") else name
        for name in names
        for quality in (QUALITIES if name.endswith("-all") else QUALITIES[:1])
    ]
    return list(dict.fromkeys(every))


def _drawn(policies: Policies) -> Act:
    size = policies.sizes[1]

    def act(observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        noise = generator.standard_normal((len(observation), size), np.float32)
        return draw(policies, observation, noise)

    return act


def _check_fits(behaviour: Behaviour, task: Pair) -> None:
    about, spec, policies = behaviour.about, pairs.spec_of(task), behaviour.policies
    sizes = policies.sizes
    robot = about.get("robot", pairs.family_of(task))
    if sizes != (spec.observation_size, spec.action_size) or robot != pairs.family_of(task):
        raise OffdynError(
            f"the policy of {about.get('run')} takes {sizes[0]} observations and gives {sizes[1]} actions, "
            f"{task.name} has {spec.observation_size} and {spec.action_size}: choose a task of the policy's robot"
        )
    if policies.std_head is None:
        raise OffdynError(f"the policy of {about.get('run')} was saved without its std head: no actions can be drawn")


def _body(task: Pair) -> dict[str, Any]:
    if isinstance(task, pairs.World | pairs.OwnPair):
        return {"robot": task.name, "shift": None, "model": None, "mujoco": None, "licence": None}
    return made_here(task)


def _as_stored(recipe: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(recipe))


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, Mapping) or set(found) != set(wanted):
        return "its card gives none like it"
    now = _as_stored(wanted)
    return ", ".join(f"{key} was {found[key]}, now {now[key]}" for key in now if found[key] != now[key])
