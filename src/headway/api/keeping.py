"""Values on record: JSON, and bytes where a value has them.

JSON says texts, numbers, lists and dictionaries as they are. A tuple comes back as a list and a dataclass as a dictionary, on
the first run as on every later one; `returns=` names a type to read them as. Bytes stand as base64 in JSON: a value that
has some is wrapped with the paths to them, so that it comes back with bytes in it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headway.providers.secrecy import OPEN, Scrubber

#: How a wrapped value begins. One that begins so by itself is wrapped too.
_MARK: Final = b'{"$bytes":'
_BYTES: Final = (bytes, bytearray, memoryview)

Path = tuple[str | int, ...]


class _Wrapped(msgspec.Struct, frozen=True):
    """A value, and where in it bytes are."""

    paths: list[Path] = msgspec.field(name="$bytes")
    value: Any


_unwrapped: Final = msgspec.json.Decoder(_Wrapped).decode


class Keeping:
    """Values of one type."""

    def __init__(
        self, returns: Any = Any, otherwise: Callable[[Any], Any] | None = None, scrub: Scrubber = OPEN
    ) -> None:
        """`otherwise` makes something else of what JSON cannot say. `scrub` blots secrets out of what is kept."""
        self._scrub = scrub
        self._returns = returns
        self._decode = msgspec.json.Decoder(returns).decode
        self._encode = msgspec.json.Encoder(enc_hook=otherwise).encode
        self._otherwise = otherwise

    def kept(self, value: Any) -> tuple[bytes, Any, bool]:
        """As it goes on record, as a later run will see it, and whether a secret was blotted out of it."""
        said = self._encode(value)
        if not said.startswith(_MARK):
            seen = self._decode(said)
            if _same(seen, value):
                blotted = self._scrub.body(said)
                return (said, seen, False) if blotted is said else (blotted, self.found(blotted), True)
        clean = True
        try:
            plain = msgspec.to_builtins(value, builtin_types=_BYTES, str_keys=True, enc_hook=self._otherwise)
        except TypeError:  # Keys that JSON has only by `otherwise`: no bytes are looked for.
            pass
        else:
            paths = list(_paths(plain))
            if paths or said.startswith(_MARK):
                scrubbed = _each_bytes(plain, self._scrub.body) if paths else plain
                clean = scrubbed == plain
                said = self._encode(_Wrapped(paths, scrubbed))
        blotted = self._scrub.body(said)
        return blotted, self.found(blotted), not (clean and blotted is said)

    def found(self, said: bytes) -> Any:
        """What is on record, as a value."""
        if not said.startswith(_MARK):
            return self._decode(said)
        value = with_bytes(said)
        return value if self._returns is Any else msgspec.convert(value, self._returns)


def with_bytes(said: bytes) -> Any:
    """A wrapped value without its wrapping."""
    wrapped = _unwrapped(said)
    holder = [wrapped.value]
    for path in wrapped.paths:
        at: Any = holder
        *way, last = (0, *path)
        for step in way:
            at = at[step]
        at[last] = b64decode(at[last])
    return holder[0]


def _each_bytes(plain: Any, change: Callable[[bytes], bytes]) -> Any:
    """With every piece of bytes changed: as base64 no secret would be found in it."""
    if isinstance(plain, _BYTES):
        return change(bytes(plain))
    if isinstance(plain, dict):
        return {key: _each_bytes(value, change) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [_each_bytes(value, change) for value in plain]
    return plain


def _same(seen: Any, value: Any) -> bool:
    try:
        return bool(seen == value)
    except Exception:  # A class may think of == what it wants.
        return False


def _paths(plain: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(plain, _BYTES):
        yield path
    elif isinstance(plain, dict):
        for key, value in plain.items():
            yield from _paths(value, (*path, key))
    elif isinstance(plain, list | tuple | set | frozenset):
        for index, value in enumerate(plain):
            yield from _paths(value, (*path, index))
