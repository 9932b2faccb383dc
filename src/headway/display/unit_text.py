"""The text of `headway show`: a unit, its attempts, and what each recorded (prompt, session, conversation, output)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from headway.display.agents.conversation_text import conversation_lines
from headway.display.formatting import clock, money
from headway.flows.running.requests.tool_programs import PREFIX
from headway.jobs.unit_report import UnitReport
from headway.stores.records import AttemptView

#: Names of fields for people.
_NAMES: Final = {
    "session_id": "session",
    "session_note": "session note",
    "exit_code": "exit code",
    "messages": "conversation",
    "start_commit": "start commit",
    "git_status": "git status",
    "diff_base64": "diff (base64)",
}
#: Control characters that a terminal would act on. Line breaks and tabs are printed.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def unit_lines(report: UnitReport, status: str, where: str, *, unfold: bool = False) -> list[str]:
    """The unit, its lane, and every attempt. `unfold`: tool calls in full."""
    is_tool = report.provider.startswith(PREFIX)
    lines = [f"{report.custom_id} (unit {report.unit} of {report.job}): {status}", f"  {where}"]
    for attempt in report.attempts:
        lines += [
            f"  {_attempt_line(attempt, is_local=is_tool or attempt.number in report.notes)}",
            *detail_lines(report.notes.get(attempt.number, {}), unfold=unfold),
        ]
    ended = {attempt.number for attempt in report.attempts}
    for number, details in report.notes.items():
        if number not in ended:
            lines += [f"  attempt {number}, running", *detail_lines(details, unfold=unfold)]
    return lines


def _attempt_line(attempt: AttemptView, *, is_local: bool) -> str:
    """An attempt. `is_local`: a program or a function did it, not a server."""
    how = attempt.outcome + (f" ({attempt.kind}: {attempt.message})" if attempt.kind else "")
    began = "–" if attempt.started_utc is None else clock(attempt.started_utc)
    took = ""
    if attempt.started_utc and attempt.finished_utc:
        took = f" in {attempt.finished_utc - attempt.started_utc:.2f} s"
    code = f", HTTP {attempt.status_code}" if attempt.status_code and not is_local else ""
    limit = f"; limit detected in {attempt.rate_limit['source']}" if attempt.rate_limit else ""
    return f"attempt {attempt.number}, {began}: {how}{took}{code}{_usage_text(attempt)}{limit}"


def _usage_text(attempt: AttemptView) -> str:
    used = []
    if attempt.input_tokens or attempt.output_tokens:
        used.append(f"{attempt.input_tokens or 0:,} tokens in, {attempt.output_tokens or 0:,} out")
    if attempt.cost_usd:
        used.append(money(attempt.cost_usd))
    return f"; {', '.join(used)}" if used else ""


def detail_lines(details: Mapping[str, object], *, unfold: bool = False) -> list[str]:
    """The fields of an attempt; a text of several lines goes below its name."""
    lines: list[str] = []
    for field, value in details.items():
        name = _NAMES.get(field, field)
        if field == "messages" and isinstance(value, list):
            lines.append(f"    {name}:")
            lines += (f"      {_text(line)}" for line in conversation_lines(value, unfold=unfold))
        else:
            lines += _field_lines(name, value, "    ")
    return lines


def _field_lines(name: str, value: object, indent: str) -> list[str]:
    lines = _text(value).splitlines()
    if len(lines) < 2:
        return [f"{indent}{name}: {''.join(lines).strip()}"]
    return [f"{indent}{name}:", *(f"{indent}  {line}" for line in lines)]


def _text(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
