"""The agents of a job: what each does now, and what it said last."""

from __future__ import annotations

from typing import Any, Final

from headway.dashboard.records.job_reading import JobReading
from headway.display.agents.conversation_text import message_lines
from headway.display.formatting import short
from headway.reports.run_progress import RunningAgent
from headway.stores.records import Job
from headway.stores.row_conversion import uid
from headway.stores.store import Store

#: Agents whose last words are read.
MOST: Final = 200
#: The last lines of an agent among which its last words are.
_LINES: Final = 20
#: The most characters of them.
_LAST: Final = 300


def running_agents(reading: JobReading) -> list[dict[str, Any]]:
    """The agents that run now, without what they said last."""
    progress = reading.live_progress
    return [] if progress is None else [_agent(one) for one in progress.agents]


def agent_rows(store: Store, reading: JobReading) -> list[dict[str, Any]]:
    """The agents that run now, the oldest first, with their last words and their sessions."""
    progress = reading.live_progress
    agents = [] if progress is None else progress.agents[:MOST]
    return [{**_agent(one), **_words(store, reading.job, one.unit)} for one in agents]


def _agent(one: RunningAgent) -> dict[str, Any]:
    return {
        "unit": one.unit, "lane": one.lane, "turn": one.turn, "tool": one.tool, "tokens": one.tokens, "cost_usd": one.cost_usd,
        "started_utc": one.started_utc,
    }  # fmt: skip


def _words(store: Store, job: Job, unit: str) -> dict[str, Any]:
    index = store.index_of(job.id, unit)
    if index is None:
        return {"index": None, "last": "", "session_id": ""}
    session = store.session_of(job.id, index)
    return {
        "index": index,
        "last": _last_words(store, uid(job.id, index)),
        "session_id": "" if session is None else session.session_id,
    }


def _last_words(store: Store, unit: int) -> str:
    """The last message on record, in one line."""
    for line in reversed(store.last_transcript(unit, _LINES)):
        for message in reversed(line.messages):
            if text := " ".join(message_lines(message)).strip():
                return short(text, _LAST)
    return ""
