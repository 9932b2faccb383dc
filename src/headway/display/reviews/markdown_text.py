"""Foreign text in Markdown: never markup, never a link, never the mention of a user.

A short text is inside `<code>` with its special characters as numbers, prose has them as numbers, and code is in a fence that it cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from headway.safe_text import visible

_MARKUP: Final = re.compile(r"[^\w \-./]|_")
#: In prose, what a backslash makes harmless: emphasis, code, links, tables, formulas, tags; and at the beginning, lists and headings.
_ESCAPED: Final = re.compile(r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|^[+\-=]|(?<=\d)[.)](?=\s)")
#: Mentions, issues, entities and addresses, which code hosts make links of in spite of a backslash.
_LINKED: Final = re.compile(r"[@#&]|(?<=\w):(?=//)|(?<=www)\.", re.IGNORECASE)
_FENCE: Final = re.compile("`{3,}")
_LANGUAGE: Final = re.compile(r"[a-z0-9]{1,10}")


def in_code(text: str) -> str:
    """A text in one line, as code."""
    line = visible(" ".join(text.split()))
    return f"<code>{_MARKUP.sub(_number, line)}</code>"


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
    longest = max((len(run) for run in _FENCE.findall(shown)), default=2)
    fence = "`" * (longest + 1)
    suffix = PurePosixPath(path).suffix[1:].lower()
    yield f"{fence}{suffix if _LANGUAGE.fullmatch(suffix) else 'text'}"
    yield shown
    yield fence
