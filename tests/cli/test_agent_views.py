"""Agents in the live view, and their conversations: folded, in full, while they run, and line by line."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.cli.test_live import Screen, screen
from tests.crash.stage import PATIENCE_S, Stage, wait_for

from headway.core.model import AccountWindow
from headway.core.snapshot import LaneView, Snapshot
from headway.display.agents.conversation_text import conversation_lines, message_lines
from headway.display.live import frame
from headway.engine.observer import AgentActivity, View
from headway.fake.process import FakeProcess
from headway.reports.run_progress import Progress, progress_of
from headway.reports.watched_run import WatchedAgents, view_of

__all__ = ["screen"]  # The fixture.

# -- rows ---------------------------------------------------------------------------------------------------------------


def agent(number: int, **more: Any) -> AgentActivity:
    facts = {
        "turn": 3,
        "tool": "Edit",
        "tokens": 4_200,
        "cost_usd": 0.12,
        "started_utc": 1_000.0 + number,
        **more,
    }
    return AgentActivity(number, f"fix-{number}", "claude/opus", **facts)


def view_of_lanes() -> View:
    """A run of twenty units on one lane, at the instant 1,100."""
    counts = dict.fromkeys(("succeeded", "failed", "timed_out", "cached", "skipped", "cancelled"), 0)
    lane = LaneView(
        key="a", queued=0, delayed=0, remaining=9, in_flight=11, started=11, succeeded=0, failed=0,
        refused=0, window=20, rate_per_s=1.0, others=0.0, meters=(), binding="concurrency",
        used_of_binding=0.5, wait=None, eta_s=None,
    )  # fmt: skip
    seen = Snapshot(1_100.0, (lane,), 11, 0, 11, 0, 0, 0, 9, 0.0, None)
    return View("job", 20, counts, 0, 0, 0, 0, None, 1.0, 1_100.0, 1_000.0, seen, {"a": "a"}, 0.0)


def drawn(agents: list[AgentActivity], width: int = 100, height: int = 24) -> list[str]:
    view = view_of_lanes()
    file = io.StringIO()
    console = Console(width=width, height=height, file=file, force_terminal=True, color_system=None)
    console.print(frame(view, width, height, agents))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def rows_of(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.lstrip().startswith(("fix-", "and "))]


def test_agents_have_rows_with_the_oldest_first() -> None:
    rows = rows_of(drawn([agent(2), agent(1, tool="Bash", turn=12), agent(3, tokens=0, cost_usd=0.0)]))
    assert rows == [
        "fix-1 12 Bash 4,200 $0.1200 99 s",
        "fix-2 3 Edit 4,200 $0.1200 98 s",
        "fix-3 3 Edit 97 s",
    ]


def test_further_agents_share_a_row_with_their_sums() -> None:
    rows = rows_of(drawn([agent(number) for number in range(20)]))
    assert len(rows) == 8
    assert rows[-1] == "and 13 more 54,600 $1.56"


@pytest.mark.parametrize("height", [5, 8, 10, 14])
def test_the_view_fits_a_low_terminal(height: int) -> None:
    lines = drawn([agent(number) for number in range(20)], height=height)
    assert len(lines) <= max(height, 6)


def test_text_of_agents_cannot_control_the_terminal() -> None:
    lines = drawn([agent(1, tool="\x1b[31mred\nline")])
    assert not any("\x1b[31m" in line for line in lines)
    assert any("\\x1b[31mred" in line for line in lines)


def test_the_windows_of_a_subscription_are_in_the_row_of_the_lane() -> None:
    windows = (
        AccountWindow("five_hour", 0.82, 2_000.0),
        AccountWindow("seven_day", None, 9_000.0, "rejected"),
        AccountWindow("day", 0.5, 1_050.0),  # It has begun anew.
    )
    view = view_of_lanes()
    lane = msgspec.structs.replace(view.snapshot.lanes[0], windows=windows)
    view = msgspec.structs.replace(view, snapshot=msgspec.structs.replace(view.snapshot, lanes=(lane,)))
    for shown in (view, view_of(progress_of(view))):
        file = io.StringIO()
        Console(width=140, file=file, force_terminal=True, color_system=None).print(frame(shown, 140, 24))
        assert "five hours 82%, seven days used up" in file.getvalue()


def test_no_agents_no_rows() -> None:
    assert not any("agent" in line for line in drawn([]))


def test_agents_reach_another_process_by_the_progress_file() -> None:
    view = view_of_lanes()
    first: Progress = progress_of(view, [agent(2), agent(1)])
    assert [one.unit for one in first.agents] == ["fix-1", "fix-2"]
    watched = WatchedAgents()
    assert [(one.unit, one.turn, one.is_over) for one in watched.changes(first)] == [
        ("fix-1", 3, False),
        ("fix-2", 3, False),
    ]
    later = list(watched.changes(progress_of(view, [agent(2, turn=4)])))
    assert [(one.unit, one.turn, one.is_over) for one in later] == [("fix-1", 3, True), ("fix-2", 4, False)]
    again = view_of(first)
    assert (again.total, again.counts, again.ended) == (view.total, view.counts, view.ended)
    assert [lane.in_flight for lane in again.snapshot.lanes] == [
        lane.in_flight for lane in view.snapshot.lanes
    ]
    assert progress_of(again).lanes == first.lanes


# -- conversations ----------------------------------------------------------------------------------------------------


def call(name: str, arguments: object, number: str = "t1") -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": number, "name": name, "arguments": arguments}]}


def result(content: object, number: str = "t1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": content}


def test_a_tool_call_is_one_line_with_the_first_line_of_its_result() -> None:
    lines = conversation_lines(
        [
            {"role": "user", "content": "fix it"},
            {"role": "assistant", "content": "First\nI look."},
            call("Bash", {"command": "ls -l " + "x" * 200}),
            result("total 3\na.py\nb.py"),
            call("Edit", {"file_path": "a.py", "old": "1"}, "t2"),
            result([{"type": "text", "text": "done"}], "t2"),
            call("Wait", None, "t3"),
            {"role": "event", "content": {"type": "new"}},
        ]
    )
    assert lines[:3] == ["user: fix it", "assistant: First", "  I look."]
    assert lines[3].startswith("▸ Bash(ls -l xxx")
    assert lines[3].endswith("…) → total 3 (+2 lines)")
    assert lines[4:] == ["▸ Edit(file_path=a.py, old=1) → done", "▸ Wait()", 'event: {"type":"new"}']


def test_unfolded_calls_have_all_arguments_and_results() -> None:
    lines = conversation_lines([call("Edit", {"a": 1}), result("one\ntwo")], unfold=True)
    assert lines == ["▸ Edit", "  {", '    "a": 1', "  }", "  → one", "    two"]


def test_a_conversation_that_goes_on_has_the_result_below_its_call() -> None:
    messages = [call("Bash", {"command": "ls"}), result("")]
    assert [line for message in messages for line in message_lines(message)] == [
        "▸ Bash(ls)",
        "  → (nothing)",
    ]


@pytest.mark.parametrize(
    "message",
    [
        "text",
        None,
        3,
        {},
        {"role": 7},
        {"tool_calls": [1, {}]},
        {"role": "tool"},
        {"role": "tool", "tool_call_id": ["a"]},
        {"tool_calls": [{"id": {}}]},
    ],
)
def test_messages_of_any_shape_are_shown(message: object) -> None:
    assert conversation_lines([message])


# -- as a user sees it ------------------------------------------------------------------------------------------------

INIT = '{"type":"system", "subtype":"init","session_id":"S"}'
LOOK = (
    '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1",'
    '"name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":1200,"output_tokens":34}}}'
)
FOUND = '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a.py\\nb.py \\u001b[31m"}]}}'
RESULT = (
    '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Done.","session_id":"S",'
    '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":3}}'
)


def say(*lines: str) -> str:
    return "\n".join(f"cat <<'END'\n{line}\nEND" for line in lines)


def agents_at(folder: Path, units: int = 1) -> Stage:
    """A job `j` whose agents wait for the file `go` after their first tool call."""
    program = folder / "agent"
    wait = "until test -e go; do sleep 0.02; done"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{say(INIT, LOOK)}\n{wait}\n{say(FOUND, RESULT)}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (folder / "headway.toml").write_text(
        f'[providers.a]\nkind = "claude"\ncommand = ["{program}"]\npreflight = "none"\npermission_mode = "plan"\n'
        f"[providers.a.limits]\nmax_concurrency = {units}\n"
    )
    stage = Stage(folder, FakeProcess("", 0, 0), "agents", units)
    stage.write_input([{"id": f"fix-{n}", "prompt": "do it"} for n in range(units)])
    return stage


def printed(stage: Stage) -> int:
    try:
        return int(stage.query("SELECT count(*) FROM transcripts")[0][0])
    except Exception:
        return 0


def test_a_conversation_is_followed_until_the_unit_ends(tmp_path: Path) -> None:
    stage = agents_at(tmp_path)
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        wait_for("the first lines", lambda: stage.db.exists() and printed(stage) == 2)
        assert "attempt 1, running" in stage.run("show", "j", "fix-0").stdout
        with stage.process("show", "j", "fix-0", "--follow") as shown:
            assert shown.stdout is not None
            first = [shown.stdout.readline() for _ in range(3)]
            assert first == ["attempt 1:\n", "  assistant: I look.\n", "  ▸ Bash(ls)\n"]
            (tmp_path / "go").touch()
            rest, err = shown.communicate(timeout=PATIENCE_S)
        assert (shown.returncode, err) == (0, "")
        run.communicate(timeout=PATIENCE_S)
    assert rest.splitlines() == ["    → a.py (+1 line)", "fix-0: succeeded"]
    folded = stage.run("show", "j", "fix-0").stdout
    assert "      ▸ Bash(ls) → a.py (+1 line)\n" in folded
    whole = stage.run("show", "j", "fix-0", "-v").stdout
    assert "\x1b" not in whole
    assert '"command": "ls"' in whole
    assert "b.py" in whole


def test_raw_lines_are_those_of_the_cli_byte_for_byte(tmp_path: Path) -> None:
    stage = agents_at(tmp_path)
    (tmp_path / "go").touch()
    assert stage.run("run", "in.jsonl", "--name", "j", "-q").returncode == 0
    assert stage.run("show", "j", "fix-0", "--raw").stdout == "".join(
        f"{line}\n" for line in (INIT, LOOK, FOUND, RESULT)
    )
    lines = stage.run("show", "j", "fix-0", "--follow", "--json").stdout.splitlines()
    told = [json.loads(line) for line in lines]
    assert [one["attempt"] for one in told] == [1, 1, 1, 1]
    assert told[1]["messages"][0] == {"role": "assistant", "content": "I look."}
    both = stage.run("show", "j", "fix-0", "--raw", "--json")
    assert (both.returncode, both.stderr) == (
        2,
        "headway: --raw and --json do not go together — leave one of them out\n",
    )


def test_agents_are_in_the_live_view_of_the_run_and_of_another_terminal(
    tmp_path: Path, screen: Screen
) -> None:
    agents_at(tmp_path, units=3)
    screen.run("run", "in.jsonl", "--name", "j")
    here = screen.until("agent", "last tool", "fix-0", "fix-2", "1,234")
    row = next(" ".join(line.split()) for line in here if line.strip().startswith("fix-1"))
    assert row.startswith("fix-1 1 Bash 1,234")
    progress = json.loads((tmp_path / ".headway" / "jobs" / "j" / "progress.json").read_text())
    assert [one["unit"] for one in progress["agents"]] == ["fix-0", "fix-1", "fix-2"]
    (tmp_path / "go").touch()
    screen.until("3 of 3 succeeded")


def test_attach_shows_the_same_agents(tmp_path: Path, screen: Screen) -> None:
    agents_at(tmp_path, units=3)
    screen.run("run", "in.jsonl", "--name", "j", "--detach")
    screen.until("runs in the background")
    screen.type("clear", "Enter")
    screen.run("attach")
    screen.until("agent", "last tool", "fix-0", "fix-2", "Bash", "1,234")
    (tmp_path / "go").touch()
    screen.until("done: 3 of 3 succeeded", "$0.75")
    assert not any("last tool" in line for line in screen.lines())
