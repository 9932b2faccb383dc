"""Error messages for people: one short line without secrets."""

from __future__ import annotations

from typing import Final

from headway.lazy_pattern import lazy_pattern
from headway.safe_text import visible

#: Long enough for the longest sentence with its numbers; a store keeps one for every attempt.
LONGEST: Final = 500

#: Keys and tokens that providers and clients are known to quote. The part that stays shows which one it was.
_SECRETS: Final = (
    lazy_pattern(r"\b((?:sk-|gsk_|xai-|fw_)[A-Za-z0-9]{0,4})[\w\-*.]{8,200}"),
    lazy_pattern(r"\b(AIza|AKIA|ASIA|ya29\.|eyJ)[\w\-.]{8,2000}"),
    lazy_pattern(
        r"(?i)\b(bearer |(?:api[-_]?key|access[-_]?token|authorization|[?&]key)['\"]?[=:] ?['\"]?)[\w\-./+]{8,2000}"
    ),
)
#: Every text that contains such a key contains one of these, in lower case.
_SECRET_MARKS: Final = (
    "sk-", "gsk_", "xai-", "fw_", "aiza", "akia", "asia", "ya29.", "eyj", "bearer ", "apikey", "api-key", "api_key", "accesstoken",
    "access-token", "access_token", "authorization", "?key", "&key",
)  # fmt: skip
_SPACE: Final = lazy_pattern(r"\s+")


def without_secrets(text: str) -> str:
    """The text with keys removed."""
    for secret in _SECRETS:
        text = secret.sub(r"\1…", text)
    return text


def may_have_secrets(text: str) -> bool:
    """Whether `without_secrets` might change it. A quick check for long texts, most of which have no secrets."""
    lower = text.lower()
    return any(mark in lower for mark in _SECRET_MARKS)


def exception_text(error: BaseException) -> str:
    """The exception's text; empty if its `__str__` fails."""
    try:
        return str(error)
    except BaseException:
        return ""


def describe_exception(error: BaseException) -> str:
    """The exception as "Type: text"."""
    return f"{type(error).__name__}: {exception_text(error)}".rstrip(": ")


def short_message(message: str, *, otherwise: str = "") -> str:
    """The message in one line, shortened, with keys removed. `otherwise` is for an empty message."""
    message = visible(without_secrets(_SPACE.sub(" ", message[: 4 * LONGEST]).strip()))
    if len(message) > LONGEST:
        message = message[: LONGEST - 1] + "…"
    return message or otherwise
