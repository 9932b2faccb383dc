"""Where keys may go: not to another origin by a redirect, and not over plain http to another machine.

An origin is scheme, host and port. httpx makes a new request for each redirect, with the extensions of the one before it;
so the first request is marked there with its origin. Of the credentials httpx itself drops only `Authorization`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from headway.config.settings import is_plain_http
from headway.errors import ConfigError
from headway.providers.secrecy import is_secret_name

#: The name of the mark among a request's extensions.
MARK: Final = "headway.home"
#: Parameters that hold a key: Google's, and what others call theirs.
_KEY_PARAMETERS: Final = frozenset(
    {"key", "api_key", "api-key", "apikey", "subscription-key", "access_token", "auth_token", "token"}
)
#: Secret by their names, but no keys: a session's, and what tells one request from its repetition.
_NO_KEYS: Final = frozenset({"cookie", "idempotency-key"})
_SCHEME: Final = re.compile(r"(?:bearer|basic|token)\b\s*", re.IGNORECASE)

Origin = tuple[str, str, int | None]


class Home(NamedTuple):
    """Where a request was meant to go, and with what."""

    origin: Origin
    headers: Any
    url: Any


def keep_keys_home(request: Any) -> None:
    """Take the credentials out of a request that a redirect sends to another origin than the first."""
    home = request.extensions.get(MARK)
    if home is None:
        request.extensions[MARK] = Home(_origin(request.url), request.headers, request.url)
    elif _origin(request.url) != home.origin:
        for name in [name for name in request.headers if is_secret_name(name)]:
            del request.headers[name]
        secrets = {*_keys_in_headers(home.headers), *_keys_in_query(home.url)}
        items = request.url.params.multi_items()
        kept = [(name, value) for name, value in items if value not in secrets]
        if len(kept) < len(items):
            request.url = request.url.copy_with(params=kept)


def refuse_plain_keys(request: Any) -> None:
    """Raise where a request would carry a key over plain http to another machine."""
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


def _keys_in_headers(headers: Any) -> list[str]:
    named = ((name.lower(), value) for name, value in headers.items())
    values = (value for name, value in named if is_secret_name(name) and name not in _NO_KEYS)
    return [key for value in values if (key := _SCHEME.sub("", value, count=1).strip())]


def _keys_in_query(url: Any) -> list[str]:
    if not url.query:
        return []
    return [value for name, value in url.params.multi_items() if name.lower() in _KEY_PARAMETERS and value]
