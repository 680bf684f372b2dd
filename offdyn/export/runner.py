"""Runs the policy beside this file with NumPy alone; contract.yaml says what goes in and what comes out.

from policy import Policy; policy = Policy(); action = policy(observation)
"""

import json
import math
import sys
from pathlib import Path

import numpy as np


def read(path):
    """(steps, float32 arrays) of a safetensors file: 8 bytes of length, as much JSON, then the numbers."""
    content = Path(path).read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    if not 8 < start <= len(content):
        raise ValueError(f"{path}: cut short")
    arrays, numbers, entries = {}, content[start:], json.loads(content[8:start])
    steps = entries.pop("__metadata__")["steps"].split()
    for name, entry in entries.items():
        first, end = entry.get("data_offsets", (0, 0))
        sizes = entry.get("shape", [0])
        if not 0 <= first <= end <= len(numbers) or end - first != 4 * math.prod(sizes):
            raise ValueError(f"{path}: {name} is damaged")
        arrays[name] = np.frombuffer(numbers[first:end], "<f4").reshape(sizes)
    return steps, arrays


class Policy:
    def __init__(self, path=None):
        self.steps, self.arrays = read(path or Path(__file__).with_name("policy.safetensors"))

    def __call__(self, observation):
        """[..., observation size] -> [..., action size]; what is not finite is refused."""
        x, of = np.asarray(observation, np.float32), self.arrays
        if x.shape[-1:] != of["observation.mean"].shape or not np.isfinite(x).all():
            raise ValueError(f"expected {of['observation.mean'].size} finite numbers, got {observation}")
        x = (x - of["observation.mean"]) / of["observation.deviation"]
        layer = norm = 0
        for step in self.steps:
            if step == "linear":
                x = x @ of[f"layers.{layer}.weight"] + of[f"layers.{layer}.bias"]
                layer += 1
            elif step == "norm":
                x = x - x.mean(-1, keepdims=True)
                x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-5))
                x = x * of[f"norms.{norm}.scale"] + of[f"norms.{norm}.shift"]
                norm += 1
            elif step == "relu":
                x = np.maximum(x, 0)
            elif step == "keep":
                kept = x
            elif step == "add":
                x = x + kept
            else:
                raise ValueError(f"this program knows no step {step!r}")
        action = of["action.middle"] + of["action.half"] * np.tanh(x)
        return np.clip(action, of["action.low"], of["action.high"])


if __name__ == "__main__":  # an observation a line, its numbers between blanks
    for line in sys.stdin:
        print(*Policy()(line.split()))
