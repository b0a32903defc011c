"""Metrics as values: `update` gives a new one, `merge` adds two, `compute` gives the number.

A metric is a pytree of counts and sums. It goes through jit, scan and checkpoints like any state,
and two halves of the data merge to what the whole would have given.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError
from mgefn.numpy.creation import asarray, zeros
from mgefn.ops.cumulative import cumsum
from mgefn.ops.elementwise import clip, convert, exp, floor, maximum, sqrt, square, where
from mgefn.ops.reductions import argmax, mean, sum

INT, FLOAT = np.dtype(np.int32), np.dtype(np.float32)


def _changed(metric: Any, **changes: Any) -> Any:
    return dataclasses.replace(metric, **changes)


def _zero(dtype: Any = None) -> Any:
    return dataclasses.field(default_factory=lambda: zeros((), dtype))


def _argument(name: str, given: dict[str, Any], argname: str) -> Any:
    if argname not in given:
        raise ArgumentError(
            f"{name}.update: needs the argument {argname!r}, got {sorted(given)}. Pass it by name."
        )
    return asarray(given[argname])


def _weights(name: str, mask: Any, shape: tuple[int, ...]) -> Any:
    if mask is None:
        return None
    m = asarray(mask)
    if m.shape != shape:
        raise ShapeError(f"{name}.update: mask must have shape {list(shape)}, got {list(m.shape)}.")
    return m != 0


class _Metric:
    """What all metrics share."""

    def merge(self, other: Any) -> Any:
        """The metric of both halves."""
        if type(other) is not type(self):
            raise ArgumentError(
                f"{type(self).__name__}.merge: needs its own kind, got {type(other).__name__}."
            )
        return tree.map(lambda a, b: a + b, self, other)

    def reset(self) -> Any:
        """The metric that has seen nothing."""
        return tree.map(lambda a: a * 0, self)


@tree.dataclass
class Average(_Metric):
    """The mean of all values.

    Args:
        argname: the argument of update that holds them.

    Sums are kept in two numbers of the default float dtype (Neumaier), so that rounding does not
    add up.

    Example:
        >>> loss = mgefn.metrics.Average("loss").update(loss=mnp.array([1.0, 2.0]))
        >>> float(loss.update(loss=6.0).compute())
        3.0
    """

    argname: str = tree.static(default="values")
    total: Any = _zero()
    lost: Any = _zero()
    count: Any = _zero(np.int32)

    def update(self, *, mask: ArrayLike | None = None, **kwargs: Any) -> Average:
        """The mean with these values too.

        Args:
            mask: which of them count; all without it.
            kwargs: one of the name `argname`; others are left alone.
        """
        x = _argument("Average", kwargs, self.argname)
        keep = _weights("Average", mask, x.shape)
        x = convert(x, np.promote_types(np.float32, self.total.dtype))
        count = x.size if keep is None else sum(convert(keep, INT))
        added = sum(x if keep is None else where(keep, x, 0.0))
        return self._plus(added, 0.0, count)

    def _plus(self, added: Any, lost: Any, count: Any) -> Average:
        total = self.total + added
        larger = abs(self.total) >= abs(added)
        rest = where(larger, (self.total - total) + added, (added - total) + self.total)
        # Where the sum is infinite or nan there is no rounding to keep.
        rest = where(rest == rest, rest, 0.0)
        return _changed(self, total=total, lost=self.lost + rest + lost, count=self.count + count)

    def merge(self, other: Any) -> Average:
        if type(other) is not Average:
            raise ArgumentError(f"Average.merge: needs an Average, got {type(other).__name__}.")
        return self._plus(other.total, other.lost, other.count)

    def compute(self) -> Array:
        """The mean; nan of nothing."""
        return (self.total + self.lost) / self.count


@tree.dataclass
class Perplexity(_Metric):
    """exp of the mean of negative log likelihoods.

    Args:
        argname: the argument of update that holds them.

    Example:
        >>> p = mgefn.metrics.Perplexity().update(values=mnp.log(mnp.array([2.0, 8.0])))
        >>> round(float(p.compute()), 4)
        4.0
    """

    argname: str = tree.static(default="values")
    average: Any = dataclasses.field(default_factory=Average)

    def update(self, *, mask: ArrayLike | None = None, **kwargs: Any) -> Perplexity:
        """With these values too; see Average.update."""
        x = _argument("Perplexity", kwargs, self.argname)
        return _changed(self, average=self.average.update(values=x, mask=mask))

    def merge(self, other: Any) -> Perplexity:
        if type(other) is not Perplexity:
            raise ArgumentError(f"Perplexity.merge: needs its kind, got {type(other).__name__}.")
        return _changed(self, average=self.average.merge(other.average))

    def compute(self) -> Array:
        """The perplexity; nan of nothing."""
        return exp(self.average.compute())


@tree.dataclass
class Statistics:
    """What Welford gives.

    Args:
        mean: the mean.
        standard_error_of_mean: standard_deviation / sqrt(count).
        standard_deviation: the square root of the mean squared distance from the mean.
    """

    mean: Any
    standard_error_of_mean: Any
    standard_deviation: Any


@tree.dataclass
class Welford(_Metric):
    """Mean and spread of all values, without the cancellation of sums of squares.

    Args:
        argname: the argument of update that holds them.

    Example:
        >>> w = mgefn.metrics.Welford().update(values=mnp.array([1.0, 2.0, 3.0]))
        >>> round(float(w.compute().standard_deviation), 4)
        0.8165

    Source: T. Chan, G. Golub, R. LeVeque, Algorithms for computing the sample variance, The
    American Statistician 37(3), 1983, formula 2.1.
    """

    argname: str = tree.static(default="values")
    count: Any = _zero(np.int32)
    mean: Any = _zero()
    m2: Any = _zero()

    def update(self, **kwargs: Any) -> Welford:
        """With these values too: one of the name `argname`."""
        x = _argument("Welford", kwargs, self.argname)
        x = convert(x, np.promote_types(np.float32, self.mean.dtype))
        if x.size == 0:
            return self
        m = mean(x)
        return self._plus(x.size, m, sum(square(x - m)))

    def _plus(self, count: Any, other_mean: Any, m2: Any) -> Welford:
        total = self.count + count
        share = count / maximum(total, 1)
        delta = other_mean - self.mean
        return _changed(
            self,
            count=total,
            mean=self.mean + delta * share,
            m2=self.m2 + m2 + square(delta) * self.count * share,
        )

    def merge(self, other: Any) -> Welford:
        if type(other) is not Welford:
            raise ArgumentError(f"Welford.merge: needs a Welford, got {type(other).__name__}.")
        return self._plus(other.count, other.mean, other.m2)

    def compute(self) -> Statistics:
        """The Statistics; nan of nothing."""
        spread = sqrt(self.m2 / self.count)
        centre = where(self.count > 0, self.mean, np.nan)
        return Statistics(centre, spread / sqrt(convert(self.count, FLOAT)), spread)


def _predicted(name: str, logits: Any, labels: Any, threshold: float | None) -> tuple[Any, Any]:
    """Classes predicted and true, of one shape."""
    x, y = asarray(logits), asarray(labels)
    if not (dtypes.is_integer(y.dtype) or dtypes.is_bool(y.dtype)):
        raise ArgumentError(f"{name}.update: labels must be integers, got {y.aval}.")  # type: ignore[attr-defined]
    if threshold is not None:
        if x.shape != y.shape:
            raise ShapeError(
                f"{name}.update: with a threshold, logits and labels must have one shape, got "
                f"{list(x.shape)} and {list(y.shape)}."
            )
        return convert(x > threshold, INT), convert(y, INT)
    if x.ndim != y.ndim + 1 or x.shape[:-1] != y.shape:
        raise ShapeError(
            f"{name}.update: logits must have the shape of labels and a dimension of classes, got "
            f"{list(x.shape)} and {list(y.shape)}. Labels are numbers of classes, not one-hot."
        )
    return convert(argmax(x, axis=-1), INT), convert(y, INT)


@tree.dataclass
class Accuracy(_Metric):
    """The share of right answers.

    Args:
        threshold: for two classes: logits above it mean class 1. Without it the class is that of
            the largest of the last dimension.

    Example:
        >>> logits = mnp.array([[2.0, 1.0], [0.0, 3.0], [1.0, 5.0]])
        >>> accuracy = mgefn.metrics.Accuracy()
        >>> float(accuracy.update(logits=logits, labels=mnp.array([0, 1, 1])).compute())
        1.0
    """

    threshold: float | None = tree.static(default=None)
    right: Any = _zero(np.int32)
    count: Any = _zero(np.int32)

    def update(
        self, *, logits: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None, **_: Any
    ) -> Accuracy:
        """With these answers too.

        Args:
            logits: labels.shape + (classes,); of the shape of labels with a threshold.
            labels: integers.
            mask: which of them count; all without it.
        """
        guess, truth = _predicted("Accuracy", logits, labels, self.threshold)
        keep = _weights("Accuracy", mask, truth.shape)
        right = guess == truth
        count = truth.size if keep is None else sum(convert(keep, INT))
        right = right if keep is None else right & keep
        return _changed(self, right=self.right + sum(convert(right, INT)), count=self.count + count)

    def compute(self) -> Array:
        """The share; nan of nothing."""
        return self.right / self.count


@tree.dataclass
class ConfusionMatrix(_Metric):
    """How often each class was taken for which: matrix[truth, guess].

    Args:
        num_classes: how many classes there are.

    Example:
        >>> m = mgefn.metrics.ConfusionMatrix.empty(2)
        >>> m = m.update(logits=mnp.array([[1.0, 0.0], [1.0, 0.0]]), labels=mnp.array([0, 1]))
        >>> m.compute()
        Array([[1, 0],
               [1, 0]], dtype=int32)
    """

    matrix: Any

    @classmethod
    def empty(cls, num_classes: int) -> Any:
        """The metric that has seen nothing."""
        if num_classes < 1:
            raise ArgumentError(
                f"{cls.__name__}: num_classes must be 1 or more, got {num_classes}."
            )
        made: Any = cls
        return made(zeros((num_classes, num_classes), np.int32))

    def update(
        self,
        *,
        labels: ArrayLike,
        logits: ArrayLike | None = None,
        predictions: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        **_: Any,
    ) -> Any:
        """With these answers too.

        Args:
            labels: integers in [0, num_classes); others are not counted.
            logits: labels.shape + (num_classes,).
            predictions: in their place, the classes themselves.
            mask: which of them count; all without it.
        """
        name, n = type(self).__name__, self.matrix.shape[0]
        if (logits is None) == (predictions is None):
            raise ArgumentError(f"{name}.update: needs logits or predictions, one of the two.")
        if predictions is None:
            guess, truth = _predicted(name, logits, labels, None)
        else:
            guess, truth = (convert(asarray(v), INT) for v in (predictions, labels))
            if guess.shape != truth.shape:
                raise ShapeError(
                    f"{name}.update: predictions and labels must have one shape, got "
                    f"{list(guess.shape)} and {list(truth.shape)}."
                )
        keep = _weights(name, mask, truth.shape)
        valid = (truth >= 0) & (truth < n) & (guess >= 0) & (guess < n)
        valid = valid if keep is None else valid & keep
        place = where(valid, truth * n + guess, n * n).reshape(-1)
        counts = zeros((n * n + 1,), np.int32).at[place].add(1)[:-1]
        return _changed(self, matrix=self.matrix + counts.reshape(n, n))

    def compute(self) -> Array:
        """The matrix: rows are true classes, columns are guesses."""
        return self.matrix

    def accuracy(self) -> Array:
        """The share on the diagonal."""
        return sum(self._diagonal()) / sum(self.matrix)

    def _diagonal(self) -> Any:
        return self.matrix.diagonal()

    def precision(self) -> Array:
        """For each class, the share of right ones among its guesses; 0 without any."""
        return _ratio(self._diagonal(), sum(self.matrix, axis=0))

    def recall(self) -> Array:
        """For each class, the share that was found; 0 where it does not occur."""
        return _ratio(self._diagonal(), sum(self.matrix, axis=1))

    def f1(self) -> Array:
        """For each class, the harmonic mean of precision and recall; 0 where it is not defined."""
        guessed, true = sum(self.matrix, axis=0), sum(self.matrix, axis=1)
        return _ratio(2 * self._diagonal(), guessed + true)


def _ratio(a: Any, b: Any) -> Any:
    return where(b > 0, a / maximum(b, 1), 0.0)


@tree.dataclass
class F1(ConfusionMatrix):
    """The F1 score: harmonic mean of precision and recall.

    Args:
        average: "macro", the mean over classes; "micro", of all answers together; "none", one a
            class; "binary", that of class 1.

    Example:
        >>> f1 = mgefn.metrics.F1.empty(2).update(
        ...     predictions=mnp.array([1, 1, 0]), labels=mnp.array([1, 0, 0]))
        >>> round(float(f1.compute()), 4)
        0.6667
    """

    average: str = tree.static(default="macro")

    def compute(self) -> Array:
        """The score."""
        if self.average == "micro":
            return self.accuracy()
        each = self.f1()
        if self.average == "none":
            return each
        if self.average == "binary":
            return each[1]
        if self.average == "macro":
            return mean(each)
        raise ArgumentError(
            f"F1: average must be 'macro', 'micro', 'none' or 'binary', got {self.average!r}."
        )


@tree.dataclass
class AUC(_Metric):
    """The area under the ROC curve: how likely a positive scores above a negative.

    Scores are counted in bins of equal width, which is what lets two halves merge. Pairs in one
    bin count half, so the result is exact where no bin holds both kinds, and off by at most half
    the share of pairs that share a bin.

    Args:
        positive, negative: counts by bin. Made by `empty(num_bins)`.

    Example:
        >>> auc = mgefn.metrics.AUC.empty()
        >>> scores, labels = mnp.array([0.1, 0.4, 0.35, 0.8]), mnp.array([0, 0, 1, 1])
        >>> float(auc.update(scores=scores, labels=labels).compute())
        0.75
    """

    positive: Any
    negative: Any

    @classmethod
    def empty(cls, num_bins: int = 4096) -> AUC:
        """The metric that has seen nothing, for scores in [0, 1]."""
        if num_bins < 2:
            raise ArgumentError(f"AUC: num_bins must be 2 or more, got {num_bins}.")
        made: Any = cls
        return made(zeros((num_bins,), np.int32), zeros((num_bins,), np.int32))

    def update(
        self, *, scores: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None, **_: Any
    ) -> AUC:
        """With these answers too.

        Args:
            scores: in [0, 1]; others count as the nearest end. nan is not counted.
            labels: of their shape: 0 or False, or anything else for positive.
            mask: which of them count; all without it.
        """
        x, y = asarray(scores), asarray(labels)
        if x.shape != y.shape:
            raise ShapeError(
                f"AUC.update: scores and labels must have one shape, got {list(x.shape)} and "
                f"{list(y.shape)}."
            )
        n = self.positive.shape[0]
        keep = _weights("AUC", mask, x.shape)
        valid = x == x if keep is None else (x == x) & keep
        place = clip(floor(where(valid, x, 0.0) * n), 0, n - 1)
        place = where(valid, convert(place, INT), n).reshape(-1)
        good = convert(y != 0, INT).reshape(-1)
        empty = zeros((n + 1,), np.int32)
        return AUC(
            self.positive + empty.at[place].add(good)[:-1],
            self.negative + empty.at[place].add(1 - good)[:-1],
        )

    def compute(self) -> Array:
        """The area; nan unless both kinds were seen."""
        pos, neg = (convert(v, FLOAT) for v in (self.positive, self.negative))
        all_pos, all_neg = sum(pos), sum(neg)
        # Shares before products, which could not be told apart in float32.
        below = cumsum(neg / all_neg) - neg / all_neg
        return sum(pos / all_pos * (below + neg / all_neg / 2))


class MultiMetric:
    """Several metrics under names, updated and merged together.

    Args:
        metrics: by name.

    Example:
        >>> m = mgefn.metrics.MultiMetric(
        ...     accuracy=mgefn.metrics.Accuracy(), loss=mgefn.metrics.Average("loss"))
        >>> m = m.update(logits=mnp.array([[0.0, 1.0]]), labels=mnp.array([1]), loss=0.5)
        >>> {name: float(value) for name, value in m.compute().items()}
        {'accuracy': 1.0, 'loss': 0.5}
    """

    def __init__(self, **metrics: Any) -> None:
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        metrics = self.__dict__.get("_metrics", {})
        if name in metrics:
            return metrics[name]
        raise AttributeError(f"MultiMetric has no metric {name!r}, but {sorted(metrics)}")

    def update(self, **kwargs: Any) -> MultiMetric:
        """Each metric, given all arguments; it takes those that it knows."""
        return MultiMetric(**{k: m.update(**kwargs) for k, m in self._metrics.items()})

    def merge(self, other: Any) -> MultiMetric:
        """The metrics of both halves."""
        theirs = getattr(other, "_metrics", None)
        if not isinstance(other, MultiMetric) or set(theirs or ()) != set(self._metrics):
            raise ArgumentError(
                f"MultiMetric.merge: needs one with {sorted(self._metrics)}, got "
                f"{sorted(theirs or ()) if theirs is not None else type(other).__name__}."
            )
        return MultiMetric(**{k: m.merge(other._metrics[k]) for k, m in self._metrics.items()})

    def reset(self) -> MultiMetric:
        """The metrics that have seen nothing."""
        return MultiMetric(**{k: m.reset() for k, m in self._metrics.items()})

    def compute(self) -> dict[str, Any]:
        """The results by name."""
        return {k: m.compute() for k, m in self._metrics.items()}

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={m!r}" for k, m in self._metrics.items())
        return f"MultiMetric({inner})"


tree.register_pytree_with_keys(
    MultiMetric,
    lambda m: (
        [(tree.GetAttrKey(k), v) for k, v in m._metrics.items()],
        tuple(m._metrics),
    ),
    lambda names, values: MultiMetric(**dict(zip(names, values, strict=True))),
    lambda m: (tuple(m._metrics.values()), tuple(m._metrics)),
)

__all__ = [
    "AUC",
    "F1",
    "Accuracy",
    "Average",
    "ConfusionMatrix",
    "MultiMetric",
    "Perplexity",
    "Statistics",
    "Welford",
]
