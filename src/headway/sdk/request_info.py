"""A request → its lane and its size. It only reads, and never refuses a request."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from headway.batch import input_size
from headway.core.model import NO_ESTIMATE, Estimate
from headway.providers.dialects.anthropic import AnthropicDialect
from headway.providers.dialects.openai import OpenAIDialect
from headway.providers.dialects.sse import Draft
from headway.providers.limits.profile import Profile
from headway.providers.limits.profiles import profile_for

#: For the names of lanes in this process. In a store they have the store's salt.
_SALT: Final = os.urandom(16)
ACCOUNT_DIGITS: Final = 10
#: Headers that identify the account. Projects of one organization have separate limits.
_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_CHOICE_HEADERS: Final = ("openai-organization", "openai-project")
_ACCOUNT_HEADERS: Final = ("authorization", *_KEY_HEADERS, *_CHOICE_HEADERS)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
#: Google and AWS name the model in the path.
_MODEL: Final = re.compile(r"/models?/([^/:]+)")
_OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class Url(Protocol):
    """The parts of a URL that are read here."""

    @property
    def scheme(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> bytes: ...


class HttpRequest(Protocol):
    """The parts of a request that are read here; httpx and httpx2 agree on them."""

    @property
    def method(self) -> str: ...
    @property
    def url(self) -> Any: ...
    @property
    def headers(self) -> Any: ...
    @property
    def content(self) -> bytes: ...


LaneOf = Callable[[Any], str]


class KnownEndpoint(Protocol):
    """An endpoint whose responses are understood."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> type[Any]: ...
    def draft(self, request: bytes) -> Draft | None: ...


class RequestInfo(msgspec.Struct, frozen=True):
    """What is known about a request before it is sent."""

    lane: str
    host: str
    model: str
    profile: Profile
    #: None where the format of the response is unknown.
    endpoint: KnownEndpoint | None
    body: bytes
    #: Its size, as arguments of the scheduler's unit.
    unit: dict[str, Any]
    #: The key of its lane in a store, by the store's salt; None: the program has named the lane.
    stored_key: Callable[[bytes], str] | None = None


def read_request(request: HttpRequest, body: bytes, lane_of: LaneOf | None = None) -> RequestInfo:
    """Describe a request. `body` is its content if that is JSON, otherwise empty."""
    url = request.url
    fields = _object(body)
    path = str(url.path)
    route = _known_route(path, fields) if request.method == "POST" else None
    host = _host(url)
    model = _model(fields, path)
    profile = profile_for(host, route.kind) if route is not None else profile_for(host)
    stored_key: Callable[[bytes], str] | None = None
    if lane_of is not None:
        lane = lane_of(request)
    else:
        kind = profile.name if route is None else route.kind
        lane = f"{kind}|{host}|{_account(request)}|{model}"
        stored_key = lambda salt: f"{kind}|{host}|{_stored_account(request, salt)}|{model}"  # noqa: E731 - repr shows no key
    endpoint, unit = (None, {}) if route is None else (route.endpoint, _size(fields, route))
    return RequestInfo(lane, host, model, profile, endpoint, body, unit, stored_key)


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether the content type is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body) if body else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _known_route(path: str, fields: Mapping[str, Any]) -> _KnownRoute | None:
    """The known route of a path, if the request has the field that the route needs."""
    path = path.rstrip("/")
    return next((route for route in _ROUTES if path.endswith(route.end) and route.key in fields), None)


def _host(url: Url) -> str:
    name = f"[{url.host}]" if ":" in url.host else url.host
    return name if url.port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{name}:{url.port}"


def _account(request: HttpRequest) -> str:
    """A keyed hash of the credentials, so that a lane's name does not reveal a key."""
    values = [request.headers.get(name, "") for name in _ACCOUNT_HEADERS]
    credentials = "\n".join(
        [*values, *re.findall(r"(?:^|&)key=([^&]*)", request.url.query.decode("ascii", "replace"))]
    )
    return blake2b(credentials.encode(), key=_SALT).hexdigest()[:ACCOUNT_DIGITS]


def _stored_account(request: HttpRequest, salt: bytes) -> str:
    """The account as in the lane keys of jobs (`config.lane_key`): a hash of the key alone, unless a header chooses among accounts."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    keys = [token if scheme.lower() == "bearer" else scheme + token]
    keys += [request.headers.get(name, "") for name in _KEY_HEADERS]
    keys += re.findall(r"(?:^|&)key=([^&]*)", request.url.query.decode("ascii", "replace"))
    choice = [request.headers.get(name, "") for name in _CHOICE_HEADERS]
    credential = "\n".join([*filter(None, keys), *(choice if any(choice) else ())])
    return blake2b(credential.encode(), key=salt).hexdigest()[:ACCOUNT_DIGITS]


def _model(fields: Mapping[str, Any], path: str) -> str:
    model = fields.get("model")
    if isinstance(model, str):
        return model
    named = _MODEL.search(path)
    return "" if named is None else named[1]


# -- size ---------------------------------------------------------------------------------------------------------


def _prompt(fields: Mapping[str, Any]) -> int:
    """Characters in the prompt of the older completions API: a text, several, or tokens."""
    return input_size.of_embedding({"input": fields["prompt"]})


class _KnownRoute(msgspec.Struct, frozen=True):
    """The end of a path, the field that its requests must have, and how their input is counted."""

    end: str
    key: str
    kind: str
    endpoint: KnownEndpoint
    chars: Callable[[Mapping[str, Any]], int]


def _routes() -> tuple[_KnownRoute, ...]:
    openai, anthropic = OpenAIDialect(), AnthropicDialect()
    rows = (
        (openai, "/chat/completions", "messages", input_size.of_chat),
        (openai, "/completions", "prompt", _prompt),
        (openai, "/responses", "input", input_size.of_response),
        (openai, "/embeddings", "input", input_size.of_embedding),
        (anthropic, "/messages", "messages", input_size.of_chat),
    )
    return tuple(
        _KnownRoute(end, key, dialect.kind, dialect.endpoint(end), count) for dialect, end, key, count in rows
    )


_ROUTES: Final = _routes()


def _size(fields: dict[str, Any], route: _KnownRoute) -> dict[str, Any]:
    """Characters of the input and the limit of the output. The lane estimates tokens from them, as for a batch."""
    try:
        length = route.chars(fields)
    except (AttributeError, KeyError, TypeError, ValueError):  # An unknown format: the provider decides.
        length = len(msgspec.json.encode(fields))
    max_output = _max_output(fields)
    return {
        "chars": max(1, length),
        "estimate": Estimate(max_output_tokens=max_output) if max_output else NO_ESTIMATE,
    }


def _max_output(fields: Mapping[str, Any]) -> float:
    """The limit of the output, times the number of answers requested."""
    n = fields.get("n")
    answers = n if type(n) is int and n > 0 else 1
    limits = (fields.get(name) for name in _OUTPUT_LIMITS)
    return next((float(limit * answers) for limit in limits if type(limit) is int and limit > 0), 0.0)
