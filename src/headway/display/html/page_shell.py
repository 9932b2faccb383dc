"""The shell of a page: one HTML file with its styles, scripts and data, which loads nothing.

A page is written as a stream, so that a large one needs no memory. Data are blocks of JSON in script elements of a type that browsers do not run. No text
of others is ever markup: in a block every `<` is escaped, so that nothing in it can end its element, and the scripts make text nodes only.
The content security policy allows the page's own style and script, by their hashes, and forbids everything else: even markup that found its way into the
page could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from math import isfinite
from typing import Any, BinaryIO, Final

import msgspec

from headway.safe_text import escaped, one_line, visible

_ASSETS: Final = "assets"
#: How much of the beginning of a file says whether it is a page of a job.
START_BYTES: Final = 4_096
_NO_SCRIPT: Final = "This report needs JavaScript. It runs in your browser only: nothing is loaded or sent."


class HtmlPage(msgspec.Struct, frozen=True):
    """A page before its data: its title, the job that it reports, and the names of its assets in the order in which they apply."""

    title: str
    job: str
    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    #: Markup that is there without a script. What makes it has escaped all text.
    markup: str = ""


class DataBlock(msgspec.Struct, frozen=True):
    """A part of a page's data: plain JSON values under a name."""

    name: str
    value: Any


def write_page(file: BinaryIO, page: HtmlPage, blocks: Iterable[DataBlock]) -> None:
    """Write a page and its data, block by block."""
    style = "\n".join(_asset(name) for name in page.styles)
    script = _script(page.scripts)
    file.write(_head(page, style, script).encode())
    file.write(f'<body><svg id="shapes" width="0" height="0" aria-hidden="true"></svg><noscript>{_NO_SCRIPT}</noscript>\n'.encode())  # fmt: skip
    file.write(page.markup.encode())
    for block in blocks:
        file.write(f'<script type="application/json" id="data-{html.escape(block.name)}">'.encode())
        file.write(script_json(block.value).encode())
        file.write(b"</script>\n")
    file.write(f"<script>{script}</script></body></html>\n".encode())


def script_json(value: Any) -> str:
    """A value as JSON that is safe inside a script element. Lone surrogates and marks of direction are escaped, too."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return escaped(text).replace("<", "\\u003c")


def bounded_text(value: Any, most: int, indent: int | None = 2) -> str:
    """A value as text of at most `most` characters: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        text = value
    elif value is None:
        text = ""
    else:
        text = _json_text(value, indent)
    return text if len(text) <= most else text[: most - 1] + "…"


def _json_text(value: Any, indent: int | None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return visible(str(value))


def is_page_of(start: bytes, job: str) -> bool:
    """Whether a file that begins like this is a page of the job: it may be replaced."""
    return _origin(job).encode() in start


def shortened(values: list[Any]) -> list[Any]:
    """A list without its trailing empty values: the scripts know their defaults."""
    while values and values[-1] in ("", 0, None, []):
        values.pop()
    return values


def page_number(number: float | None, digits: int) -> float | None:
    """A number of a page, rounded. None where JSON has no such number."""
    if number is None or not isfinite(number):
        return None
    rounded = round(number, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _origin(job: str) -> str:
    """Says which job a page is of."""
    return f'<meta name="generator" content="headway report {html.escape(one_line(job))}">'


def _head(page: HtmlPage, style: str, script: str) -> str:
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"{_origin(page.job)}<title>{html.escape(one_line(page.title))}</title>\n<style>{style}</style></head>\n"
    )


def _script(names: tuple[str, ...]) -> str:
    parts = "\n".join(_asset(name) for name in names)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return resources.files(__package__).joinpath(_ASSETS, name).read_text(encoding="utf-8")
