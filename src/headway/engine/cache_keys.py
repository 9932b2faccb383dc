"""The cache's key of a request, and which requests may be cached. Pure.

A key is a hash over who is asked (the kind of API, the server's address, the model), where (the path) and what: the whole
body with its keys in order. Whether it is streamed is left out, because the answer is the same; the account is no part
of it, and no credential ever is.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

#: Changes with what a key is made of, so that no older answer is used for a newer request.
VERSION: Final = 1
#: 128 bits: among a billion requests, two share a key with a probability of 10^-20.
KEY_BYTES: Final = 16
#: Fields that change how an answer is delivered, not what it says.
_DELIVERY: Final = ("stream", "stream_options")
_EMBEDDINGS: Final = "/embeddings"
#: Endings of paths whose settings are in an object of the body, and its name (Gemini accepts both spellings).
_NESTED: Final = {
    ":generateContent": ("generationConfig", "generation_config"),
    "/converse": ("inferenceConfig",),
}

#: Which requests are cached: those that would get the same answer again, or all.
Mode = Literal["deterministic", "all"]


class ModelAddress(msgspec.Struct, frozen=True):
    """Where a request goes: the kind of API, the server's address and the model."""

    kind: str
    root: str
    model: str


class CacheUse(msgspec.Struct, frozen=True):
    """How a run uses the cache. `places` has each of the job's routes by its number in the store."""

    mode: Mode
    places: dict[int, ModelAddress]

    def basis(self) -> str:
        """What a job's keys depend on besides its requests."""
        places = sorted((number, *msgspec.structs.astuple(place)) for number, place in self.places.items())
        basis = msgspec.json.encode([VERSION, self.mode, places])
        return blake2b(basis, digest_size=KEY_BYTES).hexdigest()

    def key(self, route: int, path: str, body: bytes) -> bytes | None:
        """A request's key; None if it is not cached, or its route has no address."""
        if route not in self.places:
            return None
        fields = _decode(body)
        if self.mode == "deterministic" and not deterministic(path, fields):
            return None
        for name in _DELIVERY:
            fields.pop(name, None)
        identity = (VERSION, *msgspec.structs.astuple(self.places[route]), path, fields)
        return blake2b(_encode(identity), digest_size=KEY_BYTES).digest()


def deterministic(path: str, body: Mapping[str, Any]) -> bool:
    """Whether a request gets the same answer every time: temperature 0, a seed, or an embedding."""
    if path.endswith(_EMBEDDINGS):
        return True
    settings = _settings(path, body)
    temperature = settings.get("temperature")
    return settings.get("seed") is not None or (type(temperature) in (int, float) and temperature == 0)


def _settings(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a body that has the settings: the body itself, or an object in it."""
    for end, names in _NESTED.items():
        if path.endswith(end):
            settings: Any = next((body[name] for name in names if body.get(name) is not None), {})
            return settings if isinstance(settings, dict) else {}
    return body


_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode
