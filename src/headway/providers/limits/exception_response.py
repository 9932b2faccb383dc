"""The HTTP response that an exception carries: status, headers, body, address.

Read by attribute, never by type, so that no client and no SDK is imported. Attributes may raise, and responses may be
false (those of requests are, for a 429), so nothing is tested for truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.core.model import Kind
from headway.core.retry import HOPELESS, LANE_STOPPERS
from headway.providers.limits.error_texts import attribute, qualified_text
from headway.providers.limits.hints import NO_HEADERS, RawResponse

#: Exceptions of a chain that are read: chains and groups are short.
MAX_LINKS: Final = 64

#: The API of a package, used where the address is unknown (a gateway, a private server).
_API_OF_PACKAGE: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "gemini",
    "botocore": "bedrock",
}

#: Network errors by package and class name. Base classes count, too.
_FAULTS: Final[dict[str, dict[str, Kind]]] = {
    "": {
        "APITimeoutError": Kind.TIMEOUT,
        "APIConnectionError": Kind.TRANSIENT,
    },  # SDKs that Stainless generates: OpenAI's, Anthropic's.
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


class ExceptionLink(msgspec.Struct, frozen=True):
    """One exception of a chain. `in_context`: it was being handled when another one was raised."""

    error: BaseException
    in_context: bool = False

    def decides(self, kind: Kind) -> bool:
        """Whether its kind may stand for the whole chain.

        An error in an `except` block is an error of its own. What was being handled may make a retry worthwhile, but
        does not stop the lane.
        """
        return not (self.in_context and (kind in LANE_STOPPERS or kind in HOPELESS))


def exception_chain(error: BaseException) -> Iterator[ExceptionLink]:
    """The exception, then the exceptions of its group, its cause, or its context."""
    waiting = [ExceptionLink(error)]
    visited: set[int] = set()
    while waiting and len(visited) < MAX_LINKS:
        link = waiting.pop(0)
        error = link.error
        if id(error) in visited:
            continue
        visited.add(id(error))
        yield link
        if isinstance(error, BaseExceptionGroup):
            waiting += (ExceptionLink(each, link.in_context) for each in error.exceptions)
        if error.__cause__ is not None:
            waiting.append(ExceptionLink(error.__cause__, link.in_context))
        elif error.__context__ is not None and not error.__suppress_context__:
            waiting.append(ExceptionLink(error.__context__, in_context=True))


def network_error_kind(error: BaseException) -> Kind | None:
    """The kind of network error, by the names of its classes."""
    for each in type(error).__mro__:
        package = each.__module__.partition(".")[0]
        kind = _FAULTS[""].get(each.__name__) or _FAULTS.get(package, {}).get(each.__name__)
        if kind is not None:
            return kind
    return None


def response_in(error: BaseException) -> tuple[RawResponse, tuple[str, ...]] | None:
    """The response that it carries, and names that may identify the provider; None if there is no response."""
    response = attribute(error, "response")
    if isinstance(response, Mapping):  # botocore
        return _from_botocore(error, response)
    status = _status(error, response)
    body = _body(error, response)
    if status is None and body is None:
        return None
    headers = _headers(attribute(response, "headers")) or _headers(attribute(error, "headers"))
    return RawResponse(status, headers, body, qualified_text(error), "exception"), (
        *_addresses(error, response),
        api_of_package(error),
    )


def api_of_package(error: BaseException) -> str:
    """The API that the exception's package is made for, or ""."""
    return _API_OF_PACKAGE.get(type(error).__module__.partition(".")[0], "")


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
    # `code` may mean anything, unless another attribute shows that it is HTTP's (google-genai, urllib).
    code = attribute(error, "code")
    if (
        isinstance(code, int)
        and 400 <= code < 600
        and any(attribute(error, name) is not None for name in _HTTP_ATTRIBUTES)
    ):
        return int(code)
    return None


_HTTP_ATTRIBUTES: Final = ("response", "headers", "details", "errors")


def _headers(headers: Any) -> Mapping[str, str]:
    try:
        return {str(name): value for name, value in headers.items() if isinstance(value, str)}
    except BaseException:
        return NO_HEADERS


def _body(error: BaseException, response: Any) -> bytes | str | None:
    """The body as received, if it was read; otherwise the parsed one."""
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
    """The URLs of the request, as far as they are known."""
    places: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (response, lambda it: it.url),
        (error, lambda it: it.request.url),
        (error, lambda it: it.request_info.real_url),
    )
    return tuple(str(url) for holder, read in places if (url := _read_or_none(holder, read)) is not None)


def _read_or_none(holder: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(holder)
    except BaseException:
        return None


def _from_botocore(
    error: BaseException, response: Mapping[str, Any]
) -> tuple[RawResponse, tuple[str, ...]] | None:
    """A response of botocore: a dict with the parsed error and some metadata."""
    error_fields, metadata = response.get("Error"), response.get("ResponseMetadata")
    if not isinstance(error_fields, Mapping):
        return None
    metadata = metadata if isinstance(metadata, Mapping) else {}
    status = metadata.get("HTTPStatusCode")
    body = _json({"code": error_fields.get("Code"), "message": error_fields.get("Message")})
    headers = _headers(metadata.get("HTTPHeaders"))
    raw = RawResponse(
        status if type(status) is int else None, headers, body, qualified_text(error), "exception"
    )
    return raw, (api_of_package(error) or "bedrock",)
