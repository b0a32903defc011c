"""Early stopping as a value."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Whether to stop, by a metric that should become smaller. `update` gives a new one.

    Args:
        min_delta: by how much the metric must be smaller than the best to count as better.
        patience: how many updates in a row without a better one are borne; the next stops.
        best_metric, patience_count, should_stop, has_improved: where it stands.

    nan is never better.

    Example:
        >>> from mgefn import training
        >>> stop = training.EarlyStopping(patience=1)
        >>> for loss in (3.0, 2.0, 2.5, 2.2):
        ...     stop = stop.update(loss)
        >>> stop.should_stop, stop.best_metric
        (True, 2.0)
    """

    min_delta: float = 0.0
    patience: int = 0
    best_metric: float = math.inf
    patience_count: int = 0
    should_stop: bool = False
    has_improved: bool = False

    def reset(self) -> EarlyStopping:
        """As it was before the first update."""
        return EarlyStopping(self.min_delta, self.patience)

    def update(self, metric: Any) -> EarlyStopping:
        """Where it stands after another metric, a number or an array of one element."""
        value = float(metric)
        better = value < self.best_metric and (
            math.isinf(self.best_metric) or self.best_metric - value > self.min_delta
        )
        if better:
            return dataclasses.replace(self, best_metric=value, patience_count=0, has_improved=True)
        return dataclasses.replace(
            self,
            patience_count=self.patience_count + 1,
            should_stop=self.should_stop or self.patience_count >= self.patience,
            has_improved=False,
        )
