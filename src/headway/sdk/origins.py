"""Which origin a key may be sent to: no other one after a redirect, and no other machine over plain http, be it a proxy.

An origin is scheme, host and port. httpx makes a new request for each redirect and copies the extensions of the previous
one, so the first request stores its origin there. Of all credentials httpx itself drops only `Authorization`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from headway.config.settings import is_loopback, is_plain_http
from headway.core.model import Kind
from headway.errors import ConfigError, UnitError
from headway.providers.scrubber import SHORTEST_VALUE, Scrubber, is_secret_header

#: The extension of a request that holds its first origin.
MARK: Final = "headway.home"
#: Query parameters that hold a key: Google's `key`, and common names.
_KEY_PARAMETERS: Final = frozenset(
    {"key", "api_key", "api-key", "apikey", "subscription-key", "access_token", "auth_token", "token"}
)
#: Secret by their names, but not keys.
_NO_KEYS: Final = frozenset({"cookie", "idempotency-key"})
#: How often a text is percent-decoded in the search for a secret.
_ENCODINGS: Final = 5
_SCHEME: Final = re.compile(r"(?:bearer|basic|token)\b\s*", re.IGNORECASE)

Origin = tuple[str, str, int | None]


class FirstRequest(NamedTuple):
    """The request before any redirect."""

    origin: Origin
    headers: Any
    url: Any


def keep_keys_home(request: Any) -> None:
    """Remove the credentials from a request that a redirect sends to another origin. UnitError if its path holds one."""
    first = request.extensions.get(MARK)
    if first is None:
        request.extensions[MARK] = FirstRequest(_origin(request.url), request.headers, request.url)
    elif _origin(request.url) != first.origin:
        secrets = _secrets_in(first.headers, first.url)
        scrub = Scrubber(secrets)
        if _holds(request.url.raw_path.partition(b"?")[0].decode("ascii"), scrub):
            raise UnitError(
                str(Kind.INVALID),
                f"the redirect to {request.url.scheme}://{request.url.netloc.decode('ascii')} has the key of the request"
                " in its address, and is not followed",
            )
        for name, value in request.headers.items():
            if is_secret_header(name) or _holds(value, scrub):
                del request.headers[name]
        _drop_parameters(request, secrets, scrub)


def _drop_parameters(request: Any, secrets: list[str], scrub: Scrubber) -> None:
    """Remove the query parameters that hold a secret. The others stay as they are written: they may be signed."""
    parameters = request.url.query.decode("ascii").split("&")
    kept = [
        each
        for each in parameters
        if unquote_plus(each.partition("=")[2]) not in secrets and not _holds(each, scrub)
    ]
    if len(kept) < len(parameters):
        request.url = request.url.copy_with(query="&".join(kept).encode("ascii") or None)


def _holds(text: str, scrub: Scrubber) -> bool:
    """Whether a text holds a secret, even percent-encoded several times, as in an address within an address."""
    for _ in range(_ENCODINGS):
        if scrub.text(text) != text:
            return True
        plain = unquote(text)
        if plain == text:
            return False
        text = plain
    return False


def refuse_plain_keys(request: Any, proxy: str = "") -> None:
    """Raise ConfigError if a request would send a key over plain http to another machine. `proxy` is the way it takes."""
    url = request.url
    if url.scheme != "http" or not (_keys_in_headers(request.headers) or _keys_in_query(url)):
        return
    if proxy and not is_loopback(proxy):
        receiver = f"the proxy {proxy}"
    elif is_plain_http(str(url)):
        receiver = f"http://{url.netloc.decode('ascii')}"
    else:
        return
    raise ConfigError(
        f"a key would be sent to {receiver} without encryption",
        hint="use https://, or allow it with headway.httpx_client(insecure_http=True)",
    )


def proxy_of(transport: Any) -> str:
    """The address of the proxy that a transport of httpx or httpx2 uses, without its user and password; "" if it uses none."""
    url = getattr(getattr(transport, "_pool", None), "_proxy_url", None)
    if url is None:
        return ""
    host = url.host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return f"{url.scheme.decode('ascii')}://{shown}" + ("" if url.port is None else f":{url.port}")


def _origin(url: Any) -> Origin:
    return url.scheme, url.host, url.port


def secrets_of(request: Any) -> list[str]:
    """The keys and cookies of a request, and of the request before any redirect."""
    first = request.extensions.get(MARK)
    earlier = [] if first is None else _secrets_in(first.headers, first.url)
    return [*earlier, *_secrets_in(request.headers, request.url)]


def _secrets_in(headers: Any, url: Any) -> list[str]:
    secrets = (*_keys_in_headers(headers), *_cookies(headers), *_keys_in_query(url), url.password)
    return [secret for secret in secrets if secret]


def _cookies(headers: Any) -> list[str]:
    """The values of cookies that are long enough for a secret."""
    values = (pair.partition("=")[2].strip() for pair in headers.get("cookie", "").split(";"))
    return [value for value in values if len(value) >= SHORTEST_VALUE]


def _keys_in_headers(headers: Any) -> list[str]:
    named = ((name.lower(), value) for name, value in headers.items())
    values = (value for name, value in named if is_secret_header(name) and name not in _NO_KEYS)
    return [key for value in values if (key := _SCHEME.sub("", value, count=1).strip())]


def _keys_in_query(url: Any) -> list[str]:
    if not url.query:
        return []
    return [value for name, value in url.params.multi_items() if name.lower() in _KEY_PARAMETERS and value]
