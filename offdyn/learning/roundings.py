"""Rounded copies of what a loop carries, carried beside it: who writes an array to memory can round it in that pass.

Otherwise every step would begin by reading float32 weights again, only to round them to bfloat16.
"""

from collections.abc import Container
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun

Rounded = tuple[Jaxpr, list[int]]  # a loop's body, and which of its carry it wants rounded


def rounded_by_the_step_before(body: Jaxpr, carried: int) -> Rounded:
    """The body that takes rounded copies as its last inputs, where it began by rounding some of its carry itself."""
    places = {variable: number for number, variable in enumerate(body.invars[:carried])}
    equations, copies = _without_roundings(body.eqns, of=places)
    taking = body.replace(invars=[*body.invars, *copies.values()], eqns=equations)
    return taking, [places[variable] for variable in copies]


def rounded_by_conditions(body: Jaxpr, carried: int) -> Rounded:
    """The same for what a condition changes now and then and mostly hands on: it hands on the rounded copy, too.

    The body returns these copies after its carry.
    """
    numbers: list[int] = []
    taken: list[Var] = []
    returned: list[Var] = []
    equations = list(body.eqns)
    for condition in [equation for equation in body.eqns if equation.primitive.name == "cond"]:
        place = next(i for i, equation in enumerate(equations) if equation is condition)
        carry = enumerate(zip(body.invars[:carried], body.outvars[:carried], strict=True))
        of = {out: n for n, (into, out) in carry if out in condition.outvars and into in condition.invars}
        rest, copies = _without_roundings(equations[place + 1 :], of)
        if not copies:
            continue
        entering = [_like(copy) for copy in copies.values()]
        handed = {condition.outvars.index(out): condition.invars.index(body.invars[of[out]]) for out in copies}
        branches = tuple(_rounding(branch, handed) for branch in condition.params["branches"])
        with_copies = condition.replace(
            invars=[*condition.invars, *entering],
            outvars=[*condition.outvars, *copies.values()],
            params=condition.params | {"branches": branches},
        )
        equations[place:] = [with_copies, *rest]
        numbers += [of[out] for out in copies]
        taken, returned = taken + entering, returned + list(copies.values())
    outvars = [*body.outvars[:carried], *returned, *body.outvars[carried:]]
    return body.replace(invars=[*body.invars, *taken], outvars=outvars, eqns=equations), numbers


def _without_roundings(equations: list[JaxprEqn], of: Container[Var]) -> tuple[list[JaxprEqn], dict[Var, Var]]:
    """The equations but for the first that rounds each of these variables, and what it calls the rounded one."""
    rest: list[JaxprEqn] = []
    copies: dict[Var, Var] = {}
    for equation in equations:
        if equation.primitive.name == "convert_element_type" and equation.params["new_dtype"] == jnp.bfloat16:
            (exact,) = equation.invars
            if isinstance(exact, Var) and exact in of:
                if exact not in copies:
                    copies[exact] = equation.outvars[0]
                    continue
                equation = equation.replace(invars=[copies[exact]])
        rest.append(equation)
    return rest, copies


def _like(variable: Var) -> Var:
    """Another of its shape and type."""
    return jax.make_jaxpr(lambda x: x)(variable.aval).jaxpr.invars[0]


def _rounding(branch: ClosedJaxpr, handed: dict[int, int]) -> ClosedJaxpr:
    """The branch with a rounded copy of some results, by where they are and where what they replace comes in.

    It takes the copies of the latter as its last inputs, and returns them where the branch changes nothing.
    """
    inputs, results = branch.jaxpr.invars, branch.jaxpr.outvars
    unchanged = {out: results[out] is inputs[into - 1] for out, into in handed.items()}  # input 0 chooses the branch

    def both(*values: Any) -> list[Any]:
        exact = jaxpr_as_fun(branch)(*values[: len(inputs)])
        entered = zip(unchanged.items(), values[len(inputs) :], strict=True)
        return [*exact, *(copy if same else exact[out].astype(jnp.bfloat16) for (out, same), copy in entered)]

    exact = [branch.in_avals[into - 1] for into in handed.values()]
    return jax.make_jaxpr(both)(*branch.in_avals, *(jax.ShapeDtypeStruct(x.shape, jnp.bfloat16) for x in exact))
