"""A run of training that may be killed at any moment: python run_to_kill.py FOLDER STEPS.

It goes on from the last checkpoint of the folder, and ends with everything in result.safetensors.
All that a run may draw on takes part: a shuffled loader with a random transform and worker
threads, dropout by the step's key, momentum, an average of parameters, a dynamic loss scale.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import mgefn
import mgefn.numpy as mnp
from mgefn import amp, data, io, metrics, optim, random, training

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)).astype(np.float32)
Y = np.tanh(X @ rng.normal(size=5)).astype(np.float32)


class Jitter(data.Transform):
    def apply(self, sample, key=None):
        x, y = sample
        return x + np.float32(0.1) * data.transforms.Draws(key).normal(x.shape).astype("f4"), y


def loss(params, x, y, key):
    hidden = mnp.tanh(x @ params["W"] + params["b"])
    hidden = hidden * random.bernoulli(key, 0.8, hidden.shape)
    return mnp.mean((hidden @ params["v"] - y) ** 2)


@mgefn.jit
def step(everything, x, y):
    state, ema, scale, mean = everything
    slopes = amp.value_and_grad(loss)
    scale, finite, value, grads = slopes(scale, state.params, x, y, state.step_key())
    after = state.apply_gradients(grads)
    params = amp.select_tree(finite, after.params, state.params)
    state = after.replace(params=params)
    return state, ema.update(params), scale, mean.update(loss=value)


def main(folder: Path, steps: int) -> None:
    keys = random.split(random.key(1), 2)
    params = {
        "W": 0.3 * random.normal(keys[0], (5, 8)),
        "b": mnp.zeros(8),
        "v": 0.3 * random.normal(keys[1], (8,)),
    }
    dataset = data.ArrayDataset(X, Y)
    sampler = data.Infinite(data.RandomSampler(dataset, 16, seed=3))
    loader = data.DataLoader(dataset, sampler, Jitter(), num_workers=2, key=random.key(4))
    everything = (
        training.TrainState.create(params, optim.sgd(0.05, momentum=0.9), key=random.key(2)),
        training.EMA.create(params, 0.9),
        amp.DynamicLossScale(mnp.float32(2**10), period=7),
        metrics.Average("loss"),
    )
    batches = iter(loader)
    with io.CheckpointManager(folder / "checkpoints", max_to_keep=2) as manager:
        kept = manager.restore(target={"run": everything, "position": json.dumps({})})
        everything = kept["run"]
        position = json.loads(kept["position"])
        if position:
            batches = loader.resume(position)
        print("started", int(everything[0].step), flush=True)
        while int(everything[0].step) < steps:
            everything = step(everything, *next(batches))
            time.sleep(0.004)  # no machine is so fast that it is done before it is killed
            manager.save(
                int(everything[0].step),
                {"run": everything, "position": json.dumps(batches.get_state())},
            )
    batches.close()
    io.save(everything, folder / "result.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
