"""Scalar types, facts about dtypes, printing and files of mgefn.numpy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from tests.peers.frame import NARROW, WIDE, Spec
from tests.peers.rows import A, each, f32, f64, i32, r, rows

BOTH = (NARROW, WIDE)


def made(*values: Any) -> Spec:
    return rows([r(v) for v in values], diff=(), modes=BOTH)


def facts(names: str, *dtypes: Any) -> Spec:
    """Attributes of finfo or iinfo, as float64: each library has its own scalars."""

    def call(L: Any, f: Any, dtype: Any) -> Any:
        return tuple(float(getattr(f(dtype), name)) for name in names.split())

    return rows([r(d) for d in dtypes], call=call, modes=BOTH)


def through_a_file(L: Any, f: Any, x: Any) -> Any:
    file = io.BytesIO()
    L.numpy.save(file, np.asarray(x))
    file.seek(0)
    return L.numpy.load(file)


def archived(L: Any, f: Any, x: Any) -> Any:
    file = io.BytesIO()
    f(file, a=np.asarray(x))
    file.seek(0)
    return np.load(file)["a"]


FLOAT8 = "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
NUMPY: dict[str, Spec] = {
    **each("bool bool_", made(True, 0)),
    **each("int8 int16 int32 uint8 uint16 uint32 int_ uint", made(3, True)),
    **each("int64 uint64", rows(r(3), modes=(WIDE,))),
    **each("float16 bfloat16 float32 single float_", made(3, 2.5)),
    **each("float64 double", rows(r(2.5), modes=(WIDE,))),
    **each(FLOAT8, made(1.5, 0.25)),
    **each("float8_e8m0fnu", made(2.0, 0.25)),
    **each("complex64 csingle complex_", made(2.5, 1 + 2j)),
    **each("complex128 cdouble", rows(r(1 + 2j), modes=(WIDE,))),
    **each("dtype", made("float32", np.int8, "bfloat16")),
    **each("finfo", facts("eps max min tiny bits nmant nexp resolution smallest_subnormal", np.float16, np.float32, np.float64, "bfloat16")),
    **each("iinfo", facts("min max bits", np.int8, np.uint8, np.int32, np.uint32, np.int64)),
    **each("array_str", rows([r(A(d)) for d in (i32, f32)], r(A(f32, ())), diff=())),
    **each("array_repr", rows([r(A(d)) for d in (i32, f32)], diff=())),
    **each("save load", rows([r(A(d)) for d in (i32, f32, f64)], call=through_a_file, diff=())),
    **each("savez", rows([r(A(d)) for d in (i32, f32, f64)], call=archived, diff=())),
}  # fmt: skip
