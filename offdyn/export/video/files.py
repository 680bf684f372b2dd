"""Frames into files: mp4 through ffmpeg, gif and png through Pillow; written beside and renamed."""

import io
import os
import subprocess
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from ..._util.errors import OffdynError

NO_PILLOW = "drawing needs the Python package pillow: pip install 'offdyn[render]'"
NO_ENCODER = "an mp4 needs ffmpeg, which comes with the Python package imageio-ffmpeg: pip install 'offdyn[render]'"
MOST_FRAMES = {".mp4": 32.0, ".gif": 25.0}  # a second
POSTER_WIDTH = 640


def check(path: Path) -> None:
    """Refuse what cannot be written before seconds are spent on drawing."""
    if path.suffix.lower() not in MOST_FRAMES:
        raise OffdynError(f"--out {path}: expected a file that ends in .mp4 or .gif")
    if not path.resolve().parent.is_dir():
        raise OffdynError(f"--out {path}: its folder does not exist; make it first")
    if path.is_dir():
        raise OffdynError(f"--out {path}: a folder; name a file")
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError as error:
        raise OffdynError(NO_PILLOW) from error
    if path.suffix.lower() == ".mp4":
        _ffmpeg()


def write(path: Path, frames: Iterable[np.ndarray], frames_per_second: float) -> None:
    """The whole film, or the file that was there."""
    beside = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        (_mp4 if path.suffix.lower() == ".mp4" else _gif)(beside, iter(frames), frames_per_second)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def poster(frame: np.ndarray) -> bytes:
    """A frame as a small PNG."""
    from PIL import Image

    image = Image.fromarray(frame)
    image.thumbnail((POSTER_WIDTH, POSTER_WIDTH))
    content = io.BytesIO()
    image.quantize(128).save(content, "PNG", optimize=True)
    return content.getvalue()


def _ffmpeg() -> str:
    """The path of the program."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise OffdynError(f"{NO_ENCODER}; or ask for a .gif") from error


def _mp4(path: Path, frames: Iterator[np.ndarray], frames_per_second: float) -> None:
    first = next(frames)
    size, rate = f"{first.shape[1]}x{first.shape[0]}", f"{frames_per_second:g}"
    taken = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", rate, "-i", "-"]
    # One thread and no dates: the same frames give the same bytes.
    same = ["-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-movflags", "+faststart"]
    given = ["-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p", *same, str(path)]
    # In a group of its own, where a Ctrl-C does not reach it: we end it.
    ffmpeg = subprocess.Popen(
        [_ffmpeg(), "-v", "error", "-y", *taken, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    assert ffmpeg.stdin is not None
    try:
        for frame in chain((first,), frames):
            ffmpeg.stdin.write(np.ascontiguousarray(frame).data)
        said = ffmpeg.communicate()[1]
    except BrokenPipeError:
        said = ffmpeg.communicate()[1]
    except BaseException:
        ffmpeg.kill()
        ffmpeg.communicate()
        raise
    if ffmpeg.returncode:
        why = said.decode(errors="replace").strip().splitlines()[-1:]
        raise OffdynError(f"ffmpeg failed: {' '.join(why) or f'exit code {ffmpeg.returncode}'}")


def _gif(path: Path, frames: Iterator[np.ndarray], frames_per_second: float) -> None:
    from PIL import Image

    images = (Image.fromarray(frame) for frame in frames)
    first = next(images)
    hundredths = max(2, round(100 / frames_per_second))  # the unit of the format; browsers slow down what is below 2
    first.save(path, "GIF", save_all=True, append_images=images, duration=10 * hundredths, loop=0)
