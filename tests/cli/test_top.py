"""`headway top` on a real terminal (tmux): two jobs, a pause, a process that is killed, and the end by a signal; and its pictures."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.cli.test_live import PATIENCE_S, Screen, screen, view_of

from headway.core.model import Kind
from headway.core.reasons import AccountRefused, Wait, WaitCode
from headway.core.snapshot import LaneView, Snapshot
from headway.display.lanes.limit_use import COLUMN_S, LimitUseHistory, drawn
from headway.display.live import LiveDisplay, frame
from headway.display.top.full_screen import _names
from headway.display.top.top_page import TopChoice, TopData, page_lines, plain_lines
from headway.engine.observer import View
from headway.reports.run_progress import progress_of
from headway.reports.watching.job_watch import JobSight
from headway.stores.records import Job

__all__ = ["screen"]  # A fixture.

MOST_MS = 60.0


def started(screen: Screen, name: str) -> subprocess.Popen[bytes]:
    """A job of its own process, without a terminal."""
    env = {**os.environ, "ALPHA_KEY": "ka", "BETA_KEY": "kb"}
    command = [sys.executable, "-m", "headway", "run", "in.jsonl", "--name", name, "--fresh", "-q"]
    return subprocess.Popen(command, cwd=screen.folder, env=env)


def snapshot_of(screen: Screen) -> dict[str, Any]:
    """What `headway top --json` says of each job."""
    command = [sys.executable, "-m", "headway", "top", "--json"]
    done = subprocess.run(command, cwd=screen.folder, capture_output=True, check=True, timeout=PATIENCE_S)
    return {job["job"]: job for job in json.loads(done.stdout)["jobs"]}


def test_jobs_come_are_steered_and_leave_and_the_terminal_is_as_before(screen: Screen) -> None:
    screen.resize(80, 24)
    screen.run("run", "in.jsonl", "--limit", "2", "-q")
    screen.type("echo before", "Enter")
    screen.until("before")
    screen.run("top")
    screen.until("no job is running", "q quit")
    with started(screen, "one") as first, started(screen, "two") as second:
        try:
            lines = screen.until("one ", "two ", "alpha/x", "beta/x", "2 jobs running", "left")
            assert max(map(len, lines)) <= 80
            screen.type("k", "k", "p")
            screen.until("? y: yes, any other key: no")
            screen.type("n")
            screen.type("p")
            screen.type("y")
            screen.until("1 paused")
            [paused] = [name for name, job in snapshot_of(screen).items() if job["state"] == "paused"]
            screen.type("p", "y")
            screen.until("2 jobs running")
            screen.resize(60, 12)
            screen.until("2 jobs running")
            screen.resize(100, 24)
            second.kill()
            lines = screen.until("1 interrupted", "to go on: headway resume two")
            assert len([line for line in lines if "headway top" in line]) == 1
            assert paused in ("one", "two")
            assert snapshot_of(screen)["two"]["resume"] == "headway resume two"
        finally:
            first.kill()
            second.kill()
    shell = screen._tmux("list-panes", "-F", "#{pane_pid}").strip()
    [pid] = map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
    os.kill(pid, signal.SIGTERM)
    screen.type("echo still-$((40+2))-here", "Enter")
    lines = screen.until("before", "still-42-here")
    assert not any("headway top  " in line for line in lines), "the screen before is back"


def lane(n: int, **changes: Any) -> LaneView:
    """A lane at work; every third is held."""
    wait = Wait(WaitCode.HOLD, 500.0, "quota used up") if n % 3 == 0 else None
    seen = LaneView(
        key=f"lane-{n}", queued=0, delayed=0, remaining=1_000 + n, in_flight=n, started=100 - n, succeeded=9, failed=0,
        refused=n, window=64, rate_per_s=1.5 * n, others=0.0, meters=(), binding="requests per minute",
        used_of_binding=n / 20, wait=wait, eta_s=None,
    )  # fmt: skip
    return msgspec.structs.replace(seen, **changes)


def run_view(lanes: int, at: float = 1_000.0) -> View:
    """A run with so many lanes."""
    seen = tuple(lane(n) for n in range(lanes))
    view = view_of(Snapshot(at, seen, 3, 0, 0, 0, 0, 0, 0, 0.0, 90.0))
    return msgspec.structs.replace(view, names={one.key: one.key for one in seen}, updated_utc=at)


def text_of(renderable: Any, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(renderable)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("width", "height"), [(40, 8), (60, 12), (80, 24), (120, 24), (200, 60)])
def test_twenty_lanes_fit_into_any_terminal_with_those_in_trouble_first(width: int, height: int) -> None:
    lines = text_of(frame(run_view(20), width, height), width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines[2:] if line.startswith(" lane-")]
    held = [name for name in names if int(name.removeprefix("lane-").rstrip("…")) % 3 == 0]
    assert names[: len(held)] == held
    if len(names) < 20:
        assert f"{20 - len(names)} more" in lines[-1], "the others are counted"
        assert "at work" in lines[-1] or width < 80


def test_the_last_minute_of_a_lane_and_a_terminal_without_blocks() -> None:
    history = LimitUseHistory()
    for step, (used, refused) in enumerate([(0.05, 0), (0.5, 0), (1.0, 2), (1.0, 2)]):
        seen = lane(1, used_of_binding=used, refused=refused)
        view = run_view(0, at=900.0 + step * COLUMN_S)
        history.note(
            msgspec.structs.replace(view, snapshot=msgspec.structs.replace(view.snapshot, lanes=(seen,)))
        )
    marks = history.marks("lane-1", 6)
    assert drawn(marks, blocks=True) == "  ▁▄██"
    assert [mark.refused for mark in marks] == [False, False, False, False, True, False]
    assert drawn(marks, blocks=False) == "  _-##"
    picture = text_of(frame(run_view(20), 80, 24, (), history, blocks=False), 80, 24)
    assert "".join(picture[1:]).isascii()


def test_a_picture_costs_the_run_little() -> None:
    """About 2 ms with 20 lanes on a quiet machine; it is drawn twice a second on the loop of the run."""
    display = LiveDisplay(Console(width=120, height=50, file=io.StringIO(), force_terminal=True))
    job = Job(1, "job", "batch", "running", "", "", {}, {}, {}, "", 10, 0, dict.fromkeys(("succeeded", "cached"), 0), 0, 0, 0, 0, 0.0, 0.0)  # fmt: skip
    display.began(job, [])
    views = [run_view(20, at=1_000.0 + n) for n in range(50)]
    began = time.process_time()
    for view in views:
        display.moved(view)
    took_ms = 1_000.0 * (time.process_time() - began) / len(views)
    display.close()
    assert took_ms < MOST_MS


def sight(name: str, lanes: int, **changes: Any) -> JobSight:
    """A job as `top` sees it."""
    counts = dict.fromkeys(("succeeded", "failed", "timed_out", "cached", "skipped", "cancelled"), 0)
    job = Job(1, name, "batch", "running", "", "", {}, {}, {}, "", 10, 0, counts, 0, 0, 0, 0, 0.0, 0.0)
    progress = msgspec.structs.replace(progress_of(run_view(lanes)), job=name)
    return msgspec.structs.replace(JobSight(job, "running", True, 0.0, progress), **changes)


@pytest.mark.parametrize(
    ("wait", "step"),
    [
        (Wait(WaitCode.HOLD, 500.0, "quota used up"), "it goes on by itself; if the limit is gone already: headway lanes --reopen lane-1 --db x.db"),
        (Wait(WaitCode.STOPPED, stop=AccountRefused(Kind.AUTH, "bad key")), "check the key and the model ('headway doctor'), then: headway lanes --reopen lane-1 --db x.db"),
        (Wait(WaitCode.BREAKER, 500.0, "503"), "it goes on as soon as a test request succeeds; 'headway doctor' checks the provider"),
        (Wait(WaitCode.BUDGET), "raise the budget: headway budget one USD --db x.db"),
        (Wait(WaitCode.PACE, 500.0, "requests per minute"), ""),
    ],
)  # fmt: skip
def test_a_lane_in_trouble_says_what_to_do(wait: Wait, step: str) -> None:
    view = run_view(0)
    view = msgspec.structs.replace(
        view,
        snapshot=msgspec.structs.replace(view.snapshot, lanes=(lane(1, wait=wait), lane(2))),
        names={"lane-1": "lane-1", "lane-2": "lane-2"},
    )
    progress = msgspec.structs.replace(progress_of(view), job="one")
    data = TopData([sight("one", 0, progress=progress)], {}, {}, 0.0, "--db x.db")
    text = [line.plain.strip() for line in page_lines(data, TopChoice("one"), 200, 24, blocks=True)]
    assert [line for line in text if line.startswith("next: ")] == ([f"next: lane-1: {step}"] if step else [])
    plain = [line for line in plain_lines(data, 200) if "next: " in line]
    assert plain == ([f" one: next: lane-1: {step}"] if step else [])


@pytest.mark.parametrize("width", [20, 50, 80, 200])
@pytest.mark.parametrize("height", [1, 3, 8, 24, 60])
def test_a_page_is_never_larger_than_its_terminal(width: int, height: int) -> None:
    sights = [
        sight("one\n\x1b[31m", 20),
        sight("two", 2),
        sight("dead", 0, live=False, state="interrupted", progress=None),
    ]
    data = TopData(sights, {"dead": "headway resume dead"}, {}, 0.0)
    for opened in ({}, {"two": True, sights[0].job.name: True}, {"two": False}):
        for chosen in ("two", "dead"):
            lines = page_lines(data, TopChoice(chosen, dict(opened)), width, height, blocks=True)
            assert len(lines) <= height
            assert max(line.cell_len for line in lines) <= width
            text = "\n".join(line.plain for line in lines)
            assert "\x1b" not in text
            assert f"> {chosen}" in text or height < 8 or width < 50, "the chosen job is in view"


def test_keys_are_known_one_by_one_and_in_a_burst() -> None:
    assert _names(b"\x1b[A\x1bOBjkq") == ["up", "down", "down", "up", "quit"]
    assert _names(b"\r") == ["enter"]
    assert _names(b"\x1b[200~") == ["other"]
