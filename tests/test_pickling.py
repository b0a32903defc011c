"""Whatever a public function or class makes can be pickled, by Python's own pickle.

The namespaces are walked: each public callable is called with sample arguments, chosen by the names
and annotations of its parameters. So a new optimizer or layer is tested by being there.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import io
import pickle
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import amp, nn, optim, recipes, training
from mgefn.core.array_methods import Array

NAMESPACES = [
    "nn", "nn.initializers", "nn.losses", "optim", "optim.contrib", "optim.schedules",
    "optim.transforms", "optim.projections", "optim.tree", "optim.monitoring",
    "optim.microbatching", "data", "data.transforms", "metrics", "training", "amp", "vision",
    "image",
]  # fmt: skip

# An iterator is at a place in its loader; a console is this process's.
NOT_PICKLED = {"LoaderIterator": "generator", "ConsoleLogger": "RLock"}

# Values of parameters that have no default, by their name.
BY_NAME: dict[str, Any] = {
    "axis_name": "i", "distribution": "normal", "fun": abs, "inner": optim.sgd(0.1),
    "inner_factory": optim.sgd, "learning_rate": 0.1, "mode": "fan_in", "key": mgefn.random.key(0),
    "decay_steps": 5, "measures": {"norm": optim.global_norm}, "seed": 0, "noise_multiplier": 1.0,
    "max_norm": 1.0, "nonlinearity": "tanh", "rng": mgefn.random.key(0), "name": "mean",
    "boundaries": (1, 2), "milestones": (1, 2), "schedules": (optim.constant_schedule(1.0),) * 3,
    "transforms": {"a": optim.sgd(0.1)}, "param_labels": {"w": "a"}, "values": (1.0, 2.0),
    "interpolate_type": "linear", "boundaries_and_scales": {2: 0.5}, "f": abs, "label_fn": abs,
    "cosine_kwargs": [{"init_value": 0.1, "peak_value": 1.0, "warmup_steps": 1, "decay_steps": 3}],
}  # fmt: skip


def sample(parameter: inspect.Parameter) -> Any:
    """A value for a parameter, by its name or else by its annotation."""
    annotation = str(parameter.annotation).strip("'\"")
    if parameter.name in BY_NAME:
        return BY_NAME[parameter.name]
    if "GradientTransformation" in annotation or parameter.name.startswith(("tx", "opt")):
        return optim.sgd(0.1)
    if "Module" in annotation:
        return nn.Linear(2, 3)
    if "Callable" in annotation or parameter.name.endswith("fn"):
        return abs
    if "int" in annotation:
        return 2
    return 0.5 if annotation in ("float", "ArrayLike", "ScalarOrSchedule") else 2


def public() -> Iterator[tuple[str, Any]]:
    for name in NAMESPACES:
        module = importlib.import_module(f"mgefn.{name}")
        for n in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, n)
            ours = getattr(value, "__module__", "") not in ("mgefn.errors", "mgefn.recipes")
            if not n.startswith("_") and callable(value) and ours:
                yield f"{name}.{n}", value


PUBLIC = dict(public())


def is_maker(value: Any) -> bool:
    """Is it decorated with `maker`, and so must make something here?"""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename == recipes.__file__ and value is not recipes.maker


def must_be_made(value: Any) -> bool:
    modules = isinstance(value, type) and issubclass(value, nn.Module) and value is not nn.Module
    return is_maker(value) or modules


def make(fun: Callable[..., Any]) -> Any:
    args, kwargs = [], {}
    for p in inspect.signature(fun).parameters.values():
        needed = p.name in ("key", "seed") or p.default is p.empty
        if not needed or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.kind is p.KEYWORD_ONLY or p.default is not p.empty:
            kwargs[p.name] = sample(p)
        else:
            args.append(sample(p))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sample values without a meaning
        return fun(*args, **kwargs)


def again(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


def closures(x: Any) -> bool:
    """Does x hold functions that pickle can't find by their names?"""
    if isinstance(x, tuple):
        return any(closures(i) for i in x)
    return isinstance(x, types.FunctionType) and "<locals>" in x.__qualname__


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_pickled_by_name(name):
    if isinstance(PUBLIC[name], (type, types.FunctionType)):
        assert again(PUBLIC[name]) is PUBLIC[name]
    else:
        assert again(PUBLIC[name]) == PUBLIC[name]


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_made_is_pickled(name):
    fun = PUBLIC[name]
    try:
        made = make(fun)
    except Exception:
        assert not must_be_made(fun), f"{name} needs a sample in BY_NAME"
        return
    if isinstance(made, (Array, np.ndarray)):
        return  # an operation on arrays
    if name.split(".")[-1] in NOT_PICKLED:
        with pytest.raises(TypeError, match=NOT_PICKLED[name.split(".")[-1]]):
            pickle.dumps(made)
        return
    assert not closures(made), "decorate its maker with mgefn.recipes.maker"
    other = again(made)
    assert type(other) is type(made)
    if is_maker(fun):
        # One of equal arguments is its equal: a static argument that is not traced again.
        assert other == made
        assert hash(other) == hash(made)
        assert copy.deepcopy(made) == made
        assert repr(other) == repr(made)
        assert " at 0x" not in repr(made)
    if isinstance(made, nn.Module) and fun is not nn.Module:
        assert other == made
        assert hash(other) == hash(made)


def test_the_walk_meets_every_kind():
    makers = [n for n in PUBLIC if is_maker(PUBLIC[n])]
    assert len(makers) > 130
    assert sum(must_be_made(f) for f in PUBLIC.values()) > len(makers) + 60


def test_a_walk_that_finds_a_closure_fails():
    def maker():
        return lambda count: count

    assert closures(maker())
    assert closures(optim.GradientTransformation(maker(), abs))
    assert not closures(optim.adam(0.1))


def test_copies_compute_the_same():
    params, grads = {"w": mnp.array([1.0, -2.0])}, {"w": mnp.array([3.0, 0.5])}
    schedule = optim.warmup_cosine_decay_schedule(0.0, 0.1, 3, 10)
    opt = optim.chain(
        optim.clip_by_global_norm(1.0),
        optim.masked(optim.adamw(schedule, weight_decay=0.1), {"w": True}),
        optim.inject_hyperparams(optim.sgd)(learning_rate=0.5),
    )
    results = []
    for each in (opt, again(opt), pickle.loads(pickle.dumps(opt, protocol=2))):
        state, updates = each.init(params), grads
        for _ in range(3):
            updates, state = each.update(grads, state, params)
        results.append(np.asarray(updates["w"]))
    assert results[0].any()
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert again(schedule)(5) == schedule(5)

    model = nn.Sequential(
        nn.Linear(2, 3, weight_init=nn.initializers.orthogonal(0.5)), nn.ReLU(), nn.Linear(3, 1)
    )
    x = mnp.ones((4, 2))
    first, second = [m.init(mgefn.random.key(1), x)[0] for m in (model, again(model))]
    for a, b in zip(mgefn.tree.leaves(first), mgefn.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)

    state = training.TrainState.create(params, optim.adam(0.1))
    moved = again(state).apply_gradients(grads)
    np.testing.assert_array_equal(moved.params["w"], state.apply_gradients(grads).params["w"])
    assert mgefn.tree.structure(again(state)) == mgefn.tree.structure(state)


def test_equal_calls_make_equal_functions():
    normal = nn.initializers.normal
    assert normal(0.02) == normal(0.02)
    assert hash(normal(0.02)) == hash(normal(0.02))
    assert normal(0.02) != normal(0.03)
    assert optim.adam(1e-3) == optim.adam(1e-3)
    assert optim.adam(1e-3) != optim.adamw(1e-3)
    # The dtype of what these give differs, and the sign of its zero.
    assert optim.constant_schedule(1) != optim.constant_schedule(1.0)
    assert optim.constant_schedule(0.0) != optim.constant_schedule(-0.0)
    for scalar in (np.float32, np.float16, np.float64, ml_dtypes.bfloat16):
        assert optim.scale(scalar(0.0)) != optim.scale(scalar(-0.0))
        assert optim.scale(scalar(0.0)) == optim.scale(scalar(0.0))
        assert optim.scale(scalar("nan")) == optim.scale(scalar("nan"))
    assert len({optim.scale(x).update for x in (1, 1.0, True, 1 + 0j, np.float32(1))}) == 5
    # Inside of containers too, of which the maker keeps a copy.
    holders: list[Any] = [
        lambda z: [z],
        lambda z: (z,),
        lambda z: {"a": z},
        lambda z: {z},
        lambda z: [(0, {"a": [z]})],
        lambda z: functools.partial(max, z),
    ]
    for holding in holders:
        keys = [recipes.Recipe(optim.scale, (holding(z),), {}).key for z in (0.0, 0.0, -0.0)]
        assert keys[0] == keys[1] != keys[2]
    assert optim.masked(optim.scale(1.0), [True]) != optim.masked(optim.scale(1.0), [1])
    assert optim.masked(optim.scale(1.0), [True]) != optim.masked(optim.scale(1.0), (True,))
    steps = [optim.constant_schedule(1.0), optim.constant_schedule(2.0)]
    joined, same = (optim.join_schedules(steps, [1]) for _ in range(2))
    mask = {"w": True}
    part = optim.masked(optim.scale(2.0), mask)
    assert joined == same == again(joined)
    before = hash(joined)
    steps.pop()
    mask["w"] = False
    assert hash(joined) == before
    assert again(joined)(1) == joined(1) == 2.0
    assert part == again(part) == optim.masked(optim.scale(2.0), {"w": True})
    assert part.update({"w": 1.0}, part.init({"w": 1.0}))[0] == {"w": 2.0}
    # However a call is written.
    assert optim.adam(1e-3) == optim.adam(learning_rate=1e-3, b1=0.9)
    assert optim.adam(1e-3) != optim.adam(learning_rate=1e-3, b1=0.8)
    heavy = functools.partial(optim.sgd, momentum=0.9)
    assert optim.inject_hyperparams(heavy) == again(optim.inject_hyperparams(heavy))
    key = mgefn.random.key(1)
    assert optim.add_noise(0.1, 0.5, key) == optim.add_noise(0.1, 0.5, mgefn.random.key(1))
    assert optim.add_noise(0.1, 0.5, key) != optim.add_noise(0.1, 0.5, mgefn.random.key(2))
    assert optim.scale(mnp.array(0.0)) != optim.scale(mnp.array(-0.0))
    # An array of NumPy's may change: such calls are not compared.
    array = np.ones(2)
    made = normal(array)
    assert made == made
    assert made != normal(array)
    assert hash(made) == hash(made)
    assert made != 3

    traced = []

    def step(x, init):
        traced.append(0)
        return init(mgefn.random.key(0), x.shape)

    jitted = mgefn.jit(step, static_argnums=1)
    for _ in range(3):
        jitted(mnp.ones(3), normal(0.02))
    assert len(traced) == 1


@pytest.mark.parametrize("every", [2, optim.constant_schedule(2)])
def test_multi_steps_is_pickled(every):
    opt = optim.MultiSteps(optim.adam(0.1), every, should_skip_update_fn=optim.skip_not_finite)
    pair = opt.gradient_transformation()
    grads = mnp.array([1.0, -2.0])
    for made in (opt, pair, optim.chain(pair, optim.scale(2.0))):
        for other in (again(made), copy.copy(made), copy.deepcopy(made)):
            assert other == made
            assert hash(other) == hash(made)
            assert repr(other) == repr(made)
            state = [m.init(grads) for m in (made, other)]
            for _ in range(3):
                (ours, state[0]), (theirs, state[1]) = (
                    m.update(grads, s, grads) for m, s in zip((made, other), state, strict=True)
                )
                assert (ours == theirs).all()
    assert opt != optim.MultiSteps(optim.adam(0.1), every)
    assert opt != optim.MultiSteps(optim.adam(0.2), every, True, optim.skip_not_finite)
    assert opt == optim.MultiSteps(optim.adam(0.1), every, True, optim.skip_not_finite)
    assert opt != pair
    assert repr(optim.MultiSteps(optim.sgd(0.1), 2).gradient_transformation()).startswith(
        "MultiSteps(sgd(0.1), 2, True, None, "
    )
    assert repr(pair).endswith(").gradient_transformation()")


def test_repr_is_the_call():
    assert repr(optim.adam(1e-3)) == "adam(0.001)"
    assert repr(optim.adam(1e-3).update) == "adam(0.001).update"
    assert repr(optim.masked(optim.sgd(0.1, momentum=0.9), abs)) == (
        "masked(sgd(0.1, momentum=0.9), abs)"
    )
    assert repr(nn.initializers.he_normal(dtype="float16")) == "he_normal(dtype='float16')"
    assert repr(optim.GradientTransformation(abs, min)) == (
        "GradientTransformation(init=abs, update=min)"
    )
    state = training.TrainState.create({}, optim.adam(1e-3), apply_fn=nn.Linear(2, 3).apply)
    assert repr(state) == (
        "TrainState(params={}, opt_state=(ScaleByAdamState(count=i32[], mu={}, nu={}), "
        "EmptyState()), step=0, key=key<fry>[], "
        "apply_fn=Linear(in_features=2, out_features=3).apply, tx=adam(0.001))"
    )
    shapes = []
    mgefn.jit(lambda s: shapes.append(repr(s)))(state)
    assert "step=i32[]" in shapes[0]
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.relu)
    assert repr(model) == (
        "Sequential(layers=(('0', Linear(in_features=2, out_features=3, bias=False)), "
        "('1', Lambda(fn=relu))))"
    )


@amp.autocast
def decorated(x):
    return x @ x


class Holder:
    @nn.filter_grad
    def slope(self, x):
        return self * x


def test_decorated_functions_stay_functions():
    assert again(decorated) is decorated
    assert decorated(mnp.ones(3)) == 3
    assert decorated.__name__ == "decorated"
    assert inspect.signature(decorated).parameters.keys() == {"x"}
    assert inspect.ismethod(Holder().slope)


def test_errors_name_the_maker_and_show_no_frame_of_ours():
    with pytest.raises(mgefn.errors.ArgumentError, match=r"adam: keywords .* learning_rate"):
        optim.adam(lr=0.1)  # type: ignore[call-arg]  # the mistake
    with pytest.raises(mgefn.errors.ArgumentError, match="variance_scaling: mode"):
        nn.initializers.variance_scaling(1.0, "in", "normal")


def test_functions_of_the_user_are_his():
    opt = optim.stateless(lambda g, p: g)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.Pickler(io.BytesIO()).dump(opt)
