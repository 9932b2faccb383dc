"""The picture of `headway top`: as many lines as the terminal has, whatever its size.

A job has a row, with its lanes below it as far as there is room. The chosen job is always in view, and the last lines have all that
its row has no room for, and the keys.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from rich.text import Text

from headway.display.formatting import count, money
from headway.display.lanes.lane_table import NARROW, NUMBERS, OF_LIMIT, TableShape, lane_rows
from headway.display.lanes.limit_use import LimitUseHistory
from headway.display.lanes.line_grid import GridRow, grid_lines
from headway.display.plain import rate_text
from headway.display.top.job_text import ended_of, job_facts, job_line, rate_of
from headway.display.top.next_step import next_step
from headway.reports.watching.job_watch import JobSight
from headway.safe_text import one_line

KEYS: Final = "q quit   ↑ ↓ choose   Enter lanes   p pause or resume"
ASCII_KEYS: Final = "q quit   j k choose   Enter lanes   p pause or resume"
NO_JOBS: Final = "no job is running: a job that begins appears here"
#: Lines that are no rows: the heading, the names of columns, the chosen job, the keys.
AROUND: Final = 4
#: On a lower terminal, only the heading and the rows are shown.
LOW: Final = 8
#: On a higher one, the chosen job has two lines.
HIGH: Final = 20
#: From this height on, there is a line for what to do about its lanes in trouble.
STEP: Final = 12
_STATES: Final = {"interrupted": "red", "paused": "yellow"}


class TopChoice(msgspec.Struct):
    """What the user chose: a job by its name, which jobs show all lanes (True) or none (False), and the last line instead of the keys."""

    job: str = ""
    opened: dict[str, bool] = {}
    note: str = ""

    def move(self, sights: Sequence[JobSight], by: int) -> None:
        """Choose the next job, or the one before."""
        names = [sight.job.name for sight in sights]
        if names:
            place = names.index(self.job) + by if self.job in names else 0
            self.job = names[max(0, min(len(names) - 1, place))]


class TopData(msgspec.Struct, frozen=True):
    """What is shown: the jobs, the command that goes on with each, the last minute of their lanes, and when. `flags`: those that lead
    a command to the records.
    """

    sights: Sequence[JobSight]
    resume: Mapping[str, str]
    histories: Mapping[str, LimitUseHistory]
    utc: float
    flags: str = ""


def page_lines(data: TopData, choice: TopChoice, width: int, height: int, *, blocks: bool) -> list[Text]:
    """At most `height` lines, none wider than `width`."""
    step = _step_of(data, choice) if height >= STEP else ""
    shape = TableShape(width, row_room(height) - bool(step), blocks, brief_limits=True)
    lines = [_heading(data, shape), *_body(data, choice, shape, shape.rows, with_names=height >= LOW)]
    if height >= LOW:
        most = height - shape.rows - AROUND + 1 - bool(step)
        foot = [
            *_chosen(data, choice, shape, most),
            *([_fitted(step, shape, "yellow")] if step else []),
            _last_line(choice, shape),
        ]
        lines += [*(Text("") for _ in range(height - len(lines) - len(foot))), *foot]
    return lines[:height]


def row_room(height: int) -> int:
    """How many rows a terminal of this height has for jobs and lanes."""
    if height < LOW:
        return max(1, height - 1)
    return height - AROUND - (1 if height >= HIGH else 0)


def plain_lines(data: TopData, width: int) -> list[str]:
    """All jobs with all lanes, and what to do about those in trouble, for a pipe."""
    lanes = max((len(sight.lanes) for sight in data.sights), default=0)
    shape = TableShape(width, lanes + 1)
    choice = TopChoice(opened={sight.job.name: True for sight in data.sights})
    everything = sum(1 + len(sight.lanes) for sight in data.sights)
    lines = [line.plain.rstrip() for line in (_heading(data, shape), *_body(data, choice, shape, everything))]
    steps = [(sight.job.name, next_step(sight, data.flags)) for sight in data.sights]
    return [*lines, *(one_line(f" {name}: next: {step}") for name, step in steps if step)]


def _heading(data: TopData, shape: TableShape) -> Text:
    live = [sight for sight in data.sights if sight.live]
    running = sum(sight.state != "paused" for sight in live)
    dead = sum(sight.state == "interrupted" for sight in data.sights)
    parts = [f"{count(running, 'job')} running"]
    parts += [f"{len(live) - running:,} paused"] if len(live) > running else []
    parts += [f"{dead:,} interrupted"] if dead else []
    rate = sum(map(rate_of, live))
    cost = sum(sight.job.cost_usd for sight in live)
    parts += [rate_text(rate)] if rate else []
    parts += [money(cost)] if cost else []
    at = time.strftime("%H:%M:%S", time.localtime(data.utc))
    return _fitted(f"headway top  {at}  {', '.join(parts)}", shape, "bold")


def _body(
    data: TopData, choice: TopChoice, shape: TableShape, room: int, *, with_names: bool = True
) -> list[Text]:
    """The names of the columns, and the rows that are in view."""
    if not data.sights:
        return [_fitted(NO_JOBS, shape, "dim")]
    rows: list[GridRow] = []
    first = last = 0
    for sight, lanes in zip(data.sights, _lane_rooms(data, choice, room), strict=True):
        chosen = sight.job.name == choice.job
        if chosen:
            first = len(rows)
        rows.append(_job_row(sight, data, shape, chosen=chosen))
        rows += _lanes_below(sight, data, shape, lanes)
        if chosen:
            last = len(rows)
    names = ["job, lane", *shape.names[1:-1], "left, cost, waiting for"]
    head, *lines = grid_lines(names, rows, shape.width, NUMBERS, ellipsis=shape.ellipsis)
    start = max(0, min(first, last - room)) if last - first <= room else first
    shown = lines[start : start + room]
    return [head, *shown] if with_names else shown


def _lane_rooms(data: TopData, choice: TopChoice, room: int) -> list[int]:
    """How many rows the lanes of each job get: all if it is opened, none if it is closed, otherwise a fair part of what is left."""
    lanes = [len(sight.lanes) if sight.live else 0 for sight in data.sights]
    wanted = [choice.opened.get(sight.job.name) for sight in data.sights]
    rooms = [count if want else 0 for count, want in zip(lanes, wanted, strict=True)]
    left = room - len(lanes) - sum(rooms)
    others = sorted((lanes[n], n) for n, want in enumerate(wanted) if want is None)
    for place, (count_, n) in enumerate(
        others
    ):  # Those with few lanes leave the rest of their part to the others.
        rooms[n] = min(count_, max(0, left) // (len(others) - place))
        left -= rooms[n]
    return rooms


def shows_all_lanes(data: TopData, choice: TopChoice, height: int) -> bool:
    """Whether all lanes of the chosen job have a row."""
    step = height >= STEP and bool(_step_of(data, choice))
    rooms = _lane_rooms(data, choice, row_room(height) - step)
    return any(
        room >= len(sight.lanes)
        for sight, room in zip(data.sights, rooms, strict=True)
        if sight.job.name == choice.job
    )


def _lanes_below(sight: JobSight, data: TopData, shape: TableShape, room: int) -> list[GridRow]:
    if (view := sight.view) is None or room < 1:
        return []
    history = data.histories.get(sight.job.name)
    rows = lane_rows(view, sight.lanes, msgspec.structs.replace(shape, rows=room), history)
    return [msgspec.structs.replace(row, cells=[f"    {row.cells[0]}", *row.cells[1:]]) for row in rows]


def _job_row(sight: JobSight, data: TopData, shape: TableShape, *, chosen: bool) -> GridRow:
    ended, total = ended_of(sight)
    mark = "> " if chosen else "  "
    if not sight.live:
        text = ", ".join(job_facts(sight, data.resume.get(sight.job.name, "")))
        return GridRow(
            [f"{mark}{sight.job.name}", text], "bold" if chosen else "", {1: _STATES.get(sight.state, "")}
        )
    view = sight.view
    percent = f"{100 * ended // total}%" if total else ""
    facts = job_facts(sight, "")
    cells = {
        "lane": f"{mark}{sight.job.name}",
        "in flight": "" if view is None else f"{view.snapshot.in_flight:,}",
        "left": f"{max(0, total - ended):,}",
        "rate/s": f"{rate_of(sight):.1f}",
        "429s": f"{sight.job.refused:,}",
        OF_LIMIT: _bar(ended, total, shape),
        "limit": f"{percent} of {total:,}, {sight.job.kind}",
        "waiting for": ", ".join([*([] if shape.width >= NARROW else [percent]), *facts]),
    }
    return shape.row(cells, "bold" if chosen else "", {"waiting for": _STATES.get(sight.state, "")})


def _bar(ended: int, total: int, shape: TableShape) -> str:
    full, empty = ("━", "╌") if shape.blocks else ("=", "-")
    filled = shape.use_columns * ended // max(1, total)
    return full * filled + empty * (shape.use_columns - filled)


def _chosen(data: TopData, choice: TopChoice, shape: TableShape, most: int) -> list[Text]:
    """All that is known of the chosen job, in at most so many lines."""
    sight = next((one for one in data.sights if one.job.name == choice.job), None)
    if sight is None:
        return []
    text = one_line(f"{sight.job.name}: {job_line(sight, data.resume.get(choice.job, ''))}")
    lines = textwrap.wrap(text, max(1, shape.width - 1), max_lines=most, placeholder=shape.ellipsis)
    return [_fitted(line, shape, "") for line in lines]


def _step_of(data: TopData, choice: TopChoice) -> str:
    """What to do about the chosen job."""
    sight = next((one for one in data.sights if one.job.name == choice.job), None)
    step = "" if sight is None else next_step(sight, data.flags)
    return f"next: {step}" if step else ""


def _last_line(choice: TopChoice, shape: TableShape) -> Text:
    return _fitted(choice.note or (KEYS if shape.blocks else ASCII_KEYS), shape, "" if choice.note else "dim")


def _fitted(text: str, shape: TableShape, style: str) -> Text:
    line = Text(f" {one_line(text)}".replace("…", shape.ellipsis), style=style, no_wrap=True)
    line.truncate(shape.width, overflow="crop")
    return line
