"""What is PostgreSQL's own: transactions of several processes, locks of jobs, notifications, migrations, and addresses with secrets."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.contract.records import MODELS, begun, new_job, ready_job
from tests.crash.stage import wait_for
from tests.postgres_server import PASSWORD, PostgresServer

from headway.config.database_address import public_address, shown_address
from headway.errors import ConfigError, JobBusy, NewerRecords, NoRecords, StoreAway, StoreError
from headway.stores.job_lock import JobLock
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.database import PostgresDatabase
from headway.stores.postgres.job_lock import PostgresJobLock
from headway.stores.postgres.running_jobs import RunningJobs
from headway.stores.records import NewUnit, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.wiring.store_access import open_store_file


@pytest.fixture
def address(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.lent_address() as address:
        yield address


# -- transactions ------------------------------------------------------------------------------------------------


def test_what_is_read_in_a_transaction_stays_true(address: str) -> None:
    """Two threads read a number and write one more, many times: none is lost."""
    times = 40

    def count() -> None:
        with open_store_file(address) as store:
            for _ in range(times):
                with store.one_commit():
                    known = len(store.jobs())
                    store.add_job(new_job(f"job-{known}"))

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store_file(address) as store:
        assert len(store.jobs()) == 2 * times


def test_a_connection_that_ends_in_a_transaction_undoes_it(address: str) -> None:
    def interrupted(store: Store) -> None:
        with store.one_commit():
            store.add_job(new_job("lost"))
            _end_connection(address, store)
            store.jobs()

    with open_store_file(address) as store, pytest.raises(StoreAway):
        interrupted(store)
    with open_store_file(address) as store:
        assert store.jobs() == []


def test_a_query_is_repeated_over_a_new_connection(address: str) -> None:
    with open_store_file(address) as store:
        ready_job(store)
        _end_connection(address, store)
        assert [job.name for job in store.jobs()] == ["translate"]


def test_the_outcome_of_a_transaction_can_be_asked_later(address: str) -> None:
    db, other = (PostgresDatabase(parse_address(address)) for _ in range(2))
    with db.transaction():
        kept = db.transaction_number()
    with suppress(ZeroDivisionError), db.transaction():
        undone = db.transaction_number()
        raise ZeroDivisionError
    assert (other.was_committed(kept), other.was_committed(undone)) == (True, False)
    db.close()
    other.close()


def test_a_reader_changes_nothing(address: str) -> None:
    with open_store_file(address) as store:
        ready_job(store)
    with open_store_file(address, read_only=True) as reader:
        with pytest.raises(StoreError, match="may not be written"):
            reader.add_job(new_job("other"))
        assert len(reader.jobs()) == 1


def _end_connection(address: str, store: Store) -> None:
    db = store._db
    assert isinstance(db, PostgresDatabase)
    with_other = PostgresDatabase(parse_address(address))
    with_other.connection.execute("SELECT pg_terminate_backend($1)", (db.connection.info.backend_pid,))
    with_other.close()


# -- schemas -----------------------------------------------------------------------------------------------------


def test_processes_that_make_a_store_at_once_make_one(postgres_server: PostgresServer) -> None:
    code = "import sys; from headway.wiring.store_access import open_store_file as o\nwith o(sys.argv[1]) as s: print(s.salt().hex())"
    address = postgres_server.address()
    command = [sys.executable, "-c", code, address]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert [process.returncode for process in processes] == [0, 0, 0]


def test_a_store_without_tables_has_no_records(postgres_server: PostgresServer) -> None:
    with pytest.raises(NoRecords):
        open_store_file(postgres_server.address(), read_only=True)


def test_tables_of_a_newer_version_and_of_others_are_left_alone(postgres_server: PostgresServer) -> None:
    address = postgres_server.address()
    db = PostgresDatabase(parse_address(address))
    db.connection.execute("UPDATE headway_version SET version = 99")
    with pytest.raises(NewerRecords, match="upgrade headway"):
        open_store_file(address)
    db.connection.execute("DROP TABLE headway_version")
    with pytest.raises(StoreError, match="tables of another program"):
        open_store_file(address)
    db.close()


def test_conversations_can_be_read_with_sql(address: str) -> None:
    with open_store_file(address) as store:
        job = store.add_job(new_job())
        route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
        body = b'{"messages": [{"role": "user", "content": "say \\u0000"}]}'
        store.add_units(
            job,
            0,
            [NewUnit("a", route, "/v1/chat/completions", body), NewUnit("b", route, "/v1", b"no JSON")],
        )
        store.seal(job, 2, MODELS, "d")
        batch = WriteBatch(job)
        batch.answers.append(
            (0, 200, None, b'{"choices": [{"message": {"role": "assistant", "content": "hi"}}]}')
        )
        store.commit(batch)
    db = PostgresDatabase(parse_address(address), read_only=True)
    rows = db.connection.execute('SELECT "index", role, content FROM messages ORDER BY position').fetchall()
    db.close()
    assert rows == [(0, "user", '"say \ufffd"'), (0, "assistant", '{"role": "assistant", "content": "hi"}')]


# -- jobs --------------------------------------------------------------------------------------------------------


def test_a_job_has_one_owner_until_its_process_is_killed(address: str, tmp_path: Path) -> None:
    """The owner is another process with another folder, as on another machine."""
    parsed = parse_address(address)
    with open_store_file(address) as store:
        begun(store)
    code = (
        "import sys, time; from pathlib import Path; from headway.stores.job_lock import JobLock\n"
        "from headway.stores.postgres.address import parse_address as p; from headway.stores.postgres.job_lock import PostgresJobLock as L\n"
        "with L(p(sys.argv[1]), 'translate', JobLock(Path(sys.argv[2]), 'translate')): print('held', flush=True); time.sleep(600)"
    )
    there = tmp_path / "there" / "jobs" / "translate" / "lock"
    owner = subprocess.Popen(
        [sys.executable, "-c", code, address, str(there)], stdout=subprocess.PIPE, text=True
    )
    running = RunningJobs(parsed)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        assert running.is_running("translate")
        here = JobLock(tmp_path / "here" / "jobs" / "translate" / "lock", "translate")
        with (
            pytest.raises(JobBusy, match="already running, in process"),
            PostgresJobLock(parsed, "translate", here),
        ):
            pass
        owner.kill()
        owner.communicate()
        wait_for("the lock is free", lambda: not running.is_running("translate"))
        with PostgresJobLock(parsed, "translate", here):
            assert running.is_running("translate")
        assert not running.is_running("translate")
    finally:
        owner.kill()
        owner.wait()
        running.close()


def test_a_lost_lock_is_taken_again(address: str, tmp_path: Path) -> None:
    parsed = parse_address(address)
    running = RunningJobs(parsed)
    db = PostgresDatabase(parsed)
    with PostgresJobLock(parsed, "j", JobLock(tmp_path / "h" / "jobs" / "j" / "lock", "j")):
        db.connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        wait_for("the lock is held again", lambda: running.is_running("j"))
    db.close()
    running.close()


def test_a_command_is_heard_without_asking(address: str) -> None:
    with open_store_file(address) as run, open_store_file(address) as other:
        job, *_ = begun(run)
        assert run.new_commands(job) == []
        asked: list[str] = []
        execute = run._db.execute

        def counted(name: str, values: Any = ()) -> list[Any]:
            asked.append(name)
            return execute(name, values)

        run._db.execute = counted  # type: ignore[method-assign]
        assert [run.new_commands(job) for _ in range(10)] == [[]] * 10
        assert asked == []
        other.add_command(job, "pause", {}, 1.0)
        began = time.monotonic()
        wait_for("the command", lambda: run.new_commands(job))
        assert time.monotonic() - began < 2.0
        assert asked == ["open_commands"]


# -- addresses ---------------------------------------------------------------------------------------------------

SECRET = f"postgresql://me:{PASSWORD}@db.example:5432/work?sslmode=require&password={PASSWORD}&schema=mine"


def test_an_address_never_shows_its_secrets() -> None:
    parsed = parse_address(SECRET)
    assert parsed.schema == "mine"
    assert shown_address(SECRET) == "postgresql://db.example:5432/work"
    assert public_address(SECRET) == "postgresql://me@db.example:5432/work?sslmode=require&schema=mine"
    assert PASSWORD not in f"{parsed!r}{parsed.scrubbed(SECRET)}"


@pytest.mark.parametrize(
    "db", ["mysql://me:pw-secret@h/d", "postgresql://me:pw-secret@h/d?schema=Drop%20Table"]
)
def test_a_wrong_address_is_refused_without_its_secrets(db: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_address(db)
    assert "pw-secret" not in str(error.value)


def test_errors_of_a_login_name_no_secret(postgres_server: PostgresServer) -> None:
    wrong = postgres_server.address_with_password("x", "wrong-secret-0123456789")
    with pytest.raises(StoreError, match="refuses the login") as error:
        open_store_file(wrong)
    assert "wrong-secret" not in f"{error.value}{error.value.__cause__}{error.value.__context__}"
    with pytest.raises(StoreAway, match="cannot be reached") as away:
        open_store_file(f"postgresql://me:{PASSWORD}@127.0.0.1:9/none")
    assert PASSWORD not in f"{away.value}{away.value.__cause__}{away.value.__context__}"
