"""Every layer that torch has too: outputs, gradients and state, with the same weights.

Skipped where torch is absent: pip install -e '.[torch]'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from mgefn import nn

torch = pytest.importorskip("torch", reason="pip install -e '.[torch]'")

from tests.torch_twins.frame import drawn, same_layer  # noqa: E402  # imports torch

pytestmark = [
    # torch says that these take a slower path in it.
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning"),
]

T = torch.nn
ROWS, SEQUENCE = drawn("rows", 5, 4), drawn("sequence", 3, 4, 9)
IMAGES, VOLUMES = drawn("images", 2, 4, 7, 6), drawn("volumes", 2, 4, 5, 4, 5)
TOKENS = np.array([[0, 3, 1], [2, 2, 4]])
TIME = drawn("time", 6, 2, 3)
WORDS, MEMORY = drawn("words", 2, 5, 8), drawn("memory", 2, 4, 8)


@dataclass(frozen=True)
class Twin:
    layer: nn.Module
    module: Callable[[], Any]
    inputs: tuple[np.ndarray, ...]
    call: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    rename: Any = None


LINEAR = {
    "Linear": Twin(nn.Linear(None, 3), lambda: T.Linear(4, 3), (ROWS,)),
    "Linear without bias": Twin(
        nn.Linear(4, 3, bias=False), lambda: T.Linear(4, 3, bias=False), (ROWS,)
    ),
    "Linear on the last of four": Twin(nn.Linear(None, 3), lambda: T.Linear(6, 3), (IMAGES,)),
    "Bilinear": Twin(
        nn.Bilinear(None, None, 2), lambda: T.Bilinear(4, 3, 2), (ROWS, drawn("second", 5, 3))
    ),
    "Embedding": Twin(nn.Embedding(5, 3), lambda: T.Embedding(5, 3), (TOKENS,)),
    "Embedding with padding": Twin(
        nn.Embedding(5, 3, padding_idx=2), lambda: T.Embedding(5, 3, padding_idx=2), (TOKENS,)
    ),
    "PReLU": Twin(nn.PReLU(), T.PReLU, (IMAGES,)),
    "PReLU by channel": Twin(nn.PReLU(4), lambda: T.PReLU(4), (IMAGES,)),
    "Flatten": Twin(nn.Flatten(), T.Flatten, (IMAGES,)),
    "Unflatten": Twin(nn.Unflatten(1, (2, -1)), lambda: T.Unflatten(1, (2, -1)), (ROWS,)),
    "Sequential": Twin(
        nn.Sequential(nn.Linear(None, 6), nn.tanh, nn.Dropout(0.0), nn.Linear(None, 2)),
        lambda: T.Sequential(T.Linear(4, 6), T.Tanh(), T.Dropout(0.0), T.Linear(6, 2)),
        (ROWS,),
    ),
    "WeightNorm": Twin(
        nn.WeightNorm(nn.Linear(None, 3)),
        lambda: T.utils.parametrizations.weight_norm(T.Linear(4, 3)),
        (ROWS,),
    ),
    "WeightNorm of a convolution": Twin(
        nn.WeightNorm(nn.Conv2d(None, 3, 2)),
        lambda: T.utils.parametrizations.weight_norm(T.Conv2d(4, 3, 2)),
        (IMAGES,),
    ),
}


def conv(n: int, *args: Any, **kwargs: Any) -> Twin:
    ours, theirs = getattr(nn, f"Conv{n}d"), getattr(T, f"Conv{n}d")
    x = (SEQUENCE, IMAGES, VOLUMES)[n - 1]
    return Twin(ours(None, *args, **kwargs), lambda: theirs(4, *args, **kwargs), (x,))


def transposed(n: int, *args: Any, **kwargs: Any) -> Twin:
    ours, theirs = getattr(nn, f"ConvTranspose{n}d"), getattr(T, f"ConvTranspose{n}d")
    x = (SEQUENCE, IMAGES, VOLUMES)[n - 1]
    return Twin(ours(None, *args, **kwargs), lambda: theirs(4, *args, **kwargs), (x,))


CONVOLUTIONS = {
    "Conv1d": conv(1, 3, 3),
    "Conv1d with everything": conv(1, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False),
    "Conv1d same": conv(1, 3, 4, padding="same"),
    "Conv1d depthwise": conv(1, 8, 3, groups=4),
    "Conv2d": conv(2, 3, (3, 2)),
    "Conv2d with everything": conv(2, 6, 3, stride=(2, 1), padding=(2, 1), dilation=2, groups=2),
    "Conv2d reflect": conv(2, 3, 3, padding=(1, 2), padding_mode="reflect"),
    "Conv2d replicate": conv(2, 3, 3, padding=1, padding_mode="replicate"),
    "Conv2d circular": conv(2, 3, 3, padding=1, padding_mode="circular"),
    "Conv2d without a batch": Twin(
        nn.Conv2d(None, 3, 2), lambda: T.Conv2d(4, 3, 2), (drawn("one image", 4, 5, 5),)
    ),
    "Conv3d": conv(3, 2, 2),
    "Conv3d with everything": conv(3, 4, 2, stride=2, padding=(1, 0, 1), dilation=2, groups=2),
    "ConvTranspose1d": transposed(1, 3, 3),
    "ConvTranspose1d with everything": transposed(
        1, 6, 3, stride=3, padding=1, output_padding=2, groups=2, dilation=2, bias=False
    ),
    "ConvTranspose2d": transposed(2, 3, (3, 2)),
    "ConvTranspose2d with everything": transposed(
        2, 6, 3, stride=(3, 2), padding=(1, 2), output_padding=(2, 1), groups=2
    ),
    "ConvTranspose3d": transposed(3, 2, 2, stride=2),
}

NORMS = {
    "BatchNorm1d": Twin(nn.BatchNorm1d(), lambda: T.BatchNorm1d(4), (ROWS,)),
    "BatchNorm1d of sequences": Twin(nn.BatchNorm1d(), lambda: T.BatchNorm1d(4), (SEQUENCE,)),
    "BatchNorm2d": Twin(nn.BatchNorm2d(), lambda: T.BatchNorm2d(4), (IMAGES,)),
    # What torch calls momentum is what is taken of the new moments, not what is kept.
    "BatchNorm2d with momentum": Twin(
        nn.BatchNorm2d(momentum=0.7, eps=1e-3),
        lambda: T.BatchNorm2d(4, momentum=0.3, eps=1e-3),
        (IMAGES,),
    ),
    "BatchNorm2d without affine": Twin(
        nn.BatchNorm2d(affine=False), lambda: T.BatchNorm2d(4, affine=False), (IMAGES,)
    ),
    "BatchNorm3d": Twin(nn.BatchNorm3d(), lambda: T.BatchNorm3d(4), (VOLUMES,)),
    "LayerNorm": Twin(nn.LayerNorm(), lambda: T.LayerNorm(6), (IMAGES,)),
    "LayerNorm over two": Twin(nn.LayerNorm((7, 6)), lambda: T.LayerNorm((7, 6)), (IMAGES,)),
    "LayerNorm without affine": Twin(
        nn.LayerNorm(affine=False), lambda: T.LayerNorm(6, elementwise_affine=False), (IMAGES,)
    ),
    "RMSNorm": Twin(nn.RMSNorm(), lambda: T.RMSNorm(6, eps=1e-5), (IMAGES,)),
    "GroupNorm": Twin(nn.GroupNorm(2), lambda: T.GroupNorm(2, 4), (IMAGES,)),
    "GroupNorm of rows": Twin(nn.GroupNorm(2), lambda: T.GroupNorm(2, 4), (ROWS,)),
    "InstanceNorm2d": Twin(nn.InstanceNorm(), lambda: T.InstanceNorm2d(4, affine=True), (IMAGES,)),
    "InstanceNorm1d without affine": Twin(
        nn.InstanceNorm(affine=False), lambda: T.InstanceNorm1d(4), (SEQUENCE,)
    ),
    # torch divides alpha by the size of the window.
    "LocalResponseNorm": Twin(
        nn.LocalResponseNorm(3, 2.0, 0.1, 0.6),
        lambda: T.LocalResponseNorm(3, alpha=0.3, beta=0.6, k=2.0),
        (IMAGES,),
    ),
}


def recurrent(kind: str, *args: Any, batch_first: bool = False, **kwargs: Any) -> Twin:
    ours = getattr(nn, kind)(None, *args, batch_first=batch_first, **kwargs)
    theirs = partial(getattr(T, kind), 3, *args, batch_first=batch_first, **kwargs)
    return Twin(ours, theirs, (TIME.swapaxes(0, 1) if batch_first else TIME,))


RECURRENT = {
    f"{kind}{label}": recurrent(kind, 4, **kwargs)
    for kind in ("RNN", "GRU", "LSTM")
    for label, kwargs in (
        ("", {}),
        (" of two layers in both directions", {"num_layers": 2, "bidirectional": True}),
        (" with the batch first, without bias", {"batch_first": True, "bias": False}),
    )
} | {
    "RNN with relu": recurrent("RNN", 4, nonlinearity="relu"),
    "GRU without a batch": Twin(nn.GRU(None, 4), lambda: T.GRU(3, 4), (TIME[:, 0],)),
    "GRU from a start": Twin(nn.GRU(None, 4), lambda: T.GRU(3, 4), (TIME, drawn("start", 1, 2, 4))),
    "RNNCell": Twin(nn.RNNCell(None, 4), lambda: T.RNNCell(3, 4), (TIME[0], drawn("h", 2, 4))),
    "GRUCell": Twin(nn.GRUCell(None, 4), lambda: T.GRUCell(3, 4), (TIME[0], drawn("h", 2, 4))),
    "LSTMCell": Twin(nn.LSTMCell(None, 4), lambda: T.LSTMCell(3, 4), (TIME[0],)),
}


def attend(module: Any, *inputs: Any, **options: Any) -> Any:
    """torch wants query, key and value, and returns weights too."""
    q, k, v = (inputs * 3)[:3] if len(inputs) == 1 else (*inputs, inputs[-1])[:3]
    return module(q, k, v, need_weights=False, **options)[0]


FORBIDDEN = np.triu(np.ones((5, 5), bool), 1)  # torch: True is forbidden; ours: True is allowed
ATTENTION = {
    "MultiHeadAttention": Twin(
        nn.MultiHeadAttention(None, 2),
        lambda: T.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        attend,
    ),
    "MultiHeadAttention in blocks": Twin(
        nn.MultiHeadAttention(None, 2, block_size=2),
        lambda: T.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        attend,
    ),
    "MultiHeadAttention, causal, without bias": Twin(
        nn.MultiHeadAttention(None, 4, causal=True, bias=False),
        lambda: T.MultiheadAttention(8, 4, bias=False, batch_first=True),
        (WORDS,),
        partial(attend, attn_mask=torch.tensor(FORBIDDEN)),
    ),
    "MultiHeadAttention with a mask": Twin(
        nn.MultiHeadAttention(None, 2),
        lambda: T.MultiheadAttention(8, 2, batch_first=True),
        (WORDS,),
        partial(attend, attn_mask=torch.tensor(FORBIDDEN)),
        {"mask": ~FORBIDDEN},
    ),
    "MultiHeadAttention with numbers to add": Twin(
        nn.MultiHeadAttention(None, 2),
        lambda: T.MultiheadAttention(8, 2, batch_first=True),
        (WORDS, MEMORY),
        partial(attend, attn_mask=torch.tensor(drawn("scores", 5, 4))),
        {"mask": drawn("scores", 5, 4)},
    ),
    "MultiHeadAttention of other sizes": Twin(
        nn.MultiHeadAttention(None, 2),
        lambda: T.MultiheadAttention(8, 2, kdim=3, vdim=6, batch_first=True),
        (WORDS, drawn("keys", 2, 4, 3), drawn("values", 2, 4, 6)),
        attend,
    ),
}


def transformer(cls: str, norm_first: bool, activation: str, stack: int = 0) -> Callable[[], Any]:
    def build() -> Any:
        layer = getattr(T, f"Transformer{cls}Layer")(
            8, 2, 16, 0.0, activation, batch_first=True, norm_first=norm_first
        )
        if not stack:
            return layer
        norm = T.LayerNorm(8) if norm_first else None
        # Without its own fast path for evaluation, which gives no gradients.
        more = {"enable_nested_tensor": False} if cls == "Encoder" else {}
        return getattr(T, f"Transformer{cls}")(layer, stack, norm, **more)

    return build


def ours_of(activation: str) -> Callable[[Any], Any]:
    return {"relu": nn.relu, "gelu": partial(nn.gelu, approximate=False)}[activation]


CAUSAL = torch.tensor(FORBIDDEN)
TRANSFORMERS: dict[str, Twin] = {}
for first in (True, False):
    for act in ("relu", "gelu"):
        label = f"{'norm first' if first else 'norm last'}, {act}"
        TRANSFORMERS |= {
            f"encoder layer, {label}": Twin(
                nn.TransformerEncoderLayer(None, 2, 16, 0.0, ours_of(act), first),
                transformer("Encoder", first, act),
                (WORDS,),
            ),
            f"decoder layer, {label}": Twin(
                nn.TransformerDecoderLayer(None, 2, 16, 0.0, ours_of(act), first),
                transformer("Decoder", first, act),
                (WORDS, MEMORY),
                lambda m, x, memory: m(x, memory, tgt_mask=CAUSAL),
            ),
        }
    label = "norm first" if first else "norm last"
    TRANSFORMERS |= {
        f"encoder, {label}": Twin(
            nn.TransformerEncoder(2, None, 2, 16, norm_first=first),
            transformer("Encoder", first, "relu", 2),
            (WORDS,),
        ),
        f"causal encoder, {label}": Twin(
            nn.TransformerEncoder(2, None, 2, 16, norm_first=first, causal=True),
            transformer("Encoder", first, "relu", 2),
            (WORDS,),
            lambda m, x: m(x, mask=CAUSAL),
        ),
        f"decoder, {label}": Twin(
            nn.TransformerDecoder(2, None, 2, 16, norm_first=first),
            transformer("Decoder", first, "relu", 2),
            (WORDS, MEMORY),
            lambda m, x, memory: m(x, memory, tgt_mask=CAUSAL),
        ),
    }
TRANSFORMERS["Transformer"] = Twin(
    nn.Transformer(8, 2, 2, 2, 16),
    lambda: T.Transformer(8, 2, 2, 2, 16, 0.0, batch_first=True, norm_first=True),
    (MEMORY, WORDS),
    lambda m, source, target: m(source, target, tgt_mask=CAUSAL),
)


def pool(n: int, kind: str, *args: Any, ours: Any = (), **theirs: Any) -> Twin:
    x = (SEQUENCE, IMAGES, VOLUMES)[n - 1]
    layer = getattr(nn, f"{kind}Pool{n}d")(*args, *ours)
    return Twin(layer, lambda: getattr(T, f"{kind}Pool{n}d")(*args, **theirs), (x,))


AS_TORCH = ("average",)  # the mode in which zeros of the padding count
POOLING = {
    "AvgPool1d": pool(1, "Avg", 3, 2, 1, ours=AS_TORCH),
    "AvgPool2d": pool(2, "Avg", (3, 2), (2, 1), (1, 0), ours=AS_TORCH),
    "AvgPool2d without the padding": pool(2, "Avg", 3, 2, 1, count_include_pad=False),
    "AvgPool3d": pool(3, "Avg", 2, 2, 0, ours=AS_TORCH),
    "MaxPool1d": pool(1, "Max", 3, 2, 1),
    "MaxPool2d": pool(2, "Max", (3, 2), (2, 1), (1, 1)),
    "MaxPool2d dilated": pool(2, "Max", 2, 1, 1, 2),
    "MaxPool3d": pool(3, "Max", 2),
    **{
        f"Adaptive{kind}Pool{n}d to {size}": pool(n, f"Adaptive{kind}", size)
        for kind in ("Avg", "Max")
        for n, size in ((1, 4), (2, (3, 4)), (2, 1), (3, (2, 3, 1)))
    },
    "PixelShuffle": Twin(nn.PixelShuffle(2), lambda: T.PixelShuffle(2), (IMAGES,)),
    "Upsample by repetition": Twin(
        nn.Upsample(scale_factor=2), lambda: T.Upsample(scale_factor=2), (IMAGES,)
    ),
    "Upsample, bilinear": Twin(
        nn.Upsample(size=(9, 11), mode="linear"),
        lambda: T.Upsample(size=(9, 11), mode="bilinear"),
        (IMAGES,),
    ),
}

TWINS = LINEAR | CONVOLUTIONS | NORMS | RECURRENT | ATTENTION | TRANSFORMERS | POOLING


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", TWINS)
def test_twin(name: str, train: bool) -> None:
    twin = TWINS[name]
    same_layer(
        twin.layer,
        twin.module(),
        twin.inputs,
        train=train,
        call=twin.call,
        options=twin.options,
        rename=twin.rename,
    )


def test_spectral_norm_in_evaluation() -> None:
    """In training the two improve u and v in a different order."""
    module = T.utils.parametrizations.spectral_norm(T.Linear(4, 3))
    same_layer(nn.SpectralNorm(nn.Linear(None, 3)), module, (ROWS,))


def test_a_wrong_twin_is_found() -> None:
    with pytest.raises(AssertionError, match="outputs"):
        same_layer(nn.LayerNorm(eps=1e-3), T.LayerNorm(6), (IMAGES,))
    with pytest.raises(AssertionError, match="gradients in the parameters"):
        same_layer(nn.Embedding(5, 3), T.Embedding(5, 3, padding_idx=2), (TOKENS,))
    with pytest.raises(AssertionError, match="state afterwards"):
        same_layer(nn.BatchNorm1d(momentum=0.1), T.BatchNorm1d(4), (ROWS,), train=True)
