"""Who runs a job: a lease by the server's clock. A process that has lost its lease writes nothing more, whatever it writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.contract.records import begun
from tests.crash.stage import wait_for
from tests.postgres_server import PostgresServer, require_binaries

from headway.errors import ConfigError, JobBusy, JobTaken
from headway.stores.job_lock import JobLock
from headway.stores.journal import Journal, replay, store_id
from headway.stores.postgres import lease_record
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.job_lock import PostgresJobLock
from headway.stores.postgres.running_jobs import RunningJobs
from headway.stores.records import JobEvent, NewUnit, UnitChange
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.wiring.store_access import open_store_file

JOB = "translate"
LEASE_S = 1.0


@pytest.fixture
def address(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.lent_address() as address:
        yield f"{address}&lease={LEASE_S}"


def _lock(address: str, folder: Path, store: Store | None = None) -> PostgresJobLock:
    """As of a machine with this folder."""
    return PostgresJobLock(parse_address(address), JOB, JobLock(folder / "jobs" / JOB / "lock", JOB), store)


def _paused(monkeypatch: pytest.MonkeyPatch, lock: PostgresJobLock) -> None:
    """The thread that renews the lease stops, as in a process that is stopped. Its connection stays."""

    def idle(connection: object) -> bool:
        time.sleep(0.05)
        return True

    monkeypatch.setattr(lock, "_is_alive", idle)


def test_a_lease_ends_by_the_clock_of_the_server(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningJobs(parse_address(address))
    with open_store_file(address) as one, open_store_file(address) as other:
        begun(one)
        with _lock(address, tmp_path / "one", one) as lost:
            wait_for("a renewal", lambda: lost._renewed_at > lost._ends_at - LEASE_S and lost.holds())
            monkeypatch.setattr(time, "time", lambda: 4e9)  # The clock of this machine is wrong by decades.
            with (
                pytest.raises(JobBusy, match="already running, in process"),
                _lock(address, tmp_path / "two"),
            ):
                pass
            monkeypatch.undo()
            assert lost.holds()
            _paused(monkeypatch, lost)
            wait_for("the lease is over", lambda: not running.is_running(JOB))
            assert not lost.holds()
            with _lock(address, tmp_path / "two", other) as new:
                assert running.is_running(JOB)
                monkeypatch.undo()  # It goes on, and finds out.
                wait_for("the loss", lambda: lost.lost)
                assert not lost.holds()
                assert new.holds()
                lost.publish(b"old")
                new.publish(b"new")
                wait_for("progress", lambda: running.progress(JOB) == b"new")
    running.close()


def _commit(change: Callable[[WriteBatch], None]) -> Callable[[Store, int, int], None]:
    def commit(store: Store, job: int, worker: int) -> None:
        batch = WriteBatch(job, worker)
        change(batch)
        store.commit(batch)

    return commit


def _finish(batch: WriteBatch) -> None:
    batch.change(0, UnitChange("succeeded", finished_utc=300.0))
    batch.answers.append((0, 200, None, b"{}"))


#: What an owner of a job writes.
WRITES: dict[str, Callable[[Store, int, int], object]] = {
    "an answer": _commit(_finish),
    "an event": _commit(lambda batch: batch.events.append(JobEvent(1.0, None, "held", "x"))),
    "an intent": _commit(lambda batch: batch.intend(1, 1)),
    "a done command": _commit(lambda batch: batch.done_commands.append((1, 1.0))),
    "a claim": lambda store, job, worker: store.claims.write(worker, job, [(1, b"{}")], 1.0),
    "a value": lambda store, job, worker: store.set_value(job, "list", 0, b"x"),
    "units": lambda store, job, worker: store.add_units(job, 9, [NewUnit("z", 1, "/v1", b"{}")]),
    "a new run": lambda store, job, worker: store.begin(job, {}, "", 1.0),
    "the end": lambda store, job, worker: store.end_run(job, worker, "complete", 1.0, {}),
    "settings": lambda store, job, worker: store.set_settings(job, {}),
    "its removal": lambda store, job, worker: store.forget(job),
}


def test_a_process_that_lost_its_lease_writes_nothing(address: str, tmp_path: Path) -> None:
    """Another process has the job, and has not begun its run yet: the number of the worker is still that of the loser."""
    with open_store_file(address) as store:
        job, worker, _ = begun(store)
        with _lock(address, tmp_path / "one", store) as lock:
            journal = Journal(tmp_path / "one" / "jobs" / JOB / "journal")
            journal.store = store_id(store)
            batch = WriteBatch(job, worker)
            _finish(batch)
            journal.add(batch)
            WRITES["an event"](store, job, worker)
            _hand_over(address)
            before = _content(store, job)
            assert {
                what: _is_refused(write, store, job, worker) for what, write in WRITES.items()
            } == dict.fromkeys(WRITES, True)
            assert "not recorded" in replay(store, journal)
            assert journal.path.with_name("journal.not-recorded").exists()
            assert _content(store, job) == before
            wait_for("the loss", lambda: lock.lost)
        store.add_command(job, "pause", {}, 1.0)  # Anyone may.


def _is_refused(write: Callable[[Store, int, int], object], store: Store, job: int, worker: int) -> bool:
    try:
        write(store, job, worker)
    except JobTaken:
        return True
    return False


def _hand_over(address: str) -> None:
    """Another process has taken the lease of the job."""
    with open_store_file(address) as store:
        number = lease_record.new_number(JOB)
        store._db.connection.execute("UPDATE leases SET holder = $1", (number.holder,))  # type: ignore[attr-defined]


def _content(store: Store, job: int) -> object:
    claims = msgspec.structs.replace(store.claims.news(0, 0, 0.0), anew=False)
    return store.job(JOB), store.results(job, -1, 100), store.events(job), store.open_commands(job), claims


def test_a_lease_outlasts_a_restart_of_the_server(tmp_path: Path) -> None:
    """The server has forgotten its locks: it waits for the owner as long as a lease lasts, and the owner comes back. One that died on this
    machine is not waited for."""
    server = PostgresServer(require_binaries())
    try:
        address = f"{server.address('own')}&lease=20"
        open_store_file(address).close()
        with _lock(address, tmp_path / "one") as lock:
            number = lock.number
            server.stop()
            server.start()
            with pytest.raises(JobBusy), _lock(address, tmp_path / "two"):
                pass
            began_at = lock._renewed_at
            wait_for("its renewal", lambda: lock._renewed_at > began_at)
            assert (lock.number, lock.lost) == (number, None)
            server.stop()
            lock._leaving.set()  # It dies: nobody gives the lease back.
            lock._left.wait()
        server.start()
        with pytest.raises(JobBusy), _lock(address, tmp_path / "two"):
            pass
        with _lock(address, tmp_path / "one") as again:
            assert again.holds()
    finally:
        server.remove()


@pytest.mark.parametrize("lease", ["0.2", "soon", "-1", "1e9"])
def test_a_lease_that_cannot_be_is_refused(lease: str) -> None:
    with pytest.raises(ConfigError, match="lease"):
        parse_address(f"postgresql://h/d?lease={lease}")
