"""Lanes dealt out among devices compute what they compute on one, and go on on any other number of them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from offdyn.training import hardware

from .small import curve

ROOT = Path(__file__).parents[2]

# Two lanes on the same rows; then a training that stops on two devices and goes on on one.
SCRIPT = """
import sys
from pathlib import Path
import jax, numpy as np
from offdyn.envs import pairs
from offdyn.training import hardware
from offdyn.training.cohort import Cohort
from offdyn.training.hardware import keep_programs
from offdyn.training.progress import Quiet
from tests.training.small import PUSH, SMALL_NETWORKS, resume, run, train

BACKBONES = {
    "classic": {},
    "simba": {"backbone": "simba", "domain_input": "flag", "random_steps": 6},
}
own = BACKBONES[sys.argv[2]] | ({} if sys.argv[2] == "classic" else SMALL_NETWORKS)
runs = [run("par", seed, **own) for seed in (0, 1)]
keep_programs(Quiet())
pairs.WORLDS[PUSH.name] = PUSH
folder = Path(sys.argv[1])

for count in (1, 2):
    hardware.count_for = lambda lanes: count
    cohort = Cohort(runs)
    learner, rng = cohort.learner, np.random.default_rng(0)
    state = learner.lanes
    rows = [learner.devices.deal(rng.normal(size=r.shape).astype(np.float32)) for r in learner.experience]
    given = (*rows, *(np.int32(r.shape[1]) for r in rows))
    text = learner.programs.learn.lower(learner.keys, state, *given, np.int32(0), cohort.alive).compile().as_text()
    print(count, [word for word in ("all-", "collective", "permute") if word in text])
    for step in range(0, 200, 5):
        before, state = state, learner.programs.learn(learner.keys, state, *given, np.int32(step), cohort.alive)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(before.agent)), "the old state was kept as well"
    learned = jax.tree.leaves((state.agent, state.learned))
    assert all(len(leaf.sharding.device_set) == count for leaf in learned), "the state left its devices"
    np.savez(folder / f"{count}.npz", *map(np.asarray, learned))

train(runs, folder / "runs", stop_at=200)
hardware.count_for = lambda lanes: 1
print("resumed at step 200" in resume(folder / "runs").said)
"""


def in_a_process(script: str, *arguments: object, **environment: str) -> list[str]:
    """The lines that a script printed in a process of its own."""
    own = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=own | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)} | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module", params=["classic", "simba"])
def on_two_devices(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_programs: None
) -> tuple[Path, list[str]]:
    """What the script left, and printed."""
    folder = tmp_path_factory.mktemp("devices")
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2".strip()
    return folder, in_a_process(SCRIPT, folder, request.param, XLA_FLAGS=flags)


def test_two_devices_learn_what_one_learns(on_two_devices: tuple[Path, list[str]]) -> None:
    folder, _ = on_two_devices
    one, two = np.load(folder / "1.npz"), np.load(folder / "2.npz")
    for name in one.files:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_no_lane_hears_of_another(on_two_devices: tuple[Path, list[str]]) -> None:
    assert on_two_devices[1][:2] == ["1 []", "2 []"]


def test_a_training_goes_on_on_another_number_of_devices(on_two_devices: tuple[Path, list[str]]) -> None:
    folder, printed = on_two_devices
    assert printed[-1] == "True"
    for seed in (0, 1):
        run = next((folder / "runs").glob(f"*seed-{seed}"))
        assert [line["source_steps"] for line in curve(run)] == ["0", "120", "240", "360", "480"]
        assert (run / "final.json").exists()


@pytest.mark.parametrize(
    ("lanes", "there", "used"), [(1, 8, 1), (5, 2, 1), (6, 4, 3), (8, 4, 4), (40, 16, 10), (3, 8, 3), (7, 8, 7)]
)
def test_every_lane_has_as_many_neighbours_as_any_other(
    lanes: int, there: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware.jax, "local_device_count", lambda: there)
    assert hardware.count_for(lanes) == used


def test_unused_devices_are_mentioned_and_a_single_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.jax, "local_device_count", lambda: 4)
    assert hardware.describe(8) == ", 2 on each of 4 devices"
    assert hardware.describe(6) == ", on 3 of 4 devices: they are dealt out evenly, and 6 cannot be among more"
    assert hardware.describe(2) == ", 1 on each of 2 devices"  # a lane is never split
    monkeypatch.setattr(hardware.jax, "local_device_count", lambda: 1)
    assert hardware.describe(6) == ""


OFFERED = """
from offdyn.training.hardware import offer_every_core
offer_every_core()
import jax
before = jax.device_count()
offer_every_core()
print(before, jax.device_count())
"""


def test_every_core_is_a_device_unless_the_user_said_otherwise() -> None:
    cores = len(os.sched_getaffinity(0))
    assert in_a_process(OFFERED, XLA_FLAGS="") == [f"{cores} {cores}"]
    assert in_a_process(OFFERED, XLA_FLAGS="--xla_force_host_platform_device_count=5") == ["5 5"]
