"""A client that knows the truth: the limits, the depths of the buckets, what each request will be charged.

It is close to the best that a client can do: exact buckets, no cap on requests in flight, no
records. It shares no code with the scheduler that is compared with it. It runs in its own process: it reads a file with
a `Job` in JSON, and prints the result.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

#: What it leaves in each bucket, in seconds of refill, for the jitter of the network.
MARGIN_S: Final = 0.03
#: Connections are opened before the first request: a bucket starts to refill when its burst arrives, and a burst
#: that has to open connections arrives late.
MOST_OPEN: Final = 1_000
#: No cap where a lane has none.
MOST_IN_FLIGHT: Final = 1_000_000
TOO_MANY: Final = 429


class Call(msgspec.Struct, array_like=True):
    """A request and what each of its lane's buckets is charged for it."""

    body: msgspec.Raw
    costs: tuple[float, ...]


class Lane(msgspec.Struct):
    """An account: its URL and headers, the rate (per second) and depth of its buckets, and its work."""

    url: str
    headers: dict[str, str]
    rates: tuple[float, ...]
    depth_s: float
    calls: list[Call]
    #: If set, limits are fixed windows of the clock, of this length, instead of buckets.
    window_s: float = 0.0
    #: If set, the most requests in flight.
    most_in_flight: int = 0
    #: Whether a request that failed is sent again, at once.
    again: bool = False


class Job(msgspec.Struct):
    """All lanes."""

    lanes: list[Lane]


class OracleResult(msgspec.Struct):
    """The result."""

    ok: int = 0
    refused: int = 0
    failed: int = 0
    #: From the first send to the last answer.
    took_s: float = 0.0


class Buckets:
    """All buckets of a lane, each as the instant at which it will be full again."""

    def __init__(self, rates: tuple[float, ...], depth_s: float) -> None:
        self._rates = rates
        self._depth_s = depth_s - MARGIN_S
        self._full_at = [0.0] * len(rates)

    def ready_at(self, costs: tuple[float, ...]) -> float:
        """When all buckets hold these costs."""
        full_at = (self._full_at[n] + costs[n] / rate for n, rate in enumerate(self._rates))
        return max(full_at, default=0.0) - self._depth_s

    def take(self, costs: tuple[float, ...], now: float) -> None:
        """Charge these costs."""
        for n, rate in enumerate(self._rates):
            self._full_at[n] = max(self._full_at[n], now) + costs[n] / rate


class Windows:
    """Fixed windows of the clock, all of the same length, each as what was used of the present one."""

    def __init__(self, rates: tuple[float, ...], window_s: float) -> None:
        self._allowances = tuple(rate * window_s for rate in rates)
        self._window_s = window_s
        self._number = 0
        self._used = [0.0] * len(rates)

    def ready_at(self, costs: tuple[float, ...]) -> float:
        """When these costs fit: in the window of the last request, or at the start of the next one."""
        spent = zip(self._used, costs, self._allowances, strict=True)
        fits = all(used + cost <= allowance for used, cost, allowance in spent)
        return (self._number + (not fits)) * self._window_s + MARGIN_S

    def take(self, costs: tuple[float, ...], now: float) -> None:
        """Charge these costs."""
        number = int((now - MARGIN_S) // self._window_s)
        used = self._used if number == self._number else [0.0] * len(costs)
        self._number = number
        self._used = [sum(pair) for pair in zip(used, costs, strict=True)]


async def _drive(session: aiohttp.ClientSession, lane: Lane, result: OracleResult) -> None:
    loop = asyncio.get_running_loop()
    buckets = Windows(lane.rates, lane.window_s) if lane.window_s else Buckets(lane.rates, lane.depth_s)
    most = lane.most_in_flight or MOST_IN_FLIGHT
    calls = deque(lane.calls)
    left, in_flight = len(calls), 0
    news = asyncio.Event()
    out: set[asyncio.Task[None]] = set()

    async def send(call: Call) -> None:
        nonlocal left, in_flight
        status = await _post(session, lane, call)
        in_flight -= 1
        if status == TOO_MANY:
            result.refused += 1
            calls.append(call)  # Its charge stays: the buckets were not as full as assumed.
        elif status != 200 and lane.again:
            calls.append(call)
        else:
            result.ok += status == 200
            result.failed += status != 200
            left -= 1
        news.set()

    while left:
        if not calls or in_flight >= most:
            news.clear()
            await news.wait()
            continue
        wait_s = buckets.ready_at(calls[0].costs) - time.time()
        if wait_s > 0.0:
            await asyncio.sleep(wait_s)
        call = calls.popleft()
        buckets.take(call.costs, time.time())
        in_flight += 1
        task = loop.create_task(send(call))
        out.add(task)
        task.add_done_callback(out.discard)
        await asyncio.sleep(0)  # Lets the task send before the next call is considered.


async def _post(session: aiohttp.ClientSession, lane: Lane, call: Call) -> int:
    try:
        async with session.post(lane.url, data=bytes(call.body), headers=lane.headers) as response:
            await response.read()
            return response.status
    except (aiohttp.ClientError, OSError):
        return 0


async def _connect(session: aiohttp.ClientSession, url: str) -> None:
    """Open a connection with a request that is not counted."""
    async with session.get(url) as response:
        await response.read()


def _burst(lane: Lane) -> int:
    """How many requests the full buckets admit at once."""
    depth_s = lane.window_s or lane.depth_s
    bursts = (rate * depth_s / (costs or 1.0) for rate, costs in zip(lane.rates, _mean(lane), strict=True))
    most = int(1.2 * min(bursts, default=MOST_OPEN))
    return min(MOST_OPEN, len(lane.calls), most, lane.most_in_flight or MOST_IN_FLIGHT)


def _mean(lane: Lane) -> list[float]:
    return [sum(call.costs[n] for call in lane.calls) / len(lane.calls) for n in range(len(lane.rates))]


async def main(job: Job) -> OracleResult:
    """Run all lanes at the same time."""
    result = OracleResult()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        await asyncio.gather(
            *(_connect(session, lane.url) for lane in job.lanes for _ in range(_burst(lane)))
        )
        began = time.monotonic()
        await asyncio.gather(*(_drive(session, lane, result) for lane in job.lanes))
        result.took_s = time.monotonic() - began
    return result


def _run() -> None:
    import uvloop

    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(msgspec.json.encode(runner.run(main(job))).decode())


if __name__ == "__main__":
    _run()
