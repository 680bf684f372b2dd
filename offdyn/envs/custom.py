"""A custom pair: two Gymnasium environments, or a dataset and one, by whatever names them."""

import difflib
import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from .._util.errors import OffdynError, unknown
from .._util.fields import MOST
from .._util.types import Array, Spec
from . import batched
from .custom_env import Interface, interface_of
from .effects import Effects, Shifted, effects_from_text

Factory = Callable[[], gymnasium.Env]
KEYS = ("name", "source", "target", "time_limit", "observation", "action_low", "action_high", "batch")
EXAMPLE = '"Pendulum-v1?delay=2"'  # of effects behind a name, as a shell wants it
FROM_PYTHON = "python:"  # begins the reference of a function that no name leads to
GIVEN: dict[str, Factory] = {}  # such functions, by reference, as far as this process was given them


class EnvironmentFailed(OffdynError):
    """An environment raised, or gave what no environment may give; the message says which, when and what."""


def never_known(next_observation: Array) -> Array:
    """Of a general environment nobody says which observations end an episode."""
    return next_observation[..., 0] != next_observation[..., 0]


@dataclass(frozen=True)
class OwnPair:
    """Two environments by reference, and what both look like: known without making them, once they were made."""

    name: str
    source: str | None  # a Gymnasium id or module:function; None: there is none, or a dataset is in its place
    target: str
    time_limit: int
    observation: tuple[tuple[str, int], ...]  # the parts of a flat observation, in order, and their sizes
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    # Environments that a batched source steps at once; batched.ANY: as many as it is asked for; None: not batched.
    batch: int | None = None

    @property
    def spec(self) -> Spec:
        size = sum(part for _, part in self.observation)
        return Spec(size, len(self.action_low), size, self.time_limit, never_known)

    @property
    def interface(self) -> Interface:
        return Interface(self.observation, self.action_low, self.action_high)

    def reference(self, role: str) -> str:
        wanted = self.target if role == "target" else self.source
        if wanted is None:
            raise OffdynError(f"{self.name} has no source to act in: name one with --source")
        return wanted

    def to_mapping(self) -> dict[str, Any]:
        """As YAML has it; `from_mapping` reads it back and makes no environment."""
        plain = {key: getattr(self, key) for key in KEYS if key != "batch" or self.batch is not None}
        plain["observation"] = [list(part) for part in self.observation]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def pair_of(
    source: str | Factory | None, target: str | Factory, time_limit: int | None = None, name: str | None = None
) -> OwnPair:
    """The pair of these environments; each is made once, looked at and closed."""
    target_reference = reference_of(target, "target")
    seen, limit, _ = look_at(target_reference, "target")
    source_reference = None if source is None else reference_of(source, "source")
    batch = None
    if source_reference is not None:
        its, its_limit, batch = look_at(source_reference, "source")
        its = batched.fitted(its, seen)
        if (difference := its.difference(seen)) is not None:
            raise OffdynError(
                f"source {source_reference} and target {target_reference} must look alike to one policy, but "
                f"{difference}; wrap one of them until they agree"
            )
        if time_limit is None and limit != its_limit and (batch is None or its_limit is not None):
            raise OffdynError(
                f"source {source_reference} and target {target_reference} have the time limits {its_limit} and "
                f"{limit}: say which with --time-limit N"
            )
    limit = _whole(time_limit) if time_limit is not None else limit
    if limit is None:
        raise OffdynError(f"target {target_reference} says nothing of a time limit: give one with --time-limit N")
    shown = [_short(reference, role) for reference, role in ((source_reference, "source"), (target_reference, "target"))
             if reference is not None]  # fmt: skip
    return OwnPair(name or "-to-".join(shown), source_reference, target_reference, limit, *seen, batch)


def alone(target: str | Factory) -> OwnPair:
    """A target without a source, made once; what its time limit is does not matter."""
    reference = reference_of(target, "target")
    seen, limit, _ = look_at(reference, "target")
    return OwnPair(_short(reference, "target"), None, reference, limit or sys.maxsize, *seen)


def from_mapping(content: Mapping[str, Any]) -> OwnPair:
    """What `to_mapping` gave, or only `source`, `target` and perhaps `time_limit`: then the two are made once."""
    for key in content:
        if key not in KEYS:
            raise OffdynError(f"custom environments: {unknown('key', str(key), KEYS)}")
    if "observation" not in content:
        asked = {key: content.get(key) for key in ("source", "target", "time_limit", "name")}
        return pair_of(**asked)  # type: ignore[arg-type]  # references are checked there
    try:
        return OwnPair(
            str(content["name"]),
            content["source"],
            str(content["target"]),
            int(content["time_limit"]),
            tuple((str(part), int(size)) for part, size in content["observation"]),
            tuple(map(float, content["action_low"])),
            tuple(map(float, content["action_high"])),
            content.get("batch"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OffdynError(f"custom environments: not what was written ({error!r})") from None


def source_of(pair: OwnPair) -> OwnPair:
    """The pair whose target is this one's source."""
    source = pair.reference("source")
    if pair.batch is not None:
        raise OffdynError(
            f"{source} steps many environments at once and cannot stand for a target: train sac-src with this source "
            "and this target, then name its run with --start-from"
        )
    return replace(pair, name=_short(source, "source"), source=source, target=source)


class Look(NamedTuple):
    """What an environment looks like, its time limit, where it has one, and how many it steps at once."""

    interface: Interface
    limit: int | None
    batch: int | None = None  # as in a pair


@functools.cache
def look_at(reference: str, role: str) -> Look:
    """The environment is made, looked at and closed; a simulator that takes no number stays for the training."""
    takes_count = role == "source" and batched.takes_count(factory_of(reference, role))
    made = _made(reference, role, **{"num_envs": batched.TRIED} if takes_count else {})
    who, keep = f"{role} {reference}", False
    try:
        if isinstance(made, gymnasium.Env):
            _refuse_images(made.observation_space, who)
            return Look(interface_of(made.observation_space, made.action_space, who), _limit(made, reference))
        batch = _adapted(made, reference, role)
        count = batched.ANY if takes_count or batched.is_stateless(made) else batch.count
        if keep := count != batched.ANY:
            batched.KEPT[reference] = made
        return Look(batch.interface, _limit(made, reference) if reference.startswith(batched.VEC) else None, count)
    finally:
        if not keep and hasattr(made, "close"):
            made.close()


def make(reference: str, role: str, **options: Any) -> gymnasium.Env:
    """A new environment; whatever it raises becomes a sentence."""
    env = _made(reference, role, **options)
    if not isinstance(env, gymnasium.Env):
        raise OffdynError(f"{role} {reference}: expected it to return a gymnasium.Env, it gave {type(env).__name__}")
    return env


def _made(reference: str, role: str, **options: Any) -> Any:
    try:
        return factory_of(reference, role)(**options)
    except OffdynError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailed(f"{role} {reference} cannot be made: {type(error).__name__}: {error}") from error


def open_batch(pair: OwnPair, count: int, apart: bool) -> batched.Batch:
    """A simulator of so many environments of the pair's source."""
    reference = pair.reference("source")
    options: dict[str, Any] = {} if pair.batch else {"num_envs": count}
    if reference.startswith(batched.VEC):
        options |= {"limit": pair.time_limit, "apart": apart}
    if reference in batched.KEPT:
        made = batched.KEPT.pop(reference)
    else:
        made = _made(reference, "source", **options if batched.takes_count(factory_of(reference, "source")) else {})
    batch = _adapted(made, reference, "source", count, pair.time_limit)
    found = batched.fitted(batch.interface, pair.interface)
    difference = pair.interface.difference(found)
    if difference is None and batch.count != count:
        difference = f"it steps {batch.count} environments at once, not {count}"
    if difference is not None:
        batch.close()
        raise OffdynError(f"it is not the simulator the training began with: {difference}")
    return batch


def _adapted(made: Any, reference: str, role: str, count: int = batched.TRIED, limit: int = 1) -> batched.Batch:
    try:
        batch = batched.adapted(made, f"{role} {reference}", count, limit)
    except OffdynError:
        raise
    except Exception as error:
        raise EnvironmentFailed(f"{role} {reference}: {type(error).__name__}: {error}") from error
    if batch is None:
        raise OffdynError(
            f"{role} {reference}: expected it to return a gymnasium.Env"
            + (" or a batched simulator" if role == "source" else "")
            + f", it gave {type(made).__name__}"
        )
    if role != "source":
        raise OffdynError(
            f"{role} {reference}: it steps many environments at once, as a source may; expected one gymnasium.Env"
        )
    return batch


def factory_of(reference: str, role: str) -> Factory:
    """What makes the environment. Time limits of ids are left to us: bodies start staggered."""
    if reference in GIVEN:
        return GIVEN[reference]
    if reference.startswith(FROM_PYTHON):
        raise OffdynError(
            f"{role} {reference.removeprefix(FROM_PYTHON)}: a Python function that no name leads to; give it again, "
            "offdyn.resume(OUT, source=..., target=...), or put it into a module and name it module:function"
        )
    if (simulator := batched.prefixed(reference)) is not None:
        return simulator
    plain, asked, effects = reference.partition("?")
    if asked:
        factory = factory_of(plain, role)
        try:
            return _behind(factory, effects_from_text(effects))
        except OffdynError as error:
            raise OffdynError(f"{role} {reference}: {error}") from None
    module, colon, name = reference.partition(":")
    if colon and (found := in_module(module, name, reference, role)) is not None:
        return found
    if (known := _registered(reference)) is None:
        raise OffdynError(f"{role} {reference}: {_no_such(reference, role)}")
    return functools.partial(gymnasium.make, known, max_episode_steps=-1, disable_env_checker=True)


def _behind(factory: Factory, effects: Effects) -> Factory:
    @functools.wraps(factory)  # so that whoever asks learns what it takes
    def make(**options: Any) -> gymnasium.Env:
        env = factory(**options)
        if not isinstance(env, gymnasium.Env):
            raise OffdynError(f"effects stand before one gymnasium.Env, it gave {type(env).__name__}")
        return Shifted(env, **effects.to_mapping())

    return make


def reference_of(wanted: str | Factory, role: str) -> str:
    """Text as it is; a function by the name under which another process finds it, else one we keep in mind."""
    if isinstance(wanted, str) and wanted:
        return wanted
    if isinstance(wanted, gymnasium.Env):
        raise OffdynError(
            f"{role}: expected a function that makes the environment, since training makes several; got one that is "
            f"made: say {role}=lambda: ..., or name it"
        )
    if not callable(wanted):
        raise OffdynError(f"{role}: expected a Gymnasium id, module:function or a function, got {wanted!r}")
    module, name = getattr(wanted, "__module__", None), getattr(wanted, "__qualname__", None)
    found: Any = sys.modules.get(module or "") if module != "__main__" else None
    for part in (name or "").split("."):
        found = getattr(found, part, None)
    if found is wanted:
        return f"{module}:{name}"
    reference = f"{FROM_PYTHON}{role} {name or type(wanted).__name__}"
    GIVEN[reference] = wanted
    look_at.cache_clear()
    return reference


def is_dataset(wanted: object) -> bool:
    """Whether a source is a file, a folder or a name of a dataset rather than an environment."""
    if isinstance(wanted, Path):
        return True
    if not isinstance(wanted, str) or _registered(wanted) is not None:
        return False
    if wanted.startswith(("minari:", "lerobot:")) or wanted.endswith((".safetensors", ".hdf5", ".h5")):
        return True
    if Path(wanted).exists():
        return True
    return ":" not in wanted and (Path(os.environ.get("OFFDYN_DATA") or "data") / f"{wanted}.safetensors").is_file()


def names_environment(wanted: object) -> bool:
    """Whether it is an environment's reference, or a function that makes one, rather than a task's name or file."""
    if not isinstance(wanted, str):
        return callable(wanted)
    return not wanted.endswith((".yaml", ".yml")) and (":" in wanted or _registered(wanted) is not None)


def _registered(reference: str) -> str | None:
    try:
        return gymnasium.spec(reference.partition("?")[0]).id
    except (gymnasium.error.Error, ModuleNotFoundError):
        return None


def in_module(module: str, name: str, reference: str, role: str) -> Factory | None:
    """The function; None where the module only registers an id of that name."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # as `python -m` has it
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise OffdynError(
            f"{role} {reference}: module '{module}' cannot be imported from here ({type(error).__name__}: {error})"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None and _registered(name) is not None:
        return functools.partial(gymnasium.make, name, max_episode_steps=-1, disable_env_checker=True)
    if not callable(found):
        raise OffdynError(f"{role} {reference}: no function '{name}' in module '{module}'")
    return found


def _no_such(reference: str, role: str) -> str:
    near = difflib.get_close_matches(reference, list(gymnasium.registry), n=3, cutoff=0.5)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    data = ", or a dataset" if role == "source" else ""
    expected = f"expected a Gymnasium id or module:function{data}; effects follow a ?: {EXAMPLE}"
    return f"no environment has this id{hint}; {expected}"


def _refuse_images(space: gymnasium.Space, who: str) -> None:
    """A Box of bytes with three dimensions or more is a picture, which would be flattened as any other."""
    if isinstance(space, gymnasium.spaces.Dict):
        for part in space.spaces.values():
            _refuse_images(part, who)
    if isinstance(space, gymnasium.spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 3:
        raise OffdynError(
            f"{who}: it shows images of {' x '.join(map(str, space.shape))}; policies here see vectors of numbers: use "
            "a variant that shows positions and velocities, or encode each image as a vector with "
            "gymnasium.wrappers.TransformObservation"
        )


def _limit(env: gymnasium.Env, reference: str) -> int | None:
    """As the environment says; where we left its wrapper out, as its registration does."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    known = _registered(reference.rpartition(":")[2]) or _registered(env.spec.id if env.spec else reference)
    return None if known is None else gymnasium.spec(known).max_episode_steps


def _whole(value: Any) -> int:
    try:
        if isinstance(value, bool) or float(value) != int(float(value)) or not 1 <= int(float(value)) <= MOST:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise OffdynError(f"time_limit: expected a whole number from 1 to {MOST}, got {value!r}") from None
    return int(float(value))


def _short(reference: str, role: str) -> str:
    """For names of folders."""
    if reference.startswith(FROM_PYTHON):
        name = reference.removeprefix(f"{FROM_PYTHON}{role} ").rpartition(".")[2]
        return role if "<" in name or name == "partial" else re.sub(r"[^A-Za-z0-9_+-]", "_", name)
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", reference.rpartition(":")[2].rpartition("/")[2])
