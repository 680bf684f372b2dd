"""Runs the policy beside this file, which moves the actions of a base policy; contract.yaml says what goes in and out.

from policy import Policy; policy = Policy(); action = policy(observation)
A base policy that is a Python function, [n, observation size] -> [n, action size], goes in: Policy(base=function).
"""

import sys
from pathlib import Path

import network
import numpy as np


def base_beside(folder):
    """The base policy that lies there: layers for NumPy, or an ONNX file."""
    layers, model = folder / "base.safetensors", folder / "base.onnx"
    if layers.exists():
        return network.Policy(layers)
    if not model.exists():
        raise ValueError("this policy moves the actions of a base policy: hand it over, Policy(base=function)")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    taken, given = session.get_inputs()[0], session.get_outputs()
    names = [one.name for one in given if len(given) == 1 or one.name in ("action", "actions")]
    kind = np.float64 if taken.type == "tensor(double)" else np.float32

    def act(rows):
        parts = rows[:, None] if isinstance(taken.shape[0], int) else rows[None]
        return np.concatenate([session.run(names, {taken.name: part.astype(kind)})[0] for part in parts])

    return act


class Policy:
    def __init__(self, path=None, base=None):
        path = Path(path or Path(__file__).with_name("policy.safetensors"))
        self.chosen = network.Policy(path)  # in [-1, 1]
        self.base = base or base_beside(path.parent)

    def __call__(self, observation):
        """[..., observation size] -> [..., action size]; what is not finite is refused."""
        chosen, of = self.chosen(observation), self.chosen.arrays
        low, high = of["environment.low"], of["environment.high"]
        seen = np.asarray(observation, np.float32).reshape(-1, of["observation.mean"].size)
        given = np.asarray(self.base(seen), float)
        if given.shape != (len(seen), low.size) or not np.isfinite(given).all():
            raise ValueError(f"the base policy gave {given} for {seen}")
        middle, half = (low + high) / 2, (high - low) / 2
        share = np.clip((given - middle) / half, -1, 1).reshape(chosen.shape)
        action = middle + half * np.clip(share + of["residual"] * chosen, -1, 1)
        return np.clip(action.astype(np.float32), low, high)


if __name__ == "__main__":  # an observation a line, its numbers between blanks
    for line in sys.stdin:
        print(*Policy()(line.split()))
