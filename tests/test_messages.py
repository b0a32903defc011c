"""What users read when something goes wrong: one situation each, the text kept in messages.txt.

After a message changed on purpose, rewrite the kept text and read the difference:

    python -m tests.test_messages && git diff tests/messages.txt

Line numbers are written as `:N`, so that moving a test changes nothing.
"""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn, optim

KEPT = Path(__file__).with_name("messages.txt")

SITUATIONS: dict[str, Callable[[], Any]] = {}


def situation(title: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a call that must raise under a title that tells what the user did."""

    def register(call: Callable[[], Any]) -> Callable[[], Any]:
        assert title not in SITUATIONS, title
        SITUATIONS[title] = call
        return call

    return register


x3, x4, x23 = mnp.ones(3), mnp.ones(4), mnp.ones((2, 3))
i3 = mnp.arange(3)
mask = mnp.array([True, False, True])

# -- shapes ---------------------------------------------------------------------------------------

SHAPES = {
    "add arrays of lengths 3 and 4": lambda: x3 + x4,
    "mnp.add likewise": lambda: mnp.add(x3, x4),
    "subtract": lambda: x3 - x4,
    "multiply under jit": lambda: mgefn.jit(lambda x, y: x * y)(x3, x4),
    "divide under grad": lambda: mgefn.grad(lambda x: (x / x4).sum())(x3),
    "compare": lambda: x3 < x4,
    "maximum": lambda: mnp.maximum(x3, x4),
    "power": lambda: x3**x4,
    "arctan2": lambda: mnp.arctan2(x3, x4),
    "x @ y": lambda: x23 @ x23,
    "x @ y of rank 0": lambda: x23 @ mnp.float32(2),
    "x @ y of batches": lambda: mnp.ones((2, 3, 4)) @ mnp.ones((5, 4, 3)),
    "x @ y under vmap": lambda: mgefn.vmap(lambda a, b: a @ b)(x23, mnp.ones((2, 4))),
    "dot": lambda: mnp.dot(x3, x4),
    "tensordot": lambda: mnp.tensordot(x23, x23, axes=1),
    "einsum: sizes of one letter": lambda: mnp.einsum("ij,jk->ik", x23, x23),
    "einsum: letters and rank": lambda: mnp.einsum("ijk->i", x23),
    "einsum: unknown output letter": lambda: mnp.einsum("ij->k", x23),
    "concatenate": lambda: mnp.concatenate([x23, mnp.ones((2, 4))]),
    "concatenate: ranks": lambda: mnp.concatenate([x23, x3]),
    "concatenate nothing": lambda: mnp.concatenate([]),
    "stack": lambda: mnp.stack([x3, x4]),
    "reshape": lambda: x23.reshape(4, 2),
    "reshape with -1": lambda: x23.reshape(4, -1),
    "reshape with two -1": lambda: x23.reshape(-1, -1),
    "broadcast_to": lambda: mnp.broadcast_to(x3, (2, 4)),
    "where": lambda: mnp.where(mask, x3, x4),
    "squeeze": lambda: mnp.squeeze(x23, axis=0),
    "x.at[...].set": lambda: x3.at[:2].set(x4),
    "transpose": lambda: mnp.transpose(x23, (0, 0)),
    "split": lambda: mnp.split(x4, 3),
    "clip": lambda: mnp.clip(x3, x4, 1.0),
}

# -- dtypes, indices and axes ---------------------------------------------------------------------

DTYPES = {
    "an unknown dtype": lambda: mnp.zeros(3, dtype="float31"),
    "a dtype of objects": lambda: mnp.asarray(np.array([None, "a"])),
    "text as an array": lambda: mnp.asarray("text"),
    "bitwise and of floats": lambda: x3 & x3,
    "negative of booleans": lambda: -mask,
    "subtract booleans": lambda: mask - mask,
    "invert floats": lambda: ~x3,
    "shift by a float": lambda: i3 << 1.5,
    "floor of a complex number": lambda: mnp.floor(mnp.array(1j)),
    "lax.dynamic_slice: index dtype": lambda: lax.dynamic_slice(x3, (0.5,), (1,)),
    "negative power of integers": lambda: i3**-1,
    "uint8 + 300": lambda: mnp.zeros(3, dtype="uint8") + 300,
    "an int beyond int32": lambda: mnp.asarray(2**40),
    "add a string": lambda: mnp.add(x3, "a"),
    "add None": lambda: mnp.add(x3, None),
    "x + None": lambda: x3 + None,
    "sin of a list of strings": lambda: mnp.sin(["a"]),
    "cast complex to a float dtype by view": lambda: x3.view("complex128"),
    "out=": lambda: mnp.sum(x3, out=np.zeros(())),
}

INDICES = {
    "a float as shape": lambda: mnp.zeros(3.0),
    "a float in a shape": lambda: mnp.zeros((2, 3.0)),
    "a negative size": lambda: mnp.zeros((2, -3)),
    "a float as index": lambda: x3[1.0],
    "a float array as index": lambda: x3[mnp.array([0.0, 1.0])],
    "a string as index": lambda: x3["a"],
    "an index out of range": lambda: x3[3],
    "a negative index out of range": lambda: x3[-4],
    "too many indices": lambda: x3[0, 1],
    "two ellipses": lambda: x23[..., ...],
    "a list as index": lambda: x3[[0, 1]],
    "a mask of the wrong length": lambda: x4[mask],
    "take without a mode": lambda: mnp.take(x3, "a"),
    "slice step of zero": lambda: x3[::0],
    "sum over an axis out of range": lambda: x23.sum(axis=2),
    "sum over one axis twice": lambda: x23.sum(axis=(0, -2)),
    "sum over a float axis": lambda: x23.sum(axis=1.0),
    "concatenate along an axis out of range": lambda: mnp.concatenate([x3, x3], axis=1),
    "max of nothing": lambda: mnp.zeros(0).max(),
    "argmax of nothing": lambda: mnp.zeros(0).argmax(),
}

PYTHON = {
    "write into an array": lambda: x3.__setitem__(0, 1.0),
    "hash an array": lambda: hash(x3),
    "an array as key of a dict": lambda: {x3: 1},
    "the truth of an array": lambda: bool(x3),
    "the truth of an empty array": lambda: bool(mnp.zeros(0)),
    "len of a scalar": lambda: len(mnp.array(1.0)),
    "iterate over a scalar": lambda: list(mnp.array(1.0)),
    "item of an array": lambda: x3.item(),
    "float of an array": lambda: float(x3),
    "int of an array": lambda: int(x3),
    "range of a float array": lambda: range(mnp.array(2.0)),
    "call the class": lambda: mgefn.Array([1.0]),
    "a ufunc that writes": lambda: np.add.at(x3, 0, 1.0),
    "a ufunc's method without a counterpart": lambda: mgefn.jit(np.hypot.reduce)(x3),
    "a NumPy function without a counterpart": lambda: mgefn.jit(np.emath.sqrt)(x3),
    "a NumPy array indexed by a traced integer": lambda: mgefn.jit(
        lambda x: np.arange(3)[np.argmax(x)]
    )(x3),
    "a NumPy array to add to": lambda: mgefn.jit(lambda x: operator.iadd(np.ones(3), x))(x3),
    "a NumPy array to write to": lambda: np.sum(x3, out=x3),
    "a ufunc with a condition": lambda: np.divide(1.0, x3, where=x3 > 0),
    "float(x) in grad": lambda: mgefn.grad(lambda x: float(x) * x)(1.0),
    "a setting that is unknown": lambda: mgefn.config.update("enable_x46", True),
    "a setting's value": lambda: mgefn.config.update("traceback", "none"),
}

# -- values that are not known --------------------------------------------------------------------


def branch(x):
    return x if x > 0 else -x


def loop(x):
    while x < 10:
        x = x * 2
    return x


TRACED = {
    "if x > 0 under jit": lambda: mgefn.jit(branch)(1.0),
    "if x > 0 under vmap": lambda: mgefn.vmap(branch)(x3),
    "if x > 0 under grad of jit": lambda: mgefn.grad(mgefn.jit(branch))(1.0),
    "while x < 10 under jit": lambda: mgefn.jit(loop)(1.0),
    "int(x)": lambda: mgefn.jit(lambda x: int(x) + 1)(1.0),
    "float(x)": lambda: mgefn.jit(lambda x: float(x) + 1)(1.0),
    "x.item()": lambda: mgefn.jit(lambda x: x.item())(1.0),
    "x.tolist()": lambda: mgefn.jit(lambda x: x.tolist())(x3),
    "range(n)": lambda: mgefn.jit(lambda n: [i for i in range(n)])(3),
    "index a list": lambda: mgefn.jit(lambda i: [1, 2, 3][i])(1),
    "np.array of tracers": lambda: mgefn.jit(lambda x: np.array([x, x]))(1.0),
    "np.asarray of a tracer": lambda: mgefn.jit(np.asarray)(x3),
    "np.asarray under grad": lambda: mgefn.grad(lambda x: float(np.asarray(x)))(1.0),
    "math of a tracer": lambda: mgefn.jit(lambda x: __import__("math").sin(x))(1.0),
    "a mask under jit": lambda: mgefn.jit(lambda x: x[x > 0])(x3),
    "nonzero under jit": lambda: mgefn.jit(mnp.nonzero)(x3),
    "where with one argument under jit": lambda: mgefn.jit(lambda x: mnp.where(x > 0))(x3),
    "a slice of tracers": lambda: mgefn.jit(lambda x, n: x[:n])(x3, 2),
    "reshape to a traced size": lambda: mgefn.jit(lambda x, n: x.reshape(n, 1))(x3, 3),
    "zeros of a traced size": lambda: mgefn.jit(lambda n: mnp.zeros(n))(3),
    "arange to a traced stop": lambda: mgefn.jit(lambda n: mnp.arange(n))(3),
    "a traced axis": lambda: mgefn.jit(lambda x, k: x.sum(axis=k))(x23, 1),
    "a traced number of repeats": lambda: mgefn.jit(lambda x, n: mnp.repeat(x, n))(x3, 2),
    "linspace of a traced number": lambda: mgefn.jit(lambda n: mnp.linspace(0, 1, n))(3),
}


def leak(transformed: Callable[[Callable[..., Any]], Any]) -> Callable[[], Any]:
    """Keep a value made inside a transformation and use it afterwards."""

    def use_it() -> Any:
        kept = []

        def step(x):
            y = x * 2.0
            kept.append(y)
            return y

        transformed(step)
        return kept[0] + 1

    return use_it


LEAKED = {
    "a value kept from jit": leak(lambda f: mgefn.jit(f)(1.0)),
    "a value kept from grad": leak(lambda f: mgefn.grad(f)(1.0)),
    "a value kept from vmap": leak(lambda f: mgefn.vmap(f)(x3)),
    "a value kept from jvp": leak(lambda f: mgefn.jvp(f, (1.0,), (1.0,))),
    "a value kept from make_jaxpr": leak(lambda f: mgefn.make_jaxpr(f)(1.0)),
}


@situation("a value kept from one jit and used in another")
def _leak_into_jit():
    kept = []
    mgefn.jit(lambda x: kept.append(x + 1) or x)(1.0)
    return mgefn.jit(lambda x: x + kept[0])(1.0)


# -- transformations ------------------------------------------------------------------------------


def squares(x):
    return x * x


GRAD = {
    "grad of a vector": lambda: mgefn.grad(squares)(x3),
    "grad of an integer": lambda: mgefn.grad(squares)(3),
    "grad of an array of integers": lambda: mgefn.grad(lambda x: x.sum())(i3),
    "grad of a complex number": lambda: mgefn.grad(squares)(1j),
    "grad of a function with a complex output": lambda: mgefn.grad(lambda x: x * 1j)(1.0),
    "grad of a function with an integer output": lambda: mgefn.grad(mnp.argmax)(x3),
    "grad of a function that returns a pair": lambda: mgefn.grad(lambda x: (x, x))(1.0),
    "grad of a function that returns None": lambda: mgefn.grad(lambda x: None)(1.0),
    "grad of a function that returns a string": lambda: mgefn.grad(lambda x: "loss")(1.0),
    "grad with has_aux and no pair": lambda: mgefn.grad(squares, has_aux=True)(1.0),
    "grad with argnums out of range": lambda: mgefn.grad(squares, argnums=1)(1.0),
    "grad with argnums of a wrong type": lambda: mgefn.grad(squares, argnums="x"),
    "grad of something that is no function": lambda: mgefn.grad(3.0),
    "grad of a string": lambda: mgefn.grad(squares)("a"),
    "grad, holomorphic of a real number": lambda: mgefn.grad(squares, holomorphic=True)(1.0),
    "jacfwd of an integer": lambda: mgefn.jacfwd(squares)(i3),
    "jacrev of a complex function": lambda: mgefn.jacrev(lambda x: x * 1j)(x3),
    "hessian of an integer": lambda: mgefn.hessian(squares)(3),
    "jvp: primals that are no tuple": lambda: mgefn.jvp(squares, x3, x3),
    "jvp: structure of the tangents": lambda: mgefn.jvp(squares, (x3,), (x3, x3)),
    "jvp: shape of a tangent": lambda: mgefn.jvp(squares, (x3,), (x4,)),
    "jvp: dtype of a tangent": lambda: mgefn.jvp(squares, (x3,), (np.ones(3),)),
    "jvp: tangent of an integer": lambda: mgefn.jvp(squares, (i3,), (i3,)),
    "vjp: structure of the cotangent": lambda: mgefn.vjp(squares, x3)[1]((x3, x3)),
    "vjp: shape of the cotangent": lambda: mgefn.vjp(squares, x3)[1](x4),
    "vjp: dtype of the cotangent": lambda: mgefn.vjp(squares, x3)[1](np.ones(3)),
    "linearize: number of tangents": lambda: mgefn.linearize(squares, x3)[1](x3, x3),
    "linear_transpose of sin": lambda: mgefn.linear_transpose(mnp.sin, x3)(x3),
    "linear_transpose of x * x": lambda: mgefn.linear_transpose(squares, x3)(x3),
    "linear_transpose of integers": lambda: mgefn.linear_transpose(lambda x: x, i3)(i3),
}

MAPS = {
    "vmap: one size": lambda: mgefn.vmap(mnp.add)(x3, x4),
    "vmap: an axis out of range": lambda: mgefn.vmap(mnp.sin, in_axes=1)(x3),
    "vmap of a number": lambda: mgefn.vmap(mnp.sin)(1.0),
    "vmap: number of in_axes": lambda: mgefn.vmap(mnp.add, in_axes=(0,))(x3, x3),
    "vmap: in_axes of a wrong type": lambda: mgefn.vmap(mnp.sin, in_axes="a"),
    "vmap: a float in in_axes": lambda: mgefn.vmap(mnp.sin, in_axes=(0.5,))(x3),
    "vmap: structure of in_axes": lambda: mgefn.vmap(lambda d: d["a"], in_axes=({"b": 0},))(
        {"a": x3}
    ),
    "vmap: nothing mapped": lambda: mgefn.vmap(mnp.sin, in_axes=None)(x3),
    "vmap: out_axes out of range": lambda: mgefn.vmap(mnp.sin, out_axes=1)(x3),
    "vmap: out_axes None of a mapped output": lambda: mgefn.vmap(mnp.sin, out_axes=None)(x3),
    "vmap: structure of out_axes": lambda: mgefn.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(x3),
    "vmap: a string returned": lambda: mgefn.vmap(lambda x: "a")(x3),
    "vmap of something that is no function": lambda: mgefn.vmap(x3),
}


def donate_twice():
    update = mgefn.jit(lambda state: state + 1, donate_argnums=0)
    state = mnp.ones(3)
    update(state)
    return state + 1


JIT = {
    "jit of something that is no function": lambda: mgefn.jit(3),
    "a string as argument": lambda: mgefn.jit(lambda x, mode: x)(1.0, "fast"),
    "a string returned": lambda: mgefn.jit(lambda x: "done")(1.0),
    "a list as static argument": lambda: mgefn.jit(lambda x, n: x, static_argnums=1)(1.0, [2]),
    "an array as static argument": lambda: mgefn.jit(lambda x, n: x, static_argnums=1)(1.0, x3),
    "a static argument by unknown number": lambda: mgefn.jit(lambda x: x, static_argnums=-3),
    "static and donated": lambda: mgefn.jit(lambda x: x, static_argnums=0, donate_argnums=0),
    "a donated array used again": donate_twice,
    "an array donated and passed twice": lambda: mgefn.jit(lambda x, y: x + y, donate_argnums=0)(
        x3, x3
    ),
    "a deleted array": lambda: (lambda x: (x.delete(), x + 1))(mnp.ones(3)),
    "a compiled program called with another shape": lambda: (
        mgefn.jit(mnp.sin).lower(x3).compile()(x4)
    ),
    "a compiled program called with another structure": lambda: (
        mgefn.jit(mnp.sin).lower(x3).compile()((x3, x3))
    ),
    "make_jaxpr of a string": lambda: mgefn.make_jaxpr(lambda x: x)("a"),
    "eval_shape of wrong shapes": lambda: mgefn.eval_shape(
        lambda x, y: x @ y, mgefn.ShapeDtypeStruct((2, 3), "float32"), x4
    ),
}


# -- rules of one's own ---------------------------------------------------------------------------


def with_jvp(rule):
    f = mgefn.custom_jvp(lambda x: x * 2)
    if rule is not None:
        f.defjvp(rule)
    return mgefn.jvp(f, (x3,), (x3,))


def with_vjp(fwd, bwd, transform=lambda f: mgefn.vjp(f, x3)[1](x3)):
    f = mgefn.custom_vjp(lambda x: x * 2)
    if fwd is not None:
        f.defvjp(fwd, bwd)
    return transform(f)


def fwd(x):
    return x * 2, x


RULES = {
    "custom_jvp without a rule": lambda: with_jvp(None),
    "custom_jvp: no pair": lambda: with_jvp(lambda p, t: p[0] * 2),
    "custom_jvp: structure": lambda: with_jvp(lambda p, t: (p[0] * 2, (t[0], t[0]))),
    "custom_jvp: output shape": lambda: with_jvp(lambda p, t: (p[0].sum(), t[0])),
    "custom_jvp: tangent shape": lambda: with_jvp(lambda p, t: (p[0] * 2, t[0].sum())),
    "custom_jvp: tangent dtype": lambda: with_jvp(lambda p, t: (p[0] * 2, t[0].astype("float64"))),
    "custom_vjp without a rule": lambda: with_vjp(None, None),
    "custom_vjp: forward rule gives no pair": lambda: with_vjp(lambda x: x * 2, lambda r, g: (g,)),
    "custom_vjp: no tuple": lambda: with_vjp(fwd, lambda r, g: g),
    "custom_vjp: number": lambda: with_vjp(fwd, lambda r, g: (g, g)),
    "custom_vjp: structure": lambda: with_vjp(fwd, lambda r, g: ({"a": g},)),
    "custom_vjp: shape": lambda: with_vjp(fwd, lambda r, g: (g.sum(),)),
    "custom_vjp: dtype": lambda: with_vjp(fwd, lambda r, g: (g.astype("complex64"),)),
    "custom_vjp in forward mode": lambda: with_vjp(
        fwd, lambda r, g: (g,), lambda f: mgefn.jvp(f, (x3,), (x3,))
    ),
    "pure_callback: shape": lambda: mgefn.pure_callback(
        lambda x: np.ones(4, np.float32), mgefn.ShapeDtypeStruct((3,), "float32"), x3
    ),
    "pure_callback: dtype": lambda: mgefn.pure_callback(
        lambda x: np.ones(3), mgefn.ShapeDtypeStruct((3,), "float32"), x3
    ),
    "pure_callback: structure": lambda: mgefn.pure_callback(
        lambda x: (x, x), mgefn.ShapeDtypeStruct((3,), "float32"), x3
    ),
    "grad of pure_callback": lambda: mgefn.grad(
        lambda x: mgefn.pure_callback(np.sin, mgefn.ShapeDtypeStruct((), "float32"), x)
    )(1.0),
    "checkpoint of something that is no function": lambda: mgefn.checkpoint(3),
    "checkpoint with an unknown policy": lambda: mgefn.grad(
        mgefn.checkpoint(squares, policy="everything")
    )(1.0),
}


def one(a):
    return a


def add(a, b):
    return a + b


def unchecked(f, *args):
    """f(*args), of which type checkers know nothing."""
    return f(*args)


CALLS = {
    "fori_loop: body without the carry": lambda: lax.fori_loop(0, 3, one, x3),
    "while_loop: body of two": lambda: lax.while_loop(lambda c: c[0] < 3, add, (1.0, 2.0)),
    "scan: body without x": lambda: lax.scan(one, 0.0, x3),
    "map over pairs": lambda: lax.map(add, (x3, x3)),
    "cond: branches without operands": lambda: lax.cond(True, one, one),
    "associative_scan: function of one": lambda: lax.associative_scan(one, x3),
    "apply_along_axis: function of two": lambda: mnp.apply_along_axis(add, 0, x23),
    "initializer without a key": lambda: unchecked(nn.initializers.normal(0.1), (3, 4)),
    "update without the state": lambda: unchecked(optim.adam(0.1).update, x3),
    "update with too much": lambda: unchecked(optim.adam(0.1).update, x3, (), None, 1),
    "update of polyak without the loss": lambda: optim.scale_by_polyak().update(x3, (), x3),
    "schedule without a step": lambda: unchecked(optim.linear_schedule(0.0, 1.0, 3)),
}

for group in (SHAPES, DTYPES, INDICES, PYTHON, TRACED, LEAKED, GRAD, MAPS, JIT, RULES, CALLS):
    for title, call in group.items():
        situation(title)(call)


def message_of(call: Callable[[], Any]) -> str:
    """Class and text of what a call raises, without line numbers."""
    try:
        got = call()
    except Exception as error:
        text = re.sub(r"(\.py):\d+", r"\1:N", str(error))
        return f"{type(error).__name__}: {text}"
    return f"no error, but {got!r}"


def generated() -> str:
    """The text to keep: a title a block, the message below it."""
    blocks = []
    for title, call in SITUATIONS.items():
        lines = textwrap.wrap(
            message_of(call),
            96,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        blocks.append("\n".join([title, *lines]))
    return "\n\n".join(blocks) + "\n"


def test_messages_are_those_kept():
    assert generated().splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


# Python itself raises these, before the library is asked.
OF_PYTHON = {"x + None", "hash an array", "an array as key of a dict"}


@pytest.mark.parametrize("title", [t for t in SITUATIONS if t not in OF_PYTHON])
def test_errors_are_of_our_classes_and_say_what_to_do(title):
    with pytest.raises(mgefn.errors.MgefnError, match=r"^\S[^:]*: .*\S+ \S+.*[.?]$") as caught:
        SITUATIONS[title]()
    text = str(caught.value)
    # Two sentences: what is wrong, and the repair.
    assert re.search(r"[.?;:] [A-Z]", text), f"no repair: {text}"
    for internal in ("ConcreteArray", "Tracer(", "StagingTracer", "LinearizeTracer", "PyTreeDef"):
        assert internal not in text


if __name__ == "__main__":
    KEPT.write_text(generated(), encoding="utf-8")
