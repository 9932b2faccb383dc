"""The output file, while the records change during its opening."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.engine.test_engine import job_of

from headway.batch.output_file import OutputFile
from headway.jobs.base import Order
from headway.stores.records import Job, UnitChange
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


def answer(store: Store, job: Job, *indexes: int) -> None:
    batch = WriteBatch(job.id)
    for index in indexes:
        batch.change(index, UnitChange("succeeded", tries=1, finished_utc=1.0))
        batch.answers.append((index, 200, None, b'{"n":%d}' % index))
    store.commit(batch)


def rows(path: Path) -> list[tuple[int, bool]]:
    """The unit of each row, and whether the row is an answer."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(row["headway"]["index"], row["error"] is None) for row in found]


def written(store: Store, job: Job, path: Path, order: Order = "input") -> None:
    output = OutputFile(lambda: store, job, path, order)
    output.look()
    output.open()
    output.finish()
    output.close()


@pytest.mark.parametrize("order", ["input", "completion"])
def test_a_failure_row_is_replaced_even_if_the_answer_comes_at_once(tmp_path: Path, order: Order) -> None:
    """The file is opened in another thread: units may have answers by then."""
    path, store = tmp_path / "out.jsonl", Store(SqliteMemory())
    job = job_of(store, 4)
    answer(store, job, 2)
    written(store, job, path, order)
    assert sorted(rows(path)) == [(0, False), (1, False), (2, True), (3, False)]
    output = OutputFile(lambda: store, job, path, order)
    output.look()
    answer(store, job, 0, 1)
    output.open()
    output.ended([0, 1])
    output.advance()
    seen = rows(path)
    assert all(good for _, good in seen)
    assert sorted(index for index, _ in seen) == [0, 1, 2]
    answer(store, job, 3)
    output.ended([3])
    output.finish()
    output.close()
    assert sorted(rows(path)) == [(index, True) for index in range(4)]


def test_misplaced_rows_are_rewritten(tmp_path: Path) -> None:
    """The rows were written in order of completion: the last one in its right place does not prove the others right."""
    path, store = tmp_path / "out.jsonl", Store(SqliteMemory())
    job = job_of(store, 3)
    answer(store, job, 0, 1, 2)
    written(store, job, path)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(second + first + third)
    written(store, job, path)
    assert path.read_bytes() == first + second + third


def test_a_truncated_row_is_rewritten(tmp_path: Path) -> None:
    path, store = tmp_path / "out.jsonl", Store(SqliteMemory())
    job = job_of(store, 3)
    answer(store, job, 0, 1, 2)
    written(store, job, path)
    whole = path.read_bytes()
    for order in ("input", "completion"):
        path.write_bytes(whole[:-20])
        written(store, job, path, order)
        assert path.read_bytes() == whole
