"""The structured output of agent CLIs → how the run ended. The model's answer is never read.

Three formats, distinguished by their keys: Claude Code's `result` and `rate_limit_event`, Codex's `turn.*` events,
Gemini CLI's `response` and `error`. The output is one JSON document, or one per line; the last relevant event counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headway.providers.limits import error_texts
from headway.providers.limits.error_bodies import ErrorInfo, collect, parse, short_text

#: The relevant events are at the end; the conversation before them is not read.
LONGEST_TAIL: Final = 262_144
MOST_EVENTS: Final = 400
#: Codex reports its own retries as errors. They are ignored.
_INTERIM: Final = "Reconnecting"


class AgentResult(msgspec.Struct):
    """How a run ended. `ok` is None if no event reports it."""

    ok: bool | None = None
    error: ErrorInfo | None = None
    #: Whether a subscription's window rejected the run, and when it reopens, as it was written.
    rejected: bool = False
    resets_at: str = ""


def read(output: bytes | str | None) -> AgentResult:
    """Read a program's standard output."""
    result = AgentResult()
    for event in _events(_tail(output)):
        kind = event.get("type")
        if kind == "rate_limit_event":
            _take_window(event.get("rate_limit_info"), result)
        else:
            _take_event(event, kind, result)
    return result


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
    """Read a `rate_limit_event`. Only a rejection without paid overage counts."""
    if not isinstance(info, dict):
        return
    result.rejected = info.get("status") == "rejected" and info.get("isUsingOverage") is not True
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
    error = _error_info(event, "")
    if not error.message.startswith(_INTERIM) and event.get("severity") != "warning":
        _fail(result, error)


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
