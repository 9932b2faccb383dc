"""JSON round trip for stored values, including bytes, NaN and the infinities, which JSON does not have.

A tuple comes back as a list and a dataclass as a dictionary, on the first run as on every later one; `returns=` names a
type to read them as. Bytes are stored as base64, NaN and the infinities as texts (see `json_floats`). A value that
contains any of them is wrapped together with the paths to them, so that they come back unchanged.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headway.executors.json_floats import is_no_json_float, json_floats
from headway.providers.secrecy import OPEN, Scrubber

#: How a wrapped value begins. One that begins so by itself is wrapped too.
_MARK: Final = b'{"$bytes":'
_BYTES: Final = (bytes, bytearray, memoryview)

Path = tuple[str | int, ...]


class _Wrapped(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value, and where in it bytes and floats are. The bytes come first, and are always there: see `_MARK`."""

    paths: list[Path] = msgspec.field(name="$bytes")
    value: Any
    floats: list[Path] = msgspec.field(name="$floats", default_factory=list)


_unwrapped: Final = msgspec.json.Decoder(_Wrapped).decode


class ValueCodec:
    """JSON round trip for values of one type."""

    def __init__(
        self, returns: Any = Any, otherwise: Callable[[Any], Any] | None = None, scrub: Scrubber = OPEN
    ) -> None:
        """`otherwise` converts what JSON cannot hold. `scrub` removes secrets from what is stored."""
        self._scrub = scrub
        self._returns = returns
        self._decode = msgspec.json.Decoder(returns).decode
        self._encode = msgspec.json.Encoder(enc_hook=otherwise).encode
        self._otherwise = otherwise

    def encode(self, value: Any) -> tuple[bytes, Any, bool]:
        """The stored bytes, the value as a later run reads it, and whether a secret was removed."""
        said = self._encode(value)
        if not said.startswith(_MARK):
            try:
                seen = self._decode(said)
                if _same(seen, value):
                    blotted = self._scrub.body(said)
                    return (said, seen, False) if blotted is said else (blotted, self.decode(blotted), True)
            except msgspec.ValidationError:
                if b"null" not in said:
                    raise  # Otherwise it may be a float that JSON has not.
        clean = True
        try:
            plain = msgspec.to_builtins(value, builtin_types=_BYTES, str_keys=True, enc_hook=self._otherwise)
        except TypeError:  # Keys that JSON has only by `otherwise`: nothing is looked for.
            pass
        else:
            odd = list(_odd(plain))
            if odd or said.startswith(_MARK):
                said, clean = self._wrapped(plain, odd)
        blotted = self._scrub.body(said)
        return blotted, self.decode(blotted), not (clean and blotted is said)

    def _wrapped(self, plain: Any, odd: list[tuple[Path, Any]]) -> tuple[bytes, bool]:
        """A value with what JSON has not, and whether its bytes had no secrets."""
        floats = [path for path, value in odd if isinstance(value, float)]
        bytes_ = [path for path, value in odd if not isinstance(value, float)]
        if floats:
            plain = json_floats(plain)
        scrubbed = _each_bytes(plain, self._scrub.body) if bytes_ else plain
        return self._encode(_Wrapped(bytes_, scrubbed, floats)), scrubbed == plain

    def decode(self, said: bytes) -> Any:
        """The value of stored bytes."""
        if not said.startswith(_MARK):
            return self._decode(said)
        value = unwrapped(said)
        return value if self._returns is Any else msgspec.convert(value, self._returns, str_keys=True)


def unwrapped(said: bytes) -> Any:
    """A wrapped value without its wrapping."""
    wrapped = _unwrapped(said)
    holder = [wrapped.value]
    for paths, read in ((wrapped.paths, b64decode), (wrapped.floats, float)):
        for path in paths:
            at: Any = holder
            *way, last = (0, *path)
            for step in way:
                at = at[step]
            at[last] = read(at[last])
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


def _odd(plain: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Bytes and floats that JSON has not, and where they are."""
    if isinstance(plain, _BYTES) or is_no_json_float(plain):
        yield path, plain
    elif isinstance(plain, dict):
        for key, value in plain.items():
            yield from _odd(value, (*path, key))
    elif isinstance(plain, list | tuple | set | frozenset):
        for index, value in enumerate(plain):
            yield from _odd(value, (*path, index))
