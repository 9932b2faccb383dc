"""Durations (`200ms`, `10s`, `1m30s`, 0.5) and spreads of values (`{min: 0.1, max: 0.3}`), as the YAML file and the flags have them."""

from __future__ import annotations

import math
import re
from math import exp
from statistics import NormalDist

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


class Seconds(float):
    """A duration. In YAML and in flags: a number of seconds, or a text such as `200ms`."""

    __slots__ = ()


def seconds(value: object) -> Seconds:
    """Parse a duration. The ValueError describes the format."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"a duration is a number of seconds or a text such as 200ms, not {value!r}")
    if isinstance(value, str):
        return Seconds(_from_text(value.strip()))
    if not 0 <= value < math.inf:
        raise ValueError(f"a duration must be finite and not negative, not {value!r}")
    return Seconds(value)


def _from_text(text: str) -> float:
    if _WHOLE.fullmatch(text):
        return math.fsum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    raise ValueError(f"'{text}' is not a duration: write 200ms, 10s, 1m30s or a number of seconds")


def go_duration(duration_s: float) -> str:
    """Format a duration as Go and OpenAI's headers do: `0s`, `120ms`, `7.66s`, `6m0s`, `1h0m0s`. Rounded up to the millisecond."""
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


class Spread:
    """A uniform distribution: `0.2`, `{min: 0.1, max: 0.3}` or `{mean: 0.2, jitter: 0.1}`."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low = low
        self.high = low if high is None else high

    def at(self, share: float) -> float:
        """The value at the quantile `share`."""
        return self.low + (self.high - self.low) * share

    def __bool__(self) -> bool:
        return self.high > 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spread) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return f"Spread({self.low:g}, {self.high:g})"


class LongTail(Spread):
    """A lognormal distribution: `{median: 300, sigma: 0.8}`. Most values are near the median, a few are many times as large."""

    __slots__ = ("median", "sigma")

    def __init__(self, median: float, sigma: float) -> None:
        super().__init__(0.0, median)
        self.median, self.sigma = median, sigma

    def at(self, share: float) -> float:
        """The value at the quantile `share`."""
        return self.median * exp(self.sigma * NormalDist().inv_cdf(min(max(share, 1e-9), 1.0 - 1e-9)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongTail) and (self.median, self.sigma) == (other.median, other.sigma)

    def __hash__(self) -> int:
        return hash((self.median, self.sigma))

    def __repr__(self) -> str:
        return f"LongTail({self.median:g}, {self.sigma:g})"


def parse_spread(value: object) -> Spread:
    """Parse a spread. The ValueError lists the accepted forms."""
    if not isinstance(value, dict):
        return Spread(seconds(value))
    keys = set(value)
    if keys == {"min", "max"}:
        low, high = seconds(value["min"]), seconds(value["max"])
        if low > high:
            raise ValueError(f"min must not be above max: {low:g} is above {high:g}")
        return Spread(low, high)
    if keys == {"mean", "jitter"}:
        mean, jitter = seconds(value["mean"]), seconds(value["jitter"])
        return Spread(max(0.0, mean - jitter), mean + jitter)
    if keys == {"median", "sigma"}:
        return LongTail(seconds(value["median"]), seconds(value["sigma"]))
    raise ValueError(
        "expected a number, {min, max}, {mean, jitter} or {median, sigma}, not {"
        + ", ".join(map(str, value))
        + "}"
    )
