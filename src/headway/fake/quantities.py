"""Durations as people write them (`200ms`, `10s`, `1m30s`, 0.5) and as OpenAI's headers write them (`6m0s`)."""

from __future__ import annotations

import math
import re
from math import exp
from statistics import NormalDist

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


def go_duration(duration_s: float) -> str:
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


class Spread:
    """A quantity that lies evenly between two ends: `0.2`, `{min: 0.1, max: 0.3}` or `{mean: 0.2, jitter: 0.1}`."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low = low
        self.high = low if high is None else high

    def at(self, share: float) -> float:
        """The value at `share` of the way from the lower end to the upper."""
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
    """A quantity whose logarithm is normal: `{median: 300, sigma: 0.8}`. Most are near the median, a few many times it."""

    __slots__ = ("median", "sigma")

    def __init__(self, median: float, sigma: float) -> None:
        super().__init__(0.0, median)
        self.median, self.sigma = median, sigma

    def at(self, share: float) -> float:
        """The value that `share` of them stay below."""
        return self.median * exp(self.sigma * NormalDist().inv_cdf(min(max(share, 1e-9), 1.0 - 1e-9)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongTail) and (self.median, self.sigma) == (other.median, other.sigma)

    def __hash__(self) -> int:
        return hash((self.median, self.sigma))

    def __repr__(self) -> str:
        return f"LongTail({self.median:g}, {self.sigma:g})"


def parse_spread(said: object) -> Spread:
    """What is meant by `said`; a ValueError says what may stand there."""
    if not isinstance(said, dict):
        return Spread(seconds(said))
    keys = set(said)
    if keys == {"min", "max"}:
        low, high = seconds(said["min"]), seconds(said["max"])
        if low > high:
            raise ValueError(f"min is not above max, unlike {low:g} and {high:g}")
        return Spread(low, high)
    if keys == {"mean", "jitter"}:
        mean, jitter = seconds(said["mean"]), seconds(said["jitter"])
        return Spread(max(0.0, mean - jitter), mean + jitter)
    if keys == {"median", "sigma"}:
        return LongTail(seconds(said["median"]), seconds(said["sigma"]))
    raise ValueError(
        "a number, {min, max}, {mean, jitter} or {median, sigma} is meant, not "
        + "{"
        + ", ".join(map(str, said))
        + "}"
    )
