"""The forecast of programs and agents: a number of places, and what earlier units took. Nothing about tokens or prices.

A unit of a program has no length that says how long it takes: the durations and costs of earlier units of the same provider and model are
drawn again, evenly. Without earlier units nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace
from math import sqrt
from random import Random
from typing import Final

import msgspec

from headway.forecast.answer_model import LEAST_DOUBT, MOST_DOUBT
from headway.forecast.figures import Forecast, LaneForecast, Range
from headway.stores.records import ProgramRun

#: One earlier unit does not show how units differ: a second one may take half or twice as long.
ONE_RUN: Final = (0.5, 2.0)
#: Seconds of a run before its first program and after its last.
AROUND_S: Final = 0.5
#: Units that are drawn; more have the same pace.
MOST_DRAWN: Final = 20_000
UNKNOWN: Final = Range(0.0, 0.0, 0.0)


class ProgramLane(msgspec.Struct, frozen=True):
    """The units of a job for one program, how many run at once, and why not more (`binding`)."""

    name: str
    units: int
    runs: list[ProgramRun]
    places: int
    binding: str
    #: One unit runs before the others start.
    one_ahead: bool = False
    #: Seconds until its hold is over, and its reason.
    hold_s: float = 0.0
    hold_reason: str = ""
    #: The directory that its units may write to one at a time; "": none.
    directory: str = ""
    #: How many would run at once with a directory each.
    places_apart: int = 0


def program_forecast(lane: ProgramLane) -> LaneForecast:
    """The forecast of one lane. Without earlier units `time_known` is false and there is no cost."""
    took = [run.took_s for run in lane.runs]
    paid = [run.cost_usd for run in lane.runs if run.cost_usd is not None]
    cost = None
    if paid:
        cost = Range.of(
            *(lane.units * factor * sum(paid) / len(paid) for factor in factors_of(paid, lane.units))
        )
    binding = lane.binding
    if lane.hold_s > 0.0:
        binding = f"a hold ({lane.hold_reason})" if lane.hold_reason else "a hold"
    return LaneForecast(
        lane.name,
        lane.units,
        UNKNOWN,
        UNKNOWN,
        cost,
        _time(lane, lane.places) if took else UNKNOWN,
        binding,
        0,
        len(took),
        0,
        0,
        program=True,
        time_known=bool(took),
    )


def program_notes(lane: ProgramLane) -> list[str]:
    """What the figures are based on."""
    notes = []
    if not lane.runs:
        notes.append(
            f"{lane.name}: how long its units take and what they cost is not known before the first one: "
            "'headway run FILE --first 1' shows it"
        )
    else:
        units = "1 earlier unit" if len(lane.runs) == 1 else f"{len(lane.runs):,} earlier units"
        cost = "" if any(run.cost_usd is not None for run in lane.runs) else "; they reported no cost"
        notes.append(f"{lane.name}: learned from {units} of it{cost}")
    if lane.directory and lane.places_apart > lane.places:
        apart = f"{lane.places_apart:,} run at once" + (
            f", in about {_about(_time(lane, lane.places_apart).estimate)}" if lane.runs else ""
        )
        notes.append(
            f"{lane.name}: its agents may write to {lane.directory}, so they run one at a time there; with --worktree (or "
            f"--shared-directory) {apart}"
        )
    return notes


def with_programs(forecast: Forecast | None, lanes: Sequence[ProgramLane]) -> Forecast:
    """The forecast of a job with these programs. Lanes that write to one directory run one after the other."""
    figures = [program_forecast(lane) for lane in lanes]
    base = forecast or Forecast([], 0, UNKNOWN, UNKNOWN, None, UNKNOWN, 0, [])
    costs = [lane.cost_usd for lane in figures if lane.cost_usd is not None]
    if base.cost_usd is not None:
        costs.append(base.cost_usd)
    spans: dict[str, Range] = {}
    for lane, figure in zip(lanes, figures, strict=True):
        group = lane.directory or f"lane {lane.name}"
        spans[group] = spans.get(group, UNKNOWN) + figure.time_s
    times = [base.time_s, *spans.values()]
    units = sum(lane.requests for lane in figures)
    return msgspec.structs.replace(
        base,
        lanes=[*base.lanes, *figures],
        requests=base.requests + units,
        cost_usd=sum(costs, UNKNOWN) if costs else None,
        time_s=Range(*(max(getattr(one, name) for one in times) for name in ("estimate", "low", "high"))),
        time_known=base.time_known and all(lane.time_known for lane in figures),
        simulated=base.simulated + units,
        notes=[*base.notes, *(note for lane in lanes for note in program_notes(lane))],
        unpriced=[*base.unpriced, *(lane.name for lane in figures if lane.cost_usd is None)],
    )


def _time(lane: ProgramLane, places: int) -> Range:
    took = [run.took_s for run in lane.runs]
    likely, low, high = (
        lane.hold_s + _makespan(took, lane.units, places, factor, one_ahead=lane.one_ahead)
        for factor in factors_of(took, lane.units)
    )
    return Range.of(likely, low, high + AROUND_S)


def factors_of(values: Sequence[float], planned: int) -> tuple[float, float, float]:
    """The factors of the likely, the low and the high figure: two standard errors of the mean."""
    if len(values) == 1:
        return (1.0, *ONE_RUN)
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    error = 2.0 * sqrt(variance / len(values) + variance / max(1, planned))
    doubt = min(MOST_DOUBT, LEAST_DOUBT + (error / mean if mean > 0.0 else 0.0))
    return (1.0, 1.0 - doubt, 1.0 + doubt)


def _makespan(took: Sequence[float], units: int, places: int, factor: float, *, one_ahead: bool) -> float:
    """When the last unit ends, if each free place takes the next one."""
    drawn = min(units, MOST_DRAWN)
    seen = sorted(took)
    durations = [factor * seen[int((place + 0.5) / drawn * len(seen))] for place in range(drawn)]
    Random(0).shuffle(durations)
    ahead_s = durations.pop() if one_ahead and places > 1 else 0.0
    free_at = [0.0] * min(places, max(1, len(durations)))
    for one in durations:
        heapreplace(free_at, free_at[0] + one)
    rest_s = (units - drawn) * factor * sum(took) / len(took) / places
    return ahead_s + max(free_at) + rest_s


def _about(seconds: float) -> str:
    """A rounded duration."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
