"""The fake provider as a server on 127.0.0.1: start, stop, and the paths that are no API.

async with FakeServer(config) as server:
    ...  # POST to server.url + "/v1/chat/completions"
    server.stats()["total"]["ok"]
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any, Self

import msgspec
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from headway.errors import UsageError
from headway.fake import http_answers
from headway.fake.apis.api_request import InvalidRequest
from headway.fake.apis.error_dialects import ANTHROPIC, OPENAI, ErrorDialect, ErrorResponse
from headway.fake.fake_config import FakeConfig
from headway.fake.routes import MESSAGES, api_at
from headway.fake.service import FakeService, TimeSource

HOST = "127.0.0.1"
MAX_BODY = 64 * 1024 * 1024  # more than OpenAI and Anthropic accept
BACKLOG = 4096  # the kernel refuses no connection when a client opens thousands at once
STOP_S = 0.2
MODELS = ("gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "claude-sonnet-4-5", "claude-haiku-4-5")
_ABOUT = {"about": "a fake provider: headway fake", "stats": "/stats"}

_encode = msgspec.json.Encoder().encode


class FakeServer:
    """A fake provider on a free port, or on `port`. An async context manager."""

    def __init__(
        self, config: FakeConfig | None = None, *, port: int = 0, time_source: TimeSource | None = None
    ) -> None:
        self.service = FakeService(config or FakeConfig(), time_source or TimeSource())
        self._port = port
        self._web: web.Server | None = None
        self._listening: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://{HOST}:{self._port}"

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """The answer of GET /stats."""
        return self.service.statistics.as_dict(self.service.now(), series=series)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. A port in use is a UsageError."""
        loop = asyncio.get_running_loop()
        self._web = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True, access_log=None
        )
        try:
            self._listening = await loop.create_server(self._web, HOST, self._port, backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"cannot listen on {HOST}:{self._port}: {error.strerror}") from None
            raise UsageError(
                f"port {self._port} is in use",
                hint="choose another with --port, or --port 0 for any free one",
            ) from None
        self._port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end all requests. They are not counted as cancelled."""
        self.service.closing = True
        if self._listening is not None:
            self._listening.close()
        if self._web is not None:
            await self._web.shutdown(STOP_S)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        api = api_at(path) if request.method == "POST" else None
        if api is not None:
            try:
                return await self.service.serve(request, api)
            except ConnectionError:  # aiohttp would log it as an error of the server
                raise asyncio.CancelledError from None
        return await self._handle_other(request, path)

    async def _handle_other(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Everything but the APIs: front page, statistics, models, token counts."""
        reading = request.method in ("GET", "HEAD")
        bare = path.removeprefix("/v1")
        if path == "/" and reading:
            return _json(_ABOUT)
        if path == "/stats" and reading:
            return _json(self.stats(series=bool(request.query.get("series"))))
        if path == "/stats/reset" and request.method == "POST":
            self.service.reset()
            return _json(self.stats())
        if request.path.startswith("/stats/requests/") and reading:
            return self._history(request.path.removeprefix("/stats/requests/"))
        self.service.statistics.other += 1
        if bare == "/messages/count_tokens" and request.method == "POST":
            return await self._count_tokens(request)
        if bare.partition("/")[0] == "" and bare.startswith("/models") and reading:
            return self._models(request, bare)
        return self._not_found(request, path)

    def _history(self, name: str) -> web.Response:
        history = self.service.statistics.history(name)
        if history is None:
            return _json({"error": f"no request '{name}' is remembered"}, 404)
        return _json(history)

    async def _count_tokens(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        request_id = self.service.request_id()
        entry, key = self.service.entry_of(request.headers)
        if entry is None:
            return _error_response(ANTHROPIC, ANTHROPIC.unauthorized(key, request_id), request_id)
        try:
            return http_answers.whole_response(200, MESSAGES.count(body), {"request-id": request_id})
        except InvalidRequest as why:
            return _error_response(ANTHROPIC, ANTHROPIC.invalid(why, request_id), request_id)

    def _models(self, request: web.BaseRequest, path: str) -> web.Response:
        dialect = _dialect(request)
        request_id = self.service.request_id()
        entry, key = self.service.entry_of(request.headers)
        if entry is None:
            return _error_response(dialect, dialect.unauthorized(key, request_id), request_id)
        wanted = path.removeprefix("/models").strip("/")
        models = [_model(name, dialect) for name in MODELS]
        if wanted:
            return _json(_model(wanted, dialect))
        if dialect is OPENAI:
            return _json({"object": "list", "data": models})
        ends = {"first_id": MODELS[0], "last_id": MODELS[-1], "has_more": False}
        return _json({"data": models, **ends})

    def _not_found(self, request: web.BaseRequest, path: str) -> web.Response:
        dialect = _dialect(request)
        request_id = self.service.request_id()
        return _error_response(dialect, dialect.unknown_path(request.method, path, request_id), request_id)


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: Any,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """aiohttp's request, with a higher limit for the body."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def _dialect(request: web.BaseRequest) -> ErrorDialect:
    """The vendor of a client, for paths that both vendors have."""
    anthropic = "anthropic-version" in request.headers or "x-api-key" in request.headers
    return ANTHROPIC if anthropic else OPENAI


def _json(body: object, status: int = 200) -> web.Response:
    return http_answers.whole_response(status, _encode(body), {})


def _error_response(dialect: ErrorDialect, error: ErrorResponse, request_id: str) -> web.Response:
    status, body, *own = error
    return http_answers.whole_response(
        status, body, {dialect.request_id_header: request_id, **(own[0] if own else {})}
    )


def _model(name: str, dialect: ErrorDialect) -> dict[str, Any]:
    if dialect is OPENAI:
        return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "headway-fake"}
    return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
