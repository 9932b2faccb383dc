"""`headway validate`: every error of a flow file at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.shared.click_options import json_option

if TYPE_CHECKING:
    from headway.flows.flow_file import CheckedFlow


@click.command(
    "validate",
    short_help="Check a flow file; report every error at once.",
    epilog="Example: headway validate review.yaml",
)
@click.argument("file", metavar="FLOW", type=click.Path(path_type=Path))
@json_option
def command(file: Path, as_json: bool) -> int:
    """Check a flow file: its keys and values, the files it names, the names in its prompts, cycles, fields that nobody declares,
    two writers of a field that is set once, nodes that cannot run. Every problem is shown with its line. Nothing is run.

    Exits with 2 if there is an error; warnings alone exit with 0.
    """
    from headway.flows.flow_file import check_flow

    checked = check_flow(file)
    if as_json:
        _print_json(file, checked)
    else:
        _print(file, checked)
    return 0 if checked.flow is not None else 2


def _print_json(file: Path, checked: CheckedFlow) -> None:
    from msgspec.structs import asdict

    from headway.cli.shared.printing import print_json

    problems = [asdict(problem) for problem in checked.problems]
    print_json({"file": str(file), "valid": checked.flow is not None, "problems": problems})


def _print(file: Path, checked: CheckedFlow) -> None:
    from headway.display.terminal import echo
    from headway.flows.step_text import count_nodes

    for problem in checked.problems:
        echo(problem.text(str(file)), err=True)
    if checked.flow is None:
        errors = sum(problem.severity == "error" for problem in checked.problems)
        echo(f"{file}: {errors:,} error{'' if errors == 1 else 's'}", err=True)
        return
    nodes = count_nodes(checked.flow)
    inputs = ", ".join(checked.flow.inputs)
    needs = f"; inputs: {inputs}" if inputs else ""
    echo(f"{file}: valid, {nodes:,} node{'' if nodes == 1 else 's'}{needs}")
