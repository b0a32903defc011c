"""The error function, its complement and its inverse."""

from __future__ import annotations

import math

from mgefn.compiler.codegen.vector_math.exponentials import (
    EXP,
    exp_minus_one,
    reduce_exp,
    reduce_exp_exactly,
)
from mgefn.compiler.codegen.vector_math.logarithms import log_of, log_remainder, split_exponent
from mgefn.compiler.codegen.vector_math.values import (
    INF,
    Value,
    absolute,
    copysign,
    fma,
    format_of,
    intrinsic,
    polynomial,
    select,
    sqrt,
)

# erf(x) / x - 1 in z = x^2 up to 1.
_ERF = (  # errors 1.2e-9, 7.1e-18
    (0.12837917, -0.37612626, 0.112836, -0.026854442, 0.005189532, -0.0008020823, 7.8890924e-05),
    (0.12837916709551256, -0.3761263890318355, 0.11283791670945245, -0.02686617064327517,
     0.0052239776074166485, -0.0008548325989437867, 0.00012055295314418453,
     -1.492474457328572e-05, 1.6447516844170422e-06, -1.620917133470938e-07,
     1.3722963175749655e-08, -7.801175253693863e-10),
)  # fmt: skip
# log(erfc(1 + u)) where erf is not yet 1, weighted by erfc.
_ERF_TAIL = (  # errors 1.0e-9, 6.6e-18
    (-1.8496056, -2.6389668, -0.84311837, -0.041500624, 0.009890792, -0.0018260852, 0.00018555099),
    (-1.8496055099332482, -2.6389675142347757, -0.8431072563594145, -0.04156109802504508,
     0.010033825178783321, -0.0019779012138347323, 0.00023731642731520213, 2.6296346371801453e-05,
     -2.7199008903437908e-05, 9.671426194143819e-06, -2.1319890628465815e-06,
     2.04848227454281e-07, 5.799199818733814e-08, -3.338363064948794e-08, 8.516694494218298e-09,
     -1.3187281278909717e-09, 1.1928574278066002e-10, -4.8630923553832686e-12),
)  # fmt: skip
# exp(x^2) erfc(x) (1 + 2 x) in (x - 2) / (x + 2), for x from 1/2 on.
_ERFC = (  # errors 5.4e-9, 1.2e-18
    (1.2769783849975729, -0.09276376, -0.16603082, 0.16404858, -0.05421128, -0.008003897,
     0.008659534, 0.0011396414, -0.001266429, -0.00021689649),
    (1.2769783815525286, -0.09276382658574604, -0.1660303976152888, 0.16405128003344774,
     -0.05422000099209458, -0.008034015082733081, 0.008722653877915707, 0.0012713389732961454,
     -0.0014568139915040257, -0.0004543409201815668, 0.00020636774715416186,
     0.00015103973101680303, -1.5139363642141805e-06, -3.642459990078361e-05,
     -1.3472659423553428e-05, 3.7057229414662227e-06, 5.15994952523328e-06,
     1.5480039010502425e-06, -5.73579125120007e-07, -9.688149965652576e-07,
     -3.816665313980002e-07, 3.376747184452347e-07, 1.862426996502358e-07,
     -1.0197064868665768e-07),
)  # fmt: skip
# What the first of these loses as a double.
_ERFC_LOW = (0.0, 8.8589974048303e-17)
# erf_inv(x) / x - 1 in w = -log(1 - x^2) up to the bound; beyond erf_inv(x) / x - 2 in
# (s - c) / (s + 1), s = sqrt(w), c the centre.
_ERF_INV_BOUND = (5.0, 6.25)
_ERF_INV_CENTRE = (3.0, 4.0)
_ERF_INV = (  # errors 9.0e-9, 3.8e-18
    (0.1273744, 0.24783291, 0.0042506303, -0.0023764828, 0.00010032265, 3.8241888e-05,
     -4.431573e-06, -5.10679e-07, 1.391597e-07, -8.59075e-09),
    (0.37721521151481846, 0.24976806887075081, -0.0019681435417812517, -0.0016921483697709854,
     0.00021593778927860312, 7.581550375252656e-06, -4.874470697673962e-06,
     3.1694288517542594e-07, 6.906214720207054e-08, -1.2896044743534123e-08,
     -2.563271661899161e-10, 2.939170190272439e-10, -2.1235700681325934e-11,
     -4.329253113193409e-12, 8.457829468952635e-13, 1.6421549954902213e-14,
     -1.974495456255008e-14, 1.4632629386856855e-15, 2.89986994827538e-16, -6.079745575785554e-17,
     5.325455137556649e-19, 1.1636267267173015e-18, -1.772975276340997e-19, 1.187443459044953e-20,
     -3.211760858973027e-22),
)  # fmt: skip
_ERF_INV_TAIL = (  # errors 6.8e-9, 5.7e-18
    (0.8329768, 4.0067015, 4.157833, 3.8196561, 4.447206, 3.8629274, 2.3281355, 5.6848326,
     8.693717, 0.9222763),
    (1.8397837974115536, 5.047466266227119, 5.078962447904312, 5.001834653936341,
     5.016679786948082, 4.955767279042204, 5.152960173895579, 4.770731052659861,
     4.878058504284182, 6.229999464569255, 3.7985550060769198, 1.3421516178298836,
     12.27788795126653, 15.208800587297718, -23.67803218999135, -29.55363609878149,
     98.77058584087709, 146.16983617287661, -243.34672223465924, -564.5791191432538,
     414.17937991896736, 1881.3770365614112, 281.9386034603834, -4100.72243718273,
     -3751.551380475918, 3535.7644852423496, 7455.885913279151, 3456.312019769124),
)  # fmt: skip


def _erf_near(x: Value) -> Value:
    return fma(x, polynomial(x * x, _ERF[format_of(x).pick]), x)


def erf(x: Value) -> Value:
    t = format_of(x)
    a = absolute(x)
    limit = (4.0, 6.0)[t.pick]
    u = select(a > limit, limit, a) - 1.0
    n, r = reduce_exp(polynomial(u, _ERF_TAIL[t.pick]))
    scale = (n + t.one).as_float()
    tail = copysign(1.0 - fma(scale, exp_minus_one(r), scale), x)
    return select(a < 1.0, _erf_near(x), tail)


def erfc(x: Value) -> Value:
    t = format_of(x)
    limit = (10.2, 27.4)[t.pick]
    a = absolute(x)
    a = select(a > limit, limit, a)
    square = a * a
    n, high, multiple, low_ln2 = reduce_exp_exactly(-square)
    low = fma(multiple, -low_ln2, -fma(a, a, -square))
    r = high + low
    p = high + fma(r * r, polynomial(r, EXP[t.pick]), low)  # exp(r) - 1
    # exp(-x^2) q / (1 + 2 x): the quotient with what the rounding of each of its parts lost.
    first, *others = _ERFC[t.pick]
    first, first_low = t.split((first, _ERFC_LOW[t.pick]))
    v = (a - 2.0) / (a + 2.0)
    v = fma(v, polynomial(v, others), first_low)
    q = v + first
    q_low = v - (q - first)
    d = fma(a, 2.0, 1.0)
    d_low = 1.0 - fma(a, -2.0, d)
    inverse = 1.0 / d
    quotient = q * inverse
    rest = (fma(quotient, -d_low, fma(quotient, -d, q)) + q_low) * inverse
    p = quotient + fma(p, quotient, rest)
    floor = intrinsic("smax", n, -(t.bias - 27) << t.mantissa)
    tail = p * (floor + t.one).as_float() * (n - floor + t.one).as_float()
    tail = select(x < 0.0, 2.0 - tail, tail)
    y = select(absolute(x) < 0.75, 1.0 - _erf_near(x), tail)
    return select(x.equals(x), y, x)


def erf_inv(x: Value) -> Value:
    t, b = format_of(x), x.b
    u = fma(x, -x, 1.0)
    e, m = split_exponent(u)
    f = m - 1.0
    w = -log_of("log", e, f, log_remainder(f))
    bound = _ERF_INV_BOUND[t.pick]
    p = polynomial(w - (1.0, 2.0)[t.pick], _ERF_INV[t.pick])
    far = w > bound
    any_far = b.any_of(far.ty, far.name)
    slow, join, before = b.label("tail"), b.label("near"), b.block
    b.cond_br(any_far, slow, join)
    b.place(slow)
    root = sqrt(w)
    v = (root - _ERF_INV_CENTRE[t.pick]) / (root + 1.0)
    tail = polynomial(v, _ERF_INV_TAIL[t.pick]) + 1.0
    both = select(far, tail, p)
    b.br(join)
    b.place(join)
    p = Value(b, x.ty, b.phi(x.ty, (p.name, before), (both.name, slow)))
    a = absolute(x)
    y = select(a.equals(1.0), x * INF, fma(x, p, x))
    return select(a > 1.0, math.nan, copysign(y, x))
