"""Whether an error text reports that a rate limit was reached, and for how long. Pure: the current time is an argument.

The texts are those of programs that failed: standard error, logs, messages of exceptions. A model's answer is never read
here. But an error may quote one, and not every line with the words reports a limit: `false_positives` removes those that
do not. The rest is read as an error of an agent CLI or a provider, and then line by line for plain words.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import Hint, Kind
from headway.providers.error_messages import short_message
from headway.providers.limits.error_bodies import LONGEST_BODY
from headway.providers.limits.false_positives import ADDRESS, may_report_limit, without_false_positives
from headway.providers.limits.hints import Facts, RawResponse, understand
from headway.providers.limits.message_limits import stated_wait
from headway.providers.limits.profiles import PROFILES

#: Kinds that mean "later" or "no more". Every other failure is the unit's own.
LIMIT_KINDS: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.OVERLOAD, Kind.HOLD, Kind.QUOTA})
#: The agent CLIs whose texts and events are known.
_AGENTS: Final = tuple(PROFILES[name] for name in ("claude", "codex", "gemini-cli"))

#: What follows these words is a quoted answer.
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

_REACHED: Final = r"(?:was |is |has been |have been )?(?:reached|hit|exceeded)"
#: Too fast: it ends by itself, soon.
_RATE: Final = re.compile(
    r"\brate.?limit(?:ed|s)?\b.{0,20}\b(?:reached|hit|exceeded|error)\b"
    r"|\b(?:hit|reached|exceeded|exceeds) (?:[\w-]{1,20} ){0,4}rate.?limits?\b"
    r"|\bwould exceed (?:[\w'’-]{1,30} ){0,4}rate.?limits?\b"
    r"|\b(?:been|being|was|were|is|are|got) rate.?limited\b(?! to\b)"
    r"|\b\w{0,40}error:? rate.?limit(?:ed)?\b(?=\s*(?:$|[.,;!·(\[]|:\s*[a-z]\w*(?:\s[a-z]|[.!]?$)|was|has|for|on\b|please|try|retry))"
    r"|(?:^|: )(?:\w{0,40}RateLimit\w{0,20}|Throttl\w{0,20}|TooManyRequests\w{0,20}|rate_limit_(?:error|exceeded)|slow_down|(?:request )?rate exceeded)(?=[:.,!]|$)"
    r"|(?:^|\b(?:\w{0,40}error|api|http|status|failed): )429[.!]?$|\brate.?limiting (?:is |was )?(?:in effect|active|applied|detected)\b"
    r"|(?:^|: |· |\b(?:WARN|WARNING|ERROR|FATAL)\W{1,3})rate.?limit(?:ed\b(?! to\b| (?:client|queue)s?\b)|[.!]?$)|\btoo many requests\b|\brequests? (?:was |is |has been )?throttled\b"
    r"|(?<!exit )\b(?:http(?:/\d(?:\.\d)?)?|status(?:[_ ]?code)?|error(?:[_ ]code)?|code|got|received|returned|with)\W{0,3}(?:an? )?(?:http )?429\b"
    r"(?=\s*(?:$|[^\w\s]|too many|rate|from|error|status|response|client|by\b|\w{1,40}=))"
    r"|\b(?:failed|failure|error|rejected|refused|denied|requests|limit\w{0,6}|quota)\W{0,2} \((?:http |status |code |error ){0,2}429\)"
    r"|\btemporarily limiting requests\b|\breduce your request rate\b|(?:^|[:=] ?)[\"'(]?RESOURCE_EXHAUSTED\b"
    r"|(?:^|: |\[)resource (?:has been |is )?exhausted\b"
    r"|\berror['\"]?\s?[:=]\s?['\"]rate_limit(?:ed)?['\"]|\btoo many tokens per\b|\bdue to (?:request )?throttling\b"
    rf"|\b(?:[IO]?[RT]P[SMHD]|(?:requests?|tokens?|calls) per (?:second|minute|hour|day)) (?:limit )?{_REACHED}\b",
    re.IGNORECASE,
)
#: A used-up quota or subscription window: it may last for hours.
_USED_UP: Final = re.compile(
    r"\bquota\b.{0,60}\b(?:exceeded|exhausted|reached|used up)\b|\b(?:exceeded|exhausted|used up)\b.{0,40}\bquota\b"
    r"|\byou have no quota\b|\bexhausted your capacity\b"
    r"|\b(?:hit|reached|exceeded) your (?:[\w-]{1,20} ){0,4}(?:limit|usage|allowance)\b"
    r"|\b(?:hit|reached|exceeded) (?:the|its|their|this) (?:[\w-]{1,20} ){0,3}"
    r"(?:usage|requests?|session|daily|weekly|hourly|monthly|api|account|plan) (?:limit|cap)\b"
    rf"|\b(?:weekly|daily|hourly|monthly) usage limit\b|\b(?:usage|session|plan|plan's|account|daily|weekly|monthly)(?: requests?)? (?:limit|cap) {_REACHED}\b"
    r"|\bexceeded (?:daily|weekly|hourly|monthly)(?: requests?)? limit\b"
    r"|\bused (?:up )?(?:100 ?%|all) of your (?:[\w-]{1,20} ){0,3}limit\b"
    r"|\blimit resets? (?:at |in )?\d|\bupgrade to continue\b",
    re.IGNORECASE,
)
#: A limit only if the line also says when it ends.
_VAGUE: Final = re.compile(
    r"\b(?:hit|reached|exceeded) (?:the|its|a) (?:[\w-]{1,20} ){0,3}limit\b|(?:^|: )limit reached\b",
    re.IGNORECASE,
)
_OVERLOADED: Final = re.compile(
    r"^(?:.{0,80}\b(?:\w{0,40}error|\w{0,40}exception|api|is|are|server|model)\b\W{0,3})?overloaded(?:_error)?\W{0,3}$"
    r"|\b529\b\W{0,3}overloaded\b|\brepeated (?:529|server overload)\b|\b(?:server|service|model|engine|api|upstream|provider)s? overloaded\b"
    r"|\b(?:error|http|status(?:[_ ]?code)?|code|got|received|returned):? ?\(?529\b|\bexperiencing (?:unusually )?high (?:demand|load|traffic)\b"
    r"|\bno capacity available\b",
    re.IGNORECASE,
)
#: Money, where something is used up; and sentences that mean no money by themselves. Waiting does not help.
_MONEY: Final = re.compile(r"\bcurrent quota\b|\bbilling\b|\bspend", re.IGNORECASE)
_NO_MONEY: Final = re.compile(
    r"(?:^|[:.] |\d )insufficient[ _](?:account )?(?:credits?|quota)(?=\s*(?:$|[.,;:!(—-]|to\b|for this\b|on\b|please\b|remaining\b))"
    r"|(?:^|[:.] |\d )insufficient account balance\b|\b402:? insufficient balance\b"
    r"|\bout of credits?\b|\bnot enough credits\b|\brequires more credits\b|\bcredit balance (?:is )?too low\b"
    rf"|\b(?:spend(?:ing)?|billing) (?:limit|cap) {_REACHED}\b"
    r"|\b(?:hit|reached|exceeded) (?:the|its|your|their) (?:[\w-]{1,20} ){0,2}spend(?:ing)? (?:limit|cap)\b",
    re.IGNORECASE,
)
_LOCAL_LIMITS: Final = re.compile(
    r"\b(?:disk|storage|inode|file ?system|mailbox|memory|recursion|time|size|depth|stack)\b(?!['\"]?\s?[=:])|\berrno\b",
    re.IGNORECASE,
)
#: Words of a refusal: "concurrent requests" alone may also be a setting of a client.
_REFUSAL_WORDS: Final = re.compile(
    r"\btoo many\b|\bexceed|\breached\b|\bhit\b|\b429\b|\bretry\b|\btry again\b|\bwait\b", re.IGNORECASE
)

#: A limit and nothing else: the whole text of a program that prints its refusal on standard output.
_STATEMENT: Final = re.compile(
    r"^\[?(?:API Error(?:: | \()"
    r"|(?:(?:[\w-]{1,20} ){0,2}error(?: code)?:? )?(?:http )?"
    r"(?:429\b[:,\s-]*(?:rate.?limit(?:ed)?|too many requests|quota)\b(?: (?:reached|exceeded|hit|error))?"
    r"|(?:you (?:are|were|have been) |you've been )?rate.?limit(?:ed|_error)?\b(?: (?:is |was |has been )?(?:reached|exceeded|hit|error))?"
    r"|rate_limit_exceeded|too many requests|overloaded(?:_error)?|insufficient_quota"
    r"|you(?:['’ʼ]ve| have)? (?:hit|reached|used up|exceeded) (?:all (?:of )?)?your (?:[\w-]{1,20} ){0,4}limits?"
    r"|(?:claude (?:ai |code )?)?(?:(?:usage|session|weekly|daily|hourly|monthly|opus|sonnet|haiku|\d{1,2}-hour) ){1,2}limit"
    r" (?:was |has been )?(?:reached|exceeded|hit)"
    r"|(?:your |the )?(?:(?:api|daily|weekly|usage|token|request|current) ){0,2}quota (?:is |was |has been )?(?:exceeded|exhausted|used up)"
    r"(?: for (?:quota )?metric\b.{0,300})?"
    r"|you exceeded your current quota|insufficient credits|exceeded retry limit, last status: 429 too many requests|(?:your )?credit balance is too low|request (?:failed|rejected) \(429\)"
    r"|resource has been exhausted \(e\.g\. check quota\))"
    r"(?:\W*$|[\s.,;:·∙|—–(-]+(?:\d{10,13}\s*$|in \d|for \S|resets?\b|(?:please |then )?(?:try|retry|wait|slow|upgrade|reduce|check|go)\b"
    r"|to access\b|request id\b|/upgrade\b|(?:your )?limit\b)))",
    re.IGNORECASE,
)

_LAST_LINES: Final = 200
_LONGEST_LINE: Final = 500
#: A refusal has a line or two.
_LONGEST_STATEMENT: Final = 600


def limit_in_output(stdout: bytes, stderr: bytes, now_utc: float, zone: str) -> Facts | None:
    """The limit in a program's output: in structured events on `stdout`, in any words on `stderr`."""
    if not may_report_limit(stdout.decode("utf-8", errors="replace")):
        stdout = b""
    text = _recent(stderr.decode("utf-8", errors="replace"))
    text = _QUOTED_LINE.sub("", without_false_positives(text)) if may_report_limit(text) else ""
    return _limit_in(stdout, text, now_utc, zone) if stdout or text else None


def _recent(text: str) -> str:
    """The part at the end of the text that is read."""
    older = text.rsplit("\n", _LAST_LINES)
    begin = len(older[0]) if len(older) > _LAST_LINES else 0
    return text[min(begin, max(0, len(text) - LONGEST_BODY)) :]


def limit_in_message(message: str, now_utc: float, zone: str) -> Facts | None:
    """The limit in the text of an exception or of an error field. A quoted answer extends to the end of the text."""
    message = message[-LONGEST_BODY:]
    return (
        _limit_in(b"", _QUOTED_REST.sub("", without_false_positives(message)), now_utc, zone)
        if may_report_limit(message)
        else None
    )


def limit_in_statement(text: str, now_utc: float, zone: str) -> Facts | None:
    """The limit in a text whose first line states one and nothing else."""
    text = text.strip()
    line = text.partition("\n")[0].strip()
    if len(text) > _LONGEST_STATEMENT or _STATEMENT.match(line) is None:
        return None
    return limit_in_message(text, now_utc, zone)


def _limit_in(stdout: bytes, text: str, now_utc: float, zone: str) -> Facts | None:
    response = RawResponse(body=stdout, text=text, origin="cli")
    for profile in _AGENTS:
        facts = understand(response, profile, now_utc=now_utc, zone=zone)
        if facts.kind not in LIMIT_KINDS:
            continue
        if facts.kind is Kind.CONCURRENCY and text and _REFUSAL_WORDS.search(text) is None:
            continue
        if facts.code == "no_allowance" and text and "quota" not in text.lower():
            continue
        if facts.kind is Kind.QUOTA and "_" not in facts.code:
            # Words without a code: whether it is money, or a quota that is renewed, is decided below.
            return _limit_in_lines(text, now_utc, zone) or facts
        return facts
    return _limit_in_lines(text, now_utc, zone)


def _limit_in_lines(text: str, now_utc: float, zone: str) -> Facts | None:
    """The limit in the last line that reports one."""
    for line in reversed(text.splitlines()[-_LAST_LINES:]):
        line = line[:_LONGEST_LINE].strip()
        facts = _limit_in_line(line, now_utc, zone)
        if facts is not None:
            return facts
    return None


def _limit_in_line(line: str, now_utc: float, zone: str) -> Facts | None:
    words = ADDRESS.sub("", line)
    if _OVERLOADED.search(words) is not None:
        return Facts(Kind.OVERLOAD, Hint(), short_message(line))
    if _NO_MONEY.search(words) is not None:
        return Facts(Kind.QUOTA, Hint(), short_message(line))
    rate, used_up = _RATE.search(words), _USED_UP.search(words)
    if _LOCAL_LIMITS.search(words) is not None or not (rate or used_up or _VAGUE.search(words)):
        return None
    span = stated_wait(line, now_utc, zone)
    if span is not None:
        return Facts(Kind.RATE, Hint(retry_after_s=span.seconds), short_message(line))
    if used_up and _MONEY.search(line) is not None:
        return Facts(Kind.QUOTA, Hint(), short_message(line))
    if used_up:
        return Facts(Kind.HOLD, Hint(), short_message(line))
    return Facts(Kind.RATE, Hint(), short_message(line)) if rate else None
