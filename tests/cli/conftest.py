"""A fake provider, and `headway` called in this process, which is twenty times as fast as a new one."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.crash.stage import KEY, Stage

from headway.cli import main
from headway.fake.process import FakeProcess, fake_process

_numbers = itertools.count()
#: Longer than any command takes on a busy machine, and shorter than pytest's own timeout.
TOO_LONG_S = 60.0

#: Accounts by their key. Any other key gets the default account, which is fast.
PLAN = """
accounts:
  default: {latency: {min: 10ms, max: 25ms}}
  slow: {key: sk-slow-account, latency: 1200ms}
  stuck: {key: sk-stuck-account, latency: 300s}
  mixed: {key: sk-mixed-account, latency: {min: 20ms, max: 900ms}}
  broken: {key: sk-broken-account, faults: [{kind: 500}]}
  revoked: {key: sk-revoked-account, latency: 10ms, faults: [{kind: 401}]}
  poor: {key: sk-poor-account, faults: [{kind: quota}]}
  hanging: {key: sk-hanging-account, faults: [{kind: hang}]}
answers:
  - {contains: "#fits", turns: [{mood: good, score: 0.5, tags: [a]}]}
  - {contains: "#repaired", turns: [{mood: good, score: 7}, {mood: better, score: 1, tags: []}]}
  - {contains: "#never", turns: ["sorry"]}
"""


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


Headway = Callable[..., Done]


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    plan = tmp_path_factory.mktemp("provider") / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        yield fake


@pytest.fixture
def stage(tmp_path: Path, provider: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A working directory with a config and ten units."""
    made = Stage(tmp_path, provider, f"cli-{os.getpid()}-{next(_numbers)}", units=10)
    made.configure()
    made.write_input()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALPHA_KEY", KEY)
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    if made.address:
        monkeypatch.setenv("HEADWAY_DB", made.address)
    return made


def _interrupt_twice() -> None:
    """Interrupt a run that does not end: pytest's own timeout cannot reach into its event loop."""
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)


@pytest.fixture
def headway(stage: Stage, capfd: pytest.CaptureFixture[str]) -> Headway:
    """`headway ARGS` in the stage's directory."""

    def call(*args: str) -> Done:
        capfd.readouterr()
        watchdog = threading.Timer(TOO_LONG_S, _interrupt_twice)
        watchdog.start()
        try:
            code = main(args)
        finally:
            watchdog.cancel()
            watchdog.join()
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call
