"""What an error said → its kind. One order for all providers; the profile's tables are the data."""

from __future__ import annotations

from headway.core.model import Kind
from headway.providers.bodies import Said
from headway.providers.codes import NO_STATUS
from headway.providers.profile import Profile
from headway.providers.texts import LONGEST_MESSAGE


def kind_of(status: int | None, said: Said, profile: Profile) -> tuple[Kind, str]:
    """The kind, and the word that decided it: codes, then sentences, then the status and what is left."""
    for code in said.codes:
        kind = profile.all_codes.get(folded(code))
        if kind is not None:
            return kind, code
    first = said.codes[0] if said.codes else ""
    message = said.message[:LONGEST_MESSAGE]
    for known in profile.all_phrases:
        if known.statuses and (status or NO_STATUS) not in known.statuses:
            continue
        if known.pattern.search(message) is not None:
            return known.kind, known.code or first
    return _by_status(status, said, profile) or (Kind.TRANSIENT, first)


def folded(code: str) -> str:
    """The one spelling of a code that the tables use."""
    return code.lower().replace("-", "_")


def _by_status(status: int | None, said: Said, profile: Profile) -> tuple[Kind, str] | None:
    """By status; where there is none, or it says no more than "bad request", by the loosely used codes."""
    plain = None if status is None else _plain(status, profile)
    if plain is None or plain is Kind.INVALID:
        for code in said.codes:
            kind = profile.all_soft.get(folded(code))
            if kind is not None and (plain is None or kind is not Kind.INVALID):
                return kind, code
    return None if plain is None else (plain, said.codes[0] if said.codes else "")


def _plain(status: int, profile: Profile) -> Kind:
    """What the number alone says. A redirect that nobody followed is a wrong address, and so is another protocol. Numbers
    of 600 and more count as those of 5xx (RFC 9110 §15).
    """
    kind = profile.all_statuses.get(status)
    if kind is not None:
        return kind
    return Kind.INVALID if status < 200 or 300 <= status < 500 else Kind.TRANSIENT
