"""Three engines on three machines share one account through PostgreSQL: real processes, each in a network of its own.

The clocks of two of them are wrong by seconds. One is killed, one loses its database for a while and still reaches the provider. The provider
counts: it knows nothing of grants, and refuses whatever is more than its limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from bench.servers import installed
from tests.crash.stage import wait_for
from tests.postgres.machines import Figures, Machine, Table, laid_table
from tests.postgres_server import require_binaries

from headway.engine.sharing.grant_term import GRANT_S
from headway.stores.claims import COUNTS_S

#: Slow enough for three engines, a server and a provider on two loaded cores.
RPM: Final = 3_600.0
BURST_S: Final = 2.0
#: How long each phase is measured.
PHASE_S: Final = 6.0
PATIENCE_S: Final = 90.0


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    binaries = require_binaries()
    if not installed.namespaces():
        pytest.skip("no network namespaces here")
    with laid_table(tmp_path, binaries) as table:
        table.provide(
            "--rpm", str(RPM), "--burst", f"{BURST_S:g}s", "--headers", "none", "--latency", "50ms-150ms"
        )
        yield table


def _engine(table: Table, name: str, *, weight: float = 1.0, skew_s: float = 0.0) -> Machine:
    machine = table.machine(name)
    machine.write(40_000, f'rpm = {RPM:g}\nburst = "{BURST_S:g}s"', weight=weight)
    machine.start(skew_s=skew_s)
    return machine


def _measured(table: Table, seconds: float) -> Figures:
    """What the provider counts in a time."""
    before = table.figures()
    time.sleep(seconds)  # A rate is measured over time.
    return table.figures().since(before)


def _says(machine: Machine, wait: str) -> bool:
    """Whether its own progress file says that the lane waits for this."""
    lanes = machine.progress().get("lanes", {})
    return any((lane.get("wait_reason") or {}).get("code") == wait for lane in lanes.values())


@pytest.mark.timeout(300)
def test_three_machines_share_an_account_while_one_dies_and_one_is_cut_off(table: Table) -> None:
    first = _engine(table, "first", skew_s=-4.0)
    cut = _engine(table, "cut", skew_s=4.0)
    heavy = _engine(table, "heavy", weight=2.0)
    claimants = "SELECT count(*) FROM claims JOIN claimants ON claimants.id = claims.claimant WHERE claim LIKE '%%\"hungry\":true%%'"
    wait_for(
        "all three work",
        lambda: table.query(claimants) == [(3,)] and len(table.started(0.0, 9e12)) == 3,
        PATIENCE_S,
    )
    time.sleep(BURST_S + 1.0)  # What is left of the bucket from before.

    began_utc = table.utc()
    together = _measured(table, PHASE_S)
    _well_used(together)
    wait_for(
        "their attempts are on record",
        lambda: sum(table.started(began_utc, 9e12).values()) >= together.admitted,
        PATIENCE_S,
    )
    by_job = table.started(began_utc, began_utc + PHASE_S)
    whole = sum(by_job.values())
    assert sorted(n / whole for n in by_job.values()) == pytest.approx([0.25, 0.25, 0.5], abs=0.06)

    first.kill()
    time.sleep(COUNTS_S + 1.0)  # Until then the part of the dead counts.
    _well_used(_measured(table, PHASE_S))

    before = table.figures()
    table.cut(cut)
    wait_for("it says what it waits for", lambda: _says(cut, "database"), GRANT_S + 3.0)
    silent = cut.progress()["lanes"]
    time.sleep(COUNTS_S)
    alone = _measured(
        table, PHASE_S
    )  # The provider would see more than the limit if both used the same part.
    _well_used(alone)
    later = cut.progress()["lanes"]
    assert [lane["in_flight"] for lane in later.values()] <= [lane["in_flight"] for lane in silent.values()]
    table.mend(cut)
    wait_for("it goes on", lambda: not _says(cut, "database"), PATIENCE_S)
    again = _measured(table, PHASE_S)
    _well_used(again)
    since = table.figures().since(before)
    overshoot = since.refused / since.received
    assert overshoot <= 0.01
    assert cut.is_running, cut.err
    assert heavy.is_running, heavy.err


def _well_used(figures: Figures) -> None:
    """At least 95 % of the limit, and at most 5 refusals per 1000."""
    assert figures.use(RPM) >= 0.95, figures
    assert figures.refused_per_1000 <= 5.0, figures
