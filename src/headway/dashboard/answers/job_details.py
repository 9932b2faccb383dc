"""One job: its row, its lanes, its failures, its settings, and which parts its page has."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from headway.command_flags import with_flags
from headway.config.kinds.programs import AGENT_NAMES
from headway.dashboard.answers.job_rows import job_row
from headway.dashboard.answers.lane_rows import LaneRows
from headway.dashboard.records.job_reading import JobReading, RecordPlace
from headway.dashboard.troubles.failure_troubles import advice_for
from headway.dashboard.troubles.job_troubles import failures_in, troubles_of
from headway.jobs.kinds import KINDS
from headway.reports.flows.node_progress import NodeProgress, nodes_of_report
from headway.reports.jobs import models_text, prompt_of
from headway.reports.prediction import SETTING as PREDICTION
from headway.reports.prediction import comparison
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.steering.own_budget import BUDGET

#: Settings that are of no use to a reader.
_LEFT_OUT: Final = frozenset({PREDICTION, BUDGET, "addresses", "providers", "run"})


def job_details(place: RecordPlace, store: Store, reading: JobReading) -> dict[str, Any]:
    """Everything about a job but its units."""
    job = reading.job
    return {
        **job_row(reading, troubles_of(place, store, reading)),
        "origin": KINDS[job.kind].origin(job) if job.kind in KINDS else "",
        "settings": _settings(job),
        "models": models_text(job),
        "prompt": prompt_of(job),
        "out": job.out,
        "lanes": LaneRows(place, store, reading).rows(),
        "failures": failure_rows(place, job),
        "elapsed_s": elapsed_s(store, reading),
        "predicted": comparison(store, job),
        "budget_usd": budget_of(job),
        "nodes": nodes_of(place, store, reading) if job.kind == "flow" else None,
        "parts": {
            "flow": job.kind == "flow",
            "eval": job.kind == "eval",
            "review": job.kind == "review",
            "agents": has_agents(store, job),
        },
    }  # fmt: skip


def failure_rows(place: RecordPlace, job: Job) -> list[dict[str, Any]]:
    """The failures of a job by code. Of a large job they are missing until they are counted."""
    return [
        {"code": one.code, "units": one.units, "first": one.first, "message": one.message,
         "do": with_flags(advice_for(one.code), place.flags)}
        for one, _ in failures_in(place, job)
    ]  # fmt: skip


def budget_of(job: Job) -> float | None:
    """The most that the job may cost; None without a cap."""
    of_run = job.settings.get("run", {}).get("max_cost_usd", 0.0)
    return float(job.settings.get(BUDGET, of_run)) or None


def elapsed_s(store: Store, reading: JobReading) -> float:
    """How long processes have worked on the job, all runs together. A process that died worked until its last progress."""
    progress = reading.progress
    last = time.time() if reading.is_live else 0.0 if progress is None else progress.updated_utc
    runs = [worker for worker in store.workers(reading.job.id) if worker["run"] is None]
    seconds: float = sum(max(0.0, (run["ended_utc"] or last) - run["started_utc"]) for run in runs)
    return seconds


def nodes_of(place: RecordPlace, store: Store, reading: JobReading) -> Mapping[str, NodeProgress]:
    """The nodes of a flow by their path: of a running one those that matter most."""
    if reading.live_progress is not None and reading.live_progress.nodes:
        return reading.live_progress.nodes
    from headway.dashboard.answers.flow_answer import report_of  # Only for jobs that are flows.

    return nodes_of_report(report_of(place, store, reading))


def has_agents(store: Store, job: Job) -> bool:
    """Whether units of the job are done by agent CLIs or other programs."""
    return any(route.kind in AGENT_NAMES or route.kind == "command" for route in store.routes(job.id))


def _settings(job: Job) -> dict[str, Any]:
    """The settings of the latest run, without those that say nothing, and without credentials in addresses."""
    run = job.settings.get("run", {})
    others = {name: value for name, value in job.settings.items() if name not in _LEFT_OUT}
    providers = {
        f"providers.{name}": f"{one.get('kind', '')} {_address(one.get('base_url') or '')}".strip()
        for name, one in job.settings.get("providers", {}).items()
    }
    return {name: value for name, value in {**run, **others, **providers}.items() if value not in (None, "", 0, False, [], {})}  # fmt: skip


def _address(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
