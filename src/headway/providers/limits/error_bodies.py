"""The body of an error → message, codes, status, waits, quotas. What they mean is decided elsewhere.

Providers wrap the same facts differently (`error.message`, `message`, `detail`, a list, JSON inside a string), gateways
answer with HTML, and a body may be cut off. Valid JSON is read by its structure. Incomplete JSON, and the Python notation
of exceptions, is searched for the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.lazy_pattern import lazy_pattern

#: Error bodies are short. More than this is an HTML page, a stack trace or garbage.
LONGEST_BODY: Final = 65_536
LONGEST_CODE: Final = 80
#: A code of Headway's own: providers report a blocked prompt without one.
PROMPT_BLOCKED: Final = "prompt_blocked"
#: JSON inside JSON: gateways wrap the provider's error once, agents once more.
DEEPEST: Final = 3
_ERROR_STATUSES: Final = range(400, 600)

_CODE_KEYS: Final = (
    "code", "type", "status", "error_type", "error_code", "reason", "__type", "limit_source", "provider_error_code",
)  # fmt: skip
_STATUS_KEYS: Final = (
    "code",
    "status",
    "status_code",
    "http_status",
    "statusCode",
    "raw_status_code",
    "api_error_status",
)
_WAIT_KEYS: Final = (
    "retryDelay",
    "retry_after",
    "retry_after_seconds",
    "resets_in_seconds",
    "resets_at",
    "resetsAt",
)
_MESSAGE_KEYS: Final = ("message", "detail", "msg", "error_message", "error_description")
#: Structures around errors that contain codes and waits, too.
_INNER_KEYS: Final = ("details", "metadata", "errors", "error_info")
_WRAPPERS: Final = frozenset({"error", "errors"})

_LOOSE: Final = lazy_pattern(
    r"""['"](code|type|status|reason|message|retryDelay|error_code|quotaId|quotaValue)['"]\s{0,4}:\s{0,4}"""
    r"""(?:"((?:[^"\\]|\\.){0,4000})"|'((?:[^'\\]|\\.){0,4000})'|(\d{1,15}))"""
)
_LOOSE_MOST: Final = 60
_TITLE: Final = lazy_pattern(r"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
#: Line ends of an event stream. JSON may contain others that `str.splitlines` splits at, such as U+2028.
_LINE_END: Final = lazy_pattern(r"\r\n|\n|\r")
_EVENT_DATA: Final = lazy_pattern(r"^data:\s?(?=[\[{])", re.MULTILINE)


class ErrorInfo(msgspec.Struct):
    """What an error contains."""

    message: str = ""
    codes: list[str] = []
    status: int | None = None
    #: Waits and instants as they were written.
    waits: list[str] = []
    #: Google's quotas: (id, value).
    quotas: list[tuple[str, str]] = []
    #: Headers that a gateway passes on inside the body.
    headers: dict[str, str] = {}


def read(body: bytes | str | None) -> ErrorInfo:
    """Read a body of any format."""
    text = as_text(body).strip()
    if not text:
        return ErrorInfo()
    event = _EVENT_DATA.search(text) if text.startswith(("data:", "event:", ":")) else None
    parsed = parse(_LINE_END.split(text[event.end() :], maxsplit=1)[0] if event is not None else text)
    if parsed is None:
        return search_keys(text)
    error = ErrorInfo()
    collect(parsed, error)
    return error


def as_text(body: bytes | str | None) -> str:
    """The beginning of a body as text."""
    if body is None:
        return ""
    if isinstance(body, str):
        return body[:LONGEST_BODY]
    return bytes(body[:LONGEST_BODY]).decode("utf-8", errors="replace")


def parse(text: str) -> Any:
    """Decode a JSON object or list; None for everything else."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None


def collect(node: Any, error: ErrorInfo, depth: int = 0) -> None:
    """Collect from a parsed body into `error`: the innermost error first, since it is the most specific."""
    if depth > DEEPEST:
        return
    if isinstance(node, list):
        for item in node[:4]:
            collect(item, error, depth + 1)
        return
    if not isinstance(node, dict):
        return
    for inner in _wrapped(node):
        collect(inner, error, depth + 1)
    _take_inner(node, error)
    _take_block(node, error)
    _take_message(node, error, depth)
    _take_codes(node, error)
    _take_waits(node, error)


def _wrapped(node: dict[str, Any]) -> Iterator[Any]:
    """The errors inside a wrapper: an object or list under `error`, also of a failed `response`."""
    for wrapper in (node, node.get("response")):
        error = wrapper.get("error") if isinstance(wrapper, dict) else None
        if isinstance(error, dict | list):
            yield error


def _take_inner(node: dict[str, Any], error: ErrorInfo) -> None:
    for key in _INNER_KEYS:
        inner = node.get(key)
        if isinstance(inner, dict | list):
            _take_details(inner, error)


def _take_block(node: dict[str, Any], error: ErrorInfo) -> None:
    """Gemini's response to a blocked prompt, which has no candidates. Its id distinguishes it from the next one."""
    feedback = node.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if isinstance(reason, str) and not node.get("candidates"):
        named = short_text(node.get("responseId"))
        error.message = f"the prompt was blocked: {short_text(reason)}" + (
            f" (response {named})" if named else ""
        )
        error.codes.append(PROMPT_BLOCKED)


def _take_details(details: Any, error: ErrorInfo) -> None:
    for detail in (details if isinstance(details, list) else [details])[:8]:
        if not isinstance(detail, dict):
            continue
        _take_codes(detail, error)
        _take_waits(detail, error)
        _take_quotas(detail.get("violations"), error)
        _take_headers(detail.get("headers"), error)


def _take_quotas(violations: Any, error: ErrorInfo) -> None:
    for violation in violations[:8] if isinstance(violations, list) else ():
        if isinstance(violation, dict) and isinstance(violation.get("quotaId"), str):
            error.quotas.append((short_text(violation["quotaId"]), short_text(violation.get("quotaValue"))))


def _take_headers(headers: Any, error: ErrorInfo) -> None:
    if isinstance(headers, dict):
        for name, value in list(headers.items())[:40]:
            error.headers[name] = short_text(value)


def _take_message(node: dict[str, Any], error: ErrorInfo, depth: int) -> None:
    if error.message:
        return
    text = _message(node)
    inner = ErrorInfo()
    collect(parse(text.strip()), inner, depth + 1)
    error.message = inner.message or text
    error.codes += (code for code in inner.codes if code not in error.codes)
    error.status = error.status if error.status is not None else inner.status
    error.waits += inner.waits
    error.quotas += inner.quotas


def _message(node: Mapping[str, Any]) -> str:
    if isinstance(node.get("error"), str):
        return str(node["error"])
    for key in _MESSAGE_KEYS:
        text = node.get(key)
        if isinstance(text, list) and text and isinstance(text[0], dict):
            text = text[0].get("msg")  # Pydantic's list of validation errors.
        elif isinstance(text, dict):
            text = text.get("message") or text.get("error")
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _take_codes(node: Mapping[str, Any], error: ErrorInfo) -> None:
    for key in _CODE_KEYS:
        _take_code(node.get(key), error)
    for key in _STATUS_KEYS:
        status = node.get(key)
        if error.status is None and type(status) is int and status in _ERROR_STATUSES:
            error.status = status


def _take_code(code: Any, error: ErrorInfo) -> None:
    if not isinstance(code, str) or not 0 < len(code) <= LONGEST_CODE or code in _WRAPPERS:
        return
    code = code.rpartition("#")[2]  # AWS: "com.amazon.coral.availability#ThrottlingException"
    if code.isdecimal() and code.isascii():
        if error.status is None and int(code) in _ERROR_STATUSES:
            error.status = int(code)
    elif code not in error.codes:
        error.codes.append(code)


def _take_waits(node: Mapping[str, Any], error: ErrorInfo) -> None:
    error.waits += filter(None, (short_text(node.get(key)) for key in _WAIT_KEYS))
    milliseconds = short_text(node.get("retry_after_ms"))
    if milliseconds.isdecimal():
        error.waits.append(f"{milliseconds}ms")


def short_text(value: Any) -> str:
    """A short string, or a number as text; empty for anything else."""
    if isinstance(value, str):
        return value[:LONGEST_CODE]
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e18 < value < 1e18:
        return ""
    return str(value)


def search_keys(text: str) -> ErrorInfo:
    """Search for the same keys in text that is not JSON: cut off, inside a sentence, in Python's notation, or HTML."""
    error = ErrorInfo()
    for place, match in enumerate(_LOOSE.finditer(text)):
        if place >= _LOOSE_MOST:
            break
        key, double, single, figure = match.groups()
        value = double or single or figure or ""
        if key == "message":
            error.message = error.message or value
        elif key == "quotaId":
            error.quotas.append((value[:LONGEST_CODE], ""))
        elif key == "quotaValue" and error.quotas:
            error.quotas[-1] = (error.quotas[-1][0], value[:20])
        elif key == "retryDelay":
            error.waits.append(value[:40])
        else:
            _take_code(value, error)
    error.message = error.message or _text_or_title(text)
    return error


def _text_or_title(text: str) -> str:
    """The text itself; the title of an HTML page."""
    if text.startswith("<"):
        title = _TITLE.search(text)
        return title[1].strip() if title is not None else ""
    return text
