"""Lines for people and JSON for programs, as the commands print them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headway.display.formatting import clock
from headway.display.terminal import echo, echo_json


def say(text: str) -> None:
    """One line on stderr."""
    echo(text, err=True)


def say_unless(quiet: bool) -> Callable[[str], None]:
    """The same, or nothing at all."""
    return (lambda text: None) if quiet else say


def print_result(text: str, report: object, as_json: bool) -> int:
    """The whole result of a command that had nothing to run, for people or for programs; its exit code."""
    if as_json:
        echo_json(report)
    else:
        say(text)
    return 0


def print_json(value: Any) -> None:
    """For programs, and still readable."""
    echo_json(value, indent=True)


def flat(*reports: msgspec.Struct | dict[str, Any]) -> dict[str, Any]:
    """The fields of several reports in one JSON object."""
    return {
        name: value
        for report in reports
        for name, value in (report if isinstance(report, dict) else msgspec.structs.asdict(report)).items()
    }


def time_text(utc: float | None) -> str:
    """A stored instant for people."""
    return "–" if utc is None else clock(utc)
