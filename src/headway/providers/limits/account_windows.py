"""The windows of a subscription, from what agent CLIs report: Claude's `rate_limit_event`, or a sentence about a limit. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from headway.core.model import AccountWindow
from headway.lazy_pattern import lazy_pattern

#: Paid use beyond the windows. That it is refused says nothing about the windows.
_OVERAGE: Final = "overage"
#: The window that a sentence names, the first that matches. The names are Claude's.
_NAMED: Final = (
    (lazy_pattern(r"\bopus\b", re.IGNORECASE), "seven_day_opus"),
    (lazy_pattern(r"\bsonnet\b", re.IGNORECASE), "seven_day_sonnet"),
    (lazy_pattern(r"\bhaiku\b", re.IGNORECASE), "seven_day_haiku"),
    (lazy_pattern(r"\b(?:session|5-hour|five-hour)\b", re.IGNORECASE), "five_hour"),
    (lazy_pattern(r"\b(?:weekly|7-day|seven-day)\b", re.IGNORECASE), "seven_day"),
    (lazy_pattern(r"\bdaily\b", re.IGNORECASE), "day"),
)
#: A window that a sentence does not name.
UNNAMED: Final = "usage"
#: How much of a sentence is searched for a name: the rest may be advice ("upgrade to …").
_LONGEST: Final = 120
#: No instant is later, and no share is larger.
_LARGEST: Final = 1e11
#: Windows of a report that are kept.
_MOST: Final = 16


def windows_of_event(info: Any) -> tuple[AccountWindow, ...]:
    """The windows in the `rate_limit_info` of an event."""
    if not isinstance(info, dict):
        return ()
    each = info.get("unifiedWindows")
    each = dict(list(each.items())[:_MOST]) if isinstance(each, dict) else {}
    name = info.get("rateLimitType")
    if isinstance(name, str) and name not in each:
        each[name] = info
    windows = (_window(str(one), values) for one, values in each.items() if one != _OVERAGE)
    return tuple(window for window in windows if window is not None)


def _window(name: str, values: Any) -> AccountWindow | None:
    if not isinstance(values, dict) or not isinstance(values.get("status"), str):
        return None
    used, resets = _number(values.get("utilization")), _number(values.get("resetsAt"))
    return AccountWindow(name[:40], used, resets, values["status"][:20])


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < _LARGEST else None


def window_of_sentence(text: str, resets_utc: float | None) -> AccountWindow:
    """The used-up window that a sentence is about."""
    beginning = text[:_LONGEST]
    name = next((name for pattern, name in _NAMED if pattern.search(beginning)), UNNAMED)
    return AccountWindow(name, 1.0, resets_utc, "rejected")
