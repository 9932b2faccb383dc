"""`headway simulate`: runs a scenario with the real scheduler and with baseline policies, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from headway.cli import verbose_option
from headway.display.terminal import echo, echo_json, overwrite
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.sim.scenario import Scenario


@click.command(
    "simulate",
    short_help="Simulate a scenario in virtual time.",
    epilog="Example: headway simulate scenarios/demo.yaml --plot demo.svg",
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="Run only this policy (repeatable). Default: those of the scenario.",
)
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    metavar="NAME",
    help="Run only this lane (repeatable), without the others.",
)
@click.option(
    "--seed", "seeds", multiple=True, type=int, help="Use this seed instead of the scenario's (repeatable)."
)
@click.option(
    "--order",
    type=click.Choice(["auto", "input", "longest"]),
    help="Use this order instead of the scenario's.",
)
@click.option(
    "--plot",
    "plot_to",
    type=click.Path(path_type=Path),
    metavar="FILE.svg|png",
    help="Plot how much of its limit each lane uses under the first policy.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress on stderr.")
@verbose_option
def command(
    scenario: Path,
    policies: tuple[str, ...],
    lanes: tuple[str, ...],
    seeds: tuple[int, ...],
    order: str | None,
    plot_to: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the real scheduler in virtual time against the providers that SCENARIO (a YAML file) describes, and compare
    it with policies that people write by hand. It needs no key and no network. Ten simulated minutes take about a
    second per policy.

    For each lane it shows the makespan divided by its theoretical bound, the 429s per 1000 units, how much of the
    binding limit was used, and stalls. With several seeds, each figure is the worst one.

    The scenario of a flow (with the key `flow`) is compared with a scheduler by waves, and with its critical path.
    """
    from headway.flows.simulated.scenario import is_flow
    from headway.sim.runner import HEADWAY, POLICIES, simulate
    from headway.sim.scenario import load, read_mapping

    show = not (quiet or as_json) and sys.stderr.isatty()
    if is_flow(read_mapping(scenario)):
        for flag, given in (("--lane", lanes), ("--order", order), ("--plot", plot_to)):
            if given:
                raise UsageError(f"{flag} is not for scenarios of flows", hint="leave it out")
        _simulate_flow(scenario, policies, seeds, as_json, _progress if show else _silent)
        return
    chosen = _narrowed(load(scenario), lanes, seeds, order)
    unknown = [name for name in (*policies, *chosen.policies) if name not in POLICIES]
    if unknown:
        raise UsageError(f"there is no policy '{unknown[0]}'", hint=f"policies: {', '.join(POLICIES)}")
    if plot_to is not None:
        from headway.sim.plot import check

        check(plot_to)
    report = simulate(scenario.stem, chosen, policies, progress=_progress if show else _silent)
    if show:
        overwrite("")
    if as_json:
        echo_json(report, indent=True)
    else:
        from rich.console import Console

        from headway.sim.result_table import result_table

        console = Console(width=None if sys.stdout.isatty() else 120)
        console.print(result_table(report, console.width))
    if plot_to is not None:
        from headway.sim.plot import plot

        plot(plot_to, scenario.stem, chosen, policies[0] if policies else HEADWAY)
        if not quiet:
            echo(f"wrote {plot_to}", err=as_json)


def _simulate_flow(
    path: Path,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    as_json: bool,
    progress: Callable[[str, int], None],
) -> None:
    """Simulate the scenario of a flow and print the result."""
    from headway.flows.simulated.scenario import load_flow_scenario
    from headway.flows.simulated.simulation import FLOW_POLICIES, simulate_flow

    chosen = load_flow_scenario(path)
    if seeds:
        chosen = msgspec.structs.replace(chosen, seeds=seeds)
    report = simulate_flow(path.stem, chosen, policies or tuple(FLOW_POLICIES), progress=progress)
    if progress is _progress:
        overwrite("")
    if as_json:
        echo_json(report, indent=True)
        return
    from rich.console import Console

    from headway.flows.simulated.result_table import flow_table

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(flow_table(report))


def _narrowed(
    scenario: Scenario, lanes: tuple[str, ...], seeds: tuple[int, ...], order: str | None
) -> Scenario:
    """The scenario, changed by the flags."""
    changes: dict[str, object] = {}
    for name in lanes:
        if name not in scenario.lanes:
            raise UsageError(f"the scenario has no lane '{name}'", hint=f"lanes: {', '.join(scenario.lanes)}")
    if lanes:
        changes["lanes"] = {name: scenario.lanes[name] for name in lanes}
    if seeds:
        changes["seeds"] = seeds
    if order:
        changes["order"] = order
    return msgspec.structs.replace(scenario, **changes)


def _progress(policy: str, seed: int) -> None:
    overwrite(f"simulating {policy}, seed {seed} …")


def _silent(policy: str, seed: int) -> None:
    """Show no progress."""
