"""Off-dynamics reinforcement learning: a policy for a scarce target from a plentiful source with other dynamics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .envs import register

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ._util.errors import OffdynError
    from .api import (
        evaluate,
        load_policy,
        load_runs,
        make_env,
        plan,
        register_backbone,
        register_env,
        register_method,
        resume,
        train,
    )

# What needs JAX is loaded only when it is asked for.
_HOMES = {
    "OffdynError": "_util.errors",
    "evaluate": "api",
    "load_policy": "api",
    "load_runs": "api",
    "make_env": "api",
    "plan": "api",
    "register_backbone": "api",
    "register_env": "api",
    "register_method": "api",
    "resume": "api",
    "train": "api",
}
__all__ = [
    "OffdynError",
    "evaluate",
    "load_policy",
    "load_runs",
    "make_env",
    "plan",
    "register_backbone",
    "register_env",
    "register_method",
    "resume",
    "train",
]

register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'offdyn' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
