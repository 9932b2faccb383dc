"""What each lane of a job cost, with the kind of its provider, and the part of the job where it has parts."""

from __future__ import annotations

import msgspec

from headway.reports.usage import use_report
from headway.stores.records import Job, UsageTotals
from headway.stores.store import Store


class CostRow(msgspec.Struct, frozen=True):
    """One lane and kind. `repeated_usd` was paid for attempts that gave no answer; None: no price is known."""

    lane: str
    kind: str
    attempts: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    repeated_usd: float | None


def cost_rows(store: Store, job: Job) -> list[CostRow]:
    """The costs of a job, the highest first."""
    uses = store.use_by_route(job.id)
    totals: dict[tuple[str, str], UsageTotals] = {}
    for route in store.routes(job.id):
        if route.id in uses:
            kind = f"{route.kind}, {route.label}" if route.label else route.kind
            totals.setdefault((route.name, kind), UsageTotals()).add(uses[route.id])
    rows = []
    for (lane, kind), use in totals.items():
        report = use_report(use)
        rows.append(
            CostRow(
                lane, kind, report.attempts, report.input_tokens, report.output_tokens, report.cost_usd,
                report.repeated.cost_usd,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-(row.cost_usd or 0.0), -row.attempts, row.lane, row.kind))
