"""Keys: kept from being shown, and blotted out of whatever comes back.

`Scrubber` is the one place that knows how. What goes on record passes through it where it enters: answers and refusals of
servers in `http.adapter`, those of functions in `executors.python`, the ends of Python calls in `engine.calls`, their values in
`api.value_codec`, and what an attempt leaves behind in `executors.details`. Requests are sent and kept as they were given.
"""

from __future__ import annotations

import html
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

#: A shorter key is a word that a local server wants to hear, and stands in good answers.
SHORTEST_SECRET: Final = 8
#: The same for a variable that is no provider's key: DESIGN §9.
SHORTEST_VALUE: Final = 16
#: How much of a secret's beginning, and of its end, is told from chance. Vendors' keys begin alike ("sk-ant-api03-").
HEAD: Final = 16
TAIL: Final = 12

#: A part of a secret as long as this is looked for before all its spellings are.
_SHORTEST_ANCHOR: Final = 4

REDACTED: Final = "***"
#: How the names of variables end that hold secrets, in capitals.
_SECRET_ENDS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
#: What neither URLs nor JSON escape.
_UNCHANGED: Final = re.compile(r"[A-Za-z0-9_.~-]+", re.ASCII)
#: Characters that some writers spell in a way of their own: a form field, and a quote inside of a shell's quotes.
_BY_HAND: Final = {
    " ": (rb"\+",),
    "'": (rb"'\\{0,3}\"'\\{0,3}\"'", rb"'\\''"),
    "\n": (rb"\\{1,3}n",),
    "\r": (rb"\\{1,3}r",),
}
_NUMBER: Final = re.compile(r"[0-9.eE+-]+", re.ASCII)
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
        return REDACTED

    def reveal(self) -> str:
        """The key itself."""
        return self._text


class Scrubber:
    """Blots secrets out of what goes on record: as they are, as URLs, HTML, shells and Python's `repr` write them, and as
    JSON may: with any of their letters escaped. Of a secret of several lines also each line.
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
        #: One of these is in every text that has a secret, however it is written: most texts are searched for no more.
        self._anchors = tuple(
            sorted(
                {anchor.encode("utf-8", "surrogateescape") for secret in known for anchor in _anchors(secret)}
            )
        )
        #: The longest first, for what is written in JSON escapes; patterns are made when they are needed.
        self._secrets = tuple(
            (secret, secret.encode("utf-8", "surrogateescape"))
            for secret in sorted(known, key=lambda secret: (-len(secret), secret))
        )
        self._patterns: dict[str, re.Pattern[bytes]] = {}
        #: For the other spellings of those that have characters which are written in several ways.
        self._spelled = tuple(secret for secret, _ in self._secrets if not _UNCHANGED.fullmatch(secret))
        self._spellings: dict[str, re.Pattern[bytes]] = {}
        #: Whole secrets of which a part is enough to be blotted out of a message.
        self._long = tuple(sorted(secret for secret in known if len(secret) > HEAD))

    @classmethod
    def of_environment(cls) -> Scrubber:
        """For the secrets that the environment of this process holds."""
        return cls(secrets_in_environment(os.environ))

    def finds(self, body: bytes) -> bool:
        """Whether there may be one in it."""
        for anchor in self._anchors:
            if anchor in body:
                return True
        return bool(self._secrets) and has_escapes(body)

    def body(self, body: bytes) -> bytes:
        """The body without secrets; the same object where there are none. JSON stays JSON."""
        for anchor in self._anchors:
            if anchor in body:
                body = self._without(body)
                break
        return self._without_escaped(body) if has_escapes(body) else body

    def _without_escaped(self, body: bytes) -> bytes:
        """Without secrets in JSON escapes; the same object where there are none."""
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
        """The beginning of a body without them. Where it was cut off, a piece of one may stand at its end: that goes too."""
        if len(body) > longest:
            begun = (_begun(form, body) for _, form, _ in self._forms)
            escaped = (cut_secret(form, body) for _, form in self._secrets)
            body = body[: len(body) - max((*begun, *escaped), default=0)]
        return self.body(body)[:longest]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form, _, _ in self._forms:
            text = text.replace(form, REDACTED)
        if self._spelled:
            text = self._without(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if "\\" in text and has_escapes(data := text.encode("utf-8", "surrogatepass")):
            text = self._without_escaped(data).decode("utf-8", "surrogatepass")
        return text

    def message(self, text: str) -> str:
        """The same for a text that may have been cut in the middle of a secret: long parts are blotted out, too."""
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
        """An outcome whose message has no secrets."""
        message = self.message(outcome.message)
        return outcome if message == outcome.message else msgspec.structs.replace(outcome, message=message)

    def rate_limit(self, limit: RateLimit | None) -> RateLimit | None:
        """The same for a rate limit."""
        return None if limit is None else msgspec.structs.replace(limit, message=self.message(limit.message))


#: Blots nothing out.
NO_SECRETS: Final = Scrubber(())


def _forms(secret: str) -> set[str]:
    """How a secret may be written: each also inside of a JSON text, where a worker quotes JSON."""
    quoted = quote(secret, safe="", errors="replace")
    plain = {secret, quoted, repr(secret)[1:-1], " ".join(secret.split()), *_in_json(secret)}
    return {again for form in plain for again in (form, *_in_json(form)) if len(form) >= SHORTEST_SECRET}


def _anchors(secret: str) -> set[str]:
    """The longest part of a secret that is the same in all its forms. Where that is short, every text is searched."""
    longest = max(_UNCHANGED.findall(secret), key=len, default="")
    return {longest if len(longest) >= _SHORTEST_ANCHOR else ""}


def _lines(secret: str) -> list[str]:
    """The lines of a secret of several, which may be indented, quoted or joined; not those that name a kind of key."""
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) < 2:
        return []
    inner = [line for line in lines if not line.startswith("-----")]
    return [*(line for line in inner if len(line) >= SHORTEST_VALUE), "".join(inner)]


def _spelling_pattern(secret: str) -> re.Pattern[bytes]:
    """A secret in which each character that is not always written as itself is written in any of the usual ways."""
    return re.compile(b"".join(_spellings_of(character) for character in secret))


def _spellings_of(character: str) -> bytes:
    """A character as itself, behind backslashes, as a URL writes it (%2f), as HTML does (&#47;), or as a shell does."""
    data = character.encode("utf-8", "surrogateescape")
    if _UNCHANGED.fullmatch(character):
        return re.escape(data)
    in_url = b"".join(b"%%%02x" % byte for byte in data)
    in_html = b"&#(?:x0*%x|0*%d);" % (ord(character), ord(character))
    named = html.escape(character, quote=True).encode("utf-8", "surrogateescape")
    ways = [rb"\\{0,3}" + re.escape(data), b"(?i:%s|%s)" % (in_url, in_html), *_BY_HAND.get(character, ())]
    if named != data:
        ways.append(re.escape(named))
    return b"(?:%s)" % b"|".join(ways)


def _in_json(text: str) -> tuple[str, ...]:
    """Inside of a JSON text; some writers escape slashes, too."""
    plain = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
    return (*plain, *(form.replace("/", "\\/") for form in plain))


def _blot(form: str) -> bytes:
    """What stands in its place in JSON: a number stays a number."""
    return b"9" * len(form) if _NUMBER.fullmatch(form) else REDACTED.encode()


def _without_start(text: str, secret: str) -> str:
    """Without the beginning of a secret whose rest was cut off."""
    at = text.find(secret[:HEAD])
    while at >= 0:
        end = HEAD
        while end < len(secret) and text[at + end : at + end + 1] == secret[end]:
            end += 1
        text = f"{text[:at]}{REDACTED}{text[at + end :]}"
        at = text.find(secret[:HEAD], at + len(REDACTED))
    return text


def _without_end(text: str, secret: str) -> str:
    """Without the end of a secret whose beginning was cut off."""
    at = text.find(secret[-TAIL:])
    while at >= 0:
        start, left = at, len(secret) - TAIL
        while left and start and text[start - 1] == secret[left - 1]:
            start, left = start - 1, left - 1
        text = f"{text[:start]}{REDACTED}{text[at + TAIL :]}"
        at = text.find(secret[-TAIL:], start + len(REDACTED))
    return text


def secrets_in_environment(environ: Mapping[str, str], keys: Iterable[str] = ()) -> list[str]:
    """What must not go on record: the given keys, and the values of variables that are named as secrets are."""
    named = (value.strip() for name, value in environ.items() if is_secret_variable(name))
    return [*keys, *(value for value in named if len(value) >= SHORTEST_VALUE)]


def _begun(form: bytes, body: bytes) -> int:
    """How many bytes at the end of a body are the beginning of a secret that was cut off."""
    return next((n for n in range(len(form) - 1, 0, -1) if body.endswith(form[:n])), 0)


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret."""
    return name.upper().endswith(_SECRET_ENDS)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_in_headers(headers: Mapping[str, str]) -> list[str]:
    """What of the further headers is secret: by their names."""
    return [value.removeprefix("Bearer ") for name, value in headers.items() if is_secret_header(name)]
