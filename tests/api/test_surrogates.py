"""Texts with half of a surrogate pair, which no encoding can write: names are refused, answers are kept."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headway
from headway import CallsFailed, WorkerPool, WorkerResult, WorkUnit
from headway.errors import UsageError
from headway.executors.worker_entry import Context, _as_json

HALF = "a\ud800b"


class Worker:
    """Gives one result, and keeps what it was sent."""

    def __init__(self, result: WorkerResult | None = None) -> None:
        self.result, self.sent = result or WorkerResult(True, output="done"), list[Any]()

    def execute(self, prompt: str, payload: Any, timeout: float | None) -> WorkerResult:
        self.sent.append((prompt, payload))
        return self.result


def submit(
    worker: Worker, store: Path | None, unit: WorkUnit, prompt: str = "do it", **given: Any
) -> WorkUnit:
    with WorkerPool(worker, store=store, **given) as pool:
        assert pool.submit_work_unit(unit, prompt)
        assert pool.wait_for_completion(20)
    return unit


# -- names ----------------------------------------------------------------------------------------------------------

Calls = list[Any]
NAMES: dict[str, Callable[[Calls, Path], Any]] = {
    "the key": lambda calls, db: headway.map(calls.append, [1, 2], db=db, key=lambda n: HALF if n == 2 else "1", name="n"),
    "name": lambda calls, db: headway.map(calls.append, [1], db=db, key=str, name=HALF),
    "renamed_from": lambda calls, db: headway.map(calls.append, [1], db=db, key=str, renamed_from=HALF),
    "the lane": lambda calls, db: headway.map(calls.append, [1], db=db, key=str, name="n", lane=lambda _: HALF),
    "db": lambda calls, db: headway.map(calls.append, [1], db=f"{db}{HALF}", key=str, name="n"),
    "the id": lambda calls, db: submit(Worker(), db, WorkUnit(HALF)),
    "job_id": lambda calls, db: submit(Worker(), db, WorkUnit("u"), job_id=HALF),
    "store": lambda calls, db: submit(Worker(), Path(f"{db}{HALF}"), WorkUnit("u")),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMES)
def test_a_name_that_cannot_be_written_is_refused_before_anything_is_called(
    what: str, tmp_path: Path
) -> None:
    calls: Calls = []
    with pytest.raises(UsageError) as caught:
        NAMES[what](calls, tmp_path / "h.db")
    text = str(caught.value)
    assert text.startswith(f"{what} ")
    assert "has half of a surrogate pair, and cannot be recorded — remove it" in text
    assert what in ("db", "store") or repr(HALF) in text
    assert calls == []


def test_a_key_that_no_database_finds_again_is_refused(tmp_path: Path) -> None:
    calls: Calls = []
    with pytest.raises(UsageError, match=r"the key 'a\\x00b' has the character U\+0000"):
        headway.map(calls.append, ["a\0b"], db=tmp_path / "h.db", key=str, name="n")
    assert calls == []


def test_a_pool_goes_on_after_an_id_that_is_refused(tmp_path: Path) -> None:
    worker = Worker()
    with WorkerPool(worker, store=tmp_path / "h.db") as pool:
        with pytest.raises(UsageError, match="the id"):
            pool.submit_work_unit(HALF, "do it")
        assert pool.submit_work_unit("u", "do it")
        assert pool.wait_for_completion(20)
    assert len(worker.sent) == 1


def test_without_records_any_name_is_accepted() -> None:
    assert headway.map(str, [1], lane=HALF) == ["1"]
    assert submit(Worker(), None, WorkUnit(HALF)).status == "succeeded"


# -- what is sent ---------------------------------------------------------------------------------------------------


def test_an_item_is_sent_as_it_is(tmp_path: Path) -> None:
    assert headway.map(str, [HALF], db=tmp_path / "h.db", key=lambda _: "k") == [HALF]


def test_a_unit_is_sent_as_it_is(tmp_path: Path) -> None:
    worker = Worker()
    unit = submit(worker, tmp_path / "h.db", WorkUnit("u", {HALF: HALF}), HALF)
    assert (unit.status, worker.sent) == ("succeeded", [(HALF, {HALF: HALF})])


# -- answers --------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    text: str
    raw: bytes = b""


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (HALF, HALF),
        ({"x": [HALF, "plain", {"deep": HALF}]}, {"x": [HALF, "plain", {"deep": HALF}]}),
        ([HALF, b"\xff", float("inf"), '"\\ud800"'], [HALF, b"\xff", float("inf"), '"\\ud800"']),
        ("\ud83d\ude00 \\ \\ud800 ü \udfff", "\ud83d\ude00 \\ \\ud800 ü \udfff"),
        ({HALF: 1, "ok": HALF}, {r"a\ud800b": 1, "ok": HALF}),
        (Answer(HALF, b"\xff"), {"text": HALF, "raw": b"\xff"}),
        ({"$bytes": HALF}, {"$bytes": HALF}),
    ],
)
def test_an_answer_comes_back_as_it_was(tmp_path: Path, value: Any, seen: Any) -> None:
    calls: list[Any] = []

    def call(_: int) -> Any:
        calls.append(1)
        return value

    for _ in range(2):
        assert headway.map(call, [1], db=tmp_path / "h.db", key=str, name="n") == [seen]
    assert len(calls) == 1
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        ((body,),) = connection.execute("SELECT body FROM answers")
    msgspec.json.decode(body)


def test_an_answer_of_a_type_comes_back_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        found: Any = headway.map(
            lambda _: Answer(HALF), [1], db=tmp_path / "h.db", key=str, name="n", returns=Answer
        )
        assert found == [Answer(HALF)]


def test_the_output_of_a_worker_comes_back_as_it_was(tmp_path: Path) -> None:
    worker = Worker(WorkerResult(True, output={"x": HALF}, session_id=HALF, rendered_prompt=HALF))
    for _ in range(2):
        unit = submit(worker, tmp_path / "h.db", WorkUnit("u"))
        assert unit.result is not None
        assert (unit.status, unit.result.output, unit.result.session_id) == ("succeeded", {"x": HALF}, HALF)
    assert len(worker.sent) == 1


def test_an_exception_is_on_record_with_its_text_written_out(tmp_path: Path) -> None:
    def call(_: int) -> None:
        raise RuntimeError(HALF)

    with pytest.raises(CallsFailed):
        headway.map(call, [1], db=tmp_path / "h.db", key=str, name="n")
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        ((message,),) = connection.execute("SELECT message FROM attempts")
    assert message == r"RuntimeError: a\ud800b"


def test_a_function_of_a_batch_has_them_written_out_in_its_row() -> None:
    body, note = _as_json({HALF: [HALF, None]}, None, Context("m"), 10_000)
    assert note is None
    assert msgspec.json.decode(body) == {r"a\ud800b": [r"a\ud800b", None]}


def test_calls_in_processes_keep_them_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"isolation": "process", "workers": 1, "db": tmp_path / "h.db", "name": "n"}
    for _ in range(2):
        found = asyncio.run(headway.amap(str, [HALF], key=lambda _: "k", **options))
        assert found == [HALF]
