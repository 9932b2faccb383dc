"""The structured output of agent CLIs → how the run ended. The model's own words are never looked at.

Three dialects, told apart by the keys they use: Claude Code's `result` and `rate_limit_event`, Codex's `turn.*`
events, Gemini CLI's `response` and `error`. One JSON document or one a line; the last event that decides, decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headway.providers.limits import error_texts
from headway.providers.limits.error_bodies import ErrorInfo, collect, parse, short_text

#: What decides stands at the end; a long conversation is not read again.
LONGEST_TAIL: Final = 262_144
MOST_EVENTS: Final = 400
#: Codex announces its own retries as errors. They decide nothing.
_INTERIM: Final = "Reconnecting"


class AgentResult(msgspec.Struct):
    """How a run ended: `ok` is None where nothing said so."""

    ok: bool | None = None
    error: ErrorInfo | None = None
    #: When a subscription's window opens again, as it was written; empty where none was rejected.
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
    # Not `splitlines`: a JSON text may hold other characters that end a line there, such as U+2028.
    lines = whole if isinstance(whole, list) else map(parse, text.split("\n")[-MOST_EVENTS:])
    for event in lines:
        if isinstance(event, dict):
            yield event


def _take_window(info: Any, result: AgentResult) -> None:
    """Only a rejection counts; a window may be rejected while paid overage goes on."""
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
    """Claude's result has `is_error`, whatever its subtype claims; Gemini's has a status."""
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
    """Gemini's one document."""
    if isinstance(event.get("error"), dict):
        _take_error(event, result)
    elif isinstance(event.get("response"), str):
        result.ok = True


def _take_error(event: dict[str, Any], result: AgentResult) -> None:
    error = _error_info(event, "")
    if not error.message.startswith(_INTERIM) and event.get("severity") != "warning":
        _fail(result, error)


def _fail(result: AgentResult, error: ErrorInfo) -> None:
    """A later failure says more only where it says something."""
    if result.error is None or error.message or error.status is not None:
        result.error = error
    result.ok = False


def _error_info(event: dict[str, Any], text: str) -> ErrorInfo:
    """The event's error, or the text that reports it; messages of agents wrap what the provider said."""
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
