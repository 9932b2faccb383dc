"""Whether a unit that failed met a rate limit, from everything that its worker left behind.

In this order, and the first that says so counts: what the result or the exception said itself, the exit code, the
structured events on standard output, standard error, and log files that the worker left. The plain text of standard
output is never read: it may be a model's answer, which speaks of limits as it likes. A limit that says nothing of its
end closes the lane for `default_wait`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.core.model import Hint, Kind, Outcome
from headway.executors.ran import Ran
from headway.providers.base import RateLimit
from headway.providers.hints import understand
from headway.providers.messages import shown
from headway.providers.profile import Profile
from headway.providers.profiles import PROFILES
from headway.providers.seen import Facts, Seen
from headway.providers.texts import wait_in

#: What says "later" or "not any more": everything else is the unit's own failure.
LIMITS: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.OVERLOAD, Kind.HOLD, Kind.QUOTA})
#: Whose words are tried: agents that a worker may have run.
_AGENTS: Final = tuple(PROFILES[name] for name in ("claude", "codex", "gemini-cli"))
#: What nobody's profile knows, line by line on standard error and in logs: whatever a worker runs says it in its own words.
#: A wait makes it a rate limit; otherwise money does not come back by waiting, and everything else may.
_LATER: Final = re.compile(
    r"\bquota\b.{0,60}\b(?:exceeded|exhausted|reached|used up)\b|\b(?:exceeded|exhausted|used up)\b.{0,40}\bquota\b"
    r"|\b(?:hit|reached|exceeded) (?:your|the) (?:[\w-]{1,20} ){0,4}limit\b|\b(?:weekly|daily|hourly|monthly) usage limit\b"
    r"|\busage limit (?:reached|exceeded|hit)\b|\blimit resets? (?:at |in )?\d|\bupgrade to continue\b"
    r"|\brate.?limit(?:ed|s)?\b.{0,20}\b(?:reached|hit|exceeded|error)\b|\b(?:hit|reached|error:?|been|was) (?:an? |the )?rate.?limit",
    re.IGNORECASE,
)
_BUSY: Final = re.compile(r"^(?:.{0,80}\b(?:error|api|is|are)\b\W{0,3})?overloaded\W{0,3}$", re.IGNORECASE)
_MONEY: Final = re.compile(r"\bcurrent quota\b|\bbilling\b|\bout of credits?\b|\bspend", re.IGNORECASE)
#: Quotas and limits that are no provider's.
_LOCAL: Final = re.compile(
    r"\b(?:disk|storage|inode|file ?system|mailbox|memory|recursion|time|size|depth|stack)\b|\berrno\b",
    re.IGNORECASE,
)
_LAST_LINES: Final = 200
_LONGEST_LINE: Final = 500
#: Clocks of file systems are coarser than ours.
_COARSE_S: Final = 0.05
#: What is read of logs: the newest ones, and the end of each.
MOST_LOGS: Final = 20
LOG_TAIL: Final = 262_144
#: The keys under which a log's JSON document has a program's output.
_STDOUT: Final = ("stdout", "output")
_STDERR: Final = ("stderr", "error", "error_message", "message")


class LimitDetector(msgspec.Struct, frozen=True):
    """Where limits are looked for: exit codes that mean one, and a pattern of logs below a directory."""

    exit_codes: tuple[int, ...] = ()
    logs: str = ""
    root: str = "."

    def read(self, ran: Ran) -> Ran:
        """The same end, as a limit where one was met."""
        if ran.outcome.kind is None:
            return ran
        if ran.outcome.kind in LIMITS:
            limit = ran.rate_limit or _limit("exception", ran.outcome)
            return msgspec.structs.replace(ran, outcome=_at_least_held(ran.outcome), rate_limit=limit)
        for source, look in self._places(ran):
            facts = look()
            if facts is not None:
                outcome = _at_least_held(Outcome(facts.kind, ran.outcome.usage, facts.hint, facts.message))
                return msgspec.structs.replace(ran, outcome=outcome, rate_limit=_limit(source, outcome))
        return ran

    def _places(self, ran: Ran) -> Iterator[tuple[str, Callable[[], Facts | None]]]:
        if ran.death is not None and ran.death.code in self.exit_codes:
            text = f"exit code {ran.death.code} says that a rate limit was met"
            yield "exit code", lambda: Facts(Kind.HOLD, message=text)
        yield "stdout", lambda: said(ran.stdout, b"")
        yield "stderr", lambda: said(b"", ran.stderr)
        if self.logs:
            for path in self._fresh(ran.began_utc):
                yield os.path.relpath(path, self.root), lambda path=path: _in_log(path)  # type: ignore[misc]

    def _fresh(self, since_utc: float) -> list[Path]:
        """Logs that were written since the unit began, the newest first."""
        dated = []
        for path in Path(self.root).glob(self.logs):
            try:
                changed = path.stat().st_mtime
            except OSError:
                continue
            if changed >= since_utc - _COARSE_S:
                dated.append((changed, path))
        return [path for _, path in sorted(dated, reverse=True)[:MOST_LOGS]]


def said(stdout: bytes, stderr: bytes) -> Facts | None:
    """What a program's output says of a limit; None where it says nothing of one."""
    if not stdout.strip() and not stderr.strip():
        return None
    text = stderr.decode("utf-8", errors="replace")
    seen = Seen(body=stdout, text=text, origin="cli")
    now_utc, zone = time.time(), _zone()
    for profile in _AGENTS:
        facts = _limit_in(seen, profile, now_utc, zone)
        if facts is not None and facts.kind is Kind.QUOTA and "_" not in facts.code:
            # No code, words alone: whether they speak of money, or of what comes back by itself, is looked at here.
            return _in_plain_words(text, now_utc, zone) or facts
        if facts is not None:
            return facts
    return _in_plain_words(text, now_utc, zone)


def _in_plain_words(text: str, now_utc: float, zone: str) -> Facts | None:
    """The last line that speaks of a limit."""
    for line in reversed(text.splitlines()[-_LAST_LINES:]):
        line = line[:_LONGEST_LINE].strip()
        if _BUSY.match(line) is not None:
            return Facts(Kind.OVERLOAD, Hint(), shown(line))
        if _LATER.search(line) is None or _LOCAL.search(line) is not None:
            continue
        span = wait_in(line, now_utc, zone)
        if span is not None:
            return Facts(Kind.RATE, Hint(retry_after_s=span.seconds), shown(line))
        return Facts(Kind.QUOTA if _MONEY.search(line) else Kind.HOLD, Hint(), shown(line))
    return None


def _limit_in(seen: Seen, profile: Profile, now_utc: float, zone: str) -> Facts | None:
    facts = understand(seen, profile, now_utc=now_utc, zone=zone)
    return facts if facts.kind in LIMITS else None


def _in_log(path: Path) -> Facts | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
            text = file.read()
    except OSError:
        return None
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return said(text, b"") or (None if _is_json_lines(text) else said(b"", text))
    if not isinstance(document, dict):
        return said(text, b"")
    found = said(text, b"")
    for names, to_output in ((_STDOUT, True), (_STDERR, False)):
        for name in names:
            value = document.get(name)
            if found is None and isinstance(value, str):
                found = said(value.encode(), b"") if to_output else said(b"", value.encode())
    return found


def _is_json_lines(text: bytes) -> bool:
    return text.lstrip().startswith(b"{")


def _at_least_held(outcome: Outcome) -> Outcome:
    """A limit without a word on its end closes the lane for the default wait; backing off alone is for servers."""
    untold = outcome.hint is None or outcome.hint.retry_after_s is None
    if outcome.kind is Kind.RATE and untold:
        return msgspec.structs.replace(outcome, kind=Kind.HOLD)
    return outcome


def _limit(source: str, outcome: Outcome) -> RateLimit:
    wait_s = None if outcome.hint is None else outcome.hint.retry_after_s
    return RateLimit(source, wait_s, outcome.message, time.time())


def _zone() -> str:
    """The local one, for clock times that name none."""
    zone = os.environ.get("TZ", "").lstrip(":")
    if zone:
        return zone
    link = os.path.realpath("/etc/localtime")
    return link.partition("zoneinfo/")[2] or "UTC"
