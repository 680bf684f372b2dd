"""A run's numbers in Weights & Biases, where its user asks for that; what fails there costs a notice, no training."""

import json
import secrets
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._util import files
from .._util.errors import OffdynError
from .config import RunConfig

if TYPE_CHECKING:
    from .run_folder import RunFolder

FORMAT = 1  # of wandb.json
ABOUT = "wandb.json"  # in the run's folder
MISSING = "the Python package wandb is not installed: pip install 'offdyn[wandb]', or train without --wandb"
NO_KEY = "W&B knows no key here: run `wandb login`, or set WANDB_MODE=offline and upload later with `wandb sync`"
FORBIDDEN = "\\#?%:"  # in the name of a project
LONGEST = 128  # characters of a name
STOPPED = 75  # the exit code of a training that can be resumed
# Quiet, without copies of code, terminal and machine; no call may hold up the training for long.
SETTINGS: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "init_timeout": 20,
    "finish_timeout": 60,
}
_absent: list[str] = []  # why W&B is not there for this process, once one run found out: the others need not wait


def check(runs: Iterable[RunConfig]) -> None:
    """Before a training begins, refuse what cannot work at all."""
    _absent.clear()
    for project in {run.schedule.wandb for run in runs} - {None}:
        names = str(project).split("/")
        if len(names) > 2 or any(not n or len(n) > LONGEST or set(n) & set(FORBIDDEN) for n in names):
            raise OffdynError(f"--wandb {project}: expected PROJECT or TEAM/PROJECT, without any of {FORBIDDEN}")
        try:
            import wandb
        except ImportError as error:
            raise OffdynError(f"--wandb {project}: {MISSING}") from error
        if not _may_send(wandb):
            raise OffdynError(f"--wandb {project}: {NO_KEY}")


def _may_send(wandb: Any) -> bool:
    """Whether there is a key, or none is needed; a version that cannot tell finds out when the first run begins."""
    try:
        online = wandb.setup().settings.mode == "online"
        return not online or wandb.login(prompt=False, verify=False)
    except Exception:
        return True


class Mirror:
    """What one run sends: each line of its curve and of its metrics, after that line is in the run's own file."""

    def __init__(self, folder: "RunFolder") -> None:
        self.folder = folder
        self._run: Any = None

    def log(self, kind: str, numbers: Mapping[str, Any]) -> None:
        """One line; the first one opens the run, or the one it was before a resume."""
        if _absent:
            return
        try:
            if self._run is not None:
                self._send(kind, numbers)
            elif self._open():
                self._send_all()
            else:
                self._send(kind, numbers)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """The run is over for now: finished, failed, or stopped and to be resumed."""
        run, self._run = self._run, None
        if run is None:
            return
        try:
            state, final = self.folder.state, self.folder.path / "final.json"
            if state == "finished" and final.exists():
                read = json.loads(files.content(final))
                run.summary.update({name: value for name, value in read.items() if isinstance(value, float)})
            if state == "stopped":
                run.mark_preempting()
            run.finish(exit_code={"finished": 0, "stopped": STOPPED}.get(state, 1))
            self.folder.write_json(ABOUT, self._about() | {"closed": True})
        except Exception as error:
            self._give_up(error)

    def _send(self, kind: str, numbers: Mapping[str, Any]) -> None:
        there = {name: value for name, value in numbers.items() if value is not None and value == value}
        self._run.log({f"{kind}/{name}".replace(" ", "_"): value for name, value in there.items()})

    def _send_all(self) -> None:
        """After a crash, which may have cost W&B lines that the run's files have: a line twice does no harm."""
        for line in self.folder.curve():
            self._send("curve", line)
        metrics = self.folder.path / "metrics.jsonl"
        for text in files.content(metrics).splitlines() if metrics.exists() else []:
            self._send("metrics", json.loads(text))

    def _open(self) -> bool:
        """Whether this goes on after a crash."""
        import wandb

        config = self.folder.config
        team, _, project = str(config.schedule.wandb).rpartition("/")
        about = self._about()
        self.folder.write_json(ABOUT, about | {"closed": False})
        self._run = wandb.init(
            entity=team or None,
            project=project,
            id=about["id"],
            resume="allow",
            name=config.name[-LONGEST:],
            group=config.name.rpartition(".seed-")[0][:LONGEST],
            dir=str(self.folder.path),
            config={"task": config.task.name, "method": config.method, "preset": config.preset, "seed": config.seed}
            | config.settings(),
            reinit="create_new",  # lanes train side by side
            settings=wandb.Settings(**{k: v for k, v in SETTINGS.items() if k in wandb.Settings.model_fields}),
        )
        self._run.define_metric("metrics/*", step_metric="metrics/source_steps")
        counted = "target_steps" if config.schedule.acts_in_target else "updates"
        self._run.define_metric("curve/*", step_metric=f"curve/{counted}")
        if not self._run.offline:
            _say(f"W&B: {self._run.url}")
        return not about["closed"]

    def _about(self) -> dict[str, Any]:
        """The id of the run there, drawn once, and whether it was closed in order."""
        try:
            read = json.loads(files.content(self.folder.path / ABOUT))
            return {"format": FORMAT, "id": str(read["id"]), "closed": bool(read["closed"])}
        except FileNotFoundError:
            return {"format": FORMAT, "id": secrets.token_hex(4), "closed": True}

    def _give_up(self, error: Exception) -> None:
        """Once for all runs of this process; the run's own files have all the numbers."""
        self._run = None
        why = MISSING if isinstance(error, ImportError) else " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if not _absent:
            _say(f"W&B gets no more numbers ({why}); the training goes on, and its own files have them all")
        _absent.append(why)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
