"""What claims cost with 100 engines on 50 lanes, on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from tests.postgres_server import PostgresServer

from headway.core.lanes.job_share import Claim
from headway.core.model import LaneLimits, LaneSpec, Settings
from headway.core.scheduler import Scheduler
from headway.engine.flights import LaneHandle
from headway.engine.recording.store_clock import StoreClock
from headway.engine.sharing.lane_sharing import LaneSharing
from headway.stores.claims import FIRST_CLIENT
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.wiring.store_access import open_store_file

ENGINES: Final = 100
LANES: Final = 50
TIMES: Final = 30


def rows(binaries: Path) -> Iterator[str]:
    """A table of times."""
    server = PostgresServer(binaries)
    try:
        with open_store_file(server.address()) as store:
            yield f"Claims of {ENGINES} engines on {LANES} lanes in one PostgreSQL ({TIMES} times each, medians; over its socket):"
            yield ""
            yield "| | ms |"
            yield "|---|---|"
            for what, took_ms in _measured(store):
                yield f"| {what} | {took_ms:.1f} |"
            yield ""
    finally:
        server.remove()


def _measured(store: Store) -> Iterator[tuple[str, float]]:
    lanes = [store.lane(f"openai|host|{number}", f"alpha/m{number}") for number in range(LANES)]
    others = range(FIRST_CLIENT + 1, FIRST_CLIENT + ENGINES)
    for one in others:
        claim = msgspec.json.encode(Claim(one, 1.0, hungry=True, use=0.0))
        store.claims.renew_client(one, [(lane.id, claim) for lane in lanes], {}, 1.0)
    yield (
        "an engine says that it is here (each second)",
        _median_ms(lambda: store.claims.renew_client(others[0], (), {}, 1.0)),
    )
    yield "the first look: all claims", _median_ms(lambda: store.claims.news(1, 0, 1.0))
    known = store.claims.news(1, 0, 1.0).known
    yield "a look when nothing has changed", _median_ms(lambda: store.claims.news(1, known, 1.0))

    def renew_all() -> None:
        for one in others:
            store.claims.renew_client(one, (), {}, 1.0)

    renew_all()
    handles = {lane.key: LaneHandle(lane.key, lane.name, lane) for lane in lanes}
    scheduler = Scheduler([LaneSpec(key, LaneLimits(rpm=600)) for key in handles], Settings(), 0.0)
    sharing = LaneSharing(1, 1.0, handles, StoreClock())
    news = sharing.read(store)
    instants = iter(range(1_000_000))
    sharing.look(news, WriteBatch(1), scheduler, 0.0)
    again = msgspec.structs.replace(news, changed=())
    yield (
        "the engine's own computation in a look",
        _median_ms(lambda: sharing.look(again, WriteBatch(1), scheduler, float(next(instants)))),
    )


def _median_ms(act: Callable[[], object]) -> float:
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        act()
        times.append(1000.0 * (time.perf_counter() - began))
    return median(times)
