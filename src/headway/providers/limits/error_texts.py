"""The text of an exception, or a program's error output → status, codes and message, in the few forms that contain them.

    openai.RateLimitError: Error code: 429 - {'error': {'message': …, 'code': 'rate_limit_exceeded'}}
    botocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) when calling the Converse operation …
    API Error: Request rejected (429) · …

A status counts only at the beginning of a line and in one of these forms. A number in the middle of a sentence is just a
number.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

from headway.lazy_pattern import lazy_pattern
from headway.providers.error_messages import exception_text
from headway.providers.limits.error_bodies import LONGEST_BODY, ErrorInfo, collect, parse, search_keys

_REASONS: Final = "|".join(re.escape(status.phrase) for status in HTTPStatus if status >= 400)
_TYPE: Final = lazy_pattern(r"(?:[\w.]{0,80}\.)?([A-Za-z_]\w{2,60})(?=:|\(|$)", re.MULTILINE)
_PREFIX: Final = r"^(?:[\w.]{1,80}: |stream error: ){0,2}\[?"
_STATUS: Final = lazy_pattern(
    _PREFIX + r"(?:"
    r"(?:Error code: |HTTP (?:status |error )?(?:code )?|API Error: |API error occurred: Status |"
    r"API error \(status |"
    r"unexpected status |got status: |exceeded retry limit, last status: |(?:Client|Server) error '|"
    r"(?:API Error: )?Request rejected \(|Request failed with status code )(?P<said>\d{3})\b"
    r"|Error (?P<named>\d{3})(?=: )"
    rf"|(?P<bare>\d{{3}})(?= ?[\[{{]|, message=|[ ](?:rate.?limit|quota|Client Error|Server Error|status code|(?-i:[A-Z_]{{6,40}}\b)|{_REASONS})))",
    re.IGNORECASE | re.MULTILINE,
)
#: Google's JavaScript client: "Error fetching from …: [429 Too Many Requests] …"
_BRACKETS: Final = lazy_pattern(rf": \[(\d{{3}}) (?:{_REASONS})\]")
#: A code after the type: "RuntimeError: insufficient_quota: …". Only words with an underscore are codes.
_CODE: Final = lazy_pattern(r"(?:[\w.]{1,80}: ){1,2}([a-z]{2,40}(?:_[a-z]{2,40}){1,5})(?=:|,|\s|$)")
_AWS: Final = lazy_pattern(r"An error occurred \((\w{3,60})\) when calling")
_JSON: Final = lazy_pattern(r"(?:^|[\s(\[-])(?=\{['\"\s]|\[\{)", re.MULTILINE)
#: How many possible beginnings of a JSON document are tried, the last one first.
_DOCUMENTS: Final = 6


def qualified_text(error: BaseException) -> str:
    """The exception's text after its package and type: "httpx.ReadTimeout: …"."""
    kind = type(error)
    package = str(kind.__module__).partition(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    return f"{name}: {exception_text(error)}".rstrip(": ")


def attribute(value: object, name: str) -> Any:
    """An attribute of a foreign object; None if it is missing, or if reading it raises."""
    try:
        return getattr(value, name, None)
    except BaseException:
        return None


def read(text: str) -> ErrorInfo:
    """Read a text. The message is that of an embedded JSON error if there is one, otherwise the text itself."""
    text = text[-LONGEST_BODY:].strip()
    error = _document(text)
    if error is None:
        error = search_keys(text)
    if error.status is None:
        error.status = _status(text)
    _take_names(text, error)
    error.message = error.message or text
    return error


def _status(text: str) -> int | None:
    match = _STATUS.search(text) or _BRACKETS.search(text)
    if match is None:
        return None
    figure = int(next(group for group in match.groups() if group is not None))
    return figure if 400 <= figure < 600 else None


def _document(text: str) -> ErrorInfo | None:
    """The error in the last JSON document of the text: agents write theirs at the end of their logs."""
    if "{" not in text:
        return None
    starts = [match.end() for match in _JSON.finditer(text)]
    for start in reversed(starts[-_DOCUMENTS:]):
        parsed = parse(text[start:].rstrip(" \n]).,·"))
        if parsed is None:
            parsed = parse(text[start:].rstrip())
        if parsed is not None:
            error = ErrorInfo()
            collect(parsed, error)
            if error.message or error.codes:
                return error
    return None


def _take_names(text: str, error: ErrorInfo) -> None:
    """Collect the type's name, a code after it, and the code in AWS's sentence."""
    named = _AWS.search(text)
    if named is not None:
        error.codes.insert(0, named[1])
    kind = _TYPE.match(text)
    if kind is not None:
        error.codes.append(kind[1])
    code = _CODE.match(text)
    if code is not None:
        error.codes.append(code[1])
