"""Complex numbers as real arithmetic: how their primitives become instructions, part by part.

A function here takes the operands, complex ones as pairs of parts, and gives a pair, or a value
where the result is real. `_row` makes a row of it. Sums and differences work on whole registers as
well, so a chain of them needs no shuffles; see codegen/complex_values.py.

Zeros, infinities, nans and branch cuts are as NumPy has them: those of C's Annex G, by the C
library; quotients by Smith's method, as NumPy's. Products are those of the formula with each
operation rounded, so that x * conj(x) is real; NumPy fuses some on some processors, which tells
where a product overflows.

Sources: ISO/IEC 9899:2011, Annex G. Smith, R. L. (1962), Algorithm 116: Complex division, Comm. ACM
5(8), 435, doi:10.1145/368637.368661.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.backends.llvm_kernels.elementwise import Elementwise, convert
from mgefn.compiler.codegen import vector_math
from mgefn.compiler.codegen.builder import Builder, element, width_of
from mgefn.compiler.codegen.complex_values import joined, keep, parted
from mgefn.compiler.codegen.values import ALL, COMPLEX, FLOATS, Operand, ty
from mgefn.compiler.codegen.vector_math.values import (
    INF,
    Value,
    absolute,
    constant,
    copysign,
    fma,
    select,
    sqrt,
)
from mgefn.compiler.steps import Expanded
from mgefn.core.array import scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Atom, Eqn, Literal, Var
from mgefn.ops.contractions import dot_general_p
from mgefn.ops.elementwise import (
    add_p,
    complex_p,
    eq_p,
    exp_p,
    imag_p,
    log_p,
    mul_p,
    real_p,
    select_n_p,
    sub_p,
)
from mgefn.ops.reductions import reduce_sum_p
from mgefn.ops.shaping import broadcast_in_dim_p, reshape_p, transpose_p

DTYPES = frozenset(COMPLEX)


class Complex(NamedTuple):
    """A complex value by its parts."""

    re: Value
    im: Value


Function = Callable[..., Any]


def _operand(b: Builder, width: int, x: Operand) -> Any:
    if x.dtype not in COMPLEX:
        return Value(b, ty(x.dtype, width), x.value)
    t = ty(COMPLEX[x.dtype], width)
    return Complex(*(Value(b, t, part) for part in parted(b, x.dtype, width, x.value)))


def _result(b: Builder, out: str, width: int, y: Any) -> str:
    return joined(b, out, width, y.re.name, y.im.name) if isinstance(y, Complex) else y.name


def _row(function: Function, cost: float, real: frozenset[str] = frozenset()) -> Elementwise:
    """A row: function(*operands) of complex numbers and of the real dtypes named."""

    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        return _result(b, out, width, function(*(_operand(b, width, x) for x in ops)))

    return Elementwise(emit, DTYPES | real, cost)


def _lanewise(op: str) -> Elementwise:
    """An instruction that does the same to all parts: on whole registers, and part by part."""

    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        def of(t: str, *values: str) -> str:
            return b.emit(f"{op} {t} {', '.join(values)}")

        whole = of(ty(out, width), *(x.value for x in ops))
        pairs = [parted(b, out, width, x.value) for x in ops]
        t = ty(COMPLEX[out], width)
        keep(b, whole, *(of(t, *parts) for parts in zip(*pairs, strict=True)))
        return whole

    return Elementwise(emit, DTYPES, 2)


# -- pieces ---------------------------------------------------------------------------------------


def _math(name: str, *xs: Value) -> Value:
    x = xs[0]
    found = vector_math.emit(x.b, name, element(x.ty), width_of(x.ty), *(v.name for v in xs))
    return Value(x.b, x.ty, found)


def _is_nan(x: Value) -> Value:
    return x.differs(x)


def _is_infinite(x: Value) -> Value:
    return absolute(x).equals(INF)


def _not_finite(x: Value) -> Value:
    return (absolute(x) < INF) ^ 1


def _zero(x: Complex) -> Value:
    return x.re.equals(0.0) & x.im.equals(0.0)


def _is_double(x: Value) -> bool:
    return element(x.ty) == "double"


def _chosen(mask: Value, yes: Complex, no: Complex) -> Complex:
    return Complex(select(mask, yes.re, no.re), select(mask, yes.im, no.im))


def _like(x: Complex, re: float, im: float) -> Complex:
    return Complex(constant(x.re, re), constant(x.re, im))


def _turned(function: Function) -> Function:
    """f(x + iy) by g(y + ix), parts exchanged: so sin follows from sinh, and tan from tanh."""

    def turned(x: Complex) -> Complex:
        y = function(Complex(x.im, x.re))
        return Complex(y.im, y.re)

    return turned


# -- arithmetic -----------------------------------------------------------------------------------


def _conj(x: Complex) -> Complex:
    return Complex(x.re, -x.im)


def _multiply(x: Complex, y: Complex) -> Complex:
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _square(x: Complex) -> Complex:
    return _multiply(x, x)


def _divide(x: Complex, y: Complex) -> Complex:
    across = absolute(y.re) >= absolute(y.im)
    great, less = select(across, y.re, y.im), select(across, y.im, y.re)
    ratio = less / great
    scale = 1.0 / (great + less * ratio)
    p, q = select(across, x.re, x.im), select(across, x.im, x.re)
    turned = p * ratio
    re = (p + q * ratio) * scale
    im = select(across, q - turned, turned - q) * scale
    zero = _zero(y)
    size = absolute(y.re)
    return _chosen(zero, Complex(x.re / size, x.im / size), Complex(re, im))


def _integer_pow(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """By squaring, in the order of the reference kernel."""
    base = _operand(b, width, ops[0])
    one = _like(base, 1.0, 0.0)
    n, result = abs(params["y"]), None
    while n:
        if n & 1:
            result = base if result is None else _multiply(result, base)
        n >>= 1
        if n:
            base = _multiply(base, base)
    result = one if result is None else result
    return _result(b, out, width, _divide(one, result) if params["y"] < 0 else result)


def _scale(t: Complex, slope: Complex) -> Complex:
    """t * slope, where a factor of exactly 0 wins over one that is not finite."""
    product = _multiply(t, slope)
    bad = (_zero(t) | _zero(slope)) & (_is_nan(product.re) | _is_nan(product.im))
    return _chosen(bad, _like(t, 0.0, 0.0), product)


def _abs(x: Complex) -> Value:
    return _math("hypot", x.re, x.im)


def _sign(x: Complex) -> Complex:
    """x / |x|, 0 at 0; of an infinite part its sign, and nan where both are infinite.

    Where |x| overflows and neither part is infinite it is the imaginary part's sign, as in NumPy.
    """
    size = _abs(x)
    beyond, none = size.equals(INF), size.equals(0.0)
    re_infinite, im_infinite = _is_infinite(x.re), _is_infinite(x.im)
    across = select(im_infinite, math.nan, copysign(constant(x.re, 1.0), x.re))
    along = select(im_infinite, math.nan, constant(x.re, 0.0))
    far = Complex(
        select(re_infinite, across, 0.0),
        select(re_infinite, along, copysign(constant(x.im, 1.0), x.im)),
    )
    near = _chosen(none, _like(x, 0.0, 0.0), Complex(x.re / size, x.im / size))
    return _chosen(beyond, far, near)


# -- exponentials, hyperbolic and trigonometric functions -----------------------------------------


class _Reduced(NamedTuple):
    """exp(size) = exp(rest) * first * second: what overflows may not do so times a small number."""

    rest: Value
    first: Value
    second: Value

    def times(self, x: Value) -> Value:
        return x * self.first * self.second


def _reduced(size: Value) -> _Reduced:
    """Where `rest` is less than `size`, sinh and cosh of it are exp(rest) / 2 to the last bit."""
    limit, step = (700.0, 600.0) if _is_double(size) else (85.0, 60.0)
    one = constant(size, 1.0)
    above, far = size > limit, size > limit + step
    rest = size - select(above, step, constant(size, 0.0)) - select(far, step, constant(size, 0.0))
    factor = math.exp(step)
    return _Reduced(rest, select(above, factor, one), select(far, factor, one))


def _exp(x: Complex) -> Complex:
    found = _reduced(x.re)
    size = _math("exp", found.rest)
    re = found.times(_math("cos", x.im)) * size
    im = found.times(_math("sin", x.im)) * size
    im = select(x.im.equals(0.0), x.im, im)
    # Infinite, and no angle: the size is known, a direction only where it is 0.
    lost = _is_infinite(x.re) & _not_finite(x.im)
    below = lost & (x.re < 0.0)
    zero = constant(x.re, 0.0)
    re = select(below, zero, select(lost, INF, re))
    return Complex(re, select(below, copysign(zero, x.im), im))


def _exp2(x: Complex) -> Complex:
    ln2 = math.log(2.0)
    return _exp(Complex(x.re * ln2, x.im * ln2))


def _expm1(x: Complex) -> Complex:
    """As NumPy has it, also where parts are not finite."""
    half = _math("sin", x.im * 0.5)
    re = _math("expm1", x.re) * _math("cos", x.im) - 2.0 * half * half
    return Complex(re, _math("exp", x.re) * _math("sin", x.im))


def _logistic(x: Complex) -> Complex:
    y = _exp(Complex(-x.re, -x.im))
    return _divide(_like(x, 1.0, 0.0), Complex(y.re + 1.0, y.im + 0.0))


class _Waves(NamedTuple):
    """Functions of both parts, sin and cos of y times what was taken from exp(|x|)."""

    sinh: Value
    cosh: Value
    sin: Value
    cos: Value


def _waves(x: Value, y: Value) -> _Waves:
    found = _reduced(absolute(x))
    rest = copysign(found.rest, x)
    return _Waves(
        _math("sinh", rest),
        _math("cosh", rest),
        found.times(_math("sin", y)),
        found.times(_math("cos", y)),
    )


def _sinh(z: Complex) -> Complex:
    x, y = z
    w = _waves(x, y)
    lost = _not_finite(y)
    re = select(lost & x.equals(0.0), x, w.sinh * w.cos)
    re = select(lost & _is_infinite(x), INF, re)
    return Complex(re, select(y.equals(0.0), y, w.cosh * w.sin))


def _cosh(z: Complex) -> Complex:
    x, y = z
    w = _waves(x, y)
    lost = _not_finite(y)
    re = select(lost & _is_infinite(x), INF, w.cosh * w.cos)
    im = select(lost & x.equals(0.0), 0.0, w.sinh * w.sin)
    signed = select(_is_nan(x), y, y * copysign(constant(x, 1.0), x))
    return Complex(re, select(y.equals(0.0), signed, im))


def _cos(z: Complex) -> Complex:
    return _cosh(Complex(-z.im, z.re))


def _tanh(z: Complex) -> Complex:
    x, y = z
    size, one = absolute(x), copysign(constant(x, 1.0), x)
    limit = 350.0 if _is_double(x) else 40.0
    far = size > limit
    near = copysign(select(far, limit, size), x)
    sinh, cosh = _math("sinh", near), _math("cosh", near)
    sin, cos = _math("sin", y), _math("cos", y)
    below = sinh * sinh + cos * cos
    product = sin * cos
    tail = _math("exp", -size)
    re = select(far, one, sinh * cosh / below)
    im = select(far, product * 4.0 * tail * tail, product / below)
    lost, infinite = _not_finite(y), _is_infinite(x)
    re = select(
        lost & ((infinite | x.equals(0.0)) ^ 1), math.nan, select(x.equals(0.0) & lost, x, re)
    )
    im = select(lost & infinite, copysign(constant(x, 0.0), y), im)
    return Complex(re, select(y.equals(0.0), y, im))


# -- logarithms and roots -------------------------------------------------------------------------


def _two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y, and what its rounding lost."""
    total = x + y
    added = total - x
    return total, (x - (total - added)) + (y - added)


def _log(x: Complex) -> Complex:
    """log|x| by log1p: of |x|^2 - 1, which is found without cancellation, where |x| is near 1."""
    ax, ay = absolute(x.re), absolute(x.im)
    swap = ax < ay
    great, less = select(swap, ay, ax), select(swap, ax, ay)
    p, q = great * great, less * less
    p_low, q_low = fma(great, great, -p), fma(less, less, -q)
    total, lost = _two_sum(p - 1.0, q)  # the difference is exact where |x| is near 1
    low, low_lost = _two_sum(p_low, q_low)
    total, total_lost = _two_sum(total, low)
    near = (great >= 0.5) & (great < 2.0)
    ratio = select(less.equals(0.0), 0.0, less / great)
    argument = select(near, total + (lost + total_lost + low_lost), ratio * ratio)
    base = select(near, 0.0, _math("log", great))
    re = base + 0.5 * _math("log1p", argument)
    re = select(_is_infinite(x.re) | _is_infinite(x.im), INF, re)
    return Complex(re, _math("atan2", x.im, x.re))


def _log1p(x: Complex) -> Complex:
    """As NumPy has it."""
    above = x.re + 1.0
    size = _math("log", _math("hypot", above, x.im))
    return Complex(size, _math("atan2", x.im, above))


def _sqrt(x: Complex) -> Complex:
    """Scaled by powers of 4, lest |x| overflows or loses bits."""
    ax, ay = absolute(x.re), absolute(x.im)
    great = select(ax < ay, ay, ax)
    high, low, power = (2.0**1020, 2.0**-960, 54) if _is_double(x.re) else (2.0**124, 2.0**-98, 24)
    one = constant(ax, 1.0)
    huge, tiny = great > high, great < low
    scale = select(huge, 0.25, select(tiny, 4.0**power, one))
    back = select(huge, 2.0, select(tiny, 2.0**-power, one))
    re, im = x.re * scale, x.im * scale
    main = sqrt((absolute(re) + _math("hypot", re, im)) * 0.5)
    rest = im / (main * 2.0)
    right = x.re >= 0.0
    y = Complex(
        select(right, main, absolute(rest)) * back, select(right, rest, copysign(main, x.im)) * back
    )
    y = _chosen(great.equals(0.0) & _zero(x), Complex(constant(ax, 0.0), x.im), y)
    return _chosen(_is_infinite(x.im), Complex(constant(ax, INF), x.im), y)


def _rsqrt(x: Complex) -> Complex:
    return _divide(_like(x, 1.0, 0.0), _sqrt(x))


# -- parts, comparisons, choice, conversion -------------------------------------------------------


def _equal(x: Complex, y: Complex) -> Value:
    return x.re.equals(y.re) & x.im.equals(y.im)


def _not_equal(x: Complex, y: Complex) -> Value:
    return x.re.differs(y.re) | x.im.differs(y.im)


def _ordered(compare: Callable[[Value, Value], Value], turned: bool = False) -> Function:
    """By real parts, then by imaginary ones, as NumPy orders; `compare` orders the latter."""

    def ordered(x: Complex, y: Complex) -> Value:
        x, y = (y, x) if turned else (x, y)
        numbers = x.im.equals(x.im) & y.im.equals(y.im)
        return ((x.re < y.re) & numbers) | (x.re.equals(y.re) & compare(x.im, y.im))

    return ordered


_less, _less_equal = _ordered(Value.__lt__), _ordered(Value.__le__)
_greater, _greater_equal = _ordered(Value.__lt__, True), _ordered(Value.__le__, True)


def _extreme(wins: Function) -> Function:
    """x where it wins or has a nan, else y."""

    def extreme(x: Complex, y: Complex) -> Complex:
        return _chosen(wins(x, y) | _is_nan(x.re) | _is_nan(x.im), x, y)

    return extreme


_maximum, _minimum = _extreme(_greater_equal), _extreme(_less_equal)


def _is_finite(x: Complex) -> Value:
    return (absolute(x.re) < INF) & (absolute(x.im) < INF)


def _select(which: Value, *cases: Complex) -> Complex:
    if element(which.ty) == "i1":
        return _chosen(which, cases[1], cases[0])
    result = cases[0]
    for i, case in enumerate(cases[1:], 1):
        result = _chosen(which.equals(i), case, result)
    return result


def _convert(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """From real numbers the imaginary part is 0; to real ones it is dropped, but by bool."""
    (x,) = ops
    if x.dtype not in COMPLEX:
        part = COMPLEX[out]
        re = convert(b, x.value, x.dtype, part, width)
        return joined(b, out, width, re, b.const(ty(part, width), 0))
    source = COMPLEX[x.dtype]
    parts = parted(b, x.dtype, width, x.value)
    if out == "bool":
        re, im = (convert(b, v, source, "bool", width) for v in parts)
        return b.emit(f"or {ty('bool', width)} {re}, {im}")
    if out not in COMPLEX:
        return convert(b, parts[0], source, out, width)
    return joined(b, out, width, *(convert(b, v, source, COMPLEX[out], width) for v in parts))


def _same(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    return ops[0].value


add, subtract, negative = _lanewise("fadd"), _lanewise("fsub"), _lanewise("fneg")
multiply, square = _row(_multiply, 6), _row(_square, 6)
divide = _row(_divide, 25)
integer_pow = Elementwise(_integer_pow, DTYPES, 15)
scale = _row(_scale, 12)
absolute_value, sign = _row(_abs, 15), _row(_sign, 30)
exp, exp2, expm1 = _row(_exp, 60), _row(_exp2, 60), _row(_expm1, 80)
logistic = _row(_logistic, 85)
log, log1p = _row(_log, 70), _row(_log1p, 60)
sqrt_, rsqrt = _row(_sqrt, 45), _row(_rsqrt, 70)
sinh, cosh, tanh = _row(_sinh, 90), _row(_cosh, 90), _row(_tanh, 110)
sin, cos, tan = _row(_turned(_sinh), 90), _row(_cos, 90), _row(_turned(_tanh), 110)
real, imag, conj = _row(lambda x: x.re, 0.5), _row(lambda x: x.im, 0.5), _row(_conj, 1)
complex_ = _row(Complex, 1, FLOATS)
equal, not_equal = _row(_equal, 2), _row(_not_equal, 2)
less, less_equal = _row(_less, 4), _row(_less_equal, 4)
greater, greater_equal = _row(_greater, 4), _row(_greater_equal, 4)
maximum, minimum = _row(_maximum, 6), _row(_minimum, 6)
is_finite = _row(_is_finite, 2)
select_n = _row(_select, 2, ALL)
convert_element_type = Elementwise(_convert, DTYPES | ALL, 1)
copied = Elementwise(_same, DTYPES, 0)


# -- powers ---------------------------------------------------------------------------------------


def _expand_pow(eqn: Eqn) -> list[Eqn] | None:
    """exp(y log x), as the C library has it, for an exponent that is one constant.

    None for a whole one, which NumPy multiplies out, to more digits.
    """
    (x, y), out = eqn.inputs, eqn.out_binders[0]
    if isinstance(x, Literal) or not isinstance(y, Literal) or x.aval.shape != out.aval.shape:
        return None
    exponent = complex(y.value._data.item())
    if not math.isfinite(abs(exponent)) or exponent == int(exponent.real):
        return None
    made: list[Eqn] = []

    def new(primitive: Any, *inputs: Atom, dtype: Any = out.aval.dtype) -> Var:
        v = Var(ShapedArray(out.aval.shape, dtype))
        made.append(Eqn(primitive, list(inputs), {}, [v], eqn.source))
        return v

    # 0 has no logarithm: its power is 0, or nan by an exponent whose real part is not positive.
    nan = complex(math.nan, math.nan)
    at_zero = 0.0 if exponent.real > 0 else nan
    nothing, there = (
        Literal(scalar(v, out.aval.dtype), ShapedArray((), out.aval.dtype)) for v in (0.0, at_zero)
    )
    power = new(exp_p, new(mul_p, new(log_p, x), y))
    zero = new(eq_p, x, nothing, dtype=np.dtype(bool))
    return [*made, Eqn(select_n_p, [zero, power, there], {}, [out], eqn.source)]


pow_ = Expanded(_expand_pow)

# -- products of matrices -------------------------------------------------------------------------


def _expand_dot_general(eqn: Eqn) -> list[Eqn] | None:
    """Four real products of the parts, each a matrix of its own, and what they add up to."""
    out = eqn.out_binders[0]
    operands = [(a, a.aval) for a in eqn.inputs]
    if any(isinstance(a, Literal) or not v.size or v.dtype != out.aval.dtype for a, v in operands):
        return None
    by_vector = _vector_product(eqn)
    if by_vector is not None:
        return by_vector
    part = np.dtype(COMPLEX[out.aval.dtype.name])
    made: list[Eqn] = []

    def new(primitive: Any, inputs: list[Atom], shape: tuple[int, ...], params: Any = None) -> Var:
        v = Var(ShapedArray(shape, part))
        made.append(Eqn(primitive, inputs, params or {}, [v], eqn.source))
        return v

    sides: list[tuple[Atom, Sequence[int], Sequence[int]]] = []
    for a, contract, batch in zip(eqn.inputs, *eqn.params["dimension_numbers"], strict=True):
        free = [i for i in range(a.aval.ndim) if i not in contract and i not in batch]
        if not all(_in_a_row(axes) for axes in (batch, free, contract)):
            # Parts are copies of their own: in an order that one matrix product takes.
            order = (*batch, *free, *contract)
            params = {"permutation": order}
            v = Var(ShapedArray(tuple(a.aval.shape[i] for i in order), out.aval.dtype))
            made.append(Eqn(transpose_p, [a], params, [v], eqn.source))
            a = v
            contract = tuple(range(len(order) - len(contract), len(order)))
            batch = tuple(range(len(batch)))
        sides.append((a, contract, batch))
    parts = {a: [new(p, [a], a.aval.shape) for p in (real_p, imag_p)] for a, _, _ in sides}
    _, contracts, batches = zip(*sides, strict=True)
    params = {"dimension_numbers": (contracts, batches), "preferred_element_type": None}
    (xr, xi), (yr, yi) = (parts[a] for a, _, _ in sides)
    rr, ii, ri, ir = (
        new(dot_general_p, [x, y], out.aval.shape, params)
        for x, y in ((xr, yr), (xi, yi), (xr, yi), (xi, yr))
    )
    re = new(sub_p, [rr, ii], out.aval.shape)
    im = new(add_p, [ri, ir], out.aval.shape)
    return [*made, Eqn(complex_p, [re, im], {}, [out], eqn.source)]


def _in_a_row(axes: Sequence[int]) -> bool:
    """Do axes follow one another?"""
    return list(axes) == list(range(axes[0], axes[0] + len(axes))) if axes else True


def _vector_product(eqn: Eqn) -> list[Eqn] | None:
    """The product by a vector as a sum of products, element by element: it reads memory once.

    None for a product of matrices, and where the batch is not in front in both operands.
    """
    (contract, batch), out = eqn.params["dimension_numbers"], eqn.out_binders[0]
    leading = tuple(range(len(batch[0])))
    if any(tuple(b) != leading for b in batch):
        return None
    sizes = [
        math.prod(n for i, n in enumerate(a.aval.shape) if i not in (*c, *leading))
        for a, c in zip(eqn.inputs, contract, strict=True)
    ]
    if 1 not in sizes:
        return None
    m = int(sizes[1] != 1)  # the matrix, if one of them is
    matrix, vector = eqn.inputs[m], eqn.inputs[1 - m]
    made: list[Eqn] = []

    def new(primitive: Any, inputs: list[Atom], shape: Sequence[int], /, **params: Any) -> Var:
        v = Var(ShapedArray(tuple(shape), out.aval.dtype))
        made.append(Eqn(primitive, inputs, params, [v], eqn.source))
        return v

    # The vector without its axes of size 1, its others in the order of the matrix's.
    axis_of = dict(zip((*leading, *contract[m]), (*leading, *contract[1 - m]), strict=True))
    axes = sorted(axis_of)
    shape = vector.aval.shape
    kept = sorted(axis_of.values())
    y = new(reshape_p, [vector], [shape[i] for i in kept], new_sizes=tuple(shape[i] for i in kept))
    order = tuple(kept.index(axis_of[i]) for i in axes)
    y = new(transpose_p, [y], [shape[axis_of[i]] for i in axes], permutation=order)
    whole = matrix.aval.shape
    y = new(broadcast_in_dim_p, [y], whole, shape=whole, broadcast_dimensions=tuple(axes))
    product = new(mul_p, [matrix, y], whole)
    summed = tuple(sorted(contract[m]))
    rest = [n for i, n in enumerate(whole) if i not in summed]
    total = new(reduce_sum_p, [product], rest, axes=summed) if summed else product
    sizes_out = {"new_sizes": out.aval.shape}
    return [*made, Eqn(reshape_p, [total], sizes_out, [out], eqn.source)]


dot_general = Expanded(_expand_dot_general)
