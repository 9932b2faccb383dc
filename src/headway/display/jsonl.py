"""One JSON object a line, for programs that watch a run."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from headway.core.reasons import Wait
from headway.display.account import saved_facts
from headway.display.plain import again_usd
from headway.display.terminal import write_line
from headway.engine.observer import View
from headway.reason_text import wait_text
from headway.safe_text import escaped
from headway.stores.records import Event, Job, Unknown


class JsonDisplay:
    """Every line has `event`: began, noted, progress, said."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _write(self, event: str, **facts: Any) -> None:
        write_line(escaped(msgspec.json.encode({"event": event, **facts}).decode()), self._stream)

    def say(self, text: str) -> None:
        self._write("said", text=text)

    def close(self) -> None:
        """Every line is whole already."""

    def began(self, job: Job, unknown: list[Unknown]) -> None:
        self._write(
            "began",
            job=job.name,
            total=job.total,
            done=job.good,
            unknown=[one.custom_id for one in unknown],
            unknown_most_usd=again_usd(unknown) if unknown else None,
            saved=saved_facts(job),
        )

    def noted(self, event: Event) -> None:
        self._write("noted", what=event.what, lane=event.lane, text=event.text, at_utc=event.at_utc, until_utc=event.until_utc)  # fmt: skip

    def ended(self, indexes: list[int]) -> None:
        """The progress lines count them."""

    def moved(self, view: View) -> None:
        self._write("progress", **summary(view))


def summary(view: View) -> dict[str, Any]:
    """A run at an instant, as plain data: also what the progress file holds."""
    offset = view.utc_offset_s
    return {
        "job": view.job,
        "started_utc": view.started_utc,
        "updated_utc": view.updated_utc,
        "totals": {
            "units": view.total,
            **view.counts,
            "in_flight": view.snapshot.in_flight,
            "pending": view.total - view.ended - view.snapshot.in_flight,
            "attempts": view.attempts,
            "refused": view.refused,
            "input_tokens": view.input_tokens,
            "output_tokens": view.output_tokens,
            "cost_usd": view.cost_usd,
            "elapsed_s": round(view.elapsed_s, 3),
            "eta_s": view.snapshot.eta_s,
            "paused": view.paused,
        },
        "lanes": {
            view.names[lane.key]: {
                "in_flight": lane.in_flight,
                "queued": lane.queued + lane.delayed,
                "remaining": lane.remaining,
                "succeeded": lane.succeeded,
                "failed": lane.failed,
                "refused": lane.refused,
                "rate_per_s": round(lane.rate_per_s, 4),
                "window": lane.window,
                "binding": lane.binding,
                "used_of_binding": round(lane.used_of_binding, 4),
                "others": lane.others,
                "wait": None if lane.wait is None else wait_text(lane.wait),
                "wait_until_utc": None
                if lane.wait is None or lane.wait.until is None
                else lane.wait.until + offset,
                "wait_reason": _reason(lane.wait),
            }
            for lane in view.snapshot.lanes
        },
    }


def _reason(wait: Wait | None) -> dict[str, Any] | None:
    """The code and fields of a wait."""
    if wait is None:
        return None
    return {"code": wait.code, "message": wait.message, "limit": wait.limit, "stop": wait.stop}
