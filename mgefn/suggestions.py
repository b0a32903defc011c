"""What somebody may have meant who asked for a name that is not there.

Two tables: keyword arguments, and names of modules, by which other libraries call what has another
name here. What is in neither is compared by its letters. Nothing here runs before something is
missing, so it costs a program that is right nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

# Keywords of one meaning: whoever passes one of a row and finds another one there meant that.
_SAME = (
    "learning_rate lr step_size init_value",
    "axis dim dims axes dimension dimensions start_axis",
    "keepdims keepdim keep_dims",
    "in_features in_dim in_channels in_size input_size input_dim input_features num_features",
    "out_features features units out_dim out_channels out_size output_dim output_size filters",
    "in_channels in_features in_planes",
    "hidden_size hidden_dim features units",
    "drop_prob p rate prob dropout dropout_rate dropout_prob",
    "dropout drop_prob attn_drop dropout_rate attention_dropout",
    "b1 beta1 beta_1 betas adam_beta1",
    "b2 beta2 beta_2 betas adam_beta2",
    "decay momentum alpha rho",
    "eps epsilon",
    "stddev std sigma",
    "decimals digits ndigits",
    "min lo low a_min clip_value_min",
    "max hi high a_max clip_value_max",
    "correction unbiased",
    "ddof unbiased",
    "count step steps epoch",
    "updates grads grad gradients",
    "grads grad gradients updates",
    "params parameters variables",
    "weight_decay wd decay l2",
    "bias use_bias with_bias",
    "weight_init kernel_init w_init kernel_initializer weight_initializer",
    "bias_init b_init bias_initializer",
    "train training is_training deterministic",
    "key rng rngs seed generator random_state prng_key",
    "seed random_seed random_state",
    "shape size newshape output_shape",
    "target_shape output_size",
    "num_heads n_heads nhead heads",
    "embed_dim d_model qkv_features features dims",
    "dims d_model embed_dim features",
    "mlp_dims dim_feedforward ffn_dim mlp_dim",
    "num_layers n_layers layers depth",
    "stride strides window_strides",
    "dilation kernel_dilation rhs_dilation dilation_rate",
    "groups feature_group_count num_groups",
    "num_embeddings vocab_size num_words",
    "embedding_dim features embed_dim",
    "normalized_shape features num_features shape",
    "affine use_scale elementwise_affine use_bias",
    "transition_steps decay_steps T_max num_steps total_steps steps",
    "decay_steps transition_steps T_max num_steps total_steps",
    "decay_rate gamma",
    "max_norm max_grad_norm clip_norm",
    "reduction reduce reduction_type",
    "repeats num_repeats",
    "static_argnums static_args",
    "donate_argnums donate_args donate",
    "in_axes in_dims axes",
    "out_axes out_dims",
    "a x input inputs array tensor operand inp",
    "x a input inputs array tensor operand inp",
    "inp x a input inputs",
    "logits predictions pred preds inputs y_pred scores",
    "labels targets target label y_true",
    "target labels label targets y_true",
    "collator collate_fn collate",
    "num_workers workers worker_count num_threads",
    "drop_last drop_remainder",
    "ahead prefetch_factor prefetch",
    "world_size num_replicas shard_count",
    "rank shard_index process_index",
    "target template item params state",
    "ckpt_dir directory path checkpoint_dir folder",
    "directory ckpt_dir path folder",
    "max_to_keep keep",
    "tx optimizer opt",
    "parallel_iterations unroll",
)  # fmt: skip

# Keywords that no argument of the function stands for: what does instead.
_ELSEWHERE = {
    ("DataLoader", "batch_size"): "Give it to the sampler: sampler=RandomSampler(dataset, "
    "batch_size=...).",
    ("DataLoader", "shuffle"): "Order is the sampler's: sampler=RandomSampler(dataset, "
    "batch_size=..., key=...), or SequentialSampler.",
    ("DataLoader", "drop_last"): "Give it to the sampler: sampler=RandomSampler(dataset, "
    "batch_size=..., drop_last=True).",
    ("DataLoader", "pin_memory"): "preload=True puts batches on the device ahead.",
    ("DataLoader", "seed"): "key=random.key(seed) is for the transform; the sampler has its own.",
    ("RandomSampler", "replacement"): "ReplacementSampler draws with replacement.",
    ("sgd", "weight_decay"): "chain(add_decayed_weights(weight_decay), sgd(learning_rate)).",
    ("adam", "weight_decay"): "adamw has it.",
    ("adam", "amsgrad"): "amsgrad is an optimizer of its own.",
    ("adam", "params"): "An optimizer is made without params: state = opt.init(params).",
    ("adamw", "params"): "An optimizer is made without params: state = opt.init(params).",
    ("sgd", "params"): "An optimizer is made without params: state = opt.init(params).",
    ("Array.reshape", "shape"): "Give the sizes by position: x.reshape(2, 3).",
    ("Array.reshape", "size"): "Give the sizes by position: x.reshape(2, 3).",
    ("apply", "mutable"): "apply always returns (output, state).",
    ("apply", "method"): "A module has one forward; make another module for another use.",
    ("apply", "variables"): "apply takes params and state, each by itself.",
    ("array", "requires_grad"): "Derivatives are functions here: mgefn.grad(f).",
    ("zeros", "requires_grad"): "Derivatives are functions here: mgefn.grad(f).",
    ("ones", "requires_grad"): "Derivatives are functions here: mgefn.grad(f).",
}  # fmt: skip

# Names of PyTorch, flax, haiku, optax, NumPy and JAX -> what has their meaning here, by module.
_NAMES: dict[str, dict[str, str]] = {
    "mgefn": {
        "pmap": "mgefn.vmap on one device, or mgefn.shard_map",
        "tree_map": "mgefn.tree.map", "tree_leaves": "mgefn.tree.leaves",
        "tree_flatten": "mgefn.tree.flatten", "tree_multimap": "mgefn.tree.map",
        "PRNGKey": "mgefn.random.key", "array": "mgefn.numpy.array", "tensor": "mgefn.numpy.array",
        "Tensor": "mgefn.Array", "ndarray": "mgefn.Array", "no_grad": "mgefn.lax.stop_gradient",
        "stop_gradient": "mgefn.lax.stop_gradient", "cond": "mgefn.lax.cond",
        "scan": "mgefn.lax.scan", "while_loop": "mgefn.lax.while_loop",
        "fori_loop": "mgefn.lax.fori_loop", "compile": "mgefn.jit", "jnp": "mgefn.numpy",
        "save": "mgefn.io", "load": "mgefn.io", "manual_seed": "mgefn.random.key",
        "autograd": "mgefn.grad", "func": "mgefn.grad, mgefn.vmap and their like",
        "functional": "mgefn.nn", "utils": "mgefn.data for loaders", "losses": "mgefn.nn.losses",
        "optax": "mgefn.optim", "cuda": "mgefn.devices", "linen": "mgefn.nn",
        "initializers": "mgefn.nn.initializers",
    },
    "mgefn.numpy": {
        "jit": "mgefn.jit", "grad": "mgefn.grad", "vmap": "mgefn.vmap",
        "relu": "mgefn.nn.relu", "softmax": "mgefn.nn.softmax", "gelu": "mgefn.nn.gelu",
        "sigmoid": "mgefn.nn.sigmoid", "random": "mgefn.random", "cat": "concatenate",
        "tensor": "array", "randn": "mgefn.random.normal", "rand": "mgefn.random.uniform",
        "unsqueeze": "expand_dims", "topk": "mgefn.lax.top_k", "mm": "matmul", "bmm": "matmul",
        "clamp": "clip", "view": "reshape",
        "logsumexp": "mgefn.nn.logsumexp", "norm": "linalg.norm", "inv": "linalg.inv",
        "gather": "take_along_axis", "scatter": "x.at[...].set", "index_select": "take",
        "erf": "mgefn.scipy.special.erf", "from_numpy": "array", "Tensor": "ndarray",
        "masked_fill": "where", "flip_lr": "fliplr", "normal": "mgefn.random.normal",
        "in1d": "isin", "product": "prod", "alltrue": "all", "sometrue": "any",
        "asscalar": "x.item()", "msort": "sort",
    },
    "mgefn.nn": {
        "Dense": "Linear", "Conv": "Conv1d, Conv2d or Conv3d", "Embed": "Embedding",
        "ConvTranspose": "ConvTranspose1d, ConvTranspose2d or ConvTranspose3d",
        "MultiHeadDotProductAttention": "MultiHeadAttention",
        "MultiheadAttention": "MultiHeadAttention", "SelfAttention": "MultiHeadAttention",
        "compact": "forward(run, x) of a Module", "BatchNormalization": "BatchNorm",
        "InstanceNorm1d": "InstanceNorm", "InstanceNorm2d": "InstanceNorm",
        "InstanceNorm3d": "InstanceNorm", "Einsum": "DenseGeneral, or mgefn.numpy.einsum",
        "MaxPool": "MaxPool1d, MaxPool2d or MaxPool3d",
        "AvgPool": "AvgPool1d, AvgPool2d or AvgPool3d", "ModuleList": "Sequential, or a tuple",
        "ModuleDict": "Sequential with names, or a dict", "Parameter": "run.param in forward",
        "param": "run.param in forward", "functional": "mgefn.nn itself",
        "linen": "mgefn.nn itself",
        "CrossEntropyLoss": "losses.softmax_cross_entropy_with_integer_labels",
        "MSELoss": "losses.squared_error",
        "BCEWithLogitsLoss": "losses.sigmoid_binary_cross_entropy",
        "BCELoss": "losses.binary_cross_entropy", "L1Loss": "losses.l1_loss",
        "NLLLoss": "losses.nll_loss", "SmoothL1Loss": "losses.smooth_l1_loss",
        "HuberLoss": "losses.huber_loss", "KLDivLoss": "losses.kl_divergence",
        "CTCLoss": "losses.ctc_loss", "cross_entropy": "losses.cross_entropy",
        "mse_loss": "losses.squared_error", "nll_loss": "losses.nll_loss",
        "softmax_cross_entropy": "losses.softmax_cross_entropy",
        "LogSoftmax": "log_softmax", "ELU": "elu", "Mish": "mish", "Hardtanh": "hard_tanh",
        "Swish": "SiLU", "leakyrelu": "leaky_relu", "LeakyRelu": "LeakyReLU",
        "Dropout1D": "Dropout1d", "Dropout2D": "Dropout2d", "Conv1D": "Conv1d", "Conv2D": "Conv2d",
        "Conv3D": "Conv3d", "ZeroPad2d": "Pad", "GRUcell": "GRUCell",
        "OptimizedLSTMCell": "LSTMCell", "scan": "scan_layers or scan_rnn", "remat": "remat_layer",
        "checkpoint": "remat_layer", "transform": "Module",
        "scaled_dot_product_attention":
        "dot_product_attention", "F": "mgefn.nn itself", "weight_norm": "WeightNorm",
        "spectral_norm": "SpectralNorm",
    },
    "mgefn.optim": {
        "Adam": "adam", "AdamW": "adamw", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad",
        "Adadelta": "adadelta", "Adamax": "adamax", "NAdam": "nadam", "RAdam": "radam",
        "LBFGS": "lbfgs", "Rprop": "rprop", "ASGD": "sgd and mgefn.training.EMA",
        "muon": "contrib.muon", "schedule_free": "contrib.schedule_free",
        "prodigy": "contrib.prodigy", "sam": "contrib.sam",
        "momentum": "sgd with momentum=", "lr_scheduler": "schedules",
        "CosineAnnealingLR": "cosine_decay_schedule", "StepLR": "piecewise_constant_schedule",
        "ExponentialLR": "exponential_decay", "OneCycleLR": "cosine_onecycle_schedule",
        "ReduceLROnPlateau": "contrib.reduce_on_plateau", "LinearLR": "linear_schedule",
        "clip_grad_norm": "clip_by_global_norm", "clip_grad_norm_": "clip_by_global_norm",
        "additive_weight_decay": "add_decayed_weights", "weight_decay": "add_decayed_weights",
        "mse_loss": "squared_error", "step": "update(...) of the optimizer and apply_updates",
    },
    "mgefn.random": {
        "rand": "uniform", "randn": "normal", "seed": "key", "manual_seed": "key", "default_rng":
        "key", "new_key": "key", "shuffle": "permutation", "standard_normal": "normal",
        "integers": "randint", "random": "uniform", "multinomial_sample": "categorical",
        "fold": "fold_in", "Generator": "key",
    },
    "mgefn.lax": {
        "relu": "mgefn.nn.relu", "jit": "mgefn.jit", "for_loop": "fori_loop", "where": "select",
        "matmul": "mgefn.numpy.matmul, or dot_general", "sum": "mgefn.numpy.sum, or reduce",
        "conv2d": "conv_general_dilated, or mgefn.nn.conv2d", "softmax": "mgefn.nn.softmax",
    },
    "mgefn.data": {
        "TensorDataset": "ArrayDataset", "Loader": "DataLoader", "BatchSampler":
        "batch_size= of a sampler", "SubsetRandomSampler": "RandomSampler with indices=",
        "WeightedRandomSampler": "WeightedSampler", "IterableDataset": "StreamDataset",
        "default_collate": "collate", "prefetch": "prefetch_to_device", "filter": "Subset",
        "DistributedSampler": "world_size= and rank= of a sampler", "Sequential": "Compose",
        "ImageFolder": "datasets.ImageFolder", "MNIST": "datasets.MNIST",
    },
    "mgefn.training": {
        "ExponentialMovingAverage": "EMA", "load_checkpoint": "restore_checkpoint",
        "TensorBoard": "SummaryWriter", "train_state": "mgefn.training itself",
    },
    "mgefn.io": {
        "Checkpointer": "CheckpointManager", "checkpoint": "save_checkpoint",
        "load_checkpoint": "restore_checkpoint", "save_file": "save", "load_file": "load",
        "safe_open": "load", "savez": "save", "EMA": "mgefn.training.EMA",
    },
}  # fmt: skip


def nearest(name: str, names: Iterable[str]) -> str:
    """The most alike of the names, "" where none is near; case counts little."""
    import difflib  # after all that a program which is right waits for

    known = {n.lower(): n for n in names if not n.startswith("_")}
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return known[found[0]] if found else ""


def missing_name(module: str, name: str, names: Iterable[str]) -> str:
    """The message for a module that has no such name.

    Args:
        module: the module's full name.
        name: what was asked for.
        names: those that it has.
    """
    text = f"module {module!r} has no attribute {name!r}"
    names = list(names)
    meant = _NAMES.get(module, {}).get(name, "")
    if not meant or (meant.isidentifier() and meant not in names):
        # One that another library has under this name may have come in the meantime.
        meant = nearest(name, names) or meant
    return f"{text}. Did you mean {meant}?" if meant else f"{text}."


@functools.lru_cache(maxsize=1024)
def accepted(fun: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names that fun takes as keywords; None where it takes any, or where that is not known."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in parameters if p.kind in kinds and p.name not in ("self", "cls"))


def unknown_keyword(about: str, name: str, names: Iterable[str]) -> str:
    """The message for a call with a keyword that the function does not have."""
    names = list(names)
    text = f"{about}: keywords must be among {', '.join(names) or 'none'}, got {name!r}."
    elsewhere = _ELSEWHERE.get((about, name)) or _ELSEWHERE.get((about.split(".")[-1], name))
    if elsewhere:
        return f"{text} {elsewhere}"
    rows = [row.split() for row in _SAME]
    meant = [row[0] for row in rows if name in row and row[0] in names]
    meant += [n for row in rows if name in row for n in row if n in names]
    meant = list(dict.fromkeys(n for n in meant if n != name))[:2] or [nearest(name, names)]
    return f"{text} Did you mean {' or '.join(meant)}?" if meant[0] else f"{text} Leave it out."


_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")


def _is_key(x: Any) -> bool:
    """Is it a key, or the two words of one, or a batch?"""
    dtype = getattr(x, "dtype", None)
    if getattr(dtype, "names", None) is not None:
        return True
    return str(dtype) == "uint32" and getattr(x, "shape", ())[-1:] == (2,)


def explained(fun: Callable[..., Any], exc: Exception, about: str = "") -> str:
    """The message for a call that Python refused, "" where it says enough itself.

    Args:
        fun: what was called.
        exc: Python's refusal.
        about: the name to give fun; its own without one.
    """
    about = about or getattr(fun, "__qualname__", type(fun).__name__)
    about = about.removesuffix(".__init__").split("<locals>.")[-1]
    found = _UNEXPECTED.search(str(exc))
    names = accepted(fun) if found else None
    return unknown_keyword(about, found[1], names) if found and names is not None else ""


def without_key(fun: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The message for a call that went wrong, if what went wrong is that the key was forgotten.

    Whoever forgets it gives the other arguments by position, one place too early.
    """
    # Not a method, whose first argument is another, nor a decorated function of the user's.
    ours = getattr(fun, "__module__", "").startswith("mgefn.") and "." not in fun.__qualname__
    names = (accepted(fun) or ()) if ours else ()
    if names[:1] != ("key",) or len(names) == 1 or not args or _is_key(args[0]):
        return ""
    about = fun.__name__
    return (
        f"{about}: the first argument must be a random key, got {_described(args[0])}. Pass one "
        f"before the others: {about}(random.key(seed), ...)."
    )


def _described(x: Any) -> str:
    aval = getattr(x, "aval", None)
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    return "None" if x is None else type(x).__name__ if aval is None else str(aval)


__all__ = [
    "accepted",
    "explained",
    "missing_name",
    "nearest",
    "unknown_keyword",
    "without_key",
]
