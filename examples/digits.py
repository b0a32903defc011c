"""Train two networks on scikit-learn's 1797 images of handwritten digits, 8x8 pixels each.

First a multilayer perceptron, then a small convolutional network with several seeds. Models and
loss are plain functions; one training step is one compiled program whose state is donated, so that
the new parameters take the memory of the old ones.

    python examples/digits.py            about half a minute, ends with `test accuracy 0.9xx`
    python examples/digits.py --quick    one seed and few epochs

Writes learning_curves.png and digits.safetensors into --out, and reads the latter back as a check.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn, optim, random

Params = dict[str, mgefn.Array]
Model = Callable[[Params, mgefn.Array], mgefn.Array]
Data = dict[str, tuple[np.ndarray, np.ndarray]]  # images (n, 8, 8, 1) in [0, 1]; labels 0 to 9
BATCH_SIZE = 64
LEARNING_RATE = 5e-3  # at the start; falls to zero in a straight line


def load_data() -> Data:
    """A quarter of the images for the test, a fifth of the rest for validation, always the same."""
    pixels, labels = load_digits(return_X_y=True)
    images = (np.asarray(pixels) / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    labels = np.asarray(labels).astype(np.int32)
    rest, test = train_test_split(
        np.arange(len(labels)), test_size=0.25, stratify=labels, random_state=0
    )
    train, validation = train_test_split(rest, test_size=0.2, stratify=labels[rest], random_state=0)
    parts = {"train": train, "validation": validation, "test": test}
    return {name: (images[part], labels[part]) for name, part in parts.items()}


def shifted(key: mgefn.Array, images: mgefn.Array) -> mgefn.Array:
    """Each image moved by up to one pixel in each direction, so that the network sees more."""
    rows, columns = random.randint(key, (2, len(images)), 0, 3)
    padded = mnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    crop = partial(lax.dynamic_slice, slice_sizes=(8, 8, 1))
    return mgefn.vmap(lambda image, row, column: crop(image, (row, column, 0)))(
        padded, rows, columns
    )


# Models: functions of (params, images) that return logits of shape (n, 10)


def init(key: mgefn.Array, shapes: dict[str, tuple[int, int]]) -> Params:
    """A matrix W and a vector b for each name, W scaled for relu (He et al., 2015)."""
    params: Params = {}
    keys = random.split(key, len(shapes))
    for layer_key, (name, shape) in zip(keys, shapes.items(), strict=True):
        params[f"{name}.W"] = nn.initializers.he_normal()(layer_key, shape)
        params[f"{name}.b"] = mnp.zeros(shape[1])
    return params


def dense(params: Params, name: str, x: mgefn.Array) -> mgefn.Array:
    return x @ params[f"{name}.W"] + params[f"{name}.b"]


def mlp(params: Params, images: mgefn.Array) -> mgefn.Array:
    x = images.reshape(len(images), -1)
    return dense(params, "out", nn.relu(dense(params, "hidden", x)))


def patches(x: mgefn.Array) -> mgefn.Array:
    """The 3x3 neighbourhood of each pixel, zeros outside: (n, h, w, c) -> (n, h, w, 9c)."""
    _, h, w, _ = x.shape
    padded = mnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifts = [padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return mnp.concatenate(shifts, axis=-1)


def max_pool(x: mgefn.Array) -> mgefn.Array:
    """The largest value of each 2x2 square."""
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def convnet(params: Params, images: mgefn.Array) -> mgefn.Array:
    x = max_pool(nn.relu(dense(params, "conv1", patches(images))))
    x = max_pool(nn.relu(dense(params, "conv2", patches(x))))
    return dense(params, "out", x.reshape(len(x), -1))


MODELS = {
    "MLP": (mlp, {"hidden": (64, 128), "out": (128, 10)}),
    "ConvNet": (convnet, {"conv1": (9, 16), "conv2": (9 * 16, 32), "out": (4 * 32, 10)}),
}


# Training


def cross_entropy(logits: mgefn.Array, labels: mgefn.Array) -> mgefn.Array:
    log_p = nn.log_softmax(logits)
    return -mnp.mean(mnp.take_along_axis(log_p, labels[:, None], axis=1))


@partial(mgefn.jit, static_argnums=(0, 1), donate_argnums=(2,))
def step(model: Model, optimizer, state: tuple, key, images, labels) -> tuple:
    """The loss of a batch, and the state after one step downhill."""
    params, memory = state
    images = shifted(key, images)
    loss, slopes = mgefn.value_and_grad(lambda p: cross_entropy(model(p, images), labels))(params)
    updates, memory = optimizer.update(slopes, memory, params)
    return loss, (optim.apply_updates(params, updates), memory)


@partial(mgefn.jit, static_argnums=(0,))
def accuracy(model: Model, params: Params, images, labels) -> mgefn.Array:
    return mnp.mean(mnp.argmax(model(params, images), axis=1) == labels)


def train(name: str, seed: int, epochs: int, data: Data, tick: Callable[[], None]) -> tuple:
    """Parameters, and for each epoch (mean training loss, validation accuracy)."""
    model, shapes = MODELS[name]
    images, labels = data["train"]
    n_batches = len(images) // BATCH_SIZE
    optimizer = optim.adam(optim.linear_schedule(LEARNING_RATE, 0.0, epochs * n_batches))
    key, init_key = random.split(random.key(seed))
    params = init(init_key, shapes)
    state = (params, optimizer.init(params))
    curve = []
    for _ in range(epochs):
        key, order_key, *step_keys = random.split(key, 2 + n_batches)
        order = np.asarray(random.permutation(order_key, len(images)))
        losses = []
        for i, step_key in enumerate(step_keys):
            batch = order[i * BATCH_SIZE : (i + 1) * BATCH_SIZE]
            loss, state = step(model, optimizer, state, step_key, images[batch], labels[batch])
            losses.append(float(loss))
        curve.append((np.mean(losses), float(accuracy(model, state[0], *data["validation"]))))
        tick()
    return state[0], np.array(curve)


def plot(curves: dict[str, np.ndarray], folder: Path) -> None:
    """Curves of shape (seeds, epochs, 2): the mean as a line, the range as a band."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, curve), colour in zip(curves.items(), ("#c2571a", "#1f5fa8"), strict=True):
        epoch = np.arange(1, curve.shape[1] + 1)
        for axes, values in ((left, curve[..., 0]), (right, 100 * (1 - curve[..., 1]))):
            seeds = "1 seed" if len(curve) == 1 else f"mean and range of {len(curve)} seeds"
            axes.plot(epoch, values.mean(0), color=colour, label=f"{name} ({seeds})")
            axes.fill_between(epoch, values.min(0), values.max(0), color=colour, alpha=0.2, lw=0)
    left.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log")
    right.set(title="Validation error", xlabel="epoch", ylabel="wrong answers (%)", ylim=(0, 15))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, which="both")
        axes.set_xlim(left=1)
    right.legend(frameon=False)
    figure.savefig(folder / "learning_curves.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on 8x8 images of digits.")
    parser.add_argument("--seeds", type=int, default=5, help="of the convolutional network")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    parser.add_argument("--quick", action="store_true", help="one seed, few epochs")
    options = parser.parse_args()
    seeds, epochs = (1, 8) if options.quick else (options.seeds, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    data = load_data()
    runs = [("MLP", 0), *(("ConvNet", seed) for seed in range(seeds))]
    curves: dict[str, list[np.ndarray]] = {name: [] for name in MODELS}
    scores: dict[str, list[float]] = {name: [] for name in MODELS}
    trained: dict[str, Params] = {}
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn())
    # Matrices this small gain nothing from BLAS threads, which wait for each other when other
    # programs keep the cores busy.
    with threadpool_limits(1, user_api="blas"), Progress(*columns, TimeElapsedColumn()) as progress:
        for name, seed in runs:
            task = progress.add_task(f"{name}, seed {seed}", total=epochs)
            advance = partial(progress.advance, task)
            trained[name], curve = train(name, seed, epochs, data, advance)
            curves[name].append(curve)
            scores[name].append(float(accuracy(MODELS[name][0], trained[name], *data["test"])))
    plot({name: np.array(of_seeds) for name, of_seeds in curves.items()}, options.out)

    checkpoint = options.out / "digits.safetensors"
    save_file({name: np.asarray(p) for name, p in trained["ConvNet"].items()}, checkpoint)
    loaded = {name: mnp.array(p) for name, p in load_file(checkpoint).items()}
    assert float(accuracy(convnet, loaded, *data["test"])) == scores["ConvNet"][-1]

    print(f"MLP {scores['MLP'][0]:.3f}, ConvNet by seed {np.round(scores['ConvNet'], 3)}")
    mean_score = float(np.mean(scores["ConvNet"]))
    wanted = 0.9 if options.quick else 0.97
    assert mean_score > wanted, f"{mean_score:.3f} of the test images, wanted {wanted}"
    print(f"test accuracy {mean_score:.3f}")


if __name__ == "__main__":
    main()
