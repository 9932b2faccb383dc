"""Every output of the commands and displays to a terminal goes through this file, which escapes control characters.

A line stays one line: an id, a model, a file name or an error with a line break cannot print a line that looks like one of
Headway's. Only `echo_text` prints several lines, for answers and other texts.

tests/house checks that no other file of the commands and displays prints.
"""

from __future__ import annotations

from typing import Any, TextIO

import click

from headway.safe_text import escaped, visible, without_breaks


def echo(text: Any = "", *, err: bool = False, label: str = "") -> None:
    """A line on standard output, or on standard error. `label` is Headway's own text, and may be styled."""
    click.echo(label + without_breaks(str(text)), err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """A text of any number of lines."""
    click.echo(visible(text), err=err)


def echo_json(value: Any, *, indent: bool = False) -> None:
    """A value as JSON on standard output: one line, or indented for people."""
    import msgspec  # Not at the top: `headway --help` loads only click.

    encoded = value if isinstance(value, bytes) else msgspec.json.encode(value)
    text = msgspec.json.format(encoded, indent=2).decode() if indent else encoded.decode()
    click.echo(escaped(text))


def overwrite(text: str) -> None:
    """Overwrite the last line on standard error, which must be a terminal."""
    click.echo(f"\r\033[K{without_breaks(text)}", nl=False, err=True)


def heading(text: str) -> None:
    """A line in bold, with an empty one above it."""
    click.secho(f"\n{without_breaks(text)}", bold=True)


def write_line(text: str, stream: TextIO) -> None:
    """Write a line to a stream and flush it."""
    print(without_breaks(text), file=stream, flush=True)
