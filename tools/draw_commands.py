"""Generates docs/reference/commands.md from the commands.

python tools/draw_commands.py            writes the page
python tools/draw_commands.py --check    exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from pages import ROOT, write_or_check

from headway.cli import COMMANDS, LazyGroup

PAGE = ROOT / "docs" / "reference" / "commands.md"
COMMAND = "python tools/draw_commands.py"

HEAD = """# Commands

Generated from the commands by `tools/draw_commands.py`; do not edit. `headway --help` lists them, `headway COMMAND --help`
explains one, with an example.

All commands have `-v`, `--verbose` (or `HEADWAY_DEBUG=1`), which adds the traceback to an error, and `-h`, `--help`.
`headway --version` prints the version. Errors are one line on stderr that says what to do.

| exit code | |
|---|---|
| 0 | all succeeded |
| 1 | some units failed, or their lane stopped; the records cannot be read or written; `headway doctor` found a problem; `--confirm` without `--first` was answered with no |
| 2 | an error in usage or configuration |
| 3 | stopped by a deadline or a budget, or after the units of `--first` (also if `--confirm` was answered with no); `headway resume` continues |
| 4 | parked on a hold longer than `--max-hold`, or on a flow's human step (`headway approve`) |
| 5 | fewer cells of an eval passed than `--fail-under` asks for |
| 130 | interrupted; `headway resume` continues |
"""


def page() -> str:
    """The whole page."""
    group = LazyGroup()
    context = click.Context(group, info_name="headway")
    parts = [HEAD]
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        parts.append("\n".join(_section(name, command, context)))
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=context)
            parts += [
                "\n".join(_section(f"{name} {each}", member, inner))
                for each, member in command.commands.items()
            ]
    return "\n".join(parts)


def _section(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    arguments = " ".join(
        param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)
    )
    yield f"## headway {name} {arguments}".rstrip()
    yield ""
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    yield f"{command.epilog.replace('Example: ', 'Example: `')}`" if command.epilog else ""
    yield ""
    options = [one for one in command.params if isinstance(one, click.Option) and one.name != "verbose"]
    if options:
        yield "| flag | |"
        yield "|---|---|"
        yield from (_row(option, context) for option in options)
        yield ""


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if not option.is_flag and not option.count:
        metavar = option.make_metavar(context).replace("|", "\\|")
        names = f"{names} `{metavar}`"
    more = " (repeatable)" if option.multiple and "repeatable" not in (option.help or "") else ""
    return f"| {names} | {(option.help or '').rstrip()}{more} |"


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
