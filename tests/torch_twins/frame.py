"""What the twins share: one drawn input and one set of weights for a torch module and ours.

Everything is float64, so two right implementations differ by rounding only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import io, nn, random

# Here too, because pytest looks into this file for examples.
torch = pytest.importorskip("torch", reason="pip install -e '.[torch]'")

# A few hundred operations in a row, each of them off by 1e-16.
RTOL, ATOL = 1e-9, 1e-11


def drawn(name: str, *shape: int) -> np.ndarray:
    """Normal numbers that depend on the name."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)


def tensor(x: Any) -> Any:
    """A leaf of its own; floats collect gradients."""
    t = torch.tensor(np.asarray(x))
    return t.requires_grad_() if t.is_floating_point() else t


def randomized(module: Any) -> Any:
    """In float64, with weights, biases and running moments away from their starts."""
    module = module.double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(torch.randn(b.shape, generator=generator, dtype=b.dtype))
            if name.endswith("running_var"):
                b.copy_(0.5 + torch.rand(b.shape, generator=generator, dtype=b.dtype))
    return module


def double(t: Any) -> Any:
    return mgefn.tree.map(lambda a: mnp.asarray(a, "float64"), t)


def arrays(y: Any) -> list[np.ndarray]:
    """The leaves of an output of either library, those that are None left out."""
    found = mgefn.tree.leaves(y, is_leaf=lambda a: isinstance(a, torch.Tensor))
    return [a.detach().numpy() if isinstance(a, torch.Tensor) else np.asarray(a) for a in found]


def near(got: Any, want: Any, what: str, rtol: float = RTOL) -> None:
    got, want = arrays(got), arrays(want)
    assert len(got) == len(want), what
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape, what
        np.testing.assert_allclose(a, b, rtol=rtol, atol=ATOL, err_msg=what)


def weighted_sum(leaves: Any) -> Any:
    """One scalar of all outputs, each element with a weight of its own."""
    return sum((y * like(y, drawn(f"weight {i}", *y.shape))).sum() for i, y in enumerate(leaves))


def like(y: Any, c: np.ndarray) -> Any:
    return torch.tensor(c) if isinstance(y, torch.Tensor) else c


def backward(outputs: Any) -> None:
    """Fill in `.grad` of all tensors that outputs depend on."""
    weighted_sum(
        mgefn.tree.leaves(outputs, is_leaf=lambda a: isinstance(a, torch.Tensor))
    ).backward()


def same_function(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    inputs: tuple[np.ndarray, ...],
    rtol: float = RTOL,
) -> None:
    """Outputs and gradients in the floating inputs of two functions are equal."""
    given = [tensor(x) for x in inputs]
    outputs = theirs(*given)
    backward(outputs)
    moving = [i for i, x in enumerate(inputs) if np.issubdtype(x.dtype, np.floating)]

    def weighted(*xs: Any) -> tuple[Any, Any]:
        y = ours(*xs)
        return weighted_sum(mgefn.tree.leaves(y)), y

    slopes, y = mgefn.grad(weighted, argnums=tuple(moving), has_aux=True)(*inputs)
    near(y, outputs, "outputs")
    near(slopes, [given[i].grad for i in moving], "gradients in the inputs", rtol)


def same_layer(
    layer: nn.Module,
    module: Any,
    inputs: tuple[np.ndarray, ...],
    *,
    train: bool = False,
    call: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    rename: Any = None,
) -> None:
    """Outputs, gradients in inputs and parameters, and the state afterwards are equal.

    Args:
        call: how the torch module is called, where not as module(*inputs).
        options: of our forward.
        rename: as for `io.load_torch_state_dict`.
    """
    module = randomized(module).train(train)
    options = dict(options or {})
    start = layer.init(random.key(0), *inputs, **options)
    params, state = io.load_torch_state_dict(*double(start), module.state_dict(), rename=rename)
    given = [tensor(x) for x in inputs]
    outputs = (call or (lambda m, *xs: m(*xs)))(module, *given)
    backward(outputs)
    moving = [i for i, x in enumerate(inputs) if np.issubdtype(x.dtype, np.floating)]

    def weighted(params: Any, xs: Any) -> tuple[Any, Any]:
        each = iter(xs)
        whole = [next(each) if i in moving else x for i, x in enumerate(inputs)]
        y, new = layer.apply(params, state, *whole, key=random.key(1), train=train, **options)
        return weighted_sum(mgefn.tree.leaves(y)), (y, new)

    xs = [inputs[i] for i in moving]
    (by_params, by_inputs), (y, new) = mgefn.grad(weighted, argnums=(0, 1), has_aux=True)(
        params, xs
    )
    near(y, outputs, "outputs")
    near(by_inputs, [given[i].grad for i in moving], "gradients in the inputs")
    # Gradients have the names of their parameters, and are converted as these are.
    slopes = {n: p.grad for n, p in module.named_parameters()}
    wanted, _ = io.load_torch_state_dict(params, {}, slopes, rename=rename)
    assert mgefn.tree.structure(by_params) == mgefn.tree.structure(wanted)
    near(by_params, wanted, "gradients in the parameters")
    _, after = io.load_torch_state_dict(params, state, module.state_dict(), rename=rename)
    near(new, after, "state afterwards")
