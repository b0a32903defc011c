"""Keys of their own dtype: what they are, where they may stand, and what refuses them."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import dtypes, errors, lax, random

KEY = random.key(42)
WORDS = [0, 42]
# Recorded with JAX 0.10.2: key_data of split(key(42), 3), of fold_in(key(42), 77), and
# normal(key, (2,)) for each key of the split.
SPLIT = [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]]
FOLDED = [3343870397, 3703666311]
KEYS = random.split(KEY, 3)


def data(keys) -> np.ndarray:
    return np.asarray(random.key_data(keys))


def equal(got, want) -> None:
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def draw(key):
    return random.normal(key, (2,))


def rows() -> np.ndarray:
    """The draws of each key, made from the words."""
    return np.stack([np.asarray(draw(mnp.array(words, "uint32"))) for words in SPLIT])


def chain(key, n: int):
    """A loop that carries a key, in Python."""
    out = []
    for _ in range(n):
        key, sub = random.split(key)
        out.append(np.asarray(random.normal(sub)))
    return data(key), np.stack(out)


def step(key, _):
    key, sub = random.split(key)
    return key, random.normal(sub)


# -- what a key is --------------------------------------------------------------------------------


def test_shape_and_dtype() -> None:
    assert KEY.shape == () and KEY.ndim == 0 and KEY.size == 1 and KEY.itemsize == 8
    assert KEYS.shape == (3,) and len(KEYS) == 3
    assert random.split(KEY, (2, 3)).shape == (2, 3) and random.split(KEY, 0).shape == (0,)
    assert str(KEY.aval) == "key<fry>[]" and str(KEYS.aval) == "key<fry>[3]"
    assert KEY.dtype == KEYS.dtype == random.key_dtype() == random.key_dtype("threefry2x32")
    assert mnp.issubdtype(KEY.dtype, dtypes.prng_key)
    assert mnp.issubdtype(KEY.dtype, dtypes.extended)
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended)
    assert not dtypes.issubdtype(KEY.dtype, np.integer)
    assert not dtypes.issubdtype(KEY.dtype, np.number)
    assert not dtypes.issubdtype(np.float32, dtypes.prng_key)
    assert random.PRNGKey(42).tolist() == WORDS


def test_recorded_words() -> None:
    assert data(KEY).tolist() == WORDS
    assert data(KEYS).tolist() == SPLIT
    assert data(random.fold_in(KEY, 77)).tolist() == FOLDED
    assert data(random.clone(KEYS)).tolist() == SPLIT
    assert random.split(random.PRNGKey(42), 3).tolist() == SPLIT
    assert random.fold_in(random.PRNGKey(42), 77).tolist() == FOLDED


def test_text() -> None:
    assert repr(KEY) == str(KEY) == f"{KEY}" == "Array(words=[ 0, 42], dtype=key<fry>)"
    assert repr(KEYS).startswith("Array(words=[[") and repr(KEYS).endswith("dtype=key<fry>)")
    assert repr(KEYS[:0]) == "Array(words=[], shape=(0,), dtype=key<fry>)"
    shown = mgefn.eval_shape(random.split, KEY)
    assert repr(shown) == "ShapeDtypeStruct(shape=(2,), dtype=key<fry>)"
    text = str(mgefn.make_jaxpr(lambda: random.split(KEY))())
    assert "key<fry>[2] = bitcast_convert_type[new_dtype=key<fry>]" in text


def test_words_and_back() -> None:
    saved = data(KEYS.reshape(3, 1))
    assert saved.shape == (3, 1, 2) and saved.dtype == np.uint32
    back = random.wrap_key_data(saved, impl="threefry2x32")
    assert back.shape == (3, 1) and bool((back[:, 0] == KEYS).all())
    equal(data(random.wrap_key_data(np.zeros((0, 2), np.uint32))), np.zeros((0, 2)))
    equal(data(random.key_data(KEYS)), SPLIT)  # words pass
    assert random.key_impl(KEY) == random.key_impl(data(KEY)) == "threefry2x32"
    equal(data(pickle.loads(pickle.dumps(KEYS))), SPLIT)
    equal(data(copy.deepcopy(KEYS)), SPLIT)
    assert mgefn.device_get({"k": KEYS})["k"].dtype == KEY.dtype


def test_every_sampler_takes_either_kind() -> None:
    p = np.array([0.2, 0.8], np.float32)
    calls = {
        "ball": (3,), "bernoulli": (0.3,), "beta": (0.5, 2.0), "binomial": (20, 0.3), "bits": (),
        "categorical": (np.log(p),), "cauchy": (), "chisquare": (3.0,), "choice": (9, (3,)),
        "dirichlet": (p,), "double_sided_maxwell": (1.0, 2.0), "exponential": (),
        "f": (3.0, 5.0), "gamma": (0.7,), "generalized_normal": (1.5,), "geometric": (0.3,),
        "gumbel": (), "laplace": (), "loggamma": (0.7,), "logistic": (), "lognormal": (),
        "maxwell": (), "multinomial": (9, p), "multivariate_normal": (p, np.eye(2)),
        "normal": (), "orthogonal": (2,), "pareto": (2.0,), "permutation": (5,),
        "poisson": (3.0,), "rademacher": (), "randint": ((), 0, 9), "rayleigh": (2.0,),
        "split": (), "fold_in": (1,), "t": (3.0,), "triangular": (0.0, 1.0, 2.0),
        "truncated_normal": (-1.0, 1.0), "uniform": (), "wald": (2.0,),
        "weibull_min": (1.0, 2.0), "clone": (), "key_data": (), "key_impl": (),
    }  # fmt: skip
    makers = {"PRNGKey", "key", "key_dtype", "wrap_key_data"}
    assert set(calls) == set(random.__all__) - makers
    for name, arguments in calls.items():
        one, other = (getattr(random, name)(k, *arguments) for k in (KEY, random.PRNGKey(42)))
        if name in ("split", "fold_in", "clone"):
            assert dtypes.is_key(one.dtype) and other.dtype == np.uint32
            one = random.key_data(one)
        if name == "key_impl":
            assert one == other
        else:
            equal(one, other)


# -- moving keys ----------------------------------------------------------------------------------


def test_moving() -> None:
    equal(data(KEYS[1]), SPLIT[1])
    equal(data(KEYS[-1]), SPLIT[2])
    equal(data(KEYS[::-1]), SPLIT[::-1])
    equal(data(KEYS[mnp.array([2, 0])]), [SPLIT[2], SPLIT[0]])
    equal(data(KEYS[np.array([True, False, True])]), [SPLIT[0], SPLIT[2]])
    equal(data(KEYS.reshape(3, 1).T), [SPLIT])
    equal(data(mnp.stack([KEYS[0], KEYS[2]])), [SPLIT[0], SPLIT[2]])
    equal(data(mnp.array([KEYS[0], KEYS[2]])), [SPLIT[0], SPLIT[2]])
    equal(data(mnp.concatenate([KEYS, KEYS])), SPLIT + SPLIT)
    equal(data(mnp.where(np.array([True, False, True]), KEYS, KEY)), [SPLIT[0], WORDS, SPLIT[2]])
    equal(data(KEYS.at[1].set(KEY)), [SPLIT[0], WORDS, SPLIT[2]])
    equal(data(mnp.broadcast_to(KEY, (2, 2))), np.broadcast_to(WORDS, (2, 2, 2)))
    equal(data(mnp.roll(KEYS, 1)), np.roll(SPLIT, 1, 0))
    equal(data(mnp.take(KEYS, np.array([1, 9]), mode="fill")), [SPLIT[1], [2**32 - 1] * 2])
    equal(data(mnp.zeros((2,), KEY.dtype)), np.zeros((2, 2)))
    assert [data(k).tolist() for k in KEYS] == SPLIT
    *_, last = KEYS
    assert data(last).tolist() == SPLIT[2]


def test_equality() -> None:
    assert bool(random.key(1) == random.key(1)) and bool(random.key(1) != random.key(2))
    equal(mnp.stack([KEY, KEYS[0]]) == KEY, [True, False])
    equal(mgefn.jit(lambda a, b: a == b)(KEYS, KEYS[0]), [True, False, False])
    assert bool(mnp.array_equal(KEYS, KEYS))


def test_pytrees() -> None:
    state = {"key": KEY, "w": mnp.ones(2)}
    assert mgefn.tree.map(lambda x: x.shape, state) == {"key": (), "w": (2,)}
    out = mgefn.jit(lambda s: {"key": random.split(s["key"])[0], "w": s["w"] + draw(s["key"])})(
        state
    )
    equal(data(out["key"]), data(random.split(KEY)[0]))
    equal(out["w"], 1 + np.asarray(draw(KEY)))


# -- under transforms -----------------------------------------------------------------------------


def test_vmap() -> None:
    want = rows()
    equal(mgefn.vmap(draw)(KEYS), want)
    equal(mgefn.vmap(draw, in_axes=-1)(KEYS), want)
    equal(mgefn.vmap(mgefn.vmap(draw))(KEYS.reshape(1, 3)), want[None])
    wide = mgefn.vmap(lambda k: random.split(k, 4), out_axes=-1)(KEYS)
    assert wide.shape == (4, 3)
    equal(data(wide[:, 2]), data(random.split(KEYS[2], 4)))
    equal(
        mgefn.vmap(lambda k, x: random.normal(k) + x, (None, 0))(KEY, mnp.arange(3.0)),
        np.asarray(random.normal(KEY)) + np.arange(3, dtype=np.float32),
    )
    seeds = mgefn.vmap(random.key)(mnp.arange(3))
    equal(data(seeds), [[0, 0], [0, 1], [0, 2]])
    gathered = mgefn.vmap(lambda k: lax.all_gather(k, "i"), axis_name="i")(KEYS)
    equal(data(gathered[1]), SPLIT)


def test_jit() -> None:
    want = rows()
    f = mgefn.jit(draw)
    for key, row in zip(KEYS, want, strict=True):
        equal(f(key), row)
    equal(f(random.PRNGKey(42)), draw(KEY))  # another signature, the same numbers
    equal(data(mgefn.jit(random.split)(KEY)), data(random.split(KEY)))
    equal(data(mgefn.jit(random.key)(42)), WORDS)
    equal(data(mgefn.jit(lambda: KEYS)()), SPLIT)  # a constant
    equal(mgefn.jit(lambda i: draw(KEYS[i]))(1), want[1])
    equal(mgefn.jit(lambda x: draw(KEY) + x)(0.0), draw(KEY))
    equal(data(mgefn.jit(lambda k: k, donate_argnums=0)(random.clone(random.key(5)))), [0, 5])
    compiled = mgefn.jit(draw).lower(KEY).compile()
    equal(compiled(KEYS[2]), want[2])


@pytest.mark.parametrize("wrap", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_loops_carry_keys(wrap) -> None:
    last, numbers = chain(KEY, 4)
    key, got = wrap(lambda k: lax.scan(step, k, None, 4))(KEY)
    equal(data(key), last)
    equal(got, numbers)
    equal(wrap(lambda ks: lax.scan(lambda c, k: (c, draw(k)), 0, ks)[1])(KEYS), rows())
    folded = wrap(lambda k: lax.scan(lambda c, i: (c, random.fold_in(c, i)), k, mnp.arange(3)))(KEY)
    equal(data(folded[1]), np.stack([data(random.fold_in(KEY, i)) for i in range(3)]))
    equal(data(wrap(lambda k: lax.fori_loop(0, 4, lambda i, k: step(k, i)[0], k))(KEY)), last)
    _, key = wrap(
        lambda k: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, step(s[1], 0)[0]), (0, k))
    )(KEY)
    equal(data(key), last)
    each = wrap(mgefn.vmap(lambda k: lax.scan(step, k, None, 4)[1]))(KEYS)
    equal(each, np.stack([chain(k, 4)[1] for k in KEYS]))


@pytest.mark.parametrize("wrap", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_branches_take_keys(wrap) -> None:
    def f(p, k):
        return lax.cond(p, lambda k: random.split(k)[0], lambda k: k, k)

    first = data(random.split(KEY)[0])
    equal(data(wrap(f)(True, KEY)), first)
    equal(data(wrap(f)(False, KEY)), WORDS)
    got = wrap(mgefn.vmap(f, (0, None)))(np.array([True, False]), KEY)
    equal(data(got), [first, WORDS])
    equal(data(wrap(lambda i: lax.switch(i, [lambda: KEY, lambda: KEYS[0]]))(1)), SPLIT[0])
    equal(data(lax.select(np.array([True, False, True]), KEYS, KEYS[::-1])), SPLIT)


def test_derivatives_in_other_arguments() -> None:
    z = float(random.normal(KEY))

    def f(x, k):
        return x * x * random.normal(k)

    for gradient in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.grad(mgefn.checkpoint(f))):
        np.testing.assert_allclose(gradient(3.0, KEY), 6 * z, rtol=1e-6)
    y, pullback = mgefn.vjp(f, 3.0, KEY)
    x_bar, key_bar = pullback(mnp.ones_like(y))
    np.testing.assert_allclose(x_bar, 6 * z, rtol=1e-6)
    assert key_bar.dtype == mgefn.float0 and key_bar.shape == ()
    out, tangent = mgefn.jvp(f, (3.0, KEY), (1.0, np.zeros((), mgefn.float0)))
    np.testing.assert_allclose([out, tangent], [9 * z, 6 * z], rtol=1e-6)
    both = mgefn.grad(lambda p: f(p["x"], p["k"]), allow_int=True)({"x": 3.0, "k": KEY})
    assert both["k"].dtype == mgefn.float0

    def multiply(carry, _):
        key, y = carry
        return (random.split(key)[0], y * 2), None

    carried = mgefn.grad(lambda x: lax.scan(multiply, (KEY, x), None, 3)[0][1])(2.0)
    np.testing.assert_allclose(carried, 8.0)
    value, (aux,) = mgefn.value_and_grad(lambda x: (x, (random.split(KEY),)), has_aux=True)(1.0)[0]
    assert value == 1 and aux.shape == (2,)
    with pytest.raises(errors.DTypeError, match="floating"):
        mgefn.grad(lambda k: 1.0)(KEY)


def test_custom_rules_take_keys() -> None:
    @mgefn.custom_vjp
    def f(x, k):
        return x * random.normal(k)

    f.defvjp(lambda x, k: (f(x, k), k), lambda k, g: (7 * g, None))
    assert mgefn.grad(f)(2.0, KEY) == 7

    @mgefn.custom_jvp
    def h(x, k):
        return x * random.normal(k)

    h.defjvp(lambda primals, tangents: (h(*primals), 5 * tangents[0]))
    assert mgefn.grad(h)(2.0, KEY) == mgefn.jit(mgefn.grad(h))(2.0, KEY) == 5


# -- refusals -------------------------------------------------------------------------------------

ARITHMETIC = {
    "add": lambda k: k + k,
    "add a number": lambda k: k + 1,
    "number first": lambda k: 1 + k,
    "multiply": lambda k: k * 2.0,
    "negative": lambda k: -k,
    "less": lambda k: k < k,
    "equal to a number": lambda k: k == 1,
    "sum": lambda k: k.sum(),
    "mean": lambda k: k.mean(),
    "max": lambda k: mnp.max(k),
    "argmax": lambda k: mnp.argmax(k),
    "sort": lambda k: mnp.sort(k),
    "argsort": lambda k: mnp.argsort(k),
    "cumsum": lambda k: mnp.cumsum(k),
    "dot": lambda k: k @ k,
    "sin": lambda k: mnp.sin(k),
    "abs": lambda k: mnp.abs(k),
    "astype": lambda k: k.astype("uint32"),
    "from numbers": lambda k: mnp.ones(3, "uint32").astype(k.dtype),
    "concatenate": lambda k: mnp.concatenate([k, mnp.ones(3)]),
    "where": lambda k: mnp.where(True, k, 1.0),
    "scatter-add": lambda k: k.at[0].add(1),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_no_arithmetic(name: str) -> None:
    for f in (ARITHMETIC[name], mgefn.jit(ARITHMETIC[name])):
        with pytest.raises(errors.DTypeError, match="random key"):
            f(KEYS)


def test_no_numbers_in_python() -> None:
    for f in (int, float, bool, complex, np.asarray, lambda k: k.item(), lambda k: k.tolist()):
        with pytest.raises(errors.DTypeError, match=r"random\.key_data"):
            f(KEY)
    with pytest.raises(TypeError, match="unhashable"):
        hash(KEY)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: random.normal(KEYS), errors.ShapeError, "vmap"),
        (lambda: random.split(KEYS), errors.ShapeError, "vmap"),
        (lambda: random.fold_in(KEYS, 1), errors.ShapeError, "vmap"),
        (lambda: random.fold_in(KEY, KEY), errors.ArgumentError, "integer"),
        (lambda: random.key(KEY), errors.ArgumentError, "integer"),
        (lambda: random.key(1.0), errors.ArgumentError, "integer"),
        (lambda: random.key(mnp.arange(3)), errors.ArgumentError, "vmap"),
        (lambda: random.PRNGKey(mnp.arange(3)), errors.ArgumentError, "PRNGKey: .*vmap"),
        (lambda: random.key(0, impl="rbg"), errors.ArgumentError, "impl"),
        (lambda: random.key(0, dtype="uint32"), errors.ArgumentError, "dtype"),
        (lambda: random.key_dtype("rbg"), errors.ArgumentError, "impl"),
        (lambda: random.normal(mnp.ones(2)), errors.ArgumentError, "random.key"),
        (lambda: random.key_data(mnp.ones(2)), errors.DTypeError, "random.key"),
        (lambda: random.key_data("no"), errors.DTypeError, "random.key"),
        (lambda: random.key_impl(3), errors.DTypeError, "random.key"),
        (lambda: random.clone(1.5), errors.DTypeError, "random.key"),
        (lambda: random.wrap_key_data(KEY), errors.DTypeError, "uint32"),
        (lambda: random.wrap_key_data(np.ones(3, np.uint32)), errors.ShapeError, "must be 2"),
        (lambda: random.wrap_key_data(np.ones(2)), errors.DTypeError, "uint32"),
    ],
)
def test_refusals(call, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


SAMPLERS = {
    name: f
    for name in mgefn.random.__all__
    if inspect.isfunction(f := getattr(mgefn.random, name))
    and list(inspect.signature(f).parameters)[:1] == ["key"]
    and len(inspect.signature(f).parameters) > 1
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_forgotten_key_is_named(name):
    """What comes after the key is given by position, in its place."""
    text = rf"^{name}: the first argument must be a random key, got .*\. Pass one before the others"
    for first in ((3,), 3, 0.5, None, mnp.ones(3), np.ones((2, 2))):
        for rest in ((), (2.0,), ((3,), 2.0), (3, 4, 5)):
            if len(rest) < len(inspect.signature(SAMPLERS[name]).parameters):
                with pytest.raises(errors.ArgumentError, match=text):
                    SAMPLERS[name](first, *rest)
    with pytest.raises(errors.ArgumentError, match=text):
        mgefn.jit(lambda x: SAMPLERS[name](x, x))(mnp.ones(3))


def test_the_walk_over_samplers_meets_them():
    assert len(SAMPLERS) >= 40


def test_other_mistakes_with_a_key_stay_as_they_are():
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'minval'"):
        mgefn.random.randint(KEY, (3,))  # type: ignore[call-arg]  # the mistake
    with pytest.raises(errors.ShapeError, match=r"^normal: takes one key, got a batch"):
        mgefn.random.normal(KEYS)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'key'"):
        mgefn.random.normal(shape=(3,))  # type: ignore[call-arg]  # the mistake


def test_noise_takes_a_key_an_integer_and_words():
    words = mgefn.random.key_data(KEY)
    for given in (KEY, words, 42, np.int32(42)):
        opt = mgefn.optim.add_noise(1.0, 0.5, given)
        update = opt.update(mnp.zeros(3), opt.init(mnp.zeros(3)))[0]
        np.testing.assert_array_equal(
            update,
            mgefn.optim.add_noise(1.0, 0.5, KEY).update(
                mnp.zeros(3), mgefn.optim.add_noise(1.0, 0.5, KEY).init(mnp.zeros(3))
            )[0],
        )
    tree = mgefn.optim.tree.unwrap_random_key_data({"a": KEY, "b": mnp.ones(2), "c": 3})
    np.testing.assert_array_equal(tree["a"], words)
    assert tree["c"] == 3
