"""The application: its routes, and how errors become answers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headway.command_flags import with_flags
from headway.dashboard.access.access_secrets import AccessSecrets
from headway.dashboard.access.address import BindAddress
from headway.dashboard.access.guard import AccessGuard
from headway.dashboard.actions.action_body import MOST_BYTES, TooLarge, read_body
from headway.dashboard.actions.actions import ACTIONS, Action, ActionRequest
from headway.dashboard.answers.api_answers import ANSWERS, EMPTY, Answer, ApiQuestion
from headway.dashboard.answers.query import BadRequest
from headway.dashboard.json_answer import error_answer, json_answer, json_bytes
from headway.dashboard.live.broadcast import Broadcast
from headway.dashboard.live.event_stream import event_stream
from headway.dashboard.page_files import SHELL, PageFile, page_files
from headway.dashboard.records.job_reading import NoSuchJob, NoSuchUnit, RecordPlace
from headway.dashboard.records.record_reader import RecordReader
from headway.display.terminal import echo_text
from headway.errors import HeadwayError, JobBusy, NoRecords, StoreError, UsageError
from headway.metrics.store_metrics import StoreMetrics

#: Addresses of the page: its scripts show what each is about.
_PAGES: Final = ("/", "/jobs", "/jobs/{rest:path}", "/lanes", "/lanes/{rest:path}")
_STATUS: Final[tuple[tuple[type[HeadwayError], int], ...]] = (
    (NoRecords, 404),
    (JobBusy, 409),
    (StoreError, 503),
    (UsageError, 409),
)


class Dashboard:
    """The application and what it holds open."""

    def __init__(
        self,
        place: RecordPlace,
        reader: RecordReader,
        metrics: StoreMetrics,
        address: BindAddress,
        secrets: AccessSecrets,
    ) -> None:
        self._place, self._reader, self._secrets = place, reader, secrets
        self._broadcast = Broadcast(reader)
        self._metrics = metrics
        self._files = page_files(place.flags)
        routes = [
            *(Route(path, self._page) for path in _PAGES),
            Route("/assets/{name:path}", self._asset),
            Route("/api/events", self._events),
            Route("/metrics", self._metrics_page),
            *(Route(path, self._reading(path, answer)) for path, answer in ANSWERS.items()),
            *(Route(path, self._action(act), methods=["POST"]) for path, act in ACTIONS.items()),
        ]
        errors: dict[type[Exception], Callable[[Request, Exception], Response]] = {
            HTTPException: _http_error,
            BadRequest: _bad_request,
            NoSuchJob: _no_such_job,
            NoSuchUnit: _no_such_unit,
            TooLarge: _too_large,
            HeadwayError: self._headway_error,
            Exception: _bug,
        }
        application = Starlette(routes=routes, exception_handlers={**errors})
        self.application: ASGIApp = AccessGuard(application, address, secrets)

    def close(self) -> None:
        """End all streams and close the records."""
        self._broadcast.close()
        self._place.indexes.close()
        self._reader.close()

    async def _page(self, request: Request) -> Response:
        return self._file(request, SHELL)

    async def _asset(self, request: Request) -> Response:
        return self._file(request, request.path_params["name"])

    def _file(self, request: Request, name: str) -> Response:
        """A file of the page. A browser asks each time whether it has changed."""
        file: PageFile | None = self._files.get(name)
        if file is None:
            return error_answer(404, "there is no such page")
        headers = {"etag": file.tag, "cache-control": "no-cache"}
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.type, headers=headers)

    async def _events(self, request: Request) -> Response:
        return await event_stream(request, self._place, self._reader, self._broadcast)

    async def _metrics_page(self, request: Request) -> Response:
        """All numbers for Prometheus, which sends the token as a bearer."""
        accept = request.headers.get("accept", "")
        try:
            text, kind = await self._reader.run(lambda: self._metrics.text(accept))
        except NoRecords:
            return Response(b"", media_type="text/plain; version=0.0.4; charset=utf-8")
        return Response(text, headers={"content-type": kind})

    def _reading(self, path: str, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of an answer, which is made in a thread."""
        secret = {"csrf": self._secrets.csrf}

        async def endpoint(request: Request) -> Response:
            parts, query = dict(request.path_params), dict(request.query_params)
            try:
                data = await self._reader.read(
                    lambda store: json_bytes(
                        {**answer(ApiQuestion(self._place, store, parts, query)), **secret}
                    )
                )
            except NoRecords:
                if path not in EMPTY:
                    raise
                return json_answer({**EMPTY[path], **secret})
            return Response(data, media_type="application/json")

        return endpoint

    def _action(self, act: Action) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of an action."""

        async def endpoint(request: Request) -> Response:
            name, body = request.path_params["name"], await read_body(request)
            text = await self._reader.act(lambda store: act(ActionRequest(self._place, store, name, body)))
            return json_answer({"text": with_flags(text, self._place.flags)})

        return endpoint

    def _headway_error(self, _: Request, error: Exception) -> Response:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        return error_answer(status, with_flags(str(error), self._place.flags))


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "there is no such page" if error.status_code == 404 else error.detail.lower()
    answer = error_answer(error.status_code, text)
    answer.headers.update(error.headers or {})
    return answer


def _bad_request(_: Request, error: Exception) -> Response:
    return error_answer(400, str(error))


def _too_large(_: Request, error: Exception) -> Response:
    return error_answer(413, f"a request has at most {MOST_BYTES:,} bytes")


def _no_such_job(_: Request, error: Exception) -> Response:
    return error_answer(404, f"there is no job '{error}' — the list of jobs shows them")


def _no_such_unit(_: Request, error: Exception) -> Response:
    return error_answer(404, f"the job has no unit {error} — its list of units shows them")


def _bug(_: Request, error: Exception) -> Response:
    """An error of the dashboard itself: its traceback goes to the terminal, and to nobody else."""
    echo_text("".join(traceback.format_exception(error)).rstrip(), err=True)
    sys.stderr.flush()
    return error_answer(500, "the dashboard failed: its terminal shows why")
