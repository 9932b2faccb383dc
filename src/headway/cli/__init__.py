"""The `headway` command. Each command is a file, which is loaded only when the command is used.

This file owns the table of commands, the flags of the group, and how errors are shown: one line on stderr, with the exit
code of the error's type. It must never import a command, nor what a command needs: `headway --help` answers within
150 ms because it loads nothing but click.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

import headway
from headway.cli.shared.interrupts import interruptible, terminal_gone
from headway.display.terminal import add_to_commands, echo, echo_text
from headway.errors import HeadwayError, InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130  # What shells report for a process that SIGINT ended: 128 + 2.

# Name → (its click command, its line in `headway --help`).
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("headway.cli.run:command", "Run a batch or a flow; the same file again resumes it."),
    "eval": ("headway.cli.evals.command:command", "Compare prompts and providers on tests."),
    "review": (
        "headway.cli.reviews.command:command",
        "Review the files of a tree; one unit a file and axis.",
    ),
    "ask": ("headway.cli.ask:command", "Ask one question; the answer is streamed."),
    "plan": (
        "headway.cli.plan:command",
        "Predict time, tokens and cost; send nothing.",
    ),
    "init": ("headway.cli.init:command", "Write a commented headway.toml from the keys that are set."),
    "resume": ("headway.cli.resume:resume", "Resume a job that stopped or is paused."),
    "pause": ("headway.cli.control:pause", "Start no more units until 'headway resume'."),
    "retry": ("headway.cli.resume:retry", "Run failed or chosen units of a job again."),
    "cancel": ("headway.cli.control:cancel", "Stop a job, or some of its units, at once."),
    "submit": (
        "headway.cli.serving.submit:command",
        "Hand a batch or a flow to an engine ('headway serve').",
    ),
    "serve": ("headway.cli.serving.serve:command", "Run jobs of the database as they are submitted."),
    "budget": ("headway.cli.budget:command", "Change what a job may cost."),
    "jobs": ("headway.cli.inspect:jobs", "List the jobs."),
    "status": ("headway.cli.inspect:status", "Show the state of a job, lane by lane."),
    "top": ("headway.cli.watching.top:command", "Watch all running jobs, lane by lane."),
    "attach": ("headway.cli.watching.attach:command", "Show the live view of a running job."),
    "ui": ("headway.cli.watching.ui:command", "Show and steer jobs on a web page."),
    "logs": ("headway.cli.watching.logs:command", "Show what happened in a job."),
    "show": ("headway.cli.watching.show:command", "Show everything about one unit."),
    "export": ("headway.cli.export:command", "Write a job's results from the store."),
    "report": ("headway.cli.report:command", "Write a job as one HTML file."),
    "diff": ("headway.cli.diff:command", "Show what changed between two jobs on the same rows."),
    "approve": ("headway.cli.flows.approve:command", "Answer a flow's human step."),
    "validate": ("headway.cli.flows.validate:command", "Check a flow file; report every error at once."),
    "graph": ("headway.cli.flows.graph:command", "Draw a flow as text, Mermaid or HTML."),
    "worktrees": (
        "headway.cli.agents.worktrees:command",
        "List, show and remove agents' working copies.",
    ),
    "lanes": ("headway.cli.lanes:command", "Show the limits and the state of every lane."),
    "cache": ("headway.cli.cache:command", "Show or clear the cache of answers."),
    "simulate": (
        "headway.cli.simulate:command",
        "Simulate a scenario in virtual time.",
    ),
    "demo": ("headway.cli.demo:command", "Run a batch against a fake provider; no key needed."),
    "fake": (
        "headway.cli.fake:command",
        "Serve a fake provider with limits and faults on loopback.",
    ),
    "doctor": ("headway.cli.doctor:command", "Check what is installed, configured and reachable."),
}


@dataclass
class Invocation:
    """Flags of the command line that all of it needs. It is the object of every click context."""

    verbose: bool = False
    #: Those that say where the settings and the records are.
    place: dict[str, str] = field(default_factory=dict)

    def note_flag(self, name: str, value: str) -> list[str]:
        """Keep one that says where; returns all of them."""
        self.place[name] = value
        return [word for flag in self.place.items() for word in flag]


class LazyGroup(click.Group):
    """A group that takes its commands from `COMMANDS` and imports one only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise _unknown_command(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _unknown_command(name: str) -> UsageError:
    import difflib  # Loaded only after a typing error.

    nearest = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else "'headway --help' lists the commands"
    return UsageError(f"there is no command '{name}'", hint=hint)


def _set_verbose(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    invocation = ctx.find_object(Invocation)
    if value and invocation is not None:
        invocation.verbose = True


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    envvar="HEADWAY_DEBUG",
    callback=_set_verbose,
    help="Show the traceback of an error (also: HEADWAY_DEBUG=1).",
)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(headway.__version__, prog_name="headway", message="%(prog)s %(version)s")
@verbose_option
def cli() -> None:
    """Run LLM and agent work at the edge of every provider's rate limit, and lose none of it."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line (the process's own by default) and return its exit code."""
    try:
        return _run(args)
    finally:
        _discard_unwritable_output()


def _discard_unwritable_output() -> None:
    """Discard output that cannot be written, for example to a closed terminal: Python would exit with 120 otherwise."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (ValueError, AttributeError):
            continue  # The stream is closed, or there is none.


def _run(args: Sequence[str] | None) -> int:
    invocation = Invocation()
    add_to_commands(())
    if sys.stdout is None:
        # It is closed (`>&-`). Without this the next file that is opened, perhaps the database, would become standard output. Writing to
        # it fails, as it should.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # A character that the terminal lacks becomes "?", not a traceback.
    try:
        with interruptible():
            result = cli.main(args, prog_name="headway", standalone_mode=False, obj=invocation)
    except HeadwayError as error:
        for problem in error.problems if isinstance(error, InputError) else ():
            echo(problem, err=True)
        if invocation.verbose:
            echo_text(traceback.format_exc().rstrip(), err=True)
        code = _fail(HeadwayError.__str__(error), error.exit_code)
        if error.next_step:
            echo(f"  {error.next_step}", err=True)
        return code
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed" or invocation.verbose:
            raise
        name = error.object.encode(errors="surrogateescape").decode(errors="replace")
        return _fail(
            f"'{name[:200]}' is not valid UTF-8 — rename the file or the folder", UsageError.exit_code
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(_click_message(error), error.exit_code)
    except click.Abort:
        return _fail("interrupted", INTERRUPTED)
    except OSError as error:
        if error.errno == errno.EIO and terminal_gone():
            return INTERRUPTED
        if error.errno not in (errno.ENOSPC, errno.EBADF):
            raise
        return _fail(f"the output cannot be written: {(error.strerror or str(error)).lower()}", 1)
    return result if isinstance(result, int) else 0  # A command returns its exit code, or None for 0.


def _click_message(error: click.ClickException) -> str:
    """Click's message, with the help to read."""
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} — see '{context.command_path} --help'" if context else message


def _fail(message: str, code: int) -> int:
    echo("headway: " + " ".join(line.strip() for line in message.splitlines()), err=True)
    return code
