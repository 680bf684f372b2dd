"""A safetensors file, and a short program that runs it with NumPy alone."""

from importlib import resources

from safetensors.numpy import save as to_bytes

from .parts import Parts


def files(parts: Parts) -> dict[str, bytes]:
    runner = (resources.files(__package__) / "runner.py").read_bytes()
    return {"policy.safetensors": to_bytes(parts.arrays(), {"steps": " ".join(parts.steps)}), "policy.py": runner}
