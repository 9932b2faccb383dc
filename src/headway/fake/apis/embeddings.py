"""OpenAI's embeddings: vectors of length 1, the same for the same text."""

from __future__ import annotations

import base64
import math
from array import array
from hashlib import shake_128
from typing import Annotated, Literal

import msgspec

from headway.fake.apis.api_request import CHARS_PER_TOKEN, ApiRequest, InvalidRequest, tokens_of
from headway.fake.apis.error_dialects import OPENAI
from headway.fake.apis.message_content import RequestMetadata, openai_parse_error, request_reader, unit_name
from headway.fake.apis.reply import ModelReply, StreamEvent

DIMENSIONS = 1536  # those of text-embedding-3-small


class _EmbeddingsRequest(msgspec.Struct, gc=False):
    model: str
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    metadata: RequestMetadata | None = None
    user: str | None = None

    @property
    def inputs(self) -> list[str | list[int]]:
        """One entry for each vector. A list of numbers is one text as tokens."""
        if isinstance(self.input, str):
            return [self.input]
        numbers = [part for part in self.input if isinstance(part, int)]
        if numbers:
            return [numbers]
        return [part for part in self.input if not isinstance(part, int)]


class Embeddings:
    """`POST /v1/embeddings`"""

    dialect = OPENAI

    def __init__(self) -> None:
        self._read = request_reader(_EmbeddingsRequest, openai_parse_error)
        self._encode = msgspec.json.Encoder().encode

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest. There is no output, so none is reserved."""
        request = self._read(body)
        if not request.input:
            raise InvalidRequest("'$.input' is invalid. Please check the API reference.", None)
        chars = sum(
            len(part) if isinstance(part, str) else len(part) * CHARS_PER_TOKEN for part in request.inputs
        )
        unit = unit_name(request.metadata, request.user)
        return ApiRequest(request.model, chars, "", max_tokens=0, unit=unit, choices=0, extra=request)

    def body(self, request: ApiRequest, _reply: ModelReply) -> bytes:
        """One vector for each text."""
        parsed = request.extra
        assert isinstance(parsed, _EmbeddingsRequest)
        vectors = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _encoded(vector_of(part, parsed.dimensions or DIMENSIONS), parsed),
            }
            for index, part in enumerate(parsed.inputs)
        ]
        input_tokens = tokens_of(request.chars)
        usage = {"prompt_tokens": input_tokens, "total_tokens": input_tokens}
        return self._encode({"object": "list", "data": vectors, "model": request.model, "usage": usage})

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """Embeddings are never streamed."""
        return [StreamEvent(self.body(request, reply))]


def vector_of(part: str | list[int], dimensions: int) -> array[float]:
    """The vector of a text: a hash of as many numbers, scaled to length 1."""
    seed = part.encode() if isinstance(part, str) else repr(part).encode()
    numbers = array("h")
    numbers.frombytes(shake_128(seed).digest(2 * dimensions))
    scale = 1.0 / (math.sqrt(math.fsum(number * number for number in numbers)) or 1.0)
    return array("f", [number * scale for number in numbers])


def _encoded(vector: array[float], request: _EmbeddingsRequest) -> list[float] | str:
    if request.encoding_format == "base64":
        return base64.b64encode(vector.tobytes()).decode()
    return vector.tolist()
