"""A scan whose draws are made ahead gives what a scan gives, and makes no draw inside."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from offdyn.learning.ahead import scan_ahead

ROWS = jnp.arange(60.0).reshape(20, 3)
KEY = jax.random.key(3)


def body(carry: tuple[jax.Array, jax.Array], step: jax.Array) -> tuple[Any, jax.Array]:
    """Rows drawn by the step's number, noise, a branch on the step with a draw inside, and a value of the carry."""
    total, last = carry
    key = jax.random.fold_in(KEY, step)
    drawn = ROWS[jax.random.randint(jax.random.fold_in(key, 1), (4,), 0, 20)]
    noise = jax.random.normal(jax.random.fold_in(key, 2), (4, 3)) * jnp.abs(last)
    rare = jax.lax.cond(
        step % 3 == 0, lambda x: x + jax.random.uniform(jax.random.fold_in(key, 3)), lambda x: x, total.sum()
    )
    after = total + (drawn.T @ noise).sum(0) + rare + step
    return (after, drawn.mean()), after.max() + step


def test_it_gives_what_a_scan_gives_also_when_mapped_over_lanes() -> None:
    steps = 7 + jnp.arange(5)
    starts = (jnp.ones((2, 3)) * jnp.array([[1.0], [2.0]]), jnp.array([0.5, -1.5]))
    plain = jax.jit(jax.vmap(lambda carry: jax.lax.scan(body, carry, steps)))(starts)
    ahead = jax.jit(jax.vmap(lambda carry: scan_ahead(body, carry, steps)))(starts)
    assert jax.tree.structure(plain) == jax.tree.structure(ahead)
    for ours, theirs in zip(jax.tree.leaves(ahead), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def primitives(jaxpr: Any) -> set[str]:
    names = set()
    for equation in jaxpr.eqns:
        names.add(equation.primitive.name)
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda v: hasattr(v, "jaxpr") or hasattr(v, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            names |= primitives(inner) if hasattr(inner, "eqns") else set()
    return names


def loops_of(scan: Any, step: Any) -> list[set[str]]:
    whole = jax.make_jaxpr(lambda carry: scan(step, carry, jnp.arange(5)))((jnp.ones(3), jnp.ones(())))
    return [primitives(e.params["jaxpr"].jaxpr) for e in whole.jaxpr.eqns if e.primitive.name == "scan"]


def test_no_row_is_picked_and_no_noise_drawn_inside_the_loop() -> None:
    def unbranched(carry: Any, step: jax.Array) -> Any:
        key = jax.random.fold_in(KEY, step)
        picked = ROWS[jax.random.randint(key, (4,), 0, 20)]
        return (carry[0] + picked.sum() + jax.random.normal(key, (3,)), carry[1]), step

    [plain], [ahead] = loops_of(jax.lax.scan, unbranched), loops_of(scan_ahead, unbranched)
    drawing = {"gather", "random_bits"}
    assert drawing <= plain
    assert not drawing & ahead


def test_what_only_changes_a_draws_shape_or_scale_stays_inside_where_it_costs_nothing() -> None:
    def turned(carry: Any, step: jax.Array) -> Any:
        noise = jax.random.normal(jax.random.fold_in(KEY, step), (4, 3))
        return (carry[0] + (2.0 * noise).T @ jnp.ones(4), carry[1]), step

    [inside] = loops_of(scan_ahead, turned)
    assert {"transpose", "mul"} <= inside
