"""Limits, delays and statistics, over a real socket and with a manual clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.errors import UsageError
from headway.fake.server import FakeServer

from .virtual_server import CHAT, MESSAGES, ManualClock, ask, chat, message, opened, serving, until


async def test_refusal_of_openai() -> None:
    clock = ManualClock()
    async with serving(clock, default={"rpm": 6, "tpm": 6000, "burst": 10}) as server:
        first = await ask(server, CHAT, chat(max_tokens=500))
        refused = await ask(server, CHAT, chat(max_tokens=500))
        clock.now += 10.0
        again = await ask(server, CHAT, chat(max_tokens=500))
        stats = server.stats()["total"]
    assert (first.status, refused.status, again.status) == (200, 429, 200)
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    assert first.headers["x-ratelimit-remaining-tokens"] == "498"
    assert first.headers["x-ratelimit-reset-tokens"] == "5.02s"
    assert refused.headers["retry-after"] == "10"
    assert refused.headers["x-ratelimit-reset-requests"] == "10s"
    error = refused.json["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert (
        "on requests per min (RPM): Limit 6, Used 6, Requested 1. Please try again in 10s."
        in error["message"]
    )
    assert (stats["received"], stats["admitted"], stats["ok"], stats["refused"]) == (3, 2, 2, {"rpm": 1})


async def test_refusal_of_anthropic() -> None:
    async with serving(default={"rpm": 1}) as server:
        await ask(server, MESSAGES, message())
        refused = await ask(server, MESSAGES, message())
    assert refused.status == 429
    assert refused.headers["retry-after"] == "60"
    assert refused.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert refused.headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T08:01:00Z"
    assert refused.json["error"]["type"] == "rate_limit_error"
    assert "rate limit of 1 requests per minute" in refused.json["error"]["message"]


async def test_a_request_that_never_fits_has_its_own_message_and_count() -> None:
    async with serving(default={"tpm": 1000, "itpm": 1000}) as server:
        refused = await ask(server, CHAT, chat(max_tokens=2000))
        anthropic = await ask(server, MESSAGES, message("x" * 5000, max_tokens=1))
        stats = server.stats()["total"]
    assert refused.status == anthropic.status == 429
    assert refused.json["error"]["message"].startswith("Request too large for gpt-4o-mini")
    assert "Limit 1000, Requested 2002" in refused.json["error"]["message"]
    assert anthropic.json["error"]["message"].startswith("Request too large")
    assert "retry-after" not in refused.headers
    assert stats["refused"] == {"too_large": 2}


async def test_each_account_has_its_own_buckets() -> None:
    accounts = {"alpha": {"key": "a", "rpm": 1}, "beta": {"key": "b", "rpm": 1, "headers": "none"}}
    async with serving(accounts=accounts) as server:
        statuses = [
            (await ask(server, CHAT, chat(), key=key)).status for key in ("a", "b", "a", "b", "c", "c")
        ]
        silent = await ask(server, CHAT, chat(), key="b")
        stats = server.stats()
    assert statuses == [200, 200, 429, 429, 200, 200]
    assert not [name for name in silent.headers if "ratelimit" in name]
    assert stats["accounts"]["beta"]["refused"] == {"rpm": 2}
    assert stats["accounts"]["default"]["ok"] == 2
    assert stats["total"]["ok"] == 4


async def test_headers_of_another_vendor() -> None:
    async with serving(default={"rpm": 10, "headers": "anthropic"}) as server:
        answer = await ask(server, CHAT, chat())
    assert answer.headers["anthropic-ratelimit-requests-remaining"] == "9"


async def test_a_skewed_clock_shows_in_dates() -> None:
    async with serving(default={"rpm": 60}, clock_skew=3600) as server:
        answer = await ask(server, MESSAGES, message())
    assert answer.headers["date"] == "Fri, 15 Jan 2027 09:00:00 GMT"
    assert answer.headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T09:00:01Z"


async def test_delays_depend_on_the_request_and_the_seed() -> None:
    async def waits(seed: int) -> list[float]:
        clock = ManualClock()
        async with serving(clock, seed=seed, default={"latency": {"min": 0.1, "max": 0.3}}) as server:
            for number in range(20):
                await ask(server, CHAT, chat(f"number {number}"))
        return clock.waits

    first = await waits(1)
    assert first == await waits(1)
    assert first != await waits(2)
    assert len(set(first)) == 20
    assert 0.1 <= min(first) < max(first) <= 0.3


async def test_requests_beyond_the_cap_are_refused_or_queued() -> None:
    hang = [{"kind": "hang"}]
    async with (
        serving(default={"max_concurrency": 1}, faults=hang) as server,
        opened(server, chat("one")),
    ):
        await until(lambda: server.stats()["total"]["in_flight"] == 1)
        refused = await ask(server, CHAT, chat("two"))
    assert refused.status == 429
    assert "concurrent" in refused.json["error"]["message"]

    hang_once = [{"kind": "hang", "at": 0}]
    async with serving(default={"max_concurrency": 1, "queue": True}, faults=hang_once) as server:
        async with opened(server, chat("one")):
            await until(lambda: server.stats()["total"]["in_flight"] == 1)
            second = asyncio.create_task(ask(server, CHAT, chat("two")))
            await until(lambda: server.stats()["total"]["in_flight"] == 2)
        assert (await second).status == 200
        stats = server.stats()["total"]
    assert (stats["ok"], stats["cancelled"], stats["peak_in_flight"]) == (1, 1, 2)


async def test_a_disconnected_client_counts_as_cancelled_and_its_unit_as_lost_until_a_retry() -> None:
    async with serving(faults=[{"kind": "hang", "at": 0}]) as server:
        async with opened(server, chat("one", user="unit-1")):
            await until(lambda: server.stats()["total"]["in_flight"] == 1)
        await until(lambda: server.stats()["total"]["in_flight"] == 0)
        stats = server.stats()["total"]
        assert (stats["cancelled"], stats["lost"], stats["faulted"]) == (1, 1, {"hang": 1})
        await ask(server, CHAT, chat("one", user="unit-1"))
        stats = server.stats()["total"]
        assert (stats["ok"], stats["lost"], stats["repeats"]) == (1, 0, 0)
        await ask(server, CHAT, chat("one in other words", user="unit-1"))
        stats = server.stats()["total"]
    assert stats["repeats"] == 1
    assert stats["repeat_examples"][0]["unit"] == "unit-1"


@pytest.mark.parametrize("name", ["header", "metadata", "user", "body"])
async def test_a_unit_is_identified_by_name_or_body(name: str) -> None:
    header = {"x-headway-unit": "u 7"} if name == "header" else {}
    names: dict[str, Any] = {"metadata": {"id": "u 7"}, "user": "u 7"}
    more = {name: names[name]} if name in names else {}
    async with serving() as server:
        for text in ("one", "one", "two"):
            await ask(server, CHAT, chat(text, **more), headers=header)
        stats = server.stats()["total"]
        history = await ask(server, "/stats/requests/u%207", method="GET")
    assert stats["repeats"] == (1 if name == "body" else 2)
    assert history.status == (404 if name == "body" else 200)


async def test_stats_over_http() -> None:
    clock = ManualClock()
    async with serving(clock, default={"rpm": 2}) as server:
        for second in (0.5, 0.2, 1.5):
            clock.now += second
            await ask(server, CHAT, chat("hello"))
        answer = (await ask(server, "/stats?series=1", method="GET", key="")).json
        assert answer == server.stats(series=True)
        total = answer["total"]
        assert total["admitted_per_second"] == [2]
        assert (total["admitted"], total["refused"], total["repeats"]) == (2, {"rpm": 1}, 1)
        assert (total["first_admission_s"], total["last_admission_s"]) == (
            pytest.approx(0.5),
            pytest.approx(0.7),
        )
        fingerprint = total["repeat_examples"][0]["fingerprint"]
        history = (await ask(server, f"/stats/requests/{fingerprint}", method="GET")).json
        assert (history["admitted"], history["ok"], history["refused"]) == (2, 2, 1)
        cleared = (await ask(server, "/stats/reset", method="POST")).json
        assert cleared["total"]["received"] == 0
        assert cleared["since_s"] == pytest.approx(2.2)
        refused = await ask(server, CHAT, chat())
    assert refused.status == 429  # the buckets were not reset


async def test_requests_in_flight_at_the_stop_are_not_cancelled() -> None:
    server = serving(faults=[{"kind": "hang"}])
    await server.start()
    async with opened(server, chat()):
        await until(lambda: server.stats()["total"]["in_flight"] == 1)
        await server.stop()
    assert (server.stats()["total"]["cancelled"], server.stats()["total"]["in_flight"]) == (0, 1)


async def test_a_port_in_use_is_one_line_with_a_hint() -> None:
    async with FakeServer() as server:
        with pytest.raises(UsageError, match=r"is in use — choose another with --port"):
            await FakeServer(port=server.port).start()
