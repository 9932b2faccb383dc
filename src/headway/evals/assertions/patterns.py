"""Regular expressions of configurations, matched in bounded time.

Python's own engine backtracks without a bound: `(a+)+$` takes hours on forty characters. Here the engine of jsonschema-rs
matches, which takes linear time, or counts its steps where a pattern looks around or refers back. It reads the patterns of
JavaScript, which configurations are written in. What its check of patterns refuses although JavaScript takes it is
rewritten first: a brace that is no quantifier, `[^]`, `\\k<name>`, a letter that needs no backslash. One thing is left as the engine
has it: `\\p{L}` is a class of Unicode, although JavaScript wants a flag for that.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from headway.errors import UsageError
from headway.evals.assertions.graded_answer import CannotJudge
from headway.install_hint import install_command

#: Characters of a pattern: compiling takes longer with its length.
LONGEST: Final = 10_000
#: Steps of a pattern that looks around or refers back; about a tenth of a second.
MOST_STEPS: Final = 1_000_000

_PART: Final = re.compile(
    r"""\\k<(?P<named>\w+)>
    |(?P<kept>\\[pPu]\{[^}]*\}|\{\d+(?:,\d*)?\})
    |(?P<class>\[\^?(?:\\.|[^\]\\])*\])
    |\\(?P<letter>[A-Za-z])
    |\\.
    |(?P<group>\(\?<(?P<name>[A-Za-z_]\w*)>|\((?!\?))
    |(?P<brace>[{}])
    |(?P<dot>\.)""",
    re.DOTALL | re.VERBOSE,
)
#: Letters that mean something after a backslash. Any other letter means itself.
_LETTERS: Final = frozenset("bBdDwWsSfnrtvcxupP")
_ANY: Final = r"[^\n\r\u2028\u2029]"


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text. Raises CannotJudge for a pattern that is bad or takes too long."""
    validator, text = _validator(pattern), _encodable(text)
    if validator.is_valid(text):
        return True
    for error in validator.iter_errors(text):
        if took_too_long(error):
            raise CannotJudge(
                f"the pattern {_quoted(pattern)} takes too long on this answer", hint="make it simpler"
            )
    return False


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which the engine does not take."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def took_too_long(error: Any) -> bool:
    """Whether a mismatch says only that a pattern took too many steps."""
    return type(error.kind).__name__.endswith("BacktrackLimitExceeded")


def pattern_problem(pattern: str) -> str:
    """What is wrong with a pattern; "" if nothing is."""
    try:
        _validator(pattern)
    except CannotJudge as problem:
        return str(problem)
    return ""


@lru_cache(maxsize=512)
def _validator(pattern: str) -> Any:
    """The compiled pattern."""
    if len(pattern) > LONGEST:
        raise CannotJudge(f"the pattern is longer than {LONGEST:,} characters")
    try:
        import jsonschema_rs
    except ImportError:
        raise UsageError("'regex' needs jsonschema-rs", hint=install_command("eval")) from None
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_STEPS)
    schema = {"type": "string", "pattern": _encodable(_accepted(pattern))}
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=options)
    except ValueError:
        raise CannotJudge(f"the pattern {_quoted(pattern)} is no regular expression") from None


def _accepted(pattern: str) -> str:
    """The pattern in the form that the engine takes."""
    groups: list[str] = []
    dot = "." if "(?s" in pattern else _ANY

    def accepted(match: re.Match[str]) -> str:
        if match["group"]:
            groups.append(match["name"] or "")
        elif match["named"]:
            return f"\\{groups.index(match['named']) + 1}" if match["named"] in groups else match[0]
        elif match["class"]:
            return _class(match["class"])
        elif match["letter"]:
            return match[0] if match["letter"] in _LETTERS else match["letter"]
        elif match["brace"]:
            return "\\" + match["brace"]
        elif match[0] == r"\0":
            return r"\x00"
        return dot if match["dot"] else match[0]

    return _PART.sub(accepted, pattern)


def _class(text: str) -> str:
    """A class of characters. In JavaScript `[` and `&&` mean themselves in it, and so does a hyphen beside `\\d`."""
    if text in ("[]", "[^]"):
        return r"(?!)" if text == "[]" else r"[\s\S]"
    start = 2 if text.startswith("[^") else 1
    inner = re.sub(r"(\\[dDwWsS])-", r"\1\\-", text[start:-1])
    inner = re.sub(r"-(\\[dDwWsS])", r"\\-\1", inner).replace(r"\b", r"\x08")
    inner = re.sub(r"\\.|[\[&~]", lambda m: m[0] if len(m[0]) > 1 else "\\" + m[0], inner, flags=re.DOTALL)
    return text[:start] + inner + "]"


def _quoted(pattern: str) -> str:
    line = " ".join(pattern.split())
    return f"'{line[:80]}{'…' if len(line) > 80 else ''}'"
