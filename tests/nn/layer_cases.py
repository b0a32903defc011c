"""A row for every layer, and what the tests of layers share."""

from __future__ import annotations

from typing import Any

import numpy as np

import mgefn
import mgefn.numpy as mnp
from mgefn import nn, random

rng = np.random.default_rng(7)


def n(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


IMAGES, SEQUENCE, ROWS = n(2, 4, 5, 6), n(2, 5, 8), n(3, 4)
INTEGERS = np.array([[0, 3], [2, 2]])
TIME = n(5, 2, 3)

# name: (layer, inputs, shape of the output)
LAYERS: dict[str, tuple[nn.Module, tuple[Any, ...], Any]] = {
    "Linear": (nn.Linear(None, 3), (ROWS,), (3, 3)),
    "Linear without bias": (nn.Linear(4, 3, bias=False), (ROWS,), (3, 3)),
    "DenseGeneral": (nn.DenseGeneral((2, 3), axis=(-1, -2)), (SEQUENCE,), (2, 2, 3)),
    "LoRALinear": (nn.LoRALinear(None, 3, rank=2), (ROWS,), (3, 3)),
    "Bilinear": (nn.Bilinear(None, None, 2), (ROWS, n(3, 5)), (3, 2)),
    "Embedding": (nn.Embedding(4, 3), (INTEGERS,), (2, 2, 3)),
    "Dropout": (nn.Dropout(0.5), (ROWS,), (3, 4)),
    "Dropout1d": (nn.Dropout1d(0.5), (SEQUENCE,), (2, 5, 8)),
    "Dropout2d": (nn.Dropout2d(0.5), (IMAGES,), (2, 4, 5, 6)),
    "Dropout3d": (nn.Dropout3d(0.5), (n(1, 2, 3, 3, 3),), (1, 2, 3, 3, 3)),
    "PReLU": (nn.PReLU(4), (IMAGES,), (2, 4, 5, 6)),
    "ReLU": (nn.ReLU(), (ROWS,), (3, 4)),
    "GELU": (nn.GELU(), (ROWS,), (3, 4)),
    "Sigmoid": (nn.Sigmoid(), (ROWS,), (3, 4)),
    "Tanh": (nn.Tanh(), (ROWS,), (3, 4)),
    "SiLU": (nn.SiLU(), (ROWS,), (3, 4)),
    "LeakyReLU": (nn.LeakyReLU(0.2), (ROWS,), (3, 4)),
    "Softmax": (nn.Softmax(), (ROWS,), (3, 4)),
    "Pad": (nn.Pad(((0, 0), (1, 2))), (ROWS,), (3, 7)),
    "Identity": (nn.Identity(3, any="thing"), (ROWS,), (3, 4)),
    "Lambda": (nn.Lambda(mnp.tanh), (ROWS,), (3, 4)),
    "Flatten": (nn.Flatten(), (IMAGES,), (2, 120)),
    "Unflatten": (nn.Unflatten(-1, (2, -1)), (ROWS,), (3, 2, 2)),
    "Sequential": (
        nn.Sequential(nn.Linear(None, 5), mnp.tanh, head=nn.Linear(5, 2)),
        (ROWS,),
        (3, 2),
    ),
    "Residual": (nn.Residual(nn.Linear(4, 4)), (ROWS,), (3, 4)),
    "Residual with shortcut": (nn.Residual(nn.Linear(4, 2), nn.Linear(4, 2)), (ROWS,), (3, 2)),
    "Parallel": (
        nn.Parallel(nn.Linear(4, 2), mnp.tanh, join=lambda ys: mnp.concatenate(ys, -1)),
        (ROWS,),
        (3, 6),
    ),
    "MLP": (nn.MLP(None, 2, 5, 2, mnp.tanh), (ROWS,), (3, 2)),
    "Conv1d": (nn.Conv1d(None, 3, 3, padding=1, padding_mode="circular"), (SEQUENCE,), (2, 3, 8)),
    "Conv2d": (nn.Conv2d(None, 6, (3, 2), 2, 1, groups=2), (IMAGES,), (2, 6, 3, 4)),
    "Conv3d": (nn.Conv3d(2, 3, 2), (n(1, 2, 3, 3, 3),), (1, 3, 2, 2, 2)),
    "ConvTranspose1d": (nn.ConvTranspose1d(None, 3, 2, 2), (SEQUENCE,), (2, 3, 16)),
    "ConvTranspose2d": (
        nn.ConvTranspose2d(None, 4, 3, 2, 1, 1, groups=2),
        (IMAGES,),
        (2, 4, 10, 12),
    ),
    "ConvTranspose3d": (nn.ConvTranspose3d(2, 3, 2), (n(1, 2, 2, 2, 2),), (1, 3, 3, 3, 3)),
    "AvgPool1d": (nn.AvgPool1d(2), (SEQUENCE,), (2, 5, 4)),
    "AvgPool2d": (nn.AvgPool2d(2, 1, 1), (IMAGES,), (2, 4, 6, 7)),
    "AvgPool3d": (nn.AvgPool3d(2), (n(1, 2, 4, 4, 4),), (1, 2, 2, 2, 2)),
    "MaxPool1d": (nn.MaxPool1d(2), (SEQUENCE,), (2, 5, 4)),
    "MaxPool2d": (nn.MaxPool2d(2), (IMAGES,), (2, 4, 2, 3)),
    "MaxPool3d": (nn.MaxPool3d(2), (n(1, 2, 4, 4, 4),), (1, 2, 2, 2, 2)),
    "AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(3), (SEQUENCE,), (2, 5, 3)),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(1), (IMAGES,), (2, 4, 1, 1)),
    "AdaptiveAvgPool3d": (nn.AdaptiveAvgPool3d(1), (n(1, 2, 4, 4, 4),), (1, 2, 1, 1, 1)),
    "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(3), (SEQUENCE,), (2, 5, 3)),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((2, 3)), (IMAGES,), (2, 4, 2, 3)),
    "AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(2), (n(1, 2, 4, 4, 4),), (1, 2, 2, 2, 2)),
    "PixelShuffle": (nn.PixelShuffle(2), (IMAGES,), (2, 1, 10, 12)),
    "Upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), (IMAGES,), (2, 4, 10, 12)),
    "BatchNorm": (nn.BatchNorm(), (ROWS,), (3, 4)),
    "BatchNorm1d": (nn.BatchNorm1d(5), (SEQUENCE,), (2, 5, 8)),
    "BatchNorm2d": (nn.BatchNorm2d(affine=False), (IMAGES,), (2, 4, 5, 6)),
    "BatchNorm3d": (nn.BatchNorm3d(), (n(2, 2, 3, 3, 3),), (2, 2, 3, 3, 3)),
    "SyncBatchNorm": (nn.SyncBatchNorm(), (ROWS,), (3, 4)),
    "LayerNorm": (nn.LayerNorm((5, 8)), (SEQUENCE,), (2, 5, 8)),
    "RMSNorm": (nn.RMSNorm(), (ROWS,), (3, 4)),
    "GroupNorm": (nn.GroupNorm(2), (IMAGES,), (2, 4, 5, 6)),
    "InstanceNorm": (nn.InstanceNorm(), (IMAGES,), (2, 4, 5, 6)),
    "LocalResponseNorm": (nn.LocalResponseNorm(3), (IMAGES,), (2, 4, 5, 6)),
    "RNNCell": (nn.RNNCell(None, 3), (ROWS,), (3, 3)),
    "GRUCell": (nn.GRUCell(None, 3), (ROWS, n(3, 3)), (3, 3)),
    "LSTMCell": (nn.LSTMCell(None, 3), (ROWS, (n(3, 3), n(3, 3))), ((3, 3), (3, 3))),
    "RNN": (nn.RNN(None, 4), (TIME,), ((5, 2, 4), (1, 2, 4))),
    "GRU": (
        nn.GRU(3, 4, bidirectional=True, dropout=0.2, num_layers=2),
        (TIME,),
        ((5, 2, 8), (4, 2, 4)),
    ),
    "LSTM": (nn.LSTM(3, 4, batch_first=True), (n(2, 5, 3),), ((2, 5, 4), ((1, 2, 4), (1, 2, 4)))),
    "Bidirectional": (
        nn.Bidirectional(nn.GRU(None, 2), nn.RNN(None, 3)),
        (TIME,),
        ((5, 2, 5), ((1, 2, 2), (1, 2, 3))),
    ),
    "MultiHeadAttention": (
        nn.MultiHeadAttention(8, 4, 2, dropout=0.1, causal=True),
        (SEQUENCE,),
        (2, 5, 8),
    ),
    "MultiHeadAttention in blocks": (
        nn.MultiHeadAttention(None, 2, rotary=True, block_size=2, out_dim=3),
        (SEQUENCE, n(2, 3, 4)),
        (2, 5, 3),
    ),
    "TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 5, 0.1), (SEQUENCE,), (2, 5, 8)),
    "TransformerDecoderLayer": (
        nn.TransformerDecoderLayer(8, 2, 5, norm_first=False),
        (SEQUENCE, n(2, 3, 4)),
        (2, 5, 8),
    ),
    "TransformerEncoder": (
        nn.TransformerEncoder(2, 8, 2, 5, 0.1, checkpoint=True),
        (SEQUENCE,),
        (2, 5, 8),
    ),
    "TransformerDecoder": (nn.TransformerDecoder(1, 8, 2, 5), (SEQUENCE, n(2, 3, 4)), (2, 5, 8)),
    "Transformer": (nn.Transformer(8, 2, 1, 1, 5), (n(2, 3, 8), SEQUENCE), (2, 5, 8)),
    "RotaryPositionalEmbedding": (nn.RotaryPositionalEmbedding(4), (SEQUENCE,), (2, 5, 8)),
    "SinusoidalPositionalEncoding": (nn.SinusoidalPositionalEncoding(6), (ROWS,), (3, 4, 6)),
    "ALiBi": (nn.ALiBi(), (IMAGES,), (2, 4, 5, 6)),
    "WeightNorm": (nn.WeightNorm(nn.Linear(None, 3)), (ROWS,), (3, 3)),
    "SpectralNorm": (nn.SpectralNorm(nn.Conv2d(None, 3, 2)), (IMAGES,), (2, 3, 4, 5)),
    "scan_layers": (
        nn.scan_layers(nn.TransformerEncoderLayer(None, 2, 5, 0.1), 3),
        (SEQUENCE,),
        (2, 5, 8),
    ),
    "scan_layers with state": (nn.scan_layers(nn.BatchNorm(), 2, checkpoint=True), (ROWS,), (3, 4)),
    "remat_layer": (
        nn.remat_layer(nn.Sequential(nn.Linear(None, 3), nn.BatchNorm())),
        (ROWS,),
        (3, 3),
    ),
}


def shapes(t: Any) -> Any:
    return mgefn.tree.map(lambda x: x.shape, t)


def started(layer: nn.Module, inputs: Any) -> Any:
    """Parameters and state in float64, away from the symmetric values they start with."""
    params, state = layer.init(random.key(0), *inputs)
    noise = np.random.default_rng(1)
    params = mgefn.tree.map(
        lambda p: mnp.asarray(p + 0.1 * noise.random(p.shape), "float64"), params
    )
    return params, mgefn.tree.map(lambda s: mnp.asarray(s, "float64"), state)


def floating(inputs: Any) -> bool:
    return all(np.issubdtype(x.dtype, np.floating) for x in mgefn.tree.leaves(inputs))


def joined(y: Any) -> Any:
    return sum(mnp.sum(x * x) for x in mgefn.tree.leaves(y))


def close(got: Any, want: Any, rtol: float = 1e-10) -> None:
    assert mgefn.tree.structure(got) == mgefn.tree.structure(want)
    for g, w in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=1e-12)
