"""The forecast of a review, as `headway review --estimate` shows it.

Before any answer, the time is what so many files at a time would take if they worked like three quarters of them: files differ in length,
and the last ones run alone. After a first review the trial knows how long answers take and which files are long, and nothing is assumed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headway.forecast.figures import Forecast, LaneForecast, Range

#: What is assumed of several files at a time (seed 000: `CONCURRENCY_EFFICIENCY`).
EFFICIENCY: Final = 0.75


def review_forecast(forecast: Forecast, files_at_once: int) -> Forecast:
    """The forecast with the assumption, if no lane has answers to learn from; 0 files at once: as many as the lanes take."""
    if files_at_once < 2 or any(lane.learned_from or not lane.time_known for lane in forecast.lanes):
        return forecast
    note = f"no review has run with this model yet: {files_at_once:,} files at a time are taken for {files_at_once * EFFICIENCY:g}"
    return msgspec.structs.replace(
        forecast,
        time_s=_slower(forecast.time_s),
        lanes=[_slower_lane(lane) for lane in forecast.lanes],
        notes=[*forecast.notes, note],
    )


def _slower(time_s: Range) -> Range:
    return Range(time_s.estimate / EFFICIENCY, time_s.low, time_s.high / EFFICIENCY)


def _slower_lane(lane: LaneForecast) -> LaneForecast:
    return msgspec.structs.replace(lane, time_s=_slower(lane.time_s))
