"""Every output of the commands and displays to a terminal goes through this file, which escapes control characters.

A line stays one line: an id, a model, a file name or an error with a line break cannot print a line that looks like one of
Headway's. Only `echo_text` prints several lines, for answers and other texts.

Commands that a line tells the user to type get the --config and --db that this command was given (`add_to_commands`).

tests/house checks that no other file of the commands and displays prints.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TextIO

import click

from headway.command_flags import with_flags
from headway.safe_text import escaped, visible, without_breaks

#: What commands in lines are printed with.
_flags: list[str] = []


def add_to_commands(flags: Sequence[str]) -> None:
    """From now on, the commands in lines are printed with these flags."""
    _flags[:] = flags


def _line(text: Any) -> str:
    return without_breaks(with_flags(str(text), _flags))


def echo(text: Any = "", *, err: bool = False, label: str = "") -> None:
    """A line on standard output, or on standard error. `label` is Headway's own text, and may be styled."""
    click.echo(label + _line(text), err=err)


def echo_question(text: str) -> None:
    """The answer is typed behind it."""
    click.echo(without_breaks(text) + " ", nl=False, err=True)


def echo_text(text: str, *, err: bool = False) -> None:
    """A text of any number of lines."""
    click.echo(visible(text), err=err)


#: How parts of a comparison are marked: what encloses them, and their colour on a terminal.
_MARKS: Final = {"same": ("", "", None), "removed": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}


def echo_parts(parts: Iterable[tuple[str, str]]) -> None:
    """A text of any number of lines, in parts: of two versions (`same`), of the first (`removed`) or the second (`added`)."""
    pieces = []
    for kind, text in parts:
        before, after, colour = _MARKS[kind]
        pieces.append(click.style(f"{before}{visible(text)}{after}", fg=colour) if colour else visible(text))
    click.echo("".join(pieces))


def echo_json(value: Any, *, indent: bool = False) -> None:
    """A value as JSON on standard output: one line, or indented for people. Bytes are JSON already."""
    import msgspec  # Not at the top: `headway --help` loads only click.

    from headway.display.report_json import report_json

    encoded = value if isinstance(value, bytes) else msgspec.json.encode(report_json(value))
    text = msgspec.json.format(encoded, indent=2).decode() if indent else encoded.decode()
    click.echo(escaped(text))


def write_bytes(data: bytes) -> None:
    """Bytes on standard output as they are. A terminal gets text with control characters escaped."""
    sys.stdout.flush()
    stream = sys.stdout.buffer
    stream.write(visible(data.decode(errors="replace")).encode() if stream.isatty() else data)
    stream.flush()


def overwrite(text: str) -> None:
    """Overwrite the last line on standard error, which must be a terminal."""
    click.echo(f"\r\033[K{without_breaks(text)}", nl=False, err=True)


def in_place() -> Callable[[list[str]], None]:
    """Returns a function that prints lines on standard output, a terminal, over those that it printed before.

    Lines are cut at the right edge, and only as many are shown as fit on the screen: what has scrolled away cannot be overwritten.
    """
    above = 0

    def draw(lines: list[str]) -> None:
        nonlocal above
        width, height = shutil.get_terminal_size()
        shown = [_cut(_line(line), width - 1) for line in lines[: height - 1]]
        up = f"\033[{min(above, height - 1)}A" if above else ""
        click.echo(f"{up}\r\033[J" + "\n".join(shown))
        above = len(shown)

    return draw


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def heading(text: str) -> None:
    """A line in bold, with an empty one above it."""
    click.secho(f"\n{without_breaks(text)}", bold=True)


def write_line(text: str, stream: TextIO) -> None:
    """Write a line to a stream and flush it."""
    print(_line(text), file=stream, flush=True)


def write_text(text: str, stream: TextIO) -> None:
    """Write a piece of a text and flush it: safe on a terminal, unchanged in a pipe or a file."""
    stream.write(visible(text) if stream.isatty() else text)
    stream.flush()


def write_json(body: bytes, stream: TextIO) -> None:
    """Write JSON as a line: with unsafe characters escaped on a terminal, unchanged in a pipe or a file."""
    text = body.decode(errors="replace")
    stream.write((escaped(text) if stream.isatty() else text) + "\n")
    stream.flush()
