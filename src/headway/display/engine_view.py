"""What an engine that waits for jobs does (`headway serve`): a line for each event, and a table on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.display.formatting import count, duration

if TYPE_CHECKING:
    from rich.console import Group

#: The lines of events that are not about one job.
_OF_ENGINE: Final = frozenset({"away", "back", "stopping", "stopped", "started"})
#: How many waiting jobs are named.
MOST_NAMES: Final = 5


class EngineJob(NamedTuple):
    """A job that the engine runs."""

    name: str
    good: int
    total: int
    in_flight: int
    rate_per_s: float
    running_s: float


def event_line(what: str, job: str, text: str, state: str, units: tuple[int, int]) -> str:
    """An event in words. `units`: how many have succeeded, of how many."""
    good, total = units
    if what in _OF_ENGINE:
        return text
    if what == "took":
        return f"job {job}: taken, {count(total, 'unit')}" + (f", {good:,} with answers" if good else "")
    if what == "ended":
        return f"job {job} {state}: {good:,} of {total:,} succeeded"
    if what == "left":
        return f"job {job} cannot run here and is left to other engines: {text}"
    return f"job {job}: {text}"


def engine_table(
    jobs: Iterable[EngineJob], waiting: Sequence[str], more: int, left: Mapping[str, str], most: int
) -> Group:
    """The jobs that run, those that wait for a place, and those that cannot run here. `more`: how many more may wait."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("job", "done", "in flight", "rate", "since"):
        table.add_column(head, justify="left" if head == "job" else "right", no_wrap=True)
    running = list(jobs)
    for job in running:
        done = f"{job.good:,} of {job.total:,}"
        rate = f"{job.rate_per_s:.1f}/s"
        table.add_row(Text(job.name), done, f"{job.in_flight:,}", rate, duration(job.running_s))
    lines = [f"{name} cannot run here: {reason}" for name, reason in left.items()]
    if waiting:
        more += max(0, len(waiting) - MOST_NAMES)
        lines.append(
            "waiting: " + ", ".join(waiting[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        )
    if not running and not waiting:
        lines.append(f"waiting for jobs (up to {most:,} at a time; 'headway submit FILE' hands one over)")
    below = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(*([table] if running else []), *below)
