"""A request on its way out → its lane and what it will take. Read from what is there; nothing is refused here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from headway.batch import chars
from headway.core.model import NO_ESTIMATE, Estimate
from headway.providers.anthropic import Anthropic
from headway.providers.openai import OpenAI
from headway.providers.profile import Profile
from headway.providers.profiles import profile_for
from headway.providers.sse import Draft

#: Nothing of a lane's name outlives the process, so its salt need not either.
_SALT: Final = os.urandom(16)
ACCOUNT_DIGITS: Final = 10
#: What says who asks: two projects of one organization have limits of their own.
_WHO: Final = (
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "openai-organization",
    "openai-project",
)
_USUAL: Final = {"http": 80, "https": 443}
#: Google and AWS name the model in the path.
_MODEL: Final = re.compile(r"/models?/([^/:]+)")
_MOST: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class Url(Protocol):
    """What is read of an address."""

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


class Request(Protocol):
    """What is read of a request: httpx's and httpx2's look alike."""

    @property
    def method(self) -> str: ...
    @property
    def url(self) -> Any: ...
    @property
    def headers(self) -> Any: ...
    @property
    def content(self) -> bytes: ...


LaneOf = Callable[[Any], str]


class Known(Protocol):
    """An endpoint whose answers are understood."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> type[Any]: ...
    def draft(self, request: bytes) -> Draft | None: ...


class Asked(msgspec.Struct, frozen=True):
    """What is known of a request before it is sent."""

    lane: str
    host: str
    model: str
    profile: Profile
    #: How its answer looks; None where that is anybody's guess.
    endpoint: Known | None
    body: bytes
    #: What the scheduler is told of its size.
    unit: dict[str, Any]


def asked(request: Request, body: bytes, lane_of: LaneOf | None = None) -> Asked:
    """Look at a request. `body` is its content where that is JSON, otherwise nothing."""
    url = request.url
    said = _object(body)
    path = str(url.path)
    way = _known(path, said) if request.method == "POST" else None
    host = _host(url)
    model = _model(said, path)
    profile = profile_for(host, way.kind) if way is not None else profile_for(host)
    if lane_of is not None:
        lane = lane_of(request)
    else:
        kind = profile.name if way is None else way.kind
        lane = f"{kind}|{host}|{_account(request)}|{model}"
    if way is None:
        return Asked(lane, host, model, profile, None, body, {})
    return Asked(lane, host, model, profile, way.endpoint, body, _size(said, way))


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether a body says that it is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body) if body else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _known(path: str, said: Mapping[str, Any]) -> _Way | None:
    """What is behind a path, if that is known and the request fits it."""
    path = path.rstrip("/")
    return next((way for way in _WAYS if path.endswith(way.end) and way.key in said), None)


def _host(url: Url) -> str:
    name = f"[{url.host}]" if ":" in url.host else url.host
    return name if url.port in (None, _USUAL.get(url.scheme)) else f"{name}:{url.port}"


def _account(request: Request) -> str:
    """A hash of the whole credential: nobody finds a key by it."""
    who = [request.headers.get(name, "") for name in _WHO]
    told = "\n".join([*who, *re.findall(r"(?:^|&)key=([^&]*)", request.url.query.decode("ascii", "replace"))])
    return blake2b(told.encode(), key=_SALT).hexdigest()[:ACCOUNT_DIGITS]


def _model(said: Mapping[str, Any], path: str) -> str:
    model = said.get("model")
    if isinstance(model, str):
        return model
    named = _MODEL.search(path)
    return "" if named is None else named[1]


# -- size ---------------------------------------------------------------------------------------------------------


def _prompt(said: Mapping[str, Any]) -> int:
    """The input of the older completions: a text, several, or tokens."""
    return chars.of_embedding({"input": said["prompt"]})


class _Way(msgspec.Struct, frozen=True):
    """A path whose answers are understood, and how the input of its requests is counted."""

    end: str
    key: str
    kind: str
    endpoint: Known
    chars: Callable[[Mapping[str, Any]], int]


def _ways() -> tuple[_Way, ...]:
    openai, anthropic = OpenAI(), Anthropic()
    rows = (
        (openai, "/chat/completions", "messages", chars.of_chat),
        (openai, "/completions", "prompt", _prompt),
        (openai, "/responses", "input", chars.of_response),
        (openai, "/embeddings", "input", chars.of_embedding),
        (anthropic, "/messages", "messages", chars.of_chat),
    )
    return tuple(
        _Way(end, key, dialect.kind, dialect.endpoint(end), count) for dialect, end, key, count in rows
    )


_WAYS: Final = _ways()


def _size(said: dict[str, Any], way: _Way) -> dict[str, Any]:
    """Characters, and the most that may come back, for the lane to estimate tokens from as it does in a batch."""
    try:
        length = way.chars(said)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ):  # Built as nobody knows it: the provider will say.
        length = len(msgspec.json.encode(said))
    most = _most(said)
    return {"chars": max(1, length), "estimate": Estimate(max_output_tokens=most) if most else NO_ESTIMATE}


def _most(said: Mapping[str, Any]) -> float:
    """The limit of the output, for every answer that is wanted."""
    wanted = said.get("n")
    answers = wanted if type(wanted) is int and wanted > 0 else 1
    limits = (said.get(name) for name in _MOST)
    return next((float(limit * answers) for limit in limits if type(limit) is int and limit > 0), 0.0)
