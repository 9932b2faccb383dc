"""`headway lanes`: shows every lane, or asks running jobs to change limits or to try a lane again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.shared.click_options import json_option, limit_options, limits_by_name, where_options
from headway.display.terminal import echo

if TYPE_CHECKING:
    from headway.reports.lanes import LaneReport


@click.command(
    "lanes",
    short_help="Show the limits and the state of every lane.",
    epilog="Example: headway lanes --rpm alpha/gpt-x=600",
)
@limit_options("Ask running jobs to keep LANE to N {}. 0 is unlimited.".format, "LANE=N")
@click.option(
    "--reopen",
    multiple=True,
    metavar="LANE",
    help="Ask running jobs to try LANE again now; if none uses it, clear its recorded hold.",
)
@json_option
@where_options
def command(
    config: Path | None, db: str | None, as_json: bool, reopen: tuple[str, ...], **flags: Any
) -> None:
    """Show every lane that was ever used: its limits (configured, reported or learned) and what is available of them,
    its window and holds, and the limit that held it back.

    With a limit or --reopen, ask the running jobs for a change instead. LANE is a lane as shown here, or a provider.
    Limits of later runs are set in headway.toml.
    """
    from headway.cli.shared import printing, workspace
    from headway.display.lane_text import lane_lines
    from headway.reports.lanes import lane_reports

    settings = workspace.settings(config, db)
    limits = limits_by_name(flags)
    if limits or reopen:
        from headway.wiring.steering.lane_requests import send_requests

        workspace.open_read_only(settings).close()
        requests = send_requests(settings, limits, reopen)
        if as_json:
            printing.print_json(requests)
        else:
            for request in requests:
                echo(request)
        return
    with workspace.open_read_only(settings) as store:
        reports = lane_reports(store)
    if as_json:
        printing.print_json([_lane_json(report) for report in reports])
        return
    if not reports:
        echo("no lane has been used yet")
    for report in reports:
        for line in lane_lines(report, time.time()):
            echo(line)


def _lane_json(report: LaneReport) -> dict[str, Any]:
    """A lane as JSON; its wait is a sentence."""
    from headway.cli.shared import printing
    from headway.reason_text import wait_text

    fields = printing.flat(report)
    if report.seen is not None:
        wait = report.seen.wait
        words = None if wait is None else {"reason": wait_text(wait), "until": wait.until}
        fields["seen"] = printing.flat(report.seen, {"wait": words})
    return fields
