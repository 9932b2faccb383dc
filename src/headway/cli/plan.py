"""`headway plan FILE`: predicts requests, tokens, cost, time and the binding limit, and sends nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import (
    flow_options,
    json_option,
    limit_options,
    limits_by_name,
    order_option,
    quiet_option,
    recipe_options,
    where_options,
)
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.config import Config
    from headway.jobs.base import IngestOptions, JobSource
    from headway.wiring.flows.flow_forecasts import FlowAhead
    from headway.wiring.job_forecast import JobForecast
    from headway.wiring.lane_records import WhatIf

#: The width if the output is not a terminal: wide enough for a row on one line.
PIPE_WIDTH: Final = 160


@click.command(
    "plan",
    short_help="Predict time, tokens and cost; send nothing.",
    epilog="Example: headway plan requests.jsonl --rpm alpha=6000",
)
@click.argument("files", type=click.Path(allow_dash=True), nargs=-1, required=True, metavar="FILE...")
@recipe_options
@flow_options
@limit_options("Plan as if provider NAME allowed N {}. 0 is unlimited.".format, "NAME=N")
@click.option("--concurrency", type=int, metavar="N", help="At most N requests in flight over all lanes.")
@order_option
@click.option("--serial", is_flag=True, help="One request at a time, in input order.")
@click.option(
    "--delay",
    metavar="TIME",
    default="0",
    help="Send one request at a time, and wait this long between them.",
)
@click.option("--max-cost", type=float, metavar="USD", help="Say whether the job would stay below this.")
@click.option("--fresh", is_flag=True, help="Plan the whole file, even if part of it is done.")
@click.option("--skip-bad-rows", is_flag=True, help="Leave out bad rows instead of rejecting the file.")
@json_option
@quiet_option
@where_options
def command(
    files: tuple[str, ...], as_json: bool, quiet: bool, config: Path | None, db: str | None, **flags: Any
) -> int:
    """Predict what FILE (or several files, as in 'headway run') would take if it were run now: requests, tokens, cost and time of each lane, and the limit that
    determines the time. The real scheduler runs in virtual time over the rows, with the limits that are configured or
    learned and with the answer lengths of earlier jobs. `headway run FILE --limit 100` is enough to learn them. Ranges
    show the uncertainty; assumptions are listed.

    For a flow: units, tokens, cost and time of each node, and the critical path. Lists whose length only the run shows are taken
    to be as long as in the last run of the flow, or 10 items. --concurrency is then nodes at a time.

    Nothing is sent, and no key is needed. If the job was started before, only the rest is planned. The summary of the
    run and `headway status` compare the plan with the result.
    """
    from headway.cli.run import FLOW, counter, kind_of_input, must_be_a_flow
    from headway.cli.shared import printing, workspace
    from headway.jobs.base import IngestOptions

    kind = kind_of_input(files)
    must_be_a_flow(kind, files[0], flags)
    named = {name: flags[name] for name in ("concurrency", "max_cost", "order", "provider", "model")}
    settings = workspace.settings_for(kind, config, db, **named)
    if kind.name != FLOW:  # A flow may have tools alone.
        workspace.require_provider(settings)
    workspace.require_routes(settings, flags["model"])
    what_if = limit_changes(settings, flags)
    warn = printing.say_unless(quiet)
    options = IngestOptions(flags["fresh"], flags["skip_bad_rows"], counter(quiet), warn)
    flags |= {"more_files": files[1:], "out": None, "warn": warn}
    stdin = sys.stdin.buffer if files == ("-",) else None
    with kind.open(files[0], stdin, flags) as source:
        settings = kind.with_named_providers(settings, source)
        plan = _flow_plan if source.kind == FLOW else _row_plan
        plan(settings, source, options, what_if, flags, as_json=as_json)
    return 0


def _row_plan(
    settings: Config,
    source: JobSource,
    options: IngestOptions,
    what_if: WhatIf,
    flags: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """The plan of a file of rows."""
    from headway.cli.shared import printing
    from headway.wiring.predictions import save_prediction

    ahead = _ahead(settings, source, options, what_if, flags)
    if not what_if and (prediction := ahead.prediction) is not None:
        save_prediction(settings, source.digest, prediction)
    if as_json:
        printing.print_json({"file": source.name, **plan_json(ahead)})
    else:
        print_plan(heading(source.name, ahead), ahead)


def _flow_plan(
    settings: Config,
    source: JobSource,
    options: IngestOptions,
    what_if: WhatIf,
    flags: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """The plan of a flow."""
    from headway.cli.flows.plan import flow_plan_json, print_flow_plan
    from headway.cli.shared import printing
    from headway.wiring.predictions import save_prediction

    ahead = flow_ahead(settings, source, options, what_if, flags["concurrency"], need_keys=False)
    if not what_if:
        save_prediction(settings, source.digest, ahead.prediction)
    if as_json:
        printing.print_json({"file": source.name, **flow_plan_json(ahead)})
    else:
        print_flow_plan(source.name, ahead, PIPE_WIDTH)


def flow_ahead(
    config: Config,
    source: JobSource,
    options: IngestOptions,
    what_if: WhatIf,
    concurrency: int | None,
    *,
    need_keys: bool,
) -> FlowAhead:
    """The forecast of a flow from the present records."""
    from headway.flows.running.intake.flow_source import FlowSource
    from headway.forecast.figures import RunOptions
    from headway.wiring.flows.flow_forecasts import plan_flow
    from headway.wiring.store_access import open_store_or_empty

    assert isinstance(source, FlowSource)
    with open_store_or_empty(config) as store:
        return plan_flow(
            config, store, source, RunOptions(), os.environ, ingest=options, what_if=what_if, concurrency=concurrency,
            need_keys=need_keys,
        )  # fmt: skip


def _ahead(
    config: Config,
    source: JobSource,
    options: IngestOptions,
    what_if: WhatIf,
    flags: dict[str, Any],
) -> JobForecast:
    """The forecast from the present records."""
    from headway.cli.shared.run_job import delay_of
    from headway.forecast.figures import RunOptions
    from headway.wiring.job_forecast import forecast_job
    from headway.wiring.store_access import open_store_or_empty

    delay_s = delay_of(flags["delay"])
    way = RunOptions(config.run.concurrency, flags["serial"] or delay_s > 0.0, delay_s)
    with open_store_or_empty(config) as store:
        return forecast_job(
            config, store, source, way, os.environ, options=options, what_if=what_if, need_keys=False
        )


def limit_changes(config: Config, flags: dict[str, Any]) -> dict[str, dict[str, float]]:
    """provider → limit → value, out of NAME=VALUE; or VALUE, if there is only one provider."""

    def check(flag: str, name: str) -> None:
        if name not in config.providers:
            known = ", ".join(config.providers)
            raise UsageError(f"{flag}: there is no provider '{name}'", hint=f"providers: {known}")

    only = next(iter(config.providers)) if len(config.providers) == 1 else ""
    return limits_by_name(flags, check, only)


def heading(name: str, ahead: JobForecast, word: str = "row") -> str:
    """The first line of a plan: the file and its rows. `word`: what a row of the input is called."""
    from headway.display.formatting import count

    bad = ahead.survey.bad_rows
    left_out = f", {count(bad, 'bad row')} left out" if bad else ""
    return f"{name}: {count(ahead.survey.rows, word)}{left_out}"


def print_plan(first: str, ahead: JobForecast, *, err: bool = False) -> None:
    """Print the first line, the table and the notes."""
    from rich.console import Console

    from headway.display.forecasts.forecast_table import TABLE, narrow_lines, notes, table
    from headway.safe_text import one_line

    stream = sys.stderr if err else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False)
    console.print(one_line(first), markup=False)
    if ahead.job is not None:
        job = ahead.job
        rest = "the rest would be sent" if job.good < job.total else "--fresh plans it as a new job"
        console.print(
            f"  job {job.name} has {job.good:,} of {job.total:,} answers already; {rest}", markup=False
        )
    if ahead.forecast.requests:
        if console.width >= TABLE:
            console.print(table(ahead.forecast, console.width))
        else:
            for line in narrow_lines(ahead.forecast):
                console.print(one_line(line), markup=False, soft_wrap=True)
        for note in notes(ahead.forecast):
            console.print(f"- {one_line(note)}", markup=False, soft_wrap=not stream.isatty())


def plan_json(ahead: JobForecast) -> dict[str, Any]:
    """The plan as JSON."""
    import msgspec

    from headway.display.forecasts.forecast_table import notes

    fields = msgspec.to_builtins(ahead.forecast)
    lanes = {lane.pop("name"): lane for lane in fields.pop("lanes")}
    for one in (fields, *lanes.values()):
        if not one.pop("time_known"):
            one["time_s"] = None
        if one.pop("program", False):
            one["input_tokens"] = one["output_tokens"] = None
    return {
        "rows": ahead.survey.rows,
        "bad_rows": ahead.survey.bad_rows,
        "job": None if ahead.job is None else ahead.job.name,
        "succeeded": 0 if ahead.job is None else ahead.job.good,
        **fields,
        "lanes": lanes,
        "notes": notes(ahead.forecast),
    }
