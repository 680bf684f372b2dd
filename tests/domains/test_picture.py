"""Images come out where a renderer is installed, show what changes, and where none is the error names the package."""

import gymnasium
import numpy as np
import pytest

from offdyn.domains import picture, register, render
from offdyn.domains.tasks import TASKS
from offdyn.errors import OffdynError


def has_renderer() -> bool:
    try:
        render.Canvas(TASKS["hopper"].model(), 8, 8).close()
    except OffdynError:
        return False
    return True


needs_renderer = pytest.mark.skipif(not has_renderer(), reason="neither EGL nor OSMesa is installed")
SHOWN = [name for view in picture.VIEWS.values() for name in view.columns]


def nothing_loads(library: str) -> None:
    raise OSError(library)


def only_osmesa_loads(library: str) -> None:
    if "OSMesa" not in library:
        raise OSError(library)


def test_where_no_renderer_is_installed_the_error_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(OffdynError, match="libegl1 or libosmesa6"):
        render.backend(nothing_loads)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(OffdynError, match="install the Debian package libosmesa6"):
        render.backend(nothing_loads)


def test_egl_comes_first_then_osmesa_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert render.backend(lambda library: None) == "egl"
    assert render.backend(only_osmesa_loads) == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert render.backend(lambda library: None) == "osmesa"


def test_a_missing_pyopengl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(module)

    monkeypatch.setattr(render, "backend", lambda: "egl")
    monkeypatch.setattr(render.importlib, "import_module", absent)
    with pytest.raises(OffdynError, match="pyopengl"):
        render.Canvas(TASKS["hopper"].model(), 8, 8)


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


@needs_renderer
def test_an_environment_renders_what_moves() -> None:
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


@needs_renderer
@pytest.mark.parametrize("name", ["hopper-broken-joints", "ant-short-feet"])
def test_a_target_looks_different_from_its_source_where_it_changed(name: str) -> None:
    """Hundreds of pixels differ, and the changed part's orange is only in the target's solid body."""
    source = picture.panel_image(TASKS[TASKS[name].robot.name]).astype(int)
    target = picture.panel_image(TASKS[name]).astype(int)
    assert (np.abs(source - target).max(axis=2) > 40).sum() > 300

    def is_orange(image: np.ndarray) -> np.ndarray:
        return (image[..., 0] > 150) & (image[..., 2] < 60)

    assert is_orange(target).sum() > 200 > is_orange(source).sum()
