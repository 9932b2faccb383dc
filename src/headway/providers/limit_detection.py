"""Whether a unit met a rate limit, decided from everything that it left behind. Every way to run work asks here.

In this order, and the first that says so counts: the result, the exception, the exit code, the structured events on
standard output, standard error, and the log files. Plain text on standard output is never read: it may be a model's
answer, which speaks of limits as it likes. `limit_words` has the words.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.core.model import Hint, Kind, Outcome
from headway.core.retry import believed
from headway.errors import HeadwayError
from headway.providers import agents
from headway.providers.base import RateLimit
from headway.providers.exceptions import attribute, text_of
from headway.providers.limit_words import LIMITS, limit_in_message, limit_in_output, limit_in_statement
from headway.providers.messages import plain, shown
from headway.providers.profiles import GENERIC
from headway.providers.resets import wait
from headway.providers.seen import Facts
from headway.providers.texts import wait_in

if TYPE_CHECKING:
    from headway.executors.ran import Ran

__all__ = [
    "LIMITS",
    "Evidence",
    "LimitDetector",
    "in_exception",
    "in_preflight",
    "in_report",
    "in_result",
    "in_text",
    "rate_limit_of",
]

#: Clocks of file systems are coarser than ours.
_COARSE_S: Final = 0.05
#: What is read of logs: the newest ones, and the end of each.
MOST_LOGS: Final = 20
LOG_TAIL: Final = 262_144
#: The keys under which a log's JSON document has a program's output.
_STDOUT: Final = ("stdout", "output")
_STDERR: Final = ("stderr", "error", "error_message", "message")
#: Output files that are logs by their names. Others may hold a model's answer, and are read as JSON only.
_LOG_NAMES: Final = (".log", ".err", ".stderr")

#: What is said of a limit that says nothing.
_UNTOLD: Final = "a rate limit was met"

# -- exceptions -----------------------------------------------------------------------------------------------------

#: Bugs of the program. Their texts name keys, attributes and values of any kind, never a limit.
_OWN_FAULTS: Final = (
    LookupError, AttributeError, NameError, ImportError, TypeError, SyntaxError, AssertionError, ArithmeticError, UnicodeError,
    RecursionError, NotImplementedError, MemoryError, BufferError, ReferenceError, StopIteration, StopAsyncIteration,
    HeadwayError, Warning,
)  # fmt: skip
#: Exceptions that say what is wrong with a value, and quote it: it may be an answer.
_QUOTING: Final = re.compile("Valid|Pars|Decod|Schema", re.IGNORECASE)


def in_exception(error: BaseException) -> Facts | None:
    """The limit that an exception tells of: by its type's name, by the output that it carries, by its text."""
    try:
        return _told_by(error)
    except BaseException:  # Attributes of strangers may do anything.
        return None


def _told_by(error: BaseException) -> Facts | None:
    if isinstance(error, _OWN_FAULTS) or isinstance(attribute(error, "errno"), int):
        return None
    if isinstance(error, SystemExit):
        return in_text(error.code) if isinstance(error.code, str) else None
    output = _output_of(error)
    if output is not None:
        return limit_in_output(*output, time.time(), _zone()) or _only_refusal(output[0])
    if any(_names_limit(kind.__name__) for kind in type(error).__mro__):
        return _named(error)
    if isinstance(error, ValueError) or any(_QUOTING.search(kind.__name__) for kind in type(error).__mro__):
        return limit_in_statement(plain(error), time.time(), _zone())
    return in_text(text_of(error))


def in_text(text: str) -> Facts | None:
    """The limit that the text of an error tells of."""
    return limit_in_message(text, time.time(), _zone())


def _names_limit(name: str) -> bool:
    return GENERIC.all_soft.get(name.lower()) is Kind.RATE


def _named(error: BaseException) -> Facts:
    """An exception whose type says that a limit was met: when it ends is in its attributes, or in its text."""
    for holder in (error, attribute(error, "rate_limit_info"), attribute(error, "info")):
        wait_s = _wait_in(lambda name, holder=holder: _field(holder, name))  # type: ignore[misc]
        if wait_s is not None:
            return Facts(Kind.RATE, Hint(retry_after_s=wait_s), shown(text_of(error)))
    return _met(text_of(error))


def _met(message: str) -> Facts:
    """A limit was met, that is certain: the message may tell which kind, and until when."""
    facts = in_text(message)
    if facts is not None:
        return facts
    span = wait_in(message, time.time(), _zone())
    hint = Hint() if span is None else Hint(retry_after_s=span.seconds)
    return Facts(Kind.RATE, hint, shown(message, otherwise=_UNTOLD))


def _output_of(error: BaseException) -> tuple[bytes, bytes] | None:
    """What the program wrote that an exception reports on, as `CalledProcessError` does. None: it reports on none.

    The text of such an exception is its command line, which may be a prompt: it is not read.
    """
    streams = [attribute(error, name) for name in ("stdout", "output", "stderr")]
    carried = [stream if isinstance(stream, bytes | str) else b"" for stream in streams]
    if not any(carried) and not isinstance(error, subprocess.SubprocessError):
        return None
    stdout, output, stderr = (_encoded(each) for each in carried)
    return (stdout or output)[-LOG_TAIL:], stderr[-LOG_TAIL:]


def _encoded(text: bytes | str) -> bytes:
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else text


# -- results --------------------------------------------------------------------------------------------------------

#: How results and their frameworks name it; the seed's and Claude's names are among them.
_WAITS: Final = ("retry_after_s", "retry_after_seconds", "retry_after", "resetsAt", "resets_at")
_WORDS: Final = ("message", "error_message", "reason")
#: What a status says where a limit was met.
_CLOSED: Final = frozenset({"rejected", "limited", "rate_limited", "exceeded", "blocked", "throttled"})
#: Values that have no fields.
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, list, tuple, set})
#: How a result says that it is an error's: the seed's safe worker writes it.
_REASON: Final = "RateLimitError:"

_Get = Callable[[str], Any]


def in_result(value: Any) -> Facts | None:
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
        facts = None if info is None else _in_info(info)
        if facts is not None:
            return facts
    reason = _field(value, "selection_reason")
    if isinstance(reason, str) and reason.startswith(_REASON):
        message = reason.removeprefix(_REASON).strip()
        return _met(message)
    return None


def in_report(error: object, output: object) -> Facts | None:
    """The limit that a failure reports which is no exception: `error` is its text, `output` what its program wrote."""
    facts = in_text(error) if isinstance(error, str) else None
    if facts is None and isinstance(output, str | bytes):
        return limit_in_output(_encoded(output)[-LOG_TAIL:], b"", time.time(), _zone())
    return facts or in_result(output)


def _only_refusal(stdout: bytes) -> Facts | None:
    """The limit that a program which failed printed where answers go, and nothing else: some agent CLIs do that."""
    return limit_in_statement(stdout.decode("utf-8", errors="replace").strip(), time.time(), _zone())


def _field(value: Any, name: str) -> Any:
    """A key of a mapping, or an attribute that is really there: proxies and mocks have every attribute."""
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is much the quicker
        return value.get(name)
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict) and name in fields:
        return fields[name]
    return attribute(value, name) if hasattr(type(value), name) else None


def _in_info(info: Any) -> Facts | None:
    if info is True:
        return _met("")
    if isinstance(info, str):
        return in_text(info)
    if type(info) in _PLAIN:
        return None
    status = _field(info, "status")
    if _field(info, "isUsingOverage") is True or _is_open(info, status):
        return None
    wait_s = _wait_in(lambda name: _field(info, name))
    words = (_field(info, name) for name in _WORDS)
    message = next((each for each in words if isinstance(each, str)), "")
    rejected = isinstance(status, str) and status == "rejected"
    if wait_s is None and not message and not rejected:
        return None
    if wait_s is None:
        return _met(message)
    return Facts(Kind.RATE, Hint(retry_after_s=wait_s), shown(message, otherwise=_UNTOLD))


def _is_open(info: Any, status: Any) -> bool:
    """Whether it says that no limit was met: a report of what is left is no refusal."""
    remaining = _field(info, "remaining")
    left = isinstance(remaining, int | float) and not isinstance(remaining, bool) and remaining > 0
    denied = any(_field(info, name) is False for name in ("is_limited", "limited", "rate_limited"))
    other = isinstance(status, str) and status.lower() not in _CLOSED
    return left or denied or other


def _wait_in(get: _Get) -> float | None:
    """The wait that fields tell: seconds, an epoch, or a header's text."""
    for name in _WAITS:
        told = get(name)
        if isinstance(told, bool) or not isinstance(told, int | float | str):
            continue
        span = wait(str(told), time.time()) if isinstance(told, str) or told >= 0 else None
        if span is not None:
            return max(0.0, span.seconds)
        if not isinstance(told, str) and told < 0:
            return 0.0
    return None


# -- what is left behind --------------------------------------------------------------------------------------------


class Evidence(msgspec.Struct, frozen=True):
    """What a failed unit left besides its exception. `files` are those that it reported as its output."""

    exit_codes: tuple[int, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    files: tuple[str, ...] = ()
    #: 0: it was never run, and no log is its own.
    began_utc: float = 0.0


class LimitDetector(msgspec.Struct, frozen=True):
    """Where limits are looked for besides: exit codes that mean one, and a pattern of logs below a directory.

    `backs_off`: a limit that the work itself reported without a word on its end is left to the lane's own backoff.
    Otherwise it closes the lane for `default_wait`, as one that is found elsewhere always does.
    """

    exit_codes: tuple[int, ...] = ()
    logs: str = ""
    root: str = "."
    backs_off: bool = False

    @property
    def looks(self) -> bool:
        """Whether it has places of its own."""
        return bool(self.exit_codes or self.logs)

    def read(self, ran: Ran) -> Ran:
        """The same end of a unit in a worker, as a limit where one was met."""
        codes = ran.exit_codes if ran.death is None or ran.death.code is None else (ran.death.code,)
        evidence = Evidence(codes, ran.stdout, ran.stderr, began_utc=ran.began_utc)
        outcome, limit = self.judge(ran.outcome, evidence)
        if limit is None:
            return ran
        return msgspec.structs.replace(ran, outcome=outcome, rate_limit=ran.rate_limit or limit)

    def judge(self, outcome: Outcome, evidence: Evidence) -> tuple[Outcome, RateLimit | None]:
        """The outcome, and the limit that was met. `outcome` is what the result or the exception said by itself."""
        if outcome.kind is None:
            return outcome, None
        if outcome.kind in LIMITS:
            outcome = outcome if self.backs_off else _held(outcome)
            return outcome, rate_limit_of("exception", outcome)
        for source, facts in self._looked(evidence):
            if facts is not None:
                outcome = _held(Outcome(facts.kind, outcome.usage, facts.hint, facts.message))
                return outcome, rate_limit_of(source, outcome)
        return outcome, None

    def _looked(self, evidence: Evidence) -> Iterator[tuple[str, Facts | None]]:
        """Every place that is looked at, one after the other, and the limit that is found there."""
        for code in set(evidence.exit_codes) & set(self.exit_codes):
            yield "exit code", Facts(Kind.HOLD, message=f"exit code {code} says that a rate limit was met")
        now_utc, zone = time.time(), _zone()
        yield "stdout", limit_in_output(evidence.stdout, b"", now_utc, zone)
        yield "stderr", limit_in_output(b"", evidence.stderr, now_utc, zone)
        if not evidence.began_utc:
            return
        if self.logs:
            for path in self._fresh(Path(self.root).glob(self.logs), evidence.began_utc):
                yield os.path.relpath(path, self.root), _in_log(path)
        for path in self._fresh(map(Path, evidence.files), evidence.began_utc):
            yield str(path), _in_log(path, plain=path.name.endswith(_LOG_NAMES))

    @staticmethod
    def _fresh(paths: Iterable[Path], since_utc: float) -> list[Path]:
        """Files that were written since the unit began, the newest first."""
        dated = []
        for path in paths:
            try:
                changed = path.stat().st_mtime
            except (OSError, ValueError):
                continue
            if changed >= since_utc - _COARSE_S:
                dated.append((changed, path))
        return [path for _, path in sorted(dated, reverse=True)[:MOST_LOGS]]


def in_preflight(stdout: bytes, stderr: bytes, exit_code: int | None) -> Facts | None:
    """The limit that a preflight command tells of.

    A command that ends well has been answered. What it remarked on the way is no refusal then, unless it said nothing
    else, or what it printed is a refusal and nothing else: some agent CLIs print theirs where answers go.
    """
    now_utc, zone = time.time(), _zone()
    facts = limit_in_output(stdout, b"", now_utc, zone)
    if facts is not None or (exit_code == 0 and agents.read(stdout).ok):
        return facts
    answer, remarks = (each.decode("utf-8", errors="replace").strip() for each in (stdout, stderr))
    if exit_code != 0 or not answer:
        facts = limit_in_output(b"", stderr, now_utc, zone)
    else:
        facts = limit_in_statement(remarks.rpartition("\n")[2], now_utc, zone)
    return facts or limit_in_statement(answer, now_utc, zone)


def _in_log(path: Path, *, plain: bool = True) -> Facts | None:
    """The limit in a log: an agent's events, a JSON document with a program's output, or (`plain`) a text."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
            text = file.read()
    except OSError:
        return None
    now_utc, zone = time.time(), _zone()
    found = limit_in_output(text, b"", now_utc, zone)
    if found is not None:
        return found
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        is_events = text.lstrip().startswith(b"{")
        return limit_in_output(b"", text, now_utc, zone) if plain and not is_events else None
    if not isinstance(document, dict):
        return None
    return in_result(document) or _in_document(document, plain=plain)


def _in_document(document: dict[str, Any], *, plain: bool) -> Facts | None:
    now_utc, zone = time.time(), _zone()
    for names, to_output in ((_STDOUT, True), (_STDERR if plain else _STDERR[:1], False)):
        for name in names:
            value = document.get(name)
            if isinstance(value, str):
                streams = (_encoded(value), b"") if to_output else (b"", _encoded(value))
                found = limit_in_output(*streams, now_utc, zone)
                if found is not None:
                    return found
    return None


def rate_limit_of(source: str, outcome: Outcome) -> RateLimit:
    """A limit that was met, for the record."""
    wait_s = None if outcome.hint is None else outcome.hint.retry_after_s
    return RateLimit(source, wait_s, outcome.message, time.time())


def _held(outcome: Outcome) -> Outcome:
    """A limit without a word on its end closes the lane for the default wait; backing off alone is for servers."""
    outcome = believed(outcome)
    untold = outcome.hint is None or outcome.hint.retry_after_s is None
    if outcome.kind is Kind.RATE and untold:
        return msgspec.structs.replace(outcome, kind=Kind.HOLD)
    return outcome


def _zone() -> str:
    """The local time zone, for clock times that name none."""
    zone = os.environ.get("TZ", "").lstrip(":")
    if zone:
        return zone
    return _system_zone()


@cache
def _system_zone() -> str:
    link = os.path.realpath("/etc/localtime")
    return link.partition("zoneinfo/")[2] or "UTC"
