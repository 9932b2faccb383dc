"""`--progress json`: one JSON object per line, for programs that watch a run."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from headway.display.plain import resend_cost_usd
from headway.display.report_json import fields_json
from headway.display.terminal import write_line
from headway.engine.observer import AgentActivity, Display, View
from headway.reports.flows.node_progress import PartChanges
from headway.reports.run_progress import note_agent, progress_fields
from headway.reports.usage import saved_report
from headway.safe_text import escaped
from headway.stores.records import Job, JobEvent, UnknownOutcome


class JsonDisplay(Display):
    """Every line has `event`: began, noted, progress, said. `nodes` has those nodes of a flow that have changed since the last line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._agents: dict[int, AgentActivity] = {}
        self._parts = PartChanges()

    def _write(self, event: str, **facts: Any) -> None:
        write_line(
            escaped(msgspec.json.encode({"event": event, **fields_json(facts)}).decode()), self._stream
        )

    def say(self, text: str) -> None:
        self._write("said", text=text)

    def close(self) -> None:
        """Do nothing: every line is already written."""

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._write(
            "began",
            job=job.name,
            total=job.total,
            done=job.good,
            unknown=[one.custom_id for one in unknown],
            unknown_most_usd=resend_cost_usd(unknown) if unknown else None,
            saved=saved_report(job),
        )

    def noted(self, event: JobEvent) -> None:
        self._write("noted", what=event.what, lane=event.lane, text=event.text, at_utc=event.at_utc, until_utc=event.until_utc)  # fmt: skip

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: progress lines count units."""

    def moved(self, view: View) -> None:
        changed = [part for _, part in self._parts.news(view.parts)]
        self._write("progress", **progress_fields(view, self._agents.values(), changed))

    def activity(self, activity: AgentActivity) -> None:
        note_agent(self._agents, activity)
