"""`headway budget`: changes what a job may cost, while it runs or for its next run."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.shared.click_options import json_option, where_options


@click.command(
    "budget",
    short_help="Change what a job may cost.",
    epilog="Example: headway budget reviews-3fa2c1 12.50",
)
@click.argument("words", nargs=-1, required=True, metavar="[JOB] USD")
@json_option
@where_options
def command(words: tuple[str, ...], config: Path | None, db: str | None, as_json: bool) -> None:
    """Let JOB (default: the latest) cost at most USD, over all of its runs; 0 removes the cap. A job that runs takes the new cap at once: if
    it is below what is spent, what is in flight finishes and no more starts. Otherwise the job keeps the cap for its next run.

    It holds above max_cost in headway.toml, until --max-cost or another 'headway budget' sets a new one. The prices of the job's models must be
    known.
    """
    from headway.cli.shared import workspace
    from headway.display.terminal import echo, echo_json
    from headway.wiring.steering.budgets import set_budget
    from headway.wiring.store_access import open_store

    name, usd = _arguments(words)
    settings = workspace.settings(config, db)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job = workspace.choose_job(store, name, quiet=as_json)
        budget = set_budget(settings, store, job, usd)
    if as_json:
        echo_json(budget.fields())
    else:
        echo(budget.text())


def _arguments(words: tuple[str, ...]) -> tuple[str | None, float]:
    from headway.cli.shared.click_options import MOST
    from headway.errors import UsageError

    if len(words) > 2:
        raise UsageError("too many arguments", hint="headway budget JOB USD")
    text = words[-1].removeprefix("$")
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not 0.0 <= usd <= MOST:
        raise UsageError(
            f"'{words[-1]}' is not an amount of USD",
            hint="for example 'headway budget 12.50'; 0 removes the cap",
        )
    return (words[0] if len(words) == 2 else None), usd
