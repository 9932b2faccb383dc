"""The one way from Headway's commands and displays to a terminal: everything foreign is made visible first.

A line stays one line: an id, a model, a file's name or an error that holds a line break cannot print a line that looks
like one of Headway's. Only `echo_text` prints several, for answers and other texts that are shown as they are.

A test holds that nothing else in the commands and displays prints.
"""

from __future__ import annotations

from typing import Any, TextIO

import click

from headway.safe_text import escaped, visible, without_breaks


def echo(text: Any = "", *, err: bool = False, label: str = "") -> None:
    """A line on standard output, or on standard error. `label` is our own, and may be styled."""
    click.echo(label + without_breaks(str(text)), err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """A text of any number of lines."""
    click.echo(visible(text), err=err)


def echo_json(value: Any, *, indent: bool = False) -> None:
    """A value as JSON on standard output: one line, or indented for people."""
    import msgspec  # `headway --help` loads no more than click.

    encoded = value if isinstance(value, bytes) else msgspec.json.encode(value)
    text = msgspec.json.format(encoded, indent=2).decode() if indent else encoded.decode()
    click.echo(escaped(text))


def overwrite(text: str) -> None:
    """Write over the last line on standard error, which is a terminal."""
    click.echo(f"\r\033[K{without_breaks(text)}", nl=False, err=True)


def heading(text: str) -> None:
    """A line in bold, with an empty one above it."""
    click.secho(f"\n{without_breaks(text)}", bold=True)


def write_line(text: str, stream: TextIO) -> None:
    """A line on a stream, at once."""
    print(without_breaks(text), file=stream, flush=True)
