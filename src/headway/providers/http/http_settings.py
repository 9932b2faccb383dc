"""What all requests of an adapter share: the address and the key, headers, and what is known of each path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
from multidict import CIMultiDict
from yarl import URL

import headway
from headway.config.settings import MAX_ANSWER_BYTES
from headway.errors import ConfigError
from headway.providers.dialects.dialect import AnswerShape, ApiEndpoint
from headway.providers.scrubber import Secret

if TYPE_CHECKING:
    from headway.providers.dialects.bedrock import Sign

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class HttpSettings(msgspec.Struct, frozen=True):
    """The address and the key. `stream` None: stream where that reports limits earlier and is known to work."""

    base_url: str = ""
    key: Secret = Secret("")
    stream: bool | None = None
    #: Further headers, such as an organization's; they override the default ones.
    headers: Mapping[str, str] = NO_HEADERS
    #: The profile of its headers and errors, if neither its address nor its kind determines it.
    profile: str = ""
    region: str = ""
    #: The largest accepted answer in bytes; 0 is no ceiling.
    max_answer_bytes: int = MAX_ANSWER_BYTES
    #: Further secrets to remove from answers, besides the key: the keys of other providers.
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"HttpSettings(key={self.key!r}, stream={self.stream})"


class HttpRoute(msgspec.Struct):
    """What all requests to a path share."""

    url: URL
    stream_url: URL
    endpoint: ApiEndpoint
    decode: Callable[[bytes], AnswerShape]
    #: Whether requests are turned into streams: all of them, and those that want the text as it arrives.
    streams: bool
    may_stream: bool
    #: The head of a request, and of one for a stream.
    head: bytes
    stream_head: bytes


def signer_of(kind: str, key: str, region: str) -> tuple[Sign | None, list[str]]:
    """The signer of requests, if they are signed; and the secret parts of the key."""
    if kind != "bedrock":
        return None, [key]
    from headway.providers.dialects.bedrock import signer

    return signer(key, region)


def request_headers(own: Iterable[tuple[str, str]], further: Mapping[str, str]) -> dict[str, str]:
    """The headers of every request: the usual ones, those of the API, and those of the settings, which win."""
    headers = CIMultiDict(
        {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"headway/{headway.__version__}",
        }
    )
    for name, value in (*own, *further.items()):
        if not (name.isascii() and name.isprintable() and name and value.isprintable()):
            raise ConfigError(f"the header {name!r} has a name or value that cannot be sent")
        headers[name] = value
    return dict(headers)
