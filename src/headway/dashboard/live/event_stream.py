"""`/api/events`: a stream of events for an EventSource."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headway.dashboard.json_answer import error_answer
from headway.dashboard.live.broadcast import Broadcast, TooManyWatchers, Watcher
from headway.dashboard.live.job_watch import JobFeed
from headway.dashboard.live.jobs_watch import JobsWatch
from headway.dashboard.records.job_reading import RecordPlace, read_job
from headway.dashboard.records.record_reader import RecordReader

#: At most ten looks a second at a job, and one at the list of jobs.
JOB_S: Final = 0.1
JOBS_S: Final = 1.0
#: A comment after so long without an event, so that both ends notice a connection that is gone.
PING_S: Final = 15.0
#: How soon a browser connects again.
_RETRY: Final = b"retry: 1000\n\n"
_PING: Final = b": ping\n\n"


async def event_stream(
    request: Request, place: RecordPlace, reader: RecordReader, broadcast: Broadcast
) -> Response:
    """The stream of one job (`?job=`), or of the list of jobs."""
    name = request.query_params.get("job")
    if name:
        await reader.read(lambda store: read_job(place, store, name))  # So that an unknown job is an error.
    topic = ("job", name) if name else ("jobs", "")
    try:
        if name:
            watcher = broadcast.join(topic, lambda: JobFeed(place, name), JOB_S)
        else:
            watcher = broadcast.join(topic, lambda: JobsWatch(place), JOBS_S)
    except TooManyWatchers:
        return error_answer(503, "too many pages are open: close some of them")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(
        _frames(broadcast, topic, watcher), media_type="text/event-stream", headers=headers
    )


async def _frames(
    broadcast: Broadcast, topic: tuple[str, str | None], watcher: Watcher
) -> AsyncIterator[bytes]:
    try:
        yield _RETRY
        async for frame in watcher.frames(PING_S):
            yield frame or _PING
    finally:
        broadcast.leave(topic, watcher)
