"""The one way from Headway's commands and displays to a terminal: everything foreign is made visible first.

A test holds that nothing else in the commands and displays prints.
"""

from __future__ import annotations

from typing import Any, TextIO

import click

from headway.safe_text import escaped, visible


def echo(text: Any = "", *, err: bool = False, label: str = "") -> None:
    """A line on standard output, or on standard error. `label` is our own, and may be styled."""
    click.echo(label + visible(str(text)), err=err)


def echo_json(value: Any, *, indent: bool = False) -> None:
    """A value as JSON on standard output: one line, or indented for people."""
    import msgspec  # `headway --help` loads no more than click.

    encoded = value if isinstance(value, bytes) else msgspec.json.encode(value)
    text = msgspec.json.format(encoded, indent=2).decode() if indent else encoded.decode()
    click.echo(escaped(text))


def overwrite(text: str) -> None:
    """Write over the last line on standard error, which is a terminal."""
    click.echo(f"\r\033[K{visible(text)}", nl=False, err=True)


def heading(text: str) -> None:
    """A line in bold, with an empty one above it."""
    click.secho(f"\n{visible(text)}", bold=True)


def write_line(text: str, stream: TextIO) -> None:
    """A line on a stream, at once."""
    print(visible(text), file=stream, flush=True)
