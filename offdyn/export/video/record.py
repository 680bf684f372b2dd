"""From a run's folder to a video file, and a poster for the report."""

from contextlib import ExitStack
from pathlib import Path

from ..._util.errors import OffdynError
from ..._util.files import write_atomically
from ...envs import pairs
from ...training.run_folder import RunFolder
from . import files
from .film import Film, Outcome
from .stages import stages

POSTER = "poster.png"  # in the run's folder
SIZES = {".mp4": (480, 360), ".gif": (320, 240)}  # pixels of one domain


def record(
    run: str | Path, out: str | Path, *, seed: int = 0, episodes: int = 1, steps: int | None = None
) -> list[list[Outcome]]:
    """Film whole episodes of a run's policy; the same seed gives the same film."""
    out, folder = Path(out), RunFolder.open(Path(run))
    policy = folder.policy(normalised=True)
    files.check(out)
    config, kind = folder.config, out.suffix.lower()
    with ExitStack() as stack:
        opened = stages(config.task, SIZES[kind], seed)
        for stage in opened:
            stack.callback(stage.env.close)
        film = Film(
            policy,
            opened,
            f"{config.task.name}   {config.method}   seed {config.seed}",
            time_limit=pairs.spec_of(config.task).time_limit,
            seed=seed,
            episodes=episodes,
            steps=steps,
            most_frames=files.MOST_FRAMES[kind],
        )
        try:
            files.write(out, film, film.frames_per_second)
            if film.poster is not None:
                write_atomically(folder.path / POSTER, files.poster(film.poster))
        except OSError as error:
            raise OffdynError(f"{out}: cannot be written ({error})") from None
    return film.outcomes
