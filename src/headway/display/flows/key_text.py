"""The lines of `headway cache why`."""

from __future__ import annotations

from headway.flows.running.reuse.key_report import KeyReport
from headway.safe_text import one_line


def key_lines(report: KeyReport) -> list[str]:
    """Why a unit was called, or was not."""
    lines = [_head(report)]
    if report.why:
        lines.append(f"  {report.why}")
    for one in report.changed:
        lines.append(f"  {one.text}")
        lines += [f"    {one_line(line)}" for line in one.details]
    if report.units > 1:
        lines.append(_others(report))
    return lines


def _head(report: KeyReport) -> str:
    did = {"kept": "was not called", "called": "was called", "waiting": "waits to be called"}[report.outcome]
    beside = f"; beside job {report.compared}:" if report.compared and report.changed else ""
    return f"{report.unit} of job {report.job} {did}{beside}"


def _others(report: KeyReport) -> str:
    called = report.units - report.kept_units
    return (
        f"  {report.node} has {report.units:,} units: {called:,} were called, {report.kept_units:,} kept their answers "
        f"(headway cache why {report.job} UNIT)"
    )
