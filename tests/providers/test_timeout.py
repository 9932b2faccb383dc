"""The timeouts of attempts: one timer for all that have the same one, and each expires at its own instant."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys

import pytest

from headway.providers.http.timeout import MOST_GROUPS, AttemptTimeout, TimeoutGroup, Timeouts
from headway.testing.virtual import Clock


async def attempt(group: TimeoutGroup, takes_s: float) -> float | None:
    """An attempt that takes so long; returns when it expired, None if it did not."""
    timeout = AttemptTimeout(group)
    try:
        await asyncio.sleep(takes_s)
    except asyncio.CancelledError as cancelled:
        timeout.check_cancelled(cancelled)
        return asyncio.get_running_loop().time()
    finally:
        timeout.end()
    return None


async def later(wait_s: float, group: TimeoutGroup, takes_s: float) -> float | None:
    await asyncio.sleep(wait_s)
    return await attempt(group, takes_s)


def test_each_attempt_expires_at_its_own_instant() -> None:
    async def main() -> list[float | None]:
        group = TimeoutGroup(10.0)
        expired = await asyncio.gather(
            attempt(group, 1.0), later(2.0, group, 99.0), later(3.0, group, 5.0), later(4.0, group, 99.0)
        )
        return list(expired)

    clock = Clock()
    expired = clock.run(main())
    assert expired == [None, pytest.approx(12.0, abs=0.002), None, pytest.approx(14.0, abs=0.002)]


def test_all_attempts_share_one_timer_and_none_is_left_behind() -> None:
    armed: list[float] = []

    async def main() -> None:
        loop, group = asyncio.get_running_loop(), TimeoutGroup(10.0)
        call_at = loop.call_at

        def counted(when: float, *arguments: object, **more: object) -> asyncio.TimerHandle:
            if arguments[0] == group._expire:
                armed.append(when)
            return call_at(when, *arguments, **more)  # type: ignore[arg-type]

        loop.call_at = counted  # type: ignore[method-assign]
        await asyncio.gather(*(attempt(group, 1.0) for _ in range(50)))
        assert group._timer is None

    clock = Clock()
    clock.run(main())
    assert (armed, clock.now) == ([10.0], 1.0)


def test_a_cancellation_from_outside_is_not_an_expiry() -> None:
    async def main() -> None:
        task = asyncio.create_task(attempt(TimeoutGroup(10.0), 99.0))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    Clock().run(main())


def test_any_number_of_different_timeouts() -> None:
    async def main() -> None:
        timeouts = Timeouts()
        for seconds in range(1, 3 * MOST_GROUPS):
            timeouts.begin(float(seconds)).end()
        assert len(timeouts._groups) <= MOST_GROUPS
        held = timeouts.begin(1.0)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(2.0)
        assert held.expired

    Clock().run(main())


def test_aiohttp_has_its_certificates_where_they_are_checked() -> None:
    """In a process of its own: another test may have imported aiohttp already."""
    code = (
        "import ssl\n"
        "from headway.providers.http import client_library\n"
        "from aiohttp import connector\n"
        "assert 'set_default_verify_paths' not in vars(ssl.SSLContext)\n"
        "plain = ssl.create_default_context()\n"
        "checked, unchecked = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED\n"
        "assert checked.cert_store_stats() == plain.cert_store_stats()\n"
        "assert checked.verify_mode == ssl.CERT_REQUIRED and unchecked.verify_mode == ssl.CERT_NONE\n"
        "assert unchecked.cert_store_stats()['x509'] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
