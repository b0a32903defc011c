"""Names that are not there: what the message says that somebody meant."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import data, io, lax, nn, optim, suggestions, training
from mgefn.errors import ArgumentError, MissingNameError, api_boundary

x23 = mnp.ones((2, 3))


def call(f: Any, *args: Any, **named: Any) -> Any:
    """f, by a name of which type checkers know nothing."""
    return f(*args, **named)


@dataclasses.dataclass(frozen=True)
class Own(nn.Module):
    """A module of the user's."""

    features: int

    def forward(self, run: Any, x: Any) -> Any:
        return x


KEYWORDS: dict[str, tuple[Any, str]] = {
    "adam(lr)": (lambda: call(optim.adam, lr=0.1), "^adam: .*got 'lr'. Did you mean learning_rate"),
    "adam(betas)": (lambda: call(optim.adam, 0.1, betas=(0.9, 0.99)), "Did you mean b1 or b2"),
    "adam(weight_decay)": (lambda: call(optim.adam, 0.1, weight_decay=1), "adamw has it"),
    "sgd(params)": (lambda: call(optim.sgd, params={}), "made without params"),
    "argmax(dim)": (
        lambda: call(mnp.argmax, x23, dim=1),
        "^argmax: .*got 'dim'. Did you mean axis",
    ),
    "argmax(keepdim)": (lambda: call(mnp.argmax, x23, 1, keepdim=True), "Did you mean keepdims"),
    "x.argmax(dim)": (lambda: call(x23.argmax, dim=1), "Did you mean axis"),
    "concatenate(dim)": (lambda: call(mnp.concatenate, [x23, x23], dim=0), "Did you mean axis"),
    "softmax(dim)": (lambda: call(nn.softmax, x23, dim=-1), "^softmax: .*Did you mean axis"),
    "zeros(requires_grad)": (
        lambda: call(mnp.zeros, 3, requires_grad=True),
        "Derivatives are functions",
    ),
    "jit(static_args)": (
        lambda: call(mgefn.jit, len, static_args=0),
        "Did you mean static_argnums",
    ),
    "vmap(in_dims)": (lambda: call(mgefn.vmap, len, in_dims=0), "Did you mean in_axes"),
    "Linear(in_dim)": (
        lambda: call(nn.Linear, in_dim=3, out_features=4),
        "^Linear: .*mean in_features",
    ),
    "Conv2d(strides)": (
        lambda: call(nn.Conv2d, 1, 2, 3, strides=2),
        "^Conv2d: .*Did you mean stride?",
    ),
    "Dropout(rate)": (lambda: call(nn.Dropout, rate=0.1), "^Dropout: .*Did you mean drop_prob"),
    "LayerNorm(epsilon)": (
        lambda: call(nn.LayerNorm, epsilon=1e-3),
        "^LayerNorm: .*Did you mean eps",
    ),
    "BatchNorm1d(features)": (
        lambda: call(nn.BatchNorm1d, features=3),
        "Did you mean num_features",
    ),
    "DataLoader(batch_size)": (
        lambda: call(data.DataLoader, range(3), batch_size=2),
        r"^DataLoader: .*Give it to the sampler: sampler=RandomSampler\(dataset, batch_size=",
    ),
    "DataLoader(shuffle)": (lambda: call(data.DataLoader, range(3), shuffle=True), "RandomSampler"),
    "DataLoader(collate_fn)": (lambda: call(data.DataLoader, [], collate_fn=len), "mean collator"),
    "RandomSampler(batchsize)": (
        lambda: call(data.RandomSampler, range(3), batchsize=2),
        "^RandomSampler: .*Did you mean batch_size",
    ),
    "CheckpointManager(keep)": (
        lambda: call(io.CheckpointManager, "x", keep=3),
        "mean max_to_keep",
    ),
    "EMA.create(decy)": (
        lambda: call(training.EMA.create, {}, decy=0.9),
        "^EMA.create: .*mean decay",
    ),
    "TrainState.create(optimizer)": (
        lambda: call(training.TrainState.create, {}, optimizer=optim.sgd(0.1)),
        "^TrainState.create: .*Did you mean tx",
    ),
    "x.sum(dim)": (lambda: call(x23.sum, dim=0), "^Array.sum: .*got 'dim'. Did you mean axis"),
    "sum(keepdim)": (lambda: call(mnp.sum, x23, keepdim=True), "^sum: .*Did you mean keepdims"),
    "x.max(dim)": (lambda: call(x23.max, dim=0), "^Array.max: .*Did you mean axis"),
    "min(dim)": (lambda: call(mnp.min, x23, dim=0), "^min: .*Did you mean axis"),
    "x.std(unbiased)": (lambda: call(x23.std, unbiased=True), "Did you mean correction or ddof"),
    "x.clip(lo)": (lambda: call(x23.clip, lo=0), "Did you mean min"),
    "x.reshape(shape)": (lambda: call(x23.reshape, shape=(3, 2)), "Give the sizes by position"),
    "reshape(newshape)": (
        lambda: call(mnp.reshape, x23, (6,), newshape=6),
        "^reshape: .*Did you mean shape",
    ),
    "squeeze(dim)": (lambda: call(mnp.squeeze, x23, dim=0), "^squeeze: .*Did you mean axis"),
    "tree.map(isleaf)": (lambda: call(mgefn.tree.map, len, x23, isleaf=1), "Did you mean is_leaf"),
    "Own(units)": (lambda: call(Own, units=3), "^Own: .*among features, got 'units'.*features"),
    "Own(qqq)": (lambda: call(Own, qqq=3), "^Own: .*among features, got 'qqq'. Leave it out"),
    "optimizer.init(parameters)": (
        lambda: call(optim.adam(0.1).init, parameters={}),
        "^adam.init: .*Did you mean params",
    ),
    "schedule(step)": (
        lambda: call(optim.exponential_decay(0.1, 3, 0.5), step=2),
        r"^exponential_decay\(\.\.\.\): .*among count, got 'step'. Did you mean count",
    ),
    "initializer(std)": (lambda: call(nn.initializers.normal, std=0.1), "Did you mean stddev"),
    "nothing alike": (lambda: call(mnp.argmax, x23, qqq=1), "got 'qqq'. Leave it out"),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords(name: str) -> None:
    call, text = KEYWORDS[name]
    with pytest.raises(ArgumentError, match=text) as caught:
        call()
    assert isinstance(caught.value, TypeError)  # what Python raises for it
    assert caught.value.__context__ is None
    files = []
    traceback = caught.value.__traceback__
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    assert set(files) == {__file__}


# Called so often that they stand behind nothing; Python's message names them and the keyword.
HOT = {
    "abs", "absolute", "add", "cos", "divide", "true_divide", "equal", "exp", "greater",
    "greater_equal", "less", "less_equal", "log", "maximum", "minimum", "multiply", "negative",
    "not_equal", "pow", "power", "sin", "sqrt", "square", "subtract", "tanh", "promote_types",
    "result_type", "broadcast_in_dim", "logistic", "select_n", "neg", "ne", "eq", "ge", "gt", "le",
    "lt", "max", "min", "mul", "sub", "div", "unflatten", "is_none", "structure_difference",
}  # fmt: skip
SPACES = [
    "", "numpy", "numpy.linalg", "numpy.fft", "lax", "random", "tree", "nn", "nn.losses",
    "nn.initializers", "optim", "optim.contrib", "data", "data.transforms", "amp", "vision",
    "image", "scipy.special", "scipy.stats", "scipy.linalg", "scipy.signal", "scipy.optimize", "io",
]  # fmt: skip


@pytest.mark.parametrize("space", SPACES)
def test_every_public_function_tells_of_keywords(space: str) -> None:
    module = importlib.import_module(f"mgefn.{space}".rstrip("."))
    met = 0
    for name in getattr(module, "__all__", None) or dir(module):
        f = getattr(module, name)
        ours = getattr(f, "__module__", "").startswith("mgefn")
        if not ours or not inspect.isfunction(f) or name.startswith("_"):
            continue
        parameters = inspect.signature(f).parameters.values()
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        if takes_any or (name in HOT and not hasattr(f, "__signature__")):
            continue
        # Those with `**unknown` are entered, so Python must find all that they need.
        needed = [x23 for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
        given = needed if hasattr(f, "__signature__") else []
        with pytest.raises(ArgumentError, match=r"keywords must be among .* got 'qqq'"):
            call(f, *given, qqq=1)
        met += 1
    assert met > 0


def test_every_layer_tells_of_keywords() -> None:
    for name in nn.__all__:
        cls = getattr(nn, name)
        if isinstance(cls, type) and issubclass(cls, nn.Module) and cls is not nn.Module:
            parameters = inspect.signature(cls).parameters.values()
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                with pytest.raises(ArgumentError, match=f"^{name}: keywords must be among"):
                    call(cls, qqq=1)


def two(a: Any, b: Any) -> Any:
    return a + b


class Methods:
    def one(self, a: Any) -> Any:
        return a

    def __call__(self, a: Any) -> Any:
        return a


def after(opt: Any, *args: Any, **named: Any) -> Any:
    """update of an optimizer with the state that it needs."""
    return opt.update(x23, opt.init(x23), *args, **named)


def none() -> Any:
    return 1.0


# What was forgotten in a call of something made -> the message, from its beginning.
INCOMPLETE: dict[str, tuple[Any, str]] = {
    "normal": (lambda: call(nn.initializers.normal(0.1), (3, 4)),
               "normal(...): the first argument must be a random key, got a tuple of 2. Pass one "
               "before the others: normal(...)(random.key(seed), ...)."),
    "zeros": (lambda: call(nn.initializers.zeros, (3, 4)),
              "zeros: the first argument must be a random key, got a tuple of 2."),
    "by keyword": (lambda: call(nn.initializers.he_normal(), shape=(3, 4)),
                   "he_normal(...): needs 'key' too, got none. Call he_normal(...)(key, shape, "),
    "nothing": (lambda: call(nn.initializers.constant(1.0)),
                "constant(...): needs 'key' and 'shape' too, got none."),
    "adam": (lambda: call(optim.adam(0.1).update, 1),
             "adam.update: needs 'state' too, got int. Call adam.update(updates, state, "
             "params=None)."),
    "init": (lambda: call(optim.adam(0.1).init),
             "adam.init: needs 'params' too, got none. Call adam.init(params)."),
    "too many": (lambda: call(optim.adam(0.1).update, x23, (), None, 3),
                 "adam.update: takes (updates, state, params) by position, got f32[2,3], a tuple "
                 "of 0, None, int. Call adam.update(updates, state, params=None)."),
    "chain": (lambda: call(optim.chain(optim.scale(0.1)).update, x23),
              "chain.update: needs 'state' too, got f32[2,3]."),
    "MultiSteps": (lambda: call(
        optim.MultiSteps(optim.sgd(0.1), 2).gradient_transformation().update, x23
    ), "MultiSteps.update: needs 'state' too, got f32[2,3]."),
    "polyak": (lambda: after(optim.scale_by_polyak(), x23),
               "scale_by_polyak.update: needs 'value' too, got none. Call "
               "scale_by_polyak.update(updates, state, params=None, value=...)."),
    "polyak_sgd": (lambda: after(optim.polyak_sgd(), x23),
                   "polyak_sgd.update: needs 'value' too, got none. Call update(grads, state, "),
    "in a chain": (lambda: after(optim.chain(optim.scale_by_polyak(), optim.scale(2.0)), x23),
                   "chain.update: needs 'value' too, got none."),
    "linesearch": (lambda: after(optim.scale_by_backtracking_linesearch(4), x23, value=1.0),
                   "scale_by_backtracking_linesearch.update: needs 'grad' and 'value_fn' too, "),
    "zoom": (lambda: after(optim.scale_by_zoom_linesearch(4)),
             "scale_by_zoom_linesearch.update: needs 'params' too, got f32[2,3], a "),
    "lbfgs": (lambda: after(optim.lbfgs(), x23),
              "lbfgs.update: needs 'value', 'grad', and 'value_fn' too, got none."),
    "schedule": (lambda: call(optim.cosine_decay_schedule(0.1, 10)),
                 "cosine_decay_schedule(...): needs 'count' too, got none. Call "
                 "cosine_decay_schedule(...)(count)."),
    "schedule twice": (lambda: call(optim.exponential_decay(0.1, 10, 0.9), 1, 2),
                       "exponential_decay(...): takes (count) by position, got int, int."),
}  # fmt: skip


@pytest.mark.parametrize("name", INCOMPLETE)
def test_what_was_made_tells_what_a_call_lacks(name: str) -> None:
    made, text = INCOMPLETE[name]
    with pytest.raises(ArgumentError) as caught:
        made()
    assert str(caught.value).startswith(text)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


untyped: Any = mgefn  # of whose parameters type checkers know nothing

# A function that can't be called as the operation does -> the message with N for the line.
BODIES: dict[str, tuple[Any, str]] = {
    "fori_loop": (
        lambda: untyped.lax.fori_loop(0, 3, lambda i: i, 1.0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got <lambda> "
        "(test_suggestions.py:N), which takes (i). It returns the next carry.",
    ),
    "fori_loop that starts at a tracer": (
        lambda: mgefn.jit(lambda n: untyped.lax.fori_loop(n, 3, lambda i: i, 1.0))(0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got <lambda> "
        "(test_suggestions.py:N), which takes (i).",
    ),
    "method": (
        lambda: untyped.lax.fori_loop(0, 3, Methods().one, 1.0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got one "
        "(test_suggestions.py:N), which takes (a).",
    ),
    "object": (
        lambda: untyped.lax.fori_loop(0, 3, Methods(), 1.0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got Methods, which takes (a).",
    ),
    "partial": (
        lambda: untyped.lax.fori_loop(0, 3, functools.partial(two, 1.0), 1.0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got two "
        "(test_suggestions.py:N), which takes (b).",
    ),
    "jit": (
        lambda: untyped.lax.fori_loop(0, 3, mgefn.jit(none), 1.0),
        "fori_loop: body_fun must take 2 arguments, (i, carry), got none "
        "(test_suggestions.py:N), which takes ().",
    ),
    "while_loop": (
        lambda: untyped.lax.while_loop(lambda c: c[0] < 3, two, (1.0, 2.0)),
        "while_loop: body_fun must take 1 argument, (carry), got two "
        "(test_suggestions.py:N), which takes (a, b). The carry comes as one argument: "
        "take it apart inside.",
    ),
    "while_loop with two lambdas": (
        lambda: untyped.lax.while_loop(lambda c: c[0] < 3, lambda a, b: (a, b), (1.0, 2.0)),
        "while_loop: body_fun must take 1 argument, (carry), got <lambda> "
        "(test_suggestions.py:N), which takes (a, b).",
    ),
    "the condition": (
        lambda: untyped.lax.while_loop(none, lambda c: c, 1.0),
        "while_loop: cond_fun must take 1 argument, (carry), got none ",
    ),
    "scan": (
        lambda: untyped.lax.scan(lambda c: c, 0.0, x23),
        "scan: f must take 2 arguments, (carry, x), got <lambda> (test_suggestions.py:N), "
        "which takes (c). It returns (carry, y); where there is no x, x is None.",
    ),
    "scan of more": (
        lambda: mgefn.grad(lambda x: untyped.lax.scan(lambda c, x, z, k=3: c, 0.0, x)[0])(x23),
        "scan: f must take 2 arguments, (carry, x), got <lambda> "
        "(test_suggestions.py:N), which takes (c, x, z, k=3).",
    ),
    "scan by keyword": (
        lambda: untyped.lax.scan(f=none, init=0.0, xs=x23),
        "scan: f must take 2 arguments, (carry, x), got none ",
    ),
    "map": (
        lambda: untyped.lax.map(two, (x23, x23)),
        "map: f must take 1 argument, (x), got two (test_suggestions.py:N), which takes (a, "
        "b). What is mapped over comes as one argument: take it apart inside.",
    ),
    "map in batches": (
        lambda: untyped.lax.map(two, (x23, x23), batch_size=1),
        "map: f must take 1 argument, (x), got two ",
    ),
    "inside": (
        lambda: untyped.lax.fori_loop(0, 3, lambda i, c: untyped.lax.map(lambda: 1.0, c), x23),
        "map: f must take 1 argument, (x), got <lambda> ",
    ),
    "associative_scan": (
        lambda: untyped.lax.associative_scan(none, x23),
        "associative_scan: fn must take 2 arguments, (a, b), got none ",
    ),
    "reduce": (
        lambda: untyped.lax.reduce(x23, 0.0, lambda a: a, (0,)),
        "reduce: computation must take 2 arguments, (a, b), got <lambda> ",
    ),
    "reduce_window": (
        lambda: untyped.lax.reduce_window(x23, 0.0, none, (2, 2), (1, 1), "VALID"),
        "reduce_window: computation must take 2 arguments, (a, b), got none ",
    ),
    "cond": (
        lambda: untyped.lax.cond(True, none, two, 3.0),
        "cond: true_fun must take 1 argument, got none (test_suggestions.py:N), which takes "
        "(). A branch gets all operands that follow the branches, each as an argument.",
    ),
    "cond under jit": (
        lambda: mgefn.jit(lambda p: untyped.lax.cond(p, none, two))(True),
        "cond: false_fun must take no arguments, got two ",
    ),
    "switch": (
        lambda: untyped.lax.switch(1, [none, two]),
        "switch: branches[1] must take no arguments, got two ",
    ),
    "custom_root": (
        lambda: untyped.lax.custom_root(lambda x: x, 1.0, none, two),
        "custom_root: solve must take 2 arguments, (f, initial_guess), got none ",
    ),
    "custom_linear_solve": (
        lambda: untyped.lax.custom_linear_solve(lambda x: x, 1.0, lambda f: f),
        "custom_linear_solve: solve must take 2 arguments, (matvec, b), got ",
    ),
    "apply": (
        lambda: untyped.numpy.ones(3).at[0].apply(two),
        "apply: func must take 1 argument, got two ",
    ),
    "tree.map": (lambda: untyped.tree.map(two, [1]), "tree.map: f must take 1 argument, got two "),
    "jvp": (lambda: untyped.jvp(two, (1.0,), (1.0,)), "jvp: fun must take 1 argument, got two "),
    "pure_callback": (
        lambda: untyped.pure_callback(none, mgefn.ShapeDtypeStruct((), "float32"), 1.0),
        "pure_callback: callback must take 1 argument, got none ",
    ),
    "apply_along_axis": (
        lambda: untyped.numpy.apply_along_axis(none, 0, x23),
        "apply_along_axis: func1d must take 1 argument, got none "
        "(test_suggestions.py:N), which takes (). Give it that many.",
    ),
    "stateless": (
        lambda: untyped.optim.stateless(none).update(x23, ()),
        "stateless: f must take 2 arguments, got none ",
    ),
    "masked": (
        lambda: optim.masked(optim.sgd(0.1), none).init(x23),
        "masked: mask must take 1 argument, got none ",
    ),
    "value_fn": (
        lambda: after(optim.lbfgs(), x23, value=1.0, grad=x23, value_fn=none),
        "scale_by_zoom_linesearch.update: value_fn must take 1 argument, got none ",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_operation_tells_what_it_calls_a_function_with(name: str) -> None:
    wrong, text = BODIES[name]
    with pytest.raises(ArgumentError) as caught:
        wrong()
    said = re.sub(r"\.py:\d+", ".py:N", str(caught.value))
    assert said.startswith(text)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_wrong_calls_of_the_users_own_stay_as_they_are() -> None:
    def body(carry: Any, x: Any) -> Any:
        return call(two, carry), x

    @functools.wraps(two)
    def unlike(a: Any) -> Any:
        return a

    def recursive(carry: Any, x: Any = None) -> Any:
        return carry if x is None else call(recursive)

    cases = {
        "missing 1 required positional argument: 'b'": lambda: lax.scan(body, 0.0, x23),
        "missing 1 required positional argument: 'carry'": lambda: lax.scan(recursive, 0.0, x23),
        # A function that hides what it takes is not looked at further.
        "takes 1 positional argument but 2 were given": lambda: untyped.lax.scan(unlike, 0.0, x23),
        "unexpected keyword": lambda: lax.scan(lambda c, x: call(two, q=1), 0.0, x23),
        "takes 0 positional arguments but 1 was given": lambda: call(mgefn.jit(none), 1),
    }
    for text, wrong in cases.items():
        with pytest.raises(TypeError, match=text) as caught:
            wrong()
        assert not isinstance(caught.value, ArgumentError), text


def test_other_type_errors_stay_as_they_are() -> None:
    @api_boundary
    def calls_wrongly(f: Any, a: int = 0) -> Any:
        return f(b=a)

    with pytest.raises(TypeError, match=r"unexpected keyword argument 'b'") as caught:
        calls_wrongly(lambda a: a)
    assert not isinstance(caught.value, ArgumentError)
    with pytest.raises(TypeError, match=r"adam\(\) missing 1 required positional argument"):
        optim.adam()  # type: ignore[call-arg]  # the mistake
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'out_features'"):
        nn.Linear(3)  # type: ignore[call-arg]  # the mistake


def test_constructors_keep_their_signatures_and_defaults() -> None:
    assert list(inspect.signature(nn.Conv2d).parameters)[:4] == [
        "in_channels", "out_channels", "kernel_size", "stride",
    ]  # fmt: skip
    assert nn.Conv2d(1, 2, 3) == nn.Conv2d(1, 2, 3, stride=1)
    assert (
        nn.Conv2d(1, 2, 3, weight_init=nn.initializers.zeros).weight_init is nn.initializers.zeros
    )
    assert list(inspect.signature(data.DataLoader).parameters)[:2] == ["dataset", "sampler"]
    assert pickle.loads(pickle.dumps(nn.GRU(3, 4, 2))) == nn.GRU(3, 4, 2)
    assert nn.Sequential(head=nn.relu).layers[0][0] == "head"

    class Wide(nn.Linear):
        """A subclass has the constructor of its base."""

    assert Wide(3, 4).out_features == 4


NAMES = {
    "nn.Dense": (
        nn,
        "Dense",
        r"^module 'mgefn.nn' has no attribute 'Dense'. Did you mean Linear\?",
    ),
    "nn.linaer": (nn, "linaer", r"Did you mean linear\?"),
    "mnp.jit": (mnp, "jit", r"Did you mean mgefn.jit\?"),
    "mnp.concatenat": (mnp, "concatenat", r"Did you mean concatenate\?"),
    "mnp.unsqueeze": (mnp, "unsqueeze", r"Did you mean expand_dims\?"),
    "optim.Adam": (optim, "Adam", r"Did you mean adam\?"),
    "optim.muon": (optim, "muon", r"Did you mean contrib.muon\?"),
    "random.randn": (mgefn.random, "randn", r"Did you mean normal\?"),
    "lax.relu": (lax, "relu", r"Did you mean mgefn.nn.relu\?"),
    "data.TensorDataset": (data, "TensorDataset", r"Did you mean ArrayDataset\?"),
    "mgefn.gradd": (mgefn, "gradd", r"Did you mean grad\?"),
    "mgefn.PRNGKey": (mgefn, "PRNGKey", r"Did you mean mgefn.random.key\?"),
    "mgefn.qqqqq": (mgefn, "qqqqq", r"^module 'mgefn' has no attribute 'qqqqq'\.$"),
    "scipy.specail": (mgefn.scipy, "specail", r"Did you mean special\?"),
    "tree.mapp": (mgefn.tree, "mapp", r"Did you mean map\?"),
    "losses.hubber_loss": (nn.losses, "hubber_loss", r"Did you mean huber_loss\?"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_modules(name: str) -> None:
    module, missing, text = NAMES[name]
    with pytest.raises(MissingNameError, match=text) as caught:
        getattr(module, missing)
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(module, missing)
    assert getattr(module, missing, 3) == 3
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_what_is_missing_cannot_be_imported_and_modules_can() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Dense'"):
        exec("from mgefn.nn import Dense")
    assert importlib.import_module("mgefn.nn.parameters").matching is nn.matching
    assert not hasattr(nn, "__wrapped__")


def resolved(module: Any, path: str) -> Any:
    outside = path.split(".")[0]
    if outside in ("numpy", "sys", "dataclasses", "pickle"):
        module, path = importlib.import_module(outside), path.removeprefix(outside).lstrip(".")
    if path == "mgefn" or path.startswith("mgefn."):
        module, path = mgefn, path.removeprefix("mgefn").lstrip(".")
    for part in path.split("."):
        module = getattr(module, part) if part else module
    return module


@pytest.mark.parametrize("module", suggestions._NAMES)
def test_every_suggestion_is_there_and_every_missing_name_is_missing(module: str) -> None:
    where = importlib.import_module(module)
    for name, meant in suggestions._NAMES[module].items():
        assert name not in dir(where), f"{module}.{name} exists: drop it from the table"
        for part in re.split(r", or | or |, | and ", meant):
            if re.fullmatch(r"[\w.]*\w", part) and not meant.endswith("."):
                assert resolved(where, part) is not None, (name, part)
        named_in_text(meant)


def named_in_text(text: str) -> None:
    """The full names in a text, which must be there."""
    for path in re.findall(r"\b(?:mgefn|numpy|dataclasses|pickle)(?:\.\w+)+", text):
        assert resolved(mgefn, path) is not None, (text, path)


# Names of NumPy that say nothing to somebody who writes a program.
ABOUT_NUMPY_ITSELF = {
    "core": "NumPy's private modules", "lib": "NumPy's private modules",
    "ctypeslib": "tools to build extensions of NumPy", "f2py": "a compiler of Fortran",
    "get_include": "headers of NumPy", "getbufsize": "a buffer of NumPy's loops",
    "setbufsize": "a buffer of NumPy's loops", "show_config": "how NumPy was built",
    "show_runtime": "how NumPy runs", "test": "NumPy's own tests",
}  # fmt: skip


@pytest.mark.parametrize("space", ["", "linalg", "fft"])
def test_every_name_of_numpy_is_there_or_has_an_answer(space: str) -> None:
    theirs = getattr(np, space) if space else np
    ours = getattr(mnp, space) if space else mnp
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that NumPy is about to drop
        public = [n for n in dir(theirs) if not n.startswith("_")]
    lacking = [n for n in public if not hasattr(ours, n) and n not in ABOUT_NUMPY_ITSELF]
    for name in lacking:
        with pytest.raises(MissingNameError) as caught:
            getattr(ours, name)
        text = str(caught.value)
        assert text.count(".") > 2 or "Did you mean" in text, text
        assert suggestions._NAMES["mgefn.numpy"][name], name
    here = [n for n in ABOUT_NUMPY_ITSELF if hasattr(mnp, n)]
    assert not here, "drop them from the list"


OBJECTS = {
    "array": mnp.ones(2),
    "module": nn.Linear(None, 2),
    "optimizer": optim.sgd(0.1),
    "jitted function": mgefn.jit(mnp.sin),
}


@pytest.mark.parametrize("kind", suggestions.ATTRIBUTES)
def test_attributes_of_other_libraries_name_ours(kind: str) -> None:
    x = OBJECTS[kind]
    for name, meant in suggestions.ATTRIBUTES[kind].items():
        assert not hasattr(x, name), f"{kind} has {name}: drop it from the table"
        with pytest.raises(MissingNameError) as caught:
            getattr(x, name)
        text = str(caught.value)
        assert f"object has no attribute {name!r}" in text and meant in text
        assert str(pickle.loads(pickle.dumps(caught.value))) == text
        named_in_text(meant)
        if kind == "array":
            for method in re.findall(r"\bx\.(\w+)", meant):
                assert hasattr(x, method), (name, method)
    if kind != "array":
        with pytest.raises(AttributeError, match="object has no attribute 'nothing_like_it'"):
            x.nothing_like_it  # noqa: B018  # it is the access that raises


def test_what_ndarrays_can_do_arrays_can_or_have_an_answer() -> None:
    lacking = [n for n in dir(np.ndarray) if n[0] != "_" and not hasattr(mnp.ones((2, 2)), n)]
    assert set(lacking) <= suggestions.ATTRIBUTES["array"].keys()


def test_arrays_are_called_arrays() -> None:
    for x in (mnp.ones(2), mnp.asarray(1.0)):
        with pytest.raises(AttributeError, match=r"^'Array' object has no attribute 'summ'"):
            x.summ  # type: ignore[attr-defined]  # noqa: B018  # the mistake
    with pytest.raises(MissingNameError, match=r"Did you mean mgefn\.lax\.stop_gradient"):
        mgefn.jit(lambda x: x.detach())(1.0)


def test_only_what_arrays_have_is_offered_for_completion() -> None:
    x = mnp.ones((2, 2))
    names = [name for name in dir(x) if not name.startswith("_")]
    assert {"at", "shape", "astype", "block_until_ready", "sum", "T"} <= set(names)
    assert all(hasattr(x, name) for name in names)
    assert not set(suggestions.ATTRIBUTES["array"]) & set(names)


def test_views_by_sizes_are_reshapes() -> None:
    for sizes, shown in (((3, 2), "3, 2"), ((-1,), "-1"), ((3, 2, 1), "3, 2, 1")):
        with pytest.raises(ArgumentError, match=rf"^view: takes .*x\.reshape\({shown}\)"):
            call(x23.view, *sizes)
    assert x23.view("int32").dtype == np.int32


def test_a_property_that_fails_tells_its_own_error() -> None:
    class Wide(nn.Module):
        @property
        def width(self) -> int:
            return len(None.shape)  # type: ignore[attr-defined]  # the mistake

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'shape'"):
        Wide().width  # noqa: B018  # it is the access that raises


def test_functions_have_the_methods_of_ufuncs() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for name, method, args, options in (
        ("add", "reduce", (x,), {}), ("add", "reduce", (x, 1), {"keepdims": True}),
        ("multiply", "accumulate", (x, 1), {}), ("subtract", "outer", (x[0], x[1]), {}),
        ("maximum", "reduce", (x,), {"axis": None, "initial": 9.0}),
        ("add", "reduceat", (x[0], [0, 2]), {}), ("logical_or", "reduce", (x > 4,), {}),
        ("add", "reduce", ([1, 2, 3],), {}),
    ):  # fmt: skip
        want = getattr(getattr(np, name), method)(*args, **options)
        got = getattr(getattr(mnp, name), method)(*args, **options)
        assert isinstance(got, mgefn.Array)
        np.testing.assert_allclose(np.asarray(got), want)
    summed = mgefn.jit(lambda a: call(getattr(mnp.add, "reduce"), a, axis=1))(x)  # noqa: B009
    np.testing.assert_allclose(summed, x.sum(1))
    into = np.zeros(3)
    getattr(mnp.add, "at")(into, [0, 0], 1)  # noqa: B009  # type checkers see a function
    assert into.tolist() == [2.0, 0.0, 0.0]
    with pytest.raises(ArgumentError, match=r"immutable\. Write x = x\.at\[indices\]\.add"):
        getattr(mnp.add, "at")(mnp.zeros(3), [0], 1)  # noqa: B009


def test_keywords_with_an_explanation_are_refused_by_their_function() -> None:
    spaces = (mgefn, mnp, nn, optim, data)
    for (function, keyword), text in suggestions._ELSEWHERE.items():
        head, _, method = function.rpartition(".")
        where = [getattr(s, head) for s in spaces if head in dir(s)] if head else spaces
        found = [getattr(s, method) for s in where if method in dir(s)]
        assert found, function
        for f in found:
            parameters = inspect.signature(f).parameters.values()
            named = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
            assert keyword not in named, (function, keyword)
        assert text.endswith("."), text


@pytest.mark.parametrize("wrong", [None, 3, "s"])
def test_what_is_no_function_is_named(wrong):
    x = mnp.ones(3)
    calls = {
        "jvp: fun": lambda: mgefn.jvp(wrong, (x,), (x,)),
        "vjp: fun": lambda: mgefn.vjp(wrong, x),
        "linearize: fun": lambda: mgefn.linearize(wrong, x),
        "eval_shape: needs a function": lambda: mgefn.eval_shape(wrong, x),
        "make_jaxpr: needs a function": lambda: mgefn.make_jaxpr(wrong),
        "tree.map: f": lambda: mgefn.tree.map(wrong, x),
        "reduce: computation": lambda: mgefn.lax.reduce(x, 0.0, wrong, (0,)),
        "custom_root: f": lambda: mgefn.lax.custom_root(wrong, x, wrong, wrong),
        "apply: func": lambda: x.at[0].apply(wrong),
        "apply_along_axis: func1d": lambda: mnp.apply_along_axis(wrong, 0, x),
        "switch: branches": lambda: mgefn.lax.switch(0, wrong, x),
        "switch: branches must be functions": lambda: mgefn.lax.switch(0, [wrong], x),
    }
    for text, call in calls.items():
        with pytest.raises(mgefn.errors.ArgumentError, match=text):
            call()
    with pytest.raises(mgefn.errors.ArgumentError, match="branches must be a sequence"):
        mgefn.lax.switch(0, lambda a: a, x)
    with pytest.raises(mgefn.errors.ArgumentError, match="unroll must be a positive int"):
        mgefn.lax.scan(lambda c, a: (c, a), 0.0, x, unroll="a")
    with pytest.raises(mgefn.errors.ArgumentError, match="batch_size must be an int"):
        mgefn.lax.map(lambda a: a, x, batch_size="a")


def test_a_call_of_what_is_no_function_in_the_users_code_stays_pythons():
    with pytest.raises(TypeError, match="'int' object is not callable") as info:
        mgefn.jvp(lambda x: x.ndim(x), (1.0,), (1.0,))
    assert not isinstance(info.value, mgefn.errors.MgefnError)


def test_a_name_of_another_module_is_found_there():
    for module, name, meant in (
        (nn, "sigmoid_binary_cross_entropy", "mgefn.nn.losses.sigmoid_binary_cross_entropy"),
        (optim, "relu", "mgefn.nn.relu"),
        (nn, "adam", "mgefn.optim.adam"),
        (lax, "einsum", "mgefn.numpy.einsum"),
        (mnp, "fori_loop", "mgefn.lax.fori_loop"),
    ):
        nn.losses.log_cosh, nn.relu, optim.adam  # noqa: B018  # what is loaded is looked at
        with pytest.raises(MissingNameError, match=rf"Did you mean {re.escape(meant)}\?$"):
            getattr(module, name)
