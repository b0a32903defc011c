"""What is no number or no optimizer is refused when an optimizer is made of it."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import nn, optim, training, tree
from mgefn.errors import ArgumentError, ShapeError, TreeError
from tests.test_pickling import PUBLIC, is_maker, sample

MAKERS = {n: f for n, f in PUBLIC.items() if n.startswith("optim") and is_maker(f)}
NUMBERS = {"float", "int", "ScalarOrSchedule", "ArrayLike"}


def parameters(kinds: set[str]) -> list[tuple[str, str]]:
    return [
        (name, p.name)
        for name, f in MAKERS.items()
        for p in inspect.signature(f).parameters.values()
        if str(p.annotation).removesuffix(" | None") in kinds
    ]


def call_with(name: str, parameter: str, value: Any) -> Any:
    """A call whose other arguments are right."""
    args, kwargs, rest = [], {}, []
    for p in inspect.signature(MAKERS[name]).parameters.values():
        given = value if p.name == parameter else sample(p)
        if p.kind is p.VAR_POSITIONAL:
            rest = [given]
        elif p.name == parameter or p.default is p.empty:
            if p.default is p.empty and p.kind is not p.KEYWORD_ONLY:
                args.append(given)
            else:
                kwargs[p.name] = given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MAKERS[name](*args, *rest, **kwargs)


@pytest.mark.parametrize(("name", "parameter"), parameters(NUMBERS))
def test_text_is_no_number(name: str, parameter: str) -> None:
    short = name.split(".")[-1].replace("inject_hyperparams", "inject_stateful_hyperparams")
    with pytest.raises(ArgumentError, match=rf"^{short}: {parameter} must be a number") as caught:
        call_with(name, parameter, "1e-3")
    assert f"Pass the number itself: {parameter}=0.001." in str(caught.value)


@pytest.mark.parametrize(("name", "parameter"), parameters({"float", "int"}))
def test_a_function_is_no_number(name: str, parameter: str) -> None:
    with pytest.raises(ArgumentError, match=f"{parameter} must be a number, got the function abs"):
        call_with(name, parameter, abs)


@pytest.mark.parametrize(("name", "parameter"), parameters({"GradientTransformation"}))
def test_a_factory_is_no_optimizer(name: str, parameter: str) -> None:
    with pytest.raises(ArgumentError, match=r"must be an optimizer, got the function adam\. Call"):
        call_with(name, parameter, optim.adam)


make: Any = optim  # of which type checkers know nothing
MISTAKES = {
    "text": (lambda: make.adam("fast"), "got 'fast'. Pass one, such as learning_rate=0.001."),
    "None": (lambda: make.adam(None), "got None. Pass one"),
    "list": (lambda: make.sgd([0.1]), "got a list of 1"),
    "maker": (
        lambda: make.adam(optim.cosine_decay_schedule),
        "Call it, if it makes a schedule: learning_rate=cosine_decay_schedule(...).",
    ),
    "maker of one argument": (lambda: make.adam(optim.constant_schedule), "Call it, if"),
    "function of two": (lambda: make.adam(lambda a, b: 1), "of the number of the step alone"),
    "class": (lambda: make.adam(dict), "got the function dict"),
    "array of text": (lambda: make.adam(np.array("x")), "must be a number or a schedule"),
    "chain of a list": (lambda: make.chain([make.sgd(1.0)]), "one by one: chain(*parts)"),
    "chain of a number": (lambda: make.chain(make.sgd(1.0), 0.1), "each argument must be an opt"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, text = MISTAKES[name]
    with pytest.raises(ArgumentError, match=re.escape(text)):
        call()


def test_what_is_right_is_taken() -> None:
    rates = [
        1,
        0.1,
        np.float32(0.1),
        mnp.float32(0.1),
        np.array(0.1),
        lambda step: 0.1 / (step + 1),
    ]
    for rate in rates:
        opt = optim.adam(rate)
        assert opt.update(mnp.ones(2), opt.init(mnp.ones(2)))[0].shape == (2,)
    assert optim.sgd(0.1, momentum=None).init(mnp.ones(2)) is not None
    assert optim.lbfgs(0.1, linesearch=None).init(mnp.ones(2)) is not None
    step = optim.inject_hyperparams(optim.adam)(lambda step: 0.1)
    assert step.update(mnp.ones(2), step.init(mnp.ones(2)))[0].shape == (2,)


PARAMS = {"dict": {"w": mnp.ones(3)}, "array": mnp.ones(3), "pair": (mnp.ones(3), mnp.ones(3))}


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
@pytest.mark.parametrize("make", [optim.adam, optim.sgd, lambda rate: optim.chain(optim.sgd(rate))])
def test_the_pair_of_update_is_no_updates(make: Any, params: Any) -> None:
    opt = make(0.1)
    pair = opt.update(params, opt.init(params), params)
    with pytest.raises(TreeError, match=r"^apply_updates: .* updates, state = optimizer.update\("):
        optim.apply_updates(params, pair)
    np.testing.assert_array_less(
        tree.leaves(optim.apply_updates(params, pair[0]))[0], tree.leaves(params)[0]
    )


def test_updates_of_another_structure() -> None:
    with pytest.raises(TreeError, match=r"^apply_updates: .*params has dict with keys \['w'\]"):
        optim.apply_updates({"w": mnp.ones(3)}, {"v": mnp.ones(3)})
    params = {"w": mnp.ones(3), "b": (mnp.ones(2), mnp.ones(2))}
    kept = optim.apply_updates(params, {"w": mnp.ones(3), "b": None})
    assert kept["b"] == params["b"]
    assert optim.apply_updates(params, None) == params


# -- trees and shapes that do not fit -------------------------------------------------------------

PARAMS = {"w": mnp.ones((3, 2)), "b": mnp.ones(2)}
BROADCASTS = [
    ({"w": mnp.ones(2), "b": mnp.ones(2)}, "w", r"f32\[2\] for f32\[3,2\]"),
    ({"w": mnp.ones((3, 2)), "b": mnp.ones((1, 2))}, "b", r"f32\[1,2\] for f32\[2\]"),
    ({"w": mnp.ones(()), "b": mnp.ones(2)}, "w", r"f32\[\] for f32\[3,2\]"),
    ({"w": np.ones((3, 2)), "b": np.ones((3, 2))}, "b", r"shape \(3, 2\) for f32\[2\]"),
]
AGAINST_PARAMS = {
    "apply_updates: updates": lambda u: optim.apply_updates(PARAMS, u),
    "incremental_update: new_tensors": lambda u: optim.incremental_update(u, PARAMS, 0.1),
    "sgd.update: grads": lambda u: _updated(optim.sgd(0.1), u),
    "adam.update: grads": lambda u: _updated(optim.adam(0.1), u),
    "adamw.update: grads": lambda u: _updated(optim.adamw(0.1), u),
    "TrainState.apply_gradients: grads": lambda u: training.TrainState.create(
        PARAMS, optim.sgd(0.1)
    ).apply_gradients(u),
    "EMA.update: params": lambda u: training.EMA.create(PARAMS, decay=0.9).update(u),
}


def _updated(opt: Any, grads: Any) -> Any:
    return opt.update(grads, opt.init(PARAMS), PARAMS)


@pytest.mark.parametrize("name", AGAINST_PARAMS)
@pytest.mark.parametrize("wrong", BROADCASTS, ids=str)
def test_shapes_that_broadcast_are_refused(name: str, wrong: Any) -> None:
    tree_, leaf, shapes = wrong
    text = rf"^{re.escape(name)} must have the shapes of .*, got {shapes} at \['{leaf}'\]\."
    with pytest.raises(ShapeError, match=text):
        AGAINST_PARAMS[name](tree_)
    with pytest.raises(ShapeError, match=text):
        mgefn.jit(lambda: AGAINST_PARAMS[name](tree_))()


@pytest.mark.parametrize("name", AGAINST_PARAMS)
def test_trees_of_another_structure_name_the_operation(name: str) -> None:
    with pytest.raises(TreeError, match=rf"^{re.escape(name)} must have the structure of .*'w'"):
        AGAINST_PARAMS[name]({"w": mnp.ones((3, 2))})


def test_flax_like_states_refuse_them_too() -> None:
    state = nn.TrainState.create(apply_fn=mnp.sin, params=PARAMS, tx=optim.sgd(0.1))
    with pytest.raises(ShapeError, match=r"^TrainState.apply_gradients: grads must have the shape"):
        state.apply_gradients(grads={"w": mnp.ones(2), "b": mnp.ones(2)})


def test_a_lone_array_is_named() -> None:
    with pytest.raises(ShapeError, match=r"got f32\[1\] for f32\[3\] at the only leaf\."):
        optim.apply_updates(mnp.ones(3), mnp.ones(1))


def test_leaves_that_are_none_stay_as_they_are() -> None:
    new = optim.apply_updates(PARAMS, {"w": None, "b": mnp.ones(2)})
    assert new["w"].tolist() == PARAMS["w"].tolist()
    assert new["b"].tolist() == [2.0, 2.0]
    assert optim.apply_updates(PARAMS, None) is not None


def test_a_mask_that_is_no_prefix_names_the_optimizer() -> None:
    for opt, name in (
        (optim.adamw(1e-3, mask={"w": True}), "adamw"),
        (optim.masked(optim.sgd(1.0), {"w": True}), "masked"),
        (optim.freeze({"w": True}), "masked"),
    ):
        with pytest.raises(TreeError, match=rf"^{name}: mask .*"):
            opt.init(PARAMS)


@pytest.mark.parametrize("wrong", [optim.adam, {"w": 1.0}, None, 3])
def test_what_wraps_optimizers_names_itself(wrong: Any) -> None:
    for make, text in (
        (lambda: optim.MultiSteps(wrong, 2), r"^MultiSteps: opt must be an optimizer"),
        (
            lambda: optim.partition({"a": wrong}, "a"),
            r"^partition: transforms\['a'\] must be an op",
        ),
        (lambda: optim.named_chain(("a", wrong)), r"^named_chain: the transformation 'a' must be"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
