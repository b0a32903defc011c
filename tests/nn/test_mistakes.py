"""What people do wrong at first, and what they are told: labels, widths, init and apply."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import nn, random
from mgefn.errors import ArgumentError, IndexOutOfBoundsError, MgefnError, ShapeError
from mgefn.nn import losses

KEY = random.key(0)
LOGITS = mnp.array([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0], [1.0, 1.0, 1.0]])

# -- labels that are no class ----------------------------------------------------------------------

BY_LABEL: dict[str, Callable[[Any], Any]] = {
    "softmax_cross_entropy_with_integer_labels": lambda y: (
        losses.softmax_cross_entropy_with_integer_labels(LOGITS, y)
    ),
    "cross_entropy": lambda y: losses.cross_entropy(LOGITS, y, reduction="none"),
    "nll_loss": lambda y: losses.nll_loss(LOGITS, y),
    "embedding": lambda y: nn.embedding(y, LOGITS),
    "Embedding": lambda y: nn.Embedding(3, 3).apply({"weight": LOGITS}, {}, y)[0],
}


@pytest.mark.parametrize("name", BY_LABEL)
@pytest.mark.parametrize("wrong", [3, 100, -4, -100])
def test_a_number_of_no_class_is_an_error(name: str, wrong: int) -> None:
    f = BY_LABEL[name]
    text = rf"must number 3 (classes|rows of the table) .*, got {wrong}\."
    with pytest.raises(IndexOutOfBoundsError, match=f"^{name.lower()}: .*{text}"):
        f(mnp.array([0, wrong, 1]))
    with pytest.raises(IndexOutOfBoundsError, match=text):
        f(np.array([0, wrong, 1], "int64"))
    # Where labels are not known the row is NaN, and the others are right.
    known, traced = f(mnp.array([0, 0, 1])), mgefn.jit(f)(mnp.array([0, wrong, 1]))
    assert np.isnan(traced[1]).all()
    np.testing.assert_allclose(traced[::2], known[::2], rtol=1e-6)
    assert np.isnan(mgefn.jit(f)(mnp.array([0, wrong, 1]))[1]).all()


@pytest.mark.parametrize("name", BY_LABEL)
def test_negative_labels_count_from_the_end(name: str) -> None:
    f = BY_LABEL[name]
    for dtype in ("int8", "int32", "int64"):
        y = mnp.array([-1, -3, -2], dtype)
        np.testing.assert_array_equal(f(y), f(y + 3))
    np.testing.assert_array_equal(f(mnp.array([2, 0, 1], "uint8")), f(mnp.array([2, 0, 1])))


def test_labels_are_looked_at_under_grad_and_not_under_vmap() -> None:
    def loss(x: Any, y: Any) -> Any:
        return losses.softmax_cross_entropy_with_integer_labels(x, y).sum()

    y = mnp.array([0, 3, 1])
    with pytest.raises(IndexOutOfBoundsError, match=r"got 3\. Correct labels, or leave"):
        mgefn.grad(loss)(LOGITS, y)
    each = mgefn.vmap(losses.softmax_cross_entropy_with_integer_labels)(LOGITS, y)
    np.testing.assert_array_equal(np.isnan(each), [False, True, False])


def test_rows_that_do_not_count_may_have_any_label() -> None:
    f = losses.softmax_cross_entropy_with_integer_labels
    y = mnp.array([0, -100, 1])
    np.testing.assert_array_equal(
        f(LOGITS, y, where=y >= 0), f(LOGITS, y * (y > 0)) * mnp.array([1, 0, 1])
    )
    with pytest.raises(IndexOutOfBoundsError, match="got -100"):
        f(LOGITS, y, where=y < 1)
    assert f(LOGITS[:0], y[:0]).shape == (0,)


def test_labels_behind_the_paddings_of_ctc_may_be_any() -> None:
    logits = random.normal(KEY, (1, 4, 3))
    ends, label_ends = mnp.zeros((1, 4)), mnp.array([[0, 0, 1]])
    want = losses.ctc_loss(logits, ends, mnp.array([[1, 2, 0]]), label_ends)
    for padding in (99, -100):
        y = mnp.array([[1, 2, padding]])
        np.testing.assert_array_equal(losses.ctc_loss(logits, ends, y, label_ends), want)
    with pytest.raises(IndexOutOfBoundsError, match=r"ctc_loss: labels must number 3 .*got 3"):
        losses.ctc_loss(logits, ends, mnp.array([[1, 3, 0]]), label_ends)


def test_finite_losses_stay_finite() -> None:
    """With labels by one-hot vectors optax has numbers, which ported programs may rely on."""
    y = mnp.array([0, 7, -1])
    for f in (losses.multiclass_hinge_loss, losses.multiclass_perceptron_loss):
        assert np.isfinite(np.asarray(f(LOGITS, y))).all()


# -- inputs of another width -----------------------------------------------------------------------

x4, x5 = mnp.ones((2, 4)), mnp.ones((2, 5))
l4, l5 = x4[..., None], x5[..., None]
i4, i5, i6 = (mnp.ones((2, n, 7, 7)) for n in (4, 5, 6))
s4, s5 = mnp.ones((3, 2, 4)), mnp.ones((3, 2, 5))
s8, s12 = mnp.ones((2, 3, 8)), mnp.ones((2, 3, 12))

# name -> (layer without the size, the layer with it, the field, inputs, inputs of another width)
WIDTHS: dict[str, tuple[nn.Module, nn.Module | None, str, Any, Any]] = {
    "Linear": (nn.Linear(None, 3), nn.Linear(4, 3), "in_features", x4, x5),
    "LoRALinear": (nn.LoRALinear(None, 3), nn.LoRALinear(4, 3), "in_features", x4, x5),
    "Conv1d": (nn.Conv1d(None, 3, 1), nn.Conv1d(4, 3, 1), "in_channels", l4, l5),
    "Conv2d": (nn.Conv2d(None, 3, 3), nn.Conv2d(4, 3, 3), "in_channels", i4, i5),
    "Conv2d in groups": (nn.Conv2d(None, 6, 3, groups=2), None, "in_channels", i4, i6),
    "ConvTranspose2d": (
        nn.ConvTranspose2d(None, 3, 3), nn.ConvTranspose2d(4, 3, 3), "in_channels", i4, i5,
    ),
    "BatchNorm2d": (nn.BatchNorm2d(), nn.BatchNorm2d(4), "num_features", i4, i5),
    "BatchNorm2d without affine": (nn.BatchNorm2d(affine=False), None, "num_features", i4, i5),
    "GroupNorm": (nn.GroupNorm(1), nn.GroupNorm(1, 4), "num_channels", i4, i5),
    "InstanceNorm": (nn.InstanceNorm(), nn.InstanceNorm(4), "num_channels", i4, i5),
    "LayerNorm": (nn.LayerNorm(), nn.LayerNorm(4), "normalized_shape", x4, x5),
    "RMSNorm": (nn.RMSNorm(), nn.RMSNorm(4), "shape", x4, x5),
    "GRUCell": (nn.GRUCell(None, 3), nn.GRUCell(4, 3), "input_size", x4, x5),
    "LSTM": (nn.LSTM(None, 3), nn.LSTM(4, 3), "input_size", s4, s5),
    "MultiHeadAttention": (
        nn.MultiHeadAttention(None, 2), nn.MultiHeadAttention(8, 2), "embed_dim", s8, s12,
    ),
    "TransformerEncoderLayer": (
        nn.TransformerEncoderLayer(None, 2), nn.TransformerEncoderLayer(8, 2), "dims", s8, s12,
    ),
    "TransformerEncoder": (
        nn.TransformerEncoder(1, None, 2), nn.TransformerEncoder(1, 8, 2), "dims", s8, s12,
    ),
    "MLP": (nn.MLP(None, 2, 3, 1), nn.MLP(4, 2, 3, 1), "in_features", x4, x5),
    "Sequential": (
        nn.Sequential(nn.Linear(None, 3)), nn.Sequential(nn.Linear(4, 3)), "in_features", x4, x5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("wrap", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_inputs_of_another_width(name: str, wrap: Any) -> None:
    free, fixed, field, right, wrong = WIDTHS[name]
    was, now = str(right.aval), str(wrong.aval)
    for layer in (free, fixed):
        if layer is None:
            continue
        params, state = layer.init(KEY, right)
        wrap(lambda x, m=layer, p=params, s=state: m.apply(p, s, x)[0])(right)
        with pytest.raises(ShapeError) as caught:
            wrap(lambda x, m=layer, p=params, s=state: m.apply(p, s, x)[0])(wrong)
        text = str(caught.value)
        assert f"{field} is " in text, text
        assert now in text, text
        assert was not in text
        assert ("in the parameters" in text) is (layer is free), text
        assert "Pass inputs with" in text


def test_the_message_has_the_path_the_width_the_input_and_the_repair() -> None:
    model = nn.Sequential(nn.Linear(None, 3), head=nn.Linear(None, 2))
    params, state = model.init(KEY, x4)
    with pytest.raises(ShapeError) as caught:
        model.apply(params, state, x5)
    assert str(caught.value) == (
        "Sequential.0 (Linear): in_features is 4 in the parameters, got an input f32[2,5] with 5 "
        "in dimension -1. Pass inputs with 4 there, or call init with an input like this one."
    )
    with pytest.raises(ShapeError) as caught:
        nn.Linear(4, 2).init(KEY, x5)
    assert str(caught.value) == (
        "Linear: in_features is 4, got an input f32[2,5] with 5 in dimension -1. Pass inputs with "
        "4 there, or make the layer with in_features=5."
    )


@dataclasses.dataclass(frozen=True)
class Own(nn.Module):
    """A layer as users write them, which does not check its inputs."""

    def forward(self, run: nn.Run, x: Any, scale: Any = 1.0) -> Any:
        w = run.param("w", nn.initializers.ones, (mnp.shape(x)[-1], 2))
        return scale * (x @ w)


def test_layers_of_users_tell_the_inputs_too() -> None:
    params, state = Own().init(KEY, x4)
    with pytest.raises(ShapeError, match=r"Own: param 'w' must have shape \(5, 2\) for inputs "
                       r"\(f32\[2,5\]\), got \(4, 2\)\. Pass inputs like those"):  # fmt: skip
        Own().apply(params, state, x5)


def test_inputs_without_the_dimension() -> None:
    for layer in (nn.Linear(None, 2), nn.LoRALinear(None, 2), nn.GRUCell(None, 2), nn.LayerNorm()):
        with pytest.raises(ShapeError, match=r"needs an input with a dimension -1"):
            layer.init(KEY, 1.0)


# -- init and apply --------------------------------------------------------------------------------

MODEL = nn.Sequential(nn.Linear(None, 3), nn.Dropout(0.5), nn.BatchNorm())
PARAMS, STATE = MODEL.init(KEY, x4)

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "params as key": (
        lambda: MODEL.init(PARAMS, x4),  # type: ignore[arg-type]  # the mistake
        r"^Sequential.init: key must be a random key, got dict, as if it were parameters\. Pass",
    ),
    "the pair as key": (
        lambda: MODEL.init((PARAMS, STATE), x4),  # type: ignore[arg-type]  # the mistake
        r"key must be a random key, got a tuple of 2, as if",
    ),
    "a seed as key": (lambda: MODEL.init(0, x4), r"key must be a random key, got int\. Pass mgefn"),
    "inputs and key in the wrong order": (
        lambda: MODEL.init(x4, KEY),
        r"key must be a random key, got f32\[2,4\]\. Pass mgefn.random.key\(0\), and inputs after",
    ),
    "a batch of keys": (lambda: MODEL.init(random.split(KEY, 3), x4), r"must be a random key, got"),
    "no key": (lambda: MODEL.init(None, x4), r"must be a random key, got None"),  # type: ignore[arg-type]
    "init without inputs": (
        lambda: MODEL.init(KEY),
        r"^Sequential: forward takes \(x\), got 0 inputs\. Pass the inputs after the key of init",
    ),
    "init with too many inputs": (
        lambda: nn.Linear(None, 2).init(KEY, x4, x4),
        r"^Linear: forward takes \(x\), got 2 inputs\.",
    ),
    "the pair as params": (
        lambda: MODEL.apply((PARAMS, STATE), x4),  # type: ignore[arg-type]  # the mistake
        r"^Sequential.apply: params must be the dict that init gave, got the pair \(params, state\)"
        r"\. Take it apart",
    ),
    "the state forgotten": (
        lambda: MODEL.apply(PARAMS, x4),  # type: ignore[arg-type]  # the mistake
        r"apply: state must be the dict that init gave, got f32\[2,4\]\. Pass params, state, and",
    ),
    "no inputs": (
        lambda: MODEL.apply(PARAMS, STATE),
        r"^Sequential: forward takes \(x\), got 0 inputs\.",
    ),
    "params and state swapped": (
        lambda: nn.BatchNorm(affine=True).apply(*reversed(nn.BatchNorm().init(KEY, x4)), x4),
        r"^BatchNorm: needs param 'weight', .*Params and state have changed places",
    ),
    "variables of flax": (
        lambda: nn.Linear(None, 2).apply({"params": nn.Linear(None, 2).init(KEY, x4)[0]}, {}, x4),
        r"needs param 'weight', got \['params'\]\. Pass the parameters themselves",
    ),
    "an array where a dict of a layer stands": (
        lambda: MODEL.apply({"0": x4}, STATE, x4),
        r"^Sequential.0: needs param 'weight', got Array|needs param 'weight', got ConcreteArray",
    ),
    "dropout without a key": (
        lambda: MODEL.apply(PARAMS, STATE, x4, train=True),
        r"^Sequential.1 \(Dropout\): needs a random key when training, got none\. Pass key=random",
    ),
    "a seed for apply": (
        lambda: MODEL.apply(PARAMS, STATE, x4, key=0, train=True),
        r"^Sequential.apply: key must be a random key, got int\.",
    ),
    "rngs of flax": (
        lambda: MODEL.apply(PARAMS, STATE, x4, rngs={"dropout": KEY}),
        r"^Sequential: keywords must be among x, key, train, got 'rngs'\. Did you mean key\?",
    ),
    "deterministic of flax": (
        lambda: MODEL.apply(PARAMS, STATE, x4, deterministic=True),
        r"got 'deterministic'\. Did you mean train\?",
    ),
    "a keyword of nobody": (
        lambda: nn.init(Own(), KEY, x4, scales=2),
        r"^Own: keywords must be among x, scale, key, train, got 'scales'\. Did you mean scale\?",
    ),
    "a module that is called": (
        lambda: MODEL(x4),
        r"^Sequential: a module holds no parameters and is not called\. Call its apply\(params, st",
    ),
    "a class in the place of a module": (
        lambda: nn.Sequential(nn.ReLU),
        r"^Sequential: needs modules or functions, got the class ReLU\. Make a module of it: ReLU",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_with_init_and_apply(name: str) -> None:
    call, text = MISTAKES[name]
    with pytest.raises(ArgumentError, match=text):
        call()


def test_keys_that_are_keys() -> None:
    """Words of a key, keys under jit and vmap, and shapes in the place of arrays."""
    words = random.key_data(KEY)
    same = nn.Linear(None, 2).init(words, x4)[0]["weight"]
    np.testing.assert_array_equal(same, nn.Linear(None, 2).init(KEY, x4)[0]["weight"])
    many = mgefn.vmap(lambda k: nn.Linear(None, 2).init(k, x4)[0])(random.split(KEY, 3))
    assert many["weight"].shape == (3, 2, 4)
    mgefn.eval_shape(lambda k: nn.Linear(None, 2).init(k, x4), KEY)


def test_an_error_inside_of_forward_stays_what_it_is() -> None:
    class Broken(nn.Module):
        def forward(self, run: nn.Run, x: Any) -> Any:
            return len(3)  # type: ignore[arg-type]  # the error

    with pytest.raises(TypeError, match="has no len") as caught:
        Broken().init(KEY, x4)
    assert not isinstance(caught.value, MgefnError)


def test_a_step_of_training_with_a_key_of_its_own() -> None:
    y, new = MODEL.apply(PARAMS, STATE, x4, key=KEY, train=True)
    assert y.shape == (2, 3)
    assert set(new) == set(STATE)


# -- patterns that match nothing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("0", r"Did you mean '0\.\*'\?"),
        ("0/weight", r"Did you mean '0\.weight'\?"),
        ("params.0.weight", r"Did you mean '0\.weight'\?"),
        ("weight", r"Did you mean '\*weight'\?"),
        ("Weight", r"`\*` stands for any characters; nn\.named_parameters lists all names"),
    ],
)
def test_a_pattern_that_matches_no_name(pattern: str, meant: str) -> None:
    with pytest.raises(ArgumentError, match=r"^matching: pattern must match a name, got '.*' for "
                       r"0\.bias, 0\.weight, 2\.bias, 2\.weight\. " + meant):  # fmt: skip
        nn.matching(PARAMS, pattern)


def test_patterns_shorten_long_lists_and_allow_trees_without_names() -> None:
    with pytest.raises(ArgumentError, match=r"0\.0, 1\.0, 2\.0, 3\.0, 4\.0, 5\.0 and 4 more\."):
        nn.matching([[1.0]] * 10, "x")
    assert nn.matching({}, "*") == {}
    with pytest.raises(ArgumentError, match="must be a string, got a tuple of 1"):
        nn.matching(PARAMS, ("0",))  # type: ignore[arg-type]  # the mistake
    assert nn.matching(PARAMS, "2.*")["2"] == {"weight": True, "bias": True}


def test_every_name_has_one_file_that_lends_it() -> None:
    """The table of names by file agrees with the imports that type checkers read."""
    source = ast.parse(Path(nn.__file__).read_text())
    guard = next(x for x in source.body if isinstance(x, ast.If))
    imported = {
        alias.name: node.module.rpartition(".")[2]
        for node in guard.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    folders = {name for name, module in imported.items() if module == "nn"}
    assert folders == set(nn._FOLDERS)
    assert {k: v for k, v in imported.items() if k not in folders} == nn._LENDERS
    assert set(nn._LENDERS) <= set(nn.__all__)
    for name in nn.__all__:
        assert getattr(nn, name) is not None


def test_an_activation_does_not_load_the_layers() -> None:
    code = (
        "import sys, mgefn; mgefn.nn.gelu\n"
        "print(sorted(m for m in sys.modules if m.startswith('mgefn.nn.') and 'layers' in m))\n"
        "mgefn.nn.Linear(2, 3); from mgefn.nn import Conv2d, losses\n"
        "assert 'Conv2d' in dir(mgefn.nn) and not hasattr(mgefn.nn, 'NoSuchLayer')"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


# -- modules that are written wrongly ------------------------------------------------------------


class _Forgotten(nn.Module):
    n: int = 3

    def forward(self, run: Any, x: Any) -> Any:
        return run("layer", nn.Linear(None, self.n), x)


class _Unset(nn.Module):
    n: int

    def forward(self, run: Any, x: Any) -> Any:
        return x * self.n


class _Plain(nn.Module):
    def forward(self, run: Any, x: Any) -> Any:
        return x


class _ByHand(nn.Module):
    n: int

    def __init__(self, n: int) -> None:
        self.n = n

    def forward(self, run: Any, x: Any) -> Any:
        return x * self.n


@dataclasses.dataclass(frozen=True)
class _Decorated(nn.Module):
    n: int = 3


class _FieldOnTop(_Decorated):
    m: int = 4


class _WithoutRun(nn.Module):
    def forward(self, x: Any) -> Any:  # type: ignore[override]  # the mistake
        return x


class _WithoutName(nn.Module):
    def forward(self, run: Any, x: Any) -> Any:
        return run(nn.Linear(2, 2), x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: _Forgotten(4),  # type: ignore[call-arg]  # the mistake
        lambda: _Forgotten(n=4),  # type: ignore[call-arg]  # the mistake
        lambda: _Unset(),
        lambda: _FieldOnTop(1, 2),  # type: ignore[call-arg]  # the mistake
        lambda: _Plain(4),  # type: ignore[call-arg]  # the mistake
        lambda: _Plain(n=4),  # type: ignore[call-arg]  # the mistake
    ],
)
def test_a_module_without_its_decorator_takes_no_arguments(make: Callable[[], Any]) -> None:
    text = r"[Dd]ecorate (it|the class) with @dataclasses\.dataclass\(frozen=True\)"
    with pytest.raises(ArgumentError, match=text):
        make()


def test_modules_that_set_their_fields_are_taken() -> None:
    assert _ByHand(4).apply({}, {}, x4)[0].shape == (2, 4)
    assert _Forgotten().n == 3  # the default of the class is what it says
    assert _Plain().apply({}, {}, x4)[0].shape == (2, 4)
    assert (_Decorated(5).n, _FieldOnTop().m) == (5, 4)


WRITTEN_WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "forward without run": (
        lambda: _WithoutRun().init(KEY, x4),
        r"^_WithoutRun: forward must take run before its inputs, got forward\(self, x\)\. Write "
        r"forward\(self, run, x\)",
    ),
    "run without a name": (
        lambda: _WithoutName().init(KEY, mnp.ones((1, 2))),
        r"^_WithoutName: run needs a name before the module, got Linear\(in_features=2, out_featu"
        r"res=2\)\. Write run\('name', module, x\)",
    ),
    "no size": (
        lambda: nn.Linear(3, None),  # type: ignore[arg-type]  # the mistake
        r"^Linear: out_features must be an integer of 0 or more, got None\. Pass one\.",
    ),
    "a float as size": (
        lambda: nn.Linear(3, 2.0),  # type: ignore[arg-type]  # the mistake
        r"^Linear: out_features must be an integer of 0 or more, got 2\.0\. Write 2\.",
    ),
    "no number as size": (
        lambda: nn.Linear(3, float("nan")),  # type: ignore[arg-type]  # the mistake
        r"^Linear: out_features must be an integer of 0 or more, got nan\. Pass one\.",
    ),
    "a negative size": (lambda: nn.Linear(-1, 2), r"^Linear: in_features .* 0 or more, got -1\."),
    "no step": (lambda: nn.Conv2d(1, 2, 3, stride=0), r"^Conv2d: stride .* 1 or more, got 0\."),
    "no step in one dimension": (
        lambda: nn.Conv2d(1, 2, 3, stride=(1, 0)),
        r"^Conv2d: stride must be an integer of 1 or more, got 0\.",
    ),
    "no window": (lambda: nn.MaxPool2d(0), r"^MaxPool2d: kernel_size .* 1 or more, got 0\."),
    "no group": (lambda: nn.Conv1d(1, 2, 3, groups=0), r"^Conv1d: groups .* 1 or more, got 0\."),
    "text as a size": (
        lambda: nn.Embedding("10", 3),  # type: ignore[arg-type]  # the mistake
        r"^Embedding: num_embeddings must be an integer of 0 or more, got 10\.",
    ),
    "a percentage": (lambda: nn.Dropout(50), r"^Dropout: drop_prob must be in \[0, 1\], got 50\."),
    "more than all": (lambda: nn.Dropout2d(1.5), r"^Dropout2d: p must be in \[0, 1\], got 1\.5\."),
    "less than none": (lambda: nn.LSTM(3, 4, dropout=-0.1), r"^LSTM: dropout must be in \[0, 1\]"),
    "no probability": (
        lambda: nn.Dropout(None),  # type: ignore[arg-type]  # the mistake
        r"^Dropout: drop_prob must be a number in \[0, 1\], got None\.",
    ),
}


@pytest.mark.parametrize("name", WRITTEN_WRONG)
def test_mistakes_in_modules(name: str) -> None:
    call, text = WRITTEN_WRONG[name]
    with pytest.raises(ArgumentError, match=text):
        call()


def test_sizes_of_any_integer_type_are_taken() -> None:
    three: Any = np.int64(3)
    two: Any = mnp.asarray(2)
    assert nn.Linear(three, two).init(KEY, mnp.ones(3))[0]["weight"].shape == (2, 3)
    assert nn.Linear(3, 0).init(KEY, mnp.ones(3))[0]["weight"].shape == (0, 3)
    assert nn.Dropout(1).apply({}, {}, x4, train=True, key=KEY)[0].tolist() == [[0.0] * 4] * 2


IMAGES = mnp.ones((2, 3, 8, 8))
TOO_LARGE: dict[str, Callable[[Any], Any]] = {
    "Conv2d": lambda x: nn.Conv2d(None, 4, 9).init(KEY, x),
    "Conv2d with dilation": lambda x: nn.Conv2d(None, 4, 3, dilation=4).init(KEY, x),
    "conv2d": lambda x: nn.conv2d(x, mnp.ones((1, 3, 1, 9))),
    "MaxPool2d": lambda x: nn.MaxPool2d(16).apply({}, {}, x)[0],
    "AvgPool2d": lambda x: nn.AvgPool2d(9, padding=0).apply({}, {}, x)[0],
    "unfold": lambda x: nn.unfold(x, 9),
    "max_pool": lambda x: nn.max_pool(x, (9, 9)),
    "avg_pool": lambda x: nn.avg_pool(x, (4, 9)),
    "pool": lambda x: nn.pool(x, 1.0, mgefn.lax.mul, (9, 9)),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_window_larger_than_the_image_is_refused(name: str) -> None:
    x = mnp.moveaxis(IMAGES, 1, -1) if name in ("max_pool", "avg_pool", "pool") else IMAGES
    with pytest.raises(ShapeError, match=r"the window must fit into the padded image, got kernel"):
        TOO_LARGE[name](x)


def test_windows_that_just_fit_and_images_without_elements_are_taken() -> None:
    assert nn.conv2d(IMAGES, mnp.ones((1, 3, 8, 8))).shape == (2, 1, 1, 1)
    assert nn.conv2d(IMAGES, mnp.ones((1, 3, 9, 9)), padding=1).shape == (2, 1, 2, 2)
    assert nn.conv2d(IMAGES[:0], mnp.ones((1, 3, 3, 3))).shape == (0, 1, 6, 6)
    assert nn.max_pool2d(IMAGES, 8).shape == (2, 3, 1, 1)
    empty = mgefn.lax.reduce_window(IMAGES, 0.0, mgefn.lax.add, (1, 1, 9, 9), (1,) * 4, "VALID")
    assert empty.shape == (2, 3, 0, 0)  # JAX's lax gives nothing for nothing


def test_unflatten_undoes_flatten() -> None:
    flat = nn.Flatten().apply({}, {}, IMAGES)[0]
    assert nn.Unflatten(1, (3, 8, -1)).apply({}, {}, flat)[0].shape == IMAGES.shape
    assert nn.Unflatten(0, (2, -1)).apply({}, {}, mnp.ones((0, 3)))[0].shape == (2, 0, 3)
    for shape in ((3, 5), (-1, -1), (5, -1), (-2, 3)):
        with pytest.raises(ShapeError, match=r"^Unflatten: shape must"):
            nn.Unflatten(1, shape).apply({}, {}, flat)
