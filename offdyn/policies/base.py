"""A frozen policy of the user's as the base of a run: found, checked, and asked for its actions.

It is an ONNX file, the folder of a run or of an export of ours, or a Python function. It takes flat observations
[n, S] in float32, as exports do, and gives actions [n, A] in the environment's own units. What it gives beyond the
bounds of the action space is clipped, as environments do.
"""

import hashlib
import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from .._util import files
from .._util.errors import OffdynError, check_format
from ..envs import custom, pairs
from ..envs.custom import EnvironmentFailed
from ..envs.residual import Residual
from .trained import Policies, Policy, action_range, from_file

if TYPE_CHECKING:
    from ..data.datasets import Dataset

REACH = 0.3  # of a residual, where nobody says
ROLE = "base policy"
EXPECTED = "expected an ONNX file, the folder of a run or of an export, or module:function"
ONNX, NETWORK = "policy.onnx", "policy.safetensors"  # in the folder of an export, the second in that of a run, too
EXPECTED_OUTPUTS = ("action", "actions")  # of an ONNX file with several
TRIED = 3  # made-up observations that show whether it takes a batch
SAME = 1e-3  # of half an action's range: as far as a batch may differ from its observations one by one
ROUNDING = 1e-3  # by which a recorded action may pass what can be reached
LEAST = 0.5  # share of a dataset's transitions that must be within reach
AT_ONCE = 4096  # transitions of a dataset
CONFIG_FORMAT = 1  # of a run's config.yaml

Function = Callable[[np.ndarray], Any]


class Asked(NamedTuple):
    """What a run says of its base policy."""

    wanted: str
    sha256: str | None  # of its file, or of its function's source; None where there is none to be had
    reach: float


class Network(NamedTuple):
    """A base policy of ours: its layers, and the bounds [A] of its actions."""

    policies: Policies
    low: np.ndarray
    high: np.ndarray

    def act(self, observation: np.ndarray) -> np.ndarray:
        return (self.low + self.high) / 2 + (self.high - self.low) / 2 * self.policies(observation[None])[0]


def recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a base policy completed: how far its residual goes, and the hash of its file."""
    if values.get("base_policy") is None:
        raise OffdynError("setting residual: is for a base policy: name one with --base-policy FILE, too")
    reach = REACH if values.get("residual") is None else values["residual"]
    if "base_sha256" in values:  # of a run that was written down
        return {"residual": reach}
    return {"residual": reach, "base_sha256": fingerprint(values["base_policy"])}


def reference_of(wanted: Any) -> str:
    """Text or a path as it is, a function as `custom.reference_of` has it."""
    return str(wanted) if isinstance(wanted, str | Path) else custom.reference_of(wanted, ROLE)


def fingerprint(wanted: str) -> str | None:
    """The hash of what the name leads to; one that leads nowhere is refused."""
    if _is_function(wanted):
        function = _function(wanted)
        try:
            return _sha256(inspect.getsource(function if inspect.isroutine(function) else type(function)).encode())
        except (OSError, TypeError):
            return None
    file = file_of(wanted)
    beside = file.with_name(f"{file.name}.data")  # weights that ONNX keeps apart
    return _sha256(*(_content(path) for path in (file, beside) if path.exists()))


def file_of(wanted: str) -> Path:
    """The file that holds its numbers."""
    path = Path(wanted)
    if path.is_dir():
        found = [path / name for name in (ONNX, NETWORK) if (path / name).is_file()]
        if not found:
            raise OffdynError(f"{ROLE} {wanted}: a folder with neither {ONNX} nor {NETWORK}; {EXPECTED}")
        return found[0]
    if not path.exists():
        raise OffdynError(f"{ROLE} {wanted}: no such file; {EXPECTED}")
    if path.suffix.lower() != ".onnx":
        raise OffdynError(
            f"{ROLE} {wanted}: {EXPECTED}. Other files are not read, as many of them run code when they are: export "
            "the policy as ONNX (torch.onnx.export), or write a function that calls it"
        )
    return path


def is_network(wanted: str) -> bool:
    """Whether it is one of ours, in safetensors."""
    return not _is_function(wanted) and file_of(wanted).name == NETWORK


def is_onnx(wanted: str) -> bool:
    return not _is_function(wanted) and not is_network(wanted)


def open_residuals(asked: Sequence[tuple[Asked | None, pairs.Pair]]) -> list[Residual | None]:
    """Of each run; those that ask for the same share it."""
    opened: dict[Any, Residual] = {}
    for its, pair in asked:
        if its is not None and (its, pair.name) not in opened:
            opened[its, pair.name] = open_residual(its, pair)
    return [opened.get((its, pair.name)) for its, pair in asked]


def open_residual(asked: Asked, pair: pairs.Pair) -> Residual:
    """The base policy in the pair's bodies; one that is gone, was changed or does not fit is refused."""
    found = fingerprint(asked.wanted)
    if asked.sha256 not in (None, found):
        raise OffdynError(
            f"{ROLE} {asked.wanted}: was changed since the training began (sha256 {str(found)[:12]}, expected "
            f"{str(asked.sha256)[:12]}); put the old one back, or train anew with another --out"
        )
    base, spec = BasePolicy(asked.wanted, pair), pairs.spec_of(pair)
    base.try_out()
    return Residual(base, asked.reach, spec.observation_size, spec.action_size)


class BasePolicy:
    """Observations [n, S] to actions [n, A] in [-1, 1] of the pair's bounds; may be asked from several threads."""

    def __init__(self, wanted: str, pair: pairs.Pair) -> None:
        self.wanted = wanted
        self.sizes = pairs.spec_of(pair)[:2]
        self.low, self.high = pairs.action_bounds(pair)
        self.function = open_function(wanted, self.sizes)
        self._turn = threading.Lock()

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        if not len(observation):
            return np.zeros((0, self.sizes[1]))
        with np.errstate(over="ignore"):
            seen = np.asarray(observation, np.float32)
        given = self._given(seen)
        if not np.isfinite(given).all():
            broken = ~np.isfinite(given).all(axis=1)
            raise EnvironmentFailed(
                f"{ROLE} {self.wanted}: gave the action {given[broken][0]} for the observation {seen[broken][0]}; "
                "expected finite numbers"
            )
        return np.clip(2 * (given - self.low) / (self.high - self.low) - 1, -1.0, 1.0)

    def try_out(self) -> None:
        """Refuse one that does not give an action of the right size for each observation of a batch."""
        seen = np.random.default_rng(0).standard_normal((TRIED, self.sizes[0]), np.float32)
        together = self._given(seen)
        apart = np.concatenate([self._given(seen[[number]]) for number in range(TRIED)])
        near = SAME * (self.high - self.low) / 2
        if not ((np.abs(together - apart) <= near) | ~np.isfinite(together)).all():
            raise OffdynError(
                f"{ROLE} {self.wanted}: gave other actions for {TRIED} observations together ({together.tolist()}) "
                f"than one by one ({apart.tolist()}); expected a function of each row of [n, {self.sizes[0]}] alone"
            )

    def _given(self, seen: np.ndarray) -> np.ndarray:
        """[n, A] in the environment's units."""
        try:
            with self._turn:
                given = np.asarray(self.function(seen), float)
        except OffdynError:
            raise
        except Exception as error:
            raise EnvironmentFailed(
                f"{ROLE} {self.wanted}: raised {type(error).__name__} for observations of shape {seen.shape}: {error}"
            ) from error
        if given.shape != (expected := (len(seen), self.sizes[1])):
            raise EnvironmentFailed(
                f"{ROLE} {self.wanted}: gave an array of shape {given.shape} for observations of shape {seen.shape}; "
                f"expected {expected}: an action in the environment's units for each row"
            )
        return given


def open_function(wanted: str, sizes: tuple[int, ...]) -> Function:
    """What gives the actions."""
    if _is_function(wanted):
        return _function(wanted)
    if is_onnx(wanted):
        return onnx_function(file_of(wanted), sizes)
    network = open_network(wanted)
    if network.policies.sizes != sizes:
        its = "{} observations and {} actions".format(*network.policies.sizes)
        raise OffdynError(f"{ROLE} {wanted}: has {its}, the environment has {sizes[0]} and {sizes[1]}")
    return network.act


def open_network(wanted: str) -> Network:
    """A policy of a run's folder, or of an export for NumPy."""
    folder = file_of(wanted).parent
    config = folder / "config.yaml"
    try:
        if config.exists():
            run = files.read(config)
            check_format(run["format"], CONFIG_FORMAT, config)
            if (itself := run["settings"].get("base_policy")) is not None:
                raise OffdynError(f"{ROLE} {wanted}: has a base policy itself ({itself}); name one alone")
            return Network(Policy(folder / NETWORK).policies, *action_range(pairs.find(run["task"])))
        with safe_open(folder / NETWORK, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            steps = (file.metadata() or {})["steps"].split()
        if "residual" in arrays:
            raise OffdynError(f"{ROLE} {wanted}: has a base policy itself; name one alone")
        return Network(from_file(arrays, steps), arrays["action.low"], arrays["action.high"])
    except OffdynError:
        raise
    except (SafetensorError, OSError, KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise OffdynError(f"{ROLE} {wanted}: neither a run nor an export of one for NumPy ({error!r})") from None


def onnx_function(path: Path, sizes: tuple[int, ...]) -> Function:
    """An ONNX file in onnxruntime, on one thread: the other cores are the training's."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise OffdynError(f"{ROLE} {path}: needs the Python package onnxruntime: pip install 'offdyn[onnx]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise OffdynError(f"{ROLE} {path}: not an ONNX file that onnxruntime can read ({error})") from None
    taken, given = signature(path, session, sizes)
    kind = np.float64 if taken.type == "tensor(double)" else np.float32

    def act(observation: np.ndarray) -> np.ndarray:
        rows = observation.astype(kind)
        parts = rows[:, None] if isinstance(taken.shape[0], int) else rows[None]  # one by one where it takes only one
        return np.concatenate([session.run([given.name], {taken.name: part})[0] for part in parts])

    return act


def signature(path: Path, session: Any, sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Its input and the output that is the action; a model of another kind is refused."""
    taken, given = session.get_inputs(), session.get_outputs()
    named = [one for one in given if one.name in EXPECTED_OUTPUTS]
    chosen = given if len(given) == 1 else named
    shape = taken[0].shape if len(taken) == 1 else []
    fits = len(shape) == 2 and (not isinstance(shape[1], int) or shape[1] == sizes[0])
    fits = fits and (not isinstance(shape[0], int) or shape[0] == 1)
    if not fits or taken[0].type not in ("tensor(float)", "tensor(double)"):
        found = ", ".join(f"{one.name} {one.shape} {one.type}" for one in taken)
        raise OffdynError(f"{ROLE} {path}: takes {found}; expected one input [n, {sizes[0]}] of floats")
    if len(chosen) != 1:
        found = ", ".join(one.name for one in given)
        raise OffdynError(f"{ROLE} {path}: gives {found}; expected one output, or one named action")
    return taken[0], chosen[0]


def as_chosen(dataset: "Dataset", name: str, asked: Asked, pair: pairs.Pair) -> tuple["Dataset", int]:
    """Full actions as what a learner would have chosen; how many transitions are left out, as beyond its reach."""
    residual = open_residual(asked, pair)
    if not len(dataset):
        return dataset, 0
    parts = [slice(first, first + AT_ONCE) for first in range(0, len(dataset), AT_ONCE)]
    chosen = np.concatenate([residual.chosen(dataset.observation[part], dataset.action[part]) for part in parts])
    within = (np.abs(chosen) <= 1 + ROUNDING).all(axis=1)
    if within.mean() < LEAST:
        raise OffdynError(
            f"{name}: {1 - within.mean():.0%} of its {len(dataset)} transitions have actions that "
            f"no residual of {asked.reach:g} on {asked.wanted} leads to; raise --residual, take data of "
            "the base policy itself, or train without --base-policy"
        )
    return replace(dataset, action=np.clip(chosen, -1.0, 1.0))[within], int((~within).sum())


def _is_function(wanted: str) -> bool:
    if wanted.startswith(custom.FROM_PYTHON):
        return True
    return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", wanted) is not None and not Path(wanted).exists()


def _function(wanted: str) -> Function:
    if wanted in custom.GIVEN:
        return custom.GIVEN[wanted]  # type: ignore[return-value]  # what was given for this role
    if wanted.startswith(custom.FROM_PYTHON):
        raise OffdynError(
            f"{wanted.removeprefix(custom.FROM_PYTHON)}: a Python function that no name leads to; give it again as "
            "base_policy=..., or put it into a module and name it module:function"
        )
    module, _, name = wanted.partition(":")
    found = custom.in_module(module, name, wanted, ROLE)
    if found is None:
        raise OffdynError(f"{ROLE} {wanted}: no function '{name}' in module '{module}'")
    return found  # type: ignore[return-value]  # whatever it is, it is called with observations


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OffdynError(f"{ROLE} {path}: cannot be read ({error.strerror})") from None


def _sha256(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()
