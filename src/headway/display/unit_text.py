"""The text of `headway show`: a unit, its attempts, and what each recorded (prompt, session, conversation, output)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from headway.display.formatting import clock
from headway.jobs.unit_report import UnitReport
from headway.stores.records import AttemptView

#: Names of fields for people.
_NAMES: Final = {"session_id": "session", "messages": "conversation"}
#: Control characters that a terminal would act on. Line breaks and tabs are printed.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def unit_lines(report: UnitReport, status: str, where: str) -> list[str]:
    """The unit, its lane, and every attempt."""
    lines = [f"{report.custom_id} (unit {report.unit} of {report.job}): {status}", f"  {where}"]
    for attempt in report.attempts:
        lines += [f"  {_attempt_line(attempt)}", *detail_lines(report.notes.get(attempt.number, {}))]
    return lines


def _attempt_line(attempt: AttemptView) -> str:
    how = attempt.outcome + (f" ({attempt.kind}: {attempt.message})" if attempt.kind else "")
    began = "–" if attempt.started_utc is None else clock(attempt.started_utc)
    took = ""
    if attempt.started_utc and attempt.finished_utc:
        took = f" in {attempt.finished_utc - attempt.started_utc:.2f} s"
    code = f", HTTP {attempt.status_code}" if attempt.status_code else ""
    limit = f"; limit detected in {attempt.rate_limit['source']}" if attempt.rate_limit else ""
    return f"attempt {attempt.number}, {began}: {how}{took}{code}{limit}"


def detail_lines(details: Mapping[str, object]) -> list[str]:
    """The fields of an attempt; a text of several lines goes below its name."""
    lines: list[str] = []
    for field, value in details.items():
        name = _NAMES.get(field, field)
        if field == "messages" and isinstance(value, list):
            lines.append(f"    {name}:")
            for turn in value:
                lines += _turn_lines(turn)
        else:
            lines += _field_lines(name, value, "    ")
    return lines


def _turn_lines(turn: object) -> list[str]:
    """A message: its role and content. A message with more fields (tool calls, a type) is shown as JSON."""
    if isinstance(turn, dict) and set(turn) == {"role", "content"}:
        return _field_lines(str(turn["role"]), turn["content"], "      ")
    return [f"      {_text(turn)}"]


def _field_lines(name: str, value: object, indent: str) -> list[str]:
    lines = _text(value).splitlines()
    if len(lines) < 2:
        return [f"{indent}{name}: {''.join(lines).strip()}"]
    return [f"{indent}{name}:", *(f"{indent}  {line}" for line in lines)]


def _text(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
