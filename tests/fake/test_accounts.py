"""Admission, charges, and the headers that report them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.fake.limits.accounts import Account, Slots
from headway.fake.limits.headers import limit_headers, retry_after

from .virtual_server import WALL, config


def account(**settings: Any) -> Account:
    return Account("one", config(default=settings).accounts["default"])


def test_openai_charges_input_and_max_tokens_and_refunds_nothing() -> None:
    one = account(tpm=6000)
    assert one.admit(100, 400, 0.0) is None
    one.charge_output(10, 0.0)
    assert one.limits["tpm"].bucket.level(0.0) == pytest.approx(5500)


def test_without_max_tokens_the_default_is_charged() -> None:
    one = account(tpm=6000, default_max_tokens=1000)
    one.admit(100, None, 0.0)
    assert one.limits["tpm"].bucket.level(0.0) == pytest.approx(4900)


def test_anthropic_charges_input_at_admission_and_output_as_produced() -> None:
    one = account(itpm=6000, otpm=600)
    assert one.admit(100, 400, 0.0) is None
    assert one.limits["otpm"].bucket.level(0.0) == 600
    one.charge_output(700, 0.0)
    assert one.limits["itpm"].bucket.level(0.0) == pytest.approx(5900)
    refusal = one.admit(1, 1, 0.0)
    assert refusal is not None
    assert refusal.reason == "otpm"
    assert refusal.wait_s == pytest.approx(10.1)


def test_a_refusal_charges_nothing_and_names_the_longest_wait() -> None:
    one = account(rpm=60, tpm=6000, burst=10)
    assert one.admit(900, 0, 0.0) is None
    refusal = one.admit(300, 0, 0.0)
    assert refusal is not None
    assert (refusal.reason, refusal.limit, refusal.used, refusal.requested) == ("tpm", 6000, 5900, 300)
    assert refusal.wait_s == pytest.approx(2.0)
    assert one.limits["rpm"].bucket.level(0.0) == pytest.approx(9.0)
    assert one.admit(300, 0, 1.999) is not None
    assert one.admit(300, 0, 2.0) is None


def test_a_request_above_the_capacity_is_too_large() -> None:
    one = account(tpm=6000, burst=10)
    refusal = one.admit(1001, 0, 0.0)
    assert refusal is not None
    assert refusal.too_large
    assert (refusal.limit, refusal.requested) == (1000, 1001)


def test_oversize_admit_waits_for_a_full_bucket() -> None:
    one = account(tpm=6000, burst=10, oversize="admit")
    assert one.admit(2000, 0, 0.0) is None
    refusal = one.admit(2000, 0, 0.0)
    assert refusal is not None
    assert refusal.wait_s == pytest.approx(20.0)
    over_a_minute = one.admit(6001, 0, 0.0)
    assert over_a_minute is not None
    assert over_a_minute.too_large


def test_a_shallow_request_bucket_holds_one_request() -> None:
    one = account(rpm=6, burst=1)
    assert one.admit(1, 1, 0.0) is None
    refusal = one.admit(1, 1, 0.0)
    assert refusal is not None
    assert refusal.wait_s == pytest.approx(10.0)


def test_daily_buckets_are_a_day_deep() -> None:
    one = account(rpd=2, burst=1)
    assert [one.admit(1, 1, 0.0) is None for _ in range(3)] == [True, True, False]
    assert one.admit(1, 1, 43_200.0) is None


def test_limits_change_at_their_instants() -> None:
    one = account(rpm=60, limits=[{"at": 60, "rpm": 600}, {"at": "30s", "rpm": 6, "tpm": 10}])
    one.admit(1, 1, 29.0)
    assert one.limits["rpm"].bucket.limit == 60
    one.admit(1, 1, 30.0)
    assert one.limits["rpm"].bucket.limit == 6
    assert one.limits["tpm"].bucket.limit == 10
    one.admit(1, 1, 60.0)
    assert one.limits["rpm"].bucket.limit == 600


def test_openai_headers() -> None:
    one = account(rpm=600, tpm=60_000)
    one.admit(100, 400, 5.0)
    assert limit_headers(one, "openai", 5.0, WALL) == {
        "x-ratelimit-limit-requests": "600",
        "x-ratelimit-remaining-requests": "599",
        "x-ratelimit-reset-requests": "100ms",
        "x-ratelimit-limit-tokens": "60000",
        "x-ratelimit-remaining-tokens": "59500",
        "x-ratelimit-reset-tokens": "500ms",
    }


def test_anthropic_headers_round_tokens_and_report_the_tightest() -> None:
    one = account(rpm=60, itpm=60_000, otpm=6000)
    one.admit(1400, 400, 0.0)
    one.charge_output(3000, 0.0)
    headers = limit_headers(one, "anthropic", 0.0, WALL)
    prefix = "anthropic-ratelimit-"
    assert headers[prefix + "requests-remaining"] == "59"
    assert headers[prefix + "requests-reset"] == "2027-01-15T08:00:01Z"
    assert headers[prefix + "input-tokens-remaining"] == "59000"
    assert headers[prefix + "input-tokens-reset"] == "2027-01-15T08:00:02Z"
    assert headers[prefix + "output-tokens-remaining"] == "3000"
    assert headers[prefix + "output-tokens-reset"] == "2027-01-15T08:00:30Z"
    for what in ("limit", "remaining", "reset"):
        assert headers[f"{prefix}tokens-{what}"] == headers[f"{prefix}output-tokens-{what}"]


def test_headers_report_a_minute_over_a_bucket_of_a_second() -> None:
    one = account(rpm=600, headers="minute")
    for _ in range(10):
        assert one.admit(1, 1, 0.0) is None
    assert one.admit(1, 1, 0.0) is not None
    headers = limit_headers(one, "openai", 0.0, WALL)
    assert headers["x-ratelimit-remaining-requests"] == "590"
    assert headers["x-ratelimit-reset-requests"] == "1s"


def test_a_fixed_window_resets_at_its_end() -> None:
    one = account(rpm=60, window="fixed")
    one.admit(1, 1, 15.0)
    headers = limit_headers(one, "openai", 15.0, WALL)
    assert headers["x-ratelimit-remaining-requests"] == "59"
    assert headers["x-ratelimit-reset-requests"] == "45s"


def test_daily_requests_are_reported_without_other_limits() -> None:
    one = account(rpd=14_400)
    one.admit(1, 1, 0.0)
    headers = limit_headers(one, "openai", 0.0, WALL)
    assert headers["x-ratelimit-remaining-requests"] == "14399"
    assert headers["x-ratelimit-reset-requests"] == "6s"


def test_retry_after_is_rounded_up() -> None:
    assert retry_after(account(), 0.02) == {"retry-after": "1"}
    assert retry_after(account(retry_after="ms"), 1.0201) == {"retry-after": "2", "retry-after-ms": "1021"}
    assert retry_after(account(retry_after=False), 5.0) == {}


async def test_a_cap_refuses_and_a_queue_waits_in_order() -> None:
    slots = Slots(1, queue=2)
    await slots.enter()
    order: list[int] = []

    async def enter(number: int) -> None:
        await slots.enter()
        order.append(number)

    waiting = [asyncio.create_task(enter(number)) for number in range(2)]
    await asyncio.sleep(0)
    assert not slots.has_room
    slots.leave()
    await waiting[0]
    assert order == [0]
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    slots.leave()
    assert slots.taken == 0
    assert slots.has_room


async def test_a_slot_handed_to_a_cancelled_request_is_freed() -> None:
    slots = Slots(1, queue=True)
    await slots.enter()
    waiting = asyncio.create_task(slots.enter())
    await asyncio.sleep(0)
    slots.leave()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert slots.taken == 0


def test_a_full_account_refuses_by_concurrency() -> None:
    one = account(max_concurrency=1)
    one.slots.taken = 1
    refusal = one.admit(1, 1, 0.0)
    assert refusal is not None
    assert refusal.reason == "concurrency"
