"""Signals before a command has handlers of its own: at once, but never in the middle of an import."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.shared import interrupts
from headway.cli.shared.interrupts import interruptible

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def within(act: Callable[[], object]) -> None:
    """Do something as a command would, and then go on for longer than any test."""
    with interruptible():
        act()
        time.sleep(30)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that `import slow_to_load` loads."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_to_load", raising=False)
    importlib.invalidate_caches()
    return tmp_path / "slow_to_load.py"


@pytest.mark.parametrize("number", ALL)
def test_they_interrupt_what_runs_and_leave_the_handlers_that_were(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        within(lambda: os.kill(os.getpid(), number))
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ALL)
def test_a_module_that_is_being_loaded_is_loaded_first(module: Path, number: int) -> None:
    module.write_text(
        f"import os\nos.kill(os.getpid(), {int(number)})\nfor _ in range(1000): pass\nLOADED = True\n"
    )
    with pytest.raises(KeyboardInterrupt):
        within(lambda: importlib.import_module("slow_to_load"))
    assert sys.modules["slow_to_load"].LOADED


def test_a_module_that_is_never_loaded_is_not_waited_for(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "PATIENCE_S", 0.05)
    module.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(30)\n")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        importlib.import_module("slow_to_load")
    assert time.monotonic() - began < 20
    assert "slow_to_load" not in sys.modules


def test_a_signal_that_waits_ends_with_the_command(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent after the old handlers are back: SIGTERM would end the whole process."""
    monkeypatch.setattr(interrupts, "POLL_S", 30.0)
    module.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    with interruptible():
        importlib.import_module("slow_to_load")
        waiting = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    for timer in waiting:
        timer.join(20)
    assert [timer.is_alive() for timer in waiting] == [False]


def test_what_nohup_started_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
