"""Flags that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headway.cli import verbose_option
from headway.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but errors.")

insecure_http_option = click.option(
    "--insecure-http", is_flag=True, help="Let keys go to other machines over plain http, too."
)

_WHERE = (
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Instead of the nearest headway.toml.",
    ),
    click.option("--db", metavar="FILE", help="Instead of the configured database."),
)


def _log_file(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Said before anything is read or made; nothing is made here either."""
    if path is not None and path.is_dir():
        raise UsageError(f"--log-file {path} is a directory", hint="name a file")
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"--log-file {path}: there is no directory {path.parent}", hint="make it first")
    return path


def output_name(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """The callback of every --out: a name that nothing can be written as is told before anything is read."""
    if path is not None:
        from headway.batch.file_types import must_be_an_output

        must_be_an_output(path)
    return path


safe_cells_option = click.option("--safe-cells", is_flag=True, help="In a .csv or .tsv, put an apostrophe before every cell that a spreadsheet would take for a formula.")  # fmt: skip


_RUN = (
    click.option("--out", type=click.Path(path_type=Path), callback=output_name, metavar="FILE", help="Where results go (default: FILE.results.jsonl): .jsonl, or a table as .csv, .tsv or .parquet."),
    click.option("--out-order", type=click.Choice(["input", "completion"]), default="input", show_default=True, help="In which order they are written."),
    click.option("--force", is_flag=True, help="Replace an output file that is not this job's."),
    safe_cells_option,
    click.option("--concurrency", type=int, metavar="N", help="At most so many requests at once over all lanes. Lanes find their own."),
    click.option("--max-attempts", type=int, metavar="N", help="Tries before a unit has failed."),
    click.option("--timeout", metavar="TIME", help="How long one attempt may take, as in 90s or 10m."),
    click.option("--max-duration", metavar="TIME", help="Stop after so long; 'headway resume' goes on."),
    click.option("--max-cost", type=float, metavar="USD", help="Stop before the job has cost more than this, earlier runs included. 0: no cap, also where one was set before."),
    click.option("--max-hold", metavar="TIME", help="Park instead of waiting longer than this for a lane (26h; unlimited: wait however long)."),
    click.option("--weight", type=float, metavar="N", help="Against other jobs on the same lanes: 3 gets three times the part of 1. From 0.01 to 100; default: 1."),
    click.option("--cache", "cache", flag_value="deterministic", help="Answer requests that were answered before, in any job, without a call: those with temperature 0 or a seed, and embeddings."),
    click.option("--cache-all", "cache", flag_value="all", help="The same for every request."),
    click.option("--no-cache", "cache", flag_value="off", help="Send everything, whatever headway.toml says."),
    click.option("--order", type=click.Choice(["auto", "input", "longest"]), help="Which unit of a lane starts next: the first, or the one expected to take longest. auto: the first, but the longest once the end is near."),
    click.option("--serial", is_flag=True, help="One request at a time, in input order."),
    click.option("--delay", metavar="TIME", default="0", help="Wait so long between requests, one at a time."),
    insecure_http_option,
    click.option("--progress", type=click.Choice(["auto", "rich", "plain", "json", "none"]), default="auto", help="How to show progress, on stderr."),
    click.option("--log-file", type=click.Path(path_type=Path), callback=_log_file, metavar="FILE", help="Append every event, and progress every 10 s, to FILE."),
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How its lines are written."),
)  # fmt: skip


def where_options(command: Command) -> Command:
    """--config and --db, and -v."""
    for option in (verbose_option, *reversed(_WHERE)):
        command = option(command)
    return command


def run_options(command: Command) -> Command:
    """What a command that runs a job takes."""
    for option in (json_option, quiet_option, *reversed(_RUN)):
        command = option(command)
    return command


#: The flags that say what is asked: together with the input they are the job.
_RECIPE = (
    click.option("--prompt", metavar="TEXT", help="For a table: what to ask about each row; {{column}} is its cell. @FILE reads it from a file."),
    click.option("--system", metavar="TEXT", help="The system prompt, for a table with {{column}} too. @FILE reads it from a file."),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The longest answer, where a row sets none."),
    click.option("--model", metavar="NAME", help="The model, where a row names none."),
    click.option("--schema", type=click.Path(path_type=Path), metavar="FILE.json", help="A JSON Schema that every answer must fit: checked, and asked for once more where it does not."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows: a job of its own. Another N later, or none, takes over its answers."),
)  # fmt: skip


def recipe_options(command: Command) -> Command:
    """What a command that makes a job takes."""
    for option in reversed(_RECIPE):
        command = option(command)
    return command


#: flag → what it limits, as help calls it.
LIMITS: Final = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "input_tpm": "input tokens a minute",
    "output_tpm": "output tokens a minute",
    "max_concurrency": "requests at once",
}
MOST: Final = 1e12


def limit_options(help_of: Callable[[str], str], metavar: str) -> Callable[[Any], Any]:
    """A flag for each limit, as often as there are names; `help_of` makes a sentence of what it limits."""

    def decorate(command: Any) -> Any:
        for name, words in reversed(LIMITS.items()):
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, multiple=True, metavar=metavar, help=help_of(words))(command)
        return command

    return decorate


def limits_by_name(
    flags: dict[str, Any], check: Callable[[str, str], None] = lambda flag, name: None
) -> dict[str, dict[str, float]]:
    """name → limit → value, out of NAME=VALUE; `check` gets each flag and the name in it."""
    limits: dict[str, dict[str, float]] = {}
    for limit in LIMITS:
        for text in flags[limit]:
            flag = f"--{limit.replace('_', '-')} {text}"
            name, given, value = text.rpartition("=")
            if not given:
                raise UsageError(f"{flag}: NAME=N is meant", hint=f"for example alpha={text or 6000}")
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
        raise UsageError(f"{flag}: '{text}' is no limit", hint=f"{kind}; 0: any number")
    return value
