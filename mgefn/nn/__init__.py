"""Neural networks: functions, layers as immutable descriptions, and losses.

This file only names things. Functions of arrays have jax.nn's and MegEngine's names; a layer is a
`Module`, whose `init` gives parameters and state and whose `apply` takes them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError, explain_constructors
from mgefn.nn import functions
from mgefn.nn.functions import (
    celu,
    elu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    log_softmax,
    logmeanexp,
    logsumexp,
    mish,
    one_hot,
    prelu,
    relu,
    relu2,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softmin,
    softplus,
    softshrink,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    standardize,
    step,
    swish,
    tanh,
)

if TYPE_CHECKING:
    from mgefn.nn import initializers, losses
    from mgefn.nn.activation_layers import GELU, LeakyReLU, Pad, ReLU, Sigmoid, SiLU, Softmax, Tanh
    from mgefn.nn.attention import dot_product_attention
    from mgefn.nn.basic_layers import (
        MLP,
        Bilinear,
        DenseGeneral,
        Dropout,
        Dropout1d,
        Dropout2d,
        Dropout3d,
        Embedding,
        Flatten,
        Identity,
        Lambda,
        Linear,
        LoRALinear,
        Parallel,
        PReLU,
        Residual,
        Sequential,
        Unflatten,
    )
    from mgefn.nn.conv_layers import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        Conv1d,
        Conv2d,
        Conv3d,
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
        PixelShuffle,
        Upsample,
    )
    from mgefn.nn.linear_maps import (
        conv1d,
        conv2d,
        conv3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
        dropout,
        embedding,
        fold,
        linear,
        pad,
        pixel_shuffle,
        unfold,
    )
    from mgefn.nn.module import (
        Module,
        Run,
        apply,
        init,
    )
    from mgefn.nn.multi_head import multi_head_attention
    from mgefn.nn.norm_layers import (
        BatchNorm,
        BatchNorm1d,
        BatchNorm2d,
        BatchNorm3d,
        GroupNorm,
        InstanceNorm,
        LayerNorm,
        LocalResponseNorm,
        RMSNorm,
        SyncBatchNorm,
    )
    from mgefn.nn.norms import (
        batch_norm,
        group_norm,
        instance_norm,
        layer_norm,
        local_response_norm,
        normalize,
        rms_norm,
        sync_batch_norm,
    )
    from mgefn.nn.parameters import (
        TrainState,
        combine,
        count_params,
        filter,
        filter_grad,
        filter_value_and_grad,
        is_array,
        is_array_like,
        is_inexact_array,
        load_state_dict,
        matching,
        named_parameters,
        partition,
        state_dict,
    )
    from mgefn.nn.pooling import avg_pool, max_pool, min_pool, pool
    from mgefn.nn.recurrent import (
        GRU,
        LSTM,
        RNN,
        Bidirectional,
        GRUCell,
        LSTMCell,
        RNNCell,
    )
    from mgefn.nn.sequences import (
        combine_masks,
        make_attention_mask,
        make_causal_mask,
        rope,
        scan_rnn,
        sinusoidal_encoding,
        topk_accuracy,
    )
    from mgefn.nn.spatial_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from mgefn.nn.summary import (
        count_flops,
        tabulate,
    )
    from mgefn.nn.transformers import (
        ALiBi,
        MultiHeadAttention,
        RotaryPositionalEmbedding,
        SinusoidalPositionalEncoding,
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )
    from mgefn.nn.wrappers import (
        ScanLayers,
        SpectralNorm,
        WeightNorm,
        remat_layer,
        scan_layers,
    )

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "ALiBi",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bidirectional",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DenseGeneral",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LSTMCell",
    "Lambda",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LoRALinear",
    "LocalResponseNorm",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "MultiHeadAttention",
    "PReLU",
    "Pad",
    "Parallel",
    "PixelShuffle",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "Residual",
    "RotaryPositionalEmbedding",
    "Run",
    "ScanLayers",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositionalEncoding",
    "Softmax",
    "SpectralNorm",
    "SyncBatchNorm",
    "Tanh",
    "TrainState",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "Upsample",
    "WeightNorm",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "apply",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "celu",
    "combine",
    "combine_masks",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "count_flops",
    "count_params",
    "dot_product_attention",
    "dropout",
    "elu",
    "embedding",
    "filter",
    "filter_grad",
    "filter_value_and_grad",
    "fold",
    "functions",
    "gelu",
    "glu",
    "group_norm",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "init",
    "initializers",
    "instance_norm",
    "is_array",
    "is_array_like",
    "is_inexact_array",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_state_dict",
    "local_response_norm",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "losses",
    "make_attention_mask",
    "make_causal_mask",
    "matching",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "min_pool",
    "mish",
    "multi_head_attention",
    "named_parameters",
    "normalize",
    "one_hot",
    "pad",
    "partition",
    "pixel_shuffle",
    "pool",
    "prelu",
    "relu",
    "relu2",
    "relu6",
    "remat_layer",
    "rms_norm",
    "rope",
    "scan_layers",
    "scan_rnn",
    "selu",
    "sigmoid",
    "silu",
    "sinusoidal_encoding",
    "soft_sign",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "state_dict",
    "step",
    "swish",
    "sync_batch_norm",
    "tabulate",
    "tanh",
    "topk_accuracy",
    "unfold",
]

# file -> names that come from it, at their first use: layers are many, and programs need few.
_LENT = {
    "activation_layers": "GELU LeakyReLU Pad ReLU Sigmoid SiLU Softmax Tanh",
    "attention": "dot_product_attention",
    "basic_layers": (
        "MLP Bilinear DenseGeneral Dropout Dropout1d Dropout2d Dropout3d Embedding Flatten "
        "Identity Lambda Linear LoRALinear Parallel PReLU Residual Sequential Unflatten"
    ),
    "conv_layers": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d Conv1d Conv2d Conv3d "
        "ConvTranspose1d ConvTranspose2d ConvTranspose3d MaxPool1d MaxPool2d MaxPool3d "
        "PixelShuffle Upsample"
    ),
    "linear_maps": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d dropout "
        "embedding fold linear pad pixel_shuffle unfold"
    ),
    "module": "Module Run apply init",
    "multi_head": "multi_head_attention",
    "norm_layers": (
        "BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm LayerNorm "
        "LocalResponseNorm RMSNorm SyncBatchNorm"
    ),
    "norms": (
        "batch_norm group_norm instance_norm layer_norm local_response_norm normalize rms_norm "
        "sync_batch_norm"
    ),
    "parameters": (
        "TrainState combine count_params filter filter_grad filter_value_and_grad is_array "
        "is_array_like is_inexact_array load_state_dict matching named_parameters partition "
        "state_dict"
    ),
    "pooling": "avg_pool max_pool min_pool pool",
    "recurrent": "GRU LSTM RNN Bidirectional GRUCell LSTMCell RNNCell",
    "sequences": (
        "combine_masks make_attention_mask make_causal_mask rope scan_rnn sinusoidal_encoding "
        "topk_accuracy"
    ),
    "spatial_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d "
        "max_pool2d max_pool3d"
    ),
    "summary": "count_flops tabulate",
    "transformers": (
        "ALiBi MultiHeadAttention RotaryPositionalEmbedding SinusoidalPositionalEncoding "
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer"
    ),
    "wrappers": "ScanLayers SpectralNorm WeightNorm remat_layer scan_layers",
}
_LENDERS = {name: module for module, names in _LENT.items() for name in names.split()}
_FOLDERS = ("initializers", "losses")
# Programs make these anew at each step, so no constructor explains its arguments.
_PLAIN = ("Run", "TrainState")


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        if name in _FOLDERS:
            return importlib.import_module(f"mgefn.nn.{name}")
        lender = _LENDERS.get(name)
        if lender is None:
            raise MissingNameError(__name__, name, __all__)
        module = importlib.import_module(f"mgefn.nn.{lender}")
        lent = {n: getattr(module, n) for n in _LENT[lender].split()}
        explain_constructors(lent, lent.keys() - set(_PLAIN))
        globals().update(lent)
        return lent[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
