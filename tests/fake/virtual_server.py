"""A fake server with a manual clock, and helpers that send requests to it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from headway.fake.config_file import read
from headway.fake.fake_config import FakeConfig
from headway.fake.server import FakeServer
from headway.fake.service import TimeSource

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
WALL = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@dataclass
class ManualClock:
    """A clock that the test sets. Sleeps are recorded and take no time."""

    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    @property
    def time_source(self) -> TimeSource:
        return TimeSource(clock=lambda: self.now, wall=lambda: WALL + self.now - 100.0, sleep=self.sleep)


def config(**settings: Any) -> FakeConfig:
    """A configuration as YAML gives it; `default` has the settings of the account `default`."""
    default = settings.pop("default", None)
    if default is not None:
        settings.setdefault("accounts", {})["default"] = default
    return read(settings)


def serving(clock: ManualClock | None = None, **settings: Any) -> FakeServer:
    return FakeServer(config(**settings), time_source=(clock or ManualClock()).time_source)


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], **more}


def message(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "claude-x", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The events of a stream: name and data. JSON is decoded."""
        events = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in lines:
                text = lines["data"]
                events.append((lines.get("event", ""), text if text == "[DONE]" else json.loads(text)))
        return events


async def ask(
    server: FakeServer,
    path: str,
    body: object = None,
    *,
    key: str = "any",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    sent = {"Authorization": f"Bearer {key}"} if key else {}
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method,
            URL(server.url + path, encoded=True),
            data=data and io.BytesIO(data),
            headers=sent | (headers or {}),
        ) as answer,
    ):
        received = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, received, await answer.read())


@asynccontextmanager
async def opened(
    server: FakeServer, body: dict[str, Any], path: str = CHAT
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send one request over a raw socket; the caller reads every byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer any\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    try:
        yield reader, writer
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the server run until the condition holds; pytest's timeout ends the wait."""
    while not condition():  # noqa: ASYNC110 - the server has no event for what is only counted
        await asyncio.sleep(0)
