"""Named streams of random keys."""

from __future__ import annotations

import zlib
from typing import Any

from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.random import fold_in, split
from mgefn.random import key as make_key
from mgefn.random.keys import key_words


class _Stream:
    """The keys of one name, one after the other: fold_in(key, 0), fold_in(key, 1), ..."""

    def __init__(self, key: Any, count: int = 0) -> None:
        self.key, self.count = key, count

    def __call__(self) -> Array:
        self.count += 1
        return fold_in(self.key, self.count - 1)


class Rngs:
    """Keys by name, for code outside of jit that needs one after the other.

    `rngs.params()` gives the next key of the stream "params". A stream without a name comes from
    the default with its own folded in, so that streams do not depend on the order of their use.

    Args:
        default: a seed or a random key for streams that are not named.
        rngs: a seed or a random key for each stream that is.

    Raises:
        ArgumentError: a stream is asked for that has no key, and there is no default.

    Example:
        >>> rngs = mgefn.Rngs(0, dropout=1)
        >>> a, b = rngs.params(), rngs.params()
        >>> bool((mgefn.random.key_data(a) == mgefn.random.key_data(b)).all())
        False
    """

    def __init__(self, default: Any = None, **rngs: Any) -> None:
        self._streams = {
            name: _Stream(_key(name, value))
            for name, value in ({"default": default} | rngs).items()
            if value is not None
        }

    def _stream(self, name: str) -> _Stream:
        if name not in self._streams:
            if "default" not in self._streams:
                raise ArgumentError(
                    f"Rngs: has no stream {name!r} and no default, but {sorted(self._streams)}. "
                    "Pass a seed: Rngs(0)."
                )
            # crc32 and not hash, which differs between processes
            name_number = zlib.crc32(name.encode())
            self._streams[name] = _Stream(fold_in(self._streams["default"].key, name_number))
        return self._streams[name]

    def __getattr__(self, name: str) -> _Stream:
        if name.startswith("_"):
            raise AttributeError(f"Rngs has no attribute {name!r}")
        return self._stream(name)

    def __getitem__(self, name: str) -> _Stream:
        return self._stream(name)

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    def __call__(self) -> Array:
        """The next key of the default stream."""
        return self._stream("default")()

    def split(self, splits: int) -> Rngs:
        """Rngs whose streams give keys of shape (splits,), for a vmap over them.

        Each stream of this moves on by one key.
        """
        made = Rngs()
        made._streams = {n: _Split(s(), splits) for n, s in self._streams.items()}
        return made

    def fork(self) -> Rngs:
        """Rngs with streams of their own; each stream of this moves on by one key."""
        made = Rngs()
        made._streams = {n: _Stream(s()) for n, s in self._streams.items()}
        return made


class _Split(_Stream):
    def __init__(self, key: Any, splits: int) -> None:
        super().__init__(key)
        self.splits = splits

    def __call__(self) -> Array:
        return split(super().__call__(), self.splits)


def _key(name: str, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return make_key(value)
    key_words(f"Rngs({name})", value)
    return value


__all__ = ["Rngs"]
