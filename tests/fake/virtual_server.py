"""A clock that stands still until it is told, a wait that takes no time, and small ways to ask the server."""

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
class Still:
    """Time in a test's hand: waits are noted and take nothing."""

    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    @property
    def time_source(self) -> TimeSource:
        return TimeSource(clock=lambda: self.now, wall=lambda: WALL + self.now - 100.0, sleep=self.sleep)


def config(**said: Any) -> FakeConfig:
    """A plan as YAML would give it; `default` is what the default account has."""
    default = said.pop("default", None)
    if default is not None:
        said.setdefault("accounts", {})["default"] = default
    return read(said)


def serving(still: Still | None = None, **said: Any) -> FakeServer:
    return FakeServer(config(**said), time_source=(still or Still()).time_source)


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], **more}


def message(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "claude-x", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The events of a stream: name and data, as far as it is JSON."""
        found = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in lines:
                text = lines["data"]
                found.append((lines.get("event", ""), text if text == "[DONE]" else json.loads(text)))
        return found


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
        got = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, got, await answer.read())


@asynccontextmanager
async def opened(
    server: FakeServer, body: dict[str, Any], path: str = CHAT
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One request sent by hand; whoever reads sees every byte."""
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
    """Give the server turns until something holds; pytest's timeout is the end of patience."""
    while not condition():  # noqa: ASYNC110 - the server has no event for what is only counted
        await asyncio.sleep(0)
