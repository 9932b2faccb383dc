"""Claims count by the server's clock, whatever the clocks of the machines say; and nobody who vanishes holds up the others for long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.contract.records import begun
from tests.postgres_server import PostgresServer

from headway.stores.claims import COUNTS_S
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.connection import IDLE_S, LOCK_S, connect
from headway.stores.postgres.database import PostgresDatabase
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
