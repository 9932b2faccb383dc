"""What is known about one provider, as data: which headers it sends, how it counts, what its codes and texts mean.

A profile extends the common tables of `error_kinds`. Code depends on the fields of a profile, never on its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core.model import MINUTE_S, Counting, Dimension, Kind
from headway.providers.limits.error_kinds import CODES, PHRASES, SOFT_CODES, STATUSES, Phrase

DATE: Final = "date"
RETRY_AFTER_MS: Final = ("retry-after-ms", "x-ms-retry-after-ms")
RETRY_AFTER: Final = "retry-after"
#: Headers that every profile reads, in the order of their places in a row.
COMMON_HEADERS: Final = (DATE, *RETRY_AFTER_MS, RETRY_AFTER)
IETF_HEADERS: Final = ("ratelimit", "ratelimit-policy")


class LimitHeaders(msgspec.Struct, frozen=True):
    """The three headers that report one limit.

    `period_s` None: the period is estimated from the reset. `maybe_daily`: the limit may be one per day, which the refill
    time shows. `remaining_precision` is how much `remaining` may be off, up or down.
    """

    dimension: Dimension
    limit: str
    remaining: str = ""
    reset: str = ""
    period_s: float | None = MINUTE_S
    maybe_daily: bool = False
    remaining_precision: float = 1.0
    #: Whether it repeats the tightest of several limits. If that is the limit of input or output, it is not one of both.
    repeats: bool = False


class SessionHeaders(msgspec.Struct, frozen=True):
    """The headers of a subscription's window: its state, and when it reopens."""

    status: str
    reset: str
    rejected: str = "rejected"


class Profile(msgspec.Struct, frozen=True):
    """One provider. The first block is what it sends, the second what that means, the third is derived from them."""

    name: str
    #: Patterns of its hosts ("*.openai.azure.com"), matched against host or host:port.
    hosts: tuple[str, ...] = ()
    #: Who shares a limit, for the reference.
    scope: str = ""
    limit_headers: tuple[LimitHeaders, ...] = ()
    #: Whether RateLimit and RateLimit-Policy of the IETF draft are read, too.
    ietf: bool = False
    #: Further headers with the wait of a refused client.
    wait_headers: tuple[str, ...] = ()
    session: SessionHeaders | None = None
    #: The header with the error's code, if the body has none.
    code_header: str = ""
    #: The header with the request's id, if it is not the API's usual one.
    request_id: str = ""
    #: The header that names the limit that was met.
    dimension_header: str = ""
    #: Whether it is an agent CLI whose standard output is structured.
    agent: bool = False
    counting: Counting = Counting()
    #: Whether usage must be requested for a stream. Mistral always sends it, and refuses such a request with 422.
    stream_usage: bool = True

    codes: Mapping[str, Kind] = {}
    soft_codes: Mapping[str, Kind] = {}
    statuses: Mapping[int, Kind] = {}
    phrases: tuple[Phrase, ...] = ()
    #: Codes for traffic that grows too fast: a limit of its growth, not of the rate.
    ramps: frozenset[str] = frozenset()
    #: Whether an exceeded quota with a wait of up to an hour is a rate limit.
    quota_returns: bool = False
    #: Whether −1 and 0 mean "unknown" in resets.
    zero_is_unknown: bool = False
    #: Whether a refused request may be sent again at the reset, which otherwise only says when the limit is full.
    reset_reopens: bool = False
    #: The time zone in which a day's quota is renewed at midnight.
    day_zone: str = ""

    places: dict[str, int] = {}
    #: Header names as servers spell them → the place of the header, -1 if it is not read. Filled as they are met.
    spellings: dict[str, int] = {}
    rows: tuple[tuple[LimitHeaders, int, int, int], ...] = ()
    blank: tuple[None, ...] = ()
    all_codes: dict[str, Kind] = {}
    all_soft: dict[str, Kind] = {}
    all_statuses: dict[int, Kind] = {}
    all_phrases: tuple[Phrase, ...] = ()

    def __post_init__(self) -> None:
        """Assign the headers their places in a row, and join the tables: once, not for every response."""
        places = {name: place for place, name in enumerate(self._headers())}
        absent = len(places)
        rows = tuple(
            (group, *(places.get(name, absent) for name in (group.limit, group.remaining, group.reset)))
            for group in self.limit_headers
        )
        derived = {
            "places": places,
            "spellings": {},
            "rows": rows,
            "blank": (None,) * (absent + 1),
            "all_codes": {**CODES, **self.codes},
            "all_soft": {**SOFT_CODES, **self.soft_codes},
            "all_statuses": {**STATUSES, **self.statuses},
            "all_phrases": (*self.phrases, *PHRASES),
        }
        for name, value in derived.items():
            msgspec.structs.force_setattr(self, name, value)

    def _headers(self) -> list[str]:
        """Every header that this profile reads, each once."""
        names = [*COMMON_HEADERS, *self.wait_headers, self.code_header, self.dimension_header]
        for group in self.limit_headers:
            names += (group.limit, group.remaining, group.reset)
        if self.ietf:
            names += IETF_HEADERS
        if self.session is not None:
            names += (self.session.status, self.session.reset)
        return [name for name in dict.fromkeys(names) if name]
