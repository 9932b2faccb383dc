"""`headway show JOB UNIT`: everything about one unit; its conversation, also while it runs; the lines of its agent CLI."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from headway.cli import Invocation
from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo, echo_json, echo_text, write_bytes

if TYPE_CHECKING:
    from headway.config import Config
    from headway.stores.records import Job, State, TranscriptLine
    from headway.stores.store import Store

#: Seconds between two looks of `--follow`. Lines of agents are on record within 0.2 s.
LOOK_S: Final = 0.2


@click.command(
    "show",
    short_help="Show everything about one unit.",
    epilog="Example: headway show requests-3fa2c1 row-17 --follow",
)
@click.argument("job")
@click.argument("unit", default="", metavar="UNIT")
@click.option(
    "--follow", "-f", is_flag=True, help="Show the conversation as it goes on, until the unit ends."
)
@click.option("--raw", is_flag=True, help="Print the lines of the agent's CLI as it printed them.")
@json_option
@where_options
def command(
    job: str, unit: str, follow: bool, raw: bool, config: Path | None, db: str | None, as_json: bool
) -> int:
    """Show the request, the answer and every attempt of UNIT (an id of the input, or an index) of JOB. UNIT can be a node of a flow:
    then its outcome and its units are shown. In conversations, a tool call
    is one line: its name, its shortened arguments, and the first line of its result; with -v, calls and results are shown in full.

    With --follow, the conversation is shown while it goes on, until the unit ends; Ctrl-C ends only this command. --raw prints the
    lines of an agent CLI byte for byte (a terminal gets control characters escaped). With --follow and --json, each line is an
    object with its messages.
    """
    from headway.cli.shared import workspace
    from headway.errors import UsageError
    from headway.reports import transcripts
    from headway.reports.units import find_unit
    from headway.stores.row_conversion import uid

    if raw and as_json:
        raise UsageError("--raw and --json do not go together", hint="leave one of them out")
    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json or raw)
        if not unit:
            raise UsageError(
                f"name a unit of job {chosen.name}: headway show {chosen.name} UNIT", hint=_which(chosen)
            )
        if not raw and not follow and _is_node(store, chosen, unit):
            _show_node(store, chosen, workspace.state_of(settings, chosen), unit, as_json=as_json)
            return 0
        index = find_unit(store, chosen, unit)
        if raw:
            code = _lines(settings, store, chosen, index, _print_raw, follow=follow)
            if not transcripts.lines(store, uid(chosen.id, index), limit=1):
                raise UsageError(
                    f"unit '{unit}' has no lines of an agent CLI",
                    hint=f"'headway show {chosen.name} {unit}' shows what is recorded",
                )
            return code
        if follow:
            show = _print_json if as_json else _printer()
            code = _lines(settings, store, chosen, index, show, follow=True)
            if not as_json:
                echo(_end(store, chosen, index))
            return code
        _report(store, chosen, index, as_json=as_json)
    return 0


def _which(job: Job) -> str:
    """What a unit is called in this job."""
    if job.kind == "flow":
        return f"UNIT can be a node: 'headway status {job.name}' lists them"
    return f"an id of the input, or an index below {job.total}"


def _is_node(store: Store, job: Job, name: str) -> bool:
    """Whether a name is that of a node of a flow and not of one unit: a node with one unit is that unit."""
    if job.kind != "flow" or store.index_of(job.id, name) is not None:
        return False
    from headway.reports.flows.node_details import has_node

    return has_node(job, name)


def _show_node(store: Store, job: Job, state: State, name: str, *, as_json: bool) -> None:
    from headway.cli.shared import printing
    from headway.display.flows.node_report_text import MOST_UNITS, node_lines
    from headway.reports.flows.node_details import node_report

    report = node_report(store, job, state, name, -1 if as_json else MOST_UNITS)
    if as_json:
        printing.print_json(printing.flat({"job": job.name}, report))
        return
    for line in node_lines(report, job.name):
        echo(line)


def _unfold() -> bool:
    """Whether -v was given: it unfolds tool calls."""
    invocation = click.get_current_context().find_object(Invocation)
    return invocation is not None and invocation.verbose


def _report(store: Store, job: Job, index: int, *, as_json: bool) -> None:
    from headway.cli.shared import printing
    from headway.display.unit_text import unit_lines
    from headway.jobs.kinds import kind_of
    from headway.reports.units import unit_report

    report = unit_report(store, job, index)
    text = kind_of(job).describe(job, report)
    if as_json:
        printing.print_json(printing.flat(report, dict(text.fields)))
        return
    status = msgspec.json.decode(report.result)["headway"]["status"]
    lines = unit_lines(report, status, text.where, unfold=_unfold())
    for line in (*lines, *(f"  {remark}" for remark in text.remarks)):
        echo(line)
    for section in text.sections:
        echo(f"{section.title}:")
        if isinstance(section.body, bytes):
            echo_json(section.body, indent=True)
        else:
            echo_text(section.body)


def _lines(
    config: Config,
    store: Store,
    job: Job,
    index: int,
    show: Callable[[TranscriptLine], None],
    *,
    follow: bool,
) -> int:
    """Show the recorded lines of a unit; with `follow`, until it ends. Returns the exit code."""
    from headway.cli import INTERRUPTED
    from headway.cli.shared import workspace
    from headway.core.unit_states import ENDED
    from headway.reports import transcripts
    from headway.stores.row_conversion import uid

    last = 0
    try:
        while True:
            over = (
                not follow
                or store.states(job.id, [index])[index] in ENDED
                or not workspace.is_live(config, job)
            )
            for line in transcripts.lines(store, uid(job.id, index), last):
                last = line.id
                show(line)
            sys.stdout.flush()
            if over:
                return 0
            store.wait_for_change(job.id, LOOK_S)
    except KeyboardInterrupt:
        return INTERRUPTED


def _print_raw(line: TranscriptLine) -> None:
    if line.line:
        write_bytes(line.line + b"\n")


def _print_json(line: TranscriptLine) -> None:
    echo_json({"at_utc": line.at_utc, "attempt": line.attempt, "messages": line.messages})


def _printer() -> Callable[[TranscriptLine], None]:
    """Returns a function that prints the messages of a line, below the name of its attempt."""
    from headway.display.agents.conversation_text import message_lines

    unfold, attempt = _unfold(), 0

    def show(line: TranscriptLine) -> None:
        nonlocal attempt
        if line.attempt != attempt:
            attempt = line.attempt
            echo(f"attempt {attempt}:")
        for message in line.messages:
            for text in message_lines(message, unfold=unfold):
                echo(f"  {text}")

    return show


def _end(store: Store, job: Job, index: int) -> str:
    """The last line of a conversation that was followed."""
    unit = store.results(job.id, index - 1, 1)[0]
    why = f": {unit.message}" if unit.message else ""
    return f"{unit.custom_id}: {unit.status}{why}"
