"""Removes keys from everything that is recorded.

Recorded data passes through a `Scrubber` where it enters: responses of servers in `http.http_adapter`, results of functions in
`executors.python_adapter`, outcomes of Python calls in `engine.calls`, their values in `api.value_codec`, and further details of
attempts in `executors.attempt_details`. Requests are sent and stored as they were given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from headway.core.model import Outcome
from headway.errors import ConfigError
from headway.providers.adapter import RateLimit
from headway.providers.json_escapes import cut_secret, escaped_pattern, has_escapes, unescaped

#: A shorter key is a placeholder for a local server, and may occur in good answers.
SHORTEST_SECRET: Final = 8
#: The same for an environment variable that is not a provider's key: DESIGN §9.
SHORTEST_VALUE: Final = 16
#: How many characters of a secret's beginning, or of its end, are no coincidence. Keys of one vendor begin alike
#: ("sk-ant-api03-").
HEAD: Final = 16
TAIL: Final = 12
#: Fewer characters suffice where the text shows that they are the beginning of something longer: programs print keys as `sk-abc12…` or
#: `sk-abc12****wxyz`.
MASKED_HEAD: Final = 7
_MASK: Final = re.compile("(?:\u2026|[.]{3,}|[*]+|\u2022+)")

#: A part of a secret of this length is searched for first, before all its spellings.
_SHORTEST_ANCHOR: Final = 4

REDACTED: Final = "***"
#: The endings of names of secret variables, in capitals.
_SECRET_ENDS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
#: Characters that neither URLs nor JSON escape.
_UNCHANGED: Final = re.compile(r"[A-Za-z0-9_.~-]+", re.ASCII)
#: Characters with further spellings: a form field, and a quote inside a shell's quotes.
_BY_HAND: Final = {
    " ": (rb"\+",),
    "'": (rb"'\\{0,3}\"'\\{0,3}\"'", rb"'\\''"),
    "\n": (rb"\\{1,3}n",),
    "\r": (rb"\\{1,3}r",),
}
#: As `html.escape` writes them; importing `html` takes a millisecond.
_HTML_NAMES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
_NUMBER: Final = re.compile(r"[0-9.eE+-]+", re.ASCII)
_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class Secret:
    """A key in memory. Its `repr` does not show it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not (text.isascii() and (text.isprintable() or not text)):
            raise ConfigError(
                "the key has characters that are not allowed in a key", hint="check how it was copied"
            )
        self._text = text

    def __repr__(self) -> str:
        return REDACTED

    def reveal(self) -> str:
        """The key itself."""
        return self._text


class Scrubber:
    """Removes secrets: as they are, as URLs, HTML, shells and Python's `repr` write them, and in JSON with any of their
    characters escaped. Of a secret with several lines, each line is removed, too.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {
            part for secret in secrets for part in (secret, *_lines(secret)) if len(part) >= SHORTEST_SECRET
        }
        forms = {form for secret in known for form in _forms(secret)}
        self._forms = tuple(
            (form, form.encode("utf-8", "surrogateescape"), _blot(form))
            for form in sorted(forms, key=lambda form: (-len(form), form))
        )
        #: Every text with a secret contains one of these, however it is written. Most texts are searched for these only.
        self._anchors = tuple(
            sorted(
                {anchor.encode("utf-8", "surrogateescape") for secret in known for anchor in _anchors(secret)}
            )
        )
        #: The longest first, for JSON escapes. Patterns are compiled when they are needed.
        self._secrets = tuple(
            (secret, secret.encode("utf-8", "surrogateescape"))
            for secret in sorted(known, key=lambda secret: (-len(secret), secret))
        )
        self._patterns: dict[str, re.Pattern[bytes]] = {}
        #: Secrets with characters that have several spellings, and the patterns for them.
        self._spelled = tuple(secret for secret, _ in self._secrets if not _UNCHANGED.fullmatch(secret))
        self._spellings: dict[str, re.Pattern[bytes]] = {}
        #: Secrets so long that a part of them is removed from messages, too.
        self._long = tuple(sorted(secret for secret in known if len(secret) > HEAD))

    @classmethod
    def of_environment(cls) -> Scrubber:
        """A scrubber for the secrets in this process's environment."""
        return cls(secrets_in_environment(os.environ))

    def finds(self, body: bytes) -> bool:
        """Whether the body may contain a secret."""
        for anchor in self._anchors:
            if anchor in body:
                return True
        return bool(self._secrets) and has_escapes(body)

    def body(self, body: bytes) -> bytes:
        """The body without secrets; the same object if there are none. JSON stays JSON."""
        for anchor in self._anchors:
            if anchor in body:
                body = self._without(body)
                break
        return self._without_escaped(body) if has_escapes(body) else body

    def _without_escaped(self, body: bytes) -> bytes:
        """The body without secrets in JSON escapes; the same object if there are none."""
        plain = unescaped(body)
        for secret, form in self._secrets:
            if form in plain:
                if secret not in self._patterns:
                    self._patterns[secret] = escaped_pattern(secret)
                body = self._patterns[secret].sub(REDACTED.encode(), body)
        return body

    def _without(self, body: bytes) -> bytes:
        for _, form, blot in self._forms:
            if form in body:
                body = body.replace(form, blot)
        for secret in self._spelled:
            if secret not in self._spellings:
                self._spellings[secret] = _spelling_pattern(secret)
            body = self._spellings[secret].sub(REDACTED.encode(), body)
        return body

    def beginning(self, body: bytes, longest: int) -> bytes:
        """The first `longest` bytes of a body, without secrets. A secret that was cut off at the end is removed, too."""
        if len(body) > longest:
            begun = (_begun(form, body) for _, form, _ in self._forms)
            escaped = (cut_secret(form, body) for _, form in self._secrets)
            body = body[: len(body) - max((*begun, *escaped), default=0)]
        return self.body(body)[:longest]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret, _ in self._secrets:
            if secret[:MASKED_HEAD] in text:
                return self._without_any(text)
        return self._without_any(text) if self.finds(text.encode("utf-8", "surrogatepass")) else text

    def _without_any(self, text: str) -> str:
        for form, _, _ in self._forms:
            text = text.replace(form, REDACTED)
        for secret, _ in self._secrets:
            if secret[:MASKED_HEAD] in text:
                text = _without_masked(text, secret)
        if self._spelled:
            text = self._without(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if "\\" in text and has_escapes(data := text.encode("utf-8", "surrogatepass")):
            text = self._without_escaped(data).decode("utf-8", "surrogatepass")
        return text

    def unfinished(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret."""
        return max((_suffix_begins(text, secret) for secret, _ in self._secrets), default=0)

    def message(self, text: str) -> str:
        """As `text`, for a text that may have been cut inside a secret: long parts of secrets are removed, too."""
        text = self._without_parts(self.text(text))
        if "\\" in text:
            plain = unescaped(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
            cleaned = self._without_parts(plain)
            return text if cleaned == plain else cleaned
        return text

    def _without_parts(self, text: str) -> str:
        for secret in self._long:
            text = _without_end(_without_start(text, secret), secret)
        return text

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with secrets removed from its message."""
        message = self.message(outcome.message)
        return outcome if message == outcome.message else msgspec.structs.replace(outcome, message=message)

    def rate_limit(self, limit: RateLimit | None) -> RateLimit | None:
        """The rate limit with secrets removed from its message."""
        return None if limit is None else msgspec.structs.replace(limit, message=self.message(limit.message))


#: Removes nothing.
NO_SECRETS: Final = Scrubber(())


def _forms(secret: str) -> set[str]:
    """The ways to write a secret; each also inside a JSON string, as workers quote JSON."""
    quoted = quote(secret, safe="", errors="replace")
    plain = {secret, quoted, repr(secret)[1:-1], " ".join(secret.split()), *_in_json(secret)}
    return {again for form in plain for again in (form, *_in_json(form)) if len(form) >= SHORTEST_SECRET}


def _anchors(secret: str) -> set[str]:
    """The longest part of a secret that is the same in all its forms; empty if that is short, so every text is searched."""
    longest = max(_UNCHANGED.findall(secret), key=len, default="")
    return {longest if len(longest) >= _SHORTEST_ANCHOR else ""}


def _lines(secret: str) -> list[str]:
    """The lines of a secret with several: one by one and joined. Lines that name the kind of key ("-----BEGIN") are left out."""
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) < 2:
        return []
    inner = [line for line in lines if not line.startswith("-----")]
    return [*(line for line in inner if len(line) >= SHORTEST_VALUE), "".join(inner)]


def _spelling_pattern(secret: str) -> re.Pattern[bytes]:
    """A pattern for a secret in which each special character may have any of its spellings."""
    return re.compile(b"".join(_spellings_of(character) for character in secret))


def _spellings_of(character: str) -> bytes:
    """A pattern for a character: itself, after backslashes, as in a URL (%2f), in HTML (&#47;), or in a shell."""
    data = character.encode("utf-8", "surrogateescape")
    if _UNCHANGED.fullmatch(character):
        return re.escape(data)
    in_url = b"".join(b"%%%02x" % byte for byte in data)
    in_html = b"&#(?:x0*%x|0*%d);" % (ord(character), ord(character))
    named = _HTML_NAMES.get(character, character).encode("utf-8", "surrogateescape")
    ways = [rb"\\{0,3}" + re.escape(data), b"(?i:%s|%s)" % (in_url, in_html), *_BY_HAND.get(character, ())]
    if named != data:
        ways.append(re.escape(named))
    return b"(?:%s)" % b"|".join(ways)


def _in_json(text: str) -> tuple[str, ...]:
    """The text as it is written inside a JSON string; some writers escape slashes, too."""
    plain = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
    return (*plain, *(form.replace("/", "\\/") for form in plain))


def _blot(form: str) -> bytes:
    """The replacement in JSON: a number stays a number."""
    return b"9" * len(form) if _NUMBER.fullmatch(form) else REDACTED.encode()


def _without_start(text: str, secret: str) -> str:
    """The text without the beginning of a secret whose rest was cut off."""
    at = text.find(secret[:HEAD])
    while at >= 0:
        text = f"{text[:at]}{REDACTED}{text[at + _common_start(text, at, secret) :]}"
        at = text.find(secret[:HEAD], at + len(REDACTED))
    return text


def _without_masked(text: str, secret: str) -> str:
    """The text without the visible ends of a secret whose middle a program has replaced by dots or asterisks. Dots at the end stay:
    the text may have been cut there.
    """
    head = secret[:MASKED_HEAD]
    at = text.find(head)
    while at >= 0:
        visible = _common_start(text, at, secret)
        mask = _MASK.match(text, at + visible)
        if mask is None:
            at = text.find(head, at + 1)
            continue
        tail = next(
            n
            for n in range(len(secret) - visible, -1, -1)
            if text.startswith(secret[len(secret) - n :], mask.end())
        )
        shown = mask.start() if mask.group()[0] in "…." and not tail else mask.end() + tail
        text = f"{text[:at]}{REDACTED}{text[shown:]}"
        at = text.find(head, at + len(REDACTED))
    return text


def _common_start(text: str, at: int, secret: str) -> int:
    """How many characters of the text from a place on are the beginning of a secret."""
    return next(
        (n for n, character in enumerate(secret) if text[at + n : at + n + 1] != character), len(secret)
    )


def _without_end(text: str, secret: str) -> str:
    """The text without the end of a secret whose beginning was cut off."""
    at = text.find(secret[-TAIL:])
    while at >= 0:
        start, left = at, len(secret) - TAIL
        while left and start and text[start - 1] == secret[left - 1]:
            start, left = start - 1, left - 1
        text = f"{text[:start]}{REDACTED}{text[at + TAIL :]}"
        at = text.find(secret[-TAIL:], start + len(REDACTED))
    return text


def secrets_in_environment(environ: Mapping[str, str], keys: Iterable[str] = ()) -> list[str]:
    """The given keys, and the values of variables whose names say that they are secret."""
    named = (value.strip() for name, value in environ.items() if is_secret_variable(name))
    return [*keys, *(value for value in named if len(value) >= SHORTEST_VALUE)]


def _begun(form: bytes, body: bytes) -> int:
    """How many bytes at the end of a body are the beginning of a secret that was cut off."""
    return next((n for n in range(len(form) - 1, 0, -1) if body.endswith(form[:n])), 0)


def _suffix_begins(text: str, secret: str) -> int:
    """The length of the longest end of the text with which a secret begins."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(text[at:]):
            return len(text) - at
        at = text.find(secret[0], at + 1)
    return 0


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret."""
    return name.upper().endswith(_SECRET_ENDS)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_in_headers(headers: Mapping[str, str]) -> list[str]:
    """The values of headers whose names say that they are secret."""
    return [value.removeprefix("Bearer ") for name, value in headers.items() if is_secret_header(name)]
