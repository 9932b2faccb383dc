"""The nodes of a flow while it runs: rows of the live view, lines, JSON, `progress.json` and back."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from headway.core.reasons import Wait, WaitCode
from headway.core.snapshot import LaneView, Snapshot
from headway.display.flows.node_text import approve_text
from headway.display.json_lines import JsonDisplay
from headway.display.live import frame
from headway.display.log_file import LogFile
from headway.display.plain import PlainDisplay, progress_line
from headway.engine.observer import PartProgress, View
from headway.reports.flows.node_progress import (
    MOST_WRITTEN,
    PartChanges,
    counts_at_end,
    most_urgent,
    parts_of,
)
from headway.reports.run_progress import Progress, progress_fields
from headway.reports.watched_run import view_of
from headway.stores.records import Job

NODES = (
    PartProgress("fetch", "success", total=1, succeeded=1, cost_usd=0.01, kind="tool"),
    PartProgress(
        "review", "running", total=12, succeeded=6, failed=1, running=3, cost_usd=0.25, kind="agent"
    ),
    PartProgress("lint", "failed", total=1, failed=1, note="exit code 2\x1b[31m", kind="tool"),
    PartProgress("gate", "waiting", total=1, kind="human", waiting=("gate",)),
    PartProgress("merge", "pending", kind="agent"),
    PartProgress("report", "skipped", note="lint failed", kind="agent"),
)


def view(parts: Sequence[PartProgress] = NODES, wait: Wait | None = None) -> View:
    lane = LaneView(
        "k", 3, 0, 5, 3, 12, 7, 1, 2, None, 1.5, 0.0, (), "", 0.0, wait, None,
    )  # fmt: skip
    seen = Snapshot(100.0, (lane,), 3, 0, 12, 7, 1, 2, 5, 0.0, 10.0)
    counts = {"succeeded": 7, "failed": 2, "timed_out": 0, "cached": 0, "skipped": 0, "cancelled": 0}
    return View(
        "flow-1", 15, counts, 12, 2, 0, 0, 0.26, 8.0, 1_000.0, 992.0, seen, {"k": "alpha/m"}, 900.0, parts=tuple(parts),
        part_lanes={"review": "k"},
    )  # fmt: skip


def drawn(shown: View, width: int = 110, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(frame(shown, width, height))
    return [line.rstrip() for line in capture.get().splitlines()]


HELD = Wait(WaitCode.HOLD, 160.0, "resets at 8pm")


def test_each_node_has_its_items_its_cost_and_what_it_waits_for() -> None:
    lines = drawn(view(wait=HELD))
    by_name = {line.split()[1]: line for line in lines if len(line.split()) > 1}
    assert "7/12, 1 failed" in by_name["review"]
    assert "$0.2500" in by_name["review"]
    assert "resets at 8pm" in by_name["review"]
    assert "exit code 2" in by_name["lint"]
    assert "\x1b" not in by_name["lint"]
    assert "headway approve flow-1 gate" in by_name["gate"]
    assert "lint failed" in by_name["report"]
    assert [line.split()[1] for line in lines[2:8]] == [node.name for node in NODES], (
        "few nodes keep their order"
    )


@pytest.mark.parametrize("width", [30, 60, 80, 110])
def test_it_fits_into_every_terminal(width: int) -> None:
    many = [*NODES, *(PartProgress(f"node-{n}", "running", total=3) for n in range(100))]
    for height in (8, 12, 24, 50):
        lines = drawn(view(many), width, height)
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)


def test_of_many_nodes_those_that_matter_are_shown() -> None:
    done = [PartProgress(f"done-{n}", "success", total=1, succeeded=1) for n in range(9_000)]
    waiting = [PartProgress(f"later-{n}", "pending") for n in range(900)]
    lines = drawn(view([*done, *waiting, *NODES]))
    text = "\n".join(lines)
    assert all(name in text for name in ("review", "lint", "gate"))
    assert text.index("gate") < text.index("review") < text.index("lint")
    assert "more: " in text
    assert "9,001 done" in text


def test_ten_thousand_nodes_take_a_few_milliseconds() -> None:
    many = view([PartProgress(f"n{n}", "success", total=1, succeeded=1) for n in range(10_000)])
    changes = PartChanges()
    list(changes.news(many.parts))
    began = time.process_time()
    for _ in range(10):
        assert list(changes.news(many.parts)) == []
        most_urgent(many.parts, 20)
        progress_fields(many)
    assert (time.process_time() - began) / 10 < 0.05


def test_a_line_of_progress_counts_the_nodes() -> None:
    assert "6 nodes: 1 waits for you, 1 running, 1 failed, 1 pending, 1 done, 1 skipped" in progress_line(
        view()
    )


def test_lines_say_which_nodes_have_changed() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, interval_s=1_000.0)
    display.moved(view(NODES))
    display.moved(view(NODES))
    display.moved(view([msgspec.structs.replace(NODES[1], status="success", succeeded=11), *NODES[2:4]]))
    lines = [line[10:] for line in stream.getvalue().splitlines()]
    assert lines == [
        "node review: running, 7/12, 1 failed, $0.2500",
        "node lint: failed, 1/1, 1 failed — exit code 2\\x1b[31m",
        "node gate: waits for you, 0/1 — headway approve flow-1 gate",
        "node review: done, 12/12, 1 failed, $0.2500",
    ]


def test_nodes_that_were_quick_have_a_line_in_the_first_run(tmp_path: Path) -> None:
    counts = dict.fromkeys(("succeeded", "cached"), 0)
    job = Job(1, "flow-1", "flow", "running", "", "", {}, {}, {}, "", 1, 1, counts, 0, 0, 0, 0, 0.0, 0.0)
    stream = io.StringIO()
    with_log = (PlainDisplay(stream, interval_s=1_000.0), LogFile(tmp_path / "run.log"))
    for display in with_log:
        display.began(job, [])
        display.moved(view(NODES[:1]))
        display.close()
    assert stream.getvalue().rstrip().endswith("node fetch: done, 1/1, $0.0100")
    assert (tmp_path / "run.log").read_text().rstrip().endswith("node fetch: done, 1/1, $0.0100")


def test_many_nodes_at_once_share_a_line() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, interval_s=1_000.0)
    display.moved(view([PartProgress(f"n{n}", "running") for n in range(60)]))
    [line] = stream.getvalue().splitlines()
    assert line.endswith("60 nodes running: n0, n1, n2, n3, n4 and 55 more")


def test_lines_of_json_have_the_nodes_that_have_changed() -> None:
    stream = io.StringIO()
    display = JsonDisplay(stream)
    display.moved(view())
    display.moved(view())
    display.moved(view([msgspec.structs.replace(NODES[0], succeeded=0), *NODES[1:]]))
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert first["nodes"]["review"] == {
        "status": "running", "total": 12, "succeeded": 6, "failed": 1, "running": 3, "cost_usd": 0.25, "kind": "agent",
        "lane": "alpha/m",
    }  # fmt: skip
    assert "nodes" not in second
    assert list(third["nodes"]) == ["fetch"]
    assert second["node_counts"] == {
        "waiting": 1, "running": 1, "failed": 1, "pending": 1, "success": 1, "skipped": 1,
    }  # fmt: skip


def test_another_terminal_sees_the_same_nodes() -> None:
    written = msgspec.json.encode(progress_fields(view()))
    seen = view_of(msgspec.json.decode(written, type=Progress))
    assert (seen.parts, seen.part_lanes, seen.more_parts) == (NODES, {"review": "alpha/m"}, {})


def test_the_file_of_progress_has_the_nodes_that_matter() -> None:
    many = view([*(PartProgress(f"n{n}", "success") for n in range(1_000)), *NODES])
    progress = msgspec.convert(progress_fields(many), Progress)
    assert len(progress.nodes) == MOST_WRITTEN
    assert "review" in progress.nodes
    seen = view_of(progress)
    assert sum(seen.more_parts.values()) == 1_006 - MOST_WRITTEN
    assert "806 more" in "\n".join(drawn(view_of(progress), height=MOST_WRITTEN + 40))


def test_a_batch_has_no_nodes() -> None:
    assert not {"nodes", "node_counts"} & set(progress_fields(view(())))
    assert "node" not in "\n".join(drawn(view(())))
    assert parts_of({}) == ()


def test_what_to_type_is_quoted_for_the_shell() -> None:
    assert approve_text("j", "gate", ["gate[0]", "gate[1]", "gate[2]", "gate[3]"]) == (
        "headway approve j 'gate[0]'; headway approve j 'gate[1]'; headway approve j 'gate[2]' and 1 more"
    )
    assert approve_text("j", "gate", ()) == "headway approve j gate"


def test_the_bar_counts_items_that_have_no_units_yet() -> None:
    """A for_each of 60 adds its units a few at a time; the bar was at a third, with one second left, when a tenth was done."""
    parts = [
        PartProgress("review", "running", total=60, succeeded=7, kind="agent"),
        PartProgress("inner", "running", total=60, succeeded=7, kind="flow"),
    ]
    shown = msgspec.structs.replace(view(parts), snapshot=msgspec.structs.replace(view().snapshot, eta_s=5.0))
    first = drawn(shown)[0]
    assert "9/60" in first
    assert "left" not in first
    line = progress_line(shown)
    assert line.startswith("9/60 (15%)")
    assert "left" not in line


def test_the_time_left_is_shown_when_every_unit_is_there() -> None:
    parts = [
        PartProgress("fetch", "success", total=3, succeeded=3, kind="tool"),
        PartProgress("review", "running", total=12, succeeded=6, kind="agent"),
    ]
    shown = msgspec.structs.replace(view(parts), snapshot=msgspec.structs.replace(view().snapshot, eta_s=5.0))
    assert "9/15" in drawn(shown)[0]
    assert "5.0 s left" in drawn(shown)[0]
    assert "about 5.0 s left" in progress_line(shown)


def test_nothing_runs_when_a_run_has_ended() -> None:
    parts = (*NODES, PartProgress("next", "ready", kind="agent"))
    assert counts_at_end(parts) == {
        "waiting": 1, "failed": 1, "interrupted": 1, "pending": 2, "success": 1, "skipped": 1,
    }  # fmt: skip
