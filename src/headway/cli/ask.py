"""`headway ask PROMPT`: one question, answered on standard output."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import (
    insecure_http_option,
    json_option,
    quiet_option,
    where_options,
)
from headway.errors import HeadwayError, UsageError

if TYPE_CHECKING:
    from headway.config import Config
    from headway.display.answer_screen import AnswerScreen
    from headway.questions.question import Question
    from headway.reports.answers import AnswerReport
    from headway.stores.records import Job
    from headway.stores.store import Store

#: How long a pipe may be silent before a line says that it is being read.
SILENT_S: Final = 2.0

_OPTIONS = (
    click.option("-m", "--model", "models", multiple=True, metavar="NAME", help="The model, or PROVIDER/MODEL. Several: all answer, each under its own heading. Default: the provider's own."),
    click.option("-f", "--file", "files", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Add FILE to the question (repeatable): a text with its name, or an image (PNG, JPEG, GIF, WebP) or PDF."),
    click.option("--system", metavar="TEXT", help="The system prompt. @FILE reads it from a file."),
    click.option("--schema", type=click.Path(path_type=Path), metavar="FILE.json", help="JSON Schema of the answer: it is checked, and requested once more if it does not fit."),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The longest answer, in tokens."),
    click.option("--temperature", type=click.FloatRange(min=0), metavar="N", help="Temperature of the answer; 0 lets --cache reuse it. Default: the model's."),
    click.option("--stream/--no-stream", "stream", default=None, help="Print the answer as it arrives, or when it is complete. Default: as it arrives on a terminal, complete in a pipe or a file."),
    click.option("--raw", is_flag=True, help="Print the provider's response as it came (JSON), not its text."),
    click.option("--cache", "cache", flag_value="deterministic", help="Reuse an answer to the same request, if it has temperature 0 or a seed."),
    click.option("--cache-all", "cache", flag_value="all", help="Reuse an answer to the same request, whatever its temperature."),
    click.option("--no-cache", "cache", flag_value="off", help="Reuse no answer, even if headway.toml sets a cache."),
    click.option("--max-attempts", type=int, metavar="N", help="Attempts before the question counts as failed."),
    click.option("--timeout", metavar="TIME", help="Time limit of one attempt, such as 90s or 10m."),
    click.option("--max-cost", type=float, metavar="USD", help="Send nothing that may cost more than this."),
    click.option("--max-hold", metavar="TIME", help="Give up if a lane is held for longer than this. Default: 26h."),
    insecure_http_option,
    json_option,
    quiet_option,
)  # fmt: skip


def _ask_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(
    "ask",
    short_help="Ask one question; the answer is streamed.",
    epilog="Example: headway ask 'Summarise in three sentences' -m gpt-x < report.md",
)
@click.argument("prompt", required=False)
@_ask_options
@where_options
def command(prompt: str | None, config: Path | None, db: str | None, as_json: bool, **flags: Any) -> int:
    """Ask PROMPT and print the answer. @FILE reads the prompt from a file. Text on standard input and the files of -f
    are added to it. With several -m, all models answer.

    It uses the providers, keys, limits, cache and records of every job: 'headway show JOB 0' shows the request, the
    attempts and the answer. It waits for rate limits, and tries again what failed.
    """
    from headway.cli.shared import printing, workspace
    from headway.wiring.question_run import recorded, run_question
    from headway.wiring.run_execution import EXIT_CODES

    if as_json and flags["raw"]:
        raise UsageError("--json and --raw do not go together", hint="--raw is the provider's own JSON")
    question = _question(prompt, **flags)
    settings = workspace.settings(config, db, **flags)
    workspace.require_provider(settings)
    if not flags["quiet"]:
        workspace.print_config_notes(settings)
    with recorded(settings, question, printing.say_unless(flags["quiet"])) as (store, job):
        screen = _screen(store, job, silent=as_json or flags["raw"], **flags)
        try:
            ending = run_question(settings, store, job, screen)
        finally:
            screen.close()
        if screen.write_error is not None:
            raise _unwritten(screen.write_error, job)
        reports = screen.reports()
        if as_json or flags["raw"]:
            _print_data(store, job, reports, raw=flags["raw"])
        _print_ends(settings, store, job, reports, quiet=flags["quiet"] or as_json)
    return EXIT_CODES[ending.state]


def _unwritten(error: OSError, job: Job) -> HeadwayError:
    why = (error.strerror or str(error)).lower()
    return HeadwayError(
        f"the output cannot be written: {why}",
        hint=f"an answer that had arrived is recorded: 'headway show {job.name} 0'",
    )


def _question(prompt: str | None, **flags: Any) -> Question:
    from headway.batch.request_options import RequestOptions, schema_of, text_or_file
    from headway.questions.question import Question, is_attachment, question_text

    options = RequestOptions(
        system=text_or_file("--system", flags["system"]),
        max_tokens=flags["max_tokens"],
        schema=schema_of(flags["schema"]),
    )
    attached = [file for file in flags["files"] if is_attachment(file)]
    texts = [file for file in flags["files"] if file not in attached]
    text = question_text(text_or_file("PROMPT", prompt), _piped(), texts)
    models = tuple(dict.fromkeys(flags["models"])) or (None,)
    files = tuple(str(file.absolute()) for file in attached)
    return Question(text, files, models, options, flags["temperature"])


def _piped() -> str | None:
    """The text on standard input, unless that is a terminal."""
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        return None
    try:
        ready, _, _ = select.select([stdin], [], [], SILENT_S)
        if not ready:
            from headway.cli.shared.printing import say

            say("reading standard input … (without any: headway ask … </dev/null)")
        return stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(
            "standard input is not valid UTF-8", hint="only a text can be piped in; -f adds images and PDFs"
        ) from None
    except (OSError, ValueError):
        return None  # It is closed, or cannot be read.


def _screen(
    store: Store, job: Job, *, silent: bool, stream: bool | None, quiet: bool, **_: Any
) -> AnswerScreen:
    """Prints the answers, and reads them from the store when they have ended."""
    from headway.display.answer_screen import AnswerScreen
    from headway.reports.answers import answer_report

    def read(index: int, first_text_s: float | None) -> AnswerReport:
        row = store.results(job.id, index - 1, 1)[0]
        return answer_report(store, store.job(job.name) or job, row, first_text_s)

    names = [f"{row.provider}/{row.model}" for row in store.results(job.id, -1, job.total)]
    live = not silent and (sys.stdout.isatty() if stream is None else stream)
    return AnswerScreen(names, sys.stdout, sys.stderr, read, live=live, quiet=quiet, silent=silent)


def _print_data(store: Store, job: Job, reports: list[AnswerReport], *, raw: bool) -> None:
    from headway.display.terminal import echo_json, write_json

    for index, report in enumerate(reports):
        if not raw:
            echo_json(report)
        elif report.error is None:
            write_json(store.answer(job.id, index) or b"null", sys.stdout)


def _print_ends(
    settings: Config, store: Store, job: Job, reports: list[AnswerReport], *, quiet: bool
) -> None:
    """What each answer took, and why there is none."""
    from headway.cli.shared.printing import say
    from headway.display.answer_screen import usage_line
    from headway.display.formatting import short
    from headway.display.stop_advice import stop_lines
    from headway.reason_text import RESUME_HINT
    from headway.reports.status import stops_left

    holds = {
        event.lane: event.until_utc
        for event in store.events(job.id)
        if event.what == "stopped" and event.lane is not None and event.until_utc is not None
    }
    stops = stop_lines(stops_left(store, store.job(job.name) or job), settings, os.environ, holds)
    for line in stops:
        say(f"headway: {line}")
    for report in reports:
        if report.error is None:
            if not quiet and (line := usage_line(report)):
                say(line)
        elif not any(line.startswith(f"{report.model} stopped") for line in stops):
            message = report.error.message.removesuffix(RESUME_HINT)
            say(f"headway: {report.model}: {report.error.code}: {short(message)}")
