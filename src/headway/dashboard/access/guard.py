"""Checks every request before anything else does, and gives every response the headers that protect the page.

1. `Host` must be a name of this dashboard (`BindAddress.accepts`).
2. A token in the address of a page is exchanged for a cookie.
3. Everything else needs the cookie, or the token as `Authorization: Bearer`, which scripts and Prometheus send.
4. A request that changes something comes from the page itself: with the same `Origin`, and with a secret in `X-Headway-CSRF`.
   With a bearer token the secret is not needed: no browser sends that header by itself.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.dashboard.access.access_secrets import AccessSecrets
from headway.dashboard.access.address import BindAddress
from headway.dashboard.access.refusal_page import FORWARD_PAGE, REFUSAL_PAGE
from headway.dashboard.json_answer import error_answer, html_answer

CSRF_HEADER: Final = "x-headway-csrf"
_BEARER: Final = "bearer "
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
#: A page of another site that leads here (`Sec-Fetch-Site`): the browser would not send a new cookie after a redirect.
_FOREIGN: Final = frozenset({"cross-site", "same-site"})
#: Nothing is loaded from elsewhere, nothing runs that is not a file of the dashboard, and no other page may frame it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_STORE: Final = "no-store"


class AccessGuard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, address: BindAddress, secrets: AccessSecrets) -> None:
        self._app, self._address, self._secrets = app, address, secrets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = self._refusal(scope) or self._exchange(scope) or self._without_access(scope)
        await (answer or self._app)(scope, receive, _protected(send))

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """The answer to a request for another host."""
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and self._address.accepts(hosts[0]):
            return None
        return error_answer(
            403, "this name does not belong to the dashboard: open the URL that 'headway ui' printed"
        )

    def _exchange(self, scope: Scope) -> ASGIApp | None:
        """The answer to a page's address with a token: the cookie, and the same address without the token."""
        if scope["method"] not in _SAFE_METHODS or b"token=" not in scope["query_string"]:
            return None
        fields = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if "token" not in fields or _is_api(scope["path"]):
            return None
        if not self._secrets.is_token(fields.pop("token")[0]):
            return html_answer(401, REFUSAL_PAGE)
        place = _place(scope["path"], fields)
        cookie = f"{self._secrets.cookie_name}={self._secrets.cookie}; HttpOnly; SameSite=Strict; Path=/"
        if Headers(scope=scope).get("sec-fetch-site") in _FOREIGN:
            return html_answer(200, FORWARD_PAGE, {"set-cookie": cookie, "refresh": f"0; url={place}"})
        return html_answer(303, "", {"set-cookie": cookie, "location": place})

    def _without_access(self, scope: Scope) -> ASGIApp | None:
        """The answer to a request without the cookie and the token, or to one that another site has sent."""
        headers = Headers(scope=scope)
        has_token = self._has_bearer(headers)
        if not has_token and not self._has_cookie(headers):
            if _is_api(scope["path"]):
                return error_answer(401, "open the URL that 'headway ui' printed: it has the token")
            return html_answer(401, REFUSAL_PAGE)
        if scope["method"] in _SAFE_METHODS:
            return None
        origins = headers.getlist("origin")
        own = [[f"{scheme}://{headers['host']}"] for scheme in ("http", "https")]
        if origins not in own and (origins or not has_token):
            return error_answer(403, "this request came from another site: use the page of the dashboard")
        if not has_token and not self._secrets.is_csrf(headers.get(CSRF_HEADER, "")):
            return error_answer(403, "the page is from an earlier session: load it again")
        return None

    def _has_bearer(self, headers: Headers) -> bool:
        text = headers.get("authorization", "")
        return text[: len(_BEARER)].lower() == _BEARER and self._secrets.is_token(
            text[len(_BEARER) :].strip()
        )

    def _has_cookie(self, headers: Headers) -> bool:
        for header in headers.getlist("cookie"):
            for part in header.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self._secrets.cookie_name and self._secrets.is_cookie(value.strip('"')):
                    return True
        return False


def _is_api(path: str) -> bool:
    return path.startswith("/api/") or path == "/metrics"


def _place(path: str, fields: dict[str, list[str]]) -> str:
    """A path of this site. "//name" would be another one."""
    rest = f"?{urlencode(fields, doseq=True)}" if fields else ""
    return quote("/" + path.lstrip("/\\")) + rest


def _protected(send: Send) -> Send:
    """Adds the headers to every response."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", _NO_STORE)
        await send(message)

    return with_headers
