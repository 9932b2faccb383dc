"""`headway doctor`: prints a line for each check, with the next step if there is a problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.shared.click_options import insecure_http_option, json_option, where_options
from headway.display.terminal import echo

if TYPE_CHECKING:
    from headway.cli.doctor_checks import Check


@click.command(
    "doctor",
    short_help="Check what is installed, configured and reachable.",
    epilog="Example: headway doctor --offline",
)
@click.option("--offline", is_flag=True, help="Make no connections.")
@insecure_http_option
@json_option
@where_options
def command(offline: bool, insecure_http: bool, config: Path | None, db: str | None, as_json: bool) -> int:
    """Check everything that a run needs: packages, the configuration, each provider's key and address, programs and agents (version,
    login, directory), the database, free space, jobs left by a dead process, configured limits that proved too high, and the limit on open files. It changes nothing, and connects only to
    configured hosts, without a key. The exit code is 1 if there is a problem.
    """
    from headway.cli.shared import printing

    found = []
    for check in _checks(config, db, offline=offline, insecure_http=insecure_http):
        found.append(check)
        if not as_json:
            _show(check)
    problems = sum(check.state == "problem" for check in found)
    warnings = sum(check.state == "warning" for check in found)
    if as_json:
        printing.print_json({"ok": not problems, "checks": found})
    else:
        echo(_sum(problems, warnings))
    return 1 if problems else 0


def _checks(config: Path | None, db: str | None, *, offline: bool, insecure_http: bool) -> Iterator[Check]:
    from headway.cli import doctor_checks
    from headway.cli.agents.cluster_checks import cluster_checks
    from headway.cli.agents.program_checks import program_checks
    from headway.cli.shared import workspace
    from headway.errors import HeadwayError

    yield from doctor_checks.machine_checks()
    try:
        settings = workspace.settings(config, db, insecure_http=insecure_http)
    except HeadwayError as error:
        yield doctor_checks.problem("config", error)
        return
    yield from doctor_checks.config_checks(settings)
    yield from doctor_checks.key_checks(settings)
    yield from program_checks(settings, ask_version=not offline)
    if not offline:
        yield from doctor_checks.part_checks(settings)
        yield from cluster_checks(settings)
        yield from doctor_checks.address_checks(settings)
    yield from doctor_checks.store_checks(settings)
    yield doctor_checks.open_files(settings)


def _show(check: Check) -> None:
    step = f" — {check.next}" if check.next else ""
    text = " ".join(f"{check.text}{step}".split())
    colour = {"ok": "green", "warning": "yellow", "problem": "red"}[check.state]
    echo(f" {check.name}: {text}", label=click.style(f"{check.state:8}", fg=colour))


def _sum(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "no problems found"
    from headway.display.formatting import count

    parts = [count(n, what) for n, what in ((problems, "problem"), (warnings, "warning")) if n]
    return " and ".join(parts)
