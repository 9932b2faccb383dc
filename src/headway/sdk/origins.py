"""Which origin a key may be sent to: no other one after a redirect, and no other machine over plain http.

An origin is scheme, host and port. httpx makes a new request for each redirect and copies the extensions of the previous
one, so the first request stores its origin there. Of all credentials httpx itself drops only `Authorization`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from headway.config.settings import is_plain_http
from headway.errors import ConfigError
from headway.providers.secrecy import SHORTEST_VALUE, is_secret_name

#: The extension of a request that holds its first origin.
MARK: Final = "headway.home"
#: Query parameters that hold a key: Google's `key`, and common names.
_KEY_PARAMETERS: Final = frozenset(
    {"key", "api_key", "api-key", "apikey", "subscription-key", "access_token", "auth_token", "token"}
)
#: Secret by their names, but not keys.
_NO_KEYS: Final = frozenset({"cookie", "idempotency-key"})
_SCHEME: Final = re.compile(r"(?:bearer|basic|token)\b\s*", re.IGNORECASE)

Origin = tuple[str, str, int | None]


class FirstRequest(NamedTuple):
    """The request before any redirect."""

    origin: Origin
    headers: Any
    url: Any


def keep_keys_home(request: Any) -> None:
    """Remove the credentials from a request that a redirect sends to another origin."""
    first = request.extensions.get(MARK)
    if first is None:
        request.extensions[MARK] = FirstRequest(_origin(request.url), request.headers, request.url)
    elif _origin(request.url) != first.origin:
        for name in [name for name in request.headers if is_secret_name(name)]:
            del request.headers[name]
        secrets = {*_keys_in_headers(first.headers), *_keys_in_query(first.url)}
        items = request.url.params.multi_items()
        kept = [(name, value) for name, value in items if value not in secrets]
        if len(kept) < len(items):
            request.url = request.url.copy_with(params=kept)


def refuse_plain_keys(request: Any) -> None:
    """Raise ConfigError if a request would send a key over plain http to another machine."""
    url = request.url
    if url.scheme == "https" or not is_plain_http(str(url)):
        return
    if _keys_in_headers(request.headers) or _keys_in_query(url):
        raise ConfigError(
            f"a key would be sent to http://{url.netloc.decode('ascii')} without encryption",
            hint="use https://, or allow it with headway.httpx_client(insecure_http=True)",
        )


def _origin(url: Any) -> Origin:
    return url.scheme, url.host, url.port


def secrets_of(request: Any) -> list[str]:
    """The keys and cookies of a request, and of the request before any redirect."""
    first = request.extensions.get(MARK)
    sources = [(request.headers, request.url)]
    if first is not None:
        sources.append((first.headers, first.url))
    secrets = [
        secret
        for headers, url in sources
        for secret in (*_keys_in_headers(headers), *_cookies(headers), *_keys_in_query(url), url.password)
    ]
    return list(dict.fromkeys(filter(None, secrets)))


def _cookies(headers: Any) -> list[str]:
    """The values of cookies that are long enough for a secret."""
    values = (pair.partition("=")[2].strip() for pair in headers.get("cookie", "").split(";"))
    return [value for value in values if len(value) >= SHORTEST_VALUE]


def _keys_in_headers(headers: Any) -> list[str]:
    named = ((name.lower(), value) for name, value in headers.items())
    values = (value for name, value in named if is_secret_name(name) and name not in _NO_KEYS)
    return [key for value in values if (key := _SCHEME.sub("", value, count=1).strip())]


def _keys_in_query(url: Any) -> list[str]:
    if not url.query:
        return []
    return [value for name, value in url.params.multi_items() if name.lower() in _KEY_PARAMETERS and value]
