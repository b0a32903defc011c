"""A network that predicts text letter by letter, against the letters counted by an n-gram model.

The text is drawn from a small grammar of English, in which verbs agree with nouns far back. One
part trains both models, one chooses the weights of the n-gram model, one tests. The n-gram model
mixes how often letters followed the last 0, 1, 2, 3 and 4 letters, with weights that depend on how
often that context was seen, fitted by expectation maximization. The network is a gated recurrent
unit (Cho et al., 2014).

    python examples/characters.py            half a minute to a minute
    python examples/characters.py --quick    a smaller text and network, and a third of the steps

Both are measured in bits a letter on the test part, where fewer are better; the script fails if the
network does not need fewer. Writes characters.csv and the last checkpoint into --out; started with
--resume it goes on from there.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import mgefn
import mgefn.numpy as mnp
from mgefn import data, io, lax, metrics, nn, optim, random, training

Params = dict[str, mgefn.Array]
LENGTH = 48  # letters a window: how far back a gradient reaches
LN2 = float(np.log(2.0))


NOUNS = "dog cat bird horse farmer teacher sailor painter river garden engine letter window planet"
VERBS = "see hear follow like find help paint remember carry know want meet"
ADJECTIVES = "old young small green quiet strange clever heavy bright distant careful hungry"
PLACES = "near behind above below beside"


def sentences(size: int, seed: int = 0) -> str:
    """English of a small grammar, about so many letters.

    Verbs agree with their nouns across whatever stands between ("the dogs near the river that a
    farmer likes see"), and quotations close what they opened. Both need memory: four letters do
    not tell.
    """
    rng = np.random.default_rng(seed)

    def word(words: str) -> str:
        return str(rng.choice(words.split()))

    def noun_phrase(plural: bool, depth: int) -> str:
        start = rng.choice(["the", "some", "many"] if plural else ["the", "a", "every"])
        adjective = f"{word(ADJECTIVES)} " if rng.random() < 0.4 else ""
        phrase = f"{start} {adjective}{word(NOUNS)}{'s' * plural}"
        if depth and rng.random() < 0.4:
            phrase += f" {word(PLACES)} {noun_phrase(rng.random() < 0.5, depth - 1)}"
        if depth and rng.random() < 0.3:
            other = rng.random() < 0.5
            phrase += f" that {noun_phrase(other, depth - 1)} {word(VERBS)}{'s' * (not other)}"
        return phrase

    def clause(depth: int) -> str:
        plural = rng.random() < 0.5
        start, s = noun_phrase(plural, depth), "s" * (not plural)
        if depth and rng.random() < 0.25:
            return f'{start} say{s} "{clause(depth - 1)}"'
        return f"{start} {word(VERBS)}{s} {noun_phrase(rng.random() < 0.5, max(depth - 1, 0))}"

    written: list[str] = []
    length = 0
    while length < size:
        written.append(clause(2) + ".\n")
        length += len(written[-1])
    return "".join(written)


def load_text(size: int) -> tuple[np.ndarray, int]:
    """The text as numbers of letters, and how many letters there are."""
    letters, numbers = np.unique(list(sentences(size)), return_inverse=True)
    return numbers.astype(np.int32), len(letters)


# The n-gram model


class NGram:
    """Interpolated frequencies of letters after the last n - 1 letters."""

    BUCKETS = 12  # contexts seen 0, 1, 2-3, 4-7, ... times have weights of their own

    def __init__(self, train: np.ndarray, tune: np.ndarray, vocabulary: int, n: int = 5) -> None:
        self.vocabulary, self.n = vocabulary, n
        self.pairs = [self._counts(self._codes(train, k + 1)) for k in range(n)]
        self.contexts = [self._counts(self._codes(train, k)[:-1]) for k in range(n)]
        self.weights = np.full((self.BUCKETS, n + 1), 1 / (n + 1))
        bucket, parts = self._parts(tune)
        for _ in range(30):
            shares = parts * self.weights[bucket]
            shares /= shares.sum(1, keepdims=True)
            for b in range(self.BUCKETS):
                mine = shares[bucket == b]
                # One observation of each, so that a bucket nobody fell into has weights too.
                self.weights[b] = (mine.sum(0) + 1) / (len(mine) + n + 1)

    def _codes(self, x: np.ndarray, k: int) -> np.ndarray:
        """For each place the last k letters up to before it, or with it, as one number."""
        code = np.zeros(len(x) + 1 - k, np.int64)
        for i in range(k):
            code = code * self.vocabulary + x[i : len(x) + 1 - k + i]
        return code

    @staticmethod
    def _counts(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(codes, return_counts=True)

    @staticmethod
    def _look_up(table: tuple[np.ndarray, np.ndarray], codes: np.ndarray) -> np.ndarray:
        place = np.searchsorted(table[0], codes).clip(0, len(table[0]) - 1)
        return np.where(table[0][place] == codes, table[1][place], 0)

    def _parts(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each letter after the first n - 1 its context's bucket, and each order's estimate."""
        count = len(x) - self.n + 1
        estimates = [np.full(count, 1 / self.vocabulary)]
        seen = np.zeros(count, int)
        depth = np.zeros(count, int)
        for k in range(self.n):
            grams = self._codes(x, k + 1)[-count:]
            seen = self._look_up(self.contexts[k], grams // self.vocabulary)
            together = self._look_up(self.pairs[k], grams)
            estimates.append(np.where(seen > 0, together / np.maximum(seen, 1), 0))
            depth = np.where(seen > 0, k, depth)
        deepest = np.where(seen > 0, self.n + np.log2(np.maximum(seen, 1)).astype(int), depth)
        return deepest.clip(0, self.BUCKETS - 1), np.stack(estimates, 1)

    def bits(self, x: np.ndarray) -> float:
        """Bits a letter of a text."""
        bucket, parts = self._parts(x)
        return float(-np.log2((parts * self.weights[bucket]).sum(1)).mean())


# The network


def init(key: mgefn.Array, vocabulary: int, width: int) -> Params:
    keys = random.split(key, 4)
    scaled = nn.initializers.lecun_normal()
    return {
        "embedding": 0.3 * random.normal(keys[0], (vocabulary, 3 * width)),
        "W": scaled(keys[1], (width, 2 * width)),
        "V": scaled(keys[2], (width, width)),
        "gates": mnp.concatenate([mnp.ones(width), mnp.zeros(2 * width)]),
        "out": 0.1 * random.normal(keys[3], (width, vocabulary)),
        "bias": mnp.zeros(vocabulary),
    }


def states(params: Params, carry: mgefn.Array, letters: mgefn.Array) -> tuple:
    """The last state, and all: (time, batch, width) from letters (batch, time)."""
    width = carry.shape[1]
    inputs = params["embedding"][letters.T] + params["gates"]

    def step(h, x):
        keep, reset = mnp.split(nn.sigmoid(x[:, : 2 * width] + h @ params["W"]), 2, axis=1)
        new = mnp.tanh(x[:, 2 * width :] + (reset * h) @ params["V"])
        h = keep * h + (1 - keep) * new
        return h, h

    return lax.scan(step, carry, inputs)


def loss(params: Params, carry: mgefn.Array, batch: mgefn.Array) -> tuple:
    """Nats a letter, and the state after the window; a batch has one letter more than it."""
    carry, h = states(params, carry, batch[:, :-1])
    log_p = nn.log_softmax(h @ params["out"] + params["bias"])
    right = mnp.take_along_axis(log_p, batch[:, 1:].T[..., None], axis=2)
    return -mnp.mean(right), carry


@partial(mgefn.jit, donate_argnums=(0, 1))
def train_step(state, mean, carry, batch, first):
    """One step downhill; `first` tells that the window begins the text."""
    carry = carry * (1 - first)
    slopes = mgefn.value_and_grad(loss, has_aux=True)
    (value, carry), grads = slopes(state.params, lax.stop_gradient(carry), batch)
    return state.apply_gradients(grads), mean.update(values=value), carry


def bits_of(params: Params, text: np.ndarray, width: int) -> float:
    """Bits a letter of a text, cut in rows that are read side by side.

    The first LENGTH letters of a row do not count: before them the network has read nothing.
    """
    rows = 16
    size = (len(text) - 1) // rows
    cut = text[: rows * size].reshape(rows, size)
    score = mgefn.jit(loss)
    carry, found = mnp.zeros((rows, width)), metrics.Average()
    for start in range(0, size - LENGTH, LENGTH):
        value, carry = score(params, carry, cut[:, start : start + LENGTH + 1])
        if start:
            found = found.update(values=value)
    return float(found.compute()) / LN2


def windows(train: np.ndarray, rows: int) -> data.Dataset:
    """The text in `rows` long rows, side by side; item i is the i-th window of all rows."""
    size = (len(train) - 1) // rows
    cut = np.stack([train[r * size : (r + 1) * size + 1] for r in range(rows)])
    count = (size - 1) // LENGTH
    spans = data.map(range(count), lambda i: (cut[:, i * LENGTH : (i + 1) * LENGTH + 1], i == 0))
    return data.repeat(spans)


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict text letter by letter.")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    parser.add_argument("--quick", action="store_true", help="a smaller text and network")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    options = parser.parse_args()
    size, width, rows, steps = (
        (150_000, 96, 32, 400) if options.quick else (300_000, 128, 32, options.steps)
    )
    text, vocabulary = load_text(size)
    train, tune, test = np.split(text, [int(0.8 * len(text)), int(0.9 * len(text))])
    counted = NGram(train, tune, vocabulary).bits(test)
    print(f"{len(train)} letters to train, 5-gram model: {counted:.3f} bits", flush=True)

    schedule = optim.linear_schedule(8e-3, 2e-4, steps)
    tx = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(schedule))
    batches = data.DatasetIterator(windows(train, rows))
    whole = (
        training.TrainState.create(init(random.key(0), vocabulary, width), tx),
        mnp.zeros((rows, width)),
    )
    stop = training.EarlyStopping(patience=4)
    manager = io.CheckpointManager(options.out, max_to_keep=1, prefix="characters_")
    if not options.resume:
        for old in options.out.glob("characters_*.safetensors"):
            old.unlink()
    else:
        kept = manager.restore(target={"run": whole, "position": ""})
        whole = kept["run"]
        batches.set_state(json.loads(kept["position"] or '{"next": 0}'))
    state, carry = whole
    mean = metrics.Average()
    logger = training.CSVLogger(options.out / "characters.csv", resume_at=int(state.step) + 1)
    # Matrices this small gain little from BLAS threads, which wait for each other.
    with threadpool_limits(2, user_api="blas"), logger, manager:
        for step in range(int(state.step) + 1, steps + 1):
            batch, first = next(batches)
            state, mean, carry = train_step(state, mean, carry, batch, np.float32(first))
            if step % 100 == 0 or step == steps:
                tuned = bits_of(state.params, tune, width)
                stop = stop.update(tuned)
                logger.log(step, {"train": float(mean.compute()) / LN2, "tune": tuned})
                mean = mean.reset()
                position = json.dumps(batches.get_state())
                manager.save(step, {"run": (state, carry), "position": position})
                print(f"step {step}: {tuned:.3f} bits", flush=True)
                if stop.should_stop:
                    break
    learned = bits_of(state.params, test, width)
    assert learned < counted, f"{learned:.3f} bits, counted {counted:.3f}"
    print(f"network {learned:.3f} bits, 5-gram {counted:.3f} bits")


if __name__ == "__main__":
    main()
