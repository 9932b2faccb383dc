"""Foreign text in Markdown: never markup, never a link, never the mention of a user.

Names and code are between backticks, more of them than any row in the text, and prose is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from headway.safe_text import visible

#: In prose, what a backslash makes harmless: emphasis, code, links, tables, formulas, tags; and at the beginning, lists and headings.
_ESCAPED: Final = re.compile(r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|^[+\-=]|(?<=\d)[.)](?=\s)")
#: Mentions, issues, entities and addresses, which code hosts make links of in spite of a backslash.
_LINKED: Final = re.compile(r"[@#&]|(?<=\w):(?=//)|(?<=www)\.", re.IGNORECASE)
_RUN: Final = re.compile("`+")
_LANGUAGE: Final = re.compile(r"[a-z0-9]{1,10}")


def in_code(text: str) -> str:
    """A text in one line, as code. Nothing is markup in it, and code hosts make no mentions and links of it."""
    line = visible(" ".join(text.split()))
    longest = max((len(run) for run in _RUN.findall(line)), default=0)
    if not line or not longest:
        return line and f"`{line}`"
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}"


def in_cell(text: str) -> str:
    """Like `in_code`, for a cell of a table."""
    return in_code(text).replace("|", "\\|")


def prose(text: str) -> str:
    """A text in one paragraph, without any markup. What a model puts between backticks is code."""
    parts = visible(" ".join(text.split())).split("`")
    if len(parts) % 2 == 0:
        return _plain("`".join(parts))
    return "".join(in_code(part) if place % 2 else _plain(part) for place, part in enumerate(parts) if part)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\\\g<0>", _LINKED.sub(_number, text))


def _number(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def fenced(text: str, path: str = "") -> Iterator[str]:
    """Lines of a block of code. The end of the path says which language it is."""
    shown = visible(text)
    longest = max((len(run) for run in _RUN.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    suffix = PurePosixPath(path).suffix[1:].lower()
    yield f"{fence}{suffix if _LANGUAGE.fullmatch(suffix) else 'text'}"
    yield shown
    yield fence
