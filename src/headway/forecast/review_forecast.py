"""The forecast of a review, as `headway review --estimate` shows it.

Before any answer, the time is what so many files at a time would take if they worked like three quarters of them: files differ in length,
and the last ones run alone. After a first review the trial knows how long answers take and which files are long. What it does not know are
answers that are corrected in a second turn: the earlier reviews show how much those add.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from headway.forecast.figures import Forecast, LaneForecast, Range
from headway.forecast.lane_forecasts import LEARN_HINT
from headway.stores.records import TurnTotals

#: What is assumed of several files at a time (seed 000: `CONCURRENCY_EFFICIENCY`).
EFFICIENCY: Final = 0.75

Figures = TypeVar("Figures", Forecast, LaneForecast)


class Corrections(msgspec.Struct, frozen=True):
    """What earlier reviews took: the last answers of their units, and the answers that were corrected."""

    last: TurnTotals = TurnTotals()
    corrected: TurnTotals = TurnTotals()

    def factor(self, field: str) -> float:
        """How much more all answers took than the last ones alone."""
        last = float(getattr(self.last, field))
        return 1.0 + float(getattr(self.corrected, field)) / last if last > 0.0 else 1.0


def review_forecast(forecast: Forecast, files_at_once: int, corrections: Corrections) -> Forecast:
    """The forecast with corrections, or with the assumption if nothing was learned; 0 files at once: as many as the lanes take."""
    notes = [note.replace(LEARN_HINT, "The first review shows it") for note in forecast.notes]
    forecast = msgspec.structs.replace(forecast, notes=notes)
    if all(lane.learned_from or lane.program for lane in forecast.lanes):
        return _with_corrections(forecast, corrections)
    if files_at_once < 2:
        return forecast
    note = (
        f"no review has run with this model yet: {files_at_once:,} files at a time are taken for "
        f"{files_at_once * EFFICIENCY:g}"
    )
    slower = [msgspec.structs.replace(lane, time_s=_slower(lane.time_s)) for lane in forecast.lanes]
    return msgspec.structs.replace(
        forecast, time_s=_slower(forecast.time_s), lanes=slower, notes=[*forecast.notes, note]
    )


def _slower(time_s: Range) -> Range:
    return Range(time_s.estimate / EFFICIENCY, time_s.low, time_s.high / EFFICIENCY)


def _with_corrections(forecast: Forecast, corrections: Corrections) -> Forecast:
    corrected = [lane if lane.program else _corrected(lane, corrections) for lane in forecast.lanes]
    whole = _corrected(forecast, corrections)
    return msgspec.structs.replace(whole, lanes=corrected)


def _corrected(figures: Figures, corrections: Corrections) -> Figures:
    cost = figures.cost_usd
    return msgspec.structs.replace(
        figures,
        input_tokens=_times(figures.input_tokens, corrections.factor("input_tokens")),
        output_tokens=_times(figures.output_tokens, corrections.factor("output_tokens")),
        time_s=_times(figures.time_s, corrections.factor("took_s")),
        cost_usd=None if cost is None else _times(cost, corrections.factor("cost_usd")),
    )


def _times(figure: Range, factor: float) -> Range:
    return Range(figure.estimate * factor, figure.low * factor, figure.high * factor)
