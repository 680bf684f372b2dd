"""The training core imports and trains on a machine that has only the packages it names."""

import os
import subprocess
import sys
from pathlib import Path

CORE = {"jax", "jaxlib", "optax", "numpy", "scipy", "safetensors", "yaml", "h5py", "mujoco", "gymnasium", "offdyn"}
# What these packages need themselves.
THEIRS = {"absl", "cloudpickle", "farama_notifications", "ml_dtypes", "opt_einsum", "typing_extensions"}

SCRIPT = """
import importlib.util, sys, sysconfig
from pathlib import Path

allowed = set({allowed!r})
installed = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]

class Bare:
    '''Finds what another finder finds, unless it is not on the bare machine.'''

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in allowed or top in sys.stdlib_module_names or top.startswith("_"):
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Bare, sys.meta_path)
for name in ("rich", "tensorboardX", "matplotlib", "PIL", "imageio", "OpenGL", "glfw", "tyro", "pydantic", "jinja2"):
    assert importlib.util.find_spec(name) is None, name

import offdyn
folders = offdyn.train(
    "hopper-big-head", "par", seeds=(0, 1), out={out!r}, source_steps=2000, eval_interval=1000, eval_episodes=1,
    eval_source_episodes=1, log_interval=500, checkpoint_interval=1000, final_episodes=1, learning_starts=8,
    batch_size=8, actor_widths=8, critic_widths=8, encoder_widths=8, code_size=8, encoder_batch=8,
)
assert folders[0].state == "finished"
assert folders[0].provenance["updates"] > 0
policy = offdyn.load_policy(folders[0])
print("trained", policy([0.0] * 11).shape)
foreign = {{
    name.partition(".")[0] for name, module in sys.modules.items()
    if getattr(module, "__file__", None) and any(p in Path(module.__file__).resolve().parents for p in installed)
}}
unexpected = {{name for name in foreign if name not in allowed and not name.startswith("_")}}
assert not unexpected, unexpected
"""


def test_the_core_trains_where_only_its_own_packages_are_installed(tmp_path: Path, shared_programs: None) -> None:
    script = SCRIPT.format(allowed=sorted(CORE | THEIRS), out=str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained (3,)\n"
    run = next((tmp_path / "out").glob("hopper-*"))
    assert not (run / "tensorboard").exists()
    assert (run / "metrics.jsonl").stat().st_size > 0
