"""What layers compute, against formulas and loops, and the machinery of modules."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, nn, optim, random
from tests.nn.layer_cases import (
    IMAGES,
    ROWS,
    SEQUENCE,
    TIME,
    close,
    joined,
    n,
    shapes,
    started,
)

# -- what the layers compute ----------------------------------------------------------------------


def test_linear_against_its_formula_and_names() -> None:
    layer = nn.Linear(4, 3)
    params = {"weight": n(3, 4), "bias": n(3)}
    y, state = layer.apply(params, {}, ROWS)
    np.testing.assert_allclose(y, ROWS @ params["weight"].T + params["bias"], rtol=1e-12)
    assert state == {}


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_recurrent_layers_against_loops() -> None:
    for kind, gates in ((nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)):
        layer = kind(3, 2)
        p, _ = started(layer, (TIME,))
        wi, wh, bi, bh = (
            np.asarray(p[f"{k}_l0"]) for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h, c = np.zeros((2, 2)), np.zeros((2, 2))
        wanted = []
        for x in TIME:
            a, b = np.split(x @ wi.T + bi, gates, -1), np.split(h @ wh.T + bh, gates, -1)
            if kind is nn.RNN:
                h = np.tanh(a[0] + b[0])
            elif kind is nn.GRU:
                r, z = logistic(a[0] + b[0]), logistic(a[1] + b[1])
                h = (1 - z) * np.tanh(a[2] + r * b[2]) + z * h
            else:
                i, f, g, o = (u + v for u, v in zip(a, b, strict=True))
                c = logistic(f) * c + logistic(i) * np.tanh(g)
                h = logistic(o) * np.tanh(c)
            wanted.append(h)
        (ys, end), _ = layer.apply(p, {}, TIME)
        np.testing.assert_allclose(ys, wanted, rtol=1e-10)
        close(end, (h[None], c[None]) if kind is nn.LSTM else mnp.asarray(h[None]))
        # From where the first steps ended, the others go on.
        (first, middle), _ = layer.apply(p, {}, TIME[:2])
        (rest, _), _ = layer.apply(p, {}, TIME[2:], middle)
        np.testing.assert_allclose(np.concatenate([first, rest]), ys, rtol=1e-10)


def test_cells_are_steps_of_layers() -> None:
    for cell, layer in ((nn.RNNCell, nn.RNN), (nn.GRUCell, nn.GRU), (nn.LSTMCell, nn.LSTM)):
        p, _ = started(layer(3, 2), (TIME,))
        own = {k.removesuffix("_l0"): v for k, v in p.items()}
        carry = None
        for x in TIME:
            carry, _ = cell(3, 2).apply(own, {}, x, carry)
        (_, end), _ = layer(3, 2).apply(p, {}, TIME)
        close(mgefn.tree.map(lambda e: e[0], end), carry)


def test_reverse_direction_reads_from_the_end() -> None:
    layer = nn.GRU(3, 2, bidirectional=True)
    p, _ = started(layer, (TIME,))
    (ys, _), _ = layer.apply(p, {}, TIME)
    back = {k.replace("_reverse", ""): v for k, v in p.items() if k.endswith("_reverse")}
    (want, _), _ = nn.GRU(3, 2).apply(back, {}, TIME[::-1])
    np.testing.assert_allclose(ys[..., 2:], want[::-1], rtol=1e-12)


def test_attention_against_its_formula() -> None:
    layer = nn.MultiHeadAttention(8, 2, causal=True)
    p, _ = started(layer, (SEQUENCE,))

    def projected(name: str) -> np.ndarray:
        return (SEQUENCE @ np.asarray(p[name]["weight"]).T + np.asarray(p[name]["bias"])).reshape(
            2, 5, 2, 4
        )

    scores = np.einsum("bthd,bshd->bhts", projected("query"), projected("key")) / 2
    scores = np.where(np.tri(5) > 0, scores, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    out = np.einsum("bhts,bshd->bthd", weights, projected("value")).reshape(2, 5, 8)
    want = out @ np.asarray(p["out"]["weight"]).T + np.asarray(p["out"]["bias"])
    np.testing.assert_allclose(layer.apply(p, {}, SEQUENCE)[0], want, rtol=1e-10)
    # With a dropout that drops nothing the other path gives the same.
    other = dataclasses.replace(layer, dropout=1e-300)
    got, _ = other.apply(p, {}, SEQUENCE, key=random.key(0), train=True)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    in_blocks = dataclasses.replace(layer, block_size=2)
    np.testing.assert_allclose(in_blocks.apply(p, {}, SEQUENCE)[0], want, rtol=1e-10)
    mask = np.tri(5) > 0
    masked = dataclasses.replace(layer, causal=False).apply(p, {}, SEQUENCE, mask=mask)[0]
    np.testing.assert_allclose(masked, want, rtol=1e-10)
    # Any number of batch dimensions.
    np.testing.assert_allclose(layer.apply(p, {}, SEQUENCE[0])[0], want[0], rtol=1e-10)
    deep = layer.apply(p, {}, SEQUENCE[None])[0]
    np.testing.assert_allclose(deep[0], want, rtol=1e-10)


def test_batch_norm_state() -> None:
    layer = nn.BatchNorm(momentum=0.5)
    params, state = layer.init(random.key(0), ROWS)
    y, new = layer.apply(params, state, ROWS, train=True)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(new["running_mean"], 0.5 * ROWS.mean(0), rtol=1e-6)
    assert (np.asarray(state["running_mean"]) == 0).all()
    still, same = layer.apply(params, new, ROWS)
    close(same, new)
    want = (ROWS - new["running_mean"]) / np.sqrt(np.asarray(new["running_var"]) + 1e-5)
    np.testing.assert_allclose(still, want, rtol=1e-5)


def test_state_of_a_module_called_twice_goes_on() -> None:
    @dataclasses.dataclass(frozen=True)
    class Twice(nn.Module):
        def forward(self, run: nn.Run, x: Any) -> Any:
            norm = nn.BatchNorm(momentum=0.5)
            return run("norm", norm, x) + run("norm", norm, 3 * x)

    params, state = Twice().init(random.key(0), ROWS)
    assert list(params) == ["norm"]
    _, new = Twice().apply(params, state, ROWS, train=True)
    np.testing.assert_allclose(new["norm"]["running_mean"], 1.75 * ROWS.mean(0), rtol=1e-5)


def test_dropout_draws_anew_for_each_call_and_key() -> None:
    layer = nn.Parallel(nn.Dropout(0.5), nn.Dropout(0.5))
    x = mnp.ones(100)
    (a, b), _ = layer.apply({}, {}, x, key=random.key(0), train=True)
    (c, _), _ = layer.apply({}, {}, x, key=random.key(1), train=True)
    (d, e), _ = layer.apply({}, {}, x, key=random.key(0), train=True)
    assert (a != b).any()
    assert (a != c).any()
    close((a, b), (d, e))
    with pytest.raises(errors.ArgumentError, match=r"^Parallel.0 \(Dropout\): needs a random key"):
        layer.apply({}, {}, x, train=True)
    channels, _ = nn.Dropout2d(0.5).apply(
        {}, {}, mnp.ones((9, 9, 2, 2)), key=random.key(0), train=True
    )
    assert (np.ptp(np.asarray(channels).reshape(9, 9, 4), axis=-1) == 0).all()


def test_weight_and_spectral_norm() -> None:
    inner = nn.Linear(None, 3)
    layer = nn.WeightNorm(inner)
    params, state = layer.init(random.key(0), ROWS)
    p = params["layer"]
    w = p["weight_v"] / np.linalg.norm(p["weight_v"], axis=1, keepdims=True) * p["weight_g"]
    np.testing.assert_allclose(w, p["weight_v"], rtol=1e-6)
    y, _ = layer.apply(params, state, ROWS)
    np.testing.assert_allclose(y, ROWS @ np.asarray(w).T + np.asarray(p["bias"]), rtol=1e-5)

    layer = nn.SpectralNorm(inner, num_power_iterations=200)
    params, state = layer.init(random.key(0), ROWS)
    y, state = layer.apply(params, state, ROWS, train=True)
    w = np.asarray(params["layer"]["weight"])
    want = ROWS @ (w / np.linalg.norm(w, 2)).T
    np.testing.assert_allclose(y, want, rtol=1e-4)
    np.testing.assert_allclose(layer.apply(params, state, ROWS)[0], want, rtol=1e-4)


def test_scanned_layers_are_layers_one_after_the_other() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 5)
    deep = nn.scan_layers(layer, 3)
    p, s = started(deep, (SEQUENCE,))
    x = SEQUENCE
    for i in range(3):
        x, _ = layer.apply(mgefn.tree.map(lambda a, i=i: a[i], p["layer"]), {}, x)
    np.testing.assert_allclose(deep.apply(p, s, SEQUENCE)[0], x, rtol=1e-10)


def test_remat_has_the_same_names_and_gradients() -> None:
    plain = nn.TransformerEncoder(2, 8, 2, 5)
    again = dataclasses.replace(plain, checkpoint=True)
    p, s = started(plain, (SEQUENCE,))
    assert shapes(again.init(random.key(0), SEQUENCE)[0]) == shapes(p)
    grads = [
        mgefn.grad(lambda p, m=m: joined(m.apply(p, s, SEQUENCE)[0]))(p) for m in (plain, again)
    ]
    close(grads[1], grads[0])


def test_lora_starts_as_the_layer_without_it() -> None:
    layer = nn.LoRALinear(None, 3, rank=2)
    params, _ = layer.init(random.key(0), ROWS)
    y, _ = layer.apply(params, {}, ROWS)
    own = {k: params[k] for k in ("weight", "bias")}
    np.testing.assert_array_equal(y, nn.Linear(None, 3).apply(own, {}, ROWS)[0])


# -- the machinery --------------------------------------------------------------------------------


def test_numbers_of_a_parameter_depend_on_its_path_only() -> None:
    one = nn.Sequential(a=nn.Linear(4, 3), b=nn.Linear(3, 2))
    two = nn.Sequential(a=nn.Linear(4, 3), more=nn.relu, b=nn.Linear(3, 2), c=nn.Linear(2, 2))
    p, _ = nn.init(one, random.key(0), ROWS)
    q, _ = nn.init(two, random.key(0), ROWS)
    close({k: q[k] for k in "ab"}, p)
    y, _ = nn.apply(one, p, {}, ROWS)
    assert y.shape == (3, 2)


def test_modules_are_static_arguments() -> None:
    def run(layer: nn.Module, params: Any, x: Any) -> Any:
        return layer.apply(params, {}, x)[0]

    jitted = mgefn.jit(run, static_argnums=0)
    p, _ = nn.Linear(4, 3).init(random.key(0), ROWS)
    close(jitted(nn.Linear(4, 3), p, ROWS), run(nn.Linear(4, 3), p, ROWS), 1e-6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        nn.Linear(4, 3).out_features = 5  # type: ignore[misc]  # on purpose


def test_partition_trains_a_part() -> None:
    model = nn.MLP(4, 1, 8, 1)
    params, _ = model.init(random.key(0), ROWS)
    learned, frozen = nn.partition(params, nn.matching(params, "1.*"))
    assert learned["0"] == {"weight": None, "bias": None}

    def loss(learned: Any) -> Any:
        return joined(model.apply(nn.combine(learned, frozen), {}, ROWS)[0])

    grads = mgefn.grad(loss)(learned)
    assert shapes(grads) == shapes(learned)
    close(nn.combine(learned, frozen), params)
    only, _ = nn.partition(params, lambda p: p.ndim == 1)
    assert only["0"]["weight"] is None
    close(nn.filter(params, {"0": True, "1": False}, inverse=True)["1"], params["1"])
    assert nn.is_array(params["0"]["bias"])
    assert not nn.is_array(1.0)
    assert nn.is_array_like(1.0)
    assert not nn.is_inexact_array(mnp.arange(3))
    with pytest.raises(errors.ArgumentError, match="filter_spec"):
        nn.partition(params, {"0": 3, "1": True})


def test_names_and_flat_dicts() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm())
    params, state = model.init(random.key(0), ROWS)
    flat = nn.state_dict(params, state)
    assert sorted(flat) == [
        "0.bias",
        "0.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.weight",
    ]
    assert [name for name, _ in nn.named_parameters(params)] == [
        "0.bias",
        "0.weight",
        "1.bias",
        "1.weight",
    ]
    assert nn.count_params(params) == 4 * 3 + 3 + 3 + 3
    foreign = {name: n(*x.shape) for name, x in flat.items()}
    p, s = nn.load_state_dict(params, state, {**foreign, "1.num_batches_tracked": 5})
    assert p["0"]["weight"].dtype == np.float32
    np.testing.assert_allclose(p["0"]["weight"], foreign["0.weight"], rtol=1e-6)
    np.testing.assert_allclose(s["1"]["running_var"], foreign["1.running_var"], rtol=1e-6)
    with pytest.raises(errors.TreeError, match=r"missing \['0.bias'\]"):
        nn.load_state_dict(params, state, {k: v for k, v in foreign.items() if k != "0.bias"})
    with pytest.raises(errors.ShapeError, match=r"0.weight must have shape \(3, 4\)"):
        nn.load_state_dict(params, state, {**foreign, "0.weight": n(4, 3)})
    kept, _ = nn.load_state_dict(params, state, {"0.bias": np.ones(3)}, strict=False)
    close(kept["0"]["weight"], params["0"]["weight"])


def test_train_state() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(), nn.relu, nn.Linear(8, 1))
    params, state = model.init(random.key(0), ROWS)
    ts = nn.TrainState.create(apply_fn=model.apply, params=params, state=state, tx=optim.adam(0.05))
    x, y = mnp.asarray(n(16, 4), "float32"), mnp.asarray(n(16, 1), "float32")

    @mgefn.jit
    def step(ts: nn.TrainState) -> Any:
        def loss(params: Any) -> Any:
            out, new = ts.apply_fn(params, ts.state, x, train=True)
            return nn.losses.l2_loss(out, y).mean(), new

        (value, new), grads = mgefn.value_and_grad(loss, has_aux=True)(ts.params)
        return ts.apply_gradients(grads=grads, state=new), value

    values = []
    for _ in range(60):
        ts, value = step(ts)
        values.append(float(value))
    assert int(ts.step) == 60
    assert values[-1] < 0.3 * values[0]
    assert (np.asarray(ts.state["1"]["running_mean"]) != 0).any()


def test_tabulate_and_flops() -> None:
    model = nn.Sequential(
        nn.Conv2d(None, 6, 3, padding=1), nn.relu, nn.Flatten(), nn.Linear(None, 2)
    )
    table = nn.tabulate(model, random.key(0), IMAGES)
    lines = table.splitlines()
    assert lines[0].split() == ["path", "module", "input", "output", "params", "flops"]
    assert len(lines) == 6
    assert "float64[2,4,5,6]" in lines[1]
    params, _ = model.init(random.key(0), IMAGES)
    assert lines[1].split()[-2] == str(nn.count_params(params))
    # Products and sums of each output, and the bias.
    conv = 2 * 2 * 6 * 5 * 6 * 4 * 9 + 2 * 6 * 5 * 6
    assert lines[2].split()[-1] == f"{conv:,}"
    looped = nn.count_flops(
        lambda x: mgefn.lax.scan(lambda c, _: (c @ c, None), x, length=5)[0], np.ones((3, 3))
    )
    assert looped == 5 * 2 * 27


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.Linear(5, 2).init(random.key(0), ROWS), "in_features is 5, got"),
        (lambda: nn.Linear(4, 2).apply({}, {}, ROWS), "Linear: needs param 'weight'"),
        (lambda: nn.Linear(4, 2).apply({}, ROWS), "Linear.apply: state must be the dict"),  # type: ignore[arg-type]  # wrong
        (
            lambda: nn.Sequential(nn.Linear(4, 2)).apply({"0": {"weight": n(3, 4)}}, {}, ROWS),
            r"Sequential.0: param 'weight' must have shape \(2, 4\)",
        ),
        (lambda: nn.Module().init(random.key(0), ROWS), "defines no forward"),
        (lambda: nn.Sequential(3), "needs modules or functions"),
        (lambda: nn.MultiHeadAttention(8, 3).init(random.key(0), SEQUENCE), "must divide"),
        (lambda: nn.BatchNorm2d().init(random.key(0), ROWS), "of rank 4"),
        (lambda: nn.tabulate(mnp.ones(3)), "needs a module"),  # type: ignore[arg-type]  # wrong
        (lambda: nn.WeightNorm(nn.Identity()).init(random.key(0), ROWS), "no parameter 'weight'"),
    ],
)  # fmt: skip
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(errors.MgefnError, match=text):
        call()


def test_one_name_for_two_modules() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wrong(nn.Module):
        def forward(self, run: nn.Run, x: Any) -> Any:
            return run("a", nn.Linear(4, 4), run("a", nn.Linear(4, 4, bias=False), x))

    with pytest.raises(errors.ArgumentError, match="'a' names two different modules"):
        Wrong().init(random.key(0), ROWS)


def test_old_keys_and_copies() -> None:
    layer = nn.MLP(4, 2, 3, 1)
    old, _ = layer.init(random.PRNGKey(0), ROWS)
    new, _ = layer.init(random.key(0), ROWS)
    close(old, new)
    assert pickle.loads(pickle.dumps(layer)) == layer
    assert copy.deepcopy(layer) == layer


def test_filtered_gradients_leave_what_is_no_float() -> None:
    held = {"w": mnp.array([1.0, -2.0]), "steps": 3, "act": mnp.tanh, "i": mnp.arange(2)}

    def loss(t: Any, x: Any, scale: float = 1.0) -> Any:
        y = t["act"](t["w"] * x).sum() * t["steps"] * scale
        return y, t["i"]

    want = mgefn.grad(lambda w: mnp.tanh(w * 0.5).sum() * 6.0)(held["w"])
    for filtered in (nn.filter_grad(loss, has_aux=True), nn.filter_grad(loss, has_aux=True)):
        slope, data = filtered(held, 0.5, scale=2.0)
        np.testing.assert_allclose(slope["w"], want, rtol=1e-6)
        assert slope["steps"] is None and slope["act"] is None and slope["i"] is None
        np.testing.assert_array_equal(data, [0, 1])
    value, slope = nn.filter_value_and_grad(lambda t: (t["w"] ** 2).sum())(held)
    assert value == 5.0
    np.testing.assert_array_equal(slope["w"], [2.0, -4.0])
