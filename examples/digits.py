"""Train two networks on scikit-learn's 1797 images of handwritten digits, 8x8 pixels each.

First a multilayer perceptron, then a small convolutional network with several seeds. What keeps
them from learning the 1077 training images by heart: shifts by up to a pixel, dropout, labels that
are not quite sure, and weight decay. A step of training is one compiled program whose state is
donated, so that the new parameters take the memory of the old ones.

    python examples/digits.py            about half a minute to a minute
    python examples/digits.py --quick    one seed and few epochs

The last line is `test accuracy 0.9xx`, with the seeds it is the mean of.

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
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import mgefn
import mgefn.numpy as mnp
from mgefn import io, lax, nn, optim, random, training

Data = dict[str, tuple[np.ndarray, np.ndarray]]  # images (n, 1, 8, 8) in [0, 1]; labels 0 to 9
BATCH_SIZE = 64
LEARNING_RATE = 5e-3  # at the start; falls to zero in a straight line
SMOOTHING = 0.1  # the share of a label that is spread over all classes

MODELS = {
    "MLP": nn.Sequential(nn.Flatten(), nn.Linear(None, 128), nn.relu, nn.Linear(None, 10)),
    "ConvNet": nn.Sequential(
        nn.Conv2d(None, 32, 3, padding=1),
        nn.relu,
        nn.Conv2d(None, 32, 3, padding=1),
        nn.relu,
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Conv2d(None, 64, 3, padding=1),
        nn.relu,
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(None, 10),
    ),
}


def load_data() -> Data:
    """A quarter of the images for the test, a fifth of the rest for validation, always the same."""
    pixels, labels = load_digits(return_X_y=True)
    images = (np.asarray(pixels) / 16).astype(np.float32).reshape(-1, 1, 8, 8)
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
    padded = mnp.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    crop = partial(lax.dynamic_slice, slice_sizes=(1, 8, 8))
    return mgefn.vmap(lambda image, row, column: crop(image, (0, row, column)))(
        padded, rows, columns
    )


# Training


@partial(mgefn.jit, static_argnums=(0,), donate_argnums=(1,))
def step(model: nn.Module, state: training.TrainState, images, labels) -> tuple:
    """The state after one step downhill, and the loss of the batch."""
    shift_key, dropout_key = random.split(state.step_key())
    images = shifted(shift_key, images)

    def loss(params):
        logits, _ = model.apply(params, {}, images, key=dropout_key, train=True)
        return nn.losses.cross_entropy(logits, labels, label_smooth=SMOOTHING)

    value, slopes = mgefn.value_and_grad(loss)(state.params)
    return state.apply_gradients(slopes), value


@partial(mgefn.jit, static_argnums=(0,))
def accuracy(model: nn.Module, params, images, labels) -> mgefn.Array:
    return mnp.mean(mnp.argmax(model.apply(params, {}, images)[0], axis=1) == labels)


def train(model: nn.Module, seed: int, epochs: int, data: Data, tick: Callable[[], None]) -> tuple:
    """Parameters, and for each epoch (mean training loss, validation accuracy)."""
    images, labels = data["train"]
    n_batches = len(images) // BATCH_SIZE
    rate = optim.linear_schedule(LEARNING_RATE, 0.0, epochs * n_batches)
    init_key, order_key, run_key = random.split(random.key(seed), 3)
    params, _ = model.init(init_key, images[:1])
    optimizer = optim.adamw(rate, weight_decay=1e-3)
    state = training.TrainState.create(params, optimizer, key=run_key)
    curve = []
    for epoch in range(epochs):
        order = np.asarray(random.permutation(random.fold_in(order_key, epoch), len(images)))
        losses = []
        for i in range(n_batches):
            batch = order[i * BATCH_SIZE : (i + 1) * BATCH_SIZE]
            state, loss = step(model, state, images[batch], labels[batch])
            losses.append(loss)
        curve.append((np.mean(losses), float(accuracy(model, state.params, *data["validation"]))))
        tick()
    return state.params, np.array(curve)


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
    # Below the axes, where it covers no curve.
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2,
                  frameon=False)  # fmt: skip
    figure.savefig(folder / "learning_curves.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on 8x8 images of digits.")
    parser.add_argument("--seeds", type=int, default=5, help="of the convolutional network")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    parser.add_argument("--quick", action="store_true", help="one seed, few epochs")
    options = parser.parse_args()
    seeds, epochs = (1, 5) if options.quick else (options.seeds, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    data = load_data()
    runs = [("MLP", 0), *(("ConvNet", seed) for seed in range(seeds))]
    curves: dict[str, list[np.ndarray]] = {name: [] for name in MODELS}
    scores: dict[str, list[float]] = {name: [] for name in MODELS}
    trained = {}
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn())
    # Matrices this small gain nothing from BLAS threads, which wait for each other when other
    # programs keep the cores busy.
    with threadpool_limits(1, user_api="blas"), Progress(*columns, TimeElapsedColumn()) as progress:
        for name, seed in runs:
            task = progress.add_task(f"{name}, seed {seed}", total=epochs)
            advance = partial(progress.advance, task)
            trained[name], curve = train(MODELS[name], seed, epochs, data, advance)
            curves[name].append(curve)
            scores[name].append(float(accuracy(MODELS[name], trained[name], *data["test"])))
    plot({name: np.array(of_seeds) for name, of_seeds in curves.items()}, options.out)

    checkpoint = options.out / "digits.safetensors"
    io.save(trained["ConvNet"], checkpoint)
    loaded = io.load(checkpoint)
    assert float(accuracy(MODELS["ConvNet"], loaded, *data["test"])) == scores["ConvNet"][-1]

    print(f"MLP {scores['MLP'][0]:.3f}, ConvNet by seed {np.round(scores['ConvNet'], 3)}")
    mean_score = float(np.mean(scores["ConvNet"]))
    wanted = 0.9 if options.quick else 0.985
    assert mean_score >= wanted, f"{mean_score:.3f} of the test images, wanted {wanted}"
    of_seeds = "seed 0" if seeds == 1 else f"mean of seeds 0 to {seeds - 1}"
    print(f"test accuracy {mean_score:.3f} (ConvNet, {of_seeds})")


if __name__ == "__main__":
    main()
