"""A trained torch model and its twin: equal outputs and gradients after the import of weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, io, nn, random

torch = pytest.importorskip("torch", reason="pip install -e '.[torch]'")

from tests.torch_twins.frame import backward, double, drawn, near, weighted_sum  # noqa: E402

FRAMES = drawn("frames", 3, 5, 1, 6, 6)  # batch, time, channels, height, width


class Theirs(torch.nn.Module):
    """Images of each frame by convolution, then an LSTM over the frames."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.fc = torch.nn.Linear(36, 8)
        self.rnn = torch.nn.LSTM(8, 5, batch_first=True)
        self.attn = torch.nn.MultiheadAttention(5, 1, batch_first=True)
        self.head = torch.nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        b, t = x.shape[:2]
        y = self.features(x.reshape(b * t, *x.shape[2:])).reshape(b, t, -1)
        y, _ = self.rnn(torch.tanh(self.fc(y)))
        y, _ = self.attn(y, y, y, need_weights=False)
        return self.head(y)


@dataclasses.dataclass(frozen=True)
class Ours(nn.Module):
    def forward(self, run: nn.Run, x: Any) -> Any:
        x = mnp.asarray(x)
        b, t = x.shape[:2]
        y = run("conv", nn.Conv2d(None, 4, 3, padding=1), x.reshape((b * t, *x.shape[2:])))
        y = nn.relu(run("norm", nn.BatchNorm2d(), y))
        y = nn.max_pool2d(y, 2).reshape((b, t, -1))
        y = mnp.tanh(run("fc", nn.Linear(None, 8), y))
        y, _ = run("rnn", nn.LSTM(None, 5, batch_first=True), y)
        y = run("attn", nn.MultiHeadAttention(None, 1), y)
        return run("head", nn.Linear(None, 2), y)


RENAME = {"features.0": "conv", "features.1": "norm"}


@pytest.fixture
def trained() -> Any:
    """After a few steps, so that no bias is 0 and the moments are those of data."""
    torch.manual_seed(0)
    model = Theirs().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.tensor(FRAMES)).square().mean().backward()
        optimizer.step()
    model.zero_grad()
    return model


def imported(weights: Any) -> Any:
    return io.load_torch_state_dict(
        *double(Ours().init(random.key(0), FRAMES)), weights, rename=RENAME
    )


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("way", ["tensors", "safetensors", "pt"])
def test_same_outputs_and_gradients(trained: Any, way: str, train: bool, tmp_path: Path) -> None:
    weights: Any = trained.state_dict()
    if way == "safetensors":
        from safetensors.torch import save_file

        weights = tmp_path / "model.safetensors"
        save_file(trained.state_dict(), weights)
    if way == "pt":
        weights = tmp_path / "model.pt"
        torch.save(trained.state_dict(), weights)
    params, state = imported(weights)
    want = trained.train(train)(torch.tensor(FRAMES))
    backward(want)

    def loss(params: Any) -> Any:
        y, new = Ours().apply(params, state, FRAMES, train=train)
        return weighted_sum([y]), (y, new)

    slopes, (y, new) = mgefn.jit(mgefn.grad(loss, has_aux=True))(params)
    near(y, want, "outputs")
    grads = {n: p.grad for n, p in trained.named_parameters()}
    near(slopes, io.load_torch_state_dict(params, {}, grads, rename=RENAME)[0], "gradients")
    near(new, imported(trained.state_dict())[1], "state")


def test_files_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    tensors = {
        "a": torch.arange(6).reshape(2, 3).t(),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "narrow": torch.tensor([0.5]).to(torch.float8_e4m3fn),
        "count": torch.tensor(3),
    }
    torch.save({"model": {"net": tensors}, "epoch": 4}, path)
    found = io.load_torch(path, key="model.net")
    np.testing.assert_array_equal(found["a"], np.arange(6).reshape(2, 3).T)
    assert found["half"].dtype == ml_dtypes.bfloat16 and found["half"].tolist() == [1.5, -2.0]
    assert found["narrow"].dtype == ml_dtypes.float8_e4m3fn and float(found["narrow"][0]) == 0.5
    assert found["count"].shape == () and int(found["count"]) == 3
    with pytest.raises(errors.FileFormatError, match="tensors only, got dict at 'model'"):
        io.load_torch(path)
    with pytest.raises(errors.ArgumentError, match="key must be one of the file, got 'ema'"):
        io.load_torch(path, key="ema")
    with pytest.raises(errors.FileFormatError, match="needs a dict of tensors, got int"):
        io.load_torch(path, key="epoch")


def test_nothing_in_a_pickle_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "executed"

    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(marker), "w"))

    path = tmp_path / "trap.pt"
    torch.save({"w": torch.ones(1), "x": Trap()}, path)
    with pytest.raises(errors.FileFormatError, match="weights_only=True"):
        io.load_torch(path)
    assert not marker.exists()
    torch.save(torch.nn.Linear(1, 1), path)  # a whole model is code too
    with pytest.raises(errors.FileFormatError, match=r"Save model.state_dict\(\)"):
        io.load_torch(path)
    path.write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(errors.FileFormatError, match=r"load_torch\(trap.pt\)"):
        io.load_torch(path)
