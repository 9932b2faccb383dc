"""What the process may have in flight, and what happens if it is exhausted nevertheless."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys

import aiohttp
import msgspec
import pytest
from tests.engine.test_engine import ended
from tests.engine.test_prices import answered, engine

from headway.core.model import Kind, LaneLimits, Outcome
from headway.engine.sharing import process_capacity
from headway.engine.sharing.process_capacity import RISE_S, SPARE, ProcessCapacity
from headway.providers.adapter import Answer, Request
from headway.providers.exhaustion import exhaustion_text
from headway.providers.limits.exception_outcome import outcome_of
from headway.runtime import open_files
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


@pytest.fixture
def capacity(monkeypatch: pytest.MonkeyPatch) -> ProcessCapacity:
    """A process that may have 1,000 files open, and has 36."""
    monkeypatch.setattr(open_files, "raise_limit", lambda: None)
    monkeypatch.setattr(open_files, "limit", lambda: 1000)
    monkeypatch.setattr(open_files, "count", lambda: 36)
    return ProcessCapacity()


class Flying:
    """A user with so many in flight."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


def test_one_user_gets_what_is_not_open_less_some_to_spare(capacity: ProcessCapacity) -> None:
    assert capacity.join(Flying()).limit() == 1000 - 36 - SPARE


def test_several_users_share_it(capacity: ProcessCapacity) -> None:
    first, second = Flying(), Flying()
    one, other = capacity.join(first), capacity.join(second)
    assert one.limit() == other.limit() == 900
    first.count = 900
    assert other.limit() == 1
    second.count = 1
    assert other.limit() == 1, "it wants more"
    assert one.limit() == 450
    first.count = 700
    assert other.limit() == 200
    other.leave()
    assert one.limit() == 900


def test_an_exhausted_process_has_fewer_in_flight_and_rises_again(
    capacity: ProcessCapacity, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(process_capacity, "monotonic", lambda: now[0])
    flying = Flying()
    user = capacity.join(flying)
    flying.count = 300
    user.exhausted()
    assert user.limit() == 300 - SPARE, "what is in flight, less the files to spare"
    now[0] += 2.0 * RISE_S
    assert user.limit() == int(1.1 * (300 - SPARE))
    for _ in range(100):
        now[0] += RISE_S
        limit = user.limit()
    assert limit == 900


def test_at_least_one_may_always_be_in_flight(capacity: ProcessCapacity) -> None:
    user = capacity.join(Flying(1))
    user.exhausted()
    assert user.limit() == 1


@pytest.mark.parametrize("units", [1, 20])
async def test_an_attempt_that_the_process_could_not_send_does_not_count(units: int) -> None:
    """Not while others are in flight. A unit alone spends its attempts: waiting would not help."""
    store, open_now, was_full = Store(SqliteMemory()), [0], asyncio.Event()
    full = Outcome(Kind.TRANSIENT, message="too many open files", reached=False, sent=False, exhausted=True)

    async def send(request: Request) -> Answer:
        if open_now[0] >= 4 or units == 1:
            was_full.set()
            return Answer(full)
        open_now[0] += 1
        await was_full.wait()
        open_now[0] -= 1
        return await answered(request)

    run, _, watcher = engine(store, send, units)
    lane = run._spec.lanes["lane"]
    spec = msgspec.structs.replace(lane.spec, limits=LaneLimits(rpm=0.0, max_concurrency=10))
    run._spec = msgspec.structs.replace(run._spec, lanes={"lane": msgspec.structs.replace(lane, spec=spec)})
    state = (await ended(run)).state
    notices = watcher.noted_events.count("exhausted")
    job = store.job("job")
    assert job is not None
    if units == 1:
        assert (state, job.attempts, notices) == ("failed", 5, 0)
    else:
        assert state == "complete"
        assert job.attempts == units
        assert notices == 1


def chained(code: int, kind: type[Exception] = RuntimeError) -> Exception:
    """An exception of a client that was caused by a system's error."""
    try:
        try:
            raise OSError(code, "the system says so")
        except OSError as cause:
            raise kind("no connection") from cause
    except Exception as error:
        return error


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_exhaustion_is_recognised_behind_other_exceptions(code: int) -> None:
    assert exhaustion_text(chained(code), connected=False)
    outcome = outcome_of(chained(code))
    assert (outcome.kind, outcome.exhausted) == (Kind.TRANSIENT, True)


def test_the_message_says_what_to_do() -> None:
    assert "ulimit -n" in exhaustion_text(OSError(errno.EMFILE, ""), connected=True)


def test_a_local_address_without_a_way_is_no_exhaustion_until_it_was_reached() -> None:
    error = OSError(errno.EADDRNOTAVAIL, "")
    assert not exhaustion_text(error, connected=False)
    assert exhaustion_text(error, connected=True)
    assert not outcome_of(error).exhausted
    assert outcome_of(chained(errno.EADDRNOTAVAIL, aiohttp.ClientConnectionError)).exhausted


@pytest.mark.parametrize("error", [ConnectionRefusedError(errno.ECONNREFUSED, ""), socket.gaierror(-2, "")])
def test_other_errors_are_the_network_s(error: OSError) -> None:
    assert not exhaustion_text(error, connected=True)


PROGRAM = """
import resource, os, subprocess, sys
from headway.runtime import open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
open_files.raise_limit()
assert open_files.limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[1], open_files.limit()
pid = os.fork()
if not pid:
    os._exit(open_files.limit() != 100)
assert os.waitpid(pid, 0)[1] == 0
child = subprocess.Popen(["sh", "-c", "read wait; ulimit -Sn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
open_files.give_original_limit(child.pid)
print(child.communicate("go\\n")[0].strip())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the limits of another process")
def test_the_soft_limit_is_raised_and_children_get_the_original_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("100", "")
