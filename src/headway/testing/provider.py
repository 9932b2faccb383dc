"""The fake provider inside the process of a test: real HTTP on loopback, from a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from headway.fake.config_file import read
from headway.fake.fake_config import FakeConfig
from headway.fake.flags import parse_fault
from headway.fake.server import FakeServer
from headway.runtime.loops import usual_loop


class FakeProvider:
    """A provider that listens, as long as the `with` that made it lasts."""

    def __init__(self, server: FakeServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._loop = server, loop
        #: What Anthropic's clients take as base URL.
        self.url = server.url
        #: What OpenAI's clients take.
        self.openai_url = f"{server.url}/v1"
        self.port = server.port

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """What was received, admitted, refused, answered, repeated and lost: docs/reference/fake.md names every figure."""

        async def told() -> dict[str, Any]:
            return self._server.stats(series=series)

        return asyncio.run_coroutine_threadsafe(told(), self._loop).result()

    def reset(self) -> None:
        """Forget all counts. The buckets stay as they are."""

        async def forgotten() -> None:
            self._server.service.reset()

        asyncio.run_coroutine_threadsafe(forgotten(), self._loop).result()


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
    """A provider with limits, headers and faults, that speaks OpenAI's and Anthropic's APIs and knows every key.

    `account` has the limits and delays of the account that takes any key (`rpm=60`, `latency="50ms"`, `headers="none"`);
    `accounts` has more of them by name, each with keys of its own. A fault is written as in `headway fake --fault`
    ("5xx=0.05", "529/10") or as a mapping. It echoes what it is asked; `answers` has others. docs/reference/fake.md has
    every key. It lives in real time.

    >>> from urllib.request import urlopen
    >>> with fake_provider(rpm=600, faults=["500/3"]) as provider:
    ...     urlopen(provider.url).status
    ...     provider.stats()["total"]["received"]
    200
    0
    """
    plan = _plan(accounts, faults, account, answers=list(answers), strict=strict, seed=seed)
    loop = usual_loop()
    server = FakeServer(plan)
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


def _plan(
    accounts: Mapping[str, Mapping[str, object]] | None,
    faults: Sequence[str | Mapping[str, object]],
    account: Mapping[str, object],
    **settings: object,
) -> FakeConfig:
    """One plan out of all of it; what is wrong is named."""
    told = {name: dict(said) for name, said in (accounts or {}).items()}
    if account:
        told["default"] = {**told.get("default", {}), **account}
    shaped = [dict(fault) for fault in faults if not isinstance(fault, str)]
    plan = read({"accounts": told, "faults": shaped, **settings}, "fake_provider")
    written = tuple(parse_fault(fault) for fault in faults if isinstance(fault, str))
    return msgspec.structs.replace(plan, faults=(*written, *plan.faults))
