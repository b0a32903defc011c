"""Dtypes: names, defaults, promotion, and the questions asked of them."""

from __future__ import annotations

import enum
import itertools
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from mgefn import dtypes
from mgefn.config import config
from mgefn.errors import DTypeError, OverflowDTypeError

BUILTIN = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()
FLOAT8 = [name for name in dtypes.__all__ if name.startswith("float8")]
EXTENDED = ["bfloat16", *FLOAT8]

# jax.numpy.result_type with 64-bit types enabled (JAX 0.10.2). i*, f*, c* are the weak kinds, f8a
# and f8b two float8 types; - means that there is no common type.
PROMOTION = """
bool i8 i16 i32 i64 u8 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b i* f* c*
bool bool i8 i16 i32 i64 u8 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b i* f* c*
i8 i8 i8 i16 i32 i64 i16 i32 i64 f* bf16 f16 f32 f64 c64 c128 f8a f8b i8 f* c*
i16 i16 i16 i16 i32 i64 i16 i32 i64 f* bf16 f16 f32 f64 c64 c128 f8a f8b i16 f* c*
i32 i32 i32 i32 i32 i64 i32 i32 i64 f* bf16 f16 f32 f64 c64 c128 f8a f8b i32 f* c*
i64 i64 i64 i64 i64 i64 i64 i64 i64 f* bf16 f16 f32 f64 c64 c128 f8a f8b i64 f* c*
u8 u8 i16 i16 i32 i64 u8 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b u8 f* c*
u16 u16 i32 i32 i32 i64 u16 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b u16 f* c*
u32 u32 i64 i64 i64 i64 u32 u32 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b u32 f* c*
u64 u64 f* f* f* f* u64 u64 u64 u64 bf16 f16 f32 f64 c64 c128 f8a f8b u64 f* c*
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 f32 f64 c64 c128 - - bf16 bf16 c64
f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f16 f32 f64 c64 c128 - - f16 f16 c64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128 - - f32 f32 c64
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 - - f64 f64 c128
c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c128 - - c64 c64 c64
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 - - c128 c128 c128
f8a f8a f8a f8a f8a f8a f8a f8a f8a f8a - - - - - - f8a - f8a f8a -
f8b f8b f8b f8b f8b f8b f8b f8b f8b f8b - - - - - - - f8b f8b f8b -
i* i* i8 i16 i32 i64 u8 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f8a f8b i* f* c*
f* f* f* f* f* f* f* f* f* f* bf16 f16 f32 f64 c64 c128 f8a f8b f* f* c*
c* c* c* c* c* c* c* c* c* c* c64 c64 c64 c128 c64 c128 - - c* c* c*
"""
NODES = {short: name for name, short in dtypes._SHORT.items()} | {
    "bf16": "bfloat16",
    "f8a": "float8_e4m3fn",
    "f8b": "float8_e5m2",
}
WEAK = {"i*": int, "f*": float, "c*": complex}


def promotion_rows():
    header, *rows = PROMOTION.strip("\n").splitlines()
    for row in rows:
        name, *results = row.split()
        yield from zip(itertools.repeat(name), header.split(), results, strict=False)


@pytest.mark.parametrize("x64", [False, True])
def test_promotion_is_jaxs_lattice(x64):
    count = 0
    with config.override(enable_x64=x64):
        for a, b, expected in promotion_rows():
            operands = [WEAK.get(node) or NODES[node] for node in (a, b)]
            count += 1
            if expected == "-":
                with pytest.raises(DTypeError, match="must have a common type"):
                    dtypes.result_type(*operands)
                continue
            weak = expected in WEAK
            dtype = dtypes.canonical(WEAK[expected] if weak else NODES[expected])
            assert dtypes.result_type(*operands, return_weak=True) == (dtype, weak), (a, b)
            assert dtypes.promote_types(*operands) == dtype, (a, b)
    assert count == 20 * 20


@pytest.mark.parametrize("name", FLOAT8)
def test_every_float8_promotes_alike(name):
    assert dtypes.promote_types(name, name) == dtypes.canonical(name)
    assert dtypes.promote_types("int64", name) == dtypes.canonical(name)
    assert dtypes.result_type(name, 2.0) == dtypes.canonical(name)
    for other in [*FLOAT8, "bfloat16", "float16", "float64", "complex64"]:
        if other != name:
            with pytest.raises(DTypeError, match="Cast them to one dtype with astype"):
                dtypes.promote_types(name, other)


def test_promotion_of_several_operands():
    # uint64 and int64 meet in the weak float, which takes the type of what it meets next.
    assert dtypes.result_type("uint64", "int64", "float16") == np.float16
    assert dtypes.result_type(np.zeros(2, np.float32), 1, 2.0, np.int8(3)) == np.float32
    assert dtypes.result_type(1, 2.0, True, return_weak=True) == (np.float32, True)


def test_promotion_error_names_the_dtypes():
    with pytest.raises(DTypeError, match="got bf16, f8_e5m2"):
        dtypes.promote_types("bfloat16", "float8_e5m2")
    with pytest.raises(DTypeError, match="float0 promotes with no other dtype"):
        dtypes.promote_types(dtypes.float0, "float32")
    with pytest.raises(DTypeError, match="needs an argument at least"):
        dtypes.result_type()


class Weak:
    """An array-like whose dtype is weak."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self.weak_type = True


def test_weak_arrays_alone_keep_their_dtype():
    assert dtypes.result_type(Weak("int16"), Weak("int16"), return_weak=True) == (np.int16, True)
    assert dtypes.result_type(Weak("int16"), Weak("int8"), return_weak=True) == (np.int16, True)
    assert dtypes.result_type(Weak("float64"), np.zeros(1, "float16")) == np.float16
    assert dtypes.result_type(Weak("bool"), return_weak=True) == (np.bool_, False)


def test_promotion_table_is_bounded():
    for count in range(3, 40):
        dtypes.result_type(*["int8"] * count)
    assert len(dtypes._promoted[0]) <= dtypes._PROMOTED_BOUND


@pytest.mark.parametrize("name", BUILTIN + EXTENDED)
def test_names_are_callable_scalar_types(name):
    scalar_type = getattr(dtypes, "bool_" if name == "bool" else name)
    dtype = dtypes.canonical(name)
    assert np.dtype(scalar_type) == dtype
    assert dtype.name == name
    assert scalar_type(1) == 1
    assert dtypes.canonical(scalar_type) is dtypes.canonical(dtype) is dtype
    assert dtypes.canonical(np.zeros(1, dtype)) is dtype
    assert not hasattr(dtypes, "float8_nonsense")


@pytest.mark.parametrize("code", [">f8", "<i4", ">c8", "half", "longlong", "intp"])
def test_canonical_is_native_and_one_object_per_type(code):
    dtype = dtypes.canonical(code)
    assert dtype.isnative
    assert dtype is dtypes.canonical(dtype.name)
    assert dtype == np.dtype(code).newbyteorder("=")


@pytest.mark.parametrize(
    ("x64", "expected"),
    [(False, ("int32", "float32", "complex64")), (True, ("int64", "float64", "complex128"))],
)
def test_defaults(x64, expected):
    with config.override(enable_x64=x64):
        found = [dtypes.default_int(), dtypes.default_float(), dtypes.default_complex()]
        assert found == [np.dtype(name) for name in expected]
        assert [dtypes.canonical(t) for t in (int, float, complex)] == found
        assert [dtypes.python_dtype(t) for t in (int, float, complex)] == found
        assert dtypes.canonical(bool) == dtypes.python_dtype(bool) == np.bool_
        assert dtypes.to_inexact(np.dtype("int64")) == found[1]
        assert dtypes.complex_dtype(np.dtype("int64")) == found[2]
        # No more bits than the operand has, as in JAX.
        assert (
            dtypes.to_inexact(np.dtype("int32")) == dtypes.to_inexact(np.dtype(bool)) == "float32"
        )
        assert dtypes.complex_dtype(np.dtype("int8")) == np.complex64
        assert dtypes.canonical("float64") == np.float64  # asked for, so honoured


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("O", "got dtype object. Convert it with astype"),
        ("U3", "got dtype <U3. Encode text as integers"),
        ("S3", "Encode text as integers"),
        ("M8[s]", "Convert dates"),
        (np.longdouble, "Cast to float64 or complex128"),
        ([("a", "f4")], "needs the name of a dtype"),
        (np.dtype([("a", "f4")]), "Pass each field as an array"),
        (ml_dtypes.int4, "Cast to one of bool, int8"),
        (None, "needs a dtype, got None"),
        ("float31", "needs the name of a dtype, a scalar type or a dtype, got 'float31'"),
        (object(), "needs the name of a dtype"),
        (3, "needs the name of a dtype"),
    ],
)
def test_dtypes_refused(dtype, message):
    with pytest.raises(DTypeError, match=message):
        dtypes.canonical(dtype)


def test_python_dtype_refuses_other_types():
    with pytest.raises(DTypeError, match="needs bool, int, float or complex"):
        dtypes.python_dtype(str)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("x", "narrow", "wide"),
    [
        (True, ("bool", False), ("bool", False)),
        (1, ("int32", True), ("int64", True)),
        (1.0, ("float32", True), ("float64", True)),
        (1j, ("complex64", True), ("complex128", True)),
        (Colour.RED, ("int32", True), ("int64", True)),
        (np.int64(1), ("int32", True), ("int64", False)),
        (np.float64(1), ("float32", True), ("float64", False)),
        (np.complex128(1), ("complex64", True), ("complex128", False)),
        (np.uint64(1), ("uint64", False), ("uint64", False)),
        (np.float32(1), ("float32", False), ("float32", False)),
        (np.bool_(1), ("bool", False), ("bool", False)),
        (np.zeros(1), ("float64", False), ("float64", False)),
        (np.zeros(1, ">f8"), ("float64", False), ("float64", False)),
        (ml_dtypes.bfloat16(1), ("bfloat16", False), ("bfloat16", False)),
        (Weak("float32"), ("float32", True), ("float32", True)),
    ],
)
def test_dtype_and_weak(x, narrow, wide):
    for x64, (name, weak) in ((False, narrow), (True, wide)):
        with config.override(enable_x64=x64):
            assert dtypes.dtype_and_weak(x) == (dtypes.canonical(name), weak)


@pytest.mark.parametrize("x", ["float32", [1.0], None, np.float32, np.array("text")])
def test_dtype_and_weak_refuses_what_is_no_array(x):
    with pytest.raises(DTypeError, match=r"dtype: (needs a number or an array|arrays hold)"):
        dtypes.dtype_and_weak(x)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "uint8"), (-1, "uint32"), (2**31, "int32"), (-129, "int8"), (np.int64(300), "uint8")],
)
def test_integers_out_of_range(value, dtype):
    with pytest.raises(OverflowDTypeError, match=rf"add: .* must fit {dtype}.* got {value}"):
        dtypes.check_scalar_fits(value, dtype, "add")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(255, "uint8"), (-128, "int8"), (2**64 - 1, "uint64"), (1e9, "int8"), (300, "float16")],
)
def test_integers_in_range_and_other_values_pass(value, dtype):
    dtypes.check_scalar_fits(value, dtype)


CATEGORIES = {
    "is_bool": ["bool"],
    "is_integer": [name for name in BUILTIN if "int" in name],
    "is_float": ["float16", "float32", "float64", *EXTENDED],
    "is_complex": ["complex64", "complex128"],
}


@pytest.mark.parametrize("name", BUILTIN + EXTENDED)
def test_categories(name):
    dtype = dtypes.canonical(name)
    for question, members in CATEGORIES.items():
        assert getattr(dtypes, question)(dtype) is (name in members)
    assert dtypes.is_inexact(dtype) is ("float" in name or "complex" in name)
    unsigned = name == "bool" or name.startswith("uint") or name == "float8_e8m0fnu"
    assert dtypes.is_signed(dtype) is not unsigned
    assert dtypes.tangent_dtype(dtype) == (dtype if dtypes.is_inexact(dtype) else dtypes.float0)
    small = dtypes.is_float(dtype) and dtype.itemsize < 4
    assert dtypes.accumulator(dtype) == (np.float32 if small else dtype)
    assert dtypes.issubdtype(dtype, np.floating) is (name in CATEGORIES["is_float"])
    assert dtypes.issubdtype(dtype, np.integer) is (name in CATEGORIES["is_integer"])
    assert dtypes.issubdtype(dtype, np.inexact) is dtypes.is_inexact(dtype)
    assert dtypes.issubdtype(dtype, name)
    assert dtypes.issubdtype(dtype, np.generic)


def test_issubdtype_of_types():
    assert dtypes.issubdtype(np.floating, np.inexact)
    assert not dtypes.issubdtype(np.inexact, np.floating)
    assert dtypes.issubdtype(float, np.floating)
    assert not dtypes.issubdtype("float32", "float64")


def test_parts_of_complex():
    names = [("complex64", "float32"), ("complex128", "float64")]
    for whole, part in names:
        assert dtypes.real_part_dtype(np.dtype(whole)) == part
        assert dtypes.complex_dtype(np.dtype(part)) == whole
        assert dtypes.complex_dtype(np.dtype(whole)) == whole
    assert dtypes.real_part_dtype(np.dtype("int8")) == np.int8
    assert dtypes.complex_dtype(dtypes.canonical("bfloat16")) == np.complex64


def test_limits():
    assert dtypes.finfo("float32").eps == np.finfo(np.float32).eps
    assert dtypes.finfo("complex128").max == np.finfo(np.float64).max
    assert float(dtypes.finfo(dtypes.bfloat16).eps) == 2.0**-7
    assert dtypes.iinfo("uint8").max == 255
    with pytest.raises(DTypeError, match="finfo: needs a floating or complex dtype, got int32"):
        dtypes.finfo("int32")
    with pytest.raises(DTypeError, match="iinfo: needs an integer dtype, got float32"):
        dtypes.iinfo("float32")


def test_can_cast():
    assert dtypes.can_cast("int8", "int16")
    assert not dtypes.can_cast(np.zeros(1, "float64"), "float32")
    assert dtypes.can_cast("float64", "float32", "same_kind")
    assert dtypes.can_cast("bfloat16", "float32")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("int32", "i32"),
        ("uint8", "u8"),
        ("bool", "bool"),
        ("complex64", "c64"),
        ("float8_e4m3fn", "f8_e4m3fn"),
        (dtypes.float0, "float0"),
    ],
)
def test_short_names(name, short):
    assert dtypes.short_name(dtypes.canonical(name)) == short


LATE_ML_DTYPES = """
import sys
import numpy as np
from mgefn import dtypes
dtypes.result_type(np.zeros(1, "float16"), 1.0)
assert "ml_dtypes" not in sys.modules
import ml_dtypes
dtype = np.dtype(ml_dtypes.bfloat16)
assert dtypes.short_name(dtype) == "bf16"
assert dtypes.is_float(dtype)
assert dtypes.bfloat16 is ml_dtypes.bfloat16
"""


def test_ml_dtypes_is_loaded_late():
    subprocess.run([sys.executable, "-c", LATE_ML_DTYPES], check=True)


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (np.int64(2**31 - 1), "int32", True),
        (np.int64(2**31), "int64", False),
        (np.int64(-(2**40)), "int64", False),
        (np.float64(1e38), "float32", True),
        (np.float64(1e300), "float64", False),
        (np.float64(np.inf), "float32", True),
        (np.complex128(1e300j), "complex128", False),
    ],
)
def test_numpy_scalars_beyond_the_default_keep_their_dtype(value, dtype, weak):
    assert dtypes.dtype_and_weak(value) == (np.dtype(dtype), weak)
    assert dtypes.result_type(value, return_weak=True) == (np.dtype(dtype), weak)
