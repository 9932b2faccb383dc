"""JSON round trip for stored values, including bytes, NaN, the infinities and broken texts, which JSON does not have.

A tuple comes back as a list, a dataclass and a Pydantic model as a dictionary, on the first run as on every later one;
`returns=` names a type to read them as. Bytes are stored as base64, NaN and the infinities as texts (see `executors.json_values`),
halves of surrogate pairs in a text as `\\ud800`. A value that contains any of them is wrapped together with the paths to
them, so that they come back unchanged. Only in the key of a dictionary such a half stays written out.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headway.executors.json_values import dump_model, is_non_finite, load_model, non_finite_as_text
from headway.providers.scrubber import NO_SECRETS, Scrubber
from headway.safe_text import escape_lone_surrogates, has_lone_surrogate

#: How a wrapped value begins. One that begins so by itself is wrapped too.
_MARK: Final = b'{"$bytes":'
_BYTES: Final = (bytes, bytearray, memoryview)

_ESCAPES: Final = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")

Path = tuple[str | int, ...]


class _Wrapped(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value, and where in it bytes, floats and texts are. The bytes come first, and are always there: see `_MARK`."""

    paths: list[Path] = msgspec.field(name="$bytes")
    value: Any
    floats: list[Path] = msgspec.field(name="$floats", default_factory=list)
    texts: list[Path] = msgspec.field(name="$texts", default_factory=list)


_unwrapped: Final = msgspec.json.Decoder(_Wrapped).decode


class ValueCodec:
    """JSON round trip for values of one type."""

    def __init__(
        self, returns: Any = Any, otherwise: Callable[[Any], Any] | None = None, scrub: Scrubber = NO_SECRETS
    ) -> None:
        """`otherwise` converts what JSON cannot hold. `scrub` removes secrets from what is stored."""
        self._scrub = scrub
        self._returns, self._otherwise = returns, otherwise
        self._is_typed = returns is not Any and otherwise is None
        self._decode = msgspec.json.Decoder(returns, dec_hook=load_model).decode
        self._encode = msgspec.json.Encoder(enc_hook=self._as_json).encode

    def _as_json(self, value: Any) -> Any:
        """What JSON can say instead of an object."""
        try:
            return dump_model(value, round_trip=self._is_typed)
        except TypeError:
            if self._otherwise is None:
                raise
            return self._otherwise(value)

    def encode(self, value: Any) -> tuple[bytes, Any, bool]:
        """The stored bytes, the value as a later run reads it, and whether a secret was removed."""
        try:
            said = self._encode(value)
        except UnicodeEncodeError:  # Half of a surrogate pair.
            return self._encode_by_parts(value, None)
        if not said.startswith(_MARK):
            try:
                seen = self._decode(said)
                if _same(seen, value):
                    blotted = self._scrub.body(said)
                    return (said, seen, False) if blotted is said else (blotted, self.decode(blotted), True)
            except msgspec.ValidationError:
                if b"null" not in said:
                    raise  # Otherwise it may be a float that JSON has not.
        return self._encode_by_parts(value, said)

    def _encode_by_parts(self, value: Any, said: bytes | None) -> tuple[bytes, Any, bool]:
        """The same for a value that may have what JSON has not. `said` is the value as plain JSON, where there is any."""
        clean = True
        try:
            plain = msgspec.to_builtins(value, builtin_types=_BYTES, str_keys=True, enc_hook=self._as_json)
        except TypeError:  # Keys that JSON has only by `otherwise`: nothing is looked for.
            if said is None:
                raise
        else:
            odd = list(_odd(plain))
            if odd or said is None or said.startswith(_MARK):
                said, clean = self._wrapped(plain, odd)
        blotted = self._scrub.body(said)
        return blotted, self.decode(blotted), not (clean and blotted is said)

    def _wrapped(self, plain: Any, odd: list[tuple[Path, Any]]) -> tuple[bytes, bool]:
        """A value with what JSON has not, and whether its bytes had no secrets."""
        floats = [path for path, value in odd if isinstance(value, float)]
        texts = [path for path, value in odd if isinstance(value, str)]
        bytes_ = [path for path, value in odd if isinstance(value, _BYTES)]
        if floats:
            plain = non_finite_as_text(plain)
        scrubbed = _each_bytes(plain, self._scrub.body) if bytes_ else plain
        clean = scrubbed == plain
        return self._encode(_Wrapped(bytes_, _without_halves(scrubbed), floats, texts)), clean

    def decode(self, said: bytes) -> Any:
        """The value of stored bytes."""
        if not said.startswith(_MARK):
            return self._decode(said)
        value = unwrapped(said)
        return (
            value
            if self._returns is Any
            else msgspec.convert(value, self._returns, str_keys=True, dec_hook=load_model)
        )


def unwrapped(said: bytes) -> Any:
    """A wrapped value without its wrapping."""
    wrapped = _unwrapped(said)
    holder = [wrapped.value]
    for paths, read in ((wrapped.paths, b64decode), (wrapped.floats, float), (wrapped.texts, _read_text)):
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


def _without_halves(plain: Any) -> Any:
    """With halves of surrogate pairs written out, in keys too."""
    if isinstance(plain, str):
        return _written_text(plain) if has_lone_surrogate(plain) else plain
    if isinstance(plain, dict):
        return {_key(key): _without_halves(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [_without_halves(value) for value in plain]
    return plain


def _written_text(text: str) -> str:
    """Without halves of surrogate pairs, so that `_read_text` has the same again."""
    return escape_lone_surrogates(text.replace("\\", r"\\"))


def _read_text(text: str) -> str:
    return _ESCAPES.sub(lambda found: "\\" if found[1] is None else chr(int(found[1], 16)), text)


def _key(key: Any) -> Any:
    return escape_lone_surrogates(key) if isinstance(key, str) else key


def _same(seen: Any, value: Any) -> bool:
    try:
        return bool(seen == value)
    except Exception:  # A class may think of == what it wants.
        return False


def _odd(plain: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Bytes, floats and texts that JSON has not, and where they are."""
    if (
        isinstance(plain, _BYTES)
        or is_non_finite(plain)
        or (isinstance(plain, str) and has_lone_surrogate(plain))
    ):
        yield path, plain
    elif isinstance(plain, dict):
        for key, value in plain.items():
            yield from _odd(value, (*path, _key(key)))
    elif isinstance(plain, list | tuple | set | frozenset):
        for index, value in enumerate(plain):
            yield from _odd(value, (*path, index))
