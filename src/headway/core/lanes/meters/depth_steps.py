"""Goes into a bucket of unknown depth step by step: each accepted attempt proves the debt that it was sent at.

`depth_ramp` says how far the next step goes. This file says when it goes (the starts of a step have a small gap between them, so
that a refusal can stop the rest), what a success proves, and how much stays in reserve while estimates may be wrong.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.estimate import ENOUGH, Estimator
from headway.core.lanes.job_share import WHOLE
from headway.core.lanes.meters.caution import CALM, Caution
from headway.core.lanes.meters.depth_ramp import LEAST_PROOF_S, PATIENT, STEP_BURST_S, STEP_PACE, STEP_TIMES
from headway.core.lanes.meters.limit_meters import LimitMeters
from headway.core.lanes.meters.meter import Meter
from headway.core.lanes.queueing.queue import ALWAYS, Entry
from headway.core.lanes.traffic import Traffic
from headway.core.model import Dimension, LimitReport

#: The error of the estimates of many requests in sum: of sizes that were given, and of sizes guessed from characters before
#: answers have shown how many tokens a character is.
ESTIMATE_ERROR: Final = 0.04
GUESS_ERROR: Final = 0.2
#: After so many answers most of the early guesses have been corrected.
SETTLED: Final = 12 * ENOUGH


class DepthSteps:
    """The steps of one lane."""

    __slots__ = ("_caution", "_estimator", "_limits", "_traffic", "gap_s", "next_at")

    def __init__(self, limits: LimitMeters, traffic: Traffic, estimator: Estimator, caution: Caution) -> None:
        self._limits, self._traffic, self._estimator, self._caution = limits, traffic, estimator, caution
        #: While a depth is tested: the time between two starts, and when the next may go.
        self.gap_s = 0.0
        self.next_at = ALWAYS

    def begin(self, entry: Entry, now: float) -> None:
        """The first attempt starts: its size decides how large a step is."""
        meters = self._limits.meters
        for meter in meters:
            meter.begin_ramp(entry.costs[meter.place], careful=self.unsure(entry, meter))
            self._brace(meter, entry, now)
        refill = max((1.0 / meter.unit_s for meter in meters if meter.unit_s), default=0.0)
        if any(meter.shallow and not meter.reported for meter in meters):
            self.gap_s = 1.0 / max(STEP_PACE, STEP_TIMES * refill)

    def started(self, now: float) -> None:
        """An attempt starts while a depth is tested: the next waits for the gap."""
        self.next_at = max(now - STEP_BURST_S, self.next_at) + self.gap_s

    def accepted(self, entry: Entry, reports: tuple[LimitReport, ...], now: float, left: float) -> None:
        """An accepted attempt proves the debt that it was sent at. `left`: units that have yet to start."""
        limits = self._limits
        if PATIENT < left < float("inf"):
            unit_s = max(meter.unit_s for meter in limits.meters)
            limits.depth_ramp.pace(now - entry.started_at, left * unit_s)
        else:
            limits.depth_ramp.hurry()
        mean = self._traffic.mean_costs()
        before_s = limits.depth_ramp.proven_s
        for meter, mark in zip(entry.meters, entry.marks, strict=True):
            if meter.shallow:
                marked_s = mark + meter.shift - entry.started_at
                debt_s = meter.reported_debt_s(reports) if meter.reported else marked_s
                if (
                    0.0 < debt_s < meter.proven_s + LEAST_PROOF_S
                    and marked_s > meter.reach_s - 2.0 * meter.unit_s
                ):
                    limits.depth_ramp.extend(entry.started_at, meter.unit_s, now)
                meter.accepted(debt_s, mean[meter.place], now, careful=self.unsure(entry, meter))
        if limits.depth_ramp.proven_s > before_s:
            for meter in limits.meters:
                meter.deepen(meter.proven_s, now)
                self._brace(meter, entry, now)
            if not any(meter.shallow for meter in limits.meters):
                self.end()
        if limits.part < WHOLE:
            limits.select()

    def end(self) -> None:
        """The depth is known: from now on only the meters decide when to start."""
        self.gap_s, self.next_at = 0.0, ALWAYS

    def unsure(self, entry: Entry, meter: Meter) -> bool:
        """Whether a meter's debt may be far from the provider's.

        That is so if other jobs use the lane or did, or if few answers have shown how many tokens a character is.
        """
        guessed = entry.unit.chars > 0 and self._estimator.reports < SETTLED
        return self._limits.was_shared or (guessed and meter.dimension is not Dimension.REQUESTS)

    def _brace(self, meter: Meter, entry: Entry, now: float) -> None:
        """Keep more in reserve where much is sent at once: estimates are wrong in sum, and no answer has corrected them yet."""
        if meter.ramp is not None and meter.guard_s > 0.0 and meter.dimension is not Dimension.REQUESTS:
            error = GUESS_ERROR if self.unsure(entry, meter) else ESTIMATE_ERROR
            error_s = error * (meter.reach_s + now - meter.full_at)
            self._caution.raise_to(CALM + error_s / meter.guard_s)
