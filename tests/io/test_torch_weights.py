"""Weights of PyTorch without torch: names, layouts, safetensors files."""

from __future__ import annotations

import builtins
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, io, nn, random

rng = np.random.default_rng(3)


def n(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# -- a model, its file, and what its formulas give ------------------------------------------------

MODEL = nn.Sequential(
    nn.Conv1d(None, 3, 1),
    nn.BatchNorm1d(),
    nn.Lambda(lambda x: x.swapaxes(1, 2)),
    rnn=nn.LSTM(None, 2),
)
X = n(4, 2, 5)  # (batch, channels, length); the LSTM takes the batch for time
FLAT = {
    "net.0.weight": n(3, 2, 1),
    "net.0.bias": n(3),
    "net.1.weight": n(3),
    "net.1.bias": n(3),
    "net.1.running_mean": n(3),
    "net.1.running_var": 0.5 + rng.random(3),
    "net.1.num_batches_tracked": np.array(7),
    "rnn.weight_ih_l0": n(8, 3),
    "rnn.weight_hh_l0": n(8, 2),
    "rnn.bias_ih_l0": n(8),
    "rnn.bias_hh_l0": n(8),
}


def by_formula(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    y = np.einsum("oi,bil->bol", w["net.0.weight"][..., 0], x) + w["net.0.bias"][:, None]
    scale = w["net.1.weight"] / np.sqrt(w["net.1.running_var"] + 1e-5)
    y = (y - w["net.1.running_mean"][:, None]) * scale[:, None] + w["net.1.bias"][:, None]
    h = c = np.zeros((x.shape[2], 2))
    out = []
    for row in y.swapaxes(1, 2):
        z = row @ w["rnn.weight_ih_l0"].T + w["rnn.bias_ih_l0"]
        z = z + h @ w["rnn.weight_hh_l0"].T + w["rnn.bias_hh_l0"]
        i, f, g, o = np.split(z, 4, -1)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = logistic(o) * np.tanh(c)
        out.append(h)
    return np.array(out)


def test_model_through_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(FLAT, path)
    start = mgefn.tree.map(lambda a: mnp.asarray(a, "float64"), MODEL.init(random.key(0), X))
    params, state = io.load_torch_state_dict(*start, path, rename={"net": ""})
    (ys, _), _ = MODEL.apply(params, state, X)
    np.testing.assert_allclose(ys, by_formula(FLAT, X), rtol=1e-12)
    np.testing.assert_array_equal(state["1"]["running_mean"], FLAT["net.1.running_mean"])
    assert params["0"]["weight"].dtype == np.float64
    # One derivative, by differences of the formula.
    slopes = mgefn.grad(lambda p: MODEL.apply(p, state, X)[0][0].sum())(params)
    step = 1e-6
    more, less = (dict(FLAT), dict(FLAT))
    more["net.0.weight"] = FLAT["net.0.weight"] + step * np.eye(3, 2)[..., None]
    less["net.0.weight"] = FLAT["net.0.weight"] - step * np.eye(3, 2)[..., None]
    want = (by_formula(more, X).sum() - by_formula(less, X).sum()) / (2 * step)
    np.testing.assert_allclose(
        (slopes["0"]["weight"][..., 0] * np.eye(3, 2)).sum(), want, rtol=1e-7
    )


def test_dtype_and_key(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({f"model.{k}": v for k, v in FLAT.items()}, path)
    start = MODEL.init(random.key(0), X.astype(np.float32))
    params, _ = io.load_torch_state_dict(*start, path, rename={"model.net": "", "model": ""})
    assert params["rnn"]["bias_hh_l0"].dtype == np.float32
    # A tree written by mgefn has the same dotted names, whole or below a key.
    own = tmp_path / "own.safetensors"
    io.save({"model": {"head": {"bias": mnp.ones(2)}}, "step": mnp.asarray(3)}, own)
    assert sorted(io.load_torch(own)) == ["model.head.bias", "step"]
    assert list(io.load_torch(own, key="model")) == ["head.bias"]


# -- names ----------------------------------------------------------------------------------------


def encoder_layer(prefix: str) -> dict[str, np.ndarray]:
    shapes = {
        "self_attn.in_proj_weight": (12, 4),
        "self_attn.in_proj_bias": (12,),
        "self_attn.out_proj.weight": (4, 4),
        "self_attn.out_proj.bias": (4,),
        "linear1.weight": (8, 4),
        "linear1.bias": (8,),
        "linear2.weight": (4, 8),
        "linear2.bias": (4,),
        "norm1.weight": (4,),
        "norm1.bias": (4,),
        "norm2.weight": (4,),
        "norm2.bias": (4,),
    }
    return {f"{prefix}{name}": n(*shape) for name, shape in shapes.items()}


def test_attention_is_taken_apart() -> None:
    flat = encoder_layer("enc.layers.0.") | {"enc.norm.weight": n(4), "norm1.weight": n(4)}
    got = io.convert_torch_names(flat)
    stacked = flat["enc.layers.0.self_attn.in_proj_weight"]
    for i, part in enumerate(("query", "key", "value")):
        np.testing.assert_array_equal(
            got[f"enc.layers.0.attention.{part}.weight"], stacked[4 * i : 4 * i + 4]
        )
    assert got["enc.layers.0.attention.out.bias"] is flat["enc.layers.0.self_attn.out_proj.bias"]
    assert got["enc.layers.0.ln2.bias"] is flat["enc.layers.0.norm2.bias"]
    assert got["enc.ln.weight"] is flat["enc.norm.weight"]
    assert got["norm1.weight"] is flat["norm1.weight"]  # in no transformer: as it was
    assert len(got) == len(flat) + 4


def test_encoder_takes_all_of_them() -> None:
    encoder = nn.TransformerEncoder(2, 4, 2, 8)
    start = encoder.init(random.key(0), n(1, 3, 4))
    flat = encoder_layer("layers.0.") | encoder_layer("layers.1.")
    flat |= {"norm.weight": n(4), "norm.bias": n(4)}
    params, _ = io.load_torch_state_dict(*start, flat)
    np.testing.assert_allclose(
        params["layers"]["1"]["ln1"]["bias"], flat["layers.1.norm1.bias"], rtol=1e-6
    )


def test_names_that_the_module_has_are_kept() -> None:
    """A module of one's own may name its parts as PyTorch does."""

    @dataclasses.dataclass(frozen=True)
    class Block(nn.Module):
        def forward(self, run: nn.Run, x: Any) -> Any:
            y = run("self_attn", nn.MultiHeadAttention(4, 2), run("norm1", nn.LayerNorm(), x))
            return x + run("linear1", nn.Linear(None, 4), y)

    flat = {k: v for k, v in encoder_layer("").items() if "2" not in k and "linear1" not in k}
    flat |= {"linear1.weight": n(4, 4), "linear1.bias": n(4)}
    start = Block().init(random.key(0), n(1, 3, 4))

    def rename(name: str) -> str | None:
        return name

    with pytest.raises(errors.TreeError, match="missing"):
        # norm1 stays because the module has it; the attention is renamed, and is not there.
        io.load_torch_state_dict(*start, flat, rename=rename)
    attention = {k.removeprefix("self_attn."): v for k, v in flat.items() if "self_attn" in k}
    mine = {f"self_attn.{k}": v for k, v in io.convert_torch_names(attention).items()}
    mine |= {k: v for k, v in flat.items() if "self_attn" not in k}
    params, _ = io.load_torch_state_dict(*start, mine)
    np.testing.assert_allclose(params["norm1"]["bias"], flat["norm1.bias"], rtol=1e-6)


def test_rename() -> None:
    layer = nn.Linear(2, 1)
    start = layer.init(random.key(0), n(1, 2))
    w, b = n(1, 2), n(1)
    for flat, rename in (
        ({"fc.weight": w, "fc.bias": b}, {"fc": ""}),
        ({"fc.weight": w, "fc.bias": b}, {"fc.": ""}),
        ({"fc.weight": w, "fc.b": b}, {"fc": "", "fc.b": "bias"}),
        ({"W": w, "bias": b}, {"W": "weight"}),
        ({"W": w, "c": b, "x": w}, {"W": "weight", "c": "bias", "x": None}.get),
    ):
        params, _ = io.load_torch_state_dict(*start, flat, rename=rename)
        np.testing.assert_allclose(params["weight"], w, rtol=1e-6)
        np.testing.assert_allclose(params["bias"], b, rtol=1e-6)
    # Beginnings end where a part of a name does.
    with pytest.raises(errors.TreeError, match=r"unknown \['fc1.weight'\]"):
        io.load_torch_state_dict(*start, {"fc1.weight": w, "bias": b}, rename={"fc": ""})
    kept, _ = io.load_torch_state_dict(*start, {"bias": b, "other": w}, strict=False)
    np.testing.assert_array_equal(kept["weight"], start[0]["weight"])


# -- layouts --------------------------------------------------------------------------------------


def test_relayout() -> None:
    w = n(3, 2, 4, 5)  # a kernel (height, width, in, out)
    x = n(2, 6, 6, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))
    want = np.einsum("nyxihw,hwio->noyx", windows, w)
    got = nn.conv2d(x.transpose(0, 3, 1, 2), io.relayout(w, "HWIO", "OIHW"))
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    kernel = n(4, 3)
    np.testing.assert_allclose(
        nn.linear(x, io.relayout(kernel, "IO", "OI")), x @ kernel, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_array_equal(io.relayout(io.relayout(w, "HWIO", "OIHW"), "OIHW", "HWIO"), w)
    assert io.relayout(mnp.zeros((0, 3)), "IO", "OI").shape == (3, 0)


def test_reorder_gates() -> None:
    """An LSTM whose weights stand as input, output, forget, cell."""
    x = n(5, 3, 2)
    i, f, g, o = (n(4, 2) for _ in range(4))
    mine = {
        "weight_ih_l0": io.reorder_gates(np.concatenate([i, o, f, g]), "iofg", "ifgo"),
        "weight_hh_l0": mnp.zeros((16, 4)),
    }
    np.testing.assert_array_equal(mine["weight_ih_l0"], np.concatenate([i, f, g, o]))
    (ys, _), _ = nn.LSTM(2, 4, bias=False).apply(mine, {}, x)
    first = logistic(x[0] @ o.T) * np.tanh(logistic(x[0] @ i.T) * np.tanh(x[0] @ g.T))
    np.testing.assert_allclose(ys[0], first, rtol=1e-10)
    bias = np.arange(6)
    np.testing.assert_array_equal(io.reorder_gates(bias, "zrn", "rzn"), [2, 3, 0, 1, 4, 5])
    assert io.reorder_gates(mnp.zeros((0, 3)), "zrn", "rzn").shape == (0, 3)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: io.load_torch(3), errors.ArgumentError, "needs a path, got int"),
        (lambda: io.load_torch("x.npz"), errors.ArgumentError, "a file ending in .safetensors"),
        (lambda: io.convert_torch_names([1]), errors.ArgumentError, "a dict of arrays by name"),
        (
            lambda: io.convert_torch_names({"in_proj_weight": np.ones((4, 2))}),
            errors.ShapeError,
            "3 \\* n rows",
        ),
        (
            lambda: io.load_torch_state_dict({}, {}, {}, rename=3),
            errors.ArgumentError,
            "rename must be a dict",
        ),
        (
            lambda: io.load_torch_state_dict({}, {}, {"a": 1, "b": 2}, rename={"a": "b"}),
            errors.TreeError,
            "two arrays get the name 'b'",
        ),
        (
            lambda: io.load_torch_state_dict(
                {"query": {"weight": n(1, 1)}, "out": {"weight": n(1, 1)}},
                {},
                {"in_proj_weight": n(3, 1), "query.weight": n(1, 1)},
            ),
            errors.TreeError,
            "two arrays get the name 'query.weight'",
        ),
        (
            lambda: io.load_torch_state_dict({"w": n(2)}, {}, {"w": n(3)}),
            errors.ShapeError,
            "must have shape",
        ),
        (lambda: io.relayout(n(2, 2), "IO", "OX"), errors.ArgumentError, "the same letters"),
        (lambda: io.relayout(n(2, 2), "II", "II"), errors.ArgumentError, "each once"),
        (lambda: io.relayout(n(2), "IO", "OI"), errors.ShapeError, "needs 2 dimensions"),
        (lambda: io.reorder_gates(n(4), "", ""), errors.ArgumentError, "each once"),
        (lambda: io.reorder_gates(n(5), "ifgo", "ifog"), errors.ShapeError, r"needs 4 \* hidden"),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    path = tmp_path / "model.pt"
    path.write_bytes(b"")
    with pytest.raises(ImportError, match=r"load_torch\(model.pt\): needs torch"):
        io.load_torch(path)


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(FLAT, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(errors.FileFormatError):
        io.load_torch(path)
    with pytest.raises(FileNotFoundError):
        io.load_torch(tmp_path / "none.safetensors")
