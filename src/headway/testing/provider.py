"""The fake provider inside a test's process: real HTTP on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from headway.fake.config_file import read as read_config
from headway.fake.fake_config import FakeConfig
from headway.fake.flags import parse_fault
from headway.fake.server import FakeServer
from headway.runtime.loops import usual_loop


class FakeProvider:
    """A running fake provider. It stops at the end of the `with` block."""

    def __init__(self, server: FakeServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._loop = server, loop
        #: The base URL for Anthropic's clients.
        self.url = server.url
        #: The base URL for OpenAI's clients.
        self.openai_url = f"{server.url}/v1"
        self.port = server.port

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """Counts of requests received, admitted, refused, answered, repeated and lost: docs/reference/fake.md explains each."""

        async def read() -> dict[str, Any]:
            return self._server.stats(series=series)

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()

    def reset(self) -> None:
        """Reset the counts. The buckets stay as they are."""

        async def reset() -> None:
            self._server.service.reset()

        asyncio.run_coroutine_threadsafe(reset(), self._loop).result()


@contextmanager
def fake_provider(
    *,
    accounts: Mapping[str, Mapping[str, object]] | None = None,
    faults: Sequence[str | Mapping[str, object]] = (),
    answers: Sequence[Mapping[str, object]] = (),
    strict: bool = False,
    seed: int = 1,
    **account: object,
) -> Iterator[FakeProvider]:
    """Run a provider with limits, headers and faults. It speaks OpenAI's and Anthropic's APIs and accepts every key.

    `account` has the limits and delays of the account for any key (`rpm=60`, `latency="50ms"`, `headers="none"`);
    `accounts` has more accounts by name, each with its own keys. A fault is written as in `headway fake --fault`
    ("5xx=0.05", "529/10") or as a mapping. Answers echo the request unless `answers` has others. docs/reference/fake.md
    documents every key. The provider runs in real time.

    >>> from urllib.request import urlopen
    >>> with fake_provider(rpm=600, faults=["500/3"]) as provider:
    ...     urlopen(provider.url).status
    ...     provider.stats()["total"]["received"]
    200
    0
    """
    config = _config(accounts, faults, account, answers=list(answers), strict=strict, seed=seed)
    loop = usual_loop()
    server = FakeServer(config)
    thread = threading.Thread(target=loop.run_forever, name="headway-fake", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        try:
            yield FakeProvider(server, loop)
        finally:
            asyncio.run_coroutine_threadsafe(_stop(server), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(server: FakeServer) -> None:
    await server.stop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


def _config(
    accounts: Mapping[str, Mapping[str, object]] | None,
    faults: Sequence[str | Mapping[str, object]],
    account: Mapping[str, object],
    **more: object,
) -> FakeConfig:
    all_accounts = {name: dict(settings) for name, settings in (accounts or {}).items()}
    if account:
        all_accounts["default"] = {**all_accounts.get("default", {}), **account}
    mappings = [dict(fault) for fault in faults if not isinstance(fault, str)]
    config = read_config({"accounts": all_accounts, "faults": mappings, **more}, "fake_provider")
    texts = tuple(parse_fault(fault) for fault in faults if isinstance(fault, str))
    return msgspec.structs.replace(config, faults=(*texts, *config.faults))
