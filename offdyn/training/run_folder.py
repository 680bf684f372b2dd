"""A run's folder: its configuration, its curve, its metrics, where it came from, and its policy."""

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import save as to_bytes

from .._util.errors import OffdynError, check_format, shown
from .._util.files import content, parse_yaml, read_json, write_atomically
from ..algos.registry import RECIPES
from ..algos.sac import Sac
from ..envs import pairs
from ..envs.tasks import TASKS
from ..policies.trained import EnvironmentPolicy, Policy
from .config import OLDER, RunConfig, Schedule, build, renamed, residuals_of
from .progress import Mirror

FORMAT = 1  # of config.yaml, provenance.json and final.json
RECORDED = ("curve.csv", "metrics.jsonl")  # files that grow while a run trains
STATES = ("finished", "running", "stopped", "failed")
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError, csv.Error)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C where it was built: ten times as fast
FLUSH_SECONDS = 20.0  # after which TensorBoard sees what is new


# Columns of a curve as older runs name them.
OLDER_COLUMNS = {"penalty_mean": "reward_penalty", "spread_of_imagined_values": "std_of_imagined_values"} | {
    f"{name}_rows": f"{name}_transitions"
    for name in (
        "mean_weight_of_source",
        "deviation_on_source",
        *(
            f"{what}_on_{which}_target"
            for what in ("deviation", "ensemble_error", "ensemble_log_likelihood")
            for which in ("fresh", "held-out")
        ),
    )
}


def todays_column(name: str) -> str:
    return OLDER_COLUMNS.get(name, name)


class RunFolder:
    """`OUT/<run>/`."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.record = {name: bytearray() for name in RECORDED}  # what this training has them hold
        self._events: Any = None
        self._flushed = 0.0
        self._wandb = Mirror(self) if config.schedule.wandb else None

    @classmethod
    def begin(cls, path: Path, config: RunConfig) -> "RunFolder":
        """A folder of which nothing but its configuration is there yet, or not even that."""
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / "config.yaml", to_yaml(config).encode())
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A folder that exists."""
        try:
            text = content(path / "config.yaml")
        except (FileNotFoundError, NotADirectoryError):
            raise OffdynError(f"{path}: not a run's folder (it has no config.yaml)") from None
        except OSError as error:
            raise OffdynError(f"{path / 'config.yaml'}: cannot be read ({error.strerror})") from None
        return cls(path, from_yaml(text, path / "config.yaml"))

    def restore(self, text: str) -> None:
        """See that config.yaml says what this run was begun with: written where it is missing, else compared."""
        path = self.path / "config.yaml"
        if not path.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode())
            return
        back = f"put it back, or delete {path} and `offdyn resume` writes it as it was"
        try:
            found = RunFolder.open(self.path).config
        except OffdynError as error:
            raise OffdynError(f"{error}; {back}") from None
        if changes := _changes(self.config, found):
            raise OffdynError(
                f"{path} was changed since this training began: {changes}. To train on, {back}; to train with other "
                "settings, start anew with another --out"
            )
        if content(path) != text.encode():  # means the same, and is a record
            write_atomically(path, text.encode())

    def append_curve(self, line: Mapping[str, Any]) -> None:
        """One line per evaluation; the columns are fixed by the first one."""
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        columns = next(csv.reader([self.record["curve.csv"].partition(b"\n")[0].decode()]), None)
        if not columns:
            columns = list(line)
            writer.writerow(columns)
        writer.writerow([_cell(line.get(todays_column(name))) for name in columns])
        self._append("curve.csv", written.getvalue())
        if self._wandb is not None:
            self._wandb.log("curve", line)

    def curve(self) -> list[dict[str, float]]:
        """The evaluations so far; an empty cell is NaN."""
        path = self.path / "curve.csv"
        if not path.exists():
            return []
        try:
            columns = read_curve(content(path))
        except DAMAGED as error:
            raise OffdynError(f"{path}: not a curve ({shown(error)})") from None
        return [
            dict(zip(columns, line, strict=True))
            for line in zip(*map(np.ndarray.tolist, columns.values()), strict=True)
        ]

    def summary(self, final_returns: np.ndarray) -> dict[str, Any]:
        """What a table needs of a finished run; never its best checkpoint."""
        curve = self.curve()
        # Over target steps; where a run acts elsewhere or nowhere, over what else it counts.
        counted = next((name for name in ("target_steps", "source_steps") if curve and curve[-1][name]), "updates")
        steps = np.array([line[counted] for line in curve])
        means = np.array([line["target_return_mean"] for line in curve])
        told = np.isfinite(means)  # a line without evaluation may have no training episode to tell of
        steps, means = steps[told], means[told]
        wide = len(means) > 1 and steps[-1] > steps[0]
        area = (
            float(np.trapezoid(means, steps) / (steps[-1] - steps[0]))
            if wide
            else float([*means, final_returns.mean()][0])
        )
        return {
            "format": 1,
            "final_mean": float(final_returns.mean()),
            "final_std": float(final_returns.std()),
            "final_normalised": pairs.normalised(self.config.task, float(final_returns.mean())),
            "final_returns": [float(value) for value in final_returns],
            "last_five_mean": float(means[-5:].mean()) if len(means) else None,
            "area_under_curve": area,
        }

    def append_metrics(self, clock: int, metrics: Mapping[str, float | None]) -> None:
        """One line of JSON, and the same numbers as TensorBoard events."""
        self._append("metrics.jsonl", json.dumps({"source_steps": clock, **metrics}) + "\n")
        self._write_events(clock, metrics)
        if self._wandb is not None:
            self._wandb.log("metrics", {"source_steps": clock, **metrics})

    def _write_events(self, clock: int, metrics: Mapping[str, float | None]) -> None:
        if self._events is None:
            try:
                from tensorboardX.event_file_writer import EventsWriter
            except ImportError:
                return
            # Without the usual queue and thread, which a full disk would leave waiting for ever.
            (self.path / "tensorboard").mkdir(exist_ok=True)
            self._events = EventsWriter(str(self.path / "tensorboard" / "events"))
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        for name, value in metrics.items():
            if value is not None:
                summary = scalar(name.replace(" ", "_"), value)
                self._events.write_event(Event(wall_time=time.time(), step=clock, summary=summary))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._events.flush()
            self._flushed = time.monotonic()

    def _append(self, name: str, text: str) -> None:
        with open(self.path / name, "ab") as file:
            file.write(text.encode())
        self.record[name] += text.encode()

    def flush(self) -> None:
        """Everything appended so far is on the disk."""
        if self._events is not None:
            self._events.flush()
        for name in RECORDED:
            if (self.path / name).exists():
                with open(self.path / name, "rb+") as file:
                    os.fsync(file.fileno())

    def put_back(self, record: Mapping[str, bytes]) -> list[str]:
        """Curve and metrics as a checkpoint has them, and event files of these; what was amiss, in words."""
        self.record = {name: bytearray(record.get(name, b"")) for name in RECORDED}
        said = self.mend()
        self.close()
        for event_file in (self.path / "tensorboard").glob("events.*"):
            event_file.unlink()
        for clock, metrics in _read_metrics(self.record["metrics.jsonl"]):
            self._write_events(clock, metrics)
        return said

    def mend(self) -> list[str]:
        """Have curve and metrics on the disk as they were recorded; what is not is kept under another name."""
        said = []
        for name, recorded in self.record.items():
            path, wanted = self.path / name, bytes(recorded)
            fault = _fault(path, wanted)
            if fault is None:
                if path.exists():
                    os.truncate(path, len(wanted))
                continue
            kept = ""
            if path.exists() or path.is_symlink():
                aside = _free_name(path)
                os.replace(path, aside)
                kept = f" and kept as {aside.name}"
            write_atomically(path, wanted)
            said.append(f"{path} was {fault}{kept}; it is written again as its checkpoint has it")
        return said

    def recorded_until(self, lengths: Mapping[str, int]) -> tuple[dict[str, bytes], list[str]]:
        """What is left of curve and metrics, for a checkpoint that knows only how long they were; what is not."""
        record, said = {}, []
        for name in RECORDED:
            path, length = self.path / name, lengths.get(name, 0)
            try:
                text = content(path)[:length]
                whole = text[: text.rfind(b"\n") + 1]
                (read_curve if name == "curve.csv" else _read_metrics)(whole)
            except DAMAGED:
                whole = b""
            if len(whole) < length:
                said.append(f"{path}: {length - len(whole)} bytes are lost, of which its older checkpoint has no copy")
            record[name] = whole
        return record, said

    def write_policy(self, arrays: Mapping[str, np.ndarray], steps: Sequence[str], name: str = "policy") -> None:
        spec = pairs.spec_of(self.config.task)
        said = {
            "format": 1,
            "run": self.config.name,
            "steps": list(steps),
            "output": "tanh",
            "observation_size": spec.observation_size,
            "action_size": spec.action_size,
        }
        if self.config.schedule.residual is not None:
            said["residual"] = self.config.schedule.residual
        path = self.path / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        # One entry: safetensors writes several in an order of its own, other bytes every time.
        write_atomically(path, to_bytes(dict(arrays), {"about": json.dumps(said)}))

    def policy(self, domain: str = "target", *, normalised: bool = False) -> Policy:
        """All of its policy, its base policy included; `normalised`: in training's terms, not the environment's."""
        path, (residual,) = self.path / "policy.safetensors", residuals_of([self.config])
        if normalised:
            return Policy(path, domain, residual)
        return EnvironmentPolicy(path, self.config.task, domain, residual)

    def write_agent(self, arrays: Mapping[str, np.ndarray]) -> None:
        write_atomically(self.path / "agent.safetensors", to_bytes(dict(arrays), {"format": "1"}))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def __repr__(self) -> str:
        try:
            final = self.final
        except OffdynError:
            final = None
        done = "" if final is None else f", target return {final['final_mean']:.1f} +- {final['final_std']:.1f}"
        return f"RunFolder({str(self.path)!r}, {self.state}{done})"

    @property
    def final(self) -> dict[str, Any] | None:
        """The result, where there is one."""
        path = self.path / "final.json"
        return read_final(path) if path.exists() else None

    @property
    def provenance(self) -> dict[str, Any]:
        path = self.path / "provenance.json"
        if not path.exists():
            return {"state": "unknown"}
        read = read_provenance(path)
        failure = read.get("failure")
        if read["state"] == "failed" and not (isinstance(failure, dict) and {"quantity", "step"} <= failure.keys()):
            raise OffdynError(f"{path}: says that the run failed, and not of what: {shown(failure)}")
        return read

    @property
    def started(self) -> bool:
        """Whether training has begun."""
        return (self.path / "provenance.json").exists()

    @property
    def state(self) -> str:
        """running, stopped, failed or finished."""
        return self.provenance["state"]

    def close(self) -> None:
        """Give the event file back; what it may still lack on a full disk, a resume writes again."""
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(OSError):
                events.close()
        if self._wandb is not None:
            self._wandb.close()


def to_yaml(config: RunConfig) -> str:
    """The complete run as text; `from_yaml` gives back an equal one."""
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in config.settings().items()}
    head = {
        "format": FORMAT,
        "task": config.task.to_mapping(),
        "method": config.method,
        "preset": config.preset,
        "seed": config.seed,
        "allow_no_shift": config.allow_no_shift,
        "chosen": list(config.chosen),
    }
    return yaml.safe_dump(head | {"settings": listed}, sort_keys=False)


def from_yaml(text: str | bytes, where: Path) -> RunConfig:
    """Read back what `to_yaml` wrote."""
    try:
        read = parse_yaml(text, where)
        check_format(read["format"], FORMAT, where)
        if not isinstance(read["settings"], dict):
            raise TypeError("no settings")
        if not isinstance(read["preset"], str):
            raise TypeError("no preset")
        # A setting that the run does not know came later: its default is what the run did, whatever presets say now.
        settings = _defaults(read["method"]) | renamed(read["settings"])
        config, _ = build(
            read["task"],
            read["method"],
            read["preset"],
            read["seed"],
            settings,
            allow_no_shift=read["allow_no_shift"],
        )
        return dataclasses.replace(config, chosen=tuple(read["chosen"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise OffdynError(f"{where}: not a run's config.yaml ({error})") from None


@functools.cache
def _defaults(method: str) -> dict[str, Any]:
    """Every setting as its class has it; of a method that nobody knows here, those that all methods have."""
    parts: list[Any] = [Schedule, Sac, *([RECIPES[method].method.hyper] if method in RECIPES else [])]
    return {field.name: field.default for part in parts for field in dataclasses.fields(part)}


def _changes(was: RunConfig, now: RunConfig) -> str:
    """Which settings differ, with both values."""
    one, other = (yaml.safe_load(to_yaml(config)) for config in (was, now))
    one, other = ({**said.pop("settings"), **said} for said in (one, other))
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    said = [f"{name} is {shown(other.get(name))}, was {shown(one.get(name))}" for name in names]
    return "; ".join(said[:5]) + (f"; and {len(said) - 5} more" if len(said) > 5 else "")


def _fault(path: Path, wanted: bytes) -> str | None:
    """Why a file does not begin with this."""
    if path.is_symlink():
        return "made a link"
    try:
        found = content(path)
    except FileNotFoundError:
        return "missing" if wanted else None
    except OSError as error:
        return f"not readable ({error.strerror})"
    if found.startswith(wanted):
        return None
    return "shortened" if wanted.startswith(found) else "changed"


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.stem}.damaged-{number}{path.suffix}") for number in itertools.count(1))
    return next(name for name in names if not name.exists() and not name.is_symlink())


def read_config(path: Path) -> dict[str, Any]:
    """What config.yaml says under today's names, whatever method and task it names; `from_yaml` builds the run."""
    read = yaml.load(content(path), Loader=LOADER)
    check_format(read["format"], FORMAT, path)
    known = renamed(read["settings"])
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in known.items()}
    for name in ("target_steps", "source_steps_per_target_step"):
        steps = settings[name]
        if not isinstance(steps, int) or steps < 1:
            raise ValueError(f"{name} should be a positive whole number, found {settings[name]!r}")
    return {
        "task": _task_name(read["task"]),
        "method": str(read["method"]),
        "preset": str(read["preset"]),
        "seed": int(read["seed"]),
        # A setting younger than the run was what its default says, as far as anyone can tell.
        "settings": _defaults(str(read["method"])) | settings,
        "chosen": tuple(OLDER.get(name, name) for name in read["chosen"]),
    }


def _task_name(task: Mapping[str, Any]) -> str:
    """Custom environments with the name of a robot's task are told apart from it: scores go by names."""
    name = str(task.get("name") or task.get("world"))
    return f"{name} (custom)" if "robot" not in task and name in TASKS else name


def read_curve(text: bytes) -> dict[str, np.ndarray]:
    """A column for each name; a last line that is being written, or that a kill cut short, is left out."""
    rows = list(csv.reader(io.StringIO(text.decode(), newline="")))
    if not rows:
        return {}
    head, lines = rows[0], rows[1:]
    if lines and len(lines[-1]) < len(head):
        lines.pop()
    for number, line in enumerate(lines, 2):
        if len(line) != len(head):
            raise ValueError(f"line {number} has {len(line)} cells, the first line {len(head)}")
    cells = np.array([[float(cell) if cell else np.nan for cell in line] for line in lines])
    columns = dict(zip(map(todays_column, head), cells.reshape(-1, len(head)).T, strict=True))
    if not np.all(np.diff(columns.get("target_steps", ())) >= 0):
        raise ValueError("its target_steps do not ascend")
    return columns


def read_provenance(path: Path) -> dict[str, Any]:
    """Where a run's numbers come from, as far as anyone looks at it."""
    read = read_json(path, FORMAT)
    if read.get("state") not in STATES:
        raise OffdynError(f"{path}: no state {shown(read.get('state'))} (known: {', '.join(STATES)})")
    for name in ("packages", "device", "machine", "models", "source_data"):
        if not isinstance(read.get(name) or {}, dict):
            raise OffdynError(f"{path}: {name} should be a mapping, found {shown(read[name])}")
    for name in ("wall_seconds", "updates", "target_steps", "lanes_in_cohort", "tuning_target_steps"):
        if not isinstance(read.get(name) or 0, int | float):
            raise OffdynError(f"{path}: {name} should be a number, found {shown(read[name])}")
    return read


def read_final(path: Path) -> dict[str, Any]:
    """A run's result."""
    read = read_json(path, FORMAT)
    numbers = [read.get("final_mean"), read.get("final_std")]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise OffdynError(f"{path}: expected the mean and deviation of the final returns, found {shown(numbers)}")
    return read


def _read_metrics(text: bytes | bytearray) -> list[tuple[int, dict[str, float | None]]]:
    lines = [json.loads(line) for line in text.decode().splitlines()]
    return [(line.pop("source_steps"), line) for line in lines]


def _cell(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)
