"""The frames of a film: one or two stages side by side, with the step and the return so far."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..._util.errors import OffdynError
from ...policies.trained import Policy
from .stages import Stage

BAR, GAP = 30, 4  # pixels: of a line of text, between two stages
HELD = 1.0  # seconds that the last frame of an episode stays
INK, PAPER, QUIET = (20, 20, 20), (255, 255, 255), (110, 110, 110)


class Outcome(NamedTuple):
    """How an episode went."""

    role: str
    steps: int
    total: float  # return
    ending: str  # "ended", "time limit", "cut after N steps"


@dataclass
class _Actor:
    """One stage with what happens on it."""

    stage: Stage
    observation: np.ndarray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    total: float = 0.0
    ending: str = ""

    def begin(self, seed: int) -> None:
        with _in_words(f"the {self.stage.role} cannot be reset"):
            self.observation, _ = self.stage.env.reset(seed=seed)
        self.steps, self.total, self.ending = 0, 0.0, ""

    def act(self, policy: Policy, time_limit: int, most_steps: int) -> None:
        action = np.nan_to_num(policy(self.observation))
        with _in_words(f"the {self.stage.role} failed at step {self.steps}"):
            self.observation, reward, terminated, truncated, _ = self.stage.env.step(action)
        self.steps += 1
        self.total += float(reward)
        if terminated:
            self.ending = "ended"
        elif truncated or self.steps >= time_limit:
            self.ending = "time limit" if self.steps >= time_limit else "cut by the environment"
        elif self.steps >= most_steps:
            self.ending = f"cut after {most_steps} steps"

    def image(self) -> np.ndarray:
        with _in_words(f"cannot render the {self.stage.role}"):
            drawn = self.stage.env.render()
        if not isinstance(drawn, np.ndarray) or drawn.ndim != 3 or drawn.shape[2] != 3:
            raise OffdynError(
                f"cannot render the {self.stage.role}: expected an image [height, width, 3], got {drawn!r}"
            )
        return drawn.astype(np.uint8)


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """Whatever an environment, or what it draws with, may raise becomes a sentence."""
    try:
        yield
    except OffdynError:
        raise
    except Exception as error:
        raise OffdynError(f"{what}: {type(error).__name__}: {error}") from error


class Film:
    """Iterate over its frames once; then `outcomes` and `poster` are known."""

    def __init__(
        self,
        policy: Policy,
        stages: Sequence[Stage],
        title: str,
        *,
        time_limit: int,
        seed: int,
        episodes: int,
        steps: int | None,
        most_frames: float,
    ) -> None:
        """`most_frames`: a second; steps are left out until there are no more."""
        self.policy, self.title, self.seed, self.episodes = policy, title, seed, episodes
        self.time_limit, self.steps = time_limit, time_limit if steps is None else steps
        self.actors = [_Actor(stage) for stage in stages]
        rate = max(stage.rate for stage in stages)
        self.stride = max(1, int(np.ceil(rate / most_frames - 1e-9)))
        self.frames_per_second = rate / self.stride
        self.outcomes: list[list[Outcome]] = []
        self.poster: np.ndarray | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        for episode in range(self.episodes):
            for actor in self.actors:
                actor.begin(self.seed + episode)
            yield from self._play(episode)
            self.outcomes.append([Outcome(a.stage.role, a.steps, a.total, a.ending) for a in self.actors])

    def _play(self, episode: int) -> Iterator[np.ndarray]:
        images = [actor.image() for actor in self.actors]
        frame = self._compose(images, episode)
        shown = 0
        while True:
            shown += 1
            # A frame from the second quarter of the time in which all of them act, without keeping every frame.
            if episode == 0 and shown & (shown - 1) == 0 and not any(actor.ending for actor in self.actors):
                self.poster = frame
            yield frame
            running = [actor for actor in self.actors if not actor.ending]
            if not running:
                break
            for _ in range(self.stride):
                for actor in running:
                    if not actor.ending:
                        actor.act(self.policy, self.time_limit, self.steps)
                if all(actor.ending for actor in self.actors):
                    break
            images = [a.image() if a in running else old for a, old in zip(self.actors, images, strict=True)]
            frame = self._compose(images, episode)
        for _ in range(round(HELD * self.frames_per_second)):
            yield frame

    def _compose(self, images: Sequence[np.ndarray], episode: int) -> np.ndarray:
        """[height, width, 3], both even, as video codecs want them."""
        from PIL import Image, ImageDraw

        tall = max(image.shape[0] for image in images)
        wide = sum(image.shape[1] for image in images) + GAP * (len(images) - 1)
        page = Image.new("RGB", (wide + wide % 2, (2 * BAR + tall) // 2 * 2), PAPER)
        pen = ImageDraw.Draw(page)
        number = f"   episode {episode + 1} of {self.episodes}" if self.episodes > 1 else ""
        _write(pen, (8, 7), self.title + number, wide - 16, QUIET)
        left = 0
        for actor, image in zip(self.actors, images, strict=True):
            said = f"{actor.stage.role}   step {actor.steps}   return {actor.total:.1f}"
            said += f"   {actor.ending}" if actor.ending else ""
            _write(pen, (left + 8, BAR + 5), said, image.shape[1] - 16, INK)
            page.paste(Image.fromarray(image), (left, 2 * BAR))
            left += image.shape[1] + GAP
        return np.asarray(page)


def _write(pen: Any, where: tuple[int, int], text: str, width: int, colour: tuple[int, int, int]) -> None:
    """In one line; what is too long loses its end."""
    from PIL import ImageFont

    font = ImageFont.load_default(16)
    while pen.textlength(text, font=font) > width and len(text) > 1:
        text = text[:-2] + "…"
    pen.text(where, text, font=font, fill=colour)
