"""Totals of attempts by lane: what counters of attempts, refusals, tokens and cost are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.model import Kind
from headway.metrics.families import ATTEMPTS, COST, REFUSALS, TOKENS, MetricFamily
from headway.metrics.text_format import Labels, Samples

#: The kinds of errors that say "not now": a limit was met, or the provider is overloaded.
REFUSALS_BY_LIMIT: Final = frozenset(
    str(kind) for kind in (Kind.RATE, Kind.CONCURRENCY, Kind.HOLD, Kind.QUOTA, Kind.OVERLOAD)
)
_INPUT: Final = "input"
_OUTPUT: Final = "output"


class AttemptTotals:
    """Counts attempts by lane, which is the value of the label. Every total only grows."""

    __slots__ = ("_attempts", "_cost", "_refusals", "_tokens")

    def __init__(self) -> None:
        self._attempts: dict[Labels, int] = {}
        self._refusals: dict[Labels, int] = {}
        self._tokens: dict[Labels, int] = {}
        self._cost: dict[Labels, float] = {}

    def see(self, lanes: Iterable[str]) -> None:
        """These lanes have counters from now on: a rate needs the value before the first increase."""
        for lane in lanes:
            self._attempts.setdefault((lane, "succeeded"), 0)
            self._refusals.setdefault((lane, str(Kind.RATE)), 0)
            for direction in (_INPUT, _OUTPUT):
                self._tokens.setdefault((lane, direction), 0)
            self._cost.setdefault((lane,), 0.0)

    def add(self, lane: str, outcome: str, kind: str | None, n: int = 1) -> None:
        """Count attempts that ended in one way."""
        _increase(self._attempts, (lane, outcome), n)
        if kind is not None and kind in REFUSALS_BY_LIMIT:
            _increase(self._refusals, (lane, kind), n)

    def use(self, lane: str, input_tokens: int, output_tokens: int, cost_usd: float) -> None:
        """Count what attempts took. An amount below 0 would be an error of a provider, and is left out."""
        _increase(self._tokens, (lane, _INPUT), max(0, input_tokens))
        _increase(self._tokens, (lane, _OUTPUT), max(0, output_tokens))
        self._cost[lane,] = self._cost.get((lane,), 0.0) + max(0.0, cost_usd)

    def samples(self) -> dict[MetricFamily, Samples]:
        """The totals now; a copy."""
        return {
            ATTEMPTS: dict(self._attempts),
            REFUSALS: dict(self._refusals),
            TOKENS: dict(self._tokens),
            COST: dict(self._cost),
        }


def _increase(totals: dict[Labels, int], labels: Labels, n: int) -> None:
    totals[labels] = totals.get(labels, 0) + n
