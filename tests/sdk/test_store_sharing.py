"""Clients and `Lane` objects that share their lanes with the jobs of a store."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.engine.test_engine import PATIENCE_S, until
from tests.engine.test_sharing import Gate, engine_of

import headway
from headway import Limits
from headway.config import lane_key, load
from headway.core.lanes.job_share import Claim
from headway.errors import HeadwayError, UsageError
from headway.fake.config_file import read
from headway.fake.server import FakeServer
from headway.sdk import store_sharing
from headway.sdk.client_settings import ClientSettings
from headway.sdk.request_info import read_request
from headway.stores.records import StoredClaim
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store

EIGHT = Limits(rpm=0, max_concurrency=8)
SALT = b"salt"


def claims_in(path: Path) -> list[StoredClaim]:
    with Store(SqliteFile(path)) as store:
        return list(store.claims.news(0, 0, 0.0).changed)


class Holders:
    """Tasks that hold a permit of a lane until the test ends them."""

    def __init__(self, lane: headway.Lane, tasks: int) -> None:
        self.lane = lane
        self.out = 0
        self._let = asyncio.Semaphore(0)
        self.tasks = [asyncio.create_task(self._hold()) for _ in range(tasks)]

    async def _hold(self) -> None:
        async with self.lane.permit():
            self.out += 1
            await self._let.acquire()
            self.out -= 1

    async def end(self) -> None:
        for _ in self.tasks:
            self._let.release()
        await asyncio.gather(*self.tasks)


async def test_a_lane_and_a_job_share_the_lane_of_one_name(tmp_path: Path) -> None:
    path, gate = tmp_path / "db", Gate()
    engine, shared = engine_of(path, "job", 1.0, gate)
    async with asyncio.timeout(PATIENCE_S), headway.Lane(EIGHT, name="alpha/gpt-x", db=path) as lane:
        job = asyncio.create_task(engine.run())
        await until(lambda: gate.out == 8)
        holders = Holders(lane, 40)
        await until(lambda: bool(shared.told))
        assert holders.out == 0  # No place is free yet.
        gate.let(4)
        await until(lambda: (gate.out, holders.out) == (4, 4))
        gate.let(40)
        await job
        await until(lambda: holders.out == 8)
        await holders.end()
    assert shared.told[0] == "a Python client uses this lane, too: this job has 50% of its limits"


async def test_a_lane_that_was_idle_looks_again_before_its_next_call(tmp_path: Path) -> None:
    path, gate = tmp_path / "db", Gate()
    engine, shared = engine_of(path, "job", 1.0, gate)
    async with asyncio.timeout(PATIENCE_S), headway.Lane(EIGHT, name="alpha/gpt-x", db=path) as lane:
        async with lane.permit():
            pass
        await until(lambda: b'"hungry":false' in claims_in(path)[0].claim)
        job = asyncio.create_task(engine.run())
        await until(lambda: gate.out == 8)
        holders = Holders(lane, 8)
        await until(lambda: bool(shared.told))
        assert holders.out == 0
        gate.let(4)
        await until(lambda: (gate.out, holders.out) == (4, 4))
        await holders.end()
        gate.let(40)
        await job


async def test_a_lane_of_another_name_is_not_shared(tmp_path: Path) -> None:
    path, gate = tmp_path / "db", Gate()
    engine, shared = engine_of(path, "job", 1.0, gate)
    async with asyncio.timeout(PATIENCE_S), headway.Lane(EIGHT, name="beta/gpt-x", db=path) as lane:
        job, holders = asyncio.create_task(engine.run()), Holders(lane, 8)
        await until(lambda: (gate.out, holders.out) == (8, 8))
        gate.let(40)
        await job
        await holders.end()
    assert shared.told == []


async def test_a_closed_lane_leaves_no_claim_and_what_it_has_learned(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with asyncio.timeout(PATIENCE_S), headway.Lane(EIGHT, name="alpha/gpt-x", db=path) as lane:
        holders = Holders(lane, 1)
        await until(lambda: holders.out == 1)
        await until(lambda: len(claims_in(path)) == 1)
        await holders.end()
    assert claims_in(path) == []
    with Store(SqliteFile(path)) as store:
        assert [(one.name, one.record is not None) for one in store.lanes()] == [("alpha/gpt-x", True)]


def test_a_lane_inside_a_call_of_the_same_lane_does_not_wait_for_that_call(tmp_path: Path) -> None:
    one = Limits(rpm=0, max_concurrency=1)
    lane = headway.Lane(one, name="same", db=tmp_path / "db")

    def call(item: int) -> int:
        with lane.permit():
            return item

    done: list[list[int]] = []

    def work() -> None:
        mapped = headway.map(
            call, [1, 2], lane="same", limits=one, db=tmp_path / "db", key=str, name="job", progress=False
        )
        done.append(mapped)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    lane.close()
    assert done == [[1, 2]]


def test_a_lane_inside_a_call_without_a_named_lane_is_shared(tmp_path: Path) -> None:
    lane = headway.Lane(EIGHT, name="alpha/gpt-x", db=tmp_path / "db")

    def call(item: int) -> int:
        with lane.permit():
            return len(claims_in(tmp_path / "db"))

    assert headway.map(call, [1], progress=False) == [1]
    lane.close()


async def test_a_lane_goes_on_alone_if_its_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(db: str) -> Store:
        raise OSError("the disk is gone")

    async with (
        asyncio.timeout(PATIENCE_S),
        headway.Lane(EIGHT, name="alpha/gpt-x", db=tmp_path / "db") as lane,
    ):
        monkeypatch.setattr(store_sharing, "open_store_file", fails)
        with caplog.at_level(logging.WARNING, "headway"):
            async with lane.permit():
                pass
    assert "alpha/gpt-x: not shared with other jobs any more" in caplog.text
    assert "the disk is gone" in caplog.text


async def test_a_permit_that_is_given_up_while_the_shares_are_read_starts_nothing(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        headway.Lane(EIGHT, name="alpha/gpt-x", db=tmp_path / "db") as lane,
    ):
        holders = Holders(lane, 1)
        await asyncio.sleep(0)
        holders.tasks[0].cancel()
        await asyncio.wait(holders.tasks)
        async with lane.permit():
            assert holders.out == 0


async def test_what_calls_that_come_one_by_one_use_is_known_between_them(tmp_path: Path) -> None:
    path = tmp_path / "db"
    limits = Limits(rpm=600, burst="1s")
    async with asyncio.timeout(PATIENCE_S), headway.Lane(limits, name="alpha/gpt-x", db=path) as lane:
        for _ in range(5):
            async with lane.permit():
                pass
        await until(lambda: b'"hungry":false' in claims_in(path)[0].claim)
        used = msgspec.json.decode(claims_in(path)[0].claim, type=Claim).use
    assert used > 0.02


async def test_a_job_and_a_client_with_the_same_key_stay_within_one_limit(tmp_path: Path) -> None:
    """A job of 60 requests beside 60 of a client, ten a second for both: without the file they would be 20 a second."""
    fake = {"accounts": {"default": {"rpm": 600, "burst": "1s", "headers": "none", "latency": "20ms"}}}
    async with asyncio.timeout(PATIENCE_S), FakeServer(read(fake)) as server:
        (tmp_path / "headway.toml").write_text(JOB.format(url=server.url), encoding="utf-8")
        rows = (f'{{"id": "u{n}", "prompt": "hello"}}\n' for n in range(60))
        (tmp_path / "in.jsonl").write_text("".join(rows), encoding="utf-8")
        job = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headway", "run", "in.jsonl", "--out", "out.jsonl",
            cwd=tmp_path, env={**os.environ, "ALPHA_KEY": KEY}, stderr=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        limits = Limits(rpm=600, burst="1s")
        async with headway.httpx_client(limits=limits, db=tmp_path / ".headway" / "headway.db") as client:
            statuses = await asyncio.gather(*(post(client, server.url) for _ in range(60)))
        assert statuses == [200] * 60
        assert await job.wait() == 0
        refused = server.stats()["total"]["refused"]
    assert sum(refused.values()) <= 3, refused


# -- the same lane as a job's ---------------------------------------------------------------------------------------

KEY = "sk-of-both-4f9a1c77e2b8"
JOB = """
[providers.openai]
kind = "openai"
base_url = "{url}/v1"
api_key_env = "ALPHA_KEY"
model = "m"
[providers.openai.limits]
rpm = 600
burst = "1s"
"""
BODY: dict[str, Any] = {"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]}


async def post(client: Any, url: str) -> int:
    headers = {"Authorization": f"Bearer {KEY}"}
    answer = await client.post(f"{url}/v1/chat/completions", json=BODY, headers=headers)
    return int(answer.status_code)


CONFIG = """
[providers.{kind}]
kind = "{kind}"
base_url = "http://127.0.0.1:8900{path}"
"""


@pytest.mark.parametrize(
    ("kind", "path", "end", "headers"),
    [
        ("openai", "/v1", "/v1/chat/completions", {"Authorization": "Bearer sk-1"}),
        ("anthropic", "", "/v1/messages", {"X-Api-Key": "sk-1"}),
    ],
)
def test_a_client_uses_the_lane_of_a_job_with_the_same_key(
    tmp_path: Path, kind: str, path: str, end: str, headers: dict[str, str]
) -> None:
    (tmp_path / "headway.toml").write_text(CONFIG.format(kind=kind, path=path))
    provider = load(tmp_path / "headway.toml", tmp_path, {}).providers[kind]
    body = b'{"model": "m", "max_tokens": 5, "messages": []}'
    request = httpx2.Request("POST", f"http://127.0.0.1:8900{end}", headers=headers, content=body)
    info = read_request(request, body)
    assert info.stored_key is not None
    assert info.stored_key(SALT) == lane_key(provider, "m", "sk-1", SALT)
    assert info.stored_key(SALT) != lane_key(provider, "m", "sk-2", SALT)
    assert "sk-1" not in repr(info)


def test_a_project_has_a_lane_of_its_own() -> None:
    def stored(**headers: str) -> str:
        request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions", headers=headers)
        found = read_request(request, b'{"model": "m", "messages": []}').stored_key
        assert found is not None
        return found(SALT)

    key: dict[str, Any] = {"Authorization": "Bearer sk-1"}
    assert stored(**key) == stored(**key) != stored(**key, **{"OpenAI-Project": "p"})


# -- settings -------------------------------------------------------------------------------------------------------


def test_a_lane_without_a_name_has_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="db is for lanes with a name"):
        headway.Lane(EIGHT, db=tmp_path / "db")


def test_a_lane_has_one_store(tmp_path: Path) -> None:
    with (
        headway.Lane(name="x", db=tmp_path / "one") as one,
        headway.Lane(name="x", db=tmp_path / "two") as two,
    ):
        with one.permit():
            pass
        with pytest.raises(UsageError, match="db="), two.permit():
            pass


def test_a_store_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError):
        ClientSettings(db=tmp_path)
    with pytest.raises(UsageError, match="db is 3"):
        ClientSettings(db=3)  # type: ignore[arg-type]
