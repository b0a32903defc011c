"""Every primitive under every checker, and every checker under a rule that is wrong.

The table primitive x rule fails on a hole that is not declared with its reason, and on a primitive
without a row in `tests/cases.py`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn.backends.table import primitives
from mgefn.core.avals import ShapedArray
from mgefn.core.backends import kernel_of
from mgefn.core.primitive import RULE_KINDS, Primitive
from mgefn.ops.elementwise import (
    add_p,
    batch_elementwise,
    mul_p,
    neg_p,
    scale,
    stop_gradient_p,
)
from tests import checks
from tests.cases import CASES, OpCase, dtype_of, normal

NARROW = ("float16", "bfloat16", "float32", "complex64")
FLOAT64, COMPLEX128 = np.dtype(np.float64), np.dtype(np.complex128)


def generator(case: OpCase, salt: str = "") -> np.random.Generator:
    """Fixed numbers for each row and check."""
    return np.random.default_rng(zlib.crc32(f"{case.name} {salt}".encode()))


# -- the table ------------------------------------------------------------------------------------


def holes(primitive: Primitive) -> list[str]:
    """The rules that a primitive lacks without a reason."""
    missing = []
    for kind in RULE_KINDS:
        declared = primitive.holes.get(kind)
        if primitive.has_rule(kind):
            assert declared is None, f"{primitive.name}: has a {kind} rule and declares none"
        elif not declared:
            missing.append(kind)
    has_kernel = kernel_of(primitive) is not None or primitive.evaluate is not None
    if not has_kernel and not primitive.unsupported.get("numpy"):
        missing.append("numpy kernel")
    return missing


def table() -> str:
    """Primitive x rule: yes, the reason of a hole, or a question mark."""
    lines = []
    for p in primitives():
        cells = ["yes" if p.has_rule(kind) else p.holes.get(kind, "?") for kind in RULE_KINDS]
        kernel = kernel_of(p) is not None or p.evaluate is not None
        cells.append("yes" if kernel else p.unsupported.get("numpy", "?"))
        lines.append(f"{p.name:28}" + "".join(f"{cell[:20]:22}" for cell in cells))
    head = "".join(f"{name:22}" for name in (*RULE_KINDS, "numpy kernel"))
    return "\n".join([f"{'primitive':28}{head}", *lines])


def test_every_rule_is_there_or_its_hole_is_declared() -> None:
    silent = {p.name: holes(p) for p in primitives() if holes(p)}
    assert not silent, f"rules missing without a reason: {silent}\n{table()}"


def test_every_primitive_has_a_row() -> None:
    covered = {id(case.primitive) for case in CASES}
    without = [p.name for p in primitives() if id(p) not in covered]
    assert not without, f"primitives without a row in tests/cases.py: {without}"


def test_names_of_primitives_and_rows_are_unique() -> None:
    # A call of a function and the same call staged have one name; the first is in no program.
    staged = [p.name for p in primitives() if not p.closes_over]
    for names in (staged, [case.name for case in CASES]):
        assert len(set(names)) == len(names)


def test_a_silent_hole_is_found() -> None:
    hollow = Primitive("hollow")
    assert holes(hollow) == [*RULE_KINDS, "numpy kernel"]
    hollow.no_rule("jvp", "to test the table")
    hollow.unsupported["numpy"] = "to test the table"
    assert holes(hollow) == ["abstract_eval", "transpose", "batch"]


def test_a_rule_that_is_not_there_says_why() -> None:
    with pytest.raises(mgefn.errors.UnsupportedError, match=r"sin: has no transpose rule: not lin"):
        mgefn.linear_transpose(mgefn.ops.elementwise.sin, np.ones(3))(np.ones(3))


# -- rows x checks --------------------------------------------------------------------------------


def rows(check: str, where: Callable[[OpCase], bool] = lambda case: True) -> Any:
    """Parametrise over the rows to which a check applies."""
    chosen = [case for case in CASES if check not in case.skip and where(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.name for case in chosen])


def derivative_dtypes(case: OpCase) -> list[np.dtype]:
    """The 64-bit dtypes in which a row's derivatives are checked."""
    return [d for d in (FLOAT64, COMPLEX128) if d.name in case.dtypes]


def any_dtype(case: OpCase) -> np.dtype:
    """One dtype of a row, the widest real float where there is one."""
    return FLOAT64 if "float64" in case.dtypes else dtype_of(case.dtypes[-1])


@rows("values", lambda case: case.reference is not None)
def test_values(case: OpCase) -> None:
    for name in case.dtypes:
        dtype = dtype_of(name)
        rng = generator(case, name)
        for draw in (case.draw, *case.edges):
            args = draw(rng, dtype)
            checks.check_values(case.fun, case.reference, args, case.ulps, case.own_dtype)


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)


def with_special_values(args: tuple, source: np.random.Generator) -> tuple:
    """About half of the elements of float arguments replaced by infinities, NaN, zeros and ones."""
    out = []
    for a in args:
        if a.dtype.kind == "f":
            chosen = source.choice(SPECIAL, a.shape)
            a = np.where(source.random(a.shape) < 0.5, a, chosen).astype(a.dtype)
        out.append(a)
    return tuple(out)


@rows("special", lambda case: case.reference is not None and "float32" in case.dtypes)
def test_special_values(case: OpCase) -> None:
    for dtype in (np.dtype("float32"), FLOAT64):
        if dtype.name not in case.dtypes:
            continue
        source = generator(case, "special")
        for _ in range(3):
            args = with_special_values(case.draw(source, dtype), source)
            checks.check_values(case.fun, case.reference, args, case.ulps, case.own_dtype)
            checks.check_jit(case.fun, args, (), max(8, case.ulps) * checks.rounding(dtype))


@rows("jvp", derivative_dtypes)
def test_jvp(case: OpCase) -> None:
    for dtype in derivative_dtypes(case):
        rng = generator(case, "jvp")
        checks.check_jvp(case.fun, case.draw(rng, dtype), rng, case.differentiable)


@rows("transpose", derivative_dtypes)
def test_vjp_transpose(case: OpCase) -> None:
    for dtype in derivative_dtypes(case):
        rng = generator(case, "vjp")
        for draw in (case.draw, *case.edges):
            checks.check_vjp_transpose(case.fun, draw(rng, dtype), rng, case.differentiable)


REVERSE_ONLY = [case for case in CASES if case.name.startswith(("custom_vjp", "custom_transpose"))]


@pytest.mark.parametrize("case", REVERSE_ONLY, ids=[case.name for case in REVERSE_ONLY])
def test_vjp_of_reverse_only_rows(case: OpCase) -> None:
    source = generator(case, "reverse")
    checks.check_vjp_differences(case.fun, case.draw(source, FLOAT64), source)


@rows("narrow", lambda case: any(name in case.dtypes for name in NARROW))
def test_narrow_derivatives(case: OpCase) -> None:
    for name in NARROW:
        if name not in case.dtypes:
            continue
        source = generator(case, f"narrow {name}")
        args = case.draw(source, dtype_of(name))
        checks.check_narrow_derivatives(
            case.fun, args, source, case.differentiable, max(64, 2 * case.ulps)
        )


@rows("second_order", lambda case: case.second_order and bool(derivative_dtypes(case)))
def test_second_order(case: OpCase) -> None:
    for dtype in derivative_dtypes(case):
        rng = generator(case, "second order")
        checks.check_second_order(case.fun, case.draw(rng, dtype), rng, case.differentiable)


@rows("linear_transpose", lambda case: bool(case.linear) and bool(derivative_dtypes(case)))
def test_linear_transpose(case: OpCase) -> None:
    for dtype in derivative_dtypes(case):
        rng = generator(case, "linear transpose")
        for draw in (case.draw, *case.edges):
            for linear in case.linear:
                checks.check_linear_transpose(case.fun, draw(rng, dtype), rng, linear)


@rows("vmap")
def test_vmap(case: OpCase) -> None:
    for dtype in {any_dtype(case), dtype_of(case.dtypes[-1])}:
        rng = generator(case, "vmap")
        # The order of a sum may depend on the layout.
        rtol = max(1e-12, 8 * checks.rounding(dtype))
        for draw in (case.draw, *case.edges):
            draws = [draw(rng, dtype) for _ in range(checks.BATCH)]
            checks.check_vmap(case.fun, draws, rtol, nested=draw is case.draw)


@rows("jit")
def test_jit(case: OpCase) -> None:
    for name in case.dtypes:
        dtype = dtype_of(name)
        rng = generator(case, name)
        differentiable = case.differentiable if dtype in (FLOAT64, COMPLEX128) else ()
        for draw in (case.draw, *case.edges):
            # The order of a sum depends on the layout.
            rtol = max(8, case.ulps) * checks.rounding(dtype)
            checks.check_jit(case.fun, draw(rng, dtype), differentiable, rtol)


@rows("jaxpr")
def test_jaxpr(case: OpCase) -> None:
    rng = generator(case, "jaxpr")
    dtype = any_dtype(case)
    for draw in (case.draw, *case.edges):
        checks.check_jaxpr(case.fun, draw(rng, dtype), case.differentiable)


def test_rows_with_a_check_left_out_say_why() -> None:
    known = {
        "values",
        "jvp",
        "transpose",
        "second_order",
        "linear_transpose",
        "vmap",
        "jit",
        "jaxpr",
        "special",
        "narrow",
    }
    for case in CASES:
        assert set(case.skip) <= known and all(case.skip.values()), case.name


# -- checkers reject wrong rules ------------------------------------------------------------------


def cube_primitive(**wrong: Any) -> Primitive:
    """x**3 with right rules, of which some may be replaced."""
    p = Primitive("cube", elementwise=True)
    p.def_abstract_eval(wrong.get("abstract_eval", lambda x: (ShapedArray(x.shape, x.dtype),)))
    p.def_batch(wrong.get("batch", batch_elementwise(p)))
    if "jvp" in wrong:
        p.def_jvp(wrong["jvp"])
    else:
        p.def_slopes(wrong.get("slope", lambda y, x: 3 * x * x))
    p.kernels["numpy"] = wrong.get("kernel", cube_kernel)
    return p


def cube_kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
    if outs[0] is None:
        return (np.asarray(x * x * x),)
    np.multiply(x * x, x, out=outs[0])
    return (outs[0],)


def double_primitive(**wrong: Any) -> Primitive:
    """2 x, a linear primitive with right rules, of which some may be replaced."""
    p = Primitive("double", elementwise=True, linear=True)
    p.def_abstract_eval(lambda x: (ShapedArray(x.shape, x.dtype),))
    p.def_batch(batch_elementwise(p))
    p.def_transpose(wrong.get("transpose", lambda cts, x: (add_p.bind1(cts[0], cts[0]),)))
    p.kernels["numpy"] = wrong.get("kernel", lambda x, *, outs=(None,): _put(x * 2, outs[0]))
    return p


def _put(value: Any, out: np.ndarray | None) -> tuple:
    if out is None:
        return (np.asarray(value),)
    out[...] = value
    return (out,)


ARGS = normal((3, 4))(np.random.default_rng(0), FLOAT64)
COMPLEX_ARGS = normal((3, 4))(np.random.default_rng(0), COMPLEX128)


def draws(shape: tuple[int, ...] = (2, 3)) -> list[tuple]:
    rng = np.random.default_rng(1)
    return [normal(shape)(rng, FLOAT64) for _ in range(checks.BATCH)]


def rng() -> np.random.Generator:
    return np.random.default_rng(2)


def test_checkers_accept_right_rules() -> None:
    cube, double = cube_primitive(), double_primitive()
    checks.check_values(cube.bind1, lambda x: x**3, ARGS)
    for args in (ARGS, COMPLEX_ARGS):
        for p in (cube, double):
            checks.check_jvp(p.bind1, args, rng())
            checks.check_vjp_transpose(p.bind1, args, rng())
            checks.check_second_order(p.bind1, args, rng())
            checks.check_jit(p.bind1, args, None)
            checks.check_jaxpr(p.bind1, args, None)
        checks.check_linear_transpose(double.bind1, args, rng(), (0,))
    checks.check_vmap(cube.bind1, draws())


def test_values_reject_a_wrong_kernel() -> None:
    off = cube_primitive(kernel=lambda x, *, outs=(None,): _put(x**3 * (1 + 1e-14), outs[0]))
    with pytest.raises(AssertionError, match="output 0"):
        checks.check_values(off.bind1, lambda x: x**3, ARGS)


def test_values_reject_a_dtype_that_abstract_evaluation_does_not_say() -> None:
    narrow = cube_primitive(kernel=lambda x, *, outs=(None,): _put((x**3).astype("f4"), outs[0]))
    with pytest.raises(AssertionError, match="abstract evaluation says float64"):
        checks.check_values(narrow.bind1, lambda x: x**3, ARGS, ulps=1e9)


def test_values_reject_a_kernel_that_fails_on_rank_0_only() -> None:
    def kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
        return _put(x**3 if x.ndim else x, outs[0])

    with pytest.raises(AssertionError, match="output 0"):
        checks.check_values(cube_primitive(kernel=kernel).bind1, lambda x: x**3, [np.asarray(2.0)])


def test_jvp_rejects_a_wrong_slope() -> None:
    off = cube_primitive(slope=lambda y, x: 3.0001 * x * x)
    with pytest.raises(AssertionError, match="jvp in arguments"):
        checks.check_jvp(off.bind1, ARGS, rng())


def test_jvp_rejects_a_slope_that_is_wrong_for_complex_numbers_only() -> None:
    off = cube_primitive(slope=lambda y, x: 3 * x * mgefn.ops.elementwise.conj(x))
    checks.check_jvp(off.bind1, ARGS, rng())
    with pytest.raises(AssertionError, match="jvp in arguments"):
        checks.check_jvp(off.bind1, COMPLEX_ARGS, rng())


def test_jvp_rejects_a_point_near_a_kink() -> None:
    with pytest.raises(AssertionError, match="near a kink"):
        checks.check_jvp(mgefn.ops.elementwise.abs, [np.array([1e-5, 1.0])], rng())


def test_narrow_derivatives_reject_a_wider_tangent() -> None:
    def jvp(primals: Any, tangents: Any) -> tuple:
        (x,), (t,) = primals, tangents
        y = x.astype("float32")
        return (x * x * x,), (t.astype("float32") * (3 * y * y),)

    args = [ARGS[0].astype("float16")]
    checks.check_narrow_derivatives(cube_primitive().bind1, args, rng())
    with pytest.raises(AssertionError, match="jvp is f32"):
        checks.check_narrow_derivatives(cube_primitive(jvp=jvp).bind1, args, rng())


def test_transpose_rejects_a_wrong_transpose() -> None:
    off = double_primitive(transpose=lambda cts, x: (cts[0],))
    with pytest.raises(AssertionError, match="vjp in arguments"):
        checks.check_vjp_transpose(off.bind1, ARGS, rng())
    with pytest.raises(AssertionError, match="linear transpose"):
        checks.check_linear_transpose(off.bind1, ARGS, rng(), (0,))


def test_vjp_differences_reject_a_wrong_transpose() -> None:
    checks.check_vjp_differences(double_primitive().bind1, ARGS, rng())
    off = double_primitive(transpose=lambda cts, x: (cts[0],))
    with pytest.raises(AssertionError, match="by differences"):
        checks.check_vjp_differences(off.bind1, ARGS, rng())


def test_transpose_rejects_a_conjugated_transpose() -> None:
    off = double_primitive(
        transpose=lambda cts, x: (mgefn.ops.elementwise.conj(add_p.bind1(cts[0], cts[0])),)
    )
    checks.check_vjp_transpose(off.bind1, ARGS, rng())
    with pytest.raises(AssertionError, match="vjp in arguments"):
        checks.check_vjp_transpose(off.bind1, COMPLEX_ARGS, rng())


def test_transpose_rejects_a_cotangent_of_another_shape() -> None:
    off = double_primitive(transpose=lambda cts, x: (cts[0].sum(),))
    with pytest.raises((AssertionError, mgefn.errors.ShapeError)):
        checks.check_vjp_transpose(off.bind1, ARGS, rng())


def test_linear_transpose_rejects_an_affine_function() -> None:
    with pytest.raises(AssertionError, match="homogeneity"):
        checks.check_linear_transpose(lambda x: x + 1, ARGS, rng(), (0,))


def test_second_order_rejects_a_slope_that_hides_its_own_derivative() -> None:
    off = cube_primitive(slope=lambda y, x: 3 * stop_gradient_p.bind1(x) * x)
    checks.check_jvp(off.bind1, ARGS, rng())
    with pytest.raises(AssertionError, match="jvp of jvp"):
        checks.check_second_order(off.bind1, ARGS, rng())


def test_second_order_rejects_reverse_mode_that_is_wrong_twice_only() -> None:
    # The transpose of the primitive is right where it is used once, for its cotangent is known.
    triple = double_primitive(
        kernel=lambda x, *, outs=(None,): _put(x * 3, outs[0]),
        transpose=lambda cts, x: (mul_p.bind1(stop_gradient_p.bind1(cts[0]), _constant(3.0)),),
    )

    def fun(x: Any) -> Any:
        return triple.bind1(x * x)

    checks.check_vjp_transpose(fun, ARGS, rng())

    def through_cotangent(x: Any) -> Any:
        # A cotangent that depends on x goes through the transpose.
        return neg_p.bind1(fun(x)) * x

    with pytest.raises(AssertionError, match=r"jvp of vjp|vjp of"):
        checks.check_second_order(through_cotangent, ARGS, rng())


def _constant(value: float) -> Any:
    return mgefn.device_put(np.float64(value))


def test_vmap_rejects_a_wrong_batch_dimension() -> None:
    p = cube_primitive()
    p.def_batch(lambda args, bdims: (p.bind(*args), (0,)))
    with pytest.raises((AssertionError, mgefn.errors.MgefnError), match=r"vmap|shape|size|axis"):
        checks.check_vmap(p.bind1, draws((3, 3)))


def test_vmap_rejects_a_rule_that_mixes_examples() -> None:
    p = cube_primitive()

    def mixed(args: Any, bdims: Any) -> tuple:
        from_end = mgefn.ops.shaping.flip(args[0], bdims[0])
        return p.bind(from_end), bdims

    p.def_batch(mixed)
    with pytest.raises(AssertionError, match="vmap in_axes"):
        checks.check_vmap(p.bind1, draws())


def test_vmap_rejects_a_rule_that_is_wrong_where_one_operand_is_shared() -> None:
    p = Primitive("times", elementwise=True)
    p.def_abstract_eval(lambda x, y: (ShapedArray(x.shape, x.dtype),))
    p.kernels["numpy"] = lambda x, y, *, outs=(None,): _put(x * y, outs[0])
    right = batch_elementwise(p)

    def wrong(args: Any, bdims: Any) -> tuple:
        if bdims[1] is None:
            args = [args[0], args[1] * 2]
        return right(args, bdims)

    p.def_batch(wrong)
    source = np.random.default_rng(3)
    pairs = [normal((2, 3), (2, 3))(source, FLOAT64) for _ in range(checks.BATCH)]
    with pytest.raises(AssertionError, match=r"in_axes=\(0, None\)"):
        checks.check_vmap(p.bind1, pairs)


def test_jit_rejects_a_kernel_that_is_wrong_in_a_given_block() -> None:
    def kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
        return _put(x**3 if outs[0] is None else x, outs[0])

    with pytest.raises(AssertionError, match="jit on numpy"):
        checks.check_jit(cube_primitive(kernel=kernel).bind1, ARGS)


def test_jit_rejects_a_kernel_that_reads_what_it_overwrote() -> None:
    def kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
        if outs[0] is None:
            return (np.asarray(x**3),)
        np.multiply(x, x, out=outs[0])
        np.multiply(x, outs[0], out=outs[0])
        return (outs[0],)

    checks.check_jit(cube_primitive(kernel=kernel).bind1, ARGS)
    kernel.in_place = True  # a false claim
    with pytest.raises(AssertionError, match="jit on numpy in blocks"):
        checks.check_jit(cube_primitive(kernel=kernel).bind1, ARGS)


def test_jit_rejects_a_kernel_that_takes_operands_to_be_contiguous() -> None:
    def kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
        return _put(x.ravel(order="K").reshape(x.shape) ** 3, outs[0])

    with pytest.raises(AssertionError, match="jit on numpy of transposes"):
        checks.check_jit(cube_primitive(kernel=kernel).bind1, ARGS)


def test_jit_rejects_a_kernel_that_works_once() -> None:
    calls: list[int] = []

    def kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
        if outs[0] is not None:
            calls.append(1)
        return _put(x**3 + (len(calls) > 1), outs[0])

    with pytest.raises(AssertionError, match="jit on numpy"):
        checks.check_jit(cube_primitive(kernel=kernel).bind1, ARGS)


def test_jit_rejects_a_type_that_differs() -> None:
    weak = cube_primitive()
    weak.weak_result = False
    weak.def_abstract_eval(lambda x: (ShapedArray(x.shape, x.dtype, True),))
    with pytest.raises(AssertionError, match="weak_type"):
        checks.check_jit(_traced_differently(weak), ARGS)


def _traced_differently(weak: Primitive) -> Callable[..., Any]:
    strong = cube_primitive()

    def fun(x: Any) -> Any:
        traced = not isinstance(x, mgefn.core.array.ConcreteArray)
        return (weak if traced else strong).bind1(x)

    return fun


def test_jit_rejects_a_derivative_that_differs() -> None:
    def slope(y: Any, x: Any) -> Any:
        concrete = isinstance(x, mgefn.core.array.ConcreteArray)
        return (3 if concrete else 4) * x * x

    with pytest.raises(AssertionError, match="vjp"):
        checks.check_jit(cube_primitive(slope=slope).bind1, ARGS, None)


def test_jaxpr_rejects_a_pass_that_changes_types() -> None:
    first = Primitive("first_row")
    first.def_abstract_eval(lambda x: (ShapedArray(x.shape[1:], x.dtype),))
    first.kernels["numpy"] = lambda x, *, outs=(None,): _put(x[0], outs[0])
    checks.check_jaxpr(lambda x: -first.bind1(x), ARGS)
    first.simplify = lambda inputs, params, out_avals: [inputs[0]]
    with pytest.raises(mgefn.errors.JaxprError, match="neg"):
        checks.check_jaxpr(lambda x: -first.bind1(x), ARGS)


def test_jaxpr_rejects_types_that_are_not_those_of_the_values() -> None:
    p = cube_primitive(abstract_eval=lambda x: (ShapedArray(x.shape, np.dtype("float32")),))
    with pytest.raises(AssertionError, match="the jaxpr says f32"):
        checks.check_jaxpr(p.bind1, ARGS)


def test_jvp_rule_with_a_wrong_tangent_is_rejected() -> None:
    def jvp(primals: Any, tangents: Any) -> tuple:
        (x,), (t,) = primals, tangents
        return (x * x * x,), (scale(t, 2 * x * x),)

    with pytest.raises(AssertionError, match="jvp in arguments"):
        checks.check_jvp(cube_primitive(jvp=jvp).bind1, ARGS, rng())


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
