"""`headway logs`: what happened in a job, one line each, in time order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli.shared.click_options import json_option, where_options

if TYPE_CHECKING:
    from headway.reports.history import Happening
    from headway.stores.records import Job

#: Seconds between two looks of `--follow`.
LOOK_S: Final = 0.5
#: Units that meet the same share a line: at most so far apart, and for so long in all. A line that lasts says how long.
GAP_S: Final = 0.5
FOLD_S: Final = 10.0
#: In a flow with at most so many nodes, each event of a node has its line.
FEW_NODES: Final = 50


@click.command("logs", short_help="Show what happened in a job.", epilog="Example: headway logs --follow")
@click.argument("job", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on until the job ends; Ctrl-C ends only this command.")
@click.option("--unit", metavar="UNIT", help="Show only this unit: an id of the input, or an index.")
@json_option
@where_options
def command(
    job: str | None, follow: bool, unit: str | None, as_json: bool, config: Path | None, db: str | None
) -> int:
    """Show what happened in JOB (default: the latest), with times in UTC: runs, holds and other events of lanes, starts of units,
    refusals, retries, failures, ends. Units that meet the same shortly after each other share a line.

    With --json, each event is an object in a line of its own.
    """
    from headway.cli import INTERRUPTED
    from headway.cli.shared import workspace
    from headway.reports.history import History
    from headway.reports.units import find_unit

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json)
        index = None if unit is None else find_unit(store, chosen, unit)
        history = History(store, chosen, index)
        fold_s = FOLD_S if index is None else -1.0
        few_nodes = chosen.kind == "flow" and _nodes_of(chosen) <= FEW_NODES
        try:
            while True:
                live = follow and workspace.is_live(settings, chosen)
                _show(history.news(), as_json=as_json, fold_s=fold_s, few_nodes=few_nodes)
                if not live:
                    return 0
                store.wait_for_change(chosen.id, LOOK_S)
        except KeyboardInterrupt:
            return INTERRUPTED


def _nodes_of(job: Job) -> int:
    from headway.flows.running.flow_form import form_of, nodes_of

    return sum(1 for _ in nodes_of(form_of(job).spec))


def _show(news: list[Happening], *, as_json: bool, fold_s: float, few_nodes: bool) -> None:
    from headway.display.history_text import history_line
    from headway.display.terminal import echo, echo_json
    from headway.reports.history import folded

    if as_json:
        for one in news:
            echo_json(one)
    else:
        for line in folded(news, fold_s, GAP_S, few_nodes=few_nodes):
            echo(history_line(line))
    sys.stdout.flush()
