"""sin, cos and tan, for arguments of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgefn.compiler.codegen.builder import Builder, Module, bits_of, element, number, width_of
from mgefn.compiler.codegen.vector_math.values import (
    Format,
    Value,
    absolute,
    fma,
    format_of,
    polynomial,
    select,
    to_single,
)

# (sin(r) - r) / r^3 and (cos(r) - 1 + z / 2) / z^2 in z = r^2, r up to 0.79.
SIN = (  # errors 3.8e-9, 3.7e-18
    (-0.16666655, 0.008332152, -0.00019513632),
    (-0.1666666666666663, 0.008333333333321766, -0.00019841269829268943, 2.7557313498508224e-06,
     -2.5050726895224773e-08, 1.5894935571881284e-10),
)  # fmt: skip
COS = (  # errors 1.0e-10, 5.1e-20
    (0.041666646, -0.0013887333, 2.443432e-05),
    (0.041666666666666595, -0.0013888888888873253, 2.480158728891435e-05, -2.755731418209082e-07,
     2.087569935466876e-09, -1.135837207520006e-11),
)  # fmt: skip
# (tan(r) - r) / r^3 in z = r^2, r up to 0.79, relative to tan(r).
_TAN = (  # errors 1.6e-9, 1.2e-18
    (0.33333352, 0.13332546, 0.0540729, 0.021216389, 0.011003792, -0.00012081346, 0.0044790125),
    (0.333333333333334, 0.13333333333323238, 0.053968253974013725, 0.021869488369709568,
     0.00886323838998954, 0.0035920961053679313, 0.0014560787951756475, 0.0005887016894388346,
     0.0002443223611161715, 8.211859775136264e-05, 6.981039057990159e-05, -2.886860521270684e-05,
     5.130652421381176e-05, -2.5583116753345177e-05, 1.0087583501727908e-05),
)  # fmt: skip

_PI = (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)

# Up to these a reduction by pi / 2 in three parts is exact enough; beyond, _reduce_far.
_FAR = (2.0**17, 2.0**30)


def half_pi(t: Format) -> tuple[float, float, float]:
    if t.scalar == "double":
        return _PI[0] / 2, _PI[1] / 2, _PI[2] / 2
    first = to_single(_PI[0] / 2)
    second = to_single(_PI[0] / 2 - first)
    return first, second, to_single((_PI[0] / 2 - first - second) + _PI[1] / 2)


def _circular(x: Value) -> tuple[Value, Value, Value]:
    """sin r, cos r and q, where x = q pi / 2 + r with |r| <= pi / 4, q in its last two bits."""
    t = format_of(x)
    first, second, third = half_pi(t)
    shifted = fma(x, 2 / math.pi, t.magic)
    n = shifted - t.magic
    # The innermost step is exact.
    r = fma(n, -third, fma(n, -second, fma(n, -first, x)))
    r, q = _unless_far(x, r, None, shifted.bits())
    z = r * r
    sin = fma(r * z, polynomial(z, SIN[t.pick]), r)
    cos = fma(z, fma(z, polynomial(z, COS[t.pick]), -0.5), 1.0)
    return sin, cos, q


def _signed(y: Value, q: Value) -> Value:
    """y with its sign changed where the bit of value 2 is set."""
    return (y.bits() ^ ((q & 2) << (bits_of(y.ty) - 2))).as_float()


def sin(x: Value) -> Value:
    sin, cos, q = _circular(x)
    y = _signed(select((q & 1).equals(0), sin, cos), q)
    return select(absolute(x) < 2.0 ** -(format_of(x).mantissa // 2 + 2), x, y)  # keeps -0


def cos(x: Value) -> Value:
    sin, cos, q = _circular(x)
    return _signed(select((q & 1).equals(0), cos, sin), q + 1)


def tan(x: Value) -> Value:
    t = format_of(x)
    first, second, third = half_pi(t)
    shifted = fma(x, 2 / math.pi, t.magic)
    n = shifted - t.magic
    # r and what it lacks, lest the reciprocal of the tangent doubles its error.
    exact = fma(n, -first, x)
    product = n * second
    r = exact - product
    low = fma(n, -third, ((exact - r) - product) - fma(n, second, -product))
    r, low, q = _unless_far(x, r, low, shifted.bits())
    z = r * r
    y = r + fma(r * z, polynomial(z, _TAN[t.pick]), low)
    y = select((q & 1).equals(0), y, -1.0 / y)
    return select(absolute(x) < 2.0 ** -(t.mantissa // 2 + 2), x, y)


def _unless_far(x: Value, r: Value, low: Value | None, q: Value) -> list[Value]:
    """A reduction by pi / 2, or where |x| is great what _reduce_far gives."""
    b = x.b
    near = [v for v in (r, low, q) if v is not None]
    far = absolute(x) > _FAR[format_of(x).pick]
    any_far = b.any_of(far.ty, far.name)
    slow, join, before = b.label("far"), b.label("near"), b.block
    b.cond_br(any_far, slow, join, likely=False)
    b.place(slow)
    results = _reduce_far(x, near)
    b.br(join)
    b.place(join)
    return [
        Value(b, v.ty, b.phi(v.ty, (v.name, before), (w.name, slow)))
        for v, w in zip(near, results, strict=True)
    ]


# 1 / pi: 64 zero bits, then the bits after the point.
_INVERSE_PI = (
    0, 0x517CC1B727220A94, 0xFE13ABE8FA9A6EE0, 0x6DB14ACC9E21C820, 0xFF28B1D5EF5DE2B0,
    0xDB92371D2126E970, 0x0324977504E8C90E, 0x7F0EF58E5894D39F, 0x74411AFA975DA242,
    0x74CE38135A2FBF20, 0x9CC8EB1CC1A99CFA, 0x4E422FC5DEFC941D, 0x8FFC4BFFEF02CC07,
    0xF79788C5AD05368F, 0xB69B3F6793E584DB, 0xA7A31FB34F2FF516, 0xBA93DD63F5F2F8BD,
    0x9E839CFBC5294975, 0x35FDAFD88FC6AE84, 0x2B0198237E3DB5D5, 0xF867DE104D7A1B0E,
)  # fmt: skip

# x = q pi / 2 + r for |x| >= 2^17: (r, what it lacks, q mod 4), from the product of the bits of x
# and those 192 bits of 1 / pi that matter (Payne and Hanek 1983, ACM SIGNUM Newsletter 18(1),
# 19-24). %turns is |x| / pi mod 2 in units of 2^-127.
_REDUCE_ONE = """
define internal {{ double, double, i64 }} @mgefn.reduce_far(double %x) noinline cold nounwind {{
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %position = add i64 %exponent, -1012
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %word = lshr i64 %position, 6
  %offset = and i64 %position, 63
  %p0 = getelementptr [{count} x i64], ptr @mgefn.inverse_pi, i64 0, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %t0 = load i64, ptr %p0
  %t1 = load i64, ptr %p1
  %t2 = load i64, ptr %p2
  %t3 = load i64, ptr %p3
  %w0 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %offset)
  %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %offset)
  %w2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %offset)
  %wide = zext i64 %m to i128
  %wide1 = zext i64 %w1 to i128
  %wide2 = zext i64 %w2 to i128
  %low = mul i128 %wide, %wide2
  %carried = lshr i128 %low, 64
  %middle = mul i128 %wide, %wide1
  %sum = add i128 %middle, %carried
  %high = mul i64 %m, %w0
  %high128 = zext i64 %high to i128
  %placed = shl i128 %high128, 64
  %turns = add i128 %placed, %sum
  %rounded = add i128 %turns, 42535295865117307932921825928971026432
  %q128 = lshr i128 %rounded, 126
  %q_size = trunc i128 %q128 to i64
  %minus_q = sub i64 0, %q_size
  %below = icmp slt i64 %bits, 0
  %q = select i1 %below, i64 %minus_q, i64 %q_size
  %distance = shl i128 %turns, 2
  %rounded_up = icmp slt i128 %distance, 0
  %negative = xor i1 %rounded_up, %below
  %size = call i128 @llvm.abs.i128(i128 %distance, i1 false)
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %normal = shl i128 %size, %zeros
  %first128 = lshr i128 %normal, 75
  %first64 = trunc i128 %first128 to i64
  %first = sitofp i64 %first64 to double
  %next128 = shl i128 %normal, 53
  %second128 = lshr i128 %next128, 75
  %second64 = trunc i128 %second128 to i64
  %second = sitofp i64 %second64 to double
  %zeros64 = trunc i128 %zeros to i64
  %biased = sub i64 970, %zeros64
  %scale_bits = shl i64 %biased, 52
  %scale = bitcast i64 %scale_bits to double
  %a = fmul double %first, %scale
  %b1 = fmul double %second, %scale
  %b = fmul double %b1, {unit}
  %r = fmul double %a, {pi}
  %minus = fneg double %r
  %error = call double @llvm.fma.f64(double %a, double {pi}, double %minus)
  %e1 = call double @llvm.fma.f64(double %a, double {pi_low}, double %error)
  %r_low = call double @llvm.fma.f64(double %b, double {pi}, double %e1)
  %s = fadd double %r, %r_low
  %back = fsub double %s, %r
  %s_low = fsub double %r_low, %back
  %minus_s = fneg double %s
  %minus_low = fneg double %s_low
  %y = select i1 %negative, double %minus_s, double %s
  %y_low = select i1 %negative, double %minus_low, double %s_low
  %infinite = icmp eq i64 %exponent, 2047
  %z = select i1 %infinite, double {nan}, double %y
  %o1 = insertvalue {{ double, double, i64 }} poison, double %z, 0
  %o2 = insertvalue {{ double, double, i64 }} %o1, double %y_low, 1
  %o3 = insertvalue {{ double, double, i64 }} %o2, i64 %q, 2
  ret {{ double, double, i64 }} %o3
}}
"""


def _reduce_far(x: Value, near: Sequence[Value]) -> list[Value]:
    """(r, q) or (r, low, q) by a call for each element that is great; `near` for the others."""
    b, t, w = x.b, format_of(x), width_of(x.ty)
    module = b.module
    if "mgefn.reduce_far" not in module.definitions:
        words = ", ".join(f"i64 {v}" for v in _INVERSE_PI)
        module.definitions["mgefn.inverse_pi"] = (
            f"@mgefn.inverse_pi = internal constant [{len(_INVERSE_PI)} x i64] [{words}]\n"
        )
        for intrinsic, ty, arguments in (
            ("fshl.i64", "i64", ["i64"] * 3),
            ("abs.i128", "i128", ["i128", "i1"]),
            ("ctlz.i128", "i128", ["i128", "i1"]),
            ("fma.f64", "double", ["double"] * 3),
        ):
            module.declare(f"llvm.{intrinsic}", ty, arguments)
        module.definitions["mgefn.reduce_far"] = _REDUCE_ONE.format(
            count=len(_INVERSE_PI), unit=number("double", 2.0**-53),
            nan=number("double", math.nan), pi=number("double", _PI[0] / 2),
            pi_low=number("double", _PI[1] / 2),
        )  # fmt: skip
    helper = f"mgefn.reduce_far.{len(near)}.{t.scalar}.{w}"
    result = "{ " + ", ".join(v.ty for v in near) + " }"
    if helper not in module.definitions:
        _define_reduce_far(module, helper, x.ty, [v.ty for v in near], result)
    out = b.call(helper, result, (x.ty, x.name), *((v.ty, v.name) for v in near))
    return [Value(b, v.ty, b.emit(f"extractvalue {result} {out}, {i}")) for i, v in enumerate(near)]


def _define_reduce_far(module: Module, helper: str, ty: str, near: list[str], result: str) -> None:
    """A function of x and the results of the near reduction: these where |x| is not great."""
    b, scalar, w = Builder(module), element(ty), width_of(ty)
    types = [ty, *near]
    slots = [b.emit(f"alloca {u}") for u in types]
    for i, (u, slot) in enumerate(zip(types, slots, strict=True)):
        b.store(u, f"%a{i}", slot)
    b.br("loop")
    b.place("loop")
    b.do("%i = phi i64 [ 0, %entry ], [ %next, %latch ]")
    places = [
        b.emit(f"getelementptr {element(u)}, ptr {s}, i64 %i")
        for u, s in zip(types, slots, strict=True)
    ]
    x = Value(b, scalar, b.load(scalar, places[0]))
    b.cond_br((absolute(x) > _FAR[format_of(x).pick]).name, "far", "latch")
    b.place("far")
    struct_ty = "{ double, double, i64 }"
    out = b.call("mgefn.reduce_far", struct_ty, ("double", x.convert("fpext", "double").name))
    r, low = (Value(b, "double", b.emit(f"extractvalue {struct_ty} {out}, {i}")) for i in range(2))
    q = Value(b, "i64", b.emit(f"extractvalue {struct_ty} {out}, 2"))
    first = r.convert("fptrunc", scalar)
    b.store(scalar, first.name, places[1])
    if len(near) == 3:
        if scalar == "float":
            low = low + (r - first.convert("fpext", "double"))
        b.store(scalar, low.convert("fptrunc", scalar).name, places[2])
    integer = element(types[-1])
    b.store(integer, q.convert("trunc", integer).name, places[-1])
    b.br("latch")
    b.place("latch")
    b.do("%next = add i64 %i, 1")
    b.cond_br(b.emit(f"icmp eq i64 %next, {w}"), "done", "loop")
    b.place("done")
    value = "poison"
    for i, u in enumerate(near):
        loaded = b.load(u, slots[i + 1])
        value = b.emit(f"insertvalue {result} {value}, {u} {loaded}, {i}")
    b.do(f"ret {result} {value}")
    b.function(helper, result, [(u, f"a{i}") for i, u in enumerate(types)],
               "noinline cold nounwind", "internal")  # fmt: skip
