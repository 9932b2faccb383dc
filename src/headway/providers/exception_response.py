"""What an exception carries of an HTTP answer, whoever raised it: status, headers, body, address.

Read by attribute, never by type, so that no client and no SDK is imported. Attributes of strangers may raise, and
their responses may be false (requests' are, for a 429): nothing is asked for its truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.core.model import Kind
from headway.core.retry import HOPELESS, LANE_STOPPERS
from headway.providers.exceptions import attribute, text_of
from headway.providers.seen import NO_HEADERS, Seen

#: Exceptions that are looked at behind the one that was raised: chains and groups are short.
MOST_LINKS: Final = 64

#: Whose kind of API a package speaks, where the address says nothing (a gateway, a server of one's own).
_SPEAKS: Final = {"openai": "openai", "anthropic": "anthropic", "google": "gemini", "botocore": "bedrock"}

#: What went wrong on the way, by the names that packages give it; a class counts as all that it derives from.
_FAULTS: Final[dict[str, dict[str, Kind]]] = {
    "": {
        "APITimeoutError": Kind.TIMEOUT,
        "APIConnectionError": Kind.TRANSIENT,
    },  # Every SDK of the same make.
    "httpx": {
        "TimeoutException": Kind.TIMEOUT,
        "NetworkError": Kind.TRANSIENT,
        "ProxyError": Kind.TRANSIENT,
        "RemoteProtocolError": Kind.TRANSIENT,
        "DecodingError": Kind.TRANSIENT,
    },
    "aiohttp": {
        "ServerTimeoutError": Kind.TIMEOUT,
        "ClientConnectionError": Kind.TRANSIENT,
        "ClientPayloadError": Kind.TRANSIENT,
    },
    "requests": {
        "Timeout": Kind.TIMEOUT,
        "ConnectionError": Kind.TRANSIENT,
        "ChunkedEncodingError": Kind.TRANSIENT,
        "ContentDecodingError": Kind.TRANSIENT,
    },
    "urllib3": {"TimeoutError": Kind.TIMEOUT, "ProtocolError": Kind.TRANSIENT},
    "botocore": {
        "ReadTimeoutError": Kind.TIMEOUT,
        "ConnectTimeoutError": Kind.TIMEOUT,
        "ConnectionError": Kind.TRANSIENT,
        "HTTPClientError": Kind.TRANSIENT,
        "IncompleteReadError": Kind.TRANSIENT,
    },
}
_FAULTS["httpx2"] = _FAULTS["httpcore"] = _FAULTS["httpcore2"] = _FAULTS["httpx"]


class Link(msgspec.Struct, frozen=True):
    """An exception on the way to the root of the trouble. `beside`: it was being handled when another was raised."""

    error: BaseException
    beside: bool = False

    def counts(self, kind: Kind) -> bool:
        """Whether what it says may be taken for the whole.

        A fault in somebody's `except` block is a fault of its own: what it was handling may be worth another try, but
        it stops no lane.
        """
        return not (self.beside and (kind in LANE_STOPPERS or kind in HOPELESS))


def links(error: BaseException) -> Iterator[Link]:
    """The exception, then what it groups, what it was raised from, and what was being handled then."""
    waiting = [Link(error)]
    met: set[int] = set()
    while waiting and len(met) < MOST_LINKS:
        link = waiting.pop(0)
        error = link.error
        if id(error) in met:
            continue
        met.add(id(error))
        yield link
        if isinstance(error, BaseExceptionGroup):
            waiting += (Link(each, link.beside) for each in error.exceptions)
        if error.__cause__ is not None:
            waiting.append(Link(error.__cause__, link.beside))
        elif error.__context__ is not None and not error.__suppress_context__:
            waiting.append(Link(error.__context__, beside=True))


def fault_of(error: BaseException) -> Kind | None:
    """What kind of trouble on the way an exception stands for, by its class and what that derives from."""
    for each in type(error).__mro__:
        package = each.__module__.partition(".")[0]
        kind = _FAULTS[""].get(each.__name__) or _FAULTS.get(package, {}).get(each.__name__)
        if kind is not None:
            return kind
    return None


def seen_in(error: BaseException) -> tuple[Seen, tuple[str, ...]] | None:
    """What it carries of an answer, and by what names its provider may be known; None where it carries nothing."""
    response = attribute(error, "response")
    if isinstance(response, Mapping):  # botocore
        return _of_aws(error, response)
    status = _status(error, response)
    body = _body(error, response)
    if status is None and body is None:
        return None
    headers = _headers(attribute(response, "headers")) or _headers(attribute(error, "headers"))
    return Seen(status, headers, body, text_of(error), "exception"), (
        *_addresses(error, response),
        speaks(error),
    )


def speaks(error: BaseException) -> str:
    """The API that the exception's package is made for; "" where it is made for none."""
    return _SPEAKS.get(type(error).__module__.partition(".")[0], "")


def _status(error: BaseException, response: Any) -> int | None:
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
    ):
        status = attribute(holder, name)
        if type(status) is int and 100 <= status < 600:
            return status
    # `code` may count anything, unless something beside it shows that it is HTTP's (google-genai, urllib).
    code = attribute(error, "code")
    if (
        isinstance(code, int)
        and 400 <= code < 600
        and any(attribute(error, name) is not None for name in _COMPANY)
    ):
        return int(code)
    return None


_COMPANY: Final = ("response", "headers", "details", "errors")


def _headers(headers: Any) -> Mapping[str, str]:
    try:
        return {str(name): value for name, value in headers.items() if isinstance(value, str)}
    except BaseException:
        return NO_HEADERS


def _body(error: BaseException, response: Any) -> bytes | str | None:
    """The body as it came, if it was read; otherwise what the exception made of it."""
    content = attribute(response, "content")
    if isinstance(content, bytes) and content:
        return content
    for name in ("body", "details"):
        body = attribute(error, name)
        if isinstance(body, bytes | str) and body:
            return body
        if isinstance(body, Mapping | list) and body:
            return _json({"error": body} if name == "body" and "error" not in body else body)
    return None


def _json(value: Any) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except BaseException:
        return None


def _addresses(error: BaseException, response: Any) -> tuple[str, ...]:
    """Where the request went, as far as anybody knows."""
    places: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (response, lambda it: it.url),
        (error, lambda it: it.request.url),
        (error, lambda it: it.request_info.real_url),
    )
    return tuple(str(url) for holder, read in places if (url := _got(holder, read)) is not None)


def _got(holder: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(holder)
    except BaseException:
        return None


def _of_aws(error: BaseException, response: Mapping[str, Any]) -> tuple[Seen, tuple[str, ...]] | None:
    """botocore's: a dict with the parsed error and what is left of the answer."""
    said, about = response.get("Error"), response.get("ResponseMetadata")
    if not isinstance(said, Mapping):
        return None
    about = about if isinstance(about, Mapping) else {}
    status = about.get("HTTPStatusCode")
    body = _json({"code": said.get("Code"), "message": said.get("Message")})
    headers = _headers(about.get("HTTPHeaders"))
    told = Seen(status if type(status) is int else None, headers, body, text_of(error), "exception")
    return told, (speaks(error) or "bedrock",)
