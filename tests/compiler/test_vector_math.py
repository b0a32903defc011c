"""Vector mathematics as compiled code, against mpmath.

Errors are in units in the last place of the exact value. MGEFN_ULP_SAMPLES sets how many random
arguments a range gets; BOUNDS hold for 400000 in float and 6000 in double.
"""

import ctypes
import functools
import os
from collections.abc import Callable

import llvmlite.binding as llvm
import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
import scipy.special

from mgefn.compiler.codegen.builder import METADATA, Builder, Module, vector
from mgefn.compiler.codegen.vector_math import FUNCTIONS, circular, emit, exponentials, inverses
from tests.compiler import fit_polynomial

SAMPLES = int(os.environ.get("MGEFN_ULP_SAMPLES", "25"))
SIZE = {"half": 2, "bfloat": 2, "float": 4, "double": 8}
DTYPE = {"float": np.dtype("f4"), "double": np.dtype("f8"), "half": np.dtype("f2")}

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


# -- compiling -------------------------------------------------------------------------------------


def module_text(names: list[str], scalar: str, width: int) -> str:
    """A function of (out, first argument, second, count) for each name.

    count: a multiple of width.
    """
    module = Module()
    ty = vector(scalar, width)
    for name in names:
        b = Builder(module)
        b.br("loop")
        b.place("loop")
        b.do("%i = phi i64 [ 0, %entry ], [ %next, %LATCH ]")
        phi = len(b.lines) - 1
        offset = b.emit(f"mul i64 %i, {SIZE[scalar]}")
        args = [b.load(ty, b.offset(p, offset), 1) for p in ("%a", "%c")[: FUNCTIONS[name]]]
        b.store(ty, emit(b, name, scalar, width, *args), b.offset("%out", offset), 1)
        b.do(f"%next = add i64 %i, {width}")
        b.lines[phi] = b.lines[phi].replace("LATCH", b.block)  # emit may have begun blocks
        b.cond_br(b.emit("icmp slt i64 %next, %n"), "loop", "done")
        b.place("done")
        b.do("ret void")
        b.function(f"k_{name}", "void", [("ptr", "out"), ("ptr", "a"), ("ptr", "c"), ("i64", "n")])
    return module.text() + METADATA


class Compiled:
    """The functions of a module, callable with arrays."""

    def __init__(self, names: list[str], scalar: str, width: int):
        module = llvm.parse_assembly(module_text(names, scalar, width))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        passes = llvm.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        pointer = ctypes.c_void_p
        signature = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)
        self.width = width
        self.functions = {n: signature(self.engine.get_function_address(f"k_{n}")) for n in names}

    def __call__(self, name: str, *args: np.ndarray) -> np.ndarray:
        count = len(args[0])
        padded = -(-count // self.width) * self.width
        arrays = [np.zeros(padded, args[0].dtype) for _ in range(3)]
        for array, a in zip(arrays[1:], args, strict=False):
            array[:count] = a
        self.functions[name](*(a.ctypes.data for a in arrays), padded)
        return arrays[0][:count]


@functools.cache
def compiled(scalar: str, width: int) -> Compiled:
    return Compiled(list(FUNCTIONS), scalar, width)


# -- references ------------------------------------------------------------------------------------


def cbrt(x: mp.mpf) -> mp.mpf:
    return mp.sign(x) * mp.cbrt(abs(x))


# (numpy's function, which says what is nan, infinite or zero; mpmath's for all else)
REFERENCES: dict[str, tuple[Callable, Callable]] = {
    "exp": (np.exp, mp.exp),
    "exp2": (np.exp2, lambda x: mp.mpf(2) ** x),
    "expm1": (np.expm1, mp.expm1),
    "log": (np.log, mp.log),
    "log2": (np.log2, lambda x: mp.log(x, 2)),
    "log10": (np.log10, lambda x: mp.log(x) / mp.log(10)),
    "log1p": (np.log1p, mp.log1p),
    "tanh": (np.tanh, mp.tanh),
    "logistic": (scipy.special.expit, lambda x: 1 / (1 + mp.exp(-x))),
    "sinh": (np.sinh, mp.sinh),
    "cosh": (np.cosh, mp.cosh),
    "sin": (np.sin, mp.sin),
    "cos": (np.cos, mp.cos),
    "tan": (np.tan, mp.tan),
    "asin": (np.arcsin, mp.asin),
    "acos": (np.arccos, mp.acos),
    "atan": (np.arctan, mp.atan),
    "atan2": (np.arctan2, mp.atan2),
    "asinh": (np.arcsinh, mp.asinh),
    "acosh": (np.arccosh, mp.acosh),
    "atanh": (np.arctanh, mp.atanh),
    "erf": (scipy.special.erf, mp.erf),
    "erfc": (scipy.special.erfc, lambda x: mp.erfc(x) if x < 1e3 else mp.mpf(0)),
    "erf_inv": (lambda x: x if x == 0 else scipy.special.erfinv(x), mp.erfinv),
    "pow": (np.power, lambda x, y: x**y),
    "cbrt": (np.cbrt, cbrt),
    "hypot": (np.hypot, mp.hypot),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "logaddexp": (np.logaddexp, lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y)))),
    "lgamma": (
        lambda x: np.inf if x == -np.inf else scipy.special.gammaln(x),
        lambda x: mp.re(mp.loggamma(x)),
    ),
    "digamma": (
        lambda x: np.nan if x == -np.inf else scipy.special.digamma(x),
        mp.digamma,
    ),
}

# What dense runs found, rounded up: (float, double).
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1),
    "exp2": (1.1, 1.3),
    "expm1": (1.7, 1.8),
    "log": (1.0, 0.9),
    "log2": (1.2, 1.0),
    "log10": (1.1, 0.9),
    "log1p": (1.6, 0.9),
    "tanh": (1.5, 1.5),
    "logistic": (1.6, 1.6),
    "sinh": (2.0, 1.8),
    "cosh": (1.7, 1.6),
    "sin": (1.7, 1.6),
    "cos": (1.7, 1.6),
    "tan": (2.0, 1.9),
    "asin": (1.3, 1.3),
    "acos": (1.3, 1.3),
    "atan": (1.4, 1.5),
    "atan2": (1.6, 1.6),
    "asinh": (1.8, 1.6),
    "acosh": (2.0, 1.8),
    "atanh": (1.9, 1.9),
    "erf": (1.4, 1.4),
    "erfc": (2.0, 2.0),
    "erf_inv": (2.0, 2.0),
    "pow": (0.6, 1.2),
    "cbrt": (0.8, 0.6),
    "hypot": (1.1, 1.0),
    "rsqrt": (1.6, 1.6),
    "logaddexp": (2.5, 2.5),
    "lgamma": (0.6, 3.0),
    "digamma": (0.6, 3.0),
}

RANGES: dict[str, list] = {
    "exp": [(-105, 90), (-750, 710), (-1, 1)],
    "exp2": [(-152, 130), (-1080, 1030), (-1, 1)],
    "expm1": [(-20, 90), (-40, 710), (-1, 1), (-0.01, 0.01)],
    "log": [(0, 2), (0.5, 1.5), (0.99, 1.01)],
    "log1p": [(-1, 1), (-0.1, 0.1), (0, 100)],
    "tanh": [(-1, 1), (-22, 22), (-0.1, 0.1)],
    "logistic": [(-105, 20), (-750, 40), (-10, 10)],
    "sinh": [(-90, 90), (-711, 711), (-1, 1)],
    "sin": [(-4, 4), (-100, 100), (-140000, 140000), (-2e9, 2e9)],
    "asin": [(-1, 1), (-0.1, 0.1), (0.45, 0.55), (0.9, 1)],
    "atan": [(-1, 1), (-10, 10), (0.9, 1.1)],
    "asinh": [(-1, 1), (-10, 10), (-0.1, 0.1), (-1e10, 1e10)],
    "acosh": [(1, 2), (1, 1.01), (1, 100), (1, 1e10)],
    "atanh": [(-1, 1), (-0.1, 0.1), (-0.6, 0.6)],
    "erf": [(-1, 1), (-6, 6), (0.8, 1.2)],
    "erfc": [(-4, 11), (-1, 1), (0, 28)],
    "erf_inv": [(-1, 1), (0.9, 1), (0.99, 1), (0.9999, 1)],
    "cbrt": [(-10, 10)],
    "rsqrt": [(0, 10)],
    "lgamma": [(0.5, 3), (0, 40), (-0.5, 0.5), (0, 1e5)],
    "digamma": [(0.5, 3), (0, 40), (0, 1e5)],
    "pow": [((0, 3), (-80, 80)), ((0.9, 1.1), (-700, 700)), ((0, 1e30), (-3, 3))],
    "atan2": [((-1, 1), (-1, 1)), ((-1, 1), (-100, 100))],
    "hypot": [((-1, 1), (-1, 1)), ((-100, 100), (-1, 1))],
    "logaddexp": [((-5, 5), (-5, 5)), ((-100, 100), (-100, 100))],
    "rem": [((-10, 10), (-1, 1)), ((-1e8, 1e8), (-3, 3))],
    "nextafter": [((-1, 1), (-1, 1))],
}
RANGES |= {"log2": RANGES["log"], "log10": RANGES["log"], "cosh": RANGES["sinh"]}
RANGES |= {"cos": RANGES["sin"], "tan": RANGES["sin"], "acos": RANGES["asin"]}


def special(dtype: np.dtype) -> np.ndarray:
    info = np.finfo(dtype)
    sizes = [0.0, 0.5, 1.0, 2.0, 3.0, 2.5, 100.0, 1e9, 1e30, np.pi / 2, np.pi, np.inf]
    sizes += [info.tiny, info.smallest_subnormal, info.max, info.eps, 1e-30, 0.1, 2.0**54]
    # Of exp, exp2, sinh, erfc: the ends of what is finite and of what is not 0.
    sizes += [88.72283, 88.72284, 89.41, 89.42, 103.9, 104.0, 128, 149, 150, 10.05, 10.06]
    sizes += [709.7827, 709.7828, 710.47, 710.48, 745.1, 745.2, 1024, 1074, 1075, 26.5, 27.2]
    # The double nearest to a multiple of pi / 2.
    sizes += [6381956970095103 * 2.0**797] if dtype == np.float64 else []
    with np.errstate(over="ignore"):
        values = np.array(sizes).astype(dtype)
    return np.concatenate([values, -values, [np.array(np.nan, dtype)]])


def arguments(name: str, dtype: np.dtype, count: int) -> list[tuple[np.ndarray, ...]]:
    """Samples: of all bit patterns, of the ranges, special values (each pair of two)."""
    rng = np.random.default_rng(5)
    arity = FUNCTIONS[name]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    top = np.iinfo(unsigned).max
    sets = [
        tuple(rng.integers(0, top, count, unsigned, True).view(dtype) for _ in range(arity)),
        tuple(
            (rng.choice([-1, 1], count) * 2.0 ** rng.uniform(-20, 20, count)).astype(dtype)
            for _ in range(arity)
        ),
    ]
    for one in RANGES[name]:
        bounds = one if arity == 2 else (one,)
        sets.append(tuple(rng.uniform(*r, count).astype(dtype) for r in bounds))
    values = special(dtype)
    pairs = (v.ravel() for v in np.meshgrid(values[::2], values[::3]))
    sets.append(tuple(pairs) if arity == 2 else (values,))
    return sets


def ulp(dtype: np.dtype, x: float) -> float:
    info = np.finfo(dtype)
    exponent = max(int(np.frexp(abs(x))[1]) - 1, int(info.minexp)) if x else int(info.minexp)
    return float(np.ldexp(1.0, exponent - info.nmant))


def exact(name: str, args: tuple[float, ...]) -> mp.mpf | float:
    """The value: a float where it is nan, infinite, or a zero of some sign."""
    by_numpy, by_mpmath = REFERENCES[name]
    with np.errstate(all="ignore"):
        rough = float(by_numpy(*(np.float64(a) for a in args)))
    ends = any(a == 0 or abs(a) in (1, np.inf) for a in args)
    ends |= "gamma" in name and args[0] < 0 and args[0] == np.floor(args[0])
    if np.isnan(rough) or ((np.isinf(rough) or rough == 0) and (ends or name == "pow")):
        return rough
    if np.isinf(args).any() or (name == "atan2" and 0 in args):  # no matter for mpmath
        return mp.mpf(rough)
    return by_mpmath(*(mp.mpf(a) for a in args))


def errors(name: str, dtype: np.dtype, args: tuple[np.ndarray, ...], got: np.ndarray) -> np.ndarray:
    out = np.zeros(len(got))
    greatest = float(np.finfo(dtype).max)
    beyond = mp.mpf(greatest) + ulp(dtype, greatest)  # the number whose place inf takes
    for i, g in enumerate(map(float, got)):
        point = tuple(float(a[i]) for a in args)
        e = exact(name, point)
        if isinstance(e, float) and (e == 0 or not np.isfinite(e)):
            same = np.isnan(g) if np.isnan(e) else g == e and np.signbit(g) == np.signbit(e)
            out[i] = 0 if same else np.inf
            continue
        size = abs(e)
        if name == "logaddexp":  # ill-conditioned where the logarithm cancels the argument
            size = max(size, *map(abs, point))
        if "gamma" in name and point[0] < 0:  # and where the terms of the reflection cancel
            size = max(size, 1, abs(REFERENCES[name][1](mp.mpf(-point[0]))))
        if np.isinf(g):
            value = beyond * (1 if g > 0 else -1)
            e = min(max(e, -beyond), beyond)
        else:
            value = mp.mpf(g)
        out[i] = float(abs(value - e) / ulp(dtype, float(min(size, greatest))))
    return out


@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) & set(REFERENCES)))
def test_accuracy(name, scalar):
    dtype = DTYPE[scalar]
    call = compiled(scalar, 8)
    bound = BOUNDS[name][scalar == "double"]
    with mp.workprec(160):
        for args in arguments(name, dtype, SAMPLES):
            got = call(name, *args)
            found = errors(name, dtype, args, got)
            worst = int(np.argmax(found))
            assert found[worst] <= bound, (
                f"{name}{tuple(a[worst] for a in args)}: {got[worst]} is off by {found[worst]}"
            )


def test_every_function_is_tested():
    assert set(FUNCTIONS) - set(REFERENCES) == {"rem", "nextafter"}  # exact: below


@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name, reference", [("rem", np.fmod), ("nextafter", np.nextafter)])
def test_bits_are_those_of_c(name, reference, scalar):
    call = compiled(scalar, 8)
    for args in arguments(name, DTYPE[scalar], 40 * SAMPLES):
        with np.errstate(all="ignore"):
            expected = reference(*args)
        got = call(name, *args)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got[got == got]), np.signbit(expected[got == got]))


@pytest.mark.parametrize("scalar", ["float", "double"])
def test_powers_of_special_values_are_those_of_c(scalar):
    values = np.concatenate([special(DTYPE[scalar]), np.array([4, 5, -3, -5, 1.5], DTYPE[scalar])])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    got = compiled(scalar, 8)("pow", x, y)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(expected.dtype).eps)
    numbers = expected == expected
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("scalar", ["float", "double"])
def test_exact_values(scalar):
    dtype, call = DTYPE[scalar], compiled(scalar, 8)
    info = np.finfo(dtype)
    k = np.arange(int(info.minexp) - info.nmant, int(info.maxexp), dtype=dtype)
    powers = np.ldexp(dtype.type(1), k.astype(int))
    np.testing.assert_array_equal(call("exp2", k), powers)
    np.testing.assert_array_equal(call("log2", powers), k)
    tens = np.arange(0, 11 if scalar == "float" else 23, dtype=dtype)
    np.testing.assert_array_equal(call("log10", (10 ** tens.astype("f8")).astype(dtype)), tens)
    n = np.arange(-200, 200, dtype=dtype)
    np.testing.assert_array_equal(call("cbrt", n**3), n)
    np.testing.assert_array_equal(call("hypot", n * 3, n * 4), abs(n) * 5)
    np.testing.assert_array_equal(call("pow", n, np.full_like(n, 2)), n * n)
    np.testing.assert_array_equal(call("cos", np.zeros(3, dtype)), 1)
    np.testing.assert_array_equal(call("exp", np.zeros(3, dtype)), 1)
    np.testing.assert_array_equal(call("logistic", np.zeros(3, dtype)), 0.5)


@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("width", [1, 2, 4, 16, 32])
def test_width_changes_no_bit(scalar, width):
    wide, other = compiled(scalar, 8), compiled(scalar, width)
    for name in FUNCTIONS:
        for args in arguments(name, DTYPE[scalar], 4):
            np.testing.assert_array_equal(other(name, *args), wide(name, *args), err_msg=name)


@pytest.mark.parametrize("scalar", ["half", "bfloat"])
@pytest.mark.parametrize("width", [1, 8, 32])
def test_short_types_are_rounded_once_from_float(scalar, width):
    dtype = np.dtype(np.float16) if scalar == "half" else np.dtype(ml_dtypes.bfloat16)
    call = Compiled(["exp", "sin", "tanh", "rem", "nextafter"], scalar, width)
    bits = np.arange(65536, dtype=np.uint16)
    x = bits.view(dtype)
    y = np.roll(bits, 12345).view(dtype)
    wide = compiled("float", 8)
    with np.errstate(all="ignore"):
        for name in ("exp", "sin", "tanh", "rem"):
            args = (x, y)[: FUNCTIONS[name]]
            expected = wide(name, *(a.astype(np.float32) for a in args)).astype(dtype)
            got = call(name, *(a.view(np.uint16) for a in args)).view(dtype)
            np.testing.assert_array_equal(got.astype("f4"), expected.astype("f4"), err_msg=name)
        got = call("nextafter", bits, y.view(np.uint16)).view(dtype)
        expected = np.nextafter(x, y)
        np.testing.assert_array_equal(got.astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize("scalar", ["float", "double"])
def test_no_library_is_called(scalar):
    declared = [
        line.split("@")[1]
        for line in module_text(list(FUNCTIONS), scalar, 4).splitlines()
        if line.startswith("declare")
    ]
    assert declared
    assert all(d.startswith("llvm.") for d in declared)
    # These LLVM turns into calls of the C library.
    libraries = ("exp", "log", "sin", "cos", "tan", "pow", "sinh", "cosh", "tanh")
    assert not [d for d in declared if d.split(".")[1] in libraries]


def test_unknown_functions_and_wrong_counts():
    b = Builder(Module())
    with pytest.raises(KeyError, match="sinc"):
        emit(b, "sinc", "float", 4, "%x")
    with pytest.raises(TypeError, match="need 2 arguments, got 1"):
        emit(b, "pow", "float", 4, "%x")


@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize(
    "stored, name",
    [
        (exponentials.EXP, "exp"),
        (inverses._ATAN, "atan"),
        (exponentials._TANH, "tanh"),
        (circular.SIN, "sin"),
    ],
)
def test_coefficients_are_those_of_the_fit(stored, name, scalar):
    fitted, _ = fit_polynomial.FITS[f"{name} {scalar}"]()
    np.testing.assert_allclose(
        stored[scalar == "double"],
        [float(c) for c in fitted],
        rtol=1e-7 if scalar == "float" else 0,
    )
