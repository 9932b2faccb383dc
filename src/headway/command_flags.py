"""Commands that a text tells the user to type, with the flags that lead to the same settings and records: they work when they are copied.

PURE. Texts are written without these flags, and get them where they are printed: at the terminal and in the dashboard.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from headway.lazy_pattern import lazy_pattern

#: The commands that take --config and --db. (`headway top` is only named in its own title.)
WITH_FLAGS: Final = (
    "run", "eval", "review", "ask", "plan", "resume", "pause", "retry", "cancel", "budget", "jobs", "status", "attach", "ui", "logs", "show",
    "export", "report", "diff", "approve", "graph", "worktrees", "lanes", "cache stats", "cache clear", "cache why", "doctor", "serve", "submit",
)  # fmt: skip
#: Commands with commands of their own: their flags go behind the second word.
_INNER: Final = r"worktrees (?:show|remove)(?!\S)"
_COMMAND: Final = lazy_pattern(rf"\bheadway (?:{_INNER}|(?:{'|'.join(WITH_FLAGS)})(?![\w-]))")
#: Where a command in a sentence ends at the latest.
_END: Final = lazy_pattern(r"[;\n]|\bheadway ")


def with_flags(text: str, flags: Sequence[str]) -> str:
    """A text whose commands have these flags with their values, behind their names. A flag that a command has already is not added."""
    if not flags or "headway " not in text:
        return text
    pairs = list(zip(flags[::2], flags[1::2], strict=True))

    def placed(match: re.Match[str]) -> str:
        rest = _rest(text, match)
        added = [word for name, value in pairs if f" {name} " not in rest for word in (name, value)]
        return " ".join([match[0], *([shlex.join(added)] if added else [])])

    return _COMMAND.sub(placed, text)


def _rest(text: str, command: re.Match[str]) -> str:
    """What follows the name of a command, up to its end: a quotation mark, if one is before it."""
    if text[: command.start()].endswith("'"):
        return text[command.end() :].partition("'")[0]
    end = _END.search(text, command.end())
    return text[command.end() : end.start() if end else len(text)]
