"""A scan whose body's draws are made ahead: what depends on the step but not on the carry is computed for all steps."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from .roundings import rounded_by_conditions, rounded_by_the_step_before

Step = Callable[[Any, Any], tuple[Any, Any]]


def scan_ahead(body: Step, carry: Any, xs: Any) -> tuple[Any, Any]:
    """`jax.lax.scan(body, carry, xs)` with fewer, larger operations.

    An update's random numbers and the replay rows they pick depend on its number alone. Left inside the loop they are
    a third of its kernels, each far too small for a GPU.
    """
    first = jax.tree.map(lambda x: x[0], xs)
    closed, shape = jax.make_jaxpr(body, return_shape=True)(carry, first)
    carried, carry_tree = jax.tree.flatten(carry)
    stepped = jax.tree.leaves(xs)
    early, late = _split(closed.jaxpr, len(carried))

    late, handed_on = rounded_by_conditions(late, len(carried))
    late, rounded_anew = rounded_by_the_step_before(late, len(carried))

    drawn = jax.vmap(jaxpr_as_fun(ClosedJaxpr(early, closed.consts)))(*stepped)
    packed, unpack = _pack(drawn)
    rest = jaxpr_as_fun(ClosedJaxpr(late, closed.consts))

    def rounded(carried: list[Any], numbers: list[int]) -> list[Any]:
        return [carried[number].astype(jnp.bfloat16) for number in numbers]

    def step(carry: tuple[list[Any], ...], x: tuple[Any, Any]) -> tuple[tuple[list[Any], ...], list[Any]]:
        (carried, handed, anew), (stepped, packed) = carry, x
        after = rest(*carried, *stepped, *unpack(packed), *handed, *anew)
        carried, handed, out = _parts(after, len(carried), len(handed))
        return (carried, handed, rounded(carried, rounded_anew)), out

    begin: tuple[list[Any], ...] = carried, rounded(carried, handed_on), rounded(carried, rounded_anew)
    (after, _, _), out = jax.lax.scan(step, begin, (stepped, packed))
    return jax.tree.unflatten(carry_tree, after), jax.tree.unflatten(jax.tree.structure(shape[1]), out)


def _parts(all_of_it: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """So many, so many more ..., and the rest."""
    ends = [0, *accumulate(sizes), len(all_of_it)]
    return [list(all_of_it[a:b]) for a, b in pairwise(ends)]


def _pack(drawn: list[jax.Array]) -> tuple[list[jax.Array], Callable[[list[jax.Array]], list[jax.Array]]]:
    """One array of [steps, all numbers] per type, and the way back for one step: a loop copies each array it slices."""
    kinds = sorted({d.dtype for d in drawn}, key=str)
    groups = [[i for i, d in enumerate(drawn) if d.dtype == kind] for kind in kinds]
    packed = [jnp.concatenate([drawn[i].reshape(len(drawn[i]), -1) for i in group], axis=1) for group in groups]
    shapes = [d.shape[1:] for d in drawn]

    def unpack(rows: list[jax.Array]) -> list[jax.Array]:
        unpacked: dict[int, jax.Array] = {}
        for group, row in zip(groups, rows, strict=True):
            ends = list(accumulate(math.prod(shapes[i]) for i in group))
            parts = jnp.split(row, ends[:-1])
            unpacked |= {i: part.reshape(shapes[i]) for i, part in zip(group, parts, strict=True)}
        return [unpacked[i] for i in range(len(shapes))]

    return packed, unpack


def _split(jaxpr: Jaxpr, carried: int) -> tuple[Jaxpr, Jaxpr]:
    """(xs -> draws) and (carry, xs, draws -> what the body returns); what depends on neither is in both."""
    on_carry: set[Var] = set(jaxpr.invars[:carried])
    on_step: set[Var] = set(jaxpr.invars[carried:])
    constant, ready, late = [], [], []
    for equation in jaxpr.eqns:
        inputs = _variables(equation.invars)
        if inputs & on_carry or equation.effects:
            late.append(equation)
            on_carry |= set(equation.outvars)
        elif inputs & on_step:
            ready.append(equation)
            on_step |= set(equation.outvars)
        else:
            constant.append(equation)
    early: list[JaxprEqn] = []
    wanted_early: set[Var] = set()
    for equation in reversed(ready):
        if wanted_early & set(equation.outvars) or _draws(equation):
            early.insert(0, equation)
            wanted_early |= _variables(equation.invars)
        else:  # a change of shape or of scale costs nothing where it is used, and a pass over memory ahead of it
            late.insert(0, equation)
    wanted = {v for e in late for v in _variables(e.invars)} | _variables(jaxpr.outvars)
    draws = [v for e in early for v in e.outvars if v in wanted]
    xs = jaxpr.invars[carried:]
    names = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    return (
        jaxpr.replace(invars=xs, outvars=draws, eqns=constant + early, debug_info=names),
        jaxpr.replace(invars=[*jaxpr.invars, *draws], eqns=constant + late, debug_info=names),
    )


def _variables(atoms: Iterable[Any]) -> set[Var]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def _draws(equation: JaxprEqn) -> bool:
    """Whether it makes random numbers, or picks rows by them."""
    if equation.primitive.name.startswith(("random_", "threefry", "gather")):
        return True
    inner = [value.jaxpr for value in equation.params.values() if isinstance(value, ClosedJaxpr)]
    return any(_draws(e) for jaxpr in inner for e in jaxpr.eqns)
