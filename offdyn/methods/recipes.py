"""The names users type after --method: a Method and the run defaults that make it what it is called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import unknown
from .method import Method
from .par import PAR
from .par_b import PAR_B
from .sac import SAC

METHODS: dict[str, Method] = {method.name: method for method in (SAC, PAR, PAR_B)}


@dataclass(frozen=True)
class Recipe:
    """A method with run defaults."""

    method: Method
    summary: str
    defaults: Mapping[str, Any] = field(default_factory=dict)


TARGET_ONLY = {"collects": "target", "rows": "target", "batch_size": 256}

RECIPES: dict[str, Recipe] = {name: Recipe(method, method.summary) for name, method in METHODS.items()} | {
    "sac-tar": Recipe(SAC, "plain SAC in the target alone, one update per target step", TARGET_ONLY),
    "sac-tar-10": Recipe(
        SAC, "the same with ten updates per target step: PAR's number", {**TARGET_ONLY, "updates_per_step": 10}
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe of this name, or an error with the nearest ones."""
    if name not in RECIPES:
        raise unknown("method", name, RECIPES)
    return RECIPES[name]
