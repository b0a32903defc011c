"""Where the numbers of a run go: the console, a CSV file, TensorBoard; and progress bars.

A logger has `log(step, numbers)` and `close()`. It owns no loop and knows no model.
"""

from __future__ import annotations

import csv
import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from mgefn.errors import ArgumentError, UnsupportedError, api_boundary
from mgefn.training.tensorboard import SummaryWriter


def _rich(operation: str, module: str) -> Any:
    """A module of rich, which only consoles need."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise UnsupportedError(
            f"{operation}: needs the package rich, which is not installed. Install it with: pip "
            "install rich (the extra examples has it too)."
        ) from None


def _numbers(name: str, metrics: Any) -> dict[str, float]:
    """Numbers by name; those inside of nested dicts under "outer/inner"."""
    if not isinstance(metrics, Mapping):
        raise ArgumentError(
            f"{name}.log: needs numbers by name, got {type(metrics).__name__}. Pass a dict."
        )
    found: dict[str, float] = {}
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            found.update({f"{key}/{k}": v for k, v in _numbers(name, value).items()})
        elif np.size(value) == 1:
            found[str(key)] = float(np.asarray(value).reshape(()))
        else:
            raise ArgumentError(
                f"{name}.log: {key!r} must be one number, got shape {list(np.shape(value))}. Take "
                "its mean."
            )
    return found


class Logger:
    """What all loggers have. Subclasses define `write`."""

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write numbers of a step.

        Args:
            step: an integer.
            metrics: numbers by name; dicts inside are written under "outer/inner".
        """
        self.write(int(step), _numbers(type(self).__name__, metrics))

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """Write numbers that are checked already."""
        raise ArgumentError(f"{type(self).__name__}: a logger must define write. Add it.")

    def close(self) -> None:
        """Finish."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ConsoleLogger(Logger):
    """A line a step, on the console by rich.

    Args:
        every: write only every so many-th call.
        file: where to; standard output without it.
        digits: how many digits that count a number has.
    """

    def __init__(self, every: int = 1, file: IO[str] | None = None, digits: int = 4) -> None:
        Console = _rich("ConsoleLogger", "rich.console").Console
        if every < 1:
            raise ArgumentError(f"ConsoleLogger: every must be 1 or more, got {every}.")
        self._console = Console(file=file, highlight=False, soft_wrap=True)
        self._every, self._digits, self._calls = every, digits, 0
        self._start = time.monotonic()

    def write(self, step: int, numbers: dict[str, float]) -> None:
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        seconds = time.monotonic() - self._start
        parts = [f"[bold]step {step}[/bold]", f"{seconds:.1f} s"]
        parts += [f"{_escaped(k)} [cyan]{v:.{self._digits}g}[/cyan]" for k, v in numbers.items()]
        self._console.print("  ".join(parts))


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


class CSVLogger(Logger):
    """A row a step in a CSV file, a column a name.

    Args:
        path: the file. Rows are added to one that is there.
        resume_at: rows of this step and later are dropped first, which a run that goes on from an
            older checkpoint would otherwise write twice.

    A new name adds a column; the file is then written anew, whole or not at all.
    """

    def __init__(self, path: Any, resume_at: int | None = None) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._rows = self._read()
        self._columns = list(self._rows[0]) if self._rows else ["step"]
        kept = [r for r in self._rows if resume_at is None or int(r["step"]) < resume_at]
        # A file that was cut off in a row is written anew too.
        self._rows = kept
        self._rewrite()

    def _read(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with open(self.path, newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        if rows and "step" not in rows[0]:
            raise ArgumentError(
                f"CSVLogger: {self.path} must have a column 'step', got {list(rows[0])}. Use "
                "another file."
            )
        return [row for row in rows if None not in row.values() and (row["step"] or "").isdigit()]

    def _rewrite(self) -> None:
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        with open(part, "w", newline="", encoding="utf-8") as f:
            writer = csv.DictWriter(f, self._columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
        os.replace(part, self.path)
        self._file = open(self.path, "a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, self._columns, restval="")

    def write(self, step: int, numbers: dict[str, float]) -> None:
        row = {"step": str(step), **{k: repr(v) for k, v in numbers.items()}}
        self._rows.append(row)
        new = [k for k in row if k not in self._columns]
        if new:
            self._columns += new
            self._file.close()
            self._rewrite()
        else:
            self._writer.writerow(row)
            self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoardLogger(Logger):
    """Numbers in an event file that TensorBoard shows.

    Args:
        log_dir: a folder; a new file in it.
    """

    def __init__(self, log_dir: Any) -> None:
        self.writer = SummaryWriter(log_dir)

    def write(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class MultiLogger(Logger):
    """Several loggers as one.

    Args:
        loggers: each gets everything.
    """

    def __init__(self, *loggers: Logger) -> None:
        self.loggers = loggers

    def write(self, step: int, numbers: dict[str, float]) -> None:
        for logger in self.loggers:
            logger.write(step, numbers)

    def close(self) -> None:
        for logger in self.loggers:
            logger.close()


@api_boundary
def progress(
    iterable: Iterable[Any],
    description: str = "",
    total: int | None = None,
    file: IO[str] | None = None,
) -> Iterator[Any]:
    """The items of an iterable, with a progress bar by rich while they are taken.

    Args:
        iterable: anything to iterate over.
        description: the text before the bar.
        total: how many there are; len(iterable) without it, if it has one.
        file: where to draw; standard error without it. Nothing is drawn where that is no terminal.

    Example:
        >>> from mgefn import training
        >>> sum(training.progress(range(4), "steps"))
        6
    """
    items = iter(iterable)
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)  # type: ignore[arg-type]
    return _with_bar(items, description, total, sys.stderr if file is None else file)


def _with_bar(
    items: Iterator[Any], description: str, total: int | None, file: IO[str]
) -> Iterator[Any]:
    rich = _rich("progress", "rich.progress")
    console = _rich("progress", "rich.console").Console(file=file)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        for item in items:
            yield item
            bar.advance(task)
