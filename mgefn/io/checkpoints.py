"""Checkpoints: numbered files in a folder, each whole or absent.

A checkpoint is one file, `checkpoint_<step>.safetensors`, written beside its name and renamed at
the end. A process may die at any moment: the folder then holds the checkpoints of before, and
perhaps a `.part` file that is never read and that the next manager removes. A file that is damaged
later fails its checksum; the newest whole one is then used instead, with a warning.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from mgefn.errors import ArgumentError, CheckpointNotFoundError, FileFormatError, api_boundary
from mgefn.io.files import PathLike, opened, pieces, write
from mgefn.io.trees import into_target

SUFFIX = ".safetensors"


def _file(folder: PathLike, prefix: str, step: int) -> Path:
    return Path(folder) / f"{prefix}{step}{SUFFIX}"


def _step(operation: str, step: Any) -> int:
    try:
        number = int(step)
    except (TypeError, ValueError):
        number = -1
    if number < 0 or number != step:
        raise ArgumentError(f"{operation}: step must be an integer >= 0, got {step!r}.")
    return number


@api_boundary
def available_steps(
    ckpt_dir: PathLike, prefix: str = "checkpoint_", step_type: type = int
) -> list[Any]:
    """The steps of the checkpoints in a folder, smallest first; none where there is no folder."""
    folder = Path(ckpt_dir)
    name = re.compile(re.escape(prefix) + r"(\d+)" + re.escape(SUFFIX))
    found = (name.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(step_type(m[1]) for m in found if m)


@api_boundary
def latest_checkpoint(ckpt_dir: PathLike, prefix: str = "checkpoint_") -> str | None:
    """The path of the checkpoint with the largest step, or None."""
    steps = available_steps(ckpt_dir, prefix)
    return str(_file(ckpt_dir, prefix, steps[-1])) if steps else None


@api_boundary
def save_checkpoint(
    ckpt_dir: PathLike,
    target: Any,
    step: int,
    prefix: str = "checkpoint_",
    keep: int = 1,
    overwrite: bool = False,
    keep_every_n_steps: int | None = None,
) -> str:
    """Write a checkpoint of a tree and drop old ones.

    Args:
        ckpt_dir: a folder, made where it is absent.
        target: a pytree.
        step: an integer that is larger than that of the checkpoints there.
        prefix: the beginning of the file's name.
        keep: how many of the latest checkpoints remain.
        overwrite: allow a step that is not the largest; checkpoints of larger steps are dropped.
        keep_every_n_steps: checkpoints at its multiples remain as well.

    Returns:
        The path of the file.

    Raises:
        ArgumentError: there is a checkpoint of this or a later step, and overwrite is False.
    """
    step = _step("save_checkpoint", step)
    if keep < 1:
        raise ArgumentError(f"save_checkpoint: keep must be 1 or more, got {keep}.")
    folder = Path(ckpt_dir)
    steps = available_steps(folder, prefix)
    if steps and steps[-1] >= step and not overwrite:
        raise ArgumentError(
            f"save_checkpoint: step must be larger than {steps[-1]}, which {folder} holds, got "
            f"{step}. Pass overwrite=True to go back."
        )
    parts = pieces(target, {"step": step}, "save_checkpoint")
    folder.mkdir(parents=True, exist_ok=True)
    path = _file(folder, prefix, step)
    write(path, parts)
    later = [s for s in steps if s > step]
    every = keep_every_n_steps
    old = sorted({*(s for s in steps if s < step), step})[:-keep]
    for s in later + [s for s in old if not every or s % every]:
        _file(folder, prefix, s).unlink(missing_ok=True)
    return str(path)


@api_boundary
def restore_checkpoint(
    ckpt_dir: PathLike, target: Any, step: int | None = None, prefix: str = "checkpoint_"
) -> Any:
    """Read a checkpoint.

    Args:
        ckpt_dir: the folder, or the file itself.
        target: a tree of the same names, whose structure the result takes; None for plain dicts.
        step: which; None is the latest that is whole.
        prefix: as it was saved.

    Returns:
        The tree. Where the folder has no checkpoint, or is not there, and step is None: `target` as
        it is, so that a first start and a later one are the same call, here as in flax.

    Raises:
        CheckpointNotFoundError: there is none of that step; or no checkpoint at all, and target is
            None, so that there is nothing to go on with. `latest_checkpoint` tells without an
            error.
        FileFormatError: it is damaged, or no checkpoint is whole.
        TreeError: its names differ from those of target.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> start = {"w": mnp.zeros(2)}
        >>> mgefn.io.restore_checkpoint(folder.name, start) is start  # the first start
        True
        >>> _ = mgefn.io.save_checkpoint(folder.name, {"w": mnp.ones(2)}, step=1)
        >>> mgefn.io.restore_checkpoint(folder.name, start)
        {'w': Array([1., 1.], dtype=float32)}
        >>> folder.cleanup()
    """
    folder = Path(ckpt_dir)
    if folder.is_file():
        return _read(folder, target)[0]
    steps = available_steps(folder, prefix)
    if step is not None:
        step = _step("restore_checkpoint", step)
        if step not in steps:
            raise CheckpointNotFoundError(
                f"restore_checkpoint: {folder} must hold step {step}, got {_held(folder, steps)}. "
                + ("Name one of these, or None for the latest." if steps else "Is the path right?")
            )
        return _read(_file(folder, prefix, step), target)[0]
    found = _latest_whole([_file(folder, prefix, s) for s in steps], target)
    if found is None and target is None:
        raise CheckpointNotFoundError(
            f"restore_checkpoint: {folder} must hold a checkpoint {prefix}<step>{SUFFIX}, got "
            f"{_held(folder, steps)}. Correct the path, or pass a target to begin with."
        )
    return target if found is None else found[0]


def _held(folder: Path, steps: list[int]) -> str:
    if steps:
        return f"steps {steps}"
    if folder.is_dir():
        return "none there"
    return "no such folder"


def _read(path: Path, target: Any) -> tuple[Any, Any]:
    what = f"restore_checkpoint({path.name})"
    loaded, info = opened(path.read_bytes(), what)
    return (loaded if target is None else into_target(target, loaded, what)), info


def _latest_whole(paths: list[Path], target: Any) -> tuple[Any, Any, Path] | None:
    """The last file that can be read; None without files."""
    trouble: FileFormatError | None = None
    for path in reversed(paths):
        try:
            loaded, info = opened(path.read_bytes(), f"restore_checkpoint({path.name})")
        except FileFormatError as exc:
            trouble = exc
            warnings.warn(f"{exc} An older checkpoint is tried.", RuntimeWarning, stacklevel=4)
            continue
        except FileNotFoundError:
            continue  # another process dropped it as an old one
        what = f"restore_checkpoint({path.name})"
        return (loaded if target is None else into_target(target, loaded, what)), info, path
    if trouble is not None:
        raise trouble
    return None


class CheckpointManager:
    """Checkpoints of one run: written in the background, the last and the best kept.

    Args:
        directory: a folder, made where it is absent. `.part` files in it are removed, so only one
            manager writes to a folder at a time.
        max_to_keep: how many of the latest remain; None for all.
        keep_best: how many of the best remain besides; needs `best_fn`.
        best_fn: metrics -> number, by which checkpoints are compared.
        best_mode: "max" if larger is better, "min" if smaller is.
        save_interval_steps: save(step) does nothing at other steps than its multiples.
        asynchronous: write in a thread of its own. save returns when the arrays are copied, so they
            may be donated at once.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mgefn.io.CheckpointManager(folder.name, max_to_keep=2) as manager:
        ...     for step in range(5):
        ...         _ = manager.save(step, {"w": mnp.full(2, step)})
        >>> manager.all_steps(), manager.restore()["w"].tolist()
        ([3, 4], [4, 4])
        >>> folder.cleanup()
    """

    def __init__(
        self,
        directory: PathLike,
        max_to_keep: int | None = None,
        *,
        keep_best: int = 0,
        best_fn: Callable[[Mapping[str, Any]], float] | None = None,
        best_mode: Literal["max", "min"] = "max",
        save_interval_steps: int = 1,
        asynchronous: bool = True,
        prefix: str = "checkpoint_",
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ArgumentError(
                f"CheckpointManager: max_to_keep must be 1 or more, or None, got {max_to_keep}."
            )
        if keep_best and best_fn is None:
            raise ArgumentError(
                "CheckpointManager: keep_best needs best_fn, which tells what is best. Pass it."
            )
        if best_mode not in ("max", "min"):
            raise ArgumentError(f"CheckpointManager: best_mode: 'max' or 'min', got {best_mode!r}.")
        if save_interval_steps < 1:
            raise ArgumentError(
                f"CheckpointManager: save_interval_steps must be 1 or more, got "
                f"{save_interval_steps}."
            )
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._prefix = prefix
        self._keep, self._keep_best = max_to_keep, keep_best
        self._best_fn, self._sign = best_fn, 1.0 if best_mode == "max" else -1.0
        self._interval = save_interval_steps
        self._executor = ThreadPoolExecutor(1, "mgefn-checkpoint") if asynchronous else None
        self._pending: list[Future[None]] = []
        self._lock = threading.Lock()
        self._metrics: dict[int, Any] = {}
        for path in self.directory.glob(f".{prefix}*.part"):
            path.unlink(missing_ok=True)
        if best_fn is not None:
            for step in available_steps(self.directory, prefix):
                try:
                    self._metrics[step] = self._info(step).get("metrics")
                except FileFormatError:
                    continue  # damaged: it has no metrics, and is the first to go

    def _info(self, step: int) -> dict[str, Any]:
        return _read(_file(self.directory, self._prefix, step), None)[1] or {}

    def should_save(self, step: int) -> bool:
        """Is step a multiple of the interval, and later than all saved ones?"""
        return step % self._interval == 0 and step not in self._known()

    def save(
        self,
        step: int,
        items: Any,
        metrics: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> bool:
        """Write a checkpoint of the tree `items`, unless the interval leaves this step out.

        Args:
            step: an integer.
            items: a pytree.
            metrics: numbers by name; for best_fn, and kept in the file.
            force: write whatever the interval says.

        Returns:
            Whether it is written.

        Raises:
            Whatever the last write in the background raised.
        """
        step = _step("CheckpointManager.save", step)
        self._raise_finished()
        if not force and not self.should_save(step):
            return False
        numbers = None if metrics is None else {k: float(v) for k, v in metrics.items()}
        if self._best_fn is not None and numbers is None:
            raise ArgumentError("CheckpointManager.save: best_fn needs metrics. Pass them.")
        parts = pieces(items, {"step": step, "metrics": numbers}, "CheckpointManager.save")
        if self._executor is None:
            self._write(step, parts, numbers)
        else:
            # Copies, because the caller may donate the arrays before the thread gets to them.
            copied = [bytes(part) for part in parts]
            self._pending.append(self._executor.submit(self._write, step, copied, numbers))
        return True

    def _write(self, step: int, parts: list[Any], metrics: Any) -> None:
        write(_file(self.directory, self._prefix, step), parts)
        with self._lock:
            self._metrics[step] = metrics
            self._drop_old()

    def _drop_old(self) -> None:
        if self._keep is None:
            return
        steps = available_steps(self.directory, self._prefix)
        kept = {*steps[-self._keep :], *self._ranked(steps)[: self._keep_best]}
        for step in steps:
            if step not in kept:
                _file(self.directory, self._prefix, step).unlink(missing_ok=True)
                self._metrics.pop(step, None)

    def _ranked(self, steps: list[int]) -> list[int]:
        """Steps with metrics, the best first; of equals the earlier. nan is the worst."""
        if self._best_fn is None:
            return []
        scored = [
            (self._sign * float(self._best_fn(m)), step)
            for step in steps
            if (m := self._metrics.get(step)) is not None
        ]
        return [step for _, step in sorted(scored, key=lambda p: (p[0] != p[0], -p[0], p[1]))]

    def _known(self) -> list[int]:
        self.wait_until_finished()
        return available_steps(self.directory, self._prefix)

    def all_steps(self) -> list[int]:
        """The steps that can be restored, smallest first."""
        return self._known()

    def latest_step(self) -> int | None:
        """The largest step, or None."""
        steps = self._known()
        return steps[-1] if steps else None

    def best_step(self) -> int | None:
        """The step with the best metrics, or None."""
        ranked = self._ranked(self._known())
        return ranked[0] if ranked else None

    def metrics(self, step: int) -> dict[str, float] | None:
        """The metrics that a checkpoint was saved with."""
        if step not in self._known():
            raise ArgumentError(
                f"CheckpointManager.metrics: there is no step {step}, but {self._known()}."
            )
        return self._info(step).get("metrics")

    def restore(self, step: int | None = None, target: Any = None) -> Any:
        """Read a checkpoint: that of `step`, or the latest that is whole.

        Args:
            step: which.
            target: a tree of the same names, whose structure the result takes; returned as it is
                where step is None and nothing was saved.

        Raises:
            CheckpointNotFoundError, FileFormatError, TreeError: as restore_checkpoint. That nothing
                was saved `latest_step` tells without an error.
        """
        self.wait_until_finished()
        return restore_checkpoint(self.directory, target, step, self._prefix)

    def _raise_finished(self) -> None:
        done = [f for f in self._pending if f.done()]
        self._pending = [f for f in self._pending if not f.done()]
        for future in done:
            future.result()

    def wait_until_finished(self) -> None:
        """Return when all is written; raises what a write raised."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()

    def close(self) -> None:
        """Finish writing and end the thread."""
        try:
            self.wait_until_finished()
        finally:
            if self._executor is not None:
                self._executor.shutdown()
                self._executor = None

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
