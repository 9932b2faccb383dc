"""Formats numbers, times and money for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
_YEAR_9999: Final = 253_370_764_800.0
#: The text for an instant outside the calendar.
FAR_OFF: Final = "an impossible time"


def duration(seconds: float) -> str:
    """ "1h 02m", "3m 05s", "12 s", "0.4 s"."""
    if seconds < 10.0:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}m {rest:02d}s"
    if seconds < 2 * _DAY_S:
        hours, rest = divmod(round(seconds / _MINUTE_S), 60)
        return f"{hours}h {rest:02d}m"
    return f"{seconds / _DAY_S:.1f} days"


def clock(utc: float, now_utc: float | None = None) -> str:
    """The local time of day; date and time if it is not today."""
    try:
        then = time.localtime(utc)
    except (OverflowError, OSError, ValueError):
        return FAR_OFF
    today = time.localtime(now_utc)
    form = "%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, then)


def iso(utc: float) -> str:
    """An instant in UTC for logs: `2026-11-15T23:45:00.125Z`."""
    if not 0.0 <= utc < _YEAR_9999:
        return FAR_OFF
    return datetime.fromtimestamp(utc, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def units(n: int) -> str:
    """ "1 unit", "12,000 units"."""
    return count(n, "unit")


def money(usd: float) -> str:
    """Dollars: two digits from $1 on, more for small amounts."""
    if usd >= 1.0 or usd == 0.0:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.001 else f"${usd:.6f}"


def tokens(n: float) -> str:
    """ "950 tokens", "12,300 tokens", "1.2M tokens"."""
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else count(round(n), "token")


def count(n: int, what: str) -> str:
    """ "1 attempt", "12,000 attempts"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def short(text: str, most: int = 160) -> str:
    """The text in one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
