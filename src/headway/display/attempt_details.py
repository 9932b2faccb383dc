"""What an attempt left behind, below its line in `headway show`: the prompt, the session, the conversation, output."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headway.display.terminal import echo

#: How the record's fields are called where people read them.
_NAMES: Final = {"session_id": "session", "messages": "conversation"}
#: Control characters that a terminal would act on; line breaks and tabs are printed.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show_details(details: dict[str, Any]) -> None:
    """Field by field; a text of several lines goes below its name."""
    for field, value in details.items():
        name = _NAMES.get(field, field)
        if field == "messages" and isinstance(value, list):
            echo(f"    {name}:")
            for turn in value:
                _show_turn(turn)
        else:
            _show(name, value, "    ")


def _show_turn(turn: Any) -> None:
    """A message: who said what. Whatever else it has (tool calls, a type) stays JSON."""
    if isinstance(turn, dict) and set(turn) == {"role", "content"}:
        _show(str(turn["role"]), turn["content"], "      ")
    else:
        echo(f"      {_text(turn)}")


def _show(name: str, value: Any, indent: str) -> None:
    lines = _text(value).splitlines()
    if len(lines) < 2:
        echo(f"{indent}{name}: {''.join(lines).strip()}")
        return
    echo(f"{indent}{name}:")
    for line in lines:
        echo(f"{indent}  {line}")


def _text(value: Any) -> str:
    said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", said.replace("\r\n", "\n"))
