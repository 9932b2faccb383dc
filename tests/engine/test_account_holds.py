"""Two running jobs of one store, with other lanes and the same account: the one that is refused tells the other."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from headway.core.model import AccountWindow, Hint, Kind, LaneLimits, LaneSpec, Outcome, RetryPolicy
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.providers.adapter import Admitted, Answer, Request
from headway.stores.records import JobEvent, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store

from .test_engine import PATIENCE_S, Watcher, until

RESETS_S = 2.0


class Agent:
    """An adapter that is refused once, or answers when the test lets it."""

    def __init__(self, *, refused: bool) -> None:
        self.starts: list[float] = []
        self.let = asyncio.Event()
        self._refused = refused

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.starts.append(time.time())
        await self.let.wait()
        if not self._refused:
            return Answer(Outcome(), 200, "r", b"{}")
        self._refused = False
        window = AccountWindow("five_hour", 1.0, time.time() + RESETS_S, "rejected")
        hint = Hint(retry_after_s=RESETS_S, windows=(window,))
        return Answer(Outcome(Kind.HOLD, None, hint, "You've hit your 5-hour limit"))


class Held(Watcher):
    """Remembers holds."""

    def __init__(self) -> None:
        super().__init__()
        self.until: list[float] = []

    def noted(self, event: JobEvent) -> None:
        if event.what == "held" and event.until_utc is not None:
            self.until.append(event.until_utc)


def engine_of(path: Path, name: str, agent: Agent) -> tuple[Engine, Held]:
    with Store(SqliteFile(path)) as store:
        number = store.add_job(NewJob(name, "batch", "in.jsonl", name, "", 0.0))
        route = store.add_route(number, StoredRoute(name, "claude", "default"))
        store.add_units(number, 0, [NewUnit(f"u{n}", route, "claude", b"{}", chars=10) for n in range(4)])
        store.seal(number, 4, {"": (name, "claude", "default")}, name)
        job = store.job(name)
    assert job is not None
    retry = RetryPolicy(hold_margin_s=0.1)
    lane = LaneSpec(
        f"claude|{name}", LaneLimits(max_concurrency=1), retry, account="login", account_model=name
    )
    plan = run_spec.RunSpec(
        job=job,
        lanes={lane.key: run_spec.RunLane(lane, f"{name}/default", agent)},
        routes={route: run_spec.UnitRoute(lane.key, None)},
        settings={},
        timeout_s=60.0,
    )
    held = Held()
    return Engine(lambda: Store(SqliteFile(path)), plan, [held]), held


async def test_a_running_job_hears_of_the_refusal_of_another(tmp_path: Path) -> None:
    path = tmp_path / "db"
    refused, other = Agent(refused=True), Agent(refused=False)
    first, _ = engine_of(path, "first", refused)
    second, told = engine_of(path, "second", other)
    async with asyncio.timeout(PATIENCE_S):
        runs = [asyncio.create_task(first.run()), asyncio.create_task(second.run())]
        await until(lambda: len(refused.starts) == len(other.starts) == 1)
        refused.let.set()
        await until(lambda: bool(told.until))
        assert len(other.starts) == 1, "it was told before it was refused itself"
        other.let.set()
        await asyncio.gather(*runs)
    assert min(other.starts[1:]) >= told.until[0] - 0.05, "nothing started before the reset"
    assert len(other.starts) == 4
