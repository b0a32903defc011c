"""What somebody may have meant who asked for a name that is not there.

Two tables: keyword arguments, and names of modules, by which other libraries call what has another
name here. What is in neither is compared by its letters. Nothing here runs before something is
missing, so it costs a program that is right nothing.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
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
    "shape size newshape output_shape unflattened_size",
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
        "spectral_norm": "SpectralNorm", "interpolate": "mgefn.image.resize, or Upsample",
    },
    "mgefn.optim": {
        "Adam": "adam", "AdamW": "adamw", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad",
        "Adadelta": "adadelta", "Adamax": "adamax", "NAdam": "nadam", "RAdam": "radam",
        "ExponentialMovingAverage": "mgefn.training.EMA", "EMA": "mgefn.training.EMA",
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


_INSTEAD_OF_STRINGS = "Text stays outside of arrays, in NumPy's."
_DATES = "Arrays hold numbers and booleans: keep dates in NumPy's, and pass their number of days."
_WARNINGS = (
    "Nothing warns here: floating-point errors give nan and inf. mgefn.config.debug_nans and "
    "mgefn.checkify find where."
)
_FILES = "Files of text are NumPy's: mgefn.numpy.asarray(numpy.{0}(...))."
_SAVES = "Files of text are NumPy's: numpy.{0}(path, x) takes arrays of ours."
_ALIAS = "Arrays here never share memory that is written, so nothing depends on it."
_LAYOUT = "Arrays have no layout to ask for: mgefn.numpy.asarray."
_WRITES = "Arrays are immutable."
_LONG = "There is no wider float than 64 bits: mgefn.numpy.{0}."

# Names of NumPy that are not in mgefn.numpy, with what to use, or why there is none.
_NAMES["mgefn.numpy"].update(
    {
        "errstate": _WARNINGS, "seterr": _WARNINGS, "geterr": _WARNINGS, "seterrcall": _WARNINGS,
        "geterrcall": _WARNINGS,
        "testing": "numpy.testing, which takes arrays of ours: import numpy",
        "nditer": "mgefn.vmap, or x.ravel()", "ndenumerate":
        "numpy.ndenumerate(numpy.asarray(x)), or mgefn.numpy.indices",
        "ndindex": "numpy.ndindex(x.shape), outside of traced functions",
        "nested_iters": "mgefn.vmap", "flatiter": "x.ravel()",
        "broadcast": "broadcast_arrays, or broadcast_shapes",
        "genfromtxt": _FILES.format("genfromtxt"), "loadtxt": _FILES.format("loadtxt"),
        "fromregex": _FILES.format("fromregex"), "savetxt": _SAVES.format("savetxt"),
        "savez_compressed": "savez, or numpy.savez_compressed, which takes arrays of ours",
        "memmap": "mgefn.numpy.asarray(numpy.memmap(...)), which reads the file",
        "matrix": "Matrices are arrays of rank 2, and x @ y is their product.",
        "asmatrix": "Matrices are arrays of rank 2, and x @ y is their product.",
        "bmat": "block", "row_stack": "vstack", "asanyarray": "asarray",
        "asarray_chkfinite": "asarray, and isfinite", "ascontiguousarray": _LAYOUT,
        "asfortranarray": _LAYOUT, "isfortran": _LAYOUT, "require": _LAYOUT,
        "copyto": f"{_WRITES} Write x = mgefn.numpy.where(condition, values, x).",
        "putmask": f"{_WRITES} Write x = mgefn.numpy.where(mask, values, x).",
        "may_share_memory": _ALIAS, "shares_memory": _ALIAS,
        "frompyfunc": "vectorize", "poly1d": "poly, polyval and their like",
        "polydiv": "numpy.polydiv, on known values", "polynomial": "polyfit and polyval",
        "min_scalar_type": "result_type", "mintypecode": "result_type",
        "common_type": "result_type", "typename": "dtype(...).name",
        "typecodes": "dtype(...).kind", "sctypeDict": "dtype", "ScalarType": "issubdtype",
        "ufunc": "frompyfunc's place is taken by vectorize, and reductions by lax.reduce",
        "emath": "sqrt and log of complex numbers: x.astype('complex64')",
        "ma": "Masks are arrays of their own: pass where=, or use mgefn.numpy.where.",
        "rec": "A dict of arrays is the record: mgefn.tree maps over it.",
        "recarray": "A dict of arrays is the record: mgefn.tree maps over it.",
        "record": "A dict of arrays is the record: mgefn.tree maps over it.",
        "void": "A dict of arrays is the record: mgefn.tree maps over it.",
        "char": _INSTEAD_OF_STRINGS, "strings": _INSTEAD_OF_STRINGS, "str_": _INSTEAD_OF_STRINGS,
        "bytes_": _INSTEAD_OF_STRINGS,
        "datetime64": _DATES, "timedelta64": _DATES, "isnat": _DATES, "busday_count": _DATES,
        "busday_offset": _DATES, "busdaycalendar": _DATES, "is_busday": _DATES,
        "datetime_as_string": _DATES, "datetime_data": _DATES,
        "longdouble": _LONG.format("float64"), "float128": _LONG.format("float64"),
        "clongdouble": _LONG.format("complex128"), "complex256": _LONG.format("complex128"),
        "byte": "int8", "ubyte": "uint8", "short": "int16", "ushort": "uint16", "intc": "int32",
        "uintc": "uint32", "intp": "int64", "uintp": "uint64", "long": "int64", "ulong": "uint64",
        "longlong": "int64", "ulonglong": "uint64", "half": "float16",
        "True_": "Python's True is taken for one.", "False_": "Python's False is taken for one.",
        "array2string": "array_repr or array_str", "format_float_positional":
        "numpy.format_float_positional(x.item())", "format_float_scientific":
        "numpy.format_float_scientific(x.item())", "base_repr": "numpy.base_repr(int(x))",
        "binary_repr": "numpy.binary_repr(int(x))", "trapz": "trapezoid",
        "version": "mgefn.__version__", "__version__": "mgefn.__version__",
        "dtypes": "dtype", "exceptions": "mgefn.errors", "typing": "mgefn.typing",
        "info": "Python's help(f) shows the description.", "little_endian": "sys.byteorder",
    }
)  # fmt: skip

# What methods and attributes of other libraries' objects are here, by what the object is.
ATTRIBUTES: dict[str, dict[str, str]] = {
    "array": {
        "permute": "x.transpose(axes)", "t": "x.T", "unsqueeze":
        "mgefn.numpy.expand_dims(x, axis)", "view_as": "x.reshape(y.shape)",
        "reshape_as": "x.reshape(y.shape)", "expand": "mgefn.numpy.broadcast_to(x, shape)",
        "expand_as": "mgefn.numpy.broadcast_to(x, y.shape)", "tile": "mgefn.numpy.tile(x, reps)",
        "flip": "mgefn.numpy.flip(x, axis)", "roll": "mgefn.numpy.roll(x, shift, axis)",
        "chunk": "mgefn.numpy.array_split(x, n, axis)", "split": "mgefn.numpy.split(x, n, axis)",
        "unbind": "tuple(x)", "contiguous": "Arrays are contiguous. Use x itself.",
        "clone": "x.copy()", "size_": "x.shape", "dim": "x.ndim", "numel": "x.size",
        "item_": "x.item()", "fill": f"{_WRITES} Write mgefn.numpy.full_like(x, value).",
        "fill_": f"{_WRITES} Write mgefn.numpy.full_like(x, value).",
        "zero_": f"{_WRITES} Write mgefn.numpy.zeros_like(x).",
        "add_": f"{_WRITES} Write x = x + y.", "sub_": f"{_WRITES} Write x = x - y.",
        "mul_": f"{_WRITES} Write x = x * y.", "div_": f"{_WRITES} Write x = x / y.",
        "copy_": f"{_WRITES} Write x = y.", "clamp_": f"{_WRITES} Write x = x.clip(min, max).",
        "masked_fill_": f"{_WRITES} Write x = mgefn.numpy.where(mask, value, x).",
        "scatter_": f"{_WRITES} Write x = x.at[index].set(values).",
        "index_add_": f"{_WRITES} Write x = x.at[index].add(values).",
        "put": f"{_WRITES} Write x = x.at[index].set(values).",
        "itemset": f"{_WRITES} Write x = x.at[index].set(value).",
        "resize": f"{_WRITES} Write x = mgefn.numpy.resize(x, shape).",
        "partition": f"{_WRITES} Write x = mgefn.numpy.partition(x, kth).",
        "setflags": f"{_WRITES} x.at[index].set(values) gives a changed copy.",
        "flags": f"{_WRITES} numpy.asarray(x).flags has those of the memory.",
        "byteswap": "numpy.asarray(x).byteswap()", "setfield": f"{_WRITES} Use x.at[...].set.",
        "getfield": "x.view(dtype)", "strides": "numpy.asarray(x).strides",
        "base": "numpy.asarray(x).base", "data": "memoryview(numpy.asarray(x))",
        "ctypes": "numpy.asarray(x).ctypes", "tofile": "numpy.asarray(x).tofile(path)",
        "tostring": "x.tobytes()", "dump": "pickle.dump(x, file), or mgefn.io.save",
        "dumps": "pickle.dumps(x)", "detach": "mgefn.lax.stop_gradient(x)",
        "backward": "Derivatives are functions here: mgefn.grad(loss)(params).",
        "grad": "Derivatives are functions here: mgefn.grad(loss)(params).",
        "requires_grad": "Derivatives are functions here: mgefn.grad(loss)(params).",
        "requires_grad_": "Derivatives are functions here: mgefn.grad(loss)(params).",
        "grad_fn": "Derivatives are functions here: mgefn.grad(loss)(params).",
        "to": "x.astype(dtype), or mgefn.device_put(x, device)",
        "cpu": "mgefn.device_put(x, mgefn.devices('cpu')[0]), or numpy.asarray(x)",
        "cuda": "mgefn.device_put(x, mgefn.devices('gpu')[0])", "is_cuda": "x.device",
        "type": "x.astype(dtype), or x.dtype", "float": "x.astype('float32'), or float(x)",
        "double": "x.astype('float64')", "half": "x.astype('float16')",
        "bfloat16": "x.astype('bfloat16')", "int": "x.astype('int32'), or int(x)",
        "long": "x.astype('int64')", "bool": "x.astype('bool'), or bool(x)",
        "clamp": "x.clip(min, max)", "mm": "x @ y", "bmm": "x @ y", "matmul": "x @ y",
        "abs": "abs(x)", "exp": "mgefn.numpy.exp(x)", "log": "mgefn.numpy.log(x)",
        "sqrt": "mgefn.numpy.sqrt(x)", "pow": "x ** y", "square": "mgefn.numpy.square(x)",
        "tanh": "mgefn.numpy.tanh(x)", "sin": "mgefn.numpy.sin(x)", "cos": "mgefn.numpy.cos(x)",
        "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "neg": "-x",
        "eq": "x == y", "ne": "x != y", "gt": "x > y", "ge": "x >= y", "lt": "x < y",
        "le": "x <= y", "isnan": "mgefn.numpy.isnan(x)", "isinf": "mgefn.numpy.isinf(x)",
        "isfinite": "mgefn.numpy.isfinite(x)", "where": "mgefn.numpy.where(condition, x, y)",
        "masked_fill": "mgefn.numpy.where(mask, value, x)",
        "gather": "mgefn.numpy.take_along_axis(x, index, axis)",
        "scatter": "x.at[index].set(values)", "scatter_add": "x.at[index].add(values)",
        "index_select": "x.take(indices, axis)", "topk": "mgefn.lax.top_k(x, k)",
        "softmax": "mgefn.nn.softmax(x, axis)", "log_softmax": "mgefn.nn.log_softmax(x, axis)",
        "sigmoid": "mgefn.nn.sigmoid(x)", "relu": "mgefn.nn.relu(x)",
        "norm": "mgefn.numpy.linalg.norm(x)", "logsumexp": "mgefn.nn.logsumexp(x, axis)",
        "median": "mgefn.numpy.median(x, axis)", "unique": "mgefn.numpy.unique(x)",
        "cat": "mgefn.numpy.concatenate([x, y], axis)", "apply_": "mgefn.vmap(f)(x)",
        "new_zeros": "mgefn.numpy.zeros(shape, x.dtype)",
        "new_ones": "mgefn.numpy.ones(shape, x.dtype)",
    },
    "module": {
        "parameters": "Modules hold no arrays: params, state = module.init(key, x), and "
        "mgefn.tree.leaves(params).",
        "named_parameters": "mgefn.nn.named_parameters(params)",
        "buffers": "Modules hold no arrays: the state of module.init(key, x) has them.",
        "state_dict": "mgefn.nn.state_dict(params, state)",
        "load_state_dict": "mgefn.nn.load_state_dict(params, state, values)",
        "train": "Modules have no mode: module.apply(params, state, x, train=True, key=key).",
        "eval": "Modules have no mode: module.apply(params, state, x), with train=False.",
        "to": "Modules hold no arrays: mgefn.device_put(params, device).",
        "cuda": "Modules hold no arrays: mgefn.device_put(params, device).",
        "cpu": "Modules hold no arrays: mgefn.device_put(params, device).",
        "half": "Modules hold no arrays: mgefn.tree.map(lambda p: p.astype('float16'), params).",
        "zero_grad": "Gradients are values: mgefn.grad gives new ones at each call.",
        "children": "Fields of a module are its parts: dataclasses.fields(module).",
        "modules": "Fields of a module are its parts: dataclasses.fields(module).",
        "named_modules": "Fields of a module are its parts: dataclasses.fields(module).",
        "register_buffer": "run.state(name, init, shape) in forward",
        "register_parameter": "run.param(name, init, shape) in forward",
        "param": "run.param(name, init, shape) in forward",
        "variable": "run.state(name, init, shape) in forward",
        "make_rng": "run.key() in forward", "setup": "forward(run, x)", "bind": "module.apply",
        "weight": "Modules hold no arrays: params['weight'] of what init gave.",
        "tabulate": "mgefn.nn.summary(module, x)", "append": "Sequential(*layers, another)",
        "requires_grad_": "Derivatives are functions here: mgefn.grad(loss)(params).",
    },
    "optimizer": {
        "step": "updates, state = optimizer.update(grads, state, params), and then "
        "params = optim.apply_updates(params, updates).",
        "zero_grad": "Gradients are values: mgefn.grad gives new ones at each call.",
        "state_dict": "The state that update returns is a pytree: mgefn.io.save(state, path).",
        "load_state_dict": "The state is a pytree: mgefn.io.load(path, target=state).",
        "param_groups": "optim.partition has an optimizer for each group of params",
        "add_param_group": "optim.partition has an optimizer for each group of params",
        "minimize": "optimizer.update(grads, state, params)",
        "apply_gradients": "optimizer.update(grads, state, params), or "
        "training.TrainState.apply_gradients",
        "target": "training.TrainState", "state": "The state is a value: optimizer.init(params).",
    },
    "jitted function": {
        "report": "f.lower(x).compile().report()", "compile": "f.lower(x).compile()",
        "as_text": "f.lower(x).compile().as_text()",
        "cost_analysis": "f.lower(x).compile().cost_analysis()",
        "memory_analysis": "f.lower(x).compile().memory_analysis()",
        "jaxpr": "f.trace(x).jaxpr", "make_jaxpr": "mgefn.make_jaxpr(f)(x)",
        "grad": "mgefn.grad(f)", "vmap": "mgefn.vmap(f)",
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
    if meant.endswith("."):
        return f"{text}. {meant}"
    if not meant or (meant.isidentifier() and meant not in names):
        # One that another library has under this name may have come in the meantime.
        meant = _elsewhere(module, name) or nearest(name, names) or meant
    return f"{text}. Did you mean {meant}?" if meant else f"{text}."


# Where a name that one module lacks may stand; the first that has it is named.
_NEIGHBOURS = (
    "mgefn.nn", "mgefn.nn.losses", "mgefn.nn.initializers", "mgefn.optim", "mgefn.numpy",
    "mgefn.lax", "mgefn.random", "mgefn.scipy.special", "mgefn.numpy.linalg", "mgefn",
)  # fmt: skip


def _elsewhere(module: str, name: str) -> str:
    """`mgefn.nn.relu`: the same name in another module that is loaded, "" where none has it."""
    for other in _NEIGHBOURS:
        loaded = sys.modules.get(other)
        if other != module and loaded is not None and not name.startswith("_"):
            public = getattr(loaded, "__all__", None) or dir(loaded)
            if name in public:
                return f"{other}.{name}"
    return ""


def missing_attribute(cls: str, kind: str, name: str, names: Iterable[str]) -> str:
    """The message for an object that has no such attribute.

    Args:
        cls: the name of its class.
        kind: what it is, a key of `ATTRIBUTES`.
        name: what was asked for.
        names: those that it has.
    """
    text = f"{cls!r} object has no attribute {name!r}"
    meant = ATTRIBUTES[kind].get(name) or nearest(name, names)
    if meant.endswith("."):
        return f"{text}. {meant}"
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
_MISSING = re.compile(
    r"^(\S+)\(\) missing (\d+) required (positional|keyword-only) arguments?: (.+)$"
)
_TOO_MANY = re.compile(
    r"^(\S+)\(\) takes (?:from \d+ to )?(\d+) positional arguments? but (\d+) (?:was|were) given$"
)


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


def incomplete(fun: Callable[..., Any], exc: Exception, args: tuple[Any, ...], about: str) -> str:
    """The message for a call that lacks arguments or has too many of them, "" for another one.

    Args:
        fun: what was called, which has no name of its own that says anything.
        exc: Python's refusal.
        args: what it was called with, by position.
        about: the name to give it.
    """
    text = str(exc)
    lacks, many = _MISSING.match(text), _TOO_MANY.match(text)
    if not lacks and not many:
        return ""
    given = ", ".join(map(_described, args)) or "none"
    if lacks and lacks[3] == "keyword-only":
        given = "none"
    call = f"Call {about}{parameters(fun, values=True)}."
    if lacks:
        return f"{about}: needs {lacks[4]} too, got {given}. {call}"
    names = [p.name for p in inspect.signature(fun).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    return f"{about}: takes ({', '.join(names)}) by position, got {given}. {call}"


def parameters(fun: Callable[..., Any], values: bool = False) -> str:
    """`(updates, state, params=None)`: what fun takes, or how it is called with all it needs."""
    shown: list[str] = []
    for p in inspect.signature(fun).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            shown.append(f"*{p.name}")
        elif p.kind is p.VAR_KEYWORD:
            shown += [] if values else [f"**{p.name}"]
        elif p.kind is p.KEYWORD_ONLY:
            shown += [f"{p.name}=..."] if p.default is p.empty else []
        else:
            shown.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    return f"({', '.join(shown)})"


_CARRY = "The carry comes as one argument: take it apart inside."
_ELEMENT = "What is mapped over comes as one argument: take it apart inside."
_OPERANDS = "A branch gets all operands that follow the branches, each as an argument."

_THAT_MANY = "Give it that many."

# What functions of the user's are called with: (function, parameter) -> that, and the repair.
_CALLED_WITH = {
    ("fori_loop", "body_fun"): ("(i, carry)", "It returns the next carry."),
    ("while_loop", "cond_fun"): ("(carry)", _CARRY),
    ("while_loop", "body_fun"): ("(carry)", _CARRY),
    ("scan", "f"): ("(carry, x)", "It returns (carry, y); where there is no x, x is None."),
    ("map", "f"): ("(x)", _ELEMENT),
    ("associative_scan", "fn"): ("(a, b)", "It combines two elements, or two slices of them."),
    ("reduce", "computation"): ("(a, b)", "It combines two elements."),
    ("reduce_window", "computation"): ("(a, b)", "It combines two elements."),
    ("cond", "true_fun"): ("", _OPERANDS),
    ("cond", "false_fun"): ("", _OPERANDS),
    ("switch", "branches"): ("", _OPERANDS),
    ("custom_root", "f"): ("(x)", "It gives 0 at the root."),
    ("custom_root", "solve"): ("(f, initial_guess)", "It returns the root."),
    ("custom_root", "tangent_solve"): ("(g, y)", "It solves g(x) = y for a linear g."),
    ("custom_linear_solve", "matvec"): ("(x)", "It is linear in x."),
    ("custom_linear_solve", "solve"): ("(matvec, b)", "It returns x with matvec(x) = b."),
    ("custom_linear_solve", "transpose_solve"): ("(vecmat, b)", "It returns x with vecmat(x) = b."),
}  # fmt: skip


def miscalled(
    fun: Callable[..., Any],
    exc: Exception,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    about: str = "",
) -> str:
    """The message for a function of the user's that fun can't call as it does, "" if it is not so.

    Args:
        fun: what the user called.
        exc: Python's refusal of a call in there.
        args, kwargs: what fun was called with, the user's function among them.
        about: the name to give fun; its own without one.
    """
    text = str(exc)
    lacks, many = _MISSING.match(text), _TOO_MANY.match(text)
    found = lacks or many
    if not found or (lacks and lacks[3] == "keyword-only"):
        return ""
    about = about or _public_name(fun)
    told = ""
    for parameter, place, each in _placed_arguments(fun, args, kwargs):
        # What we made around a function of the user's calls it in another way.
        ours = parameter.name == "self" or getattr(each, "calls_otherwise", False) is True
        if ours or not callable(each) or _own_name(each) != found[1]:
            continue
        given = _given(each, lacks, many)
        if given is None:
            continue
        what, repair = _CALLED_WITH.get((about, parameter.name), ("", _THAT_MANY))
        meant = what and len(what.split(",")) == given
        if what and not meant:
            what, repair = "", _THAT_MANY
        text = (
            f"{about}: {place} must take {counted(given)}{', ' * bool(what)}{what}, got "
            f"{_placed(each)}, which takes {parameters(each)}. {repair}"
        )
        if meant:
            return text
        told = told or text  # of several lambdas in one place, the one that may be meant
    return told


_NOT_CALLABLE = re.compile(r"^'([\w.]+)' object is not callable$")


def no_function(
    fun: Callable[..., Any],
    exc: Exception,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    about: str = "",
) -> str:
    """The message for an argument that is no function where fun needs one, "" if it is not so.

    Arguments are those of `miscalled`.
    """
    found = _NOT_CALLABLE.match(str(exc))
    if not found:
        return ""
    for parameter, place, each in _placed_arguments(fun, args, kwargs):
        # Annotations are strings.
        meant = "Callable" in str(parameter.annotation) and not callable(each)
        if meant and type(each).__name__ == found[1]:
            return (
                f"{about or _public_name(fun)}: {place} must be a function, got {each!r:.60}. Pass "
                "the function itself, not what a call of it gives."
            )
    return ""


def _public_name(fun: Callable[..., Any]) -> str:
    return fun.__name__.removeprefix("index_")  # of x.at[i]


def _placed_arguments(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[inspect.Parameter, str, Any]]:
    """(parameter, place, value) of a call's arguments, those in a sequence one by one.

    There are none where the call does not fit fun.
    """
    try:
        signature = inspect.signature(fun)
        taken = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return
    for name, value in taken.items():
        several = isinstance(value, (tuple, list))
        for i, each in enumerate(value if several else [value]):
            yield signature.parameters[name], f"{name}{f'[{i}]' * several}", each


def counted(arguments: int) -> str:
    """`1 argument`, `2 arguments`."""
    return f"{arguments or 'no'} argument{'s' * (arguments != 1)}"


def _given(fun: Any, lacks: re.Match[str] | None, many: re.Match[str] | None) -> int | None:
    """With how many arguments Python refused to call fun; None where it was not this one."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return None
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [p for p in signature.parameters.values() if p.kind in places]
    if lacks:
        needed = [p.name for p in taken if p.default is inspect.Parameter.empty]
        missing = re.findall(r"'(\w+)'", lacks[4])
        given = len(needed) - len(missing)
        return given if needed[max(given, 0) :] == missing else None
    assert many is not None
    # Python counts the object of a method too.
    bound = inspect.ismethod(fun) or not hasattr(inspect.unwrap(fun), "__code__")
    given = int(many[3]) - bound
    return given if len(taken) == int(many[2]) - bound < given else None


def _innermost(fun: Any) -> Any:
    """The function that is called in the end."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return inspect.unwrap(fun)


def _own_name(fun: Any) -> str:
    """By which Python names a function when it refuses a call of it."""
    fun = _innermost(fun)
    name = getattr(fun, "__qualname__", None)
    return name if name is not None else f"{type(fun).__qualname__}.__call__"


def _placed(fun: Any) -> str:
    """Name, file and line of a function, as far as they are known."""
    fun = _innermost(fun)
    code = getattr(fun, "__code__", None)
    name = getattr(fun, "__name__", type(fun).__name__)
    if code is None:
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def without_key(fun: Callable[..., Any], args: tuple[Any, ...], about: str = "") -> str:
    """The message for a call that went wrong, if what went wrong is that the key was forgotten.

    Whoever forgets it gives the other arguments by position, one place too early.
    """
    # Not a method, whose first argument is another, nor a decorated function of the user's.
    ours = getattr(fun, "__module__", "").startswith("mgefn.")
    ours = ours and (about or "." not in fun.__qualname__)
    names = (accepted(fun) or ()) if ours else ()
    if names[:1] != ("key",) or len(names) == 1 or not args or _is_key(args[0]):
        return ""
    about = about or fun.__name__
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
    "ATTRIBUTES",
    "accepted",
    "counted",
    "explained",
    "incomplete",
    "miscalled",
    "missing_attribute",
    "missing_name",
    "nearest",
    "no_function",
    "parameters",
    "unknown_keyword",
    "without_key",
]
