"""What is SQLite's alone: the file, its durability, its schema, and every way in which it can be broken."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from headway.errors import StoreError
from headway.stores.records import JobEvent, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.sqlite import file as sqlite_file
from headway.stores.sqlite.database import SqliteDatabase
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.schema import migrations, statements
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .processes import PRIVATE_MOUNTS, private_mounts_work, run, running, said, tell

needs_private_mounts = pytest.mark.skipif(
    not private_mounts_work(), reason="this machine does not let a process mount anything, even for itself"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h.db"


def fill(store: Store, n: int = 10, name: str = "job") -> int:
    """A running job with `n` units."""
    job = store.add_job(NewJob(name, "batch", "in", "d", "out", 1.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [NewUnit(f"u{n}", route, "/p", b"{}") for n in range(n)])
    store.seal(job, n, {}, "d")
    store.begin(job, {}, "out", 2.0)
    return job


def ended(job: int, index: int, answer: bytes = b"{}") -> WriteBatch:
    batch = WriteBatch(job)
    batch.change(index, UnitChange("succeeded", 1, finished_utc=3.0))
    batch.answers.append((index, 200, None, answer))
    return batch


def raw(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def assert_helpful(error: StoreError, path: Path, *words: str) -> None:
    """One line that names the file, says what is wrong and what to do next."""
    text = str(error)
    assert str(path) in text
    assert "\n" not in text
    assert error.hint
    for word in words:
        assert word in text


# -- durability ----------------------------------------------------------------------------------------------


def test_commits_are_durable(path: Path) -> None:
    for _ in ("new", "known"):
        with closing(SqliteFile(path)) as file:
            execute = file.connection.execute
            assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
            # Without these an fsync on macOS does not reach the disk.
            assert execute("PRAGMA fullfsync").fetchone() == (1,)
            assert execute("PRAGMA checkpoint_fullfsync").fetchone() == (1,)


def test_committed_records_survive_a_kill(path: Path) -> None:
    script = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.stores.test_sqlite import SqliteFile, Store, ended, fill
store = Store(SqliteFile(Path(sys.argv[1])))
job = fill(store)
for index in range(5):
    store.commit(ended(job, index))
with store._db.transaction():
    store._db.connection.execute("UPDATE units SET status = 'failed'")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, path, Path(__file__).parents[2]).returncode == -9
    with Store(SqliteFile(path)) as store:
        job = store.jobs()[0]
        assert [each.status for each in store.results(job.id, -1, 99)] == ["succeeded"] * 5 + ["pending"] * 5
        assert job.counts["succeeded"] == 5


def test_the_salt_is_the_files(path: Path) -> None:
    with Store(SqliteFile(path)) as one, Store(SqliteFile(path)) as two:
        assert one.salt() == two.salt()


# -- the schema ----------------------------------------------------------------------------------------------


def schema(path: Path) -> tuple[int, set[str]]:
    with raw(path) as db:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return version, {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


def test_a_fresh_file_has_the_newest_schema(path: Path) -> None:
    Store(SqliteFile(path / "deep" / "er.db")).close()
    version, names = schema(path / "deep" / "er.db")
    assert version == len(migrations())
    assert {
        "jobs",
        "routes",
        "units",
        "attempts",
        "lanes",
        "workers",
        "events",
        "commands",
        "messages",
    } <= names


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    Store(SqliteFile(path)).close()
    with raw(path) as db:
        db.execute("PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught:
            Store(SqliteFile(path, read_only=read_only))
        assert_helpful(caught.value, path, "newer Headway", "99", "upgrade")
    assert schema(path)[0] == 99


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with raw(path) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught, Store(SqliteFile(path, read_only=read_only)) as store:
            store.jobs()
        assert_helpful(caught.value, path, "not a Headway database", "--db")
    assert path.read_bytes() == before


def test_threads_that_open_a_fresh_file_at_once_all_get_it(tmp_path: Path) -> None:
    for round_ in range(10):
        path, start, errors = tmp_path / f"{round_}.db", threading.Barrier(4), list[BaseException]()

        def open_it(path: Path = path, start: Any = start, errors: list[BaseException] = errors) -> None:
            start.wait()
            try:
                with Store(SqliteFile(path)) as store:
                    store.salt()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=open_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert schema(path)[0] == len(migrations())


OPEN = """
import sys
from pathlib import Path
from headway.stores.sqlite.database import SqliteDatabase
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
for number in range(10):
    print("ready", flush=True)
    sys.stdin.readline()
    with Store(SqliteFile(Path(sys.argv[1]) / f"{number}.db")) as store:
        print(store.salt().hex(), flush=True)
        sys.stdin.readline()
"""


def test_processes_that_open_a_fresh_file_at_once_share_it(tmp_path: Path) -> None:
    with running(OPEN, tmp_path) as one, running(OPEN, tmp_path) as two:
        for _ in range(10):
            assert (said(one), said(two)) == ("ready", "ready")
            tell(one)
            tell(two)
            salts = {said(one), said(two)}
            assert len(salts) == 1
            assert len(salts.pop()) == 64
            tell(one)
            tell(two)


def count(script: str) -> int:
    return len(list(statements(script)))


@pytest.mark.parametrize("after", [1, 4, count(migrations()[0])])
def test_a_migration_that_is_killed_half_way_leaves_a_file_that_opens(path: Path, after: int) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from headway.stores.sqlite import file, schema

def killing(script, statements=schema.statements):
    for number, statement in enumerate(statements(script)):
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    os.kill(os.getpid(), signal.SIGKILL)

schema.statements = killing
file.CACHE_KB = 4  # so that pages are written before the commit
file.SqliteFile(Path(sys.argv[1]))
"""
    assert run(script, path, after).returncode == -9
    assert path.exists()
    with Store(SqliteFile(path)) as store:
        job = fill(store)
        store.commit(ended(job, 0))
    assert schema(path)[0] == len(migrations())


# -- broken files --------------------------------------------------------------------------------------------


def test_reading_needs_a_database(path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store(SqliteFile(path, read_only=True))
    assert_helpful(caught.value, path, "no database", "headway run")
    assert not path.exists()


def test_a_reader_cannot_write(path: Path) -> None:
    Store(SqliteFile(path)).close()
    with Store(SqliteFile(path, read_only=True)) as store, pytest.raises(StoreError) as caught:
        fill(store)
    assert_helpful(caught.value, path, "is not writable")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("content", [b"no database", b"plain text\n" * 1_000, bytes(range(256)) * 64])
def test_a_file_that_is_no_database(path: Path, content: bytes, read_only: bool) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        Store(SqliteFile(path, read_only=read_only))
    assert_helpful(caught.value, path, "not a Headway database", "--db")
    assert path.read_bytes() == content


def interrupted_wal(path: Path) -> None:
    """A file whose process was interrupted between switching to WAL and the first migration."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")


@pytest.mark.parametrize("make", [Path.touch, interrupted_wal])
def test_an_empty_file_has_no_jobs_for_a_reader_and_is_new_for_a_writer(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    size = path.stat().st_size
    with Store(SqliteFile(path, read_only=True)) as store:
        assert store.jobs() == []
    assert path.stat().st_size == size
    assert os.listdir(path.parent) == [path.name]
    Store(SqliteFile(path)).close()
    assert schema(path)[0] == len(migrations())


def test_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught:
            Store(SqliteFile(tmp_path, read_only=read_only))
        assert_helpful(caught.value, tmp_path, "is a directory", "--db")


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        Store(SqliteFile(tmp_path / "file" / "h.db"))
    assert_helpful(caught.value, tmp_path / "file" / "h.db", "cannot be created", "--db")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_place_where_nothing_can_be_made() -> None:
    for place in (Path("/proc/h.db"), Path("/proc/headway/h.db")):
        with pytest.raises(StoreError) as caught:
            Store(SqliteFile(place))
        assert_helpful(caught.value, place, "--db")


ON_READ_ONLY_MOUNT = """
import json, subprocess, sys
from pathlib import Path
from headway.errors import StoreError
from headway.stores.sqlite.database import SqliteDatabase
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
folder = Path(sys.argv[1])
subprocess.run(["mount", "--bind", folder, folder], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
results = []
for name, read_only in (("new.db", False), ("sub/new.db", False), ("h.db", False), ("h.db", True)):
    try:
        with Store(SqliteFile(folder / name, read_only=read_only)) as store:
            results.append([name, read_only, f"{len(store.jobs())} jobs", None])
    except StoreError as error:
        results.append([name, read_only, str(error), error.hint])
print(json.dumps(results))
"""


@needs_private_mounts
def test_a_read_only_disk(path: Path) -> None:
    with Store(SqliteFile(path)) as store:
        fill(store)
    done = run(ON_READ_ONLY_MOUNT, path.parent, before=PRIVATE_MOUNTS)
    assert done.returncode == 0, done.stderr
    *writing, reading = json.loads(done.stdout)
    for name, _, text, hint in writing:
        error = StoreError(text, hint=hint)
        assert_helpful(error, path.parent / name, "--db")
    assert reading == ["h.db", True, "1 jobs", None]
    with Store(SqliteFile(path)) as store:
        assert len(store.jobs()) == 1


@pytest.fixture
def large(path: Path) -> Path:
    with Store(SqliteFile(path)) as store:
        job = fill(store, 2_000)
        for index in range(50):
            store.commit(ended(job, index, b"x" * 2_000))
    return path


def look_at_everything(store: Store) -> None:
    for job in store.jobs():
        store.results(job.id, -1, 10_000)
        store.unknown_outcomes(job.id)
        store.failures(job.id)
        for index in range(job.total):
            store.index_of(job.id, f"u{index}")
            store.attempts(job.id, index)


@pytest.mark.parametrize("place", [0.25, 0.5, 0.75])
def test_a_damaged_database_is_reported(large: Path, place: float) -> None:
    size = large.stat().st_size
    with large.open("r+b") as file:
        file.seek(int(size * place) // 4096 * 4096)
        file.write(b"\xa5" * min(size // 5, 100_000))
    with pytest.raises(StoreError) as caught, Store(SqliteFile(large)) as store:
        look_at_everything(store)
    assert_helpful(caught.value, large, "is damaged", "restore")


def test_a_truncated_database_is_reported(large: Path) -> None:
    with large.open("r+b") as file:
        file.truncate(large.stat().st_size // 2)
    with pytest.raises(StoreError) as caught, Store(SqliteFile(large)) as store:
        look_at_everything(store)
    assert_helpful(caught.value, large, "is damaged")


def test_a_locked_database_is_reported_and_the_next_try_succeeds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.05)
    with Store(SqliteFile(path)) as store, raw(path) as other:
        job = fill(store)
        store.commit(ended(job, 0))
        other.execute("BEGIN IMMEDIATE")
        batch = ended(job, 1)
        with pytest.raises(StoreError) as caught:
            store.commit(batch)
        assert_helpful(caught.value, path, "locked", "try again")
        assert [each.status for each in store.results(job, -1, 2)] == ["succeeded", "pending"], (
            "still readable"
        )
        other.execute("ROLLBACK")
        store.commit(batch)
        assert [each.status for each in store.results(job, -1, 2)] == ["succeeded", "succeeded"]


# -- a disk that fills up ------------------------------------------------------------------------------------

FILL_UP = """
import json, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.stores.test_sqlite import SqliteFile, Store, StoreError, ended, fill
folder = Path(sys.argv[1])
{before}
store = Store(SqliteFile(folder / "h.db"))
job = fill(store, 500)
{between}
done = 0
try:
    for done in range(500):
        store.commit(ended(job, done, b"x" * 20_000))
except StoreError as error:
    results = [str(error), error.hint]
{after}
states = [each.status for each in store.results(job, -1, 999)]
print(json.dumps([done, results, states, store.jobs()[0].counts["succeeded"]]))
store.close()
"""

ON_SMALL_DISK = {
    "before": """
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
(folder / "ballast").write_bytes(bytes(400_000))
""",
    "between": "",
    "after": """
store.close()
store = Store(SqliteFile(folder / "h.db", read_only=True))
assert store.first_unended(job) == done, store.first_unended(job)
store.close()
(folder / "ballast").unlink()
store = Store(SqliteFile(folder / "h.db"))
store.commit(ended(job, done, b"x" * 20_000))
""",
}

WITH_SMALL_FILES = {
    "before": "import resource",
    "between": "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))",
    "after": "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))",
}


def fill_up(
    folder: Path, parts: dict[str, str], before: tuple[str, ...] = ()
) -> tuple[int, StoreError, list[str], int]:
    script = FILL_UP
    for name, text in parts.items():
        script = script.replace(f"{{{name}}}", text)
    done = run(script, folder, Path(__file__).parents[2], before=before)
    assert done.returncode == 0, done.stderr
    number, (text, hint), states, counted = json.loads(done.stdout)
    return number, StoreError(text, hint=hint), states, counted


@needs_private_mounts
def test_a_full_disk_keeps_committed_records_and_writing_continues_with_space(tmp_path: Path) -> None:
    done, error, states, counted = fill_up(tmp_path, ON_SMALL_DISK, PRIVATE_MOUNTS)

    assert done > 10
    assert_helpful(
        error, tmp_path / "h.db", "no space is left", "headway resume", "everything committed is safe"
    )
    assert states == ["succeeded"] * (done + 1) + ["pending"] * (499 - done)
    assert counted == done + 1


def test_a_failed_write_keeps_committed_records(tmp_path: Path) -> None:
    done, error, states, counted = fill_up(tmp_path, WITH_SMALL_FILES)

    assert done > 10
    assert_helpful(error, tmp_path / "h.db", "everything committed is safe")
    assert states == ["succeeded"] * done + ["pending"] * (500 - done)
    assert counted == done
    with Store(SqliteFile(tmp_path / "h.db")) as store:
        look_at_everything(store)


# -- readers and writers -------------------------------------------------------------------------------------


class Peeking(list[JobEvent]):
    """Events that look through another connection at the moment when they are written."""

    def __init__(self, reader: Store, job: int) -> None:
        super().__init__([JobEvent(1.0, None, "note", "n")])
        self.reader, self.job, self.seen = reader, job, list[Any]()

    def __iter__(self) -> Iterator[JobEvent]:
        self.seen.append(
            (self.reader.results(self.job, -1, 99), self.reader.jobs(), self.reader.events(self.job))
        )
        return super().__iter__()


def test_a_reader_sees_nothing_of_a_batch_before_its_commit(path: Path) -> None:
    with Store(SqliteFile(path)) as writer, Store(SqliteFile(path, read_only=True)) as reader:
        job = fill(writer)
        before = (reader.results(job, -1, 99), reader.jobs(), reader.events(job))
        batch = ended(job, 0)
        batch.events = Peeking(reader, job)
        writer.commit(batch)

        assert batch.events.seen == [before]
        assert reader.results(job, -1, 1)[0].status == "succeeded"
        assert reader.jobs()[0].counts["succeeded"] == 1
        assert len(reader.events(job)) == 1


def test_a_batch_that_fails_half_way_records_nothing(path: Path) -> None:
    with Store(SqliteFile(path)) as store:
        job = fill(store)
        before = (store.results(job, -1, 99), store.jobs())
        batch = ended(job, 0)
        batch.done_commands.append(("no", "numbers", "at all"))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="unpack"):
            store.commit(batch)
        assert (store.results(job, -1, 99), store.jobs()) == before
        store.commit(ended(job, 0))


def test_a_reader_sees_whole_batches_while_a_writer_commits(path: Path) -> None:
    with Store(SqliteFile(path)) as reader:
        job = fill(reader)

        def write() -> None:
            with Store(SqliteFile(path)) as writer:
                for number in range(100):
                    batch = WriteBatch(job)
                    for index in range(10):
                        batch.change(index, UnitChange("pending", 1, code=str(number)))
                    writer.commit(batch)

        thread = threading.Thread(target=write)
        thread.start()
        seen: set[str | None] = set()
        while "99" not in seen and (thread.is_alive() or not seen):
            codes = {result.code for result in reader.results(job, -1, 99)}
            assert len(codes) == 1
            seen |= codes
        thread.join()
        assert {result.code for result in reader.results(job, -1, 99)} == {"99"}


def test_after_close_the_file_alone_is_complete(path: Path, tmp_path: Path) -> None:
    with Store(SqliteFile(path)) as store:
        fill(store)
    assert [each.name for each in tmp_path.iterdir()] == ["h.db"], "no log is left behind"
    shutil.copy(path, tmp_path / "copy.db")
    with Store(SqliteFile(tmp_path / "copy.db")) as store:
        assert len(store.jobs()) == 1


# -- the conversation ----------------------------------------------------------------------------------------


def messages(path: Path) -> list[tuple[int, str, Any]]:
    with raw(path) as db:
        rows = db.execute('SELECT "index", role, content FROM messages ORDER BY job, "index", position')
        return [(index, role, json.loads(content)) for index, role, content in rows]


def converse(
    path: Path, *turns: tuple[dict[str, Any] | bytes, dict[str, Any] | bytes | None], at: str = "/p"
) -> None:
    """A job of the given requests and answers."""
    with Store(SqliteFile(path)) as store:
        job = store.add_job(NewJob("talk", "batch", "in", "d", "out", 1.0))
        route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
        bodies = [sent if isinstance(sent, bytes) else json.dumps(sent).encode() for sent, _ in turns]
        store.add_units(job, 0, [NewUnit(f"u{n}", route, at, body) for n, body in enumerate(bodies)])
        store.seal(job, len(turns), {}, "d")
        for index, (_, answer) in enumerate(turns):
            if answer is not None:
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                store.commit(ended(job, index, body))


def test_messages_of_an_openai_chat(path: Path) -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi 日本"}]
    said = {"role": "assistant", "content": "Hello", "tool_calls": [{"id": "t"}]}
    converse(path, ({"model": "m", "messages": asked}, {"choices": [{"index": 0, "message": said}]}))

    assert messages(path) == [(0, "system", "Be brief."), (0, "user", "Hi 日本"), (0, "assistant", said)]


def test_messages_of_an_anthropic_conversation(path: Path) -> None:
    blocks = [{"type": "text", "text": "Hi"}]
    said = [{"type": "text", "text": "Hello"}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}]
    sent = {
        "model": "c",
        "max_tokens": 9,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": blocks}],
    }
    converse(path, (sent, {"role": "assistant", "content": said}))

    assert messages(path) == [(0, "system", "Be brief."), (0, "user", blocks), (0, "assistant", said)]


def test_messages_with_tool_calls_are_whole(path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "t", "function": {"name": "f"}}]}
    result = {"role": "tool", "tool_call_id": "t", "content": "42"}
    asked = [{"role": "user", "content": "Hi"}, call, result]
    both = [{"message": {"content": "a"}}, {"message": {"content": "b"}}]
    converse(path, ({"messages": asked}, {"choices": both}))

    assert messages(path) == [
        (0, "user", "Hi"), (0, "assistant", call), (0, "tool", result),
        (0, "assistant", {"content": "a"}), (0, "assistant", {"content": "b"}),
    ]  # fmt: skip


def test_messages_of_gemini(path: Path) -> None:
    sent = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
        ],
    }
    said = [{"text": "Hello"}, {"functionCall": {"name": "g", "args": {"a": 1}}}]
    converse(path, (sent, {"candidates": [{"content": {"role": "model", "parts": said}}]}))

    assert messages(path) == [
        (0, "system", [{"text": "Be brief."}]), (0, "user", [{"text": "Hi"}]),
        (0, "assistant", sent["contents"][1]["parts"]),  # type: ignore[index]
        (0, "user", sent["contents"][2]["parts"]),  # type: ignore[index]
        (0, "assistant", said),
    ]  # fmt: skip


def test_messages_of_converse(path: Path) -> None:
    sent = {"system": [{"text": "Be brief."}], "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    said = [{"text": "Hello"}, {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]
    converse(path, (sent, {"output": {"message": {"role": "assistant", "content": said}}}))

    assert messages(path) == [
        (0, "system", [{"text": "Be brief."}]), (0, "user", [{"text": "Hi"}]), (0, "assistant", said),
    ]  # fmt: skip


def test_messages_of_responses(path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "42"}
    sent = {"instructions": "Be brief.", "input": [{"role": "user", "content": "Hi"}, call, output]}
    said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}]
    converse(path, (sent, {"output": said}), ({"input": "Hi"}, {"output": said}), at="/v1/responses")

    assert messages(path) == [
        (0, "system", "Be brief."), (0, "user", "Hi"), (0, "assistant", call), (0, "tool", output), (0, "assistant", said),
        (1, "user", "Hi"), (1, "assistant", said),
    ]  # fmt: skip


def test_a_body_without_a_conversation_does_not_hide_others(path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "Hi"}]}
    converse(
        path,
        (b"not json", b"nor this"),
        ({"input": "embed me"}, {"data": [1.0]}),
        (b"\xff\xfe", b"\xff"),
        ({"messages": "Hi"}, {"error": {"message": "no"}}),
        (chat, None),
    )

    assert messages(path) == [(4, "user", "Hi")]


def old_file(path: Path, version: int) -> None:
    """A database of an older schema, with a job that has a unit."""
    with raw(path) as db:
        for script in migrations()[:version]:
            db.executescript(script)
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "INSERT INTO jobs (name, kind, state, input, digest, models, settings, created_utc, total) "
            "VALUES ('old', 'batch', 'ready', 'in', 'd', '{}', '{}', 1, 1)"
        )
        db.execute(
            "INSERT INTO routes (id, job, provider, kind, model) VALUES (1, 1, 'alpha', 'openai', 'm')"
        )
        db.execute("INSERT INTO units (uid, custom_id, route) VALUES (4294967296, 'u0', 1)")
        db.execute("INSERT INTO requests (uid, path, body) VALUES (4294967296, '/p', x'7b7d')")


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_a_writer_migrates_an_older_schema(path: Path, version: int) -> None:
    old_file(path, version)
    with Store(SqliteFile(path)) as store:
        [job] = store.jobs()
        assert (job.name, job.known_usd) == ("old", 0.0)
        assert store.routes(job.id) == [StoredRoute("alpha", "openai", "m", 1)]
    assert schema(path)[0] == len(migrations())


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_a_reader_reads_an_older_schema_and_changes_nothing(path: Path, version: int) -> None:
    old_file(path, version)
    before = path.read_bytes()
    with Store(SqliteFile(path, read_only=True)) as store:
        [job] = store.jobs()
        assert (job.name, job.known_usd, job.form, job.good, job.total) == ("old", 0.0, {}, 0, 1)
        look_at_everything(store)
        assert [each.status for each in store.results(job.id, -1, 9)] == ["pending"]
        assert store.request(job.id, 0) == ("/p", b"{}")
        for found in (
            store.use_by_route(job.id), store.use_by_lane(), store.notes_of(job.id, 0), store.lanes(), store.events(job.id),
            store.repairs_of(job.id, 0), store.claims.news(0, 0, 0.0).changed, store.cache.entries_by_model(), store.workers(job.id),
        ):  # fmt: skip
            assert not found
        assert store.cache.saved().units == 0
        assert store.per_lane(job.id) == {"alpha/m": {"pending": 1}}
        with pytest.raises(StoreError, match="is not writable"):
            store.add_route(job.id, StoredRoute("beta", "openai", "m"))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_leaves_no_files_behind_and_disturbs_no_writer(path: Path) -> None:
    with Store(SqliteFile(path)) as writer:
        job = fill(writer)
        writer.commit(ended(job, 0))
        with Store(SqliteFile(path, read_only=True)) as reader:
            assert reader.jobs()[0].counts["succeeded"] == 1
            writer.commit(ended(job, 1))
            assert reader.jobs()[0].counts["succeeded"] == 2
    with Store(SqliteFile(path, read_only=True)) as reader:
        assert reader.jobs()[0].counts["succeeded"] == 2
    Store(SqliteFile(path)).close()
    assert list(path.parent.iterdir()) == [path]


def test_the_log_of_a_killed_writer_is_read_and_stays(path: Path) -> None:
    script = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.stores.test_sqlite import SqliteFile, Store, ended, fill
store = Store(SqliteFile(Path(sys.argv[1])))
store.commit(ended(fill(store), 0))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, path, Path(__file__).parents[2]).returncode == -9
    log = Path(f"{path}-wal")
    before = (path.read_bytes(), log.read_bytes())
    with Store(SqliteFile(path, read_only=True)) as reader:
        assert reader.jobs()[0].counts["succeeded"] == 1
    assert (path.read_bytes(), log.read_bytes()) == before


READ_AS_NOBODY = """
import os, sys
from pathlib import Path
from headway.stores.sqlite.database import SqliteDatabase
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.database import queries
from headway.stores.sqlite.schema import migrations
migrations(), queries()  # Another user may not be able to read the package.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with Store(SqliteFile(Path(sys.argv[1]), read_only=True)) as store:
    [job] = store.jobs()
    print(job.counts["succeeded"], len(store.results(job.id, -1, 99)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("how", ["no writer", "a writer is live", "a writer was killed"])
def test_a_reader_needs_no_right_to_write(how: str) -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "h.db"
        store = Store(SqliteFile(path))
        path.chmod(0o644)
        store.close()
        store = Store(SqliteFile(path))
        store.commit(ended(fill(store), 0))
        if how == "no writer":
            store.close()
        elif how == "a writer was killed":
            copy = Path(name) / "copy.db"
            for end in ("", "-wal", "-shm"):  # As a copy: here the writer lives.
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
                Path(f"{copy}{end}").chmod(0o644)
            path = copy
        before = sorted(os.listdir(name))
        done = run(READ_AS_NOBODY, path)
        assert (done.stdout, done.stderr) == ("1 10\n", "")
        assert sorted(os.listdir(name)) == before
        store.close()


def test_a_reader_of_a_store_without_a_salt_uses_a_random_one(path: Path) -> None:
    Store(SqliteFile(path)).close()
    with Store(SqliteFile(path, read_only=True)) as store:
        assert len(store.salt()) == 32
    with raw(path) as db:
        assert db.execute("SELECT count(*) FROM meta WHERE key = 'salt'").fetchone() == (0,)


#: The schema whose counters could contradict the units.
UNCOUNTED = 6


def uncounted(path: Path) -> None:
    """A file of that schema: a worker pool's units failed once each, were submitted again and succeeded; one that still
    failed; and a job without units."""
    with raw(path) as db:
        for script in migrations()[:UNCOUNTED]:
            db.executescript(script)
        db.execute(f"PRAGMA user_version = {UNCOUNTED}")
        db.execute("BEGIN")
        jobs = (("again", "failed", 3, 3, 3), ("poor", "failed", 2, 2, -1), ("empty", "ready", 0, 0, 0))
        for number, (name, state, total, succeeded, failed) in enumerate(jobs, 1):
            db.execute(
                "INSERT INTO jobs (id, name, kind, state, input, digest, models, settings, created_utc, total, succeeded, failed, "
                "attempts, cost_usd, repeated) VALUES (?, ?, 'pool', ?, 'in', 'd', '{}', '{}', 1, ?, ?, ?, 6, 0.5, 3)",
                (number, name, state, total, succeeded, failed),
            )
            for n in range(total):
                status = "failed" if (name, n) == ("poor", 1) else "succeeded"
                row = ((number << 32) + n, f"u{n}", status)
                db.execute("INSERT INTO units (uid, custom_id, route, status) VALUES (?, ?, 1, ?)", row)
        db.execute("COMMIT")


def counted(path: Path) -> list[Any]:
    with Store(SqliteFile(path)) as store:
        jobs = sorted(store.jobs(), key=lambda job: job.id)
        assert {(job.attempts, job.cost_usd, job.repeated, job.digest) for job in jobs} == {(6, 0.5, 3, "d")}
        return [
            (job.name, job.state, job.total, {name: n for name, n in job.counts.items() if n}) for job in jobs
        ]


COUNTED_ANEW = [
    ("again", "complete", 3, {"succeeded": 3}),
    ("poor", "failed", 2, {"succeeded": 1, "failed": 1}),
    ("empty", "ready", 0, {}),
]


def test_counters_of_an_older_schema_are_recomputed_from_units(path: Path) -> None:
    uncounted(path)
    Store(SqliteFile(path)).close()
    assert counted(path) == COUNTED_ANEW
    assert schema(path)[0] == len(migrations())
    with raw(path) as db:
        for wrong in ("failed = -1", "succeeded = total + 1", "cancelled = -1"):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                db.execute(f"UPDATE jobs SET {wrong}")


@pytest.mark.parametrize("after", range(count(migrations()[UNCOUNTED]) + 1))
def test_a_kill_while_counters_are_recomputed_loses_nothing(path: Path, after: int) -> None:
    uncounted(path)
    script = """
import os, signal, sys
from pathlib import Path
from headway.stores.sqlite import file, schema

def killing(script, statements=schema.statements):
    for number, statement in enumerate(statements(script)):
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    os.kill(os.getpid(), signal.SIGKILL)

schema.statements = killing
file.CACHE_KB = 4
file.SqliteFile(Path(sys.argv[1]))
"""
    assert run(script, path, after).returncode == -9
    assert schema(path)[0] == UNCOUNTED
    assert counted(path) == COUNTED_ANEW


def test_a_fresh_file_gets_all_migrations_in_one_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    control = SqliteDatabase._control

    def noted(db: SqliteDatabase, sql: str) -> None:
        begun.append(sql)
        control(db, sql)

    monkeypatch.setattr(SqliteDatabase, "_control", noted)
    SqliteFile(path).close()
    assert begun == ["BEGIN IMMEDIATE", "COMMIT"]
