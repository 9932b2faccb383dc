"""The question of a unit, read back from its request: the file, the lines, and what the model has answered already.

Answers are checked while others arrive, where only the request is at hand.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headway.reviews.findings.source_text import SourceText

_NUMBERED: Final = re.compile(r" *(\d+)\| ?")
_FILE: Final = "File: "


def turns_in(body: bytes) -> list[tuple[str, str]]:
    """The texts in a request, each with its role: system prompts are left out. The prompt of a program is one text of the user."""
    request = msgspec.json.decode(body)
    if isinstance(request.get("prompt"), str):
        return [("user", request["prompt"])]
    messages = request.get("messages") or request.get("contents") or ()
    return [(one["role"], _text_of(one.get("content", one.get("parts")))) for one in messages
            if one.get("role") not in ("system", "developer")]  # fmt: skip


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def source_in(question: str) -> SourceText:
    """The lines that a question is about, at their places in the file. The lines before them are empty."""
    path, first = "", 1
    lines: list[str] = []
    for line in question.split("\n"):
        if (number := _NUMBERED.match(line)) is not None:
            first = first if lines else int(number[1])
            lines.append(line[number.end() :])
        elif lines:
            break  # What follows the lines is not of the file.
        elif not path and line.startswith(_FILE):
            path = line.removeprefix(_FILE)
    return SourceText(path, "\n" * (first - 1) + "\n".join(lines) + "\n")
