"""Plain HTTP as a provider, the pure part: a request from a prompt and its variables, and the output of a response.

Templates are filled by the caller. In a JSON body each text is filled by itself, so that quotes in a prompt do no harm; a text that is then a
JSON object or list becomes one, as `{"messages": "{{prompt}}"}` of a chat prompt expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from yarl import URL

from headway.config.settings import UrlConfig
from headway.errors import UsageError

#: Fills the templates in a value, with variables.
FillWith = Callable[[Any, Mapping[str, Any]], Any]

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
#: `json.choices[0].message.content`, `json?.a['b']`, `text`.
_PATH: Final = re.compile(
    r"""(?:json|text)(?:(?:\?\.|\.)[A-Za-z_$][\w$]*|(?:\?\.)?\[(?:\d+|"[^"\\]*"|'[^'\\]*')\])*"""
)
_STEP: Final = re.compile(r"""(\?\.)?\.?(?:([A-Za-z_$][\w$]*)|\[(\d+)\]|\[["']([^"']*)["']\])""")
_NOTHING: Final = object()


class UrlRequest(msgspec.Struct, frozen=True):
    """A request that is ready to be sent."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes


def url_request(settings: UrlConfig, prompt: Any, values: Mapping[str, Any], fill: FillWith) -> UrlRequest:
    """The request for a prompt. `values` are the variables; `prompt` may be an object, which is then the body. Raises UsageError."""
    values = {**values, "prompt": prompt}
    url = _address(settings, values, fill)
    headers = {name.lower(): _text(fill(value, values)) for name, value in settings.headers.items()}
    method = _text(fill(settings.method, values)).upper()
    if not (method.isascii() and method.isalpha()) or method == "HEAD":
        raise UsageError(f"method: {method!r} cannot be sent")
    if method == "GET" or (settings.body is None and not isinstance(prompt, dict)):
        return UrlRequest(method, url, headers, b"")
    is_json = _JSON in headers.get("content-type", "" if isinstance(settings.body, str) else _JSON)
    headers.setdefault("content-type", _JSON if is_json else _FORM)
    body = (
        _json_body(settings.body, prompt, values, fill)
        if is_json
        else _text(fill(settings.body, values)).encode()
    )
    return UrlRequest(method, url, headers, body)


def _address(settings: UrlConfig, values: Mapping[str, Any], fill: FillWith) -> URL:
    problem = UsageError(f"{settings.url} is not an address of the form https://host/path")
    try:
        url = URL(_text(fill(settings.url, values)))
    except ValueError:
        raise problem from None
    if url.scheme not in ("http", "https") or not url.host or url.user or url.password:
        raise problem
    for name, value in settings.query.items():
        url = url.extend_query({name: _text(fill(value, values))})
    return url


def _json_body(template: Any, prompt: Any, values: Mapping[str, Any], fill: FillWith) -> bytes:
    if isinstance(template, str):
        try:
            template = msgspec.json.decode(template)
        except msgspec.DecodeError:
            return _text(fill(template, values)).encode()
    if isinstance(prompt, dict):
        return msgspec.json.encode({**(template or {}), **prompt})
    return msgspec.json.encode(_parsed(fill(template, values)))


def _parsed(value: Any) -> Any:
    """Texts that are JSON objects or lists, as such."""
    if isinstance(value, dict):
        return {name: _parsed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_parsed(part) for part in value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# -- responses ------------------------------------------------------------------------------------------------------


def is_path(response: str) -> bool:
    """Whether a `transformResponse` only names a place in the response, so that it needs no JavaScript."""
    return _PATH.fullmatch(response.strip()) is not None


def at_path(path: str, value: Any, text: str) -> Any:
    """The place in a response. Raises UsageError if there is none."""
    path = path.strip()
    start, rest = path[:4], path[4:]
    found = value if start == "json" else text
    for optional, name, index, quoted in _STEP.findall(rest):
        found = _part(found, int(index) if index else name or quoted)
        if found is _NOTHING and not optional:
            break
    if found is _NOTHING or found is None:
        raise UsageError(f"transformResponse: the response has no {path}")
    return found


def _part(value: Any, step: int | str) -> Any:
    if isinstance(step, int) and isinstance(value, list) and step < len(value):
        return value[step]
    if isinstance(value, dict):
        return value.get(str(step), _NOTHING)
    return len(value) if step == "length" and isinstance(value, list | str) else _NOTHING


def decoded_body(body: bytes) -> tuple[Any, str]:
    """The JSON of a response (None if it is none), and its text."""
    text = body.decode("utf-8", errors="replace")
    try:
        return msgspec.json.decode(body), text
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, text
