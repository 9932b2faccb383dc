"""The keys of an HTTP provider in an eval file → settings. A key that is not known, or cannot be honoured, is an error that names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headway.config.near_names import near_name
from headway.config.settings import UrlConfig
from headway.errors import UsageError
from headway.evals.programs.code_files import code_file

_KEYS: Final = (
    "url", "method", "headers", "body", "queryParams", "transformRequest", "transformResponse", "responseParser", "auth", "timeoutMs",
)  # fmt: skip
#: Keys that other parts read: limits of the lane, and the folder.
_READ_ELSEWHERE: Final = ("rateLimit", "basePath")
#: Names of headers and parameters that hold keys.
_SECRETS: Final = re.compile(
    r"(authorization|(api|access|subscription)[-_]?key|token|secret|password)$", re.IGNORECASE
)
_INSTEAD: Final = {
    "request": "write url, method, headers and body",
    "multipart": "write a provider in Python that sends the form",
    "maxRetries": "Headway retries; see max_attempts in [run]",
    "validateStatus": "every answer but a 2xx is a failed request",
    "signatureAuth": "write a provider in Python that signs its requests",
    "tls": "write a provider in Python with its own certificates",
    "session": "write a provider in Python that keeps the session",
    "sessionParser": "write a provider in Python that keeps the session",
    "tokenEstimation": "return tokenUsage from transformResponse",
}


def url_settings(url: str, config: Mapping[str, Any], folder: Path) -> UrlConfig:
    """The settings of an HTTP provider. Raises UsageError."""
    _check(config)
    address = str(config.get("url") or url)
    response = config.get("transformResponse", config.get("responseParser", ""))
    file, function = code_file(_text("transformResponse", response), folder)
    headers, query = (
        _texts("headers", config.get("headers")),
        _texts("queryParams", config.get("queryParams")),
    )
    _add_auth(config.get("auth"), headers, query)
    _no_keys("headers", headers)
    _no_keys("queryParams", query)
    body = config.get("body")
    method = _text("method", config.get("method", "GET" if body is None else "POST"))
    if method.upper() == "GET" and body is not None:
        raise UsageError("config.body of an HTTP provider: GET sends none", hint="write method: POST")
    return UrlConfig(
        url=address,
        method=method,
        headers=headers,
        query=query,
        body=body,
        request=_text("transformRequest", config.get("transformRequest", "")),
        response="" if file else response.strip(),
        response_file=file,
        response_function=function,
        directory=str(folder),
        timeout_s=_seconds(config.get("timeoutMs", 0)),
    )


def _check(config: Mapping[str, Any]) -> None:
    for key in config:
        if key in _KEYS or key in _READ_ELSEWHERE:
            continue
        if key in _INSTEAD:
            raise UsageError(f"config.{key} of an HTTP provider is not supported", hint=_INSTEAD[key])
        near = near_name(key, _KEYS)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(_KEYS)}"
        raise UsageError(f"an HTTP provider has no config.{key}", hint=hint)


def _add_auth(auth: Any, headers: dict[str, str], query: dict[str, str]) -> None:
    """`auth` as a header or a parameter. The texts may be templates, so they are filled when a request is sent."""
    if auth is None:
        return
    kind = auth.get("type") if isinstance(auth, dict) else None
    if kind == "bearer" and auth.get("token"):
        headers["authorization"] = f"Bearer {auth['token']}"
    elif kind == "api_key" and auth.get("keyName") and auth.get("value"):
        place = query if auth.get("placement") == "query" else headers
        place[str(auth["keyName"])] = str(auth["value"])
    else:
        raise UsageError(
            "config.auth of an HTTP provider: only type bearer (token) and api_key (keyName, value, placement) are supported",
            hint="write the header yourself in config.headers",
        )


def _no_keys(key: str, texts: Mapping[str, str]) -> None:
    """Raise if a key is written out: what is in the file is stored with the results."""
    for name, text in texts.items():
        if _SECRETS.search(name) and text.strip() and "{{" not in text:
            raise UsageError(
                f"config.{key}.{name}: a key is never written into this file",
                hint="export it, and write {{env.NAME}}",
            )


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"config.{key} of an HTTP provider must be a text")
    return value


def _texts(key: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"config.{key} of an HTTP provider must be an object of texts")
    return {str(name): text if isinstance(text, str) else str(text) for name, text in value.items()}


def _seconds(milliseconds: Any) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or milliseconds < 0:
        raise UsageError("config.timeoutMs must be a number of milliseconds")
    return milliseconds / 1000.0
