"""Off-dynamics reinforcement learning: a policy for a scarce target from a plentiful source with other dynamics."""

from typing import TYPE_CHECKING, Any

from .domains import register

__version__ = "0.1.0"
__all__ = ["OffdynError", "load_policy", "plan", "resume", "train"]

if TYPE_CHECKING:
    from .api import load_policy, plan, resume, train
    from .errors import OffdynError

register()


def __getattr__(name: str) -> Any:
    """Load what needs JAX only when it is asked for."""
    if name == "OffdynError":
        from .errors import OffdynError

        return OffdynError
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module 'offdyn' has no attribute '{name}'")
