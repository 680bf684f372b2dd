"""The Python on the page docs/datasets.md runs, and gives what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

from offdyn.data.datasets import open_dataset
from offdyn.data.doctor import diagnose_dataset

from .simulated import simulated, write_d4rl

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()


def code_under(heading: str) -> str:
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert section is not None, heading
    return "\n".join(re.findall(r"^```python\n(.*?)^```", section[1], flags=re.MULTILINE | re.DOTALL))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OFFDYN_DATA", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def test_your_own_logs_become_a_sound_dataset():
    exec(code_under("Your own logs"), {"__name__": "page"})
    dataset = open_dataset("my-hopper", robot="hopper")
    assert len(dataset) == 500
    assert dataset.terminated.any()
    assert diagnose_dataset(dataset) == []


def test_a_d4rl_file_can_be_looked_at():
    write_d4rl(Path("hopper_medium-v2.hdf5"), simulated("hopper"))
    names: dict[str, object] = {}
    exec(code_under("A D4RL file"), names)
    assert len(names["dataset"]) == len(simulated("hopper"))


def test_a_minari_set_goes_out_and_comes_in():
    from offdyn.data.datasets import save

    save(simulated("hopper"), Path("data/my-hopper.safetensors"))
    names: dict[str, object] = {}
    exec(code_under("A Minari set"), names)
    assert np.array_equal(names["again"].reward, simulated("hopper").reward)
