"""The live view on a real terminal: drawn, resized, interrupted once and twice, resumed; the screen is what counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.fake.process import fake_process

PATIENCE_S = 20.0
TMUX = shutil.which("tmux")


class Screen:
    """One command in a tmux of its own, and what it shows."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._folder = folder

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
        self._tmux("new-session", "-d", *size, "-c", str(self._folder), *command)

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def run(self, *arguments: str) -> None:
        self.type(f"{sys.executable} -m headway {' '.join(arguments)}", "Enter")

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


def test_it_is_drawn_resized_interrupted_twice_and_resumed(screen: Screen) -> None:
    screen.run("run", "in.jsonl")
    lines = screen.until("/400", "alpha/x", "beta/x", "in flight", "of requests per minute")
    bars = [line for line in lines if "━" in line]
    assert len(bars) == 1, lines
    screen.resize(70, 20)
    narrow = screen.until("/400", "alpha/x", "beta/x")
    assert max(len(line) for line in narrow) <= 70
    screen.type("C-c")
    screen.until("stopping: nothing new starts")
    lines = screen.until("interrupted:", "go on with: headway resume in-")
    assert not [line for line in lines[-3:] if "━" in line], "the bar is gone"
    screen.resize(110, 24)
    screen.run("resume")
    screen.until("done already", "alpha/x")
    screen.type("C-c")
    screen.type("C-c")
    screen.until("cancelling what is in flight")
    screen.type("clear", "Enter")
    screen.type("echo still-$((40+2))-here", "Enter")
    lines = screen.until("still-42-here")
    assert not any("\x1b" in line for line in lines)


def test_a_pipe_gets_lines_without_control_codes(screen: Screen) -> None:
    screen.run("run", "in.jsonl", "--max-duration", "1s", "2>err.txt;", "echo", "exit-$?")
    screen.until("exit-3")
    err = (screen._folder / "err.txt").read_text()
    assert "\x1b" not in err
    assert "400 units" in err
