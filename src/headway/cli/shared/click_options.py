"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headway.cli import Invocation, verbose_option
from headway.display.terminal import add_to_commands
from headway.errors import UsageError
from headway.wiring.steering.limit_names import LIMITS

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")

insecure_http_option = click.option(
    "--insecure-http", is_flag=True, help="Allow keys to be sent to other machines over plain http."
)


def _note_place(ctx: click.Context, param: click.Parameter, value: Path | str | None) -> Path | str | None:
    """Commands that are printed get the same flag. A password in an address is left out."""
    invocation = ctx.find_object(Invocation)
    if value is not None and invocation is not None and isinstance(param, click.Option):
        from headway.config.database_address import public_address

        shown = public_address(value) if isinstance(value, str) and "://" in value else str(value)
        add_to_commands(invocation.note_flag(param.opts[0], shown))
    return value


_WHERE = (
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        callback=_note_place,
        help="Use this file instead of the nearest headway.toml.",
    ),
    click.option(
        "--db", metavar="FILE", callback=_note_place, help="Use this database instead of the configured one."
    ),
)


def _log_file(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Reject a log file that cannot be created, before anything is read. Creates nothing."""
    if path is not None and path.is_dir():
        raise UsageError(f"--log-file {path} is a directory", hint="name a file")
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"--log-file {path}: there is no directory {path.parent}", hint="create it first")
    return path


def _event_file(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Reject a file that cannot be created, before anything is read. Creates nothing."""
    if path is not None and path.is_dir():
        raise UsageError(f"--events {path} is a directory", hint="name a file")
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"--events {path}: there is no directory {path.parent}", hint="create it first")
    return path


def output_name(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """The callback of every --out: rejects a file type that cannot be written, before anything is read."""
    if path is not None:
        from headway.batch.file_types import must_be_an_output

        must_be_an_output(path, or_flow=True)
    return path


safe_cells_option = click.option("--safe-cells", is_flag=True, help="In a .csv or .tsv, put an apostrophe before every cell that a spreadsheet would read as a formula.")  # fmt: skip

order_option = click.option("--order", type=click.Choice(["auto", "input", "longest"]), help="Which unit of a lane starts next: the first in the input, or the one expected to take longest. auto: the first, but the longest once the end is near.")  # fmt: skip


progress_option = click.option("--progress", type=click.Choice(["auto", "rich", "plain", "json", "none"]), default="auto", help="How to show progress on stderr.")  # fmt: skip

_OUTPUT = (
    click.option("--out", type=click.Path(path_type=Path), callback=output_name, metavar="FILE", help="Write results to FILE: .jsonl, or a table (.csv, .tsv, .parquet); for a flow .json; - is standard output. Default: INPUT.results.jsonl; for a table, a table of the same kind; for a flow, FLOW.results.json."),
    click.option("--out-dir", type=click.Path(path_type=Path), metavar="DIR", help="Write each answer to a file of its own: DIR/ID.answer.md. For agents and programs, a folder for each unit: DIR/ID/ with answer, diff, transcript and files."),
    click.option("--text-only", is_flag=True, help='Write rows of {"id", "text"} instead of whole results.'),
    click.option("--out-order", type=click.Choice(["input", "completion"]), default="input", show_default=True, help="Order of the results."),
    click.option("--force", is_flag=True, help="Replace an existing file that is not this job's output."),
    safe_cells_option,
)  # fmt: skip

#: How fast a job is run, and what it may cost.
_CONCURRENCY = click.option("--concurrency", type=int, metavar="N", help="At most N requests in flight over all lanes. Default: no limit beyond the lanes' own. For a flow: N nodes at a time, instead of its runtime.concurrency; 0 leaves it to the lanes. It holds for later runs of the job.")  # fmt: skip

_PACE = (
    click.option("--max-attempts", type=int, metavar="N", help="Attempts before a unit counts as failed."),
    click.option("--timeout", metavar="TIME", help="Time limit of one attempt, such as 90s or 10m."),
    click.option("--max-duration", metavar="TIME", help="Stop after this time; continue with 'headway resume'."),
    click.option("--max-wait", metavar="TIME", help="End a unit that has waited in the queue for this long without a start; continue with 'headway resume'."),
    click.option("--max-cost", type=float, metavar="USD", help="Stop before the job costs more than this, earlier runs included. 0 removes the cap, even one of an earlier run."),
    click.option("--max-hold", metavar="TIME", help="Park the job if a lane is held for longer than this. Default: 26h; 'unlimited' always waits."),
    click.option("--weight", type=float, metavar="N", help="Share of lanes that other jobs use too: a job of weight 3 gets three times as much as one of weight 1. From 0.01 to 100; default: 1."),
    click.option("--cache", "cache", flag_value="deterministic", help="Reuse answers to identical requests of any job: requests with temperature 0 or a seed, and embeddings."),
    click.option("--cache-all", "cache", flag_value="all", help="Reuse answers to identical requests, whatever their temperature."),
    click.option("--no-cache", "cache", flag_value="off", help="Reuse no answers, even if headway.toml sets a cache."),
    order_option,
    click.option("--serial", is_flag=True, help="One request at a time, in input order."),
    click.option("--delay", metavar="TIME", default="0", help="Send one request at a time, and wait this long between them."),
)  # fmt: skip

_AGENT_WORK = (
    click.option("--worktree", is_flag=True, help="For agents and programs: give each unit a git worktree and a branch of its own, and keep its diff with the result."),
    click.option("--shared-directory", is_flag=True, help="Let agents that may write work side by side in one directory. Default: one at a time."),
    click.option("--collect", multiple=True, metavar="PATTERN", help="For agents and programs, with --out-dir: keep the files of a unit's directory that match, such as 'out/**'. Repeatable."),
)  # fmt: skip

#: What a run shows, and where.
_SHOWN = (
    insecure_http_option,
    progress_option,
    click.option("--detach", is_flag=True, help="Run in the background: this command returns when the run has begun. 'headway attach' shows it."),
    click.option("--log-file", type=click.Path(path_type=Path), callback=_log_file, metavar="FILE", help="Append events, and progress every 10 s, to FILE."),
)  # fmt: skip

#: What watches a run from outside.
_WATCHED = (
    click.option("--metrics", metavar="[HOST:]PORT", help="Serve metrics for Prometheus at http://127.0.0.1:PORT/metrics while the job runs. Another host must be written out; port 0 is any free one."),
    click.option("--notify", multiple=True, metavar="URL|COMMAND", help="Send JSON to a web address, or run a command with it on standard input: at the end, on a long hold, when a lane stops, and at 80 % of the budget. $NAME is a variable that has either. Repeatable."),
    click.option("--notify-hold", metavar="TIME", help="With --notify: how long a hold must last. Default: 5m."),
    click.option("--otel/--no-otel", default=None, help="Send traces and metrics to an OpenTelemetry collector (OTEL_EXPORTER_OTLP_ENDPOINT)."),
)  # fmt: skip

_EVENTS = (
    click.option("--events", type=click.Path(path_type=Path), callback=_event_file, metavar="FILE", help="For a flow: append its events (nodes, state, units) to FILE, one JSON object a line; each event once, also over several runs."),
)  # fmt: skip

_LOG_FORMAT = (
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format of the log file, also of that of --detach."),
    click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True, help="The least important lines of the log file: debug has every attempt, info what happens to the job and its lanes, warning what went wrong."),
)  # fmt: skip

_RUN = (*_OUTPUT, _CONCURRENCY, *_PACE, *_AGENT_WORK, *_SHOWN, *_WATCHED, *_EVENTS, *_LOG_FORMAT)


def where_options(command: Command) -> Command:
    """Add --config, --db and -v."""
    for option in (verbose_option, *reversed(_WHERE)):
        command = option(command)
    return command


def run_options(command: Command) -> Command:
    """Add the flags of every command that runs a job."""
    for option in (json_option, quiet_option, *reversed(_RUN)):
        command = option(command)
    return command


def pace_options(command: Command) -> Command:
    """Add the flags of commands that run a job with outputs of its own kind."""
    return _CONCURRENCY(_with_pace(command, _PACE))


def own_pace_options(command: Command) -> Command:
    """The same for a command with a --concurrency of its own, and an order."""
    return _with_pace(command, (option for option in _PACE if option is not order_option))


def _with_pace(command: Command, pace: Iterable[Any]) -> Command:
    for option in (json_option, quiet_option, *reversed((*pace, *_SHOWN, *_WATCHED, *_LOG_FORMAT))):
        command = option(command)
    return command


#: The flags that set the requests. Together with the input they identify the job.
_RECIPE = (
    click.option("--prompt", metavar="TEXT", help="For a table: the question about each row; {{column}} is replaced by the row's cell. For files: {{text}}, {{path}} and {{name}}. @FILE reads it from a file."),
    click.option("--system", metavar="TEXT", help="The system prompt; for a table, {{column}} works here too. @FILE reads it from a file."),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="max_tokens of rows that set none."),
    click.option("--model", multiple=True, metavar="NAME", help="Model of rows that name none. Several: every row goes to each of them, side by side."),
    click.option("--provider", metavar="NAME", help="Provider of rows that name none: a table of headway.toml, or an agent CLI (claude, codex, gemini-cli, opencode), which needs no table."),
    click.option("--attach", multiple=True, metavar="TEXT", help="Attach a file or address to each request: an image (PNG, JPEG, GIF, WebP) or a PDF. {{column}} is replaced by the row's cell, relative paths start at FILE's folder. Repeatable."),
    click.option("--schema", type=click.Path(path_type=Path), metavar="FILE.json", help="JSON Schema of the answers: each is checked, and requested once more if it does not fit."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Run only the first N rows, as a job of its own. A later run with another N, or without --limit, reuses its answers."),
)  # fmt: skip


_FLOW = (
    click.option("--arg", multiple=True, metavar="KEY=VALUE", help="For a flow: the value of a field of its state. Text, or JSON. Wins over --state."),
    click.option("--state", type=click.Path(path_type=Path), metavar="FILE.json", help="For a flow: the values of fields of its state, as a JSON object."),
)  # fmt: skip


def flow_options(command: Command) -> Command:
    """Add the flags that give a flow its inputs."""
    for option in reversed(_FLOW):
        command = option(command)
    return command


def recipe_options(command: Command) -> Command:
    """Add the flags of every command that creates a job."""
    for option in reversed(_RECIPE):
        command = option(command)
    return command


#: The flags of a job that is run in stages: its first units, all others, one over all results.
_STAGES = (
    click.option("--first", type=click.IntRange(min=1), metavar="N", help="Run the first N units and show what they did. With --confirm, ask before the others run; otherwise stop. The same command then continues."),
    click.option("-y", "--yes", is_flag=True, help="With --first: go on without asking."),
    click.option("--then", metavar="TEXT", help="Run one more unit when all others have succeeded: {{results}} is replaced by their results. @FILE reads it from a file."),
    click.option("--allow-failures", is_flag=True, help="With --then: run it over the results of the units that succeeded, even if others failed."),
)  # fmt: skip


def stage_options(command: Command) -> Command:
    """Add the flags of a job that is run in stages."""
    for option in reversed(_STAGES):
        command = option(command)
    return command


#: The highest limit that is accepted.
MOST: Final = 1e12


def limit_options(help_of: Callable[[str], str], metavar: str) -> Callable[[Any], Any]:
    """Add a repeatable flag for each limit. `help_of` makes its help text from what it limits."""

    def decorate(command: Any) -> Any:
        for name, words in reversed(LIMITS.items()):
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, multiple=True, metavar=metavar, help=help_of(words))(command)
        return command

    return decorate


def limits_by_name(
    flags: dict[str, Any], check: Callable[[str, str], None] = lambda flag, name: None, only: str = ""
) -> dict[str, dict[str, float]]:
    """name → limit → value, parsed from NAME=VALUE. `check` is called with each flag and its name.

    `only`: the name that a VALUE alone is for.
    """
    limits: dict[str, dict[str, float]] = {}
    for limit in LIMITS:
        for text in flags[limit]:
            flag = f"--{limit.replace('_', '-')} {text}"
            name, given, value = text.rpartition("=")
            if not given and only:
                name, given = only, "="
            if not given:
                raise UsageError(
                    f"{flag}: expected NAME=N", hint=f"for example alpha={text if text.isdecimal() else 6000}"
                )
            check(flag, name)
            limits.setdefault(name, {})[limit] = _number(flag, value, whole=limit == "max_concurrency")
    return limits


def _number(flag: str, text: str, *, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= MOST:
        kind = "a whole number, for example 8" if whole else "a number, for example 6000"
        raise UsageError(f"{flag}: '{text}' is not a limit", hint=f"use {kind}; 0 is unlimited")
    return value
