"""NumPy's functions called with arrays and tracers of this package.

PROGRAMS are written twice by one text: once with `np`, as other people wrote them, once with `mnp`.
Values, derivatives, batches and compiled results must be the same.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.numpy import dispatch

A = (np.arange(12, dtype=np.float32).reshape(3, 4) * 1.7) % 3 - 1
W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
X = mnp.array([[0.3, -1.2, 2.0], [0.7, -0.1, 1.5]])


# -- programs in plain NumPy ----------------------------------------------------------------------


def mlp_loss(np: Any, w: Any) -> Any:
    hidden = np.tanh(np.dot(A, w) + np.arange(3, dtype="float32"))
    logits = np.matmul(hidden, np.transpose(w))
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    return -np.mean(shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True)))


def softmax(np: Any, w: Any) -> Any:
    e = np.exp(w - np.amax(w, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def kmeans_step(np: Any, w: Any) -> Any:
    distances = np.linalg.norm(A[:, None, :] - w.T[None, :, :], axis=-1)
    near = np.argmin(distances, axis=1)
    members = (near[:, None] == np.arange(3)).astype("float32")
    sizes = np.maximum(np.sum(members, axis=0), 1)
    return np.einsum("nk,nd->kd", members, A) / sizes[:, None] + 0.1 * w.T


def gaussian_log_likelihood(np: Any, w: Any) -> Any:
    covariance = np.dot(w.T, w) + np.eye(3, dtype="float32")
    _, log_det = np.linalg.slogdet(covariance)
    residuals = A[:, :3] - np.mean(w, axis=0)
    solved = np.linalg.solve(covariance, residuals.T)
    return -0.5 * (np.sum(residuals.T * solved) + 3 * (log_det + 3 * np.log(2 * np.pi)))


def rosenbrock(np: Any, w: Any) -> Any:
    x = np.ravel(w)
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def ridge(np: Any, w: Any) -> Any:
    gram = A.T @ A + np.diag(np.exp(w[:, 0]))
    return np.linalg.solve(gram, A.T @ np.ones(3, dtype="float32"))


def power_spectrum(np: Any, w: Any) -> Any:
    return np.abs(np.fft.rfft(np.concatenate([w, w[::-1]], axis=0), axis=0)) ** 2


def huber(np: Any, w: Any) -> Any:
    r = np.abs(w)
    return np.where(r < 0.5, 0.5 * np.square(r), 0.5 * (r - 0.25))


def running(np: Any, w: Any) -> Any:
    parts = [np.cumsum(w, axis=0), np.diff(w, axis=0, prepend=0), np.clip(w, -0.3, 0.6)]
    return np.stack(parts).std(axis=0) + np.median(w) + np.trapezoid(w, axis=0)


def assembled(np: Any, w: Any) -> Any:
    top = np.hstack([w, np.zeros_like(w)])
    both = np.vstack([top, np.flip(top, 0)])
    return np.tensordot(np.pad(both, 1), np.ones((10, 2), dtype="float32"), axes=([0], [0]))[:4]


def sorted_gaps(np: Any, w: Any) -> Any:
    ranks = np.sort(np.reshape(w, -1))
    return np.outer(np.diff(ranks), np.take(ranks, [0, 3])) + np.interp(0.1, ranks, ranks)


PROGRAMS = [
    mlp_loss,
    softmax,
    kmeans_step,
    gaussian_log_likelihood,
    rosenbrock,
    ridge,
    power_spectrum,
    huber,
    running,
    assembled,
    sorted_gaps,
]


def loss_of(program: Callable[..., Any], module: ModuleType) -> Callable[[Any], Any]:
    return lambda w: module.sum(module.sin(program(module, w)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_plain_numpy_transforms(program: Callable[..., Any]) -> None:
    plain, ours = (loss_of(program, m) for m in (np, mnp))
    w = mnp.asarray(W)
    np.testing.assert_allclose(plain(w), plain(W), rtol=2e-4)  # the right side is NumPy alone
    assert isinstance(plain(w), mgefn.Array)
    batch = mnp.stack([w, 0.5 * w + 0.01])
    for transform, x in [
        (mgefn.grad, w),
        (mgefn.jit, w),
        (lambda f: mgefn.vmap(f), batch),
        (lambda f: mgefn.jit(mgefn.vmap(mgefn.grad(f))), batch),
    ]:
        # Two orders of the same sums may differ in the last digits, nothing else may.
        np.testing.assert_allclose(transform(plain)(x), transform(ours)(x), rtol=1e-6, atol=1e-6)


def test_optimizing_with_plain_numpy_alone() -> None:
    def loss(w: Any) -> Any:
        return np.mean((np.dot(A, w) - A[:, :1]) ** 2)

    w = np.zeros((4, 1), np.float32)
    step = mgefn.jit(mgefn.grad(loss))
    for _ in range(200):
        w -= 0.1 * step(w)  # a NumPy array takes what is known
    assert type(w) is np.ndarray and float(loss(w)) < 1e-4


# -- NEP 13 ---------------------------------------------------------------------------------------

NAMED = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}


@pytest.mark.parametrize("name", sorted(NAMED.keys() - {"isnat"}))
def test_every_ufunc(name: str) -> None:
    ufunc = NAMED[name]
    x = np.array([[0.1, 0.2], [0.3, 0.1]], np.float32)
    if name == "arccosh":
        x += 1
    try:
        want = ufunc(*[x] * ufunc.nin)
    except TypeError:
        x = np.array([[1, 2], [3, 1]], np.int32)  # this one is for integers
        want = ufunc(*[x] * ufunc.nin)
    got = ufunc(*[mnp.asarray(x)] * ufunc.nin)
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for w, g in pairs:
        assert isinstance(g, mgefn.Array)
        np.testing.assert_allclose(g, np.asarray(w, np.float64), rtol=1e-5)


@pytest.mark.parametrize("ufunc", [*dispatch._REDUCTIONS, np.hypot], ids=lambda u: u.__name__)
@pytest.mark.parametrize("axis", [0, -1, None, (0, 1)])
def test_reduce(ufunc: Any, axis: Any) -> None:
    x = np.array([[1, 2, 4], [3, 0, 1]])
    x = x if "bitwise" in ufunc.__name__ else x.astype(np.float32)
    if ufunc is np.hypot and not isinstance(axis, int):
        axis = 0  # NumPy reduces one axis only where the order matters
    want = ufunc.reduce(x, axis)
    got = ufunc.reduce(mnp.asarray(x), axis)
    assert isinstance(got, mgefn.Array)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    if ufunc is not np.hypot:
        kept = mgefn.jit(lambda v: ufunc.reduce(v, axis=axis, keepdims=True))(x)
        assert kept.shape == ufunc.reduce(x, axis=axis, keepdims=True).shape


def test_reduce_takes_what_numpy_takes() -> None:
    assert np.add.reduce(X, axis=None, initial=2.0, where=X > 0) == pytest.approx(6.5)
    assert np.add.reduce(X, dtype="float64").dtype == np.float64
    out = np.zeros(3, np.float32)
    assert np.add.reduce(X, out=out) is out and out[0] == np.float32(1.0)
    assert np.add.reduce(X).shape == (3,)  # the default axis of the method is 0


@pytest.mark.parametrize("ufunc", [*dispatch._ACCUMULATIONS, np.subtract], ids=lambda u: u.__name__)
def test_accumulate(ufunc: Any) -> None:
    x = np.asarray(X)
    for axis in (0, 1, -1):
        got = ufunc.accumulate(X, axis)
        np.testing.assert_allclose(got, ufunc.accumulate(x, axis), rtol=1e-6)
    g = mgefn.grad(lambda v: np.sum(np.maximum.accumulate(v, axis=1)))(X)
    np.testing.assert_allclose(g, [[2, 0, 1], [2, 0, 1]])


def test_outer_reduceat_and_many_results() -> None:
    x = np.asarray(X)
    np.testing.assert_allclose(np.subtract.outer(X, [1.0, 2.0]), np.subtract.outer(x, [1.0, 2.0]))
    assert mgefn.jit(lambda v: np.multiply.outer(v, v[0]))(X).shape == (2, 3, 3)
    np.testing.assert_allclose(np.add.reduceat(X[0], [0, 2]), np.add.reduceat(x[0], [0, 2]))
    quotient, rest = np.divmod(X, 0.5)
    np.testing.assert_allclose(quotient * 0.5 + rest, x, rtol=1e-6)
    fraction, whole = mgefn.jit(np.modf)(X)
    np.testing.assert_allclose(fraction + whole, x, rtol=1e-6)


def test_every_ufunc_has_its_methods() -> None:
    x, y = np.array([12, 18, 30]), np.array([8, 27])
    for name in ("gcd", "lcm"):
        ours, theirs = getattr(mnp, name), getattr(np, name)
        assert ours.reduce(x) == theirs.reduce(x)
        assert (
            ours.reduce(mnp.array([x, x]), axis=1, initial=5).tolist()
            == [theirs.reduce(x, initial=5)] * 2
        )
        np.testing.assert_array_equal(ours.accumulate(x), theirs.accumulate(x))
        np.testing.assert_array_equal(ours.outer(x, y), theirs.outer(x, y))
        np.testing.assert_array_equal(mgefn.jit(ours.outer)(x, y), theirs.outer(x, y))
        np.testing.assert_array_equal(ours.reduceat(x, [0, 1]), theirs.reduceat(x, [0, 1]))
        target = x.copy()
        ours.at(target, [0, 0], [8, 6])
        want = x.copy()
        theirs.at(want, [0, 0], [8, 6])
        np.testing.assert_array_equal(target, want)
        with pytest.raises(mgefn.errors.ArgumentError, match=rf"{name}\.at: .* immutable"):
            ours.at(mnp.asarray(x), [0], 8)
    np.testing.assert_array_equal(mnp.ldexp.outer(X[0], y), np.ldexp.outer(np.asarray(X[0]), y))
    with pytest.raises(TypeError, match="ldexp"):  # NumPy's words: it has no loop for that
        mnp.ldexp.reduce(X[0])
    for name in mnp.__all__:
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc):
            for how in ("at",) if ufunc.nin == 1 else dispatch._METHODS_OF_UFUNCS:
                assert callable(getattr(getattr(mnp, name), how)), f"{name}.{how}"


def test_numpy_arrays_may_be_written() -> None:
    target = np.ones((2, 3), np.float32)
    before = target
    target += X
    target -= X
    target *= 2
    assert target is before
    np.testing.assert_allclose(target, 2.0, rtol=1e-6)
    np.add.at(target, (mnp.array([0, 0]), 1), mnp.array([1.0, 2.0]))
    assert target[0, 1] == 5.0
    np.divide(1.0, X, out=target, where=X > 0)
    np.testing.assert_allclose(target[0], [1 / 0.3, 5.0, 0.5], rtol=1e-6)
    np.copyto(target, X)
    np.testing.assert_array_equal(target, X)
    np.put(target, [0], mnp.array([7.0]))
    target[1] = X[0]
    assert target[0, 0] == 7.0 and target[1, 2] == 2.0
    assert np.sum(X, axis=0, out=np.zeros(3, np.float32)).dtype == np.float32
    with pytest.raises(TypeError, match="same_kind"):
        np.add(np.ones(3, int), X[0], out=np.zeros(3, int))


def test_dtype_of_a_ufunc() -> None:
    assert np.sin(X, dtype=np.float64).dtype == np.float64
    assert mgefn.jit(lambda v: np.add(v, 1, dtype=np.float64))(X).dtype == np.float64
    g = mgefn.grad(lambda v: np.sum(np.multiply(v, v, dtype=np.float64)))(X)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, 2 * np.asarray(X))
    for bad in (lambda v: np.add(v, 1, dtype=np.int32), lambda v: np.less(v, 1, dtype=np.float64)):
        with pytest.raises(errors.DTypeError, match="dtype="):
            mgefn.jit(bad)(X)


def test_what_is_weak_stays_weak() -> None:
    weak = mnp.asarray(2.0)
    assert weak.weak_type and np.multiply(weak, X).dtype == np.float32
    assert (np.float64(2.0) * X).dtype == np.float32
    assert (np.ones(3, np.float16) * weak).dtype == np.float16
    assert (np.ones(3) * X).dtype == np.float64
    target = np.ones(3, np.float16)
    target *= weak
    assert target.dtype == np.float16


def test_special_functions() -> None:
    special = pytest.importorskip("scipy.special")
    x = mnp.array([0.2, 0.9, 1.7])
    for name in ("erf", "gammaln", "psi", "expit", "log1p"):
        f = getattr(special, name)
        np.testing.assert_allclose(f(x), f(np.asarray(x)), rtol=2e-5)
        slope = mgefn.jit(mgefn.grad(lambda v, f=f: np.sum(f(v))))(x)
        h = 1e-4
        x64 = np.asarray(x, np.float64)
        np.testing.assert_allclose(slope, (f(x64 + h) - f(x64 - h)) / (2 * h), rtol=1e-3)
    assert isinstance(special.j0(x), mgefn.Array)
    with pytest.raises(errors.TracerArrayConversionError, match=r"scipy\.special\.ellipk"):
        mgefn.grad(lambda v: np.sum(special.ellipk(v)))(x)


# -- NEP 18 ---------------------------------------------------------------------------------------


def test_arguments_in_numpys_words() -> None:
    x = np.asarray(X)
    for call in (
        lambda v: np.clip(v, a_min=0.0, a_max=1.0),
        lambda v: np.clip(a=v, a_min=None, a_max=1.0),
        lambda v: np.zeros_like(v, None, "K", True, (2, 2)),
        lambda v: np.full_like(v, 3.0, subok=False),
        lambda v: np.sort(v, kind="mergesort"),
        lambda v: np.partition(v, 1, -1, "introselect"),
        lambda v: np.concatenate([v, v], casting="same_kind"),
        lambda v: np.sum(v, initial=np._NoValue, out=None),
        lambda v: np.argsort(v, axis=None),
        lambda v: np.array(v, like=v),
        lambda v: np.stack((v[0], v[1]), 1),
        lambda v: np.fft.fft(v, None, 0, None),
        lambda v: np.linalg.norm(v, "fro", (0, 1)),
        lambda v: np.copy(v, order="F"),
        lambda v: np.einsum("ij,kj->ik", v, v, optimize=True),
    ):
        got = call(X)
        assert isinstance(got, mgefn.Array)
        np.testing.assert_allclose(got, call(x), rtol=1e-5)
        np.testing.assert_allclose(mgefn.jit(call)(X), call(x), rtol=1e-5)
    assert isinstance(np.eye(2, like=X), mgefn.Array)
    traced = mgefn.jit(lambda v: np.array([v[0, 0], 1.0, v[1, 1]], like=v))(X)
    np.testing.assert_allclose(traced, [0.3, 1.0, -0.1])


def test_numpy_fills_in_where_all_is_known() -> None:
    got = np.emath.sqrt(X[0])
    assert isinstance(got, mgefn.Array) and got.dtype == np.complex64
    np.testing.assert_allclose(got, np.emath.sqrt(np.asarray(X[0])))
    windows = np.lib.stride_tricks.sliding_window_view(X, 2, axis=1)
    assert isinstance(windows, mgefn.Array) and windows.shape == (2, 2, 2)
    assert np.may_share_memory(X, X) is True
    labels = np.concatenate([X[0], np.array(["a"])])
    assert isinstance(labels, np.ndarray) and labels.dtype.kind == "U"
    total = np.einsum("ij->", X, dtype=np.float64)
    assert isinstance(total, mgefn.Array) and total.dtype == np.float64
    x = X[0]
    constant = mgefn.jit(lambda v: v * np.emath.sqrt(x))(1.0)
    np.testing.assert_allclose(constant, got, rtol=1e-6)
    # Results are ours: the caller's array may change afterwards.
    mine = np.arange(4.0)
    view = np.lib.stride_tricks.sliding_window_view(mine, mnp.array(2))
    mine[:] = 0
    assert isinstance(view, np.ndarray) or view[0, 1] == 1.0


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "emath": (np.emath.sqrt, r"numpy\.lib\.scimath\.sqrt: .*no counterpart.*pure_c"),
    "out": (lambda v: np.sum(v, out=np.zeros(())), r"numpy\.sum: .*Use the returned array"),
    "einsum's dtype": (lambda v: np.einsum("ij->", v, dtype="f8"), r"einsum: .*dtype=.*Leave"),
    "copyto": (lambda v: np.copyto(np.zeros((2, 3)), v), r"copyto: .*numpy\.where"),
    "ufunc out": (lambda v: np.add(v, 1, np.zeros((2, 3))), r"numpy\.add: .*x = x \+ y"),
    "ufunc casting": (lambda v: np.add(v, 1, casting="no"), "casting="),
    "hypot.reduce": (np.hypot.reduce, r"hypot\.reduce: .*lax\.reduce"),
    "subtract.accumulate": (np.subtract.accumulate, r"accumulate: .*lax\.scan"),
    "reduceat": (lambda v: np.add.reduceat(v, [0]), r"reduceat: .*x\.at\["),
    "at": (lambda v: np.add.at(np.zeros(3), 0, v[0, 0]), r"add\.at: .*x\.at\[indices\]\.add"),
    "array": (lambda v: np.array([v[0, 0], v[1, 1]]), r"mgefn\.numpy\.stack"),
    "slices": (lambda v: np.zeros((2, 3)).__setitem__(0, v[0]), r"array\.at\[i\]\.set"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("transform", [mgefn.jit, mgefn.grad], ids=["jit", "grad"])
def test_traced_values_never_reach_numpy(what: str, transform: Callable[..., Any]) -> None:
    call, message = REFUSED[what]
    with pytest.raises(errors.TracerArrayConversionError, match=message):
        transform(lambda v: mnp.sum(call(v)))(X)


@pytest.mark.parametrize("transform", [mgefn.jit, mgefn.grad], ids=["jit", "grad"])
def test_an_element_of_a_numpy_array_does_not_swallow_a_derivative(transform: Any) -> None:
    def program(v: Any) -> Any:
        b = np.zeros(3, np.float32)
        b[0] = v[0, 0]
        return np.sum(b)

    # NumPy asks the tracer for a float and puts its own exception on top of our answer.
    with pytest.raises(ValueError, match="array element") as caught:
        transform(program)(X)
    assert isinstance(caught.value.__cause__, errors.ConcretizationTypeError)
    with pytest.raises(errors.ConcretizationTypeError, match="float: "):
        transform(lambda v: float(v) * v)(1.0)
    assert mgefn.grad(lambda v: v.item() * v)(3.0) == 3.0


IMMUTABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "out": (lambda v: np.add(v, 1, out=v), "out must be a NumPy array"),
    "out of a function": (lambda v: np.cumsum(v, out=v), "out must be a NumPy array"),
    "where and out": (lambda v: np.divide(1, v, out=v, where=v > 0), r"numpy\.where\(condition"),
    "where": (lambda v: np.divide(1, v, where=v > 0), r"numpy\.where\(condition"),
    "add.at": (lambda v: np.add.at(v, 0, 1.0), r"x\.at\[indices\]\.add\(values\)"),
    "maximum.at": (lambda v: np.maximum.at(v, 0, 1.0), r"x\.at\[indices\]\.max\(values\)"),
    "negative.at": (lambda v: np.negative.at(v, 0), r"\.apply\(numpy\.negative\)"),
    "copyto": (lambda v: np.copyto(v, 1.0), r"x = mgefn\.numpy\.where"),
    "put": (lambda v: np.put(v, 0, 1.0), "inplace=False"),
    "fill_diagonal": (lambda v: np.fill_diagonal(v, 1.0), "diag_indices_from"),
    "putmask": (lambda v: np.putmask(v, v > 0, 1.0), r"mgefn\.numpy\.where"),
}


@pytest.mark.parametrize("what", IMMUTABLE)
def test_our_arrays_are_not_written(what: str) -> None:
    call, message = IMMUTABLE[what]
    for fun in (call, mgefn.jit(call)):
        with pytest.raises(errors.ArgumentError, match=message):
            fun(X)


class Wrapper:
    """A library that wraps arrays and has its own way with NumPy's functions."""

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **kwargs: Any) -> str:
        return f"wrapped {ufunc.__name__}"

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> str:
        return f"wrapped {func.__name__}"

    def __radd__(self, other: Any) -> str:
        return "wrapped +"


def test_libraries_that_wrap_arrays_have_their_turn() -> None:
    assert np.add(X, Wrapper()) == "wrapped add"
    assert np.concatenate([X, Wrapper()]) == "wrapped concatenate"
    assert np.add(X, 1, out=Wrapper()) == "wrapped add"
    assert X + Wrapper() == "wrapped +"


# -- other libraries ------------------------------------------------------------------------------


def test_numpys_files_and_checks(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, y=X[0])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["y"], X[0])
    text = io.StringIO()
    np.savetxt(text, X)
    assert len(text.getvalue().splitlines()) == 2
    np.testing.assert_allclose(X, np.asarray(X))
    np.testing.assert_equal(X, np.asarray(X))
    np.testing.assert_array_less(X, X + 1)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(X, X + 1)
    assert np.allclose(X, X) and np.array_equal(X, np.asarray(X))
    assert np.array2string(X[0]) == str(X[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(X)), X)
    assert memoryview(X.numpy()).shape == (2, 3) and not X.numpy().flags.writeable
    assert np.random.default_rng(0).permutation(X).shape == (2, 3)
    assert np.random.default_rng(0).choice(X[0], p=mnp.array([0.0, 0.0, 1.0])) == 2.0


def test_matplotlib() -> None:
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    axes = figure_class().subplots(1, 2)
    (line,) = axes[0].plot(X[0], X[1], "o-")
    np.testing.assert_array_equal(line.get_xdata(), X[0])
    axes[0].scatter(X[0], X[1], c=X[0], s=mnp.array([5.0, 6.0, 7.0]))
    axes[0].fill_between(mnp.arange(3), X[0] - 1, X[0] + 1)
    axes[0].errorbar(mnp.arange(3), X[0], yerr=mnp.ones(3))
    axes[0].hist(X.ravel(), bins=mnp.linspace(-2, 2, 5))
    axes[0].bar(mnp.arange(3), X[0])
    axes[0].axvline(X[0, 0])
    image = axes[1].imshow(X)
    np.testing.assert_array_equal(image.get_array(), X)
    axes[1].contour(X)
    axes[0].figure.savefig(io.BytesIO(), format="png")


def test_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = mnp.asarray(A), mnp.array([1.0, 2.0, 4.0])
    ours, plain = (linear_model.Ridge(alpha=0.1).fit(a, b) for a, b in ((x, y), (A, np.asarray(y))))
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.predict(x), plain.predict(A), rtol=1e-5)


def test_scipy_and_pandas() -> None:
    optimize = pytest.importorskip("scipy.optimize")

    def loss(w: Any) -> Any:
        return np.sum((w - np.array([1.0, -2.0])) ** 2)

    with mgefn.config.override(enable_x64=True):
        found = optimize.minimize(loss, np.zeros(2), jac=mgefn.grad(loss), method="BFGS")
    np.testing.assert_allclose(found.x, [1.0, -2.0], atol=1e-6)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[0], "b": X[1]})
    np.testing.assert_array_equal(frame["a"].to_numpy(), X[0])


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    t = torch.from_dlpack(X)
    np.testing.assert_array_equal(t.numpy(), X)
    np.testing.assert_array_equal(mnp.from_dlpack(t), X)


def test_dlpack_with_numpy() -> None:
    np.testing.assert_array_equal(np.from_dlpack(X), X)
    shared = np.from_dlpack(X)
    assert not shared.flags.writeable
    np.testing.assert_array_equal(mnp.from_dlpack(np.asarray(X)), X)
