"""Durations as people write them (`200ms`, `10s`, `1m30s`, 0.5) and as OpenAI's headers write them (`6m0s`)."""

from __future__ import annotations

import math
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


class Seconds(float):
    """A duration; in YAML and in flags a number of seconds or a text such as `200ms`."""

    __slots__ = ()


def seconds(said: object) -> Seconds:
    """What is meant by `said`; a ValueError says what a duration looks like."""
    if isinstance(said, bool) or not isinstance(said, (int, float, str)):
        raise ValueError(f"a duration is a number of seconds or a text such as 200ms, not {said!r}")
    if isinstance(said, str):
        return Seconds(_from_text(said.strip()))
    if not 0 <= said < math.inf:
        raise ValueError(f"a duration is not negative and it ends, unlike {said!r}")
    return Seconds(said)


def _from_text(text: str) -> float:
    if _WHOLE.fullmatch(text):
        return math.fsum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    raise ValueError(f"'{text}' is no duration: write 200ms, 10s, 1m30s or a number of seconds")


def in_go(duration_s: float) -> str:
    """As OpenAI's headers have it: `0s`, `120ms`, `7.66s`, `6m0s`, `1h0m0s`; never less than it is, to the ms."""
    ms = math.ceil(duration_s * 1000 - 1e-3)
    if ms <= 0:
        return "0s"
    if ms < 1000:
        return f"{ms}ms"
    minutes, ms = divmod(ms, 60_000)
    rest = f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if not minutes:
        return rest
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}" if hours else f"{minutes}m{rest}"
