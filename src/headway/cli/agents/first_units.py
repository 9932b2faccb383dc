"""`headway run --first N`: runs the first units, shows them, and asks before it goes on with the others."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from headway.cli.shared.interrupts import interruptible
from headway.cli.shared.printing import agreed, print_json, say
from headway.cli.shared.run_job import display_for
from headway.core.unit_states import GOOD
from headway.display.unit_text import unit_lines
from headway.engine.run_result import RunResult
from headway.jobs.kinds import kind_of
from headway.reports.jobs import job_report
from headway.reports.units import unit_report
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_execution import EXIT_CODES, run
from headway.wiring.submission import ReadyJob

#: States of a run that has done what it was to do.
_DONE = ("complete", "failed", "interrupted")
#: The exit code of a run that stopped after the first units: as for other limits that the user sets.
STOPPED_AFTER_FIRST = EXIT_CODES["deadline"]


def run_first(
    ready: ReadyJob, n: int, *, ask: bool, yes: bool, progress: str, quiet: bool, as_json: bool
) -> int | None:
    """Run the first `n` units and show them. Returns the exit code if the run stops here; None: it goes on with the others.

    If an earlier run has done them, it goes on at once.
    """
    config, store, job, flags = ready
    if job.total <= n or not _open_ones(store, job, n):
        return None
    display = display_for(progress, quiet=quiet)
    try:
        ending = run(
            config, store, job, msgspec.structs.replace(flags, first=n), [] if display is None else [display]
        )
    finally:
        if display is not None:
            display.close()
    after = store.job(job.name) or job
    if ending.state not in _DONE or _interrupted(ending, store, after, n):
        return _stopped(store, after, ending.state, n, as_json=as_json)
    for line in _review(store, after, n):
        say(line)
    if yes or (ask and _agreed(after, n)):
        return None
    say(f"stopped after the first {_units(n)}: the same command continues with the other {after.total - n:,}")
    if as_json:
        print_json(job_report(store, after, after.state))
    return STOPPED_AFTER_FIRST


def _open_ones(store: Store, job: Job, n: int) -> list[int]:
    return [unit.index for unit in store.results(job.id, -1, n) if unit.status not in GOOD]


def _interrupted(ending: RunResult, store: Store, job: Job, n: int) -> bool:
    """Whether the run was interrupted before the first units had ended."""
    first = store.first_unended(job.id)
    return ending.state == "interrupted" and first is not None and first < n


def _stopped(store: Store, job: Job, state: str, n: int, *, as_json: bool) -> int:
    say(f"the first {_units(n)} did not end: {state}; the same command continues")
    if as_json:
        print_json(job_report(store, job, job.state))
    return EXIT_CODES[state]


def _review(store: Store, job: Job, n: int) -> Sequence[str]:
    """What the first units did: their conversations, changes and costs."""
    lines: list[str] = []
    for unit in store.results(job.id, -1, n):
        report = unit_report(store, job, unit.index)
        lines += unit_lines(report, unit.status, kind_of(job).describe(job, report).where)
        if unit.cost_usd is not None:
            lines.append(f"  cost: ${unit.cost_usd:,.4f}")
    return lines


def _agreed(job: Job, n: int) -> bool:
    """Ask. Without a terminal the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    with interruptible():  # The handlers of the run before have no loop any more.
        return agreed(f"go on with the other {job.total - n:,} units?")


def _units(n: int) -> str:
    return "unit" if n == 1 else f"{n:,} units"
