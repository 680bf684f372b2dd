"""A run's folder: its configuration, its curve, its metrics, where it came from, and its policy."""

import contextlib
import csv
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as to_bytes

from .. import __version__
from .._util.cores import every, taken
from .._util.errors import OffdynError, check_format
from .._util.files import write_atomically
from ..envs import pairs
from .config import RunConfig, from_yaml, to_yaml
from .schedule import todays_column

FORMAT = 1  # of provenance.json
FLUSH_SECONDS = 20.0  # after which TensorBoard sees what is new
PACKAGES = ("jax", "jaxlib", "optax", "numpy", "scipy", "mujoco-core", "gymnasium", "safetensors")


class RunFolder:
    """`OUT/<run>/`."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self._events: Any = None
        self._flushed = 0.0
        self._wandb: Any = None
        if config.schedule.wandb:
            from .wandb import Mirror

            self._wandb = Mirror(self)

    @classmethod
    def create(cls, out: Path, config: RunConfig) -> "RunFolder":
        """A new folder; one that exists is never overwritten."""
        path = out / config.name
        if path.exists():
            raise exists_already(path, out)
        path.mkdir(parents=True)
        write_atomically(path / "config.yaml", to_yaml(config).encode())
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A folder that exists."""
        try:
            text = (path / "config.yaml").read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise OffdynError(f"{path}: not a run's folder (it has no config.yaml)") from None
        except (OSError, UnicodeDecodeError) as error:
            raise OffdynError(f"{path / 'config.yaml'}: cannot be read ({error})") from None
        return cls(path, from_yaml(text, path / "config.yaml"))

    @classmethod
    def restore(cls, path: Path, config: str) -> "RunFolder":
        """The folder of a run that was begun, made again where a kill came before it was."""
        if not (path / "config.yaml").exists():
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / "config.yaml", config.encode())
        return cls.open(path)

    def append_curve(self, line: Mapping[str, Any]) -> None:
        """One line per evaluation; the columns are fixed by the first one."""
        with open(self.path / "curve.csv", "a+", newline="") as file:
            file.seek(0)
            columns = next(csv.reader(file), None)
            writer = csv.writer(file, lineterminator="\n")
            if columns is None:
                columns = list(line)
                writer.writerow(columns)
            writer.writerow([_cell(line.get(todays_column(name))) for name in columns])
        if self._wandb is not None:
            self._wandb.log("curve", line)

    def curve(self) -> list[dict[str, float]]:
        """The evaluations so far; an empty cell is NaN."""
        path = self.path / "curve.csv"
        if not path.exists():
            return []
        with open(path, newline="") as file:
            lines = [{todays_column(name): cell for name, cell in line.items()} for line in csv.DictReader(file)]
        return [{name: float(cell) if cell else float("nan") for name, cell in line.items()} for line in lines]

    def summary(self, final_returns: np.ndarray) -> dict[str, Any]:
        """What a table needs of a finished run; never its best checkpoint."""
        curve = self.curve()
        # Over target steps; where a run acts elsewhere or nowhere, over what else it counts.
        steps = np.array([line["target_steps"] or line["source_steps"] or line["updates"] for line in curve])
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
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"source_steps": clock, **metrics}) + "\n")
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

    def flush(self) -> dict[str, int]:
        """Everything appended so far is on the disk; how long each file is."""
        if self._events is not None:
            self._events.flush()
        lengths = {}
        for name in ("curve.csv", "metrics.jsonl"):
            path = self.path / name
            if path.exists():
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())
                lengths[name] = path.stat().st_size
        return lengths

    def cut_back(self, lengths: Mapping[str, int]) -> None:
        """Forget what was appended after a checkpoint; the event files are written again from what is left."""
        for name in ("curve.csv", "metrics.jsonl"):
            path, length = self.path / name, lengths.get(name, 0)
            if not path.exists() and length == 0:
                continue
            if not path.exists() or path.stat().st_size < length:
                raise OffdynError(f"{path}: shorter than its checkpoint says ({length} bytes); it was changed by hand")
            with open(path, "rb+") as file:
                file.truncate(length)
        self.close()
        for event_file in (self.path / "tensorboard").glob("events.*"):
            event_file.unlink()
        metrics = self.path / "metrics.jsonl"
        for line in metrics.read_text().splitlines() if metrics.exists() else []:
            numbers = json.loads(line)
            self._write_events(numbers.pop("source_steps"), numbers)

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
        path = self.path / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        # One entry: safetensors writes several in an order of its own, other bytes every time.
        write_atomically(path, to_bytes(dict(arrays), {"about": json.dumps(said)}))

    def write_agent(self, arrays: Mapping[str, np.ndarray]) -> None:
        write_atomically(self.path / "agent.safetensors", to_bytes(dict(arrays), {"format": "1"}))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def __repr__(self) -> str:
        try:
            final = json.loads((self.path / "final.json").read_text())
            done = f", target return {final['final_mean']:.1f} +- {final['final_std']:.1f}"
        except (OSError, ValueError, KeyError, TypeError):
            done = ""
        return f"RunFolder({str(self.path)!r}, {self.state}{done})"

    @property
    def provenance(self) -> dict[str, Any]:
        path = self.path / "provenance.json"
        try:
            read = json.loads(path.read_text())
            check_format(read["format"], FORMAT, path)
            return {"state": "unknown"} | read
        except FileNotFoundError:
            return {"state": "unknown"}
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise OffdynError(f"{path}: not readable ({error})") from None

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


def exists_already(path: Path, out: Path) -> OffdynError:
    return OffdynError(
        f"{path} exists already: continue it with `offdyn resume {out}`, choose another --out, or delete it"
    )


def _cell(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)


def find_runs(folder: Path) -> list[RunFolder]:
    """Every run below a folder, or the run that it is."""
    if (folder / "config.yaml").exists():
        return [RunFolder.open(folder)]
    return [RunFolder.open(path.parent) for path in sorted(folder.glob("*/config.yaml"))]


def surroundings(threads: int | None) -> dict[str, Any]:
    """Versions and hardware, as they matter to a result."""
    import jax

    device = jax.devices()[0]
    return {
        "format": FORMAT,
        "offdyn": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "machine": {"processor": _processor(), "cores": len(every()), "system": platform.platform()},
        "physics_threads": threads,
        "bodies_have_cores": taken(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
