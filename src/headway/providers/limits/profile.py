"""What is known about one provider, as data: which headers it sends, how it counts, what its codes and texts mean.

A profile departs from the common tables of `error_kinds` and says only where. No provider's name stands anywhere
else in the code.
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

    `period_s` None: the headers do not say; it is told by how far away the reset is. `maybe_daily`: the same
    headers speak of a day where that is the limit, and the refill shows which. `remaining_precision` is how far
    `remaining` may be off either way.
    """

    dimension: Dimension
    limit: str
    remaining: str = ""
    reset: str = ""
    period_s: float | None = MINUTE_S
    maybe_daily: bool = False
    remaining_precision: float = 1.0
    #: Whether it shows the tightest of several limits: where that is the input's or the output's, it is no limit of both.
    repeats: bool = False


class SessionHeaders(msgspec.Struct, frozen=True):
    """The headers of a subscription's window: its state, and when it opens again."""

    status: str
    reset: str
    rejected: str = "rejected"


class Profile(msgspec.Struct, frozen=True):
    """One provider. The first block is what it sends, the second what that means, the third is derived."""

    name: str
    #: Its hosts, as shell patterns ("*.openai.azure.com"), matched against host or host:port.
    hosts: tuple[str, ...] = ()
    #: Who shares a limit, for the reference.
    scope: str = ""
    limit_headers: tuple[LimitHeaders, ...] = ()
    #: Whether the IETF draft's RateLimit and RateLimit-Policy are read too.
    ietf: bool = False
    #: Further headers that say how long a refused client should wait.
    wait_headers: tuple[str, ...] = ()
    session: SessionHeaders | None = None
    #: The header that names the error, where the body does not, and the one that names the limit that was met.
    code_header: str = ""
    #: The header that names a request, where it is not the API's usual one.
    request_id: str = ""
    dimension_header: str = ""
    #: Whether it is an agent CLI whose standard output is structured.
    agent: bool = False
    counting: Counting = Counting()
    #: Whether a stream has to be asked for its usage. Mistral's tells it unasked, and refuses the question with 422.
    stream_usage: bool = True

    codes: Mapping[str, Kind] = {}
    soft_codes: Mapping[str, Kind] = {}
    statuses: Mapping[int, Kind] = {}
    phrases: tuple[Phrase, ...] = ()
    #: Codes that mean "you grow too fast": a cap on the ramp, not on the rate.
    ramps: frozenset[str] = frozenset()
    #: A hard quota that says to come back within the hour is a rate limit.
    quota_returns: bool = False
    #: −1 and 0 stand for "unknown" in resets.
    zero_is_unknown: bool = False
    #: A limit's reset is when a refused request may come back, not only when the bucket is full.
    reset_reopens: bool = False
    #: Where a day's quota comes back at midnight: in this zone.
    day_zone: str = ""

    places: dict[str, int] = {}
    rows: tuple[tuple[LimitHeaders, int, int, int], ...] = ()
    blank: tuple[None, ...] = ()
    all_codes: dict[str, Kind] = {}
    all_soft: dict[str, Kind] = {}
    all_statuses: dict[int, Kind] = {}
    all_phrases: tuple[Phrase, ...] = ()

    def __post_init__(self) -> None:
        """Lay out the row that headers are read into, and join the tables: once, not with every response."""
        places = {name: place for place, name in enumerate(self._headers())}
        absent = len(places)
        rows = tuple(
            (group, *(places.get(name, absent) for name in (group.limit, group.remaining, group.reset)))
            for group in self.limit_headers
        )
        derived = {
            "places": places,
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
