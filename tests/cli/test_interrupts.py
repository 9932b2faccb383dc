"""Signals before a command has its own handlers: they act at once, but never in the middle of an import."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
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
    """Do something as a command would, then block for longer than any test."""
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
def test_signals_interrupt_a_command_and_the_old_handlers_are_restored(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        within(lambda: os.kill(os.getpid(), number))
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ALL)
def test_an_import_finishes_before_the_interrupt(module: Path, number: int) -> None:
    module.write_text(
        f"import os\nos.kill(os.getpid(), {int(number)})\nfor _ in range(1000): pass\nLOADED = True\n"
    )
    with pytest.raises(KeyboardInterrupt):
        within(lambda: importlib.import_module("slow_to_load"))
    assert sys.modules["slow_to_load"].LOADED


def test_an_import_that_never_finishes_is_interrupted(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "PATIENCE_S", 0.05)
    module.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(30)\n")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        importlib.import_module("slow_to_load")
    assert time.monotonic() - began < 20
    assert "slow_to_load" not in sys.modules


def test_a_pending_signal_is_dropped_when_the_command_ends(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent after the old handlers are back: SIGTERM would end the whole process."""
    monkeypatch.setattr(interrupts, "POLL_S", 30.0)
    module.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    with interruptible():
        importlib.import_module("slow_to_load")
        waiting = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    for timer in waiting:
        timer.join(20)
    assert [timer.is_alive() for timer in waiting] == [False]


def test_under_nohup_sighup_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


#: Sends this process a Ctrl-C when a module is first looked for.
_AT_IMPORT = """
import os, signal, sys
class At:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, At())
sys.argv = ["headway", "--version"]
{ignore}
from headway.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module", ["headway.cli", "click", "headway.cli.shared.interrupts", "headway.errors"]
)
def test_ctrl_c_before_the_command_has_begun_shows_no_traceback(module: str) -> None:
    program = _AT_IMPORT.format(module=module, ignore="")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    program = _AT_IMPORT.format(module="click", ignore="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
