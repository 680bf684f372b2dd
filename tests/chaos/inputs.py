"""What somebody may hand to a command: damaged folders, damaged datasets, configurations and command lines."""

import contextlib
import json
import os
import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow
import yaml
from pyarrow import parquet

from offdyn._util.files import write_atomically
from offdyn.algos.registry import RECIPES
from offdyn.cli.main import main
from offdyn.data.datasets import save, write_minari
from offdyn.export import FORMATS

from ..data.simulated import simulated, write_d4rl
from . import mutations
from .runner import Case
from .trainings import differing, outcome

EXPECTED = (0, 1, 2, 75, 130)
IN_A_PROCESS = 0.02  # of the cases: as a user would, in a process of their own
KEPT = "nobody may change this\n"


def call(words: Sequence[str], case: Case, place: Path, alone: bool = False) -> tuple[int, str]:
    """The command's exit code and what it said; whatever should not have happened is noted."""
    said = place / "said.txt"
    case.about = (case.about + " | " if case.about else "") + "offdyn " + " ".join(map(ascii, words))[:400]
    if alone and not any("\0" in word or not word.isprintable() for word in words):
        with open(said, "wb") as output:
            process = [sys.executable, "-m", "offdyn", *words]
            code = subprocess.run(
                process, stdout=output, stderr=output, stdin=subprocess.DEVNULL, timeout=100
            ).returncode
        case.counts["in a process"] += 1
    else:
        with _into(said):
            code = main(list(words))
    text = said.read_text(errors="replace")
    if code not in EXPECTED or "Traceback" in text or "Error:" in text.partition("\n")[0]:
        reports = sorted(place.glob("offdyn-crash-*.txt"))
        last = reports[-1].read_text().strip()[-900:] if reports else text[-900:]
        case.found("tracebacks", f"{case.about}\nexit code {code}: {last}")
    return code, text


@contextlib.contextmanager
def _into(path: Path) -> Iterator[None]:
    """What this process and the libraries in it say."""
    kept = [os.dup(place) for place in (1, 2)]
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for place in (1, 2):
            os.dup2(output, place)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for place, before in zip((1, 2), kept, strict=True):
            os.dup2(before, place)
            os.close(before)
        os.close(output)


@dataclass(frozen=True)
class Base:
    """A folder of runs to damage, and what it ends as; None: nothing of it is left to do."""

    folder: Path
    arguments: tuple[str, ...]
    expected: dict[str, Any] | None


def damaged_folder(bases: Sequence[Base], draw: Random, place: Path, case: Case) -> None:
    """A command on a folder of which something is not as it was."""
    base = draw.choice(bases)
    out, outside = place / "out", place / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text(KEPT)
    shutil.copytree(base.folder, out)
    case.about = "; ".join(mutations.of_folder(draw, out))
    runs = sorted(path for path in out.iterdir() if path.name != "cohorts")
    run = str(draw.choice(runs)) if runs else str(out)
    wanted = draw.choices(
        ("resume", "drop", "evaluate", "export", "train", "start", "report"), (30, 8, 20, 15, 10, 12, 2)
    )[0]
    words = {
        "resume": ["resume", str(out), "--threads", "1"],
        "drop": ["resume", str(out), "--threads", "1", "--drop-damaged"],
        "evaluate": ["evaluate", run, "--episodes", "1"],
        "export": ["export", run, "--format", "numpy", "--out", str(place / "exported")],
        "train": ["train", *base.arguments, "--out", str(out)],
        "start": ["train", *base.arguments, "--start-from", run, "--out", str(place / "started"), "--dry-run"],
        "report": ["report", str(out), "--out", str(place / "page")],
    }[wanted]
    code, said = call(words, case, place, alone=draw.random() < IN_A_PROCESS)
    case.counts[f"folders: {wanted}"] += 1
    if wanted == "resume" and code == 0 and base.expected is not None and "nothing was lost" not in said:
        try:
            names = differing(base.expected, _without_asides(outcome(out)))
        except (OSError, ValueError, KeyError) as error:
            names = [repr(error)]
        if names:
            case.found("differ", f"{case.about}: {names}: {said[-300:]}")
    if (outside / "kept.txt").read_text() != KEPT or sorted(outside.iterdir()) != [outside / "kept.txt"]:
        case.found("escapes", f"{case.about}: wrote outside of its folder")


def _without_asides(found: dict[str, Any]) -> dict[str, Any]:
    """Files that are kept under another name are no difference."""
    beside = (".damaged-", ".tmp", "config.yaml")
    return {
        name: [file for file in value if not any(word in file for word in beside)] if name.endswith(" files") else value
        for name, value in found.items()
    }


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    return _without_asides(found)


def make_datasets(folder: Path) -> list[Path]:
    """One of every format, of a robot."""
    dataset = simulated("hopper")
    few = type(dataset)(*(column[:90] for column in dataset.arrays().values()), card=dict(dataset.card))
    folder.mkdir(parents=True)
    files = [write_d4rl(folder / "d4rl.hdf5", few)]
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    files.append(write_minari(few, "offdyn/hopper/random-v0"))
    save(few, folder / "native.safetensors")
    files.append(folder / "native.safetensors")
    files.append(_lerobot(folder / "lerobot", few))
    return files


def _lerobot(folder: Path, dataset: Any) -> Path:
    """As LeRobot's version 3 has it."""
    count = len(dataset)
    columns = {
        "observation.state": dataset.observation.astype(np.float32),
        "action": dataset.action.astype(np.float32),
        "next.reward": dataset.reward.astype(np.float32),
        "next.done": dataset.terminated.astype(bool),
        "frame_index": np.arange(count) % 30,
        "episode_index": np.arange(count) // 30,
    }
    described = {name: {"dtype": str(c.dtype), "shape": list(c.shape[1:] or (1,))} for name, c in columns.items()}
    info = {"codebase_version": "v3.0", "fps": 10, "total_frames": count, "robot_type": "x", "features": described}
    extremes = {"action": {"min": [-1.0] * 3, "max": [1.0] * 3}}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "meta" / "stats.json").write_text(json.dumps(extremes))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    arrays = {name: pyarrow.array(list(c) if c.ndim == 2 else c) for name, c in columns.items()}
    parquet.write_table(pyarrow.table(arrays), folder / "data" / "chunk-000" / "file-000.parquet")
    return folder


def damaged_dataset(datasets: Sequence[Path], draw: Random, place: Path, case: Case) -> None:
    """`offdyn check` or a training's first look at a dataset of which something is not as it was."""
    base = draw.choices(datasets, (35, 20, 20, 25))[0]
    wanted, outside = place / base.name, place / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text(KEPT)
    (shutil.copytree if base.is_dir() else shutil.copyfile)(base, wanted)
    files = [path for path in wanted.rglob("*") if path.is_file()] if base.is_dir() else [wanted]
    file = draw.choice(sorted(files))
    shaped: dict[str, Callable[[Random, Path], str]] = {".hdf5": _change_hdf5, ".parquet": _change_parquet}
    if file.suffix in shaped and draw.random() < 0.6:
        case.about = f"{base.name}: {shaped[file.suffix](draw, file)}"
    else:
        how = mutations.of_json if file.suffix == ".json" and draw.random() < 0.6 else mutations.of_bytes
        file.write_bytes(how(draw, file.read_bytes()))
        case.about = f"{how.__name__} of {file.relative_to(place)}"
    name = f"lerobot:{wanted}" if base.name == "lerobot" and draw.random() < 0.5 else str(wanted)
    words = draw.choice(
        (
            ["check", name],
            ["check", name, "--robot", "hopper"],
            ["check", name, "--target", "hopper-big-head", "--json"],
            ["train", "--task", "hopper-big-head", "--method", "cql-0", "--source-data", name, "--dry-run"],
        )
    )
    call(words, case, place, alone=draw.random() < IN_A_PROCESS)
    case.counts[f"datasets: {base.name}"] += 1


def _change_hdf5(draw: Random, path: Path) -> str:
    """Something that another program may have written in an array's place."""
    with h5py.File(path, "a") as file:
        names: list[str] = []
        file.visit(names.append)
        name = draw.choice(names)
        how = draw.choice(_HDF5)
        item = file[name]
        if how not in ("attribute", "delete", "group"):
            del file[name]
        if how == "attribute":
            target = draw.choice((file, item))
            target.attrs[draw.choice(("action_space", "shape", "x"))] = draw.choice(
                (1, "{", "[" * 5000, b"\xff", 1e999)
            )
        elif how == "delete":
            del file[name]
        elif how == "group":
            del file[name]
            file.create_group(name + "/inside")
        elif how == "external":
            file[name] = h5py.ExternalLink(str(path.parent / "outside" / "kept.txt"), "/x")
        elif how == "soft":
            file[name] = h5py.SoftLink("/" + draw.choice([name, "nowhere", *names]))
        elif how == "huge":
            shape = draw.choice(((2**42,), (2**21, 2**21), (2**40, 11)))
            file.create_dataset(name, shape, "f4", chunks=(1024,) * len(shape) if len(shape) == 1 else (1024, 11))
        elif how == "empty":
            file.create_dataset(name, data=h5py.Empty("f4"))
        elif how == "virtual":
            layout = h5py.VirtualLayout((90, 11), "f4")
            layout[:] = h5py.VirtualSource(str(path.parent / "outside" / "kept.txt"), "x", (90, 11))
            file.create_virtual_dataset(name, layout)
        else:
            file[name] = _ODD[how](draw)
    return f"{name} made {how}"


_ODD: dict[str, Callable[[Random], Any]] = {
    "text": lambda draw: "text",
    "texts": lambda draw: np.array([b"a", b"b"] * 45),
    "objects": lambda draw: np.array([(1, 2.0)] * 90, [("a", "i4"), ("b", "f4")]),
    "scalar": lambda draw: 1.0,
    "shorter": lambda draw: np.zeros((draw.randrange(90), 11), np.float32),
    "narrower": lambda draw: np.zeros((90, draw.randrange(12)), np.float32),
    "deeper": lambda draw: np.zeros((90, 2, 2, 2), np.float32),
    "whole numbers": lambda draw: np.full((90, 11), draw.choice((0, 2**62, -1)), np.int64),
    "not finite": lambda draw: np.full((90, 11), draw.choice((np.nan, np.inf, 1e300)), np.float64),
    "complex": lambda draw: np.zeros(90, np.complex64),
    "flags": lambda draw: np.ones(90, bool),
    "nothing": lambda draw: np.zeros((0, 11), np.float32),
}
_HDF5 = ("attribute", "delete", "group", "external", "soft", "huge", "empty", "virtual", *_ODD)


def _change_parquet(draw: Random, path: Path) -> str:
    """A column of another kind, shorter or gone."""
    table = parquet.read_table(path)
    name, count = draw.choice(table.column_names), len(table)
    how = draw.choice(("drop", "text", "nulls", "ragged", "nested", "huge", "not finite", "negative", "empty", "times"))
    if how == "drop":
        table = table.drop_columns([name])
    elif how == "empty":
        table = table.slice(0, 0)
    else:
        new = {
            "text": lambda: pyarrow.array(["x"] * count),
            "nulls": lambda: pyarrow.nulls(count, pyarrow.float32()),
            "ragged": lambda: pyarrow.array([[0.0] * draw.randrange(4) for _ in range(count)]),
            "nested": lambda: pyarrow.array([[[{"a": 1}]]] * count),
            "huge": lambda: pyarrow.array([2**62] * count),
            "not finite": lambda: pyarrow.array([float("nan")] * count),
            "negative": lambda: pyarrow.array([-1] * count),
            "times": lambda: pyarrow.array([0] * count, pyarrow.timestamp("us")),
        }[how]()
        table = table.set_column(table.column_names.index(name), name, new)
    parquet.write_table(table, path)
    return f"{name} made {how}"


WORDS = (
    "", " ", "-", "--", "-1", "0", "1.5", "1e999", "nan", "inf", "1e-400", "99999999999999999999999999", "\0", "ÿ",
    "\ud800", "a" * 3000, "--out", "--help", "../..", "/", ".", "/dev/null", "/dev/zero", "none", "None", "null", "[]",
    "{}", "'", '"', "$HOME", "~", "*", "%s", "%(prog)s", "\n", "\x1b[31m", "hopper", "hopper-gravity-1e30", "sys:exit",
    "os:getcwd", "json:loads", "nowhere:nothing", "hopper.big.head", "hopper-", "-hopper", "１２", "1_0", "0x10",
    "minari:x/y-v0", "lerobot:.", "preset", "0:1", "x=1", "=", "=1", "x=", "penalty=nan:1", "penalty=1:0:log",
    ":", "a:b:c",
)  # fmt: skip
SETTINGS = (
    "batch_size", "actor_widths", "critic_widths", "temperature", "discount", "target_rate", "penalty",
    "updates_per_step",
    "learning_starts", "replay_size", "critics", "log_interval", "final_episodes", "tune_temperature", "precision",
    "backbone", "collects", "learns_from", "random_steps", "padded", "keep_policies", "source_noise", "gradient_clip",
    "nothing", "critic_learning_rate", "encoder_widths", "ensemble_widths", "start_from", "source_dynamics", "format",
)  # fmt: skip
TASKS = ("jetpack", "hopper-big-head", "walker-no-right-thigh", "ant-gravity-0.5", "hopper-friction-2-legacy")


def sound(draw: Random) -> list[str]:
    """A command line that could be meant: nothing of it takes long."""
    task, method = draw.choice(TASKS), draw.choice(list(RECIPES))
    train = ["train", "--task", task, "--method", method, "--seeds", "0", "1", "--out", "new", "--dry-run"]
    some = [
        ["--set", f"{draw.choice(SETTINGS)}={draw.choice(WORDS)}"],
        ["--set", "batch_size=8", "actor_widths=8x8"],
        ["--preset", draw.choice(("paper", "released", "reported", "odrl"))],
        ["--backbone", draw.choice(("classic", "simba", "ensemble"))],
        ["--penalty", "0", "preset", "0.1"],
        ["--target-steps", "100", "--source-envs", "5"],
        ["--config", "config.yaml"],
        ["--source", "tests.custom.environments:source", "--target", "tests.custom.environments:target"],
        ["--source-data", "data.hdf5"],
        ["--start-from", "new/{robot}.sac.seed-{seed}"],
        ["--time-limit", "10", "--eval-episodes", "0", "--checkpoint-interval", "100", "--threads", "1"],
        ["--domain-input", "flag", "--target-mode", "episodic", "--allow-no-shift", "--keep-replay"],
    ]
    others = [
        ["list", "--json"],
        ["list"],
        ["--version"],
        ["resume", "runs", "--threads", "1"],
        ["evaluate", "runs/a", "--episodes", "1", "--seed", "3", "--domain", "source"],
        ["check", task, "--json"],
        ["check", "data.hdf5", "--robot", "hopper", "--target", "hopper-big-head"],
        ["report", "runs", "--out", "page"],
        ["export", "runs/a", "--format", draw.choice(FORMATS), "--out", "exported"],
        ["export", "data.hdf5", "--format", "lerobot", "--out", "exported", "--fps", "10"],
        ["video", "runs/a", "--out", "a.gif", "--episodes", "1", "--steps", "2"],
        ["collect", "hopper-rubbish", "--out", "data", "--steps", "20"],
        ["collect", "--policy", "runs/a", "--name", "x", "--task", "hopper"],
        ["study", "list"],
        ["study", "plan", "study.yaml", "--out", "there", "--scale", "0.01", "--only", "hopper", "--quick"],
        ["study", "plan", "interval", "--seeds", "0", "--lanes", "2", "--threads", "1"],
        ["tune", task, "--search", "penalty=0.01:5:log", "--budget-target-steps", "1", "--trials", "16"],
        ["bench", "--backbone", "nothing", "--quick"],
    ]
    if draw.random() < 0.6:
        return train + [word for words in draw.sample(some, draw.randrange(4)) for word in words]
    return draw.choice(others)


def mutated_line(draw: Random) -> list[str]:
    """A command line with some words changed."""
    words = sound(draw)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        position = draw.randrange(len(words)) if words else 0
        how = draw.randrange(6)
        if how == 0 and words:
            del words[position]
        elif how == 1:
            words.insert(position, draw.choice(WORDS))
        elif how == 2 and words:
            other = draw.randrange(len(words))
            words[position], words[other] = words[other], words[position]
        elif how == 3 and words and words[position]:
            letters = list(words[position])
            letters[draw.randrange(len(letters))] = draw.choice(string.printable)
            words[position] = "".join(letters)
        elif how == 4 and words:
            words.insert(position, words[position])
        elif words:
            words[position] = draw.choice(WORDS)
    return _harmless(words)


def _harmless(words: list[str]) -> list[str]:
    """Whatever came of it, it trains and measures nothing: that would take hours."""
    if "train" in words[:2] and "--dry-run" not in words:
        words.append("--dry-run")
    if "bench" in words:
        words += ["--backbone", "nothing"]
    if "tune" in words:
        words += ["--budget-target-steps", "1"]
    if "collect" in words:
        words += ["--steps", "20"]
    if "run" in words:
        words[words.index("run")] = "plan"
    return [word for word in words if word not in ("--measure", "--train")]


CONFIG = {
    "task": ["hopper-big-head", "jetpack"],
    "method": "par",
    "preset": "paper",
    "seeds": [0, 1],
    "target_steps": 300,
    "penalty": [0, 0.5],
    "batch_size": 8,
    "actor_widths": [8, 8],
    "out": "new",
    "tune_temperature": True,
}
STUDY = {
    "name": "small",
    "what": "a study",
    "tasks": ["jetpack", {"robot": "hopper", "edits": []}],
    "methods": ["sac", {"method": "par", "penalty": 0.1}],
    "seeds": [0, 1],
    "grid": {"temperature": [0.1, 0.2]},
    "target_steps": 100,
}
TASK = {"robot": "hopper", "name": "mine", "edits": [{"scale": {"what": "gravity", "by": 0.5}}]}
YAML = (
    "!!python/object/apply:os.system ['true']", "&a [*a]", "{" * 5000, "- " * 3000, "a: &a [x]\nb: *a\n<<: 1",
    "\t", "2001-99-99",
    "\0", "--- 1\n--- 2", "%YAML 9.9\n--- 1", "!!binary x", "? [a]\n: b", "1:2:3", "'", "0o9",
    "task: hopper\ntask: ant",
    "&a [" + "x," * 9 + "]\nb: &b [*a,*a,*a,*a,*a,*a]\n"
    "c: &c [*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d]",
)  # fmt: skip


def mutated_yaml(draw: Random, sound_one: Any) -> bytes:
    """A configuration of which something is not as it should be."""
    if draw.random() < 0.1:
        return draw.choice(YAML).encode(errors="surrogatepass")
    changed = json.loads(json.dumps(sound_one))
    values = (*mutations.VALUES, *WORDS, *SETTINGS)
    for _ in range(draw.choice((0, 1, 1, 2, 4))):
        changed = mutations.of_tree(draw, changed, values)
        if isinstance(changed, dict) and draw.random() < 0.3:
            changed[draw.choice(SETTINGS)] = draw.choice(values)
    try:
        text = yaml.safe_dump(changed, allow_unicode=draw.random() < 0.5).encode(errors="replace")
    except (yaml.YAMLError, ValueError):
        text = repr(changed).encode(errors="replace")
    return mutations.of_bytes(draw, text) if draw.random() < 0.25 else text


def command_line(base: Base, datasets: Sequence[Path], draw: Random, place: Path, case: Case) -> None:
    """A command line, or a configuration, that somebody mistyped."""
    os.environ["OFFDYN_DATA"] = str(place / "data")
    shutil.copytree(base.folder, place / "runs")
    first = sorted(path for path in (place / "runs").iterdir() if path.name != "cohorts")[0]
    first.rename(place / "runs" / "a")
    shutil.copyfile(datasets[0], place / "data.hdf5")
    write_atomically(place / "config.yaml", yaml.safe_dump(CONFIG).encode())
    write_atomically(place / "study.yaml", yaml.safe_dump(STUDY).encode())
    kind = draw.choices(("line", "config", "study", "task"), (65, 20, 10, 5))[0]
    if kind == "line":
        words = mutated_line(draw)
    else:
        text = mutated_yaml(draw, {"config": CONFIG, "study": STUDY, "task": TASK}[kind])
        (place / "changed.yaml").write_bytes(text)
        case.about = ascii(text.decode(errors="replace"))[:600]
        words = {
            "config": ["train", "--config", "changed.yaml", "--dry-run"],
            "study": ["study", "plan", "changed.yaml"],
            "task": ["train", "--task", "changed.yaml", "--method", "sac", "--dry-run"],
        }[kind]
    alone = draw.random() < IN_A_PROCESS
    call(words, case, place, alone=alone)
    case.counts[f"command lines: {kind}"] += 1
