"""Whether an exception, a result or an error text tells of a rate limit. Every way to run work asks here.

`limit_text` has the words. What a failed unit leaves besides (exit codes, output, logs) is read by
`executors.limit_evidence`. Plain text on standard output is never read: it may be a model's answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType
from typing import Any, Final

from headway.core.model import Hint, Kind
from headway.errors import HeadwayError
from headway.providers.error_messages import exception_text, short_message
from headway.providers.limits.error_texts import attribute, qualified_text
from headway.providers.limits.hints import Facts
from headway.providers.limits.instants import wait_from_value
from headway.providers.limits.limit_text import (
    LIMIT_KINDS,
    limit_in_message,
    limit_in_output,
    limit_in_statement,
)
from headway.providers.limits.message_limits import stated_wait
from headway.providers.limits.profiles import GENERIC

__all__ = ["LIMIT_KINDS", "limit_in_exception", "limit_in_report", "limit_in_result", "limit_in_text"]

#: How much of a log or of a program's output is read: its end.
LOG_TAIL: Final = 262_144
#: What is said of a limit that says nothing.
_NO_DETAILS: Final = "a rate limit was met"

# -- exceptions -----------------------------------------------------------------------------------------------------

#: Bugs of the program. Their texts name keys, attributes and values of any kind, never a limit.
_PROGRAM_BUGS: Final = (
    LookupError, AttributeError, NameError, ImportError, TypeError, SyntaxError, AssertionError, ArithmeticError, UnicodeError,
    RecursionError, NotImplementedError, MemoryError, BufferError, ReferenceError, StopIteration, StopAsyncIteration,
    HeadwayError, Warning,
)  # fmt: skip
#: Exceptions that say what is wrong with a value, and quote it: it may be an answer.
_QUOTING: Final = re.compile("Valid|Pars|Decod|Schema", re.IGNORECASE)


def limit_in_exception(error: BaseException) -> Facts | None:
    """The limit that an exception tells of: by its type's name, by the output that it carries, by its text."""
    try:
        return _limit_reported_by(error)
    except BaseException:  # Attributes of strangers may do anything.
        return None


def _limit_reported_by(error: BaseException) -> Facts | None:
    if isinstance(error, _PROGRAM_BUGS) or isinstance(attribute(error, "errno"), int):
        return None
    if isinstance(error, SystemExit):
        return limit_in_text(error.code) if isinstance(error.code, str) else None
    output = _output_of(error)
    if output is not None:
        return limit_in_output(*output, time.time(), local_zone()) or _only_refusal(output[0])
    if any(_names_limit(kind.__name__) for kind in type(error).__mro__):
        return _limit_by_type(error)
    if isinstance(error, ValueError) or any(_QUOTING.search(kind.__name__) for kind in type(error).__mro__):
        return limit_in_statement(exception_text(error), time.time(), local_zone())
    return limit_in_text(qualified_text(error))


def limit_in_text(text: str) -> Facts | None:
    """The limit that the text of an error tells of."""
    return limit_in_message(text, time.time(), local_zone())


def _names_limit(name: str) -> bool:
    return GENERIC.all_soft.get(name.lower()) is Kind.RATE


def _limit_by_type(error: BaseException) -> Facts:
    """An exception whose type says that a limit was met: when it ends is in its attributes, or in its text."""
    for holder in (error, attribute(error, "rate_limit_info"), attribute(error, "info")):
        wait_s = _wait_s(lambda name, holder=holder: _field(holder, name))  # type: ignore[misc]
        if wait_s is not None:
            return Facts(Kind.RATE, Hint(retry_after_s=wait_s), short_message(qualified_text(error)))
    return _limit_facts(qualified_text(error))


def _limit_facts(message: str) -> Facts:
    """A limit was met, that is certain: the message may tell which kind, and until when."""
    facts = limit_in_text(message)
    if facts is not None:
        return facts
    span = stated_wait(message, time.time(), local_zone())
    hint = Hint() if span is None else Hint(retry_after_s=span.seconds)
    return Facts(Kind.RATE, hint, short_message(message, otherwise=_NO_DETAILS))


def _output_of(error: BaseException) -> tuple[bytes, bytes] | None:
    """What the program wrote that an exception reports on, as `CalledProcessError` does. None: it reports on none.

    The text of such an exception is its command line, which may be a prompt: it is not read.
    """
    streams = [attribute(error, name) for name in ("stdout", "output", "stderr")]
    carried = [stream if isinstance(stream, bytes | str) else b"" for stream in streams]
    if not any(carried) and not isinstance(error, subprocess.SubprocessError):
        return None
    stdout, output, stderr = (as_bytes(each) for each in carried)
    return (stdout or output)[-LOG_TAIL:], stderr[-LOG_TAIL:]


def as_bytes(text: bytes | str) -> bytes:
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else text


# -- results --------------------------------------------------------------------------------------------------------

#: How results and their frameworks name it; the seed's and Claude's names are among them.
_WAIT_FIELDS: Final = ("retry_after_s", "retry_after_seconds", "retry_after", "resetsAt", "resets_at")
_MESSAGE_FIELDS: Final = ("message", "error_message", "reason")
#: What a status says where a limit was met.
_LIMITED_STATUSES: Final = frozenset(
    {"rejected", "limited", "rate_limited", "exceeded", "blocked", "throttled"}
)
#: Values that have no fields.
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, list, tuple, set})
#: How a result says that it is an error's: the seed's safe worker writes it.
_REASON_PREFIX: Final = "RateLimitError:"

_Get = Callable[[str], Any]


def limit_in_result(value: Any) -> Facts | None:
    """The limit that a result reports in a field of its own: `rate_limit_info`, `rate_limit`, `selection_reason`.

    Keys of dictionaries and attributes of objects count. Whatever else a result says is an answer, and not read.
    """
    kind = type(value)
    if kind in _PLAIN:
        return None
    try:
        return _reported(value) if _may_report(value, kind) else None
    except BaseException:  # Fields of strangers may do anything.
        return None


def _may_report(value: Any, kind: type) -> bool:
    """Whether there is such a field at all. Asked of every result that has fields: it is quick."""
    if kind is dict:
        return "rate_limit_info" in value or "rate_limit" in value or "selection_reason" in value
    fields = getattr(value, "__dict__", None)
    if type(fields) is dict:
        if "rate_limit_info" in fields or "rate_limit" in fields or "selection_reason" in fields:
            return True
    elif hasattr(kind, "rate_limit_info") or hasattr(kind, "rate_limit") or hasattr(kind, "selection_reason"):
        return True
    return isinstance(value, Mapping)


def _reported(value: Any) -> Facts | None:
    for name in ("rate_limit_info", "rate_limit"):
        info = _field(value, name)
        facts = None if info is None else _limit_in_info(info)
        if facts is not None:
            return facts
    reason = _field(value, "selection_reason")
    if isinstance(reason, str) and reason.startswith(_REASON_PREFIX):
        message = reason.removeprefix(_REASON_PREFIX).strip()
        return _limit_facts(message)
    return None


def limit_in_report(error: object, output: object) -> Facts | None:
    """The limit that a failure reports which is no exception: `error` is its text, `output` what its program wrote."""
    facts = limit_in_text(error) if isinstance(error, str) else None
    if facts is None and isinstance(output, str | bytes):
        return limit_in_output(as_bytes(output)[-LOG_TAIL:], b"", time.time(), local_zone())
    return facts or limit_in_result(output)


def _only_refusal(stdout: bytes) -> Facts | None:
    """The limit that a program which failed printed where answers go, and nothing else: some agent CLIs do that."""
    return limit_in_statement(stdout.decode("utf-8", errors="replace").strip(), time.time(), local_zone())


def _field(value: Any, name: str) -> Any:
    """A key of a mapping, or an attribute that is really there: proxies and mocks have every attribute."""
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is much the quicker
        return value.get(name)
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict) and name in fields:
        return fields[name]
    return attribute(value, name) if hasattr(type(value), name) else None


def _limit_in_info(info: Any) -> Facts | None:
    if info is True:
        return _limit_facts("")
    if isinstance(info, str):
        return limit_in_text(info)
    if type(info) in _PLAIN:
        return None
    status = _field(info, "status")
    if _field(info, "isUsingOverage") is True or _is_open(info, status):
        return None
    get = partial(_field, info)
    wait_s = _wait_s(get)
    messages = (_field(info, name) for name in _MESSAGE_FIELDS)
    message = next((each for each in messages if isinstance(each, str)), "")
    rejected = isinstance(status, str) and status == "rejected"
    if wait_s is None and not message and not rejected and not _has_wait(get):
        return None
    if wait_s is None:
        return _limit_facts(message)
    return Facts(Kind.RATE, Hint(retry_after_s=wait_s), short_message(message, otherwise=_NO_DETAILS))


def _is_open(info: Any, status: Any) -> bool:
    """Whether it says that no limit was met: a report of what is left is no refusal."""
    remaining = _field(info, "remaining")
    left = isinstance(remaining, int | float) and not isinstance(remaining, bool) and remaining > 0
    denied = any(_field(info, name) is False for name in ("is_limited", "limited", "rate_limited"))
    other = isinstance(status, str) and status.lower() not in _LIMITED_STATUSES
    return left or denied or other


def _wait_s(get: _Get) -> float | None:
    """The wait that fields tell: seconds, an epoch, or a header's text."""
    for name in _WAIT_FIELDS:
        value = get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        span = wait_from_value(value, time.time()) if isinstance(value, str) or value >= 0 else None
        if span is not None:
            return max(0.0, span.seconds)
        if not isinstance(value, str) and value < 0:
            return 0.0
    return None


def _has_wait(get: _Get) -> bool:
    """Whether fields have a wait at all, even one that cannot be read: NaN, a number without end, "soon"."""
    values = (get(name) for name in _WAIT_FIELDS)
    return any(value is not None and not isinstance(value, bool) and value != "" for value in values)


def local_zone() -> str:
    """The local time zone, for clock times that name none."""
    zone = os.environ.get("TZ", "").lstrip(":")
    if zone:
        return zone
    return _system_zone()


@cache
def _system_zone() -> str:
    link = os.path.realpath("/etc/localtime")
    return link.partition("zoneinfo/")[2] or "UTC"
