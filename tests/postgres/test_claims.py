"""Claims count by the server's clock, whatever the clocks of the machines say; they wait for no commit; and nobody who vanishes holds up the
others for long.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from tests.contract.records import begun, statuses
from tests.crash.stage import wait_for
from tests.engine.test_engine import Watcher, until
from tests.engine.test_sharing import EIGHT, Gate
from tests.postgres_server import PostgresServer

from headway.core.model import LaneSpec
from headway.core.reasons import WaitCode
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.engine.sharing.grant_term import GRANT_S
from headway.stores.claims import COUNTS_S
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.connection import IDLE_S, LOCK_S, connect
from headway.stores.postgres.database import PostgresDatabase
from headway.stores.records import NewJob, NewUnit, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


@pytest.fixture
def address(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.lent_address() as address:
        yield address


@pytest.mark.parametrize("wrong_by_s", [-3600.0, 3600.0])
def test_a_claimant_is_seen_by_the_clock_of_the_server(address: str, wrong_by_s: float) -> None:
    with Store(database := PostgresDatabase(parse_address(address))) as store:
        (job, _, lane), (other, worker, _) = begun(store, 1), begun(store, 1, "other")
        batch = WriteBatch(other, worker)
        batch.claims, batch.seen_utc = {lane: b"{}"}, time.time() + wrong_by_s
        store.commit(batch)
        assert store.claims.news(job, 0, time.time() - wrong_by_s).present == {worker}
        for age_s, is_here in ((COUNTS_S - 1.0, True), (COUNTS_S + 1.0, False), (-COUNTS_S - 1.0, False)):
            database.connection.execute(
                "UPDATE claimants SET seen_utc = extract(epoch FROM clock_timestamp()) - $1::double precision",
                (age_s,),
            )
            assert bool(store.claims.news(job, 0, time.time()).present) is is_here


def test_the_clock_of_the_server_is_compared_with_ours(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    really = time.time
    with Store(PostgresDatabase(parse_address(address))) as store:
        monkeypatch.setattr(time, "time", lambda: really() + 40.0)
        assert store.clock_ahead_s() == pytest.approx(-40.0, abs=2.0)


def test_one_that_vanishes_in_a_transaction_does_not_stop_the_others(address: str) -> None:
    """Its lock ends before a run gives up waiting for it."""
    where = parse_address(address)
    with Store(database := PostgresDatabase(where)) as store:
        vanished = connect(where, read_only=False)
        vanished.execute("BEGIN")
        vanished.execute(f"SELECT pg_advisory_xact_lock({where.lock_key()})".encode())
        began = time.monotonic()
        store.add_command(1, "pause", {}, 0.0)
        assert IDLE_S - 1.0 < time.monotonic() - began < LOCK_S
        assert not database.connection.closed
        vanished.close()


# -- beside the commits ------------------------------------------------------------------------------------------------

#: Twice as long as a grant lasts, and less than a writer waits for its turn.
HELD_S = 2.0 * GRANT_S


@contextmanager
def held_turn(address: str) -> Iterator[threading.Event]:
    """Another process has the store's turn for `HELD_S`, as one that takes in a large input. The event: it has given the turn back."""
    where, free = parse_address(address), threading.Event()
    with connect(where, read_only=False) as holder:
        holder.execute("BEGIN")
        holder.execute(f"SELECT pg_advisory_xact_lock({where.lock_key()})".encode())

        def hold() -> None:
            holder.execute(f"SELECT pg_sleep({HELD_S})".encode())
            holder.execute("COMMIT")
            free.set()

        thread = threading.Thread(target=hold)
        thread.start()
        yield free
        thread.join()


def test_numbers_of_claims_appear_in_their_order(address: str) -> None:
    """Otherwise one that has seen a number would never see a lower one that is committed later."""
    database = PostgresDatabase(parse_address(address))
    with Store(database) as first, Store(PostgresDatabase(parse_address(address))) as second:
        (job, _, lane), (slow, slower, _) = begun(first, 1), begun(first, 1, "slow")
        (quick, quicker, _), news = begun(first, 1, "quick"), second.claims.news(job, 0, 0.0)
        with ThreadPoolExecutor(1) as pool:
            with first.one_commit():
                first.claims.write(slower, slow, [(lane, b"1")], 0.0)
                written = pool.submit(second.claims.write, quicker, quick, [(lane, b"2")], 0.0)
                waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                wait_for(
                    "the other one waits for its turn",
                    lambda: database.connection.execute(waits).fetchall() != [],
                )
            written.result()
        news = second.claims.news(job, news.known, 0.0)
        assert [(one.claimant, one.claim) for one in news.changed] == [(slower, b"1"), (quicker, b"2")]


def test_a_reader_misses_nothing_of_many_writers(address: str) -> None:
    writers, turns = 4, 150
    with Store(PostgresDatabase(parse_address(address))) as store:
        (job, _, lane), claimants = begun(store, 1), [begun(store, 1, f"w{n}")[:2] for n in range(writers)]

        def write(number: int, claimant: int) -> None:
            with Store(PostgresDatabase(parse_address(address))) as own:
                for turn in range(1, turns + 1):
                    own.claims.write(claimant, number, [(lane, b"%d" % turn)], 0.0)

        seen: dict[int, list[int]] = {claimant: [] for _, claimant in claimants}
        with ThreadPoolExecutor(writers) as pool:
            written = [pool.submit(write, *claimant) for claimant in claimants]
            known, is_over = 0, False
            while not is_over:
                is_over = all(one.done() for one in written)
                news = store.claims.news(job, known, 0.0)
                known = news.known
                for one in news.changed:
                    seen[one.claimant].append(int(one.claim))
            for future in written:
                future.result()
    for turns_seen in seen.values():
        assert turns_seen[-1] == turns
        assert turns_seen == sorted(set(turns_seen))


def test_after_a_lost_connection_all_claims_are_read_again(address: str) -> None:
    """A server that crashed may have lost the last claims, and given their numbers again."""
    with Store(database := PostgresDatabase(parse_address(address))) as store:
        (job, _, lane), (other, worker, _) = begun(store, 1), begun(store, 1, "other")
        store.claims.write(worker, other, [(lane, b"1")], 0.0)
        first = store.claims.news(job, 0, 0.0)
        assert not store.claims.news(job, first.known, 0.0).anew
        with psycopg.connect(parse_address(address).libpq, autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", (database.connection.info.backend_pid,))
        again = store.claims.news(job, first.known + 1_000, 0.0)
        assert again == first
        assert again.anew


async def test_a_grant_is_renewed_while_another_process_has_the_turn_of_the_store(address: str) -> None:
    """Neither is anything lost that has ended meanwhile."""
    with Store(PostgresDatabase(parse_address(address))) as store:
        number = store.add_job(NewJob("ours", "batch", "in.jsonl", "ours", "", 0.0))
        route = store.add_route(number, StoredRoute("alpha", "openai", "gpt-x"))
        store.add_units(number, 0, [NewUnit(f"u{n}", route, "/v1", b"{}", chars=10) for n in range(24)])
        store.seal(number, 24, {"": ("alpha", "openai", "gpt-x")}, "ours")
        job = store.job("ours")
        assert job is not None
        gate, watcher = Gate(), Watcher()
        lanes = {"lane": run_spec.RunLane(LaneSpec("lane", EIGHT), "alpha/gpt-x", gate)}
        routes = {route: run_spec.UnitRoute("lane", None)}
        spec = run_spec.RunSpec(job=job, lanes=lanes, routes=routes, settings={}, timeout_s=60.0)
        engine = Engine(lambda: Store(PostgresDatabase(parse_address(address))), spec, [watcher])
        run = asyncio.create_task(engine.run())
        await until(lambda: gate.out == 8)
        with held_turn(address) as free:
            gate.let(4)  # They end, which cannot be recorded now.
            seen = len(watcher.views)
            await until(free.is_set, 4.0 * HELD_S)
            waits = [lane.wait for view in watcher.views[seen:] for lane in view.snapshot.lanes]
        assert len(waits) >= 8
        assert WaitCode.DATABASE not in {wait.code for wait in waits if wait is not None}
        gate.let(20)
        assert (await run).state == "complete"
        assert statuses(store, number) == ["succeeded"] * 24
