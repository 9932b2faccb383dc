"""`headway.map(db=…, key=…)`: what is finished stays finished, whatever happens to the process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import CallsFailed, Limits, RateLimited, Retry
from headway.api.value_codec import ValueCodec
from headway.cli import main
from headway.engine.recorder import Recorder
from headway.errors import JobBusy
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

ITEMS = 400
SCRIPT = f"""
import os, sys, headway
log = os.open("called.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def call(number):
    os.write(log, b"%d\\n" % number)
    return {{"square": number * number}}

results = headway.map(call, range({ITEMS}), db="h.db", key=str, limits=headway.Limits(max_concurrency=4, rpm=0))
print(sum(result["square"] for result in results))
"""


async def double(number: int) -> int:
    return 2 * number


def rows(db: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchall()


def test_a_second_run_calls_nothing_again(tmp_path: Path) -> None:
    db = tmp_path / "sub" / "h.db"
    called: list[int] = []

    async def call(number: int) -> dict[str, int]:
        called.append(number)
        return {"n": number}

    for _ in range(2):
        assert headway.map(call, range(5), db=db, key=str) == [{"n": n} for n in range(5)]
    assert len(called) == 5
    assert headway.map(call, [7, 3], db=db, key=str) == [{"n": 7}, {"n": 3}]  # A new one, and an old one.
    assert len(called) == 6


def test_failed_items_are_called_again_and_all_attempts_are_recorded(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    broken = True

    def call(number: int) -> int:
        if broken and number == 1:
            raise ValueError("not today")
        return number

    with pytest.raises(CallsFailed):
        headway.map(call, range(3), db=db, key=str, name="n")
    store = Store(SqliteFile(db))
    job = store.job("n")
    assert job is not None
    assert (job.state, job.counts["succeeded"], job.counts["failed"]) == ("failed", 2, 1)
    broken = False
    assert headway.map(call, range(3), db=db, key=str, name="n") == [0, 1, 2]
    told = store.attempts(job.id, 1)
    assert [(each.number, each.outcome) for each in told] == [(1, "failed"), (2, "succeeded")]
    assert "not today" in (told[0].message or "")
    store.close()


def test_throttled_attempts_usage_and_cost_are_recorded(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    seen: list[int] = []

    async def call(number: int) -> int:
        seen.append(number)
        headway.usage(input_tokens=10, output_tokens=2, cost_usd=0.25)
        if len(seen) == 1:
            raise RateLimited(retry_after=0.001)
        return number

    headway.map(call, [1], db=db, key=str, name="n")
    assert rows(db, "SELECT outcome, kind FROM attempts ORDER BY id") == [
        ("throttled", "rate"),
        ("succeeded", None),
    ]
    assert rows(db, "SELECT attempts, refused, input_tokens, cost_usd FROM jobs") == [(2, 1, 20, 0.5)]


def test_a_value_that_cannot_be_stored_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(CallsFailed) as caught:
        headway.map(lambda _: object(), [1], db=tmp_path / "h.db", key=str, name="n")
    assert "cannot be stored" in str(caught.value.exceptions[0])


def test_stored_values_can_be_read_as_a_type(tmp_path: Path) -> None:
    for _ in range(2):
        found: Any = headway.map(
            lambda n: [n, n + 1], [1], db=tmp_path / "h.db", key=str, name="n", returns=tuple[int, int]
        )
        assert found == [(1, 2)]


@pytest.mark.parametrize(
    "value",
    [
        b"\x00raw",
        {"audio": b"abc", "parts": [1, b"", {"deep": b"x"}]},
        {"$bytes": [["a"]]},
        {"$bytes": 1},
        "aGk=",
    ],
)
def test_bytes_are_bytes_on_the_first_run_and_on_the_next(tmp_path: Path, value: Any) -> None:
    for _ in range(2):
        assert headway.map(lambda _: value, [1], db=tmp_path / "h.db", key=str, name="n") == [value]


def test_bytes_in_dataclasses_and_typed_values(tmp_path: Path) -> None:
    @dataclass
    class Speech:
        text: str
        audio: bytes

    speech: Any = Speech("hello", b"\xff")
    for _ in range(2):
        assert headway.map(lambda _: speech, [1], db=tmp_path / "h.db", key=str, name="plain") == [
            {"text": "hello", "audio": b"\xff"}
        ]
        typed: Any = headway.map(
            lambda _: speech, [1], db=tmp_path / "h.db", key=str, name="typed", returns=Speech
        )
        assert typed == [speech]


NAN, INF = float("nan"), float("inf")


@dataclass
class Score:
    mean: float
    bounds: tuple[float, float]


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        (NAN, Any),
        (NAN, float),
        ([1.0, INF, None, -INF, "NaN"], Any),
        ({"score": NAN, "deep": [{"x": -INF}], "raw": b"\xff", "none": None}, Any),
        ({"$bytes": [["a"]], "$floats": INF}, Any),
        ({1: NAN, 2: 0.5}, dict[int, float]),
        (Score(NAN, (-INF, INF)), Score),
        ([Score(0.5, (NAN, 1.0))], list[Score]),
    ],
)
def test_nan_and_infinities_come_back_unchanged(tmp_path: Path, value: Any, returns: Any) -> None:
    for _ in range(2):
        (found,) = headway.map(lambda _: value, [1], db=tmp_path / "h.db", key=str, name="n", returns=returns)
        assert repr(found) == repr(value)
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        ((body,),) = connection.execute("SELECT body FROM answers")
    json.loads(body, parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))


def test_a_float_that_does_not_fit_returns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CallsFailed) as caught:
        headway.map(lambda _: NAN, [1], db=tmp_path / "h.db", key=str, name="n", returns=int)
    assert "the returned value (float) does not fit <class 'int'>" in str(caught.value.exceptions[0])


def test_values_of_older_versions_can_be_read() -> None:
    codec = ValueCodec()
    assert codec.decode(b'{"$bytes":[["a"]],"value":{"a":"eA=="}}') == {"a": b"x"}
    assert codec.decode(b"[null]") == [None]


def test_a_value_that_does_not_fit_returns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CallsFailed) as caught:
        headway.map(lambda _: "x", [1], db=tmp_path / "h.db", key=str, name="n", returns=int)
    assert "the returned value (str) does not fit <class 'int'>" in str(caught.value.exceptions[0])
    assert caught.value.results[0].attempts == 1


def test_two_items_with_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(headway.HeadwayError, match="two items have the key 'a'"):
        headway.map(len, ["a", "a"], db=tmp_path / "h.db", key=str)


def test_db_and_key_go_together(tmp_path: Path) -> None:
    with pytest.raises(headway.HeadwayError, match="db and key go together"):
        headway.map(len, ["a"], db=tmp_path / "h.db")


def test_a_job_of_another_kind_is_refused(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    headway.map(len, ["a"], db=db, key=str, name="n")
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE jobs SET kind = 'batch'")
    with pytest.raises(headway.HeadwayError, match="is a batch, not a map"):
        headway.map(len, ["a"], db=db, key=str, name="n")


async def test_two_maps_of_one_name_do_not_run_at_once(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    inside = asyncio.Event()
    go_on = asyncio.Event()

    async def call(number: int) -> int:
        inside.set()
        await go_on.wait()
        return number

    first = asyncio.create_task(headway.amap(call, [1], db=db, key=str, name="n"))
    await inside.wait()
    with pytest.raises(JobBusy):
        await headway.amap(double, [1], db=db, key=str, name="n")
    go_on.set()
    assert await first == [1]


def test_a_stream_left_early_can_be_continued(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    options: Any = {"db": db, "key": str, "name": "n", "limits": Limits(max_concurrency=1, rpm=0)}
    for done in headway.stream(double, range(10), **options):
        assert done.value == 0
        break
    assert rows(db, "SELECT state FROM jobs") == [("interrupted",)]
    assert rows(db, "SELECT count(*) FROM units WHERE status NOT IN ('pending', 'succeeded')") == [(0,)]
    assert headway.map(double, range(10), **options) == [2 * n for n in range(10)]


def test_commands_show_the_job_and_resume_names_its_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    headway.map(len, ["a", "bb"], db=".headway/headway.db", key=str, name="n")
    assert main(["status", "n"]) == 0
    assert main(["show", "n", "bb"]) == 0
    assert main(["export", "n"]) == 0
    assert '"body":2' in capsys.readouterr().out
    assert main(["resume", "n"]) == 2
    assert "run that program again" in capsys.readouterr().err


@pytest.mark.parametrize("again", [False, True])
def test_the_store_is_not_read_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """While calls run, the reader's thread looks up keys and lanes."""
    options: Any = {
        "db": tmp_path / "h.db",
        "key": str,
        "name": "n",
        "lane": lambda number: f"lane-{number % 3}",
    }
    if again:
        headway.map(double, range(10), **options)
    threads: dict[str, set[str]] = {}

    def watched(name: str) -> Any:
        plain = getattr(Store, name)

        def call(store: Store, *arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return plain(store, *arguments)

        return call

    for name in ("results_by_id", "lane", "add_route", "starts_since"):
        monkeypatch.setattr(Store, name, watched(name))
    assert headway.map(double, range(20), **options) == [2 * number for number in range(20)]
    wanted = {"lane", "add_route", "starts_since"} | ({"results_by_id"} if again else set())
    assert threads == {name: {"headway-reader"} for name in wanted}


async def test_slow_calls_have_no_intents_ahead(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    inside: asyncio.Queue[int] = asyncio.Queue()
    go_on = asyncio.Event()

    async def call(number: int) -> int:
        inside.put_nowait(number)
        await go_on.wait()
        return number

    limits = Limits(max_concurrency=2, rpm=0)
    run = asyncio.create_task(headway.amap(call, range(9), db=db, key=str, name="n", limits=limits))
    assert {await inside.get(), await inside.get()} == {0, 1}
    begun = "SELECT \"index\" FROM units WHERE status IN ('assigned', 'running')"
    assert rows(db, begun) == [(0,), (1,)]  # A crash would name these two.
    go_on.set()
    assert await run == list(range(9))


async def test_a_held_lane_releases_its_intents_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash in the middle of a long wait names only what may really have been called."""
    db = tmp_path / "h.db"
    called = 0
    most = 0
    empty = asyncio.Event()
    committed = Recorder._committed

    def look(recorder: Recorder, batch: WriteBatch) -> None:
        nonlocal most
        committed(recorder, batch)
        found = rows(db, "SELECT count(*) FROM units WHERE status IN ('assigned', 'running')")[0][0]
        most = max(most, found)
        if called >= 2_000 and not found:
            empty.set()

    monkeypatch.setattr(Recorder, "_committed", look)

    async def call(number: int) -> int:
        nonlocal called
        called += 1
        if called == 2_000:
            raise RateLimited(retry_after=3_600)
        return number

    run = asyncio.create_task(headway.amap(call, range(6_000), db=db, key=str, name="n"))
    async with asyncio.timeout(60):
        await empty.wait()
    assert 2_000 <= called < 6_000
    assert most > 0, "there were intents ahead"
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


def test_a_fast_stream_left_early_leaves_nothing_unknown(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    options: Any = {"db": db, "key": str, "name": "n"}
    for count, _ in enumerate(headway.stream(double, range(5_000), **options), 1):
        if count == 1_500:
            break
    assert rows(db, "SELECT count(*) FROM units WHERE status NOT IN ('pending', 'succeeded')") == [(0,)]
    assert headway.map(double, range(5_000), **options) == [2 * n for n in range(5_000)]
    assert rows(db, "SELECT count(*), count(DISTINCT uid) FROM attempts") == [(5_000, 5_000)]


def test_headway_lanes_shows_the_lanes_of_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # The second run calls nothing, and learns nothing.
        headway.map(len, ["a", "bb"], db=".headway/headway.db", key=str, name="n", limits=Limits(rpm=6_000))
        assert main(["lanes"]) == 0
        shown = capsys.readouterr().out
        assert "6,000 requests per minute" in shown
        assert "0 of 2 rate-limited" in shown


def test_commands_show_values_and_exceptions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def ask(number: int) -> Any:
        headway.usage(input_tokens=2, cost_usd=0.5)
        return {1: "two\nlines", 2: {"n": 2}, 3: {"audio": b"x"}}[number]

    with pytest.raises(CallsFailed):
        headway.map(ask, range(4), db=".headway/headway.db", key=lambda n: f"item-{n}", name="n")

    def said(*command: str) -> str:
        assert main(list(command)) == 0
        return capsys.readouterr().out

    assert "headway.map of" in said("jobs")
    status = said("status", "n")
    assert "  headway.map of " in status
    assert "  4 attempts, 8 tokens in, 0 out, $2.00, of which $0.50" in status
    assert "\n  calls: 3 succeeded, 1 failed;" in status
    assert "run its program again" in status
    assert not re.search("input|results|429|retry --failed", status)
    assert said("show", "n", "item-1").endswith("\nvalue:\ntwo\nlines\n")
    assert 'value:\n{\n  "n": 2\n}' in said("show", "n", "item-2")
    assert 'value (base64: audio):\n{\n  "audio": "eA=="\n}' in said("show", "n", "item-3")
    failed = said("show", "n", "item-0")
    assert "\n  lane calls\n" in failed
    assert failed.endswith("exception (invalid):\nKeyError: 0\n")
    assert not re.search("HTTP|request|null", failed)
    facts = json.loads(said("show", "n", "item-2", "--json"))
    assert (facts["kind"], facts["key"], facts["value"]) == ("map", "item-2", {"n": 2})
    assert json.loads(said("show", "n", "item-0", "--json"))["exception"] == "KeyError: 0"
    assert "0 of 4 rate-limited" in said("lanes")


def test_commands_show_payloads_and_results_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    class Worker:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            if payload is None:
                return headway.WorkerResult(False, error="no payload")
            return headway.WorkerResult(True, output="done\nso", session_id="s-1", cost_usd=0.25)

    with headway.WorkerPool(Worker(), job_id="p", store=".headway/headway.db") as pool:
        pool.submit_work_unit({"id": "good", "payload": {"n": 1}}, "do it")
        pool.submit_work_unit("bad", "do it too")
    assert main(["show", "p", "good"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(
        ' s; $0.2500\n    prompt: do it\n    session: s-1\npayload:\n{\n  "n": 1\n}\noutput:\ndone\nso\n'
    )
    assert main(["show", "p", "bad"]) == 0
    assert capsys.readouterr().out.endswith(" s\n    prompt: do it too\nerror (invalid):\nno payload\n")
    assert main(["status", "p"]) == 0
    assert "  headway.WorkerPool of " in capsys.readouterr().out


def test_show_has_every_attempt_with_its_prompt_its_session_and_its_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[str] = []

    class Worker:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            calls.append(prompt)
            number = len(calls)
            return headway.WorkerResult(
                number == 2,
                output="the answer",
                error="" if number == 2 else "no luck",
                rendered_prompt=f"Please {prompt}",
                session_id=f"s-{number}",
                conversation=[
                    {"role": "user", "content": f"Please {prompt}"},
                    {"type": "tool_use", "name": "Read", "input": {"path": "a.py"}},
                    {
                        "role": "assistant",
                        "content": f"Line {number}\nand \x1b[31mred\x1b[0m, {'sk-' + 'a' * 20}",
                    },
                ],
            )

    with headway.WorkerPool(Worker(), job_id="p", store=".headway/headway.db") as pool:
        for prompt in ("try", "try again"):
            pool.submit_work_unit("a", prompt)
            assert pool.wait_for_completion(10)

    def attempt(number: int, prompt: str) -> str:
        return (
            f"    prompt: Please {prompt}\n    session: s-{number}\n    conversation:\n      user: Please {prompt}\n"
            '      {"type":"tool_use","name":"Read","input":{"path":"a.py"}}\n'
            f"      assistant: Line {number}\n        and \ufffd[31mred\ufffd[0m, sk-aaaa…\n"
        )

    assert main(["show", "p", "a"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a (unit 0 of p): succeeded\n  lane workers\n  attempt 1, ")
    assert f" s\n{attempt(1, 'try')}    output: the answer\n  attempt 2, " in out
    assert out.endswith(f" s\n{attempt(2, 'try again')}output:\nthe answer\n")
    assert main(["show", "p", "a", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(n, note["prompt"], note["session_id"]) for n, note in told["notes"].items()] == [
        ("1", "Please try", "s-1"),
        ("2", "Please try again", "s-2"),
    ]
    assert [turn["role"] for turn in told["notes"]["1"]["messages"] if "role" in turn] == [
        "user",
        "assistant",
    ]
    assert told["request"]["body"]["prompt"] == "try again"


def test_output_of_calls_in_processes_is_recorded_for_every_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from isolated_acts import chatty  # type: ignore[import-not-found]  # beside this file, on the path of its workers too

    db = tmp_path / "h.db"
    values = headway.map(
        chatty,
        [str(tmp_path)],
        isolation="process",
        workers=1,
        db=db,
        key=lambda _: "a",
        retry=Retry(base="10ms"),
    )
    assert values == ["done"]
    with Store(SqliteFile(db)) as store:
        notes = store.notes_of(1, 0)
    assert [note["stdout"] for note in notes.values()] == ["try 1\n", "try 2\n"]
    assert "ConnectionResetError: not yet" in notes[1]["trace"]


def _start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "script.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _wait_for(path: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    """Until so many calls were made, or the process has ended."""
    give_up_at = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < give_up_at:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.002)


@pytest.mark.parametrize(("items", "at_once"), [(ITEMS, 4), (20 * ITEMS, 64)])
def test_a_killed_script_continues_and_calls_no_finished_item_again(
    tmp_path: Path, items: int, at_once: int
) -> None:
    """A few at a time, and so many that intents are recorded far ahead."""
    script = SCRIPT.replace(f"range({ITEMS})", f"range({items})").replace("=4", f"={at_once}")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    log = tmp_path / "called.log"
    kills = 0
    for calls in range(items // 10, items, items // 7):
        process = _start(tmp_path)
        _wait_for(log, calls, process)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = _start(tmp_path)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert int(out) == sum(n * n for n in range(items))
    assert kills >= 3
    called = Counter(int(line) for line in log.read_text().split())
    assert set(called) == set(range(items))
    db = tmp_path / "h.db"
    # A call that a death left without an end is named as lost; every other one ended once.
    ended = dict(rows(db, "SELECT CAST(custom_id AS INTEGER), attempts FROM units"))
    for number, times in called.items():
        assert times <= ended[number]
    succeeded = "SELECT \"index\", count(*) FROM attempts WHERE outcome = 'succeeded' GROUP BY 1"
    assert all(times == 1 for _, times in rows(db, succeeded))


def test_ctrl_c_lets_what_is_in_flight_finish_and_the_next_run_continues(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        SCRIPT.replace("return {", "import asyncio; await asyncio.sleep(0.01); return {"), encoding="utf-8"
    )
    process = _start(tmp_path)
    _wait_for(tmp_path / "called.log", 20, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT or b"KeyboardInterrupt" in errors
    db = tmp_path / "h.db"
    calls = (tmp_path / "called.log").read_bytes().count(b"\n")
    assert rows(db, "SELECT count(*) FROM units WHERE status = 'succeeded'") == [(calls,)]
    assert rows(db, "SELECT state FROM jobs") == [("interrupted",)]
    process = _start(tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert (tmp_path / "called.log").read_bytes().count(b"\n") == ITEMS


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a small tmpfs: run as root")
def test_a_full_disk_is_an_error_and_no_recorded_value_is_lost(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)
    try:
        with pytest.raises(headway.HeadwayError, match="full"):
            headway.map(
                lambda n: "x" * 100_000,
                range(100),
                db=disk / "h.db",
                key=str,
                name="n",
                retry=Retry(max_attempts=1),
            )
        kept = rows(disk / "h.db", "SELECT count(*) FROM units WHERE status = 'succeeded'")[0][0]
        assert rows(disk / "h.db", "SELECT count(*) FROM answers") == [(kept,)]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_errors_of_the_records_name_arguments_and_not_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text(
        "not a database, and long enough to be looked at " * 20, encoding="utf-8"
    )
    (tmp_path / "file").touch()
    for db in (tmp_path, tmp_path / "notes.txt", tmp_path / "file" / "h.db", "postgresql://somewhere/x"):
        with pytest.raises(headway.HeadwayError) as caught:
            headway.map(len, ["a"], db=db, key=str)
        assert "--" not in str(caught.value)
        assert "db=" in str(caught.value)

        class Worker:
            def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
                raise AssertionError("never")

        with pytest.raises(headway.HeadwayError, match="store="):
            headway.WorkerPool(Worker(), store=db).start()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "notes.txt"]  # Nothing was half-made.


# -- items that were changed under their key ------------------------------------------------------------------------------


def _texts(*texts: str) -> list[dict[str, str]]:
    return [{"id": str(number), "text": text} for number, text in enumerate(texts)]


def _shout(item: dict[str, str]) -> str:
    item["seen"] = "yes"  # What a call writes into its item is no change of it.
    return item["text"].upper()


def _shouted(db: Path, items: list[Any], **more: Any) -> list[str]:
    return headway.map(_shout, items, db=db, key=lambda item: item["id"], **more)


def test_items_that_changed_under_their_key_give_one_warning(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    _shouted(db, _texts("a", "b", "c"))
    assert _shouted(db, [dict(reversed(item.items())) for item in _texts("a", "b", "c")]) == ["A", "B", "C"]
    told = r"^2 items were changed under the same key after the first call, and have their old answer \(the first: '1'\)"
    with pytest.warns(UserWarning, match=told) as warned:
        assert _shouted(db, _texts("a", "x", "y")) == ["A", "B", "C"]
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^1 item was changed .* has its old answer \(the first: '2'\)"):
        list(headway.stream(_shout, _texts("a", "b", "y"), db=db, key=lambda item: item["id"]))
    assert _shouted(db, _texts("a", "x", "y"), name="another") == ["A", "X", "Y"]


def test_a_failed_item_may_change_and_the_new_one_is_answered(tmp_path: Path) -> None:
    db = tmp_path / "h.db"

    def picky(item: dict[str, str]) -> str:
        if item["text"] == "bad":
            raise ValueError(item["text"])
        return item["text"]

    def run(text: str) -> list[Any]:
        given = [{"id": "1", "text": text}]
        return headway.map(picky, given, db=db, key=lambda item: item["id"], on_error="return", name="picky")

    assert isinstance(run("bad")[0], ValueError)
    assert run("good") == run("good") == ["good"]  # A warning would be an error here.
    with pytest.warns(UserWarning, match="1 item was changed"):
        run("better")


def test_items_without_a_json_form_and_older_records_give_no_warning(tmp_path: Path) -> None:
    class Thing:
        def __init__(self, name: str, text: str) -> None:
            self.name, self.text = name, text

    def text_of(thing: Thing) -> str:
        return thing.text

    db = tmp_path / "h.db"
    for text in ("old", "new"):
        assert headway.map(text_of, [Thing("a", text)], db=db, key=lambda thing: thing.name) == ["old"]
    _shouted(db, _texts("a"))
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("UPDATE answers SET request_id = NULL")
        connection.commit()
    assert _shouted(db, _texts("x")) == ["A"]


def test_the_database_is_the_only_file(tmp_path: Path) -> None:
    headway.map(str, [1, 2], db=tmp_path / "answers.db", key=str)
    assert [path.name for path in tmp_path.iterdir()] == ["answers.db"]
