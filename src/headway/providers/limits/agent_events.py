"""The structured output of agent CLIs → how the run ended. The model's answer is never read.

Four formats, distinguished by their keys: Claude Code's `result` and `rate_limit_event`, Codex's `turn.*` events,
Gemini CLI's `response` and `error`, opencode's `error` with `data`. The output is one JSON document, or one per line; the last relevant event counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headway.core.model import AccountWindow
from headway.providers.limits import error_texts
from headway.providers.limits.account_windows import windows_of_event
from headway.providers.limits.error_bodies import ErrorInfo, collect, parse, short_text

#: The relevant events are at the end; the conversation before them is not read.
LONGEST_TAIL: Final = 262_144
MOST_EVENTS: Final = 400
#: Types of events that say how a run ended, also if they come after its last event.
_TELLING: Final = ("result", "rate_limit_event", "turn.completed", "turn.failed", "error")
#: Codex reports its own retries as errors. They are ignored.
_INTERIM: Final = "Reconnecting"


class AgentResult(msgspec.Struct):
    """How a run ended. `ok` is None if no event reports it."""

    ok: bool | None = None
    error: ErrorInfo | None = None
    #: Whether a subscription's window rejected the run, and when it reopens, as it was written.
    rejected: bool = False
    #: The same, or a rejection without a window, whose reason is in the error.
    refused: bool = False
    resets_at: str = ""
    #: The windows of the subscription, as far as they are reported.
    windows: tuple[AccountWindow, ...] = ()


def read(output: bytes | str | None) -> AgentResult:
    """Read a program's standard output."""
    result = AgentResult()
    for event in _events(_tail(output)):
        kind = event.get("type")
        if kind == "rate_limit_event":
            _take_window(event.get("rate_limit_info"), result)
        else:
            _take_event(event, kind, result)
    error = result.error
    if result.refused and (error is None or not (error.message or error.codes or error.status)):
        result.rejected = True
    return result


def is_telling(line: bytes) -> bool:
    """Whether a line of output may say how the run ended."""
    event = parse(line.decode("utf-8", errors="replace"))
    return isinstance(event, dict) and event.get("type") in _TELLING


def _tail(output: bytes | str | None) -> str:
    if output is None:
        return ""
    tail = output[-LONGEST_TAIL:]
    return tail if isinstance(tail, str) else bytes(tail).decode("utf-8", errors="replace")


def _events(text: str) -> Iterator[dict[str, Any]]:
    whole = parse(text.strip())
    if isinstance(whole, dict):
        yield whole
        return
    # Not `splitlines`: JSON may contain other characters that it splits at, such as U+2028.
    lines = whole if isinstance(whole, list) else map(parse, text.split("\n")[-MOST_EVENTS:])
    for event in lines:
        if isinstance(event, dict):
            yield event


def _take_window(info: Any, result: AgentResult) -> None:
    """Read a `rate_limit_event`. Only a rejection without paid overage counts.

    With the login of a subscription every 429 is reported as `rejected`, also one that is about the servers' load. That one
    has neither a window nor a reset: it counts only if the `result` does not say more.
    """
    if not isinstance(info, dict):
        return
    names_window = info.get("rateLimitType") is not None or info.get("resetsAt") is not None
    refused = info.get("status") == "rejected" and info.get("isUsingOverage") is not True
    result.rejected = refused and names_window
    result.refused = refused
    result.windows = windows_of_event(info)
    result.resets_at = short_text(info.get("resetsAt")) if result.rejected else ""


def _take_event(event: dict[str, Any], kind: Any, result: AgentResult) -> None:
    if kind == "result":
        _take_result(event, result)
    elif kind == "turn.completed":
        result.ok = True
    elif kind in ("turn.failed", "error"):
        _take_error(event, result)
    elif kind == "system" and event.get("subtype") == "api_retry":
        _fail(result, _error_info(event, str(event.get("error") or "")))
    elif kind == "assistant" and isinstance(event.get("error"), str):
        _fail(result, ErrorInfo(codes=[event["error"][:80]]))
    elif kind is None and "session_id" in event:
        _take_document(event, result)


def _take_result(event: dict[str, Any], result: AgentResult) -> None:
    """Read a `result`: Claude's has `is_error`, which overrides its subtype; Gemini's has a status."""
    subtype = event.get("subtype")
    failed = event.get("is_error") is True or event.get("status") == "error"
    if isinstance(subtype, str) and subtype.startswith("error"):
        failed = True
    if not failed:
        result.ok = True
        return
    text = event.get("result")
    error = _error_info(event, text if isinstance(text, str) else "")
    if isinstance(subtype, str) and subtype != "success":
        error.codes.append(subtype)
    _fail(result, error)


def _take_document(event: dict[str, Any], result: AgentResult) -> None:
    """Read Gemini CLI's single document."""
    if isinstance(event.get("error"), dict):
        _take_error(event, result)
    elif isinstance(event.get("response"), str):
        result.ok = True


def _take_error(event: dict[str, Any], result: AgentResult) -> None:
    inner = event.get("error")
    if isinstance(inner, dict) and isinstance(inner.get("data"), dict):  # opencode
        event = {**event, "error": _opencode_error(inner, inner["data"])}
    error = _error_info(event, "")
    if not error.message.startswith(_INTERIM) and event.get("severity") != "warning":
        _fail(result, error)


def _opencode_error(error: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The error with the wait of its headers."""
    headers = data.get("responseHeaders")
    wait = headers.get("retry-after") if isinstance(headers, dict) else None
    return {"type": error.get("name"), **({} if wait is None else {"retry_after": wait}), **data}


def _fail(result: AgentResult, error: ErrorInfo) -> None:
    """Note a failure. A later one replaces the error only if it has a message or a status."""
    if result.error is None or error.message or error.status is not None:
        result.error = error
    result.ok = False


def _error_info(event: dict[str, Any], text: str) -> ErrorInfo:
    """The error in an event, or in the text that reports it. Agents wrap the provider's error in their messages."""
    error = ErrorInfo()
    inner = {key: event.get(key) for key in ("error", "message") if not isinstance(event.get(key), list)}
    collect(inner, error)
    info = error_texts.read(text or error.message)
    info.codes = [*info.codes, *(code for code in error.codes if code not in info.codes)]
    status = event.get("api_error_status") or event.get("error_status")
    if type(status) is int and 400 <= status < 600:
        info.status = status
    info.status = info.status if info.status is not None else error.status
    info.waits += error.waits
    info.quotas += error.quotas
    return info
