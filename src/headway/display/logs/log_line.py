"""One event as one line of a log, as text or as JSON. Every line says which job, unit, lane and attempt it is about.

docs/reference/logs.md describes the keys; a test compares it with this file. A line has no control characters, whatever a provider
or a file put into it.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from headway.display.formatting import iso, short
from headway.display.report_json import fields_json
from headway.safe_text import escaped, one_line

LogLevel = Literal["debug", "info", "warning", "error"]
#: From the least to the most important.
LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")
LogForm = Literal["text", "json"]
#: The keys of every line of JSON, in this order. Those of the event follow.
KEYS: Final = ("at", "level", "event", "job", "unit", "lane", "attempt")
#: A text line keeps at most this many characters of a message.
LONGEST: Final = 2_000

#: The level of each event; of `noted` by what is noted.
EVENT_LEVELS: Final[dict[str, LogLevel]] = {
    "began": "info",
    "noted": "info",
    "progress": "info",
    "said": "info",
    "finished": "info",
    "failed": "error",
    "unit.started": "debug",
    "unit.succeeded": "debug",
    "unit.throttled": "debug",
    "unit.retrying": "debug",
    "unit.failed": "warning",
}
NOTED_LEVELS: Final[dict[str, LogLevel]] = {
    "held": "warning",
    "breaker_opened": "warning",
    "exhausted": "warning",
    "memory": "warning",
    "cluster": "warning",
    "usage": "warning",
    "stopped": "error",
}
#: A value that needs no quotes in a text line.
_BARE: Final = re.compile(r"[^\s\"=\\]+")


class LogIds(msgspec.Struct, frozen=True):
    """What a line is about; None where that does not apply."""

    job: str | None = None
    unit: str | None = None
    lane: str | None = None
    attempt: int | None = None


class LogLine(msgspec.Struct, frozen=True):
    """An event. `text` is for people; `facts` are the further keys of its JSON."""

    at_utc: float
    level: LogLevel
    event: str
    ids: LogIds
    text: str = ""
    facts: dict[str, Any] = {}

    def written(self, form: LogForm) -> str:
        """The line, without its end."""
        return self._json() if form == "json" else self._text()

    def _json(self) -> str:
        fields = {"at": iso(self.at_utc), "level": self.level, "event": self.event, **_fields(self.ids)}
        return escaped(msgspec.json.encode({**fields, **fields_json(self.facts)}).decode())

    def _text(self) -> str:
        """What and whom it is about, two blanks, and the message."""
        ids = [f"{name}={_value(value)}" for name, value in _fields(self.ids).items() if value is not None]
        message = one_line(short(self.text, LONGEST))
        return f"{' '.join([iso(self.at_utc), self.level, *ids])}  {message}"


def _fields(ids: LogIds) -> dict[str, Any]:
    return msgspec.structs.asdict(ids)


def _value(value: object) -> str:
    """An id: in quotes unless it is one word, so that it cannot look like another id."""
    text = one_line(str(value))
    return text if _BARE.fullmatch(text) else msgspec.json.encode(text).decode()


def is_logged(level: LogLevel, least: LogLevel) -> bool:
    """Whether a log that begins at `least` has lines of this level."""
    return LEVELS.index(level) >= LEVELS.index(least)
