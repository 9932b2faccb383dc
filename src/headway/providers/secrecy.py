"""Keys: kept from being shown, and blotted out of whatever comes back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from headway.errors import ConfigError

#: A shorter key is a word that a local server wants to hear, and stands in good answers.
SHORTEST_SECRET: Final = 8

BLOT: Final = "***"
_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class Secret:
    """A key in memory: it shows itself to nobody who does not ask."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not (text.isascii() and (text.isprintable() or not text)):
            raise ConfigError("the key has characters that no key has", hint="check how it was copied")
        self._text = text

    def __repr__(self) -> str:
        return BLOT

    def reveal(self) -> str:
        """The key itself."""
        return self._text


class Scrubber:
    """Blots secrets out of whatever a server sends back, in the ways that servers write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {
            form
            for secret in secrets
            if len(secret) >= SHORTEST_SECRET
            for form in (secret, secret.replace("/", "\\/"), quote(secret, safe=""))
        }
        self._forms = tuple((form, form.encode()) for form in sorted(forms, key=len, reverse=True))

    def body(self, body: bytes) -> bytes:
        """A body without them."""
        for _, form in self._forms:
            if form in body:
                body = body.replace(form, BLOT.encode())
        return body

    def beginning(self, body: bytes, longest: int) -> bytes:
        """The beginning of a body without them. Where it was cut off, a piece of one may stand at its end: that goes too."""
        if len(body) > longest:
            body = body[: len(body) - max((_begun(form, body) for _, form in self._forms), default=0)]
        return self.body(body)[:longest]

    def text(self, text: str) -> str:
        """A text without them."""
        for form, _ in self._forms:
            text = text.replace(form, BLOT)
        return text


def _begun(form: bytes, body: bytes) -> int:
    """How many bytes at the end of a body are the beginning of a secret that was cut off."""
    return next((n for n in range(len(form) - 1, 0, -1) if body.endswith(form[:n])), 0)


def is_secret_name(name: str) -> bool:
    """Whether a header of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """What of the further headers is secret: by their names."""
    return [value.removeprefix("Bearer ") for name, value in headers.items() if is_secret_name(name)]
