"""Whether an exception came from a signal handler, or from the code that was running when the signal came.

Python runs handlers in the main thread, in the midst of whatever that does. What a handler raises there (KeyboardInterrupt,
or a SystemExit for SIGTERM) is for the program; the same raised by a callable is an outcome of its unit.
"""

from __future__ import annotations

import signal
import threading
from functools import partial
from types import CodeType
from typing import Any, Final

#: Handlers of ours, by their code: one may be replaced before what it raised is caught.
_ours: Final[set[CodeType]] = set()


def remember(handler: Any) -> None:
    """A handler of ours."""
    code = _code_of(handler)
    if code is not None:
        _ours.add(code)


def in_main_thread() -> bool:
    """Whether this thread is the one that handles signals."""
    return threading.current_thread() is threading.main_thread()


def from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it.

    A handler written in Python is in the traceback. The one that Python starts with is not, so that a KeyboardInterrupt is
    taken for its own where it is installed; while a run listens it is not.
    """
    if not isinstance(error, KeyboardInterrupt | SystemExit) or not in_main_thread():
        return False
    handlers = {_code_of(handler_of(number)) for number in signal.valid_signals()} | _ours
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return isinstance(error, KeyboardInterrupt) and handler_of(signal.SIGINT) is signal.default_int_handler


def handler_of(number: int) -> Any:
    """What handles a signal."""
    try:
        return signal.getsignal(number)
    except Exception:  # Python asks a handler for its repr, which may fail.
        return None


def _code_of(handler: Any) -> CodeType | None:
    """The code of a handler; None where it has none."""
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None
