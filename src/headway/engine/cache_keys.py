"""Which requests are the same, and which would be answered the same again. Pure.

A key is a hash over who is asked (the kind of API, the server's address, the model), where (the path) and what: the whole
body with its keys in order. Whether it is streamed is left out, because the answer is the same; the account is no part
of it, and no credential ever is.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

#: Changes with what a key is made of, so that no older answer is taken for a newer question.
VERSION: Final = 1
#: 128 bits: among a billion requests two are mistaken for each other once in 10^20 times.
KEY_BYTES: Final = 16
#: How an answer is carried, not what it says.
_CARRIAGE: Final = ("stream", "stream_options")
_EMBEDDINGS: Final = "/embeddings"
#: How the paths end whose settings stand in an object, and what it is called (Gemini takes both ways of writing it).
_NESTED: Final = {
    ":generateContent": ("generationConfig", "generation_config"),
    "/converse": ("inferenceConfig",),
}

#: Which requests the cache takes: those that would be answered the same again, or every one.
Mode = Literal["deterministic", "all"]


class ModelAddress(msgspec.Struct, frozen=True):
    """Who is asked: the kind of API, the server's address and the model."""

    kind: str
    root: str
    model: str


class CacheUse(msgspec.Struct, frozen=True):
    """How a run uses the cache. `places` has each of the job's routes by its number in the store."""

    mode: Mode
    places: dict[int, ModelAddress]

    def basis(self) -> str:
        """What a job's keys depend on beside its requests."""
        places = sorted((number, *msgspec.structs.astuple(place)) for number, place in self.places.items())
        said = msgspec.json.encode([VERSION, self.mode, places])
        return blake2b(said, digest_size=KEY_BYTES).hexdigest()

    def key(self, route: int, path: str, body: bytes) -> bytes | None:
        """A request's key; None where the cache is not to have it, or nobody knows what answers it."""
        if route not in self.places:
            return None
        fields = _decode(body)
        if self.mode == "deterministic" and not deterministic(path, fields):
            return None
        for name in _CARRIAGE:
            fields.pop(name, None)
        asked = (VERSION, *msgspec.structs.astuple(self.places[route]), path, fields)
        return blake2b(_encode(asked), digest_size=KEY_BYTES).digest()


def deterministic(path: str, body: Mapping[str, Any]) -> bool:
    """Whether a request asks for the same answer every time: temperature 0, a seed, or nothing that is made up."""
    if path.endswith(_EMBEDDINGS):
        return True
    settings = _settings(path, body)
    temperature = settings.get("temperature")
    return settings.get("seed") is not None or (type(temperature) in (int, float) and temperature == 0)


def _settings(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a body has its settings: at its top, or in an object of their own."""
    for end, names in _NESTED.items():
        if path.endswith(end):
            found: Any = next((body[name] for name in names if body.get(name) is not None), {})
            return found if isinstance(found, dict) else {}
    return body


_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode
