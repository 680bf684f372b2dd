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


def bodies_of(scan: Any, step: Any) -> list[Any]:
    """Of every loop that scanning makes, the jaxpr of its body."""
    whole = jax.make_jaxpr(lambda carry: scan(step, carry, jnp.arange(5)))((jnp.ones(3), jnp.ones(())))
    return [e.params["jaxpr"].jaxpr for e in whole.jaxpr.eqns if e.primitive.name == "scan"]


def loops_of(scan: Any, step: Any) -> list[set[str]]:
    return [primitives(jaxpr) for jaxpr in bodies_of(scan, step)]


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


def rounding(carry: tuple[jax.Array, jax.Array], step: jax.Array) -> tuple[Any, jax.Array]:
    """Begins by rounding one entry of its carry twice and the other once; all else is exact, in whatever order."""
    first, second = carry
    coarse, again, other = (x.astype(jnp.bfloat16) for x in (first, first, second))
    drawn = ROWS[jax.random.randint(jax.random.fold_in(KEY, step), (), 0, 20)] / 64
    after = 0.5 * first + 0.5 * again.astype(jnp.float32) + other.astype(jnp.float32) + drawn
    return (after, second + 0.5 * after.sum()), coarse * other


def rounded_inputs(jaxpr: Any) -> list[Any]:
    """What of its own float32 inputs a loop's body rounds, also inside of what it calls."""
    found = [
        equation.invars[0]
        for equation in jaxpr.eqns
        if equation.primitive.name == "convert_element_type"
        and equation.params["new_dtype"] == jnp.bfloat16
        and equation.invars[0] in jaxpr.invars
    ]
    for equation in jaxpr.eqns:
        if (inner := equation.params.get("jaxpr")) is not None:
            found += rounded_inputs(getattr(inner, "jaxpr", inner))
    return [variable for variable in found if variable.aval.dtype == jnp.float32]


def test_what_a_step_begins_by_rounding_is_carried_rounded_and_the_result_is_the_same() -> None:
    fine = 2.0**-10  # lost in bfloat16
    starts = jnp.array([[1 + fine, fine - 1, 0.5], [3 * fine - 1, 0.75, 1 - fine]]), jnp.array([1 + fine, 0.25])
    plain = jax.jit(jax.vmap(lambda carry: jax.lax.scan(rounding, carry, jnp.arange(4))))(starts)
    ahead = jax.jit(jax.vmap(lambda carry: scan_ahead(rounding, carry, jnp.arange(4))))(starts)
    for ours, theirs in zip(jax.tree.leaves(ahead), jax.tree.leaves(plain), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(np.asarray(plain[1][:, 0], np.float32), starts[0] * starts[1][:, None])
    [before], [after] = bodies_of(jax.lax.scan, rounding), bodies_of(scan_ahead, rounding)
    assert len(rounded_inputs(before)) == 3
    assert not rounded_inputs(after)


def now_and_then(carry: tuple[jax.Array, jax.Array], step: jax.Array) -> tuple[Any, jax.Array]:
    """Changes its first entry in every third step, and rounds it in all of them, after the change."""
    kept, other = carry
    kept, noted = jax.lax.cond(
        step % 3 == 1,
        lambda kept: (0.75 * kept + other.sum(), jnp.ones(())),
        lambda kept: (kept, jnp.zeros(())),
        kept,
    )
    coarse, again = kept.astype(jnp.bfloat16), kept.astype(jnp.bfloat16)
    return (kept, other + 0.125 * coarse.astype(jnp.float32).sum()), again.astype(jnp.float32) + noted


def test_what_a_condition_changes_now_and_then_is_rounded_by_it_and_the_result_is_the_same() -> None:
    fine = 2.0**-10
    starts = jnp.array([[1 + fine, fine - 1, 0.5], [3 * fine - 1, 0.75, 1 - fine]]), jnp.array([[1 + fine], [0.25]])
    plain = jax.jit(jax.vmap(lambda carry: jax.lax.scan(now_and_then, carry, jnp.arange(7))))(starts)
    ahead = jax.jit(jax.vmap(lambda carry: scan_ahead(now_and_then, carry, jnp.arange(7))))(starts)
    for ours, theirs in zip(jax.tree.leaves(ahead), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(plain[1][:, 0], starts[0])  # it rounds
    assert not np.array_equal(plain[1][:, 0], plain[1][:, 2])  # and changes
    [before], [after] = bodies_of(jax.lax.scan, now_and_then), bodies_of(scan_ahead, now_and_then)
    assert roundings(before) == {"while it changes": 0, "in every step": 2}
    assert roundings(after) == {"while it changes": 1, "in every step": 0}


def roundings(jaxpr: Any) -> dict[str, int]:
    """From float32 to bfloat16, inside of conditions and outside of them."""
    found = {"while it changes": 0, "in every step": 0}
    for equation in jaxpr.eqns:
        if equation.primitive.name == "convert_element_type" and equation.params["new_dtype"] == jnp.bfloat16:
            found["in every step"] += equation.invars[0].aval.dtype == jnp.float32
        for branch in equation.params.get("branches", ()):
            found["while it changes"] += roundings(branch.jaxpr)["in every step"]
        if (inner := equation.params.get("jaxpr")) is not None:
            for where, count in roundings(getattr(inner, "jaxpr", inner)).items():
                found[where] += count
    return found
