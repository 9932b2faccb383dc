"""A client that is told the truth: the limits, the buckets' depths, what each request will be charged.

The best that a client can do, near enough: exact buckets in virtual time, no cap on what is in flight, nothing
recorded. It shares no code with the scheduler that it is compared to. A process of its own: it is given a file with
a `Job` in JSON, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

#: What it leaves in each bucket, in seconds of refill, for the jitter of the way there.
MARGIN_S: Final = 0.03
#: Connections that are open before the first request: a bucket starts to refill when its burst arrives, and a burst
#: that opens its connections first arrives late.
MOST_OPEN: Final = 1_000
TOO_MANY: Final = 429


class Call(msgspec.Struct, array_like=True):
    """A request and what each of its lane's buckets is charged for it."""

    body: msgspec.Raw
    costs: tuple[float, ...]


class Lane(msgspec.Struct):
    """An account: where it is, its headers, the rate (a second) and depth of each bucket, and the work."""

    url: str
    headers: dict[str, str]
    rates: tuple[float, ...]
    depth_s: float
    calls: list[Call]


class Job(msgspec.Struct):
    """Everything that is to be done."""

    lanes: list[Lane]


class Made(msgspec.Struct):
    """What came of it."""

    ok: int = 0
    refused: int = 0
    failed: int = 0


class Buckets:
    """All buckets of a lane, each as the instant at which it will be full again."""

    def __init__(self, rates: tuple[float, ...], depth_s: float) -> None:
        self._rates = rates
        self._depth_s = depth_s - MARGIN_S
        self._full_at = [0.0] * len(rates)

    def ready_at(self, costs: tuple[float, ...]) -> float:
        """When all of them hold what is asked for."""
        places = range(len(self._rates))
        return max(self._full_at[n] + costs[n] / self._rates[n] for n in places) - self._depth_s

    def take(self, costs: tuple[float, ...], now: float) -> None:
        """Take it out."""
        for n, rate in enumerate(self._rates):
            self._full_at[n] = max(self._full_at[n], now) + costs[n] / rate


async def _drive(session: aiohttp.ClientSession, lane: Lane, made: Made) -> None:
    loop = asyncio.get_running_loop()
    buckets = Buckets(lane.rates, lane.depth_s)
    calls = deque(lane.calls)
    left = len(calls)
    news = asyncio.Event()
    out: set[asyncio.Task[None]] = set()

    async def send(call: Call) -> None:
        nonlocal left
        status = await _post(session, lane, call)
        if status == TOO_MANY:
            made.refused += 1
            calls.append(
                call
            )  # What it took of the buckets stays taken: they are not as full as was thought.
        else:
            made.ok += status == 200
            made.failed += status != 200
            left -= 1
        news.set()

    while left:
        if not calls:
            news.clear()
            await news.wait()
            continue
        wait_s = buckets.ready_at(calls[0].costs) - loop.time()
        if wait_s > 0.0:
            await asyncio.sleep(wait_s)
        call = calls.popleft()
        buckets.take(call.costs, loop.time())
        task = loop.create_task(send(call))
        out.add(task)
        task.add_done_callback(out.discard)
        await asyncio.sleep(0)  # It is on its way before the next is looked at.


async def _post(session: aiohttp.ClientSession, lane: Lane, call: Call) -> int:
    try:
        async with session.post(lane.url, data=bytes(call.body), headers=lane.headers) as response:
            await response.read()
            return response.status
    except (aiohttp.ClientError, OSError):
        return 0


async def _connect(session: aiohttp.ClientSession, url: str) -> None:
    """Something that is no request of an account, and leaves an open connection."""
    async with session.get(url) as response:
        await response.read()


def _burst(lane: Lane) -> int:
    """How many requests its full buckets let through at once."""
    most = min(
        rate * lane.depth_s / (costs or 1.0) for rate, costs in zip(lane.rates, _mean(lane), strict=True)
    )
    return min(MOST_OPEN, len(lane.calls), int(1.2 * most))


def _mean(lane: Lane) -> list[float]:
    return [sum(call.costs[n] for call in lane.calls) / len(lane.calls) for n in range(len(lane.rates))]


async def main(job: Job) -> Made:
    """Do all lanes at once."""
    made = Made()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        await asyncio.gather(
            *(_connect(session, lane.url) for lane in job.lanes for _ in range(_burst(lane)))
        )
        await asyncio.gather(*(_drive(session, lane, made) for lane in job.lanes))
    return made


def _run() -> None:
    import uvloop

    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(msgspec.json.encode(runner.run(main(job))).decode())


if __name__ == "__main__":
    _run()
