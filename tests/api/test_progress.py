"""The bar of a map: on a real terminal, interrupted and broken; in a notebook; and without a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.drive import Run, units

import headway
from headway.api import wait_messages as waits_of
from headway.api.progress_bar import lanes_held, lanes_waiting
from headway.core.reasons import Wait, WaitCode
from headway.display.bar import Frame, NotebookBar, figures, wait_lines
from headway.testing import VirtualLoop

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


Process = subprocess.Popen[bytes]


def on_a_terminal(
    code: str, *acts: tuple[str, Callable[[Process], object]], stdout: int | None = None
) -> tuple[int, str]:
    """Run a program whose stderr is a terminal. Each act is done once its text shows, after that of the one before."""
    primary, secondary = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "20"}
    environ.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=secondary,
        stdout=secondary if stdout is None else stdout,
        stderr=secondary,
        env=environ,
        start_new_session=True,
    )
    os.close(secondary)
    try:
        seen = _watched(primary, process, list(acts))
        return process.wait(30), seen
    finally:
        process.kill()
        process.wait()
        os.close(primary)


def _watched(terminal: int, process: Process, acts: list[tuple[str, Callable[[Process], object]]]) -> str:
    """Everything that is written until the terminal is closed."""
    seen = ""
    known = 0
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says it so.
            return seen
        if not piece:
            return seen
        seen += piece.decode(errors="replace")
        while acts and (at := seen.find(acts[0][0], known)) >= 0:
            text, act = acts.pop(0)
            known = at + len(text)
            act(process)


def interrupt(process: Process) -> None:
    process.send_signal(signal.SIGINT)


def test_the_bar_shows_progress_and_waits_and_prints_appear_above_it() -> None:
    code = """
import asyncio, headway
async def call(n):
    if n == 3 and not waited:
        waited.append(n)
        raise headway.RateLimited(retry_after=1.2, reason="slow down")
    if n == 3:
        print("printed by a call")
    if n == 1:
        raise ValueError("no")
    await asyncio.sleep(0.01)
waited = []
headway.map(call, range(4), limits=headway.Limits(max_concurrency=1), progress=True, on_error="return")
print("after")
"""
    exit_code, seen = on_a_terminal(code)
    assert exit_code == 0
    assert "calls waits" in seen
    assert "retry-after" in seen or "backoff" in seen
    assert "4/4  1 failed" in seen
    assert "printed by a call" in seen
    assert seen.rindex(SHOWN) > seen.rindex(HIDDEN)
    assert seen.rstrip().endswith("after")


def test_a_short_run_has_no_bar() -> None:
    code = """
import headway, sys
from headway.api import progress_bar
progress_bar.PATIENCE_S = 60.0  # What is short is not for a busy machine to say.
headway.map(str, range(99))
print('rich' in sys.modules)
"""
    exit_code, seen = on_a_terminal(code)
    assert (exit_code, seen.strip()) == (0, "False")


def test_a_long_run_has_a_bar_and_redirected_output_goes_to_its_file() -> None:
    code = "import headway, time; headway.map(lambda n: (time.sleep(1.5), print('out')), [1])"
    read, write = os.pipe()
    _, seen = on_a_terminal(code, stdout=write)
    os.close(write)
    with os.fdopen(read) as piped:
        assert piped.read() == "out\n"
    assert "1/1" in seen
    assert "out\n" not in seen


@pytest.mark.parametrize("in_a_loop", [False, True])
@pytest.mark.parametrize("gently", [True, False])
def test_an_interruption_restores_the_terminal(gently: bool, in_a_loop: bool, tmp_path: Path) -> None:
    """Once, or until it ends; on a loop of its own, and from inside another one, where it has a thread."""
    code = """
import asyncio, headway, pathlib, sys
async def call(n):
    try:
        while not pathlib.Path("GO").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        print("called off")
        await asyncio.sleep(600)
async def inside():
    headway.map(call, range(2), progress=True)
try:
    asyncio.run(inside()) if LOOP else headway.map(call, range(2), progress=True)
except KeyboardInterrupt:
    print("interrupted", sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
"""
    go = tmp_path / "go"
    code = code.replace("GO", str(go)).replace("LOOP", str(in_a_loop))
    if gently:
        acts = [("2 in flight", interrupt), ("Ctrl-C again cancels", lambda _: go.touch())]
    else:
        acts = [("2 in flight", interrupt), ("Ctrl-C again cancels", interrupt), ("called off", interrupt)]
    exit_code, seen = on_a_terminal(code, *acts)
    assert exit_code == 0, seen
    assert "interrupted True True" in seen
    assert seen.rindex(SHOWN) > seen.rindex(HIDDEN)


def test_an_error_restores_the_terminal() -> None:
    code = """
import headway
def items():
    yield 1
    raise OSError("the file is gone")
headway.map(str, items(), progress=True)
"""
    exit_code, seen = on_a_terminal(code)
    assert exit_code == 1
    assert "the file is gone" in seen[seen.rindex(SHOWN) :]


def test_without_a_terminal_nothing_is_written_unless_progress_is_true() -> None:
    def told(progress: bool | None) -> str:
        code = f"import headway, time; headway.map(lambda _: time.sleep(1.1), [1], progress={progress})"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr

    assert told(None) == ""
    assert told(False) == ""
    assert "1/1" in told(True)
    assert "\x1b" not in told(True)


HELD = """
import headway, sys
def call(n):
    if n in LIMITED:
        raise headway.RateLimited(retry_after=LIMITED[n], reason=f"the account of {n} is at its limit")
    return n
LIMITED = {"north": 3600, "south": 5}
headway.map(call, ["north", "south", "west"], lane=str, max_duration="2500ms", on_error="return", progress=PROGRESS)
"""


@pytest.mark.parametrize("progress", [None, True, False])
def test_without_a_terminal_a_long_wait_is_reported_once(progress: bool | None) -> None:
    """The run checks at least twice before its deadline ends it; a wait of seconds is not reported."""
    code = HELD.replace("PROGRESS", str(progress))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [text for text in ran.stderr.splitlines() if text.startswith("headway: ")]
    assert ran.stdout == ""
    if progress is False:
        assert lines == []
        return
    (told,) = lines
    assert re.fullmatch(
        r"headway: north waits (1h 00m|59m \d\ds), until [-\d :]+: .*the account of north is at its limit",
        told,
    )


def test_the_last_frame_names_the_lanes_that_were_held() -> None:
    run = Run(units(3))
    run.held(128.0, "You've hit your limit · resets 4pm").at(5.0)
    run.at(128.0)
    told = wait_lines(Frame(3, 3, 0, 0, 1, 130, holds=lanes_held(run.seen(130.0))))
    assert told == ["a was held 2m 03s: You've hit your limit · resets 4pm"]
    assert lanes_held(Run(units(3)).seen(0.0)) == ()


def test_a_slow_pace_is_reported_once_and_every_hold_separately(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a minute of virtual time, over what a run would show."""
    monkeypatch.setattr(waits_of, "LOOK_S", 5.0)
    shown: list[tuple[str, Wait | None]] = []

    class Looked:
        @property
        def lanes(self) -> Any:
            now = asyncio.get_running_loop().time()
            due = 60.0 * (now // 60.0 + 1)
            views = {
                "slow": Wait(WaitCode.PACE, due, "requests per minute"),
                "held": Wait(WaitCode.HOLD, due, "out of quota") if now % 60 < 40 else None,
                "short": Wait(WaitCode.RETRY_AFTER, now + 9.0),
                "busy": Wait(WaitCode.CONCURRENCY, limit=4),
                "done": None,
            }
            shown.extend(views.items())
            lanes = [
                SimpleNamespace(key=key, wait=wait, remaining=1, in_flight=0) for key, wait in views.items()
            ]
            return SimpleNamespace(at=now, lanes=lanes)

    async def watched() -> None:
        waits = waits_of.WaitMessages(Looked())
        await asyncio.sleep(178)
        waits.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(watched())
    lines = capsys.readouterr().err.splitlines()
    assert len(shown) > 100
    assert [text.split()[1] for text in lines].count("slow") == 1
    assert 3 <= [text.split()[1] for text in lines].count("held") <= 4
    assert {text.split()[1] for text in lines} == {"slow", "held"}


def test_a_closed_terminal_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = open(os.devnull)  # noqa: SIM115 - it must be closed
    broken.close()
    monkeypatch.setattr(sys, "stderr", broken)
    for progress in (True, None, False):
        assert headway.map(str, [1, 2], progress=progress) == ["1", "2"]


FRAME = Frame(done=120, total=500, failed=2, in_flight=16, rate_per_s=41.66, elapsed_s=2.9)


def test_the_figures() -> None:
    assert figures(FRAME) == "120/500  2 failed  16 in flight  41.7/s  2.9 s"
    assert figures(Frame(7, None, 0, 0, 1, 70)) == "7  1.0/s  70 s"


def test_what_lanes_wait_for() -> None:
    told = (
        ("a", "retry-after", 12.0),
        ("b", "concurrency: 4 in flight", None),
        ("c", "x", 0.2),
        ("d", "y", 9.0),
    )
    frame = Frame(0, None, 0, 0, 0, 0, told)
    assert wait_lines(frame) == [
        "a waits 12 s: retry-after",
        "b waits: concurrency: 4 in flight",
        "… 2 more lanes wait",
    ]
    assert wait_lines(Frame(0, None, 0, 0, 0, 0, told[2:])) == ["c waits: x", "d waits 9.0 s: y"]


def test_a_notebook_has_one_output_that_is_replaced() -> None:
    shown: list[tuple[str, dict[str, str]]] = []

    class Handle:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            shown.append(("updated", data))

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(("made", data))
        return Handle()

    asked: Callable[..., Any] = display
    bar = NotebookBar(asked)
    bar.show(FRAME)
    bar.show(Frame(500, 500, 0, 0, 1, 9, (("<b>", "y", None),)))
    bar.close()
    assert [what for what, _ in shown] == ["made", "updated"]
    assert shown[0][1]["text/plain"] == figures(FRAME)
    assert "<progress max='500' value='500'>" in shown[1][1]["text/html"]
    assert "&lt;b&gt;" in shown[1][1]["text/html"]


def test_a_lane_that_is_busy_does_not_wait() -> None:
    def lane(wait: Wait) -> SimpleNamespace:
        return SimpleNamespace(key="calls", wait=wait, remaining=5, in_flight=10)

    waits = [
        Wait(WaitCode.CONCURRENCY, limit=10),
        Wait(WaitCode.GLOBAL_CAP, limit=10),
        Wait(WaitCode.RETRY_AFTER, 3.0),
    ]
    view: Any = SimpleNamespace(at=1.0, lanes=[lane(wait) for wait in waits])
    assert lanes_waiting(view) == (("calls", "retry-after", 2.0),)
