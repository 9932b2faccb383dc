"""What a callable raised, in a form that results can hold; and Headway's own errors, with hints for Python callers.

Results, `CallsFailed` and futures hold `Exception`s. Anything else that a callable raises (`SystemExit`, a `KeyboardInterrupt` of its
own, the panic of an extension module) becomes the `__cause__` of a `RuntimeError`. An exception that a signal handler raised while
the callable ran is not the callable's: it goes to the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headway.errors import HeadwayError
from headway.providers.error_messages import describe_exception
from headway.runtime.signals import from_signal

#: Generators, coroutines and tasks use these themselves, so raising them again from one of those would be misunderstood.
_CONTROL_FLOW: Final = (GeneratorExit, asyncio.CancelledError)
#: How our notes begin.
_NOTE: Final = "headway: "


def as_exception(error: BaseException) -> Exception:
    """The exception itself, or a `RuntimeError` in its place. Raises it again if a signal handler raised it."""
    if isinstance(error, Exception):
        return error
    if from_signal(error):
        raise error
    return wrapped(error, "the callable")


def wrapped(error: BaseException, who: str) -> RuntimeError:
    """A `RuntimeError` in the place of another exception."""
    made = RuntimeError(f"{who} raised {describe_exception(error)}")
    made.__cause__ = error
    return made


def to_raise(error: BaseException, who: str) -> BaseException:
    """What to raise for an exception of the caller's code: that one, unless it would steer our coroutines."""
    return wrapped(error, who) if isinstance(error, _CONTROL_FLOW) else error


def note(error: BaseException, text: str) -> None:
    """Add a note for tracebacks, once. An exception that refuses notes stays as it is."""
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
