"""Images come out where a renderer is installed, show what changes, and where none is the error names the package."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from offdyn._util.errors import OffdynError
from offdyn.envs import opengl, register, render
from offdyn.envs.tasks import TASKS, Task

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, PICTURES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


picture = script("tasks")


def says_what_to_install() -> bool:
    """Whether this machine cannot render; then the error must say what is missing, and that is all there is to test."""
    message = ""
    try:
        render.Canvas(TASKS["hopper"].model(), 8, 8).close()
    except OffdynError as error:
        message = str(error)
    assert not message or ("cannot render" in message and "install" in message)
    return bool(message)


SHOWN = [name for view in picture.VIEWS.values() for name in view.columns]


def nothing_loads(library: str) -> None:
    raise OSError(library)


def only_osmesa_loads(library: str) -> None:
    if "OSMesa" not in library:
        raise OSError(library)


def test_where_no_renderer_is_installed_the_error_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(OffdynError, match="libegl1 or libosmesa6"):
        opengl.backend(nothing_loads)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(OffdynError, match="install the Debian package libosmesa6"):
        opengl.backend(nothing_loads)


def test_egl_comes_first_then_osmesa_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert opengl.backend(lambda library: None) == "egl"
    assert opengl.backend(only_osmesa_loads) == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert opengl.backend(lambda library: None) == "osmesa"


@pytest.mark.parametrize(("asked", "package"), [("egl", "libegl1"), ("osmesa", "libosmesa6")])
def test_a_named_backend_that_is_missing_stops_no_import_and_is_named_when_drawing(asked: str, package: str) -> None:
    """In a process of its own: MuJoCo reads MUJOCO_GL once, on import, and fails there where the library is missing."""
    code = """
import ctypes, ctypes.util
class Absent(ctypes.CDLL):
    def __init__(self, name, *rest, **options):
        if name and ("EGL" in name or "OSMesa" in name):
            raise OSError(name)
        super().__init__(name, *rest, **options)
ctypes.CDLL, ctypes.util.find_library = Absent, lambda name: None
from offdyn.envs import render, tasks
from offdyn._util.errors import OffdynError
try:
    render.Canvas(tasks.TASKS["hopper"].model(), 8, 8)
except OffdynError as error:
    print(error)
"""
    environment = os.environ | {"MUJOCO_GL": asked}
    environment.pop("PYOPENGL_PLATFORM", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"install the Debian package {package}" in done.stdout


def test_a_missing_pyopengl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(module)

    model = TASKS["hopper"].model()
    monkeypatch.setattr(render, "backend", lambda: "egl")
    monkeypatch.setattr(render.importlib, "import_module", absent)
    with pytest.raises(OffdynError, match="pyopengl"):
        render.Canvas(model, 8, 8)


def test_every_target_of_the_paper_is_in_the_picture_under_its_source() -> None:
    assert set(SHOWN) == {name for name, task in TASKS.items() if task.shift and "as-printed" not in name}
    for robot, view in picture.VIEWS.items():
        assert [TASKS[name].kind for name in view.columns] == ["kinematic", "morphology"]
        assert {TASKS[name].robot.name for name in view.columns} == {robot}


@pytest.mark.parametrize("name", SHOWN)
def test_captions_say_what_changes(name: str) -> None:
    joints = [edit.name for edit in TASKS[name].shift if edit.quantity == "range"]
    text = picture.caption(TASKS[name])
    assert all(joint in text for joint in joints)
    assert text


def test_an_environment_renders_what_moves() -> None:
    if says_what_to_install():
        return
    if "offdyn/hopper-v0" not in gymnasium.registry:
        register()
    env = gymnasium.make("offdyn/hopper-v0", render_mode="rgb_array", width=64, height=48)
    env.reset(seed=0)
    first = env.render()
    assert isinstance(first, np.ndarray)
    assert (first.shape, first.dtype) == ((48, 64, 3), np.uint8)
    for _ in range(5):
        env.step(np.ones(3))
    second = env.render()
    assert first.std() > 0
    assert not np.array_equal(first, second)
    env.close()


@pytest.mark.parametrize("name", ["hopper-broken-joints", "ant-short-feet"])
def test_a_target_looks_different_from_its_source_where_it_changed(name: str) -> None:
    """Hundreds of pixels differ, and the changed part's orange is only in the target's solid body."""
    if says_what_to_install():
        return
    source = picture.panel_image(TASKS[TASKS[name].robot.name]).astype(int)
    target = picture.panel_image(TASKS[name]).astype(int)
    assert (np.abs(source - target).max(axis=2) > 40).sum() > 300

    def is_orange(image: np.ndarray) -> np.ndarray:
        return (image[..., 0] > 150) & (image[..., 2] < 60)

    assert is_orange(target).sum() > 200 > is_orange(source).sum()


def test_the_picture_has_every_task_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def blank(task: Task) -> np.ndarray:
        drawn.append(task.name)
        return np.full((30, 36, 3), 255, np.uint8)

    monkeypatch.setattr(picture, "panel_image", blank)
    picture.draw(tmp_path / "tasks.svg")
    assert sorted(drawn) == sorted([*SHOWN, *picture.VIEWS])
    picture.draw(tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").read_bytes()[:4] == b"\x89PNG"


def test_the_manuals_picture_is_small() -> None:
    assert (PICTURES / "tasks.png").stat().st_size < 400_000
