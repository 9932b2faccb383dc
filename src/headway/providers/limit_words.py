"""Whether an error text says that a rate limit was met, and for how long. Pure: the present is an argument.

Read are the texts of programs that failed: standard error, logs, the messages of exceptions. A model's answer is never
given to this file. But an error may quote one, a traceback quotes source code, and a setting may be called `rate_limit`;
so a text is pruned first. What is left is read as an agent CLI's or a provider's error, and then line by line for plain
words.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import Hint, Kind
from headway.providers.bodies import LONGEST_BODY
from headway.providers.hints import understand
from headway.providers.messages import shown
from headway.providers.profiles import PROFILES
from headway.providers.seen import Facts, Seen
from headway.providers.texts import wait_in

#: Kinds that say "later" or "no more". Every other failure is the unit's own.
LIMITS: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.OVERLOAD, Kind.HOLD, Kind.QUOTA})
#: The agent CLIs whose texts and events are known.
_AGENTS: Final = tuple(PROFILES[name] for name in ("claude", "codex", "gemini-cli"))

#: A text without any of these, in lower case, tells of no limit: most errors are done with here. A test holds that every code
#: and phrase has one.
TELLTALES: Final = (
    "limit", "429", "quota", "too many", "toomany", "too_many", "throttl", "overload", "exhaust", "capacity", "concurren", "credit",
    "usage", "503", "529", "402", "unavailable", "simultaneous", "slow_down", "notready", "balance", "spend", "billing", "payment",
    "access_terminated", "upgrade",
)  # fmt: skip

# -- what is pruned -----------------------------------------------------------------------------------------------

_LIMIT_NAME: Final = r"(?:rate|concurrency|usage|request)[ _-]?limit"
#: Errors of Python itself: they name keys, attributes and arguments, whatever those are called.
_OWN_FAULTS: Final = (
    r"(?:Key|Index|Lookup|Attribute|Name|UnboundLocal|Import|ModuleNotFound|Type|Syntax|Indentation|Assertion|Recursion"
    r"|NotImplemented|ZeroDivision|Overflow|UnicodeDecode|UnicodeEncode|JSONDecode|Memory)Error"
)
_PRUNED: Final = re.compile(
    # A frame of a traceback with the source code below it.
    r'^[ \t]+File "[^"\n]{0,500}", line \d+[^\n]*\n(?:[ \t]+[^\n]*(?:\n|\Z))*'
    rf"|^(?:[\w.]{{0,80}}\.)?{_OWN_FAULTS}\b[^\n]*$"
    # Limits that no provider sets.
    r"|^[^\n]*\b(?:disk|storage|inode|file ?system|mailbox|memory|recursion|time|size|depth|stack|context|iteration|step|turn"
    r"|character|length|upload|file|max_tokens)[ _-](?:\w{1,20} )?(?:limit|quota)\b[^\n]*$"
    r"|^[^\n]*\[errno\b[^\n]*$"
    # A setting of that name, and what is denied.
    rf"|^[^\n]*\b{_LIMIT_NAME}(?:s|er|ing)?\b['\"`]? (?:must|needs?|has to|may not|cannot|can't|is not|isn't|was not|wasn't"
    r"|is (?:missing|required|invalid|unset|disabled|enabled|ready)|not (?:set|configured|given|found|supported|reached|exceeded|hit)"
    r"|config\w*|settings?|options?|param\w*|arg\w*|values?)\b[^\n]*$"
    rf"|^[^\n]*\b(?:invalid|unknown|unsupported|missing|bad|unexpected|no|not|never|without|isn't|wasn't)"
    rf"(?: \w{{1,20}}){{0,3}} ['\"`]?{_LIMIT_NAME}[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
#: From here on a text quotes an answer.
_QUOTING: Final = (
    r"\b(?:(?:cannot|could not|couldn't|can't|failed to|unable to) (?:parse|decode|extract)\b"
    r"|(?:error|failure)(?: while| when)? (?:parsing|decoding|extracting)\b"
    r"|(?:model|assistant|judge|llm) (?:said|says|wrote|answered|replied)\b"
    r"|(?:the|its|an?|raw|bad|invalid|unexpected|malformed|model's) (?:answer|reply|completion)\b"
    r"|(?:answer|reply|completion) ?(?:was|is|=|:))"
)
_QUOTED_LINE: Final = re.compile(_QUOTING + r"[^\n]*", re.IGNORECASE)
_QUOTED_REST: Final = re.compile(_QUOTING + r".*", re.IGNORECASE | re.DOTALL)

# -- plain words --------------------------------------------------------------------------------------------------

#: "Too fast". It ends by itself, soon.
_RATE: Final = re.compile(
    r"\brate.?limit(?:ed|s)?\b.{0,20}\b(?:reached|hit|exceeded|error)\b"
    r"|\b(?:hit|reached|exceeded) (?:an? |the |your |our )?rate.?limit\b"
    r"|\b(?:been|being|was|were|is|are|got) rate.?limited\b(?! to\b)"
    r"|\b\w{0,40}error:? rate.?limit(?:ed)?\b(?=\s*(?:$|[.,;!·(\[]|:\s*[a-z]\w*(?:\s[a-z]|[.!]?$)|was|has|for|on\b|please|try|retry))"
    r"|(?:^|: )(?:\w{0,40}RateLimit\w{0,20}|Throttl\w{0,20}|TooManyRequests\w{0,20}|rate_limit_(?:error|exceeded)|rate exceeded)(?=[:.,!]|$)"
    r"|(?:^|\b(?:\w{0,40}error|api|http|status|failed): )429[.!]?$|\brate.?limiting (?:is )?(?:in effect|active|applied)\b"
    r"|(?:^|: )rate.?limit(?:ed\b(?! to\b)|[.!]?$)|\btoo many requests\b|\brequests? (?:was |is |has been )?throttled\b"
    r"|\b(?:http(?:/\d(?:\.\d)?)?|status(?:[_ ]code)?|error(?:[_ ]code)?|code|got|received|returned|with)\W{0,3}(?:an? )?(?:http )?429\b"
    r"(?=\s*(?:$|[^\w\s]|too many|rate|from|error|status|response|client|by\b))",
    re.IGNORECASE,
)
#: A quota or a subscription's window. It may last for hours.
_USED_UP: Final = re.compile(
    r"\bquota\b.{0,60}\b(?:exceeded|exhausted|reached|used up)\b|\b(?:exceeded|exhausted|used up)\b.{0,40}\bquota\b"
    r"|\b(?:hit|reached|exceeded) your (?:[\w-]{1,20} ){0,4}limit\b"
    r"|\b(?:hit|reached|exceeded) the (?:[\w-]{1,20} ){0,3}(?:usage|requests?|session|daily|weekly|hourly|monthly|api|account|plan) limit\b"
    r"|\b(?:weekly|daily|hourly|monthly) usage limit\b|\busage limit (?:reached|exceeded|hit)\b"
    r"|\blimit resets? (?:at |in )?\d|\bupgrade to continue\b",
    re.IGNORECASE,
)
#: Only a limit where the line also says when it ends.
_VAGUE: Final = re.compile(
    r"\b(?:hit|reached|exceeded) (?:the|its|a) (?:[\w-]{1,20} ){0,3}limit\b|(?:^|: )limit reached\b",
    re.IGNORECASE,
)
_BUSY: Final = re.compile(
    r"^(?:.{0,80}\b(?:\w{0,40}error|\w{0,40}exception|api|is|are|server|model)\b\W{0,3})?overloaded\W{0,3}$",
    re.IGNORECASE,
)
#: What does not pass by waiting.
_MONEY: Final = re.compile(r"\bcurrent quota\b|\bbilling\b|\bout of credits?\b|\bspend", re.IGNORECASE)
_LOCAL: Final = re.compile(
    r"\b(?:disk|storage|inode|file ?system|mailbox|memory|recursion|time|size|depth|stack)\b(?!['\"]?\s?[=:])|\berrno\b",
    re.IGNORECASE,
)
#: "Concurrent requests" is also what a client has settings for.
_REFUSED: Final = re.compile(
    r"\btoo many\b|\bexceed|\breached\b|\bhit\b|\b429\b|\bretry\b|\btry again\b|\bwait\b", re.IGNORECASE
)

#: A limit, and nothing else: the whole text of a program that prints its refusal where answers go.
_STATEMENT: Final = re.compile(
    r"^(?:(?:[\w-]{1,20} ){0,2}error(?: code)?:? )?(?:http )?"
    r"(?:429\b[:,\s-]*(?:rate.?limit(?:ed)?|too many requests|quota)\b(?: (?:reached|exceeded|hit|error))?"
    r"|(?:you (?:are|were|have been) |you've been )?rate.?limit(?:ed|_error)?\b(?: (?:is |was |has been )?(?:reached|exceeded|hit|error))?"
    r"|rate_limit_exceeded|too many requests|overloaded(?:_error)?"
    r"|you(?:['’ʼ]ve| have)? (?:hit|reached|used up|exceeded) (?:all (?:of )?)?your (?:[\w-]{1,20} ){0,4}limits?"
    r"|(?:claude (?:ai |code )?)?(?:(?:usage|session|weekly|daily|hourly|monthly|opus|sonnet|haiku|\d{1,2}-hour) ){1,2}limit"
    r" (?:was |has been )?(?:reached|exceeded|hit)"
    r"|(?:your |the )?(?:(?:api|daily|weekly|usage|token|request|current) ){0,2}quota (?:is |was |has been )?(?:exceeded|exhausted|used up))"
    r"(?:\W*$|[\s.,;:·∙|—–(-]+(?:\d{10,13}\s*$|in \d|for \S|resets?\b|(?:please |then )?(?:try|retry|wait|slow|upgrade|reduce)\b"
    r"|/upgrade\b|your limit\b|limit\b))",
    re.IGNORECASE,
)

_LAST_LINES: Final = 200
_LONGEST_LINE: Final = 500
#: A refusal is a line or two.
_LONGEST_STATEMENT: Final = 600


def limit_in_output(stdout: bytes, stderr: bytes, now_utc: float, zone: str) -> Facts | None:
    """A limit in a program's output: in structured events on `stdout`, in any words on `stderr`."""
    if not _may_tell(stdout.decode("utf-8", errors="replace")):
        stdout = b""
    text = stderr.decode("utf-8", errors="replace")
    text = _pruned(text, _QUOTED_LINE) if _may_tell(text) else ""
    return _limit_in(stdout, text, now_utc, zone) if stdout or text else None


def limit_in_message(message: str, now_utc: float, zone: str) -> Facts | None:
    """A limit in the text of an exception or of an error field. Quoting an answer, it quotes to its end."""
    message = message[-LONGEST_BODY:]
    return _limit_in(b"", _pruned(message, _QUOTED_REST), now_utc, zone) if _may_tell(message) else None


def limit_in_statement(text: str, now_utc: float, zone: str) -> Facts | None:
    """A limit where the first line of the text states one and says nothing else."""
    text = text.strip()
    line = text.partition("\n")[0].strip()
    if len(text) > _LONGEST_STATEMENT or _STATEMENT.match(line) is None:
        return None
    return limit_in_message(text, now_utc, zone)


def _may_tell(text: str) -> bool:
    text = text.lower()
    return any(word in text for word in TELLTALES)


def _pruned(text: str, quoted: re.Pattern[str]) -> str:
    return quoted.sub("", _PRUNED.sub("", text))


def _limit_in(stdout: bytes, text: str, now_utc: float, zone: str) -> Facts | None:
    seen = Seen(body=stdout, text=text, origin="cli")
    for profile in _AGENTS:
        facts = understand(seen, profile, now_utc=now_utc, zone=zone)
        if facts.kind not in LIMITS:
            continue
        if facts.kind is Kind.CONCURRENCY and text and _REFUSED.search(text) is None:
            continue
        if facts.code == "no_allowance" and text and "quota" not in text.lower():
            continue
        if facts.kind is Kind.QUOTA and "_" not in facts.code:
            # Words without a code: whether they speak of money, or of what comes back by itself, is decided below.
            return _in_lines(text, now_utc, zone) or facts
        return facts
    return _in_lines(text, now_utc, zone)


def _in_lines(text: str, now_utc: float, zone: str) -> Facts | None:
    """The last line that speaks of a limit."""
    for line in reversed(text.splitlines()[-_LAST_LINES:]):
        line = line[:_LONGEST_LINE].strip()
        facts = _in_line(line, now_utc, zone)
        if facts is not None:
            return facts
    return None


def _in_line(line: str, now_utc: float, zone: str) -> Facts | None:
    if _BUSY.match(line) is not None:
        return Facts(Kind.OVERLOAD, Hint(), shown(line))
    rate, used_up = _RATE.search(line), _USED_UP.search(line)
    if _LOCAL.search(line) is not None or not (rate or used_up or _VAGUE.search(line)):
        return None
    span = wait_in(line, now_utc, zone)
    if span is not None:
        return Facts(Kind.RATE, Hint(retry_after_s=span.seconds), shown(line))
    if used_up and _MONEY.search(line) is not None:
        return Facts(Kind.QUOTA, Hint(), shown(line))
    if used_up:
        return Facts(Kind.HOLD, Hint(), shown(line))
    return Facts(Kind.RATE, Hint(), shown(line)) if rate else None
