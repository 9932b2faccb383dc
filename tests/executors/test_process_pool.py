"""The pool with real processes: what a worker does affects only its own unit."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.executors.conftest import LONG_S, Make, gone_within

from headway.core.model import Kind, Usage
from headway.executors import process_tree, worker_process
from headway.executors.evidence.capture import HEAD, TAIL, Capture
from headway.executors.evidence.log_files import NO_MARKS, Marks
from headway.executors.limit_evidence import LimitDetector
from headway.executors.pool_health import LEAST_ROUND, ROUNDS


async def test_a_unit_returns_its_value(make: Make) -> None:
    result = await make().do("echo", value={"a": [1, 2]})
    assert (result.end, json.loads(result.value), result.outcome.kind) == ("value", {"a": [1, 2]}, None)
    assert result.memory > 1_000_000
    assert (result.stdout, result.stderr) == (b"", b"")


async def test_payloads_and_values_may_be_large(make: Make) -> None:
    pool = make()
    text = "ü" * 10_000_000
    result = await pool.do("echo", value=text)
    assert json.loads(result.value) == text
    assert (await pool.do("big", size=30_000_000)).value == b"x" * 30_000_000


async def test_workers_are_reused_up_to_the_size_of_the_pool(make: Make) -> None:
    pool = make(size=2)
    result = await asyncio.gather(*(pool.do("pid") for _ in range(20)))
    assert len({each.value for each in result}) <= 2
    assert len(pool.pool.pids) <= 2


DEATHS: list[tuple[str, dict[str, Any], str]] = [
    ("kill", {"number": int(signal.SIGKILL)}, "killed by SIGKILL"),
    ("kill", {"number": int(signal.SIGTERM)}, "killed by SIGTERM"),
    ("segfault", {}, "killed by SIGSEGV"),
    ("exit", {"code": 3}, "it exited with code 3"),
    ("exit", {"code": 0}, "it exited with code 0"),
    ("close_pipe", {}, "it closed its pipe to Headway"),
]


@pytest.mark.parametrize(("deed", "given", "said"), DEATHS)
async def test_a_crash_affects_only_the_unit_that_ran(
    make: Make, deed: str, given: dict[str, Any], said: str
) -> None:
    pool = make(size=2)
    beside = asyncio.create_task(pool.do("echo", value="beside", seconds=0.4))
    result = await pool.do(deed, **given)
    assert result.end == "crash"
    assert result.outcome.kind is Kind.CRASH
    assert said in result.outcome.message
    assert (await beside).value == b'"beside"'
    assert (await pool.do("echo", value=1)).value == b"1"


async def test_a_crash_message_has_the_last_output_and_the_memory(make: Make) -> None:
    pool = make()
    result = await pool.do("exit", code=9)
    assert result.death is not None
    assert result.death.code == 9
    assert "last on standard error: last words" in result.outcome.message
    fatal = await pool.do("segfault")
    assert b"Segmentation fault" in fatal.stderr  # With the Python traceback, which faulthandler wrote.
    assert b"do_segfault" in fatal.stderr
    functions = (Path(__file__).parent / "unit_functions.py").read_text().splitlines()
    line = 1 + functions.index("    ctypes.string_at(0)")
    assert (
        f"killed by SIGSEGV in tests/executors/unit_functions.py:{line} do_segfault after"
        in fatal.outcome.message
    )
    assert fatal.outcome.message.endswith("last on standard error: Fatal Python error: Segmentation fault")
    big = await pool.do("oom")
    assert "killed by SIGKILL" in big.outcome.message
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if floor < 150_000_000:  # Below this process's own peak, the peak of a dead worker is unknown.
        assert big.memory > 150_000_000
        assert "; its memory peaked at " in big.outcome.message


async def test_a_worker_out_of_memory_is_reported_and_replaced(make: Make) -> None:
    pool = make()
    first = json.loads((await pool.do("pid")).value)
    result = await pool.do("exhaust")
    assert result.outcome.kind is Kind.CRASH
    assert result.outcome.message.startswith("out of memory: MemoryError; its memory peaked at ")
    assert result.outcome.message.endswith(" MB")
    assert json.loads((await pool.do("pid")).value) != first


async def test_failed_malloc_in_c_is_a_crash(make: Make) -> None:
    pool = make()
    result = await pool.do("allocate")
    assert (result.end, result.outcome.kind) == ("crash", Kind.CRASH)
    assert "killed by SIGSEGV" in result.outcome.message
    assert (await pool.do("echo", value=1)).value == b"1"


async def test_only_the_unit_above_the_memory_limit_is_killed(make: Make) -> None:
    limit = 300_000_000
    pool = make(size=2, memory_limit=limit)
    beside = asyncio.create_task(pool.do("echo", value="beside", seconds=0.4))
    result = await pool.do("exhaust", calmly=True)
    assert (result.end, result.outcome.kind) == ("crash", Kind.CRASH)
    assert "its worker died: out of memory (memory_limit is 300 MB) after" in result.outcome.message
    assert limit < result.memory < 4 * limit
    assert (await beside).value == b'"beside"'
    assert (await pool.do("echo", value=1)).value == b"1"


async def test_reported_usage_survives_the_death_of_the_worker(make: Make) -> None:
    pool = make()
    assert (await pool.do("pay", tokens=7)).outcome.usage == Usage(14.0, 2.0, 3.0, 0.25)
    assert (await pool.do("exit", code=1)).outcome.usage is None, "it is the unit's own"
    late = await pool.do("pay_and_hang", tokens=5, timeout_s=2.0)
    assert (late.end, late.outcome.usage) == ("timeout", Usage(5.0, 0.0))


async def test_an_exception_of_a_unit_does_not_end_its_worker(make: Make) -> None:
    pool = make()
    for deed, said in (("raise", "ValueError: not like this"), ("leave", "SystemExit: 3")):
        given: dict[str, Any] = {"code": 3} if deed == "leave" else {}
        result = await pool.do(deed, **given)
        assert result.end == "error"
        assert result.outcome.message.startswith(f"{said}; its memory peaked at ")
    assert (await pool.do("echo", value=1)).end == "value"


async def test_a_timeout_kills_the_whole_group(make: Make, tmp_path: Path) -> None:
    pool = make()
    await pool.do("pid")  # The worker is started, so that the timeout covers only the unit.
    result = await pool.do("children", file=str(tmp_path / "pids"), how="hold", timeout_s=3.0)
    assert result.end == "timeout"
    assert result.outcome.kind is Kind.TIMEOUT
    assert "no result within 3 s" in result.outcome.message
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(gone_within(pid, 2.0) for pid in pids)


async def test_a_worker_that_ignores_sigterm_is_killed(make: Make, tmp_path: Path) -> None:
    pool = make()
    await pool.do("pid")
    result = await pool.do("stubborn", ready=str(tmp_path / "pid"), timeout_s=3.0)
    assert result.end == "timeout"
    assert gone_within(int((tmp_path / "pid").read_text()), 2.0)


@pytest.mark.parametrize("how", ["return", "die"])
async def test_children_end_with_their_worker(make: Make, tmp_path: Path, how: str) -> None:
    """A death is noticed although a forked child holds its parent's end of the pipe."""
    pool = make()
    result = await pool.do("children", file=str(tmp_path / "pids"), how=how)
    assert result.end == ("value" if how == "return" else "crash")
    await pool.pool.close()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(gone_within(pid, 2.0) for pid in pids)


@pytest.mark.parametrize("how", ["hold", "return", "die"])
async def test_children_that_left_the_group_are_found(make: Make, tmp_path: Path, how: str) -> None:
    """After a timeout, a recycling and a crash. A child without an environment is found by its parent, while that lives."""
    pool = make(recycle_after=2)
    await pool.do("pid")  # The worker is started, so that the timeout covers only the unit.
    result = await pool.do(
        "strays", file=str(tmp_path / "pids"), how=how, timeout_s=3.0 if how == "hold" else LONG_S
    )
    assert result.end == {"hold": "timeout", "return": "value", "die": "crash"}[how]
    plain, daemon, bare = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    assert gone_within(plain, 2.0)
    assert gone_within(daemon, 2.0)
    if how == "die":
        os.kill(bare, signal.SIGKILL)  # Without parent and environment it cannot be found.
    else:
        assert gone_within(bare, 2.0)


async def test_other_processes_are_left_alone(make: Make, tmp_path: Path) -> None:
    """A worker's death ends its own children, not those of another pool or other programs."""
    await make().do("strays", file=str(tmp_path / "others"))
    await make().do("strays", file=str(tmp_path / "own"), how="die")
    own, others = ([int(pid) for pid in (tmp_path / name).read_text().split()] for name in ("own", "others"))
    assert all(gone_within(pid, 2.0) for pid in own[:2])
    assert not any(gone_within(pid, 0.0) for pid in others)
    os.kill(own[2], signal.SIGKILL)


def test_a_mark_that_is_a_prefix_of_another_matches_only_itself() -> None:
    first, tenth = (
        subprocess.Popen(["sleep", "60"], env=process_tree.marked_environment(f"test{os.getpid()}-{number}"))
        for number in (1, 10)
    )
    assert process_tree.kill_tree(f"test{os.getpid()}-1") == 1
    assert first.wait(10) == -signal.SIGKILL
    assert tenth.poll() is None
    tenth.kill()
    tenth.wait()


async def test_a_hundred_megabytes_of_output_use_bounded_memory(make: Make) -> None:
    pool = make()
    await pool.do("print", megabytes=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await pool.do("print", megabytes=100)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.value == b"100"
    assert result.stdout.startswith(b"the first line\nyyy")
    assert result.stdout.endswith(b"yyythe last line\n")
    assert len(result.stdout) < HEAD + TAIL + 100
    assert b"bytes left out" in result.stdout
    assert grown_kb < 10_000


async def test_output_of_c_code_is_captured_with_its_unit(make: Make) -> None:
    pool = make()
    result = await pool.do("speak")
    assert sorted(result.stdout.splitlines()) == [b"out of C", b"out of Python"]
    assert result.stderr == b"err of Python\nerr of C\n"
    assert (await pool.do("echo")).stdout == b""


def test_a_capture_keeps_both_ends() -> None:
    capture = Capture()
    whole = bytes(range(256)) * 8192
    for at in range(0, len(whole), 1000):
        capture.add(whole[at : at + 1000])
    taken = capture.take()
    assert taken.startswith(whole[:HEAD])
    assert taken.endswith(whole[-TAIL:])
    assert b"[... %d bytes left out ...]" % (len(whole) - HEAD - TAIL) in taken
    assert capture.take() == b""


async def test_a_worker_is_replaced_after_recycle_after_units(make: Make) -> None:
    pool = make(recycle_after=3)
    pids = [json.loads((await pool.do("pid")).value) for _ in range(9)]
    assert [len(set(pids[at : at + 3])) for at in (0, 3, 6)] == [1, 1, 1]
    assert len(set(pids)) == 3


async def test_a_worker_is_replaced_above_its_memory_ceiling(make: Make) -> None:
    pool = make(memory_ceiling=_own_peak() + 50_000_000)
    first = json.loads((await pool.do("pid")).value)
    assert json.loads((await pool.do("pid")).value) == first
    assert (await pool.do("grow", megabytes=_own_peak() // 1_000_000 + 120)).end == "value"
    assert json.loads((await pool.do("pid")).value) != first


def _own_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_a_note_accompanies_a_value(make: Make) -> None:
    pool = make("notes")
    result = await pool.pool.run(b"slower, please", LONG_S)
    assert (result.end, result.outcome.kind, result.outcome.message) == ("error", Kind.RATE, "slower, please")


async def test_a_pool_whose_workers_cannot_start_says_why_at_once(make: Make) -> None:
    pool = make("cannot", size=2)
    result = await asyncio.gather(pool.do("pid"), pool.do("pid"), pool.do("pid"))
    assert {each.outcome.kind for each in result} == {Kind.AUTH}
    assert "the workers cannot start: ImportError: no module named 'nowhere'" in result[0].outcome.message


async def test_starts_that_fail_are_tried_three_times(make: Make) -> None:
    result = await make("dies_at_start").do("pid")
    assert result.outcome.kind is Kind.AUTH
    assert "3 in a row died at once, the last: it exited with code 7" in result.outcome.message
    assert "the licence is missing" in result.outcome.message


async def test_a_pool_whose_workers_keep_dying_breaks_after_three_rounds(make: Make) -> None:
    pool = make(size=2, doomed_s=0.0)
    kinds: list[Kind | None] = []
    while not kinds or kinds[-1] is Kind.CRASH:
        kinds.append((await pool.do("exit", code=1)).outcome.kind)
    assert len(kinds) == ROUNDS * LEAST_ROUND + 1
    result = await pool.do("echo")
    assert result.outcome.kind is Kind.AUTH
    assert "all workers died 3 times over (12 deaths in a row" in result.outcome.message


async def test_deaths_within_a_few_seconds_do_not_break_the_pool(make: Make) -> None:
    """Something outside may kill all workers several times over; it ends within ten seconds."""
    pool = make(size=2, doomed_s=3600.0)
    for _ in range(ROUNDS * LEAST_ROUND + 1):
        assert (await pool.do("exit", code=1)).outcome.kind is Kind.CRASH
    assert (await pool.do("echo", value=1)).end == "value"


async def test_a_suspect_runs_in_a_process_that_ran_no_other_unit(make: Make) -> None:
    pool = make(size=1)
    used = json.loads((await pool.do("pid")).value)
    fresh = json.loads((await pool.do("pid", fresh=True)).value)
    assert fresh != used
    assert gone_within(used, 2.0)
    assert json.loads((await pool.do("pid")).value) == fresh  # From now on it is an ordinary worker.


async def test_every_caller_that_needs_a_fresh_process_gets_one(make: Make) -> None:
    pool = make(size=2)
    used = {json.loads(result.value) for result in await asyncio.gather(pool.do("pid"), pool.do("pid"))}
    fresh = await asyncio.gather(*(pool.do("pid", fresh=True) for _ in range(5)))
    pids = {json.loads(result.value) for result in fresh}
    assert len(pids) == 5
    assert not pids & used


async def test_a_unit_that_needs_a_fresh_process_waits_for_a_busy_pool(make: Make) -> None:
    pool = make(size=1)
    busy = asyncio.create_task(pool.do("sleep", seconds=0.3))
    await asyncio.sleep(0)
    result = await pool.do("pid", fresh=True)
    assert (await busy).end == "value"
    assert json.loads(result.value) != (await busy).pid


async def test_deaths_by_a_rate_limit_do_not_break_the_pool(make: Make) -> None:
    """A limit that lasts kills every unit. That is not the workers' fault, and waiting helps."""
    pool = make(detector=LimitDetector(exit_codes=(75,)))
    for _ in range(ROUNDS * LEAST_ROUND + 1):
        assert (await pool.do("exit", code=75)).outcome.kind is Kind.HOLD


class _Waits(LimitDetector, frozen=True):
    """The first scan of the logs takes long."""

    gate: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    async def begin(self) -> Marks:
        if not self.gate.is_set():
            self.gate.set()
            await asyncio.Event().wait()
        return NO_MARKS


async def test_a_unit_cancelled_before_it_begins_does_not_cost_its_worker(make: Make) -> None:
    detector = _Waits(logs="*.log")
    pool = make(size=1, detector=detector)
    first = asyncio.create_task(pool.do("pid"))
    await detector.gate.wait()
    (worker,) = pool.pool.pids
    first.cancel()
    assert json.loads((await pool.do("pid")).value) == worker


async def test_a_unit_that_ends_resets_the_count_of_deaths(make: Make) -> None:
    pool = make()
    for _ in range(3):
        for _ in range(ROUNDS * LEAST_ROUND // 2):
            assert (await pool.do("exit", code=1)).outcome.kind is Kind.CRASH
        assert (await pool.do("echo", value=1)).end == "value"


async def test_a_unit_sent_to_a_dead_worker_goes_to_another(make: Make) -> None:
    """The worker was killed while idle, and got a unit before its death was noticed: the unit was not run."""
    pool = make()
    pid = json.loads((await pool.do("pid")).value)
    os.kill(pid, signal.SIGKILL)
    assert gone_within(pid, 2.0)
    result = await pool.do("pid")
    assert result.end == "value"
    assert json.loads(result.value) != pid


async def test_cancelling_a_unit_kills_its_worker(make: Make, tmp_path: Path) -> None:
    pool = make()
    await pool.do("pid")
    pid = pool.pool.pids[0]
    unit = asyncio.create_task(pool.do("sleep", seconds=60))
    await asyncio.sleep(0)
    unit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unit
    assert (await pool.do("echo", value=1)).value == b"1"
    assert gone_within(pid, 2.0)


async def test_closing_kills_running_units(make: Make) -> None:
    pool = make(size=2)
    await asyncio.gather(pool.do("pid"), pool.do("pid"))
    unit = asyncio.create_task(pool.do("sleep", seconds=60))
    await asyncio.sleep(0)
    pids = pool.pool.pids
    await pool.pool.close()
    assert (await unit).end != "value"
    assert all(gone_within(pid, 0.0) for pid in pids)
    assert (await pool.do("echo")).outcome.kind is Kind.AUTH


async def test_an_exit_is_noticed_without_pidfd(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_pidfd", lambda pid: None)
    pool = make()
    assert (await pool.do("exit", code=5)).outcome.message.startswith(
        "its worker died: it exited with code 5"
    )
    assert (await pool.do("echo", value=1)).value == b"1"


async def test_forty_thousand_units_leave_nothing_behind(make: Make) -> None:
    """No descriptor, no memory, no process, not even of workers that were replaced."""
    pool = make(size=4, recycle_after=1_000)
    payload = msgspec.json.encode({"do": "echo", "value": "x"})
    left = iter(range(40_000))
    seen: list[tuple[int, int]] = []

    async def one_after_another() -> None:
        for number in left:
            result = await pool.pool.run(payload, LONG_S)
            assert result.value == b'"x"'
            if number % 4_000 == 3_999:
                seen.append((len(os.listdir("/proc/self/fd")), process_tree.resident_bytes(os.getpid())))

    await asyncio.gather(*(one_after_another() for _ in range(4)))
    assert len(pool.pool.pids) <= 5  # One may be about to end.
    descriptors, memory = zip(*seen, strict=True)
    # A worker has five; a worker that is about to end still has its own beside those of its successor.
    assert max(descriptors) - min(descriptors) <= 4 * 5
    assert max(memory[5:]) - memory[1] < 5_000_000
