"""Where notifications go: an address that takes a POST, or a program that takes standard input.

An address may be a secret (chat services put a key into it): it is never printed, and `$NAME` names a variable that has it.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from headway.config.settings import is_loopback
from headway.errors import UsageError


class WebAddress(msgspec.Struct, frozen=True):
    """A POST of JSON."""

    url: str

    @property
    def shown(self) -> str:
        """Its host: the rest may be a secret."""
        return urlsplit(self.url).hostname or "an address"


class NotifiedProgram(msgspec.Struct, frozen=True):
    """A program with its arguments, run without a shell."""

    argv: tuple[str, ...]

    @property
    def shown(self) -> str:
        return self.argv[0]


Target = WebAddress | NotifiedProgram


def parse_target(text: str, environ: Mapping[str, str], place: str = "--notify") -> Target:
    """A target from the command line or the file. `place` is for errors, which never show the text."""
    if text.startswith("$"):
        name = text[1:]
        text, place = environ.get(name, ""), f"{place} ${name}"
        if not text:
            raise UsageError(f"{place}: the variable is not set", hint="set it to an address or a command")
    if text.startswith(("http://", "https://")):
        return _address(text, place)
    try:
        argv = tuple(shlex.split(text))
    except ValueError:
        argv = ()
    if not argv:
        raise UsageError(
            f"{place}: expected an address or a command", hint="for example https://…, or 'notify-send done'"
        )
    if shutil.which(argv[0]) is None:
        raise UsageError(f"{place}: there is no program '{argv[0]}'", hint="an address begins with https://")
    return NotifiedProgram(argv)


def _address(text: str, place: str) -> WebAddress:
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or any(character <= " " for character in text):
        raise UsageError(f"{place}: not a web address", hint="for example https://hooks.example.com/…")
    if parts.scheme == "http" and not is_loopback(text):
        raise UsageError(
            f"{place}: {parts.hostname} would get it over plain http",
            hint="use https; http is for this machine",
        )
    return WebAddress(text)
