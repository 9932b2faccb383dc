"""Plots a run: the use of each lane's limit over time, with its refusals.

For a lane bound by a rate: what was admitted per minute, in the dimension that binds. For a lane bound by slots: the
requests in flight.
"""

from __future__ import annotations

import importlib
import itertools
import os
from bisect import bisect_right
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from headway.errors import UsageError
from headway.install_hint import install_command
from headway.sim.bound import limit_at
from headway.sim.runner import HEADWAY, bounds, run_once
from headway.sim.scenario import ProviderSpec, Scenario
from headway.sim.workload import Workload, draw, settled_costs
from headway.sim.world import LaneLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Number of bars in a plot.
BINS: Final = 120
#: Colours that colour-blind people can distinguish (Okabe and Ito).
USED, LIMIT, REFUSED = "#0072B2", "#009E73", "#D55E00"
FORMATS: Final = (".svg", ".png")


def check(path: Path) -> None:
    """Fail before the run, not after it, if the file cannot be written."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path}: a plot must be {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: cannot be written: there is no directory {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: cannot be written", hint="choose a directory that you may write to")
    _pyplot()


def plot(path: Path, name: str, scenario: Scenario, policy: str = HEADWAY) -> None:
    """Run one policy over the scenario's first seed and write the plot."""
    pyplot = _pyplot()
    seed = scenario.seeds[0]
    workload = draw(scenario, seed)
    world = run_once(scenario, workload, policy, seed)
    until_s = world.ended_at or 1.0
    lane_bounds = bounds(scenario, workload)
    figure, axes = pyplot.subplots(
        len(scenario.lanes), 1, sharex=True, squeeze=False, figsize=(10.0, 1.2 + 2.2 * len(scenario.lanes))
    )
    for ax, (key, lane) in zip(axes[:, 0], scenario.lanes.items(), strict=True):
        _draw_lane(ax, key, lane.provider, world.logs[key], workload, until_s)
        ax.axvline(lane_bounds[key], color="0.6", linewidth=1.0, linestyle=":", label="bound")
        ax.legend(loc="upper left", bbox_to_anchor=(0.0, 1.18), fontsize=8, ncols=4, frameon=False)
    axes[-1, 0].set_xlabel("seconds (virtual)")
    figure.suptitle(f"{name}, {policy}, seed {seed}: use of each lane's limit, refusals marked", fontsize=11)
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        pyplot.close(figure)


def _pyplot() -> ModuleType:
    """matplotlib (an extra), set to draw into files only."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need matplotlib", hint=install_command("plot")) from None
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def _draw_lane(
    ax: Axes, key: str, provider: ProviderSpec, log: LaneLog, workload: Workload, until_s: float
) -> None:
    edges = [until_s * step / BINS for step in range(BINS + 1)]
    dimension = _binding(provider, workload, key)
    if dimension is None:
        used, label = _in_flight(log, edges), "in flight"
        limits = [float(provider.max_concurrency or max(used, default=1.0))] * BINS
    else:
        used, label = (
            _per_minute(provider, log, workload, edges, dimension),
            f"{dimension.replace('_', ' ')} / min",
        )
        limits = [limit_at(provider, dimension, edge) for edge in edges[:-1]]
    ax.stairs(used, edges, fill=True, color=USED, alpha=0.75, label=label)
    ax.stairs(limits, edges, baseline=None, color=LIMIT, linewidth=1.6, label="limit")
    if log.refused:
        ax.plot(
            log.refused,
            [0.0] * len(log.refused),
            "|",
            color=REFUSED,
            markersize=14,
            label=f"{len(log.refused)} × 429",
        )
    ax.set_ylabel(f"lane {key}")
    ax.set_ylim(bottom=0.0)
    ax.spines[["top", "right"]].set_visible(False)


def _binding(provider: ProviderSpec, workload: Workload, key: str) -> str | None:
    """The dimension that is used most; None if slots bind."""
    costs = [settled_costs(provider, truth) for truth in workload.of(key)]
    needs = {
        name: sum(cost[name] for cost in costs) / limit_at(provider, name, 0.0)
        for name in costs[0]
        if limit_at(provider, name, 0.0)
    }
    return max(needs, key=lambda name: needs[name]) if needs else None


def _per_minute(
    provider: ProviderSpec, log: LaneLog, workload: Workload, edges: list[float], dimension: str
) -> list[float]:
    sums = [0.0] * BINS
    for at, index in log.admitted:
        place = min(BINS - 1, bisect_right(edges, at) - 1)
        sums[place] += settled_costs(provider, workload.truths[index])[dimension]
    return [total * 60.0 / (edges[1] - edges[0]) for total in sums]


def _in_flight(log: LaneLog, edges: list[float]) -> list[float]:
    started, answered = sorted(log.started), sorted(log.answered)
    middles = [(left + right) / 2.0 for left, right in itertools.pairwise(edges)]
    return [float(bisect_right(started, at) - bisect_right(answered, at)) for at in middles]
