"""The section `machines`: three engines in networks of their own share one account through PostgreSQL, while one is killed and one is cut off;
and what a look at the claims of a hundred engines costs. Needs Debian's PostgreSQL and network namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.postgres_server import binaries

from bench.machines import claims, shared_account
from bench.machines.shared_account import Phase
from bench.servers import installed

USE_BAR: Final = 0.95
REFUSED_BAR: Final = 5.0


def section(missed: list[str]) -> Iterator[str]:
    """Measure both."""
    folder = binaries()
    if folder is None:
        raise RuntimeError("no PostgreSQL on this machine: apt-get install postgresql")
    if not installed.namespaces():
        raise RuntimeError("no network namespaces here")
    yield "## Machines"
    yield ""
    yield "Three `headway run`, each in a network namespace with cables (veth pairs) to PostgreSQL and to `headway fake`, share one account of"
    yield f"{shared_account.RPM:,.0f} requests a minute and a bucket of {shared_account.BURST}. Weights 1, 1, 2; the clocks of two are wrong by −4 s and +4 s. Then one of"
    yield "weight 1 is killed with SIGKILL, and the other one loses its cable to the database, but not that to the provider, and gets it back."
    yield f"Use is what the provider admitted, as a share of the limit, in {shared_account.PHASE_S:.0f} s (while it changes: {shared_account.CHANGE_S:.0f} s)."
    yield ""
    yield "| | limits configured: use | 429s per 1000 | limits in headers: use | 429s per 1000 |"
    yield "|---|---|---|---|---|"
    configured = shared_account.phases(folder, headers=False)
    reported = shared_account.phases(folder, headers=True)
    for one, other in zip(configured, reported, strict=True):
        yield f"| {one.name} | {_row(one)} | {_row(other)} |"
        missed += [miss for phase in (one, other) for miss in _missed(phase)]
    yield ""
    yield f"Bars where all work: at least {USE_BAR:.0%} and at most {REFUSED_BAR:.0f} 429s per 1000; while one is cut off and back: at most 1 % refused."
    for what, phases in (("configured", configured), ("in headers", reported)):
        parts = ", ".join(f"{part:.1%}" for part in phases[0].parts)
        yield f"Parts of the three by the records, limits {what}: {parts} (by weight: 25 %, 25 %, 50 %)."
    yield ""
    yield from claims.rows(folder)


def _row(phase: Phase) -> str:
    return f"{phase.figures.use(shared_account.RPM):.3f} | {phase.figures.refused_per_1000:.1f}"


def _missed(phase: Phase) -> Iterator[str]:
    use, refused = phase.figures.use(shared_account.RPM), phase.figures.refused_per_1000
    if phase.all_work and use < USE_BAR:
        yield f"machines: {phase.name}: {use:.3f} of the limit, the bar is {USE_BAR}"
    most = REFUSED_BAR if phase.all_work else 2.0 * REFUSED_BAR
    if refused > most:
        yield f"machines: {phase.name}: {refused:.1f} refusals per 1000, the bar is {most}"
