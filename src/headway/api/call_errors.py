"""What a callable raised, in a form that results can hold; and Headway's own errors, with hints for Python callers.

Results, `CallsFailed` and futures hold `Exception`s. Whatever else a callable raises (`SystemExit`, a `KeyboardInterrupt` of its
own, the panic of an extension module) is wrapped in a `RuntimeError` whose `__cause__` it is. An exception that a signal handler
raised while the callable ran is not the callable's: it goes on to the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headway.errors import HeadwayError
from headway.providers.error_messages import describe_exception
from headway.runtime.signals import from_signal

#: They steer generators, coroutines and tasks: raised again from one of those they would be taken for that.
_CONTROL_FLOW: Final = (GeneratorExit, asyncio.CancelledError)
#: How our notes begin.
_NOTE: Final = "headway: "


def as_exception(error: BaseException) -> Exception:
    """The exception itself, or one that stands for it. Raises it again where a signal handler raised it."""
    if isinstance(error, Exception):
        return error
    if from_signal(error):
        raise error
    return wrapped(error, "the callable")


def wrapped(error: BaseException, who: str) -> RuntimeError:
    """An exception that stands for another."""
    made = RuntimeError(f"{who} raised {describe_exception(error)}")
    made.__cause__ = error
    return made


def to_raise(error: BaseException, who: str) -> BaseException:
    """What is raised to the caller for an exception of his own code: that one, unless it would steer our coroutines."""
    return wrapped(error, who) if isinstance(error, _CONTROL_FLOW) else error


def note(error: BaseException, text: str) -> None:
    """Add a note for tracebacks, once. An exception that takes none stays as it is."""
    with suppress(Exception):
        if not any(str(each).startswith(_NOTE) for each in getattr(error, "__notes__", ())):
            error.add_note(_NOTE + text)


#: Words of the command line in hints, and what a Python program says instead.
_REPLACEMENTS: Final = (
    ("'headway resume'", "the same program"),
    ("watch it with", "wait for it, give this one another name, or watch it with"),
)


@contextmanager
def python_hints(db: str) -> Iterator[None]:
    """Rewrite the hints of errors raised in this block. `db` is the name of the argument that stands for `--db`."""
    try:
        yield
    except HeadwayError as error:
        rewrite_hint(error, db)
        raise


def rewrite_hint(error: Exception, db: str) -> None:
    """Replace command-line words in the hint of an error, in place."""
    if isinstance(error, HeadwayError) and error.hint:
        for flag, argument in (("--db", f"{db}="), *_REPLACEMENTS):
            error.hint = error.hint.replace(flag, argument)
