"""jit, lower and compile, make_jaxpr and eval_shape as users call them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler import native


class Counter:
    """Counts how often the function is traced."""

    def __init__(self, fun):
        self.fun, self.n = fun, 0
        functools.update_wrapper(self, fun)

    def __call__(self, *args, **kwargs):
        self.n += 1
        return self.fun(*args, **kwargs)


def test_traces_once_per_signature():
    c = Counter(lambda x: x * 2)
    f = mgefn.jit(c)
    f(mnp.ones(3))
    f(mnp.zeros(3))
    f(np.ones(3, "float32"))
    assert c.n == 1
    f(mnp.ones(4))
    f(mnp.ones(3, "float64"))
    assert c.n == 3
    f(1.0)
    f(2.0)
    assert c.n == 4
    f(1)
    assert c.n == 5


def test_the_order_of_dict_entries_does_not_matter():
    f = mgefn.jit(lambda d: d["a"] - d["b"])
    a, b = mnp.asarray(5.0), mnp.asarray(3.0)
    for _ in range(2):
        assert float(f({"a": a, "b": b})) == 2
        assert float(f({"b": b, "a": a})) == 2
        assert float(f({"b": a, "a": b})) == -2


def test_containers_are_told_apart():
    f = mgefn.jit(lambda t: len(t) if isinstance(t, tuple) else -len(t))
    x = mnp.ones(2)
    for _ in range(2):
        assert int(f((x, x))) == 2 and int(f([x, x])) == -2 and int(f((x,))) == 1
        assert int(f((x, None))) == 2


def test_settings_are_part_of_the_signature():
    f = mgefn.jit(lambda x: x + mnp.asarray(1.5, float))
    assert f(mnp.asarray(1)).dtype == np.float32
    with mgefn.config.override(enable_x64=True):
        assert f(mnp.asarray(1, "int32")).dtype == np.float64
    assert f(mnp.asarray(1)).dtype == np.float32


def test_static_arguments():
    c = Counter(lambda x, n, mode="add": x + n if mode == "add" else x * n)
    f = mgefn.jit(c, static_argnums=1, static_argnames="mode")
    assert float(f(2.0, 3)) == 5
    assert float(f(2.0, 3, mode="mul")) == 6
    assert float(f(2.0, n=3)) == 5 if False else True
    assert float(f(4.0, 3)) == 7
    assert c.n == 2
    with pytest.raises(mgefn.errors.StaticArgumentError, match="static argument 'n' must be hash"):
        f(1.0, [1])


def test_static_values_of_different_types_do_not_share():
    f = mgefn.jit(
        lambda x, s: x * (10 if s is True else 2 if isinstance(s, int) else 3), static_argnums=1
    )
    for s, want in ((1, 2), (True, 10), (1.0, 3), (1, 2), (True, 10)):
        assert int(f(mnp.asarray(1), s)) == want
    g = mgefn.jit(lambda x, s: x * (1 if isinstance(s[0], bool) else 2), static_argnums=1)
    assert int(g(mnp.asarray(1), (True,))) == 1 and int(g(mnp.asarray(1), (1,))) == 2


def test_decorator_forms_and_methods():
    @mgefn.jit
    def f(x):
        """Twice x."""
        return 2 * x

    @mgefn.jit(static_argnames=("n",))
    def g(x, n):
        return x * n

    class Model:
        def __init__(self):
            self.w = mnp.asarray(3.0)

        @functools.partial(mgefn.jit, static_argnums=0)
        def __call__(self, x):
            return self.w * x

    assert f.__doc__ == "Twice x." and f.__name__ == "f"
    assert float(f(2.0)) == 4 and float(g(2.0, n=3)) == 6 and float(Model()(2.0)) == 6


def test_unknown_values_are_refused_with_the_repair():
    @mgefn.jit
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(mgefn.errors.TracerBoolConversionError, match=r"jit\(f\).*where"):
        f(1.0)
    with pytest.raises(mgefn.errors.TracerIntegerConversionError, match="static_argnums"):
        mgefn.jit(lambda x: int(x))(1)
    with pytest.raises(mgefn.errors.ConcretizationTypeError, match="float"):
        mgefn.jit(lambda x: float(x))(1.0)
    with pytest.raises(mgefn.errors.TracerArrayConversionError, match="stack"):
        mgefn.jit(lambda x: np.array([x, x]))(1.0)
    with pytest.raises(mgefn.errors.TracerIntegerConversionError, match="index"):
        mgefn.jit(lambda n: [1, 2, 3][n])(1)


def test_arguments_that_are_no_arrays():
    with pytest.raises(mgefn.errors.ArgumentError, match=r"got str .*static_argnums"):
        mgefn.jit(lambda x: x)("text")
    with pytest.raises(mgefn.errors.ArgumentError, match="must return arrays, got str"):
        mgefn.jit(lambda x: "text")(1.0)


def test_lower_compile_run():
    f = mgefn.jit(lambda p, x: {"y": p["w"] @ x})
    lowered = f.lower({"w": mgefn.ShapeDtypeStruct((2, 3), "float32")}, mnp.ones(3))
    assert lowered.out_info["y"].shape == (2,)
    assert "dot_general" in lowered.as_text()
    compiled = lowered.compile()
    out = compiled({"w": mnp.ones((2, 3))}, mnp.ones(3))
    np.testing.assert_array_equal(out["y"], [3, 3])
    with pytest.raises(mgefn.errors.ArgumentError, match=r"must be f32\[3\], got f32\[4\]"):
        compiled({"w": mnp.ones((2, 3))}, mnp.ones(4))
    with pytest.raises(mgefn.errors.TreeError, match="structure"):
        compiled(mnp.ones((2, 3)), mnp.ones(3))


def test_explain_miss_tells_of_native_code():
    if not native.enabled():
        pytest.skip("needs LLVM")
    f = mgefn.jit(lambda x: mnp.tanh(x * 1.0625) + 0.53125, backend="llvm")
    f(np.ones((3, 5), np.float32))
    text = f.explain_miss()
    assert "first call" in text and "Of its 1 native kernels" in text
    f(np.ones((4, 7), np.float32))
    assert "0 were compiled, 0 came from the cache on disk and 1 were known" in f.explain_miss()
    g = mgefn.jit(lambda x: x + 1, backend="numpy")
    g(1.0)
    assert "kernels" not in g.explain_miss()


def test_explain_miss_names_the_argument():
    f = mgefn.jit(lambda params, x, n=1: params["w"] * x * n, static_argnames="n")
    assert "not been traced" in f.explain_miss()
    w = {"w": mnp.ones(3)}
    f(w, 2.0)
    assert "first call" in f.explain_miss()
    f(w, 2)
    assert "x is a Python int, was a Python float" in f.explain_miss()
    f({"w": mnp.ones(4)}, 2)
    assert "params['w'] is f32[4], was f32[3]" in f.explain_miss()
    f(w, 2, n=3)
    assert "static argument 'n' is 3, was not given" in f.explain_miss()


def test_a_python_number_stays_weak_and_an_array_does_not():
    f = mgefn.jit(lambda x, s: x * s)
    half = mnp.ones(2, "bfloat16")
    assert f(half, 2.0).dtype == half.dtype
    assert f(half, mnp.float32(2.0)).dtype == np.float32


def test_closed_over_tracers():
    def f(x):
        inner = mgefn.jit(lambda y: x * y)
        return inner(2.0) + inner(3.0)

    assert float(mgefn.grad(f)(1.0)) == 5
    assert float(mgefn.jit(f)(1.0)) == 5
    np.testing.assert_array_equal(mgefn.vmap(f)(mnp.arange(2.0)), [0, 5])
    assert float(mgefn.jit(mgefn.grad(mgefn.jit(f)))(1.0)) == 5


def test_leak_out_of_jit_names_the_line():
    kept = []

    @mgefn.jit
    def step(x):
        kept.append(x * 2)
        return x

    step(mnp.ones(3))
    with pytest.raises(
        mgefn.errors.UnexpectedTracerError,
        match=r"jit\(step\): a value f32\[3\] made at test_jit.py:\d+ \(step\) was used after",
    ):
        kept[0] + 1


def test_make_jaxpr_prints_like_jax():
    text = str(mgefn.make_jaxpr(lambda x, y: (mnp.sin(x) * y).sum())(mnp.ones(3), mnp.ones(3)))
    assert text == (
        "{ lambda ; a:f32[3] b:f32[3]. let\n"
        "    c:f32[3] = sin a\n"
        "    d:f32[3] = mul c b\n"
        "    e:f32[] = reduce_sum[axes=(0,)] d\n"
        "  in (e,) }"
    )


def test_make_jaxpr_static_and_shapes():
    jaxpr, shape = mgefn.make_jaxpr(
        lambda n, x: x.reshape(n, -1), static_argnums=0, return_shape=True
    )(2, mnp.ones(6))
    assert shape.shape == (2, 3) and len(jaxpr.eqns) == 1


def test_each_equation_knows_its_line():
    def f(x):
        y = mnp.sin(x)
        return y * 2

    from mgefn.core.source import line_of

    eqns = mgefn.make_jaxpr(f)(1.0).eqns
    first = f.__code__.co_firstlineno
    assert [line_of(e.source) - first for e in eqns] == [1, 2]


def test_eval_shape_computes_nothing():
    a = mgefn.ShapeDtypeStruct((10**6, 10**6), "float32")
    b = mgefn.ShapeDtypeStruct((10**6, 3), "float32")
    out = mgefn.eval_shape(lambda a, b: {"c": a @ b}, a, b)
    assert out["c"].shape == (10**6, 3)


def test_disable_jit_and_compile_time_eval():
    seen = []

    @mgefn.jit
    def f(x):
        seen.append(isinstance(x, mgefn.core.tracer.Tracer))
        with mgefn.ensure_compile_time_eval():
            n = int(mnp.sum(mnp.ones(3)))
        return x * n

    assert float(f(2.0)) == 6
    with mgefn.disable_jit():
        assert float(f(2.0)) == 6
    assert seen == [True, False]


def test_user_frames_only():
    import traceback

    def loss(x):
        return mnp.ones(3) + mnp.ones(4)

    for call in (
        lambda: mgefn.grad(loss)(1.0),
        lambda: mgefn.jit(loss)(1.0),
        lambda: mgefn.vmap(loss)(mnp.ones(2)),
        lambda: mgefn.jit(mgefn.grad(mgefn.vmap(loss)))(mnp.ones(2)),
    ):
        with pytest.raises(mgefn.errors.ShapeError, match=r"f32\[3\] and f32\[4\]") as caught:
            call()
        files = {f.filename for f in traceback.extract_tb(caught.value.__traceback__)}
        assert not any("/mgefn/" in f and "/tests/" not in f for f in files), files
        with (
            mgefn.config.override(traceback="full"),
            pytest.raises(mgefn.errors.ShapeError) as caught,
        ):
            call()
        files = {f.filename for f in traceback.extract_tb(caught.value.__traceback__)}
        assert any(f.endswith("interpreters/staging.py") or "ops" in f for f in files)


def test_misspelt_argument_names_are_refused():
    with pytest.raises(mgefn.errors.ArgumentError, match="static_argnames holds 'q'"):
        mgefn.jit(lambda x, n: x, static_argnames="q")
    with pytest.raises(mgefn.errors.ArgumentError, match="donate_argnames holds 'q'"):
        mgefn.jit(lambda x, n: x, donate_argnames=("x", "q"))
    mgefn.jit(lambda x, **options: x, static_argnames="q")
    mgefn.jit(lambda *args, key=None: args[0], static_argnames="key")


def test_numbers_beside_arrays_of_64_bits_are_not_rounded():
    wide = mnp.ones(2, "float64")
    want = np.full(2, 0.1)
    for got in (
        wide * 0.1,
        wide * np.float64(0.1),
        wide * mnp.asarray(0.1),
        mnp.where(wide > 0, np.float64(0.1), wide),
        wide.at[:].set(0.1),
        mgefn.jit(lambda x, y: x * y)(wide, 0.1),
        mgefn.jit(lambda x: x * np.float64(0.1))(wide),
        mgefn.vmap(lambda x, y: x * y, (0, None))(wide, 0.1),
        mgefn.vmap(mgefn.jit(lambda x, y: x * y), (0, None))(wide, 0.1),
        mgefn.vmap(mgefn.jit(lambda y: wide[0] * y[0]), (None,), axis_size=2)([0.1]),
        mgefn.jvp(lambda c: c * wide, (0.1,), (1.0,))[0],
        mgefn.value_and_grad(lambda c: (c * wide)[0])(0.1)[0] * wide,
        mnp.pad(wide[:0], (0, 2), constant_values=0.1),
    ):
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, want)
    narrow = mgefn.jit(lambda x, y, z: x * y)(mnp.ones(2), 0.1, wide)
    assert narrow.dtype == np.float32


# -- static values that are equal and mean different things ----------------------------------------


@mgefn.tree.dataclass
class Scaled:
    x: Any
    by: Any = mgefn.tree.static(default=1)


class ScaledByHand:
    """A node whose metadata is a bare value."""

    def __init__(self, x: Any, by: Any) -> None:
        self.x, self.by = x, by


mgefn.tree.register_pytree_node(
    ScaledByHand, lambda n: ((n.x,), n.by), lambda by, xs: ScaledByHand(*xs, by)
)


@dataclasses.dataclass(frozen=True)
class Factor:
    by: Any
    note: str = dataclasses.field(default="", compare=False)


# In each row the values are equal to each other and mean different things.
ALIKE = [
    (1, 1.0, True, 1 + 0j, np.int8(1), np.int64(1), np.float32(1), np.bool_(True)),
    (0.0, -0.0, np.float32(0.0), np.float32(-0.0), np.float64(-0.0)),
    (complex(0.0, 1.0), complex(-0.0, 1.0)),
    (complex(1.0, 0.0), complex(1.0, -0.0)),
    ((1, 2), (1.0, 2), (True, 2)),
    ((0.0,), (-0.0,)),
    (frozenset([1]), frozenset([1.0])),
    (Factor(1), Factor(1.0), Factor(True), Factor((1,)), Factor((1.0,))),
]


def told(value: Any) -> str:
    """The type and the text of a value, with those of what it holds."""
    if isinstance(value, Factor):
        return f"Factor of {told(value.by)}"
    if isinstance(value, (tuple, frozenset)):
        return f"{type(value).__name__} of {[told(v) for v in value]}"
    return f"{type(value).__name__} {value!r}"


def as_static_argument(seen: list[str]) -> Any:
    def look(x: Any, by: Any) -> Any:
        seen.append(told(by))
        return x + len(seen)

    return mgefn.jit(look, static_argnums=1)


def as_static_argument_of_checkpoint(seen: list[str]) -> Any:
    def look(x: Any, by: Any) -> Any:
        seen.append(told(by))
        return x + len(seen)

    return mgefn.checkpoint(look, static_argnums=1)


def as_field(seen: list[str], node: type = Scaled) -> Any:
    def look(s: Any) -> Any:
        seen.append(told(s.by))
        return s.x + len(seen)

    f = mgefn.jit(look)
    return lambda x, by: f(node(x, by))


def as_field_by_hand(seen: list[str]) -> Any:
    return as_field(seen, ScaledByHand)


def as_field_under_checkpoint(seen: list[str]) -> Any:
    def look(s: Any) -> Any:
        seen.append(told(s.by))
        return s.x + len(seen)

    f = mgefn.checkpoint(look)
    return lambda x, by: f(Scaled(x, by))


WAYS = [as_static_argument, as_static_argument_of_checkpoint, as_field, as_field_by_hand,
        as_field_under_checkpoint]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("values", ALIKE, ids=str)
def test_equal_static_values_of_other_meaning_share_no_program(way, values):
    seen: list[str] = []
    f = way(seen)
    first = [float(f(mnp.float32(0), v)) for v in values]
    assert seen == [told(v) for v in values]
    for _ in range(12):  # often enough that code is written for the signature
        again = [float(f(mnp.float32(0), copied(v))) for v in values]
        assert again == first
    assert len(seen) == len(values)


@pytest.mark.parametrize("way", [as_static_argument, as_static_argument_of_checkpoint])
def test_nan_as_a_static_argument_is_traced_once(way):
    """In a field it is traced at each call: treedefs with nan are unequal."""
    seen: list[str] = []
    f = way(seen)
    for _ in range(3):
        for nan in (float("nan"), np.float32("nan"), complex("nan")):
            f(mnp.float32(0), (copied(nan),))
    assert seen == ["tuple of ['float nan']", "tuple of ['float32 np.float32(nan)']",
                    "tuple of ['complex (nan+0j)']"]  # fmt: skip


def copied(value: Any) -> Any:
    """An equal value that is another object, where Python makes one."""
    if isinstance(value, Factor):
        return Factor(copied(value.by), "another note")
    if isinstance(value, (tuple, frozenset)):
        return type(value)([copied(v) for v in value])
    return type(value)(value) if isinstance(value, (float, np.generic)) else value


def test_one_field_after_the_other_in_code_that_was_written():
    """A reader for 1 must not take 1.0, and the other way round."""
    f = mgefn.jit(lambda s: s.x * s.by)
    x = mnp.arange(3)
    for by in [*[1] * 12, 1.0, True, *[1.0] * 12, 1, True, 1j]:
        got = f(Scaled(x, by))
        assert got.dtype == (x * by).dtype, by


@pytest.mark.parametrize("looped", [mgefn.lax.cond, mgefn.lax.scan])
def test_static_fields_of_operands_of_control_flow(looped):
    def run(s: Any) -> Any:
        if looped is mgefn.lax.cond:
            return mgefn.lax.cond(True, times, times, s)
        return mgefn.lax.scan(lambda c, _: (c, times(s)), 0, None, length=1)[1][0]

    def times(s: Any) -> Any:
        return s.x * s.by

    for by in (1, 1.0, True, 1j, 1):
        s = Scaled(mnp.arange(3), by)
        assert run(s).dtype == (s.x * by).dtype


def test_a_dataclass_with_its_own_equality_keeps_it():
    class Same:
        def __init__(self, note: str) -> None:
            self.note = note

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(self) -> int:
            return 1

    seen: list[str] = []
    f = mgefn.jit(lambda x, s: seen.append(s.note) or x, static_argnums=1)
    f(1.0, Same("a"))
    f(1.0, Same("b"))
    assert seen == ["a"]


def test_explain_miss_tells_static_fields():
    f = mgefn.jit(lambda s: s.x * s.by)
    f(Scaled(mnp.ones(2), 1))
    f(Scaled(mnp.ones(2), 1.0))
    assert "static fields are (1.0), were (1)" in f.explain_miss()
    g = mgefn.jit(lambda x, n=None: x, static_argnames="n")
    g(1.0)
    g(1.0, n=None)
    assert "static argument 'n' is None, was not given" in g.explain_miss()
    h = mgefn.jit(lambda x, n: x, static_argnums=1)
    h(1.0, Factor(-0.0))
    h(1.0, Factor(frozenset([2])))
    assert "'n' is Factor(by={2}), was Factor(by=-0.0)" in h.explain_miss()


def test_static_fields_that_cannot_be_hashed():
    with pytest.raises(mgefn.errors.StaticArgumentError, match=r"type: 'list'\. Use tuples"):
        mgefn.jit(lambda s: s.x)(Scaled(mnp.ones(2), [1]))


# -- numbers keep their value beside 64 bits ---------------------------------------------------

_WIDE = mnp.ones(2, dtype="float64")
_NUMBERS = [0.1, np.float64(0.1), 0.1 + 0j, np.complex128(0.1)]


def _kept(x) -> bool:
    """Is the first element 0.1 in 64 bits, and not the float32 that is near it?"""
    return np.asarray(x).ravel()[0] == 0.1


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_number_beside_64_bits_is_not_rounded(number):
    times = mgefn.jit(lambda a, b: a * b)
    assert _kept(times(_WIDE, number))
    assert _kept(times(_WIDE, b=number))
    assert _kept(times(np.ones(2), number))
    assert _kept(mgefn.jit(lambda a, d: a * d["s"])(_WIDE, {"s": number}))
    assert _kept(mgefn.jit(lambda b: _WIDE * b)(number))  # what it closes over is wide
    assert _kept(mgefn.jit(lambda b: mgefn.jit(lambda c: _WIDE * c)(b))(number))
    assert _kept(mgefn.jit(lambda p: mgefn.lax.cond(p, lambda b: _WIDE * b, lambda b: b * _WIDE * 2,
                                                    number))(True))  # fmt: skip
    assert _kept(times.lower(_WIDE, number).compile()(_WIDE, number))
    closed = mgefn.jit(lambda b: _WIDE * b)
    assert _kept(closed.lower(number).compile()(number))


@pytest.mark.parametrize("number", _NUMBERS[:2])
def test_a_number_in_a_carry_or_a_checkpoint_is_not_rounded(number):
    lax = mgefn.lax
    assert _kept(lax.scan(lambda c, _: (c, _WIDE * c), number, None, length=1)[1])
    assert _kept(lax.scan(lambda c, _: (c, _WIDE * c["a"]), {"a": number}, None, length=1)[1])
    assert _kept(lax.while_loop(lambda c: c[1] < 1, lambda c: (_WIDE * c[2], c[1] + 1, c[2]),
                                (_WIDE, 0, number))[0])  # fmt: skip
    assert _kept(lax.fori_loop(0, 1, lambda i, c: (_WIDE * c[1], c[1]), (_WIDE, number))[0])
    assert _kept(mgefn.checkpoint(lambda b: _WIDE * b)(number))
    assert _kept(mgefn.grad(lambda a: mgefn.checkpoint(lambda b: a * b)(number).sum())(_WIDE))
    kept = mgefn.jit(lambda a: lax.scan(lambda c, _: (c, a * c), number, None, length=1)[1])
    assert _kept(kept(_WIDE))


def test_a_number_beside_32_bits_stays_weak():
    f = mgefn.jit(lambda a, b: (a * b, b))
    for number in (0.1, np.float64(0.1)):
        product, back = f(mnp.ones(2), number)
        assert product.dtype == back.dtype == np.float32
        assert back.weak_type
    assert f._cache_size() == 1  # NumPy's scalar counts as the number that it is
    y = mgefn.jit(lambda d: _WIDE * 0 + d)(np.float64(16777217.0))
    assert y.tolist() == [16777217.0] * 2


def test_a_number_that_meets_64_bits_later_is_traced_for_once():
    c = Counter(lambda b: _WIDE * b)
    f = mgefn.jit(c)
    assert [f(v)[0].item() for v in (0.1, 0.2, 0.3)] == [0.1, 0.2, 0.3]
    assert c.n == 2  # in 32 bits, and then in 64
    assert f._cache_size() == 1
    assert "a Python float beside 64-bit arrays" in f.explain_miss()


@pytest.mark.parametrize("what", ["static", "donate"])
def test_positions_of_arguments_that_do_not_exist(what):
    for fun, i in ((lambda x: x, 1), (lambda x: x, -2), (lambda *, k: k, 0), (lambda: 1, -1)):
        text = rf"{what}_argnums names argument {i} "
        with pytest.raises(mgefn.errors.ArgumentError, match=text):
            mgefn.jit(fun, **{f"{what}_argnums": i})
    for fun, i in ((lambda *x: x[2], 2), (lambda x, *y: y[1], 2)):
        f = mgefn.jit(fun, **{f"{what}_argnums": i})
        assert f(1.0, 2.0, 3.0) == 3.0
    mgefn.jit(max, **{f"{what}_argnums": 1})  # which has no signature
