"""Whether an exception, a result or an error text reports a rate limit, for every way to run work.

`limit_text` reads the texts. Exit codes, output and logs of a failed unit are read by `executors.limit_evidence`. Plain text
on standard output is never read: it may be a model's answer.
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

#: How many bytes at the end of a log or of a program's output are read.
LOG_TAIL: Final = 262_144
#: The message for a limit without one.
_NO_DETAILS: Final = "a rate limit was reached"

# -- exceptions -----------------------------------------------------------------------------------------------------

#: Exceptions that are bugs of the program. Their texts name keys, attributes and values, never a limit.
_PROGRAM_BUGS: Final = (
    LookupError, AttributeError, NameError, ImportError, TypeError, SyntaxError, AssertionError, ArithmeticError, UnicodeError,
    RecursionError, NotImplementedError, MemoryError, BufferError, ReferenceError, StopIteration, StopAsyncIteration,
    HeadwayError, Warning,
)  # fmt: skip
#: Names of exceptions that quote a wrong value, which may be a model's answer.
_QUOTING: Final = re.compile("Valid|Pars|Decod|Schema", re.IGNORECASE)


def limit_in_exception(error: BaseException) -> Facts | None:
    """The limit that an exception reports: by its type's name, by the output that it carries, or by its text."""
    try:
        return _limit_reported_by(error)
    except BaseException:  # Attributes of foreign objects may raise anything.
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
    """The limit that the text of an error reports."""
    return limit_in_message(text, time.time(), local_zone())


def _names_limit(name: str) -> bool:
    return GENERIC.all_soft.get(name.lower()) is Kind.RATE


def _limit_by_type(error: BaseException) -> Facts:
    """The limit of an exception that is named for it. The wait is in its attributes, or in its text."""
    for holder in (error, attribute(error, "rate_limit_info"), attribute(error, "info")):
        wait_s = _wait_s(lambda name, holder=holder: _field(holder, name))  # type: ignore[misc]
        if wait_s is not None:
            return Facts(Kind.RATE, Hint(retry_after_s=wait_s), short_message(qualified_text(error)))
    return _limit_facts(qualified_text(error))


def _limit_facts(message: str) -> Facts:
    """The facts of a limit that was certainly met: kind and wait from the message, if it has them."""
    facts = limit_in_text(message)
    if facts is not None:
        return facts
    span = stated_wait(message, time.time(), local_zone())
    hint = Hint() if span is None else Hint(retry_after_s=span.seconds)
    return Facts(Kind.RATE, hint, short_message(message, otherwise=_NO_DETAILS))


def _output_of(error: BaseException) -> tuple[bytes, bytes] | None:
    """The output of the program that an exception reports on, such as `CalledProcessError`; None if it reports on none.

    The text of such an exception is its command line, which may contain a prompt. It is not read.
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

#: Names of fields in results of various frameworks; the seed's and Claude's are among them.
_WAIT_FIELDS: Final = ("retry_after_s", "retry_after_seconds", "retry_after", "resetsAt", "resets_at")
_MESSAGE_FIELDS: Final = ("message", "error_message", "reason")
#: Values of `status` if a limit was met.
_LIMITED_STATUSES: Final = frozenset(
    {"rejected", "limited", "rate_limited", "exceeded", "blocked", "throttled"}
)
#: Types without fields.
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, list, tuple, set})
#: The beginning of a `selection_reason` that reports an error: the seed's safe worker writes it.
_REASON_PREFIX: Final = "RateLimitError:"

_Get = Callable[[str], Any]


def limit_in_result(value: Any) -> Facts | None:
    """The limit that a result reports in one of the fields `rate_limit_info`, `rate_limit`, `selection_reason`.

    Keys of dictionaries and attributes of objects count. The rest of a result is an answer, and not read.
    """
    kind = type(value)
    if kind in _PLAIN:
        return None
    try:
        return _reported(value) if _may_report(value, kind) else None
    except BaseException:  # Fields of foreign objects may raise anything.
        return None


def _may_report(value: Any, kind: type) -> bool:
    """Whether there is such a field at all. Called for every result that has fields, so it is quick."""
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
    """The limit in a failure that is not an exception: `error` is its text, `output` the output of its program."""
    facts = limit_in_text(error) if isinstance(error, str) else None
    if facts is None and isinstance(output, str | bytes):
        return limit_in_output(as_bytes(output)[-LOG_TAIL:], b"", time.time(), local_zone())
    return facts or limit_in_result(output)


def _only_refusal(stdout: bytes) -> Facts | None:
    """The limit in standard output that contains nothing else: some agent CLIs that fail print their refusal there."""
    return limit_in_statement(stdout.decode("utf-8", errors="replace").strip(), time.time(), local_zone())


def _field(value: Any, name: str) -> Any:
    """A key of a mapping, or an attribute that is defined: proxies and mocks return every attribute."""
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
    """Whether it reports that no limit was met: a remainder is not a refusal."""
    remaining = _field(info, "remaining")
    left = isinstance(remaining, int | float) and not isinstance(remaining, bool) and remaining > 0
    denied = any(_field(info, name) is False for name in ("is_limited", "limited", "rate_limited"))
    other = isinstance(status, str) and status.lower() not in _LIMITED_STATUSES
    return left or denied or other


def _wait_s(get: _Get) -> float | None:
    """The wait in the fields: seconds, an epoch, or a header's text."""
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
    """Whether the fields have a wait at all, even one that cannot be read: NaN, infinity, "soon"."""
    values = (get(name) for name in _WAIT_FIELDS)
    return any(value is not None and not isinstance(value, bool) and value != "" for value in values)


def local_zone() -> str:
    """The local time zone, for clock times without one."""
    zone = os.environ.get("TZ", "").lstrip(":")
    if zone:
        return zone
    return _system_zone()


@cache
def _system_zone() -> str:
    link = os.path.realpath("/etc/localtime")
    return link.partition("zoneinfo/")[2] or "UTC"
