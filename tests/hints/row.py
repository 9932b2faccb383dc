"""One row of the table: an input, and every fact that must be read from it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from headway.core.model import DAY_S, MINUTE_S, Dimension, Kind, LimitReport
from headway.providers.limits.hints import RawResponse

#: A Sunday morning in Europe, midnight on the American west coast.
NOW: Final = datetime(2026, 11, 15, 8, 0, 0, tzinfo=UTC).timestamp()
DATE: Final = "Sun, 15 Nov 2026 08:00:00 GMT"

REQUESTS, TOKENS, INPUT, OUTPUT = Dimension.REQUESTS, Dimension.TOKENS, Dimension.INPUT, Dimension.OUTPUT
MINUTE, DAY = MINUTE_S, DAY_S


class Row(NamedTuple):
    """The expected facts. Those left out must be absent: no wait, no dimension, no reports. A `code` of None is not compared."""

    name: str
    profile: str
    seen: RawResponse
    kind: Kind | None
    wait: float | None = None
    dimension: Dimension | None = None
    reports: tuple[LimitReport, ...] = ()
    code: str | None = None
    step: float | None = None


def http(status: int, body: Any = None, **headers: str) -> RawResponse:
    """A response; header names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return RawResponse(status, named, body if isinstance(body, str | bytes | None) else json.dumps(body))


def cli(*events: Any, text: str = "", status: int | None = None) -> RawResponse:
    """The structured output of an agent, and its standard error."""
    body = "\n".join(event if isinstance(event, str) else json.dumps(event) for event in events)
    return RawResponse(status, body=body or None, text=text, origin="cli")


def raised(text: str, status: int | None = None, body: Any = None, **headers: str) -> RawResponse:
    """An exception."""
    seen = http(status or 0, body, **headers)
    return RawResponse(status, seen.headers, seen.body, text, "exception")


def told(dimension: Dimension, limit: float, left: float | None, period_s: float = MINUTE_S) -> LimitReport:
    """A limit that only a message reports."""
    return LimitReport(dimension, limit, left, None, period_s)


def midstream(body: Any) -> RawResponse:
    """An error in the middle of a stream, which has no status of its own."""
    return RawResponse(body=body if isinstance(body, str | bytes) else json.dumps(body))
