"""The live view on a real terminal (tmux): drawn, resized, interrupted once and twice, resumed."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from headway.core.reasons import Wait, WaitCode
from headway.core.snapshot import LaneView, Snapshot
from headway.display.live import frame
from headway.display.plain import progress_line, rate_text
from headway.engine.observer import View
from headway.fake.process import fake_process

PATIENCE_S = 20.0
TMUX = shutil.which("tmux")


class Screen:
    """A command in its own tmux, and its screen."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self.folder = folder

    def _tmux(self, *arguments: str) -> str:
        command = [TMUX or "tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return done.stdout

    def open(self, width: int = 110, height: int = 24) -> None:
        keep = {
            "PATH": os.environ["PATH"],
            "ALPHA_KEY": "ka",
            "BETA_KEY": "kb",
            "PS1": "$ ",
            "TERM": "screen",
        }
        environ = [f"{name}={value}" for name, value in keep.items()]
        command = ["env", "-i", *environ, "sh"]
        size = ("-x", str(width), "-y", str(height))
        self._tmux("new-session", "-d", *size, "-c", str(self.folder), *command)

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def run(self, *arguments: str, key: str = "ka") -> None:
        self.type(f"ALPHA_KEY={key} {sys.executable} -m headway {' '.join(arguments)}", "Enter")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self) -> list[str]:
        return self._tmux("capture-pane", "-p").splitlines()

    def until(self, *texts: str) -> list[str]:
        """The screen, once it shows all of these."""
        give_up_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_at:
            lines = self.lines()
            if all(any(text in line for line in lines) for text in texts):
                return lines
            time.sleep(0.05)
        raise AssertionError(f"{texts} never showed:\n" + "\n".join(self.lines()))

    def close(self) -> None:
        subprocess.run([TMUX or "tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    if TMUX is None:
        if os.environ.get("CI"):
            pytest.fail("CI skips nothing: tmux is missing")
        pytest.skip("needs tmux")
    accounts = tmp_path / "accounts.yaml"
    accounts.write_text(
        "accounts:\n  a: {key: ka, rpm: 1200, burst: 1, headers: openai, latency: 0.5}\n"
        "  b: {key: kb, rpm: 60, burst: 3, headers: openai, latency: 0.2}\n"
        "  stuck: {key: ks, latency: 300}\n"
    )
    with fake_process("--config", str(accounts)) as fake:
        lines = []
        for name in ("alpha", "beta"):
            lines += [
                f"[providers.{name}]",
                'kind = "openai"',
                f'base_url = "{fake.url}"',
                f'api_key_env = "{name.upper()}_KEY"',
            ]
        (tmp_path / "headway.toml").write_text("\n".join(lines))
        rows = [
            f'{{"id": "r{n}", "prompt": "say {n}", "model": "{"beta" if n % 10 == 0 else "alpha"}/x"}}'
            for n in range(400)
        ]
        (tmp_path / "in.jsonl").write_text("\n".join(rows))
        shown = Screen(tmp_path)
        shown.open()
        try:
            yield shown
        finally:
            shown.close()


def test_the_view_is_drawn_resized_interrupted_twice_and_resumed(screen: Screen) -> None:
    screen.run("run", "in.jsonl")
    lines = screen.until("/400", "alpha/x", "beta/x", "in flight", "of requests per minute")
    bars = [line for line in lines if "━" in line]
    assert len(bars) == 1, lines
    screen.resize(70, 20)
    narrow = screen.until("/400", "alpha/x", "beta/x")
    assert max(len(line) for line in narrow) <= 70
    whole = settled(screen)
    for once in ("━", "waiting for", "alpha/x  ", "beta/x  "):
        assert len([line for line in whole if once in line]) == 1, whole
    screen.type("C-c")
    screen.until("stopping: no new units start")
    lines = screen.until("interrupted:", "to resume: headway resume in-")
    assert not [line for line in lines[-3:] if "━" in line], "the bar is gone"
    screen.resize(110, 24)
    screen.type("clear", "Enter")
    # Requests in flight do not end by themselves, and two Ctrl-C at the same moment would be one signal.
    screen.run("resume", key="ks")
    screen.until("already done", "alpha/x", "in flight")
    screen.type("C-c")
    screen.until("stopping: no new units start")
    screen.type("C-c")
    screen.until("cancelling the units in flight")
    screen.type("clear", "Enter")
    screen.type("echo still-$((40+2))-here", "Enter")
    lines = screen.until("still-42-here")
    assert not any("\x1b" in line for line in lines)


def settled(screen: Screen) -> list[str]:
    """The screen after the view was drawn again with other figures."""
    before = [line for line in screen.lines() if "/400" in line]
    give_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_at:
        lines = screen.lines()
        if [line for line in lines if "/400" in line] not in (before, []):
            return lines
        time.sleep(0.05)
    raise AssertionError("the view does not move:\n" + "\n".join(screen.lines()))


def view_of(seen: Snapshot) -> View:
    """A run of ten units of which none has ended."""
    counts = dict.fromkeys(("succeeded", "failed", "timed_out", "cached", "skipped", "cancelled"), 0)
    names = {"a": "a-rather-long-name-of-a-provider/model"}
    return View("job", 10, counts, 0, 0, 0, 0, None, 1.0, 0.0, 0.0, seen, names, 0.0)


def test_a_line_counts_the_units_that_wait_for_other_units() -> None:
    seen = Snapshot(0.0, (), 1, 9, 1, 0, 0, 0, 9, 0.0, 8.5)
    assert (
        progress_line(view_of(seen)) == "0/10 (0%), 1 in flight, 9 waiting for other units, about 8.5 s left"
    )


def test_a_slow_rate_is_per_minute() -> None:
    assert [rate_text(rate) for rate in (1234.56, 0.5, 0.04)] == ["1,234.6/s", "0.5/s", "2.4/min"]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_figures_are_never_cut(width: int) -> None:
    wait = Wait(WaitCode.HOLD, 500.0, "a long reason that a provider gave for it " * 4)
    lane = LaneView(
        key="a", queued=0, delayed=0, remaining=1_234_567, in_flight=4_321, started=1, succeeded=0, failed=0,
        refused=98_765, window=None, rate_per_s=1234.5, others=0.0, meters=(), binding="requests per minute",
        used_of_binding=1.0, wait=wait, eta_s=None,
    )  # fmt: skip
    view = view_of(Snapshot(0.0, (lane,), 0, 0, 0, 0, 0, 0, 0, 0.0, None))
    console = Console(width=width, height=24, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(frame(view, width, 24))
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    for figure in ("1,234,567", "4,321", "98,765", "1234.5", "in flight", "429s"):
        assert figure in drawn, drawn
    assert max(len(line) for line in drawn.splitlines()) <= width
    assert "… left" in drawn or width < 80


@pytest.mark.parametrize(("succeeded", "shown"), [(0, False), (1, True)])
def test_a_pace_is_not_called_learned_before_an_answer(succeeded: int, shown: bool) -> None:
    lane = LaneView(
        key="a", queued=0, delayed=0, remaining=9, in_flight=1, started=5, succeeded=succeeded, failed=0,
        refused=0, window=None, rate_per_s=1.0, others=0.0, meters=(), binding="learned pace",
        used_of_binding=0.21, wait=None, eta_s=None,
    )  # fmt: skip
    view = view_of(Snapshot(0.0, (lane,), 0, 0, 0, 0, 0, 0, 0, 0.0, None))
    console = Console(width=120, height=24, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(frame(view, 120, 24))
    assert ("21% of learned pace" in console.file.getvalue()) is shown  # type: ignore[attr-defined]


def test_a_pipe_gets_lines_without_control_codes(screen: Screen) -> None:
    screen.run("run", "in.jsonl", "--max-duration", "1s", "2>err.txt;", "echo", "exit-$?")
    screen.until("exit-3")
    err = (screen.folder / "err.txt").read_text()
    assert "\x1b" not in err
    assert "400 units" in err
