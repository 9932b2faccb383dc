"""The files of the page, read once when the server starts. A request names one of them or gets nothing: no path reaches the disk."""

from __future__ import annotations

import hashlib
import html
import shlex
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

_TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "woff2": "font/woff2",
}
#: The name of the page itself.
SHELL: Final = "index.html"


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    type: str
    tag: str


def page_files(flags: Sequence[str] = ()) -> dict[str, PageFile]:
    """All files of the page, by their path below `assets`. Others (licences, notes) are left out.

    `flags` are those with which a command finds the same records: the page shows them in its commands.
    """
    root = resources.files("headway.dashboard").joinpath("assets")
    files = dict(_files(root, "")) if root.is_dir() else {}
    if flags and SHELL in files:
        attribute = f'data-flags="{html.escape(shlex.join(flags))}"'
        files[SHELL] = _file(files[SHELL].content.replace(b"<body>", f"<body {attribute}>".encode()), "html")
    return files


def _file(content: bytes, kind: str) -> PageFile:
    return PageFile(content, _TYPES[kind], f'"{hashlib.sha256(content).hexdigest()[:20]}"')


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, PageFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{path}{entry.name}/")
        elif (kind := entry.name.rpartition(".")[2]) in _TYPES:
            yield f"{path}{entry.name}", _file(entry.read_bytes(), kind)
