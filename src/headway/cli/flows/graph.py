"""`headway graph`: draws a flow."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.shared.click_options import json_option


@click.command(
    "graph",
    short_help="Draw a flow as text, Mermaid or HTML.",
    epilog="Example: headway graph review.yaml --format html > review.html",
)
@click.argument("file", metavar="FLOW", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "html"]),
    default="text",
    show_default=True,
    help="How to draw it. HTML is one page that needs no other files.",
)
@json_option
def command(file: Path, form: str, as_json: bool) -> None:
    """Draw a flow: its steps in an order in which they may run, and what each one waits for. Nothing is run."""
    from headway.cli.shared.printing import print_json
    from headway.display.terminal import echo_text
    from headway.flows.drawing import FORMATS
    from headway.flows.flow_file import load_flow
    from headway.flows.graph_json import graph_json

    flow = load_flow(file)
    if as_json:
        print_json(graph_json(flow))
    else:
        echo_text(FORMATS[form](flow).rstrip("\n"))
