"""How the commands print text lines and JSON."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from headway.display.formatting import clock
from headway.display.report_json import fields_json
from headway.display.terminal import echo, echo_json, echo_question

if TYPE_CHECKING:
    from headway.wiring.steering.control_requests import Asked

#: How often a question looks for a signal.
LOOK_S: Final = 0.1


def say(text: str) -> None:
    """One line on stderr."""
    echo(text, err=True)


def say_unless(quiet: bool) -> Callable[[str], None]:
    """`say`, or a function that prints nothing."""
    return (lambda text: None) if quiet else say


def agreed(question: str) -> bool:
    """Ask on the terminal. Enter means no; the end of the input raises `click.Abort`.

    A signal that arrives just before a read blocks is not noticed until the read returns. So the read begins when a line is there.
    """
    while True:
        echo_question(f"{question} [y/N]:")
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            pass
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        answer = line.strip().lower()
        if answer in ("", "n", "no", "y", "yes"):
            return answer.startswith("y")
        say("answer y or n")


def print_result(text: str, report: object, as_json: bool) -> int:
    """Print the result of a command that had nothing to run, as text or JSON. Returns its exit code, 0."""
    if as_json:
        echo_json(report)
    else:
        say(text)
    return 0


def print_asked(asked: Asked, *, as_json: bool) -> None:
    """Print what a running job was asked to do."""
    if as_json:
        echo_json(asked.fields())
        return
    for line in asked.lines():
        echo(line)


def print_json(value: Any) -> None:
    """Print indented JSON on standard output."""
    echo_json(value, indent=True)


def flat(*reports: msgspec.Struct | dict[str, Any]) -> dict[str, Any]:
    """The fields of several reports in one JSON object, with instants as text."""
    return fields_json(
        {
            name: value
            for report in reports
            for name, value in (
                report if isinstance(report, dict) else msgspec.structs.asdict(report)
            ).items()
        }
    )


def time_text(utc: float | None) -> str:
    """A stored instant as local time."""
    return "–" if utc is None else clock(utc)
