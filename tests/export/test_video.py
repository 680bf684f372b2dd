"""`offdyn video`: source and target side by side, the same for the same seed, and in words why there is none."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

import offdyn
from offdyn._util.errors import OffdynError
from offdyn.cli.main import main
from offdyn.envs import custom, opengl, pairs, render
from offdyn.envs.gym import RobotEnv
from offdyn.envs.jetpack import JETPACK
from offdyn.envs.tasks import TASKS
from offdyn.export.video import files, film, stages
from offdyn.export.video.record import record

from ..envs.test_picture import says_what_to_install
from ..training.small import PUSH
from . import made_up


def frames_of(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        shown = []
        for number in range(image.n_frames):
            image.seek(number)
            shown.append(np.asarray(image.convert("RGB")))
        return shown


def decoded(path: Path, width: int, height: int) -> np.ndarray:
    """[frames, height, width, 3]."""
    command = [files._ffmpeg(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


@pytest.fixture
def jetpack(tmp_path: Path) -> Path:
    return made_up.run(tmp_path / "out", "jetpack", normalised=False).path


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every line of text that is drawn."""
    lines: list[str] = []
    draw = film._write
    monkeypatch.setattr(
        film, "_write", lambda pen, where, text, *rest: (lines.append(text), draw(pen, where, text, *rest))
    )
    return lines


def test_the_same_seed_gives_the_same_film(jetpack: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        record(jetpack, tmp_path / f"{name}.gif", seed=seed, steps=5)
    contents = [(tmp_path / f"{name}.gif").read_bytes() for name in "abc"]
    assert contents[0] == contents[1] != contents[2]


def test_an_episode_is_shown_step_by_step_and_its_end_for_a_second(jetpack: Path, tmp_path: Path) -> None:
    outcomes = record(jetpack, tmp_path / "a.gif", episodes=2, steps=7)
    assert [[outcome.steps for outcome in episode] for episode in outcomes] == [[7, 7], [7, 7]]
    with Image.open(tmp_path / "a.gif") as image:
        # Pillow joins equal frames: the start, seven steps, and the last one longer, twice.
        times = []
        for number in range(image.n_frames):
            image.seek(number)
            times.append(image.info["duration"])
    assert times == ([200] * 7 + [200 + 1000]) * 2


def test_step_and_return_are_drawn_for_both(jetpack: Path, tmp_path: Path, written: list[str]) -> None:
    ((source, target),) = record(jetpack, tmp_path / "a.gif", seed=3, steps=2)
    assert written[0] == "jetpack   par   seed 0"
    assert written[1:3] == ["source   step 0   return 0.0", "target   step 0   return 0.0"]
    ends = [f"{o.role}   step 2   return {o.total:.1f}   cut after 2 steps" for o in (source, target)]
    assert written[-2:] == ends


@pytest.mark.parametrize("chosen", [{}, made_up.SIMBA], ids=["classic", "simba"])
def test_returns_are_those_of_the_targets_policy_in_each_domain(chosen: dict[str, str], tmp_path: Path) -> None:
    jetpack = made_up.run(tmp_path / "out", "jetpack", normalised=bool(chosen), **chosen).path
    ((source, target),) = record(jetpack, tmp_path / "a.gif", seed=5)
    assert source.total != target.total
    policy = offdyn.load_policy(jetpack)
    for outcome, shifted in ((source, False), (target, True)):
        generator, _ = gymnasium.utils.seeding.np_random(5)
        state, total = JETPACK.start(generator)[None], 0.0
        for _ in range(JETPACK.spec.time_limit):
            state, reward, _ = JETPACK.advance(state, policy(state), np.array([shifted]))
            total += float(reward[0])
        assert outcome.total == pytest.approx(total)
        assert outcome.ending == "time limit"


def test_a_robot_is_filmed_in_its_two_bodies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_up.run(tmp_path / "out", "hopper-big-head", normalised=False).path
    out = tmp_path / "a.mp4"
    if says_what_to_install():
        with pytest.raises(OffdynError, match="cannot render"):
            record(run, out, steps=1)
        return
    ((source, target),) = record(run, out, seed=1, steps=9)
    policy = offdyn.load_policy(run)
    for outcome, task in ((source, "hopper"), (target, "hopper-big-head")):
        env = RobotEnv(TASKS[task])
        seen, _ = env.reset(seed=1)
        rewards = []
        for _ in range(9):
            seen, reward, *_ = env.step(policy(seen))
            rewards.append(reward)
        assert outcome.total == pytest.approx(sum(rewards))
    shown = decoded(out, 964, 420)
    assert len(shown) == 1 + 3 + 31  # the start, steps 4, 8 and 9, and a second more
    left, right = (shown[3][60:, part].astype(int) for part in (slice(0, 480), slice(484, 964)))
    assert np.abs(left - right).mean() > 1  # a big head
    with Image.open(run / "poster.png") as poster:
        assert poster.size == (640, 279)


def test_the_report_shows_the_poster_of_runs_that_have_one(jetpack: Path, tmp_path: Path) -> None:
    record(jetpack, tmp_path / "a.gif", steps=3)
    made_up.run(tmp_path / "out", "hopper-big-head")
    damaged = made_up.run(tmp_path / "out", "hopper-broken-joints").path
    (damaged / "poster.png").write_bytes(b"no picture")
    assert main(["report", str(tmp_path / "out"), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count('<img class="poster"') == 1
    assert f'alt="A frame of a video of {jetpack.name}: source' in page


class Lamp(gymnasium.Env):
    """Brighter by every action; ends in full light."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(0.0, 4.0, (1,))

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.light = render_mode, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.light = 0.0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.light += 10 * float(action[0])
        return np.zeros(2, np.float32), 1.0, self.light > 100, False, {}

    def render(self):
        return np.full((64, 48, 3), min(self.light, 255), np.uint8)


def lamp(render_mode: str | None = None) -> gymnasium.Env:
    return Lamp(render_mode)


def lamp_in_the_dark() -> gymnasium.Env:
    return Lamp()


def own_run(out: Path, source: custom.Factory | None, target: custom.Factory) -> Path:
    pair = custom.pair_of(source, target, time_limit=50)
    return made_up.run(out, pair, "par" if source else "sac-tar", normalised=False).path


def test_environments_of_ones_own_are_filmed_by_their_own_images(tmp_path: Path) -> None:
    run = own_run(tmp_path / "out", lamp, lambda render_mode=None: Lamp(render_mode))
    ((source, target),) = record(run, tmp_path / "a.gif")
    assert (source.ending, source.total) == ("ended", source.steps)
    assert (target.role, target.steps) == ("target", source.steps)
    frames = frames_of(tmp_path / "a.gif")
    assert frames[0].shape == (124, 100, 3)
    assert frames[0][100, 20, 0] < frames[-1][100, 20, 0]


def test_without_a_source_to_act_in_the_target_is_shown_alone(tmp_path: Path) -> None:
    ((target,),) = record(own_run(tmp_path / "out", None, lamp), tmp_path / "a.gif", steps=2)
    assert target.role == "target"
    assert frames_of(tmp_path / "a.gif")[0].shape == (124, 48, 3)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["video", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_an_environment_that_gives_no_images_is_refused(tmp_path: Path, capsys) -> None:
    run = own_run(tmp_path / "out", lamp, lamp_in_the_dark)
    said = refused(capsys, run, "--out", tmp_path / "a.gif")
    assert "its render mode is None, expected 'rgb_array'; let its function take render_mode" in said


def test_an_environment_that_fails_to_draw_is_named(tmp_path: Path, capsys, monkeypatch) -> None:
    def fail(self):
        raise RuntimeError("no paint")

    monkeypatch.setattr(Lamp, "render", fail)
    said = refused(capsys, own_run(tmp_path / "out", None, lamp), "--out", tmp_path / "a.gif")
    assert "cannot render the target: RuntimeError: no paint" in said
    assert not list(tmp_path.glob("*a*.gif"))


def test_an_environment_that_fails_in_mid_episode_is_named(tmp_path: Path, capsys, monkeypatch) -> None:
    def fail(self, action):
        raise RuntimeError("fell over")

    monkeypatch.setattr(Lamp, "step", fail)
    said = refused(capsys, own_run(tmp_path / "out", None, lamp), "--out", tmp_path / "a.gif")
    assert "the target failed at step 0: RuntimeError: fell over" in said


def test_a_world_without_a_picture_is_refused(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(pairs.WORLDS, PUSH.name, PUSH)
    run = made_up.run(tmp_path / "out", PUSH).path
    assert "nobody knows how to draw the world 'push'" in refused(capsys, run, "--out", tmp_path / "a.gif")


def test_where_no_renderer_is_there_the_message_says_what_to_install(tmp_path: Path, capsys, monkeypatch) -> None:
    def nothing() -> str:
        return opengl.backend(loads=lambda name: (_ for _ in ()).throw(OSError(name)))

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(render, "backend", nothing)
    run = made_up.run(tmp_path / "out", "hopper-big-head").path
    said = refused(capsys, run, "--out", tmp_path / "a.gif")
    assert "cannot render: neither EGL nor OSMesa is installed; install the Debian package libegl1" in said
    assert not (tmp_path / "a.gif").exists()


@pytest.mark.parametrize(
    ("missing", "said"),
    [("imageio_ffmpeg", "an mp4 needs ffmpeg"), ("PIL", "drawing needs the Python package pillow")],
)
def test_a_missing_extra_is_named(missing: str, said: str, jetpack: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    complaint = refused(capsys, jetpack, "--out", tmp_path / "a.mp4")
    assert said in complaint
    assert "pip install 'offdyn[render]'" in complaint


def test_without_an_ffmpeg_program_a_gif_is_offered(jetpack: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "")
    import imageio_ffmpeg

    def absent() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", absent)
    assert "or ask for a .gif" in refused(capsys, jetpack, "--out", tmp_path / "a.mp4")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "a.avi"], "expected a file that ends in .mp4 or .gif"),
        (["--out", "no-such-folder/a.gif"], "its folder does not exist"),
        (["--out", "a.gif", "--episodes", "0"], "--episodes: expected a whole number from 1"),
        (["--out", "a.gif", "--steps", "0"], "--steps: expected a whole number from 1"),
        (["--out", "a.gif", "--seed", "-1"], "--seed: expected a whole number from 0"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_drawn(arguments, said: str, jetpack: Path, capsys) -> None:
    assert said in refused(capsys, jetpack, *arguments)


def test_a_run_without_a_policy_has_no_video(jetpack: Path, tmp_path: Path, capsys) -> None:
    (jetpack / "policy.safetensors").unlink()
    assert "no policy there yet" in refused(capsys, jetpack, "--out", tmp_path / "a.gif")


@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_a_film_that_is_interrupted_leaves_the_one_before(
    kind: str, jetpack: Path, tmp_path: Path, monkeypatch
) -> None:
    out = tmp_path / f"a.{kind}"
    out.write_text("before")

    def interrupt(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages.JetpackEnv, "step", interrupt)
    assert main(["video", str(jetpack), "--out", str(out)]) == 130
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [out.name]


def test_an_encoder_that_fails_says_why(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "_ffmpeg", lambda: sys.executable)
    with pytest.raises(OffdynError, match="ffmpeg failed: "):
        files.write(tmp_path / "a.mp4", np.zeros((2000, 60, 80, 3), np.uint8), 10.0)
    assert not list(tmp_path.iterdir())


def test_the_same_frames_give_the_same_mp4(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (5, 60, 80, 3), np.uint8)
    for name in "ab":
        files.write(tmp_path / f"{name}.mp4", frames, 10.0)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
