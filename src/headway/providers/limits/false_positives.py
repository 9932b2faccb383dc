"""Text with the words of a rate limit that reports none: source code, statistics, settings, advice. Pure.

Whole lines of that kind are removed. In other lines only the clause is removed that denies a limit, counts none, or says what
happens in case of one: the rest of the line may still be a refusal. `limit_text` reads the rest.
"""

from __future__ import annotations

import re
from typing import Final

#: A text without any of these, in lower case, reports no limit: most errors need no further search. A test checks that every
#: code and phrase contains one.
LIMIT_MARKERS: Final = (
    "limit", "429", "quota", "too many", "toomany", "too_many", "throttl", "overload", "exhaust", "capacity", "concurren", "credit",
    "usage", "503", "529", "402", "unavailable", "simultaneous", "slow_down", "slowdown", "notready", "balance", "spend", "billing",
    "payment", "access_terminated", "upgrade", "experiencing high", "allowance", " per minute", " per day", "rate exceeded",
)  # fmt: skip

#: The address of a page about limits contains the words.
ADDRESS: Final = re.compile(r"https?://[^\s\"'<>]{1,500}")

# -- whole lines ----------------------------------------------------------------------------------------------------

#: A frame of a traceback, with its source code.
_FRAMES: Final = re.compile(
    r'^[ \t]+File "[^"\n]{0,500}", line \d+[^\n]*\n(?:[ \t]+[^\n]*(?:\n|\Z))*', re.MULTILINE
)
#: The beginning of a line: an exception's type, a place in a file, a mark of a diff.
_LINE_START: Final = r"^(?:[\w.]{1,80}: )?(?:[^\s:]{1,200}:\d{1,7}[:-](?:\d{1,5}:)?)? ?[+-]? ?"
#: Errors of Python itself: they quote the names of keys, attributes and arguments.
_PYTHON_ERRORS: Final = (
    r"(?:Key|Index|Lookup|Attribute|Name|UnboundLocal|Import|ModuleNotFound|Type|Syntax|Indentation|Assertion|Recursion"
    r"|NotImplemented|ZeroDivision|Overflow|UnicodeDecode|UnicodeEncode|JSONDecode|Memory)Error"
)
_LIMIT_NAME: Final = r"(?:rate|concurrency|usage|request)[ _-]?limit"
#: Source code: statements that raise, catch, define, import and compare; comments.
_CODE: Final = (
    rf"{_LINE_START}(?:raise \w[\w.]*\(|throw new \w|except\b[^:]{{0,200}}:\s*$|\}}?\s*catch ?\(|(?:async )?def \w+\("
    r"|class \w[^:{]{0,200}[:{]\s*$|(?:if|elif|else if|while)\b.{0,200}(?:==|!=|>=|<=|[:{]\s*$)|(?:if|while|switch|assert) ?\("
    r"|case [^\s:]{1,80}:\s*$|return (?:\S{1,80}\s*$|['\"(])|from \S{1,200} import \w|import (?:\{|[\w.]{1,200};?\s*$)"
    r"|(?:const|let|var|final|static) \w[\w<>: ]{0,80}=|(?:func|fn|pub fn) \w+[(<]|@\w[\w.]{0,80}\(|\w{1,80} = \d{3}[;,]?\s*$"
    r"|#(?!\d)|//|/\*|<!--)"
)
#: Lines of test runners about tests that passed.
_TESTS: Final = r"^\s*(?:[✓✔√]|(?:not )?ok \d{1,6}\b)|(?-i:\bPASS(?:ED)?\b)"
_COMMITS: Final = (
    r"^\s*(?:[\w.]{1,80}: )?(?:[0-9a-f]{7,40} )?(?:feat|fix|docs|chore|refactor)(?:\([^)]{0,40}\))?!?: "
)
#: Limits that no provider sets.
_OTHER_LIMITS: Final = (
    r"\b(?:disk|storage|inode|file ?system|mailbox|memory|recursion|time|size|depth|stack|context|iteration|step|turn"
    r"|character|length|upload|file|max_tokens)[ _-](?:\w{1,20} )?(?:limit|quota)\b|\[errno\b"
    r"|\b(?:frame|bit|baud|sample|sampling|refresh|failure|interest|exchange|learning|tax|growth)[ _-]?rate[ _-]?limit"
    r"|\bresource.?exhausted.{0,80}\b(?:memory|oom|allocat\w{1,5}|tensor|larger than max|disk|file descriptors)\b"
)
_WHOLE_LINES: Final = re.compile(
    "|".join(
        (
            rf"^(?:[\w.]{{1,80}}: )?(?:E )?(?:[\w.]{{0,80}}\.)?{_PYTHON_ERRORS}\b",
            _CODE,
            _TESTS,
            _COMMITS,
            _OTHER_LIMITS,
            r"^\W*(?:[\w.]{1,80}: )?(?:an? |the )?(?:http )?(?:error |status |code )*429s? (?:errors? |codes? )?"
            r"(?:means?|stands? for|indicates?|signals?|is (?:returned|sent))\b",
        )
    ),
    re.IGNORECASE,
)
#: Functions and containers may be "overloaded" or "at capacity", too.
_BUSY: Final = re.compile(r"\b(?:is|are) overloaded\b|\bcapacity exceeded\b|\bat capacity\b", re.IGNORECASE)
_SERVICE: Final = re.compile(
    r"\b(?:servers?|services?|models?|engines?|apis?|systems?|providers?|upstream|backends?|endpoints?|hosts?|gateways?|clusters?"
    r"|claude|anthropic|openai|gpt|codex|gemini|google|azure|bedrock|mistral|groq|deepseek|opus|sonnet|haiku|we|retry|later"
    r"|try(?:ing)? again|currently|temporarily|requests|service tier)\b|\b[a-z]+[-/][\w./-]{0,40}\d"
    r"|^\W*(?:[\w.]{1,80}: )*capacity exceeded",
    re.IGNORECASE,
)
_CALLABLE: Final = re.compile(
    r"\b(?:operators?|functions?|methods?|constructors?|names?|symbols?|identifiers?|macros?|templates?|procedures?|terms?|words?"
    r"|meanings?|types?|notations?|buffers?|queues?|maps?|tables?)\b|\boperator\W|\w\(\)",
    re.IGNORECASE,
)
_TEMPORARY: Final = re.compile(r"\b(?:currently|temporarily|retry|try again|later)\b", re.IGNORECASE)

# -- clauses --------------------------------------------------------------------------------------------------------

#: A setting with the name of a limit.
_SETTINGS: Final = (
    rf"\b{_LIMIT_NAME}(?:s|er|ing)?\b['\"`]? (?:must|needs?|has to|may not|cannot|can't|is not|isn't|was not|wasn't|were not|weren't|(?:was|were) never"
    r"|is (?:missing|required|invalid|unset|disabled|enabled|ready|off|on)|not (?:set|configured|given|found|supported|reached|exceeded|hit)"
    r"|config\w*|settings?|options?|param\w*|arg\w*|values?)\b"
)
_LIMITED: Final = r"(?:rate[ _-]?limit(?:ed|s|ing)?|throttl(?:ed|ing)|overloaded|429s?)"
_WORDS: Final = rf"(?:{_LIMITED}|too many requests|usage limit|quota|(?:http |status |error |code |an? |the ){{1,3}}429s?)"
_IN_NAMES: Final = r"(?:limit|quota|429|throttl|overload)"
_COUNTED: Final = r"(?:\d{1,9}|api|http|requests?|calls?|units?|rows?|jobs?|tasks?|items?|attempts?|responses?|were|was|are|got|been)"
_REST: Final = r'[^.;·"}\n]{0,300}'
_SMALL_WORDS: Final = (
    r"(?:you|we|they|it|the|an?|your|our|its|this|that|is|are|was|were|be|been|being|gets?|getting|hits?|api|servers?|clients?"
    r"|requests?|users?|response|returns?|exceeds?|of)"
)
_CLAUSES: Final = re.compile(
    "|".join(
        (
            # Addresses stay: the message that is shown has them.
            rf"({ADDRESS.pattern})",
            # Names of tests, options and files; how a program ended.
            r"(?<!\S)\S{1,300}\.\w{1,5}::\S{1,300}|\btest_\w{1,200}|(?-i:\bTest[A-Z]\w{1,200})|(?<!\S)--?[a-z][\w-]{0,40}",
            rf"(?<=[\w.~])/[\w./#%-]{{0,200}}?{_IN_NAMES}[\w./#%-]{{0,200}}|\b\w{{0,80}}{_IN_NAMES}[\w-]{{0,80}}\.(?:json|jsonl|txt|log|md|py|html|csv|ya?ml|[jt]s)\b",
            r"\btests? ['\"“][^'\"”]{0,100}|\bexit(?:s|ed)?(?: with)?(?: (?:code|status))?:? \d{1,3}\b",
            # None were counted.
            rf"(?:^|(?<=[,;:(|])|\b(?:had|with|saw|hit|got|and|of|total)) ?0 (?:of (?:the )?)?(?:{_COUNTED} ){{0,4}}{_LIMITED}\b{_REST}",
            r"\b(?:none|no|zero) (?:of )?(?:(?!because\b|as\b)[\w-]{1,20} ){1,4}?(?:was|were|is|are|has been|have been|got) "
            rf"(?:ever )?{_LIMITED}\b{_REST}",
            rf"\b(?:{_LIMITED}|too many requests|quota exceeded|usage limit)(?: \w{{1,12}}){{0,2}}['\"]?\s?[:=]\s?['\"]?"
            r"(?:0|no|none|never|false|off|disabled|n/a|null)(?: hit| met| reached)?['\"]?(?=\s*(?:$|[,;.)}\]|])|\s\w{1,40}\s?[:=])",
            rf"\b{_LIMITED}(?: errors?)? (?:count )?0(?: times\b|\s*$)",
            # In case of one, and what is to avoid one.
            r"\b(?:if|when(?:ever)?|once|unless|in case|(?:to |so as to )?(?:avoid|prevent)(?:s|ing)?|handl(?:es?|ed|ing)"
            r"|explains?|simulat(?:es?|ed|ing)|mocks?|documents?|catch(?:es)?|ignor(?:es?|ed)|expect(?:s|ed)?|retr(?:y|ies) on"
            rf"|tests? (?:for|of)|support for|examples? (?:for|of)) (?:{_SMALL_WORDS} ){{0,6}}{_WORDS}\b{_REST}",
            rf"\bshould (?:be|return|raise|throw|handle|reject|respond)\b{_REST}",
            rf"\b(?:may|might|can|could|about to|going to|likely to|before (?:you|we|it)|do not|don't|never) hit\b{_REST}",
            # Denials, and settings of that name.
            r"\b(?:invalid|unknown|unsupported|missing|bad|unexpected|no|not|never|without|undefined|symbol:|(?:is|was|are|were|have|has|had|did|do|does)n't)"
            rf"(?: (?!due\b|because\b|after\b|by\b)\w{{1,20}}){{0,3}} ['\"`]?{_LIMIT_NAME}{_REST}",
            rf"\bno (?:http |status |error ){{0,2}}429s?\b{_REST}",
            _SETTINGS + _REST,
        )
    ),
    re.IGNORECASE,
)
#: Colours, and the marks that programs print before an error.
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_MARKS: Final = re.compile(r"^[\s✗✘✕✖×■●⏺⎿│┃>•·!⚠❌🚫⛔→\ufe0f]+(?=[\w\[(])")


def may_report_limit(text: str) -> bool:
    """Whether the text contains a word of a limit at all."""
    text = text.lower()
    return any(word in text for word in LIMIT_MARKERS)


def without_false_positives(text: str) -> str:
    """The text without the parts that cannot be reports of a limit."""
    text = _FRAMES.sub("", _ESCAPES.sub("", text))
    return "\n".join(_pruned_line(line) if may_report_limit(line) else line for line in text.split("\n"))


def _pruned_line(line: str) -> str:
    line = " ".join(line.split())
    if _WHOLE_LINES.search(line) is not None or _is_not_a_service(line):
        return ""
    return _MARKS.sub("", _CLAUSES.sub(r"\1", line))


def _is_not_a_service(line: str) -> bool:
    """Whether the overloaded or full thing in the line is not a service."""
    if _BUSY.search(line) is None:
        return False
    if _CALLABLE.search(line) is not None:
        return _TEMPORARY.search(line) is None
    return _SERVICE.search(line) is None
