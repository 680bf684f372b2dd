"""Methods, backbones and pairs of environments of one's own, under names that every command and function then takes.

A name lives as long as its process: a script that resumes a training registers it again first.
"""

from collections.abc import Container

from .domains import own, pairs
from .errors import OffdynError
from .learning.backbones import BACKBONES, Backbone
from .methods.method import Method
from .methods.recipes import METHODS, RECIPES, Recipe


def register_method(method: Method) -> Method:
    """Make a method known by its name; returns it, so that it can stand around the record.

    Example: `register_method(Method("halved", "SAC with half the source rewards", correct=halve))`.
    """
    _must_be_new("method", method.name, RECIPES)
    METHODS[method.name] = method
    RECIPES[method.name] = Recipe(method, method.summary)
    return method


def register_backbone(backbone: Backbone) -> Backbone:
    """Make a backbone known by its name.

    Example: `register_backbone(dataclasses.replace(SIMBA, name="mine", settings=SIMBA.settings | {"discount": 0.98}))`.
    """
    _must_be_new("backbone", backbone.name, BACKBONES)
    BACKBONES[backbone.name] = backbone
    return backbone


def register_env(
    name: str, source: str | own.Factory | None, target: str | own.Factory, time_limit: int | None = None
) -> own.OwnPair:
    """Make a pair of environments known by a name, which is then a task; each is made once and looked at.

    Example: `register_env("my-arm", source=make_simulator, target=make_robot, time_limit=200)`.
    """
    _must_be_new("task", name, {**pairs.WORLDS, **pairs.REGISTERED})
    pairs.REGISTERED[name] = own.pair_of(source, target, time_limit, name)
    return pairs.REGISTERED[name]


def _must_be_new(kind: str, name: str, known: Container[str]) -> None:
    if not name or not isinstance(name, str):
        raise OffdynError(f"a {kind} needs a name, got {name!r}")
    if name in known:
        raise OffdynError(f"there is a {kind} '{name}' already: choose another name")
