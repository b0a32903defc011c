"""Metrics against scikit-learn and NumPy, in halves, under jit and masked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, metrics
from mgefn.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 4)).astype(np.float32)
LABELS = RNG.integers(0, 4, 40)
SCORES = RNG.uniform(size=40).astype(np.float32)
BINARY = (RNG.uniform(size=40) < SCORES).astype(np.int32)
KEEP = RNG.uniform(size=40) < 0.7
GUESS = LOGITS.argmax(1)

# metric, arguments of update, the result by other means, those of the kept rows
CASES = {
    "accuracy": (
        metrics.Accuracy(), {"logits": LOGITS, "labels": LABELS},
        lambda k: sk.accuracy_score(LABELS[k], GUESS[k]),
    ),
    "accuracy of two classes": (
        metrics.Accuracy(threshold=0.5), {"logits": SCORES, "labels": BINARY},
        lambda k: sk.accuracy_score(BINARY[k], SCORES[k] > 0.5),
    ),
    "confusion": (
        metrics.ConfusionMatrix.empty(4), {"logits": LOGITS, "labels": LABELS},
        lambda k: sk.confusion_matrix(LABELS[k], GUESS[k]),
    ),
    "f1 macro": (
        metrics.F1.empty(4), {"predictions": GUESS, "labels": LABELS},
        lambda k: sk.f1_score(LABELS[k], GUESS[k], average="macro"),
    ),
    "f1 micro": (
        metrics.F1.empty(4).replace(average="micro"), {"predictions": GUESS, "labels": LABELS},
        lambda k: sk.f1_score(LABELS[k], GUESS[k], average="micro"),
    ),
    "f1 none": (
        metrics.F1.empty(4).replace(average="none"), {"predictions": GUESS, "labels": LABELS},
        lambda k: sk.f1_score(LABELS[k], GUESS[k], average=None),
    ),
    "f1 binary": (
        metrics.F1.empty(2).replace(average="binary"),
        {"predictions": SCORES > 0.5, "labels": BINARY},
        lambda k: sk.f1_score(BINARY[k], SCORES[k] > 0.5),
    ),
    "auc": (
        metrics.AUC.empty(1 << 16), {"scores": SCORES, "labels": BINARY},
        lambda k: sk.roc_auc_score(BINARY[k], SCORES[k]),
    ),
    "average": (metrics.Average("x"), {"x": SCORES}, lambda k: SCORES[k].mean()),
    "perplexity": (metrics.Perplexity("x"), {"x": SCORES}, lambda k: np.exp(SCORES[k].mean())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_others(name):
    empty, given, expected = CASES[name]
    everything = np.ones(40, bool)
    got = empty.update(**given)
    np.testing.assert_allclose(got.compute(), expected(everything), rtol=2e-6)
    jitted = mgefn.jit(lambda m, kw: m.update(**kw))(empty, given)
    np.testing.assert_allclose(jitted.compute(), got.compute(), rtol=1e-6)
    masked = empty.update(**given, mask=KEEP)
    np.testing.assert_allclose(masked.compute(), expected(KEEP), rtol=2e-6)
    halves = [
        empty.update(**{k: v[s] for k, v in given.items()}) for s in (slice(17), slice(17, 40))
    ]
    for merged in (halves[0].merge(halves[1]), halves[1].merge(halves[0])):
        np.testing.assert_allclose(merged.compute(), got.compute(), rtol=1e-6)
    for m in (got, jitted, masked, merged):
        assert mgefn.tree.structure(m) == mgefn.tree.structure(empty)
        for a, b in zip(mgefn.tree.leaves(m), mgefn.tree.leaves(empty), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
    zero = got.reset()
    assert all(not mnp.any(v) for v in mgefn.tree.leaves(zero))
    with pytest.raises(ArgumentError, match=r"merge: needs"):
        empty.merge(3)


def test_in_a_scan():
    batches = {"logits": LOGITS.reshape(8, 5, 4), "labels": LABELS.reshape(8, 5)}
    total, _ = lax.scan(lambda m, b: (m.update(**b), None), metrics.Accuracy(), batches)
    np.testing.assert_allclose(total.compute(), sk.accuracy_score(LABELS, GUESS), rtol=1e-6)


def test_nothing_gives_nan():
    for m in (metrics.Accuracy(), metrics.Average(), metrics.Perplexity(), metrics.AUC.empty()):
        assert np.isnan(m.compute())
    assert np.isnan(metrics.Average().update(values=mnp.zeros(0)).compute())
    assert np.isnan(metrics.Welford().compute().mean)


def test_an_average_of_many_does_not_drift():
    """0.1 added a hundred thousand times: a plain float32 sum is off by over a ten thousandth."""
    m, _ = lax.scan(lambda m, _: (m.update(values=0.1), None), metrics.Average(), None, 100_000)
    # What was lost is a float32 sum itself, some hundred times smaller.
    np.testing.assert_allclose(m.compute(), np.float32(0.1), rtol=1e-6)
    plain, _ = lax.scan(lambda s, _: (s + mnp.float32(0.1), None), mnp.float32(0), None, 100_000)
    assert abs(float(plain) / 10_000 - 1) > 1e-4
    assert float(metrics.Average().update(values=mnp.inf).update(values=1.0).compute()) == np.inf


def test_welford():
    x = 1e4 + RNG.normal(size=1000)
    m = metrics.Welford("x").update(x=x[:300]).merge(metrics.Welford("x").update(x=x[300:]))
    got = m.compute()
    np.testing.assert_allclose(got.mean, x.mean(), rtol=1e-6)
    np.testing.assert_allclose(got.standard_deviation, x.std(), rtol=1e-3)
    np.testing.assert_allclose(got.standard_error_of_mean, x.std() / np.sqrt(1000), rtol=1e-3)


def test_auc_counts_ties_half_and_ends():
    auc = metrics.AUC.empty(4)
    tied = auc.update(scores=mnp.array([0.5, 0.5, 1.0, -3.0]), labels=mnp.array([1, 0, 1, 0]))
    assert float(tied.compute()) == 3.5 / 4
    nan = auc.update(scores=mnp.array([mnp.nan, 0.2, 0.9]), labels=mnp.array([0, 0, 1]))
    assert float(nan.compute()) == 1.0


def test_confusion_leaves_out_what_is_no_class():
    m = metrics.ConfusionMatrix.empty(2).update(
        predictions=mnp.array([0, 1, 1, 5]), labels=mnp.array([0, -1, 1, 1])
    )
    assert m.compute().tolist() == [[1, 0], [0, 1]]
    assert m.precision().tolist() == m.recall().tolist() == [1, 1]
    assert float(m.accuracy()) == 1


def test_multi_metric():
    m = metrics.MultiMetric(accuracy=metrics.Accuracy(), loss=metrics.Average("loss"))
    step = mgefn.jit(lambda m, i: m.update(logits=LOGITS, labels=LABELS, loss=i))
    m = step(step(m, 1.0), 2.0)
    assert float(m.compute()["loss"]) == 1.5
    assert float(m.merge(m).loss.compute()) == 1.5
    assert float(m.accuracy.count) == 80
    assert int(m.reset().accuracy.count) == 0
    assert "MultiMetric(accuracy=" in repr(m)
    names = mgefn.tree.key_paths(m)
    assert names[0] == ".accuracy.right"
    with pytest.raises(AttributeError, match="no metric 'f1'"):
        m.f1  # noqa: B018
    with pytest.raises(ArgumentError, match=r"needs one with \['accuracy', 'loss'\]"):
        m.merge(metrics.MultiMetric(loss=metrics.Average("loss")))


def test_bad_arguments():
    with pytest.raises(ShapeError, match=r"got \[40, 4\] and \[40, 4\]"):
        metrics.Accuracy().update(logits=LOGITS, labels=np.eye(4, dtype=int)[LABELS])
    with pytest.raises(ArgumentError, match="labels must be integers"):
        metrics.Accuracy().update(logits=LOGITS, labels=SCORES)
    with pytest.raises(ShapeError, match=r"mask must have shape \[40\], got \[3\]"):
        metrics.Average().update(values=SCORES, mask=np.ones(3))
    with pytest.raises(ArgumentError, match=r"needs the argument 'values', got \['loss'\]"):
        metrics.Average().update(loss=1.0)
    with pytest.raises(ArgumentError, match="needs logits or predictions"):
        metrics.F1.empty(3).update(labels=LABELS)
    with pytest.raises(ArgumentError, match="average must be 'macro'"):
        metrics.F1.empty(3).replace(average="max").compute()
    with pytest.raises(ArgumentError, match="num_classes must be 1 or more"):
        metrics.ConfusionMatrix.empty(0)
    with pytest.raises(ArgumentError, match="num_bins must be 2"):
        metrics.AUC.empty(1)
