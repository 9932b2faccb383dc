"""Google's quota ids → limits: `GenerateRequestsPerDayPerProjectPerModel-FreeTier` is requests, a day."""

from __future__ import annotations

from typing import Final

from headway.core.model import DAY_S, MINUTE_S, Dimension
from headway.providers.durations import number
from headway.providers.texts import Told

_PERIODS: Final = (("perday", DAY_S), ("daily", DAY_S), ("perminute", MINUTE_S))


def quota(name: str, value: str) -> Told:
    """The limit that a quota id stands for."""
    name = name.lower()
    period_s = next((period for word, period in _PERIODS if word in name), None)
    if "token" not in name:
        dimension = Dimension.REQUESTS
    else:
        dimension = Dimension.INPUT if "input" in name else Dimension.TOKENS
    return Told(dimension, period_s, number(value) if value else None)


def quotas(named: list[tuple[str, str]]) -> list[Told]:
    """All of them, the longest period first: a day that is used up outlasts a minute that is."""
    told = [quota(name, value) for name, value in named]
    return sorted(told, key=lambda limit: -(limit.period_s or 0.0))
