"""What `CallsFailed` says: how many calls failed and why, the first item that failed, and the user's own lines of code.

A traceback of every call, with the frames of Headway and of libraries, would be hundreds of lines. So tracebacks keep the frames
of the user's files, and a failure at the same place as an earlier one has none. HEADWAY_DEBUG=1 keeps everything.
"""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from headway.api.results import Result
from headway.core.model import Kind
from headway.core.retry import THROTTLES
from headway.engine.calls import GIVE_UP_HERE
from headway.errors import HeadwayError, UsageError
from headway.providers.call_reports import KnownOutcome
from headway.providers.error_messages import short_message

#: An item is shown with at most this many characters.
LONGEST_ITEM: Final = 60
#: Types of exceptions that the summary names.
MOST_TYPES: Final = 3
#: Links of a chain of causes that are looked at: a chain can be a circle.
MOST_CAUSES: Final = 20


def failure_summary(results: Sequence[Result[Any, Any]]) -> str:
    """`2 of 9 calls failed (2 times your function raised ValueError); the first: item 3 ('x')`."""
    failed = [result for result in results if result.error is not None]
    raised = Counter(type(result.error).__name__ for result in failed if _is_own(result))
    codes = Counter(result.code for result in failed if not _is_own(result))
    parts = [f"{_times(count)}your function raised {name}" for name, count in raised.most_common(MOST_TYPES)]
    if (others := raised.total() - sum(count for _, count in raised.most_common(MOST_TYPES))) > 0:
        parts.append(f"{others:,} other exceptions")
    parts += [f"{count:,} {code}" for code, count in sorted(codes.items())]
    exhausted = any(result.status == "failed" and result.code in THROTTLES for result in failed)
    advice = f" — {GIVE_UP_HERE}" if exhausted else ""
    first = f"; the first: item {failed[0].index} ({_item_text(failed[0].item)}){_reason(failed[0])}"
    return f"{len(failed):,} of {len(results):,} calls failed ({', '.join(parts)}){first}{advice}"


def shorten_tracebacks(errors: Iterable[BaseException]) -> None:
    """Leave the user's frames in the tracebacks, each place once. Does nothing with HEADWAY_DEBUG."""
    if os.environ.get("HEADWAY_DEBUG"):
        return
    shown: set[tuple[object, ...]] = set()
    for error in errors:
        place = (type(error), *((frame.tb_frame.f_code, frame.tb_lineno) for frame in _frames(error)))
        for each in _chain(error):
            each.__traceback__ = None if place in shown else _own_frames(each)
        shown.add(place)


def _is_own(result: Result[Any, Any]) -> bool:
    """Whether the function raised it, and it stands for nothing else: no rate limit, no timeout, no stopped lane."""
    return result.code == Kind.INVALID and not isinstance(result.error, HeadwayError)


def _reason(result: Result[Any, Any]) -> str:
    """Why it failed, if the exception is ours and says so: an agent's failure, an item of the wrong type."""
    error = result.error
    if not isinstance(error, KnownOutcome | UsageError) or not error.message:
        return ""
    return f": {short_message(error.message)}"


def _times(count: int) -> str:
    return "" if count == 1 else f"{count:,} times "


def _item_text(item: object) -> str:
    try:
        text = " ".join(repr(item).split())
    except Exception:  # The class of the item is the user's.
        text = type(item).__name__
    return text if len(text) <= LONGEST_ITEM else text[: LONGEST_ITEM - 1] + "…"


def _frames(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _chain(error: BaseException) -> list[BaseException]:
    """The exception, and its causes or contexts."""
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and len(chain) < MOST_CAUSES:
        chain.append(each)
        each = each.__context__ if each.__cause__ is None else each.__cause__
    return chain


def _own_frames(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of Headway and of libraries."""
    kept: TracebackType | None = None
    for trace in reversed([*_frames(error)]):
        if not trace.tb_frame.f_code.co_filename.startswith(_NOT_OWN):
            kept = TracebackType(kept, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return kept


def _folders() -> tuple[str, ...]:
    """Where files are that the user has not written: Headway, the standard library, installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in names}
    unresolved = {sysconfig.get_path(name) + os.sep for name in names}
    headway = str(Path(__file__).resolve().parent.parent) + os.sep
    return (headway, "<frozen ", *sorted(folders | unresolved))


_NOT_OWN: Final = _folders()
