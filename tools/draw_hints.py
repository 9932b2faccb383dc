"""Generates docs/reference/hints.md from the profiles in headway.providers.limits.profiles and the tables in headway.providers.limits.error_kinds.

python tools/draw_hints.py           writes the page
python tools/draw_hints.py --check   exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from pages import ROOT, write_or_check

from headway.core.model import DAY_S, MINUTE_S, Counting, Kind
from headway.providers.limits.durations import HOUR_S, MONTH_S
from headway.providers.limits.error_kinds import CODES, NO_STATUS, PHRASES, SOFT_CODES, STATUSES, Phrase
from headway.providers.limits.profile import LimitHeaders, Profile
from headway.providers.limits.profiles import PROFILES

PAGE = ROOT / "docs" / "reference" / "hints.md"
COMMAND = "python tools/draw_hints.py"
_PERIODS = {
    1.0: "second",
    MINUTE_S: "minute",
    HOUR_S: "hour",
    DAY_S: "day",
    MONTH_S: "month",
    None: "by its reset",
}

HEAD = f"""\
# What providers say

Generated from the profiles in `src/headway/providers/limits/profiles.py` by `{COMMAND}`; a test fails when this page is stale.

`understand(response, profile, now_utc=…)` turns a response into facts: a kind of failure from the closed list, a hint (limits, levels, a wait, the
dimension that was exceeded), a message without secrets, and the provider's own code. It is pure and total: it raises nothing for any input,
and returns no impossible numbers.

```python
facts = understand(RawResponse(429, headers, body), profile_for(base_url, kind), now_utc=now)
```

- A 2xx is a success whatever its headers say; they are still read. Bodies are read only if the status is an error, and in an agent's output
  only the structured error fields. An exception is a failure even if the status was 200.
- The kind is decided by the provider's codes, then by sentences that distinguish cases with the same code, then by the status. After that
  numbers decide: a limit per day or longer is a `hold`, and so is a wait above an hour; a request larger than its limit is `too_large`.
- The wait is `retry-after-ms`, then `Retry-After`, then what the body says, then the message. A hold lasts as long as the longest of them.
  Clock times without a zone are in the zone that the caller names (`zone=`); unknown zones are UTC.
- Instants are compared with the response's `Date` header if there is one, otherwise with `now_utc`. A `Date` is rounded down to the second, so
  such a wait may be a second longer than its own rounding explains. The meters allow for that.
- A limit without a number is not reported. A reset longer than the period allows is dropped. Of two limits on the same dimension the lower one
  counts. Anything more than a year away is ignored.
"""
SHAPES = """\
## How a reset or a wait is read

| shape | example | rounded to |
|---|---|---|
| duration | `6m0s`, `120ms`, `2m59.56s`, `1h2m` | 1 ms |
| duration in words | `35 seconds`, `3 hours 32 minutes` | its last unit |
| seconds | `55`, `7.66` | 1 s, 1 ms |
| epoch seconds (from 10⁹) | `1794741540` | 1 s |
| epoch milliseconds (from 10¹²) | `1794741540000` | 1 ms |
| RFC 3339 | `2026-11-15T08:00:07Z` | 1 s |
| HTTP-date | `Sun, 15 Nov 2026 08:00:30 GMT` | 1 s |
| a clock time in a message | `resets 4pm (America/Los_Angeles)`, `resets Apr 3, 6am`, `try again at 10:21 AM` | 1 min |
| an epoch after a bar | `usage limit reached\\|1794741540` | 1 s |
"""
HEADERS = """\
## Headers

`retry-after-ms` (and `x-ms-retry-after-ms`), `retry-after` and `date` are read for every provider. *Left ±* is the precision of the remaining
number.
"""
MEANINGS = """\
## What each provider means by it

Differences from the common tables below. *Counts*: what admission charges for output, whether that is settled afterwards, and whether cached
input is free.
"""
COMMON = """\
## The common tables

A *code* decides by itself. A *loose code* decides only if there is no status, or a plain 400 (then not for `invalid`).
"""
UNVERIFIED = """\
## What is not certain

- Groq: that `max_tokens` counts at admission, as at OpenAI. Mistral, Together, Cohere, DeepSeek, xAI, Fireworks: that actual usage counts.
- xAI: that its headers are per minute. Together: that `x-ratelimit-limit` and `x-tokenlimit-limit` are still sent; its documentation now names
  only `x-ratelimit-reset`, the seconds to wait. Fireworks: no reset is known.
- Cohere sends headers only with trial keys, and not with a 429. Mistral's exact charge (`x-ratelimit-tokens-query-cost`) is not part of a hint.
- OpenAI's `-requests` headers are per day if that is the limit. Headway detects it from the refill (10000 / 9999 / 8.64 s is a daily limit).
- Vertex, Bedrock, vLLM, llama.cpp: no rate-limit headers were found.
- If the length of a window is not stated, Headway assumes the shortest of minute, hour and day that its reset fits into.
- A hold without a stated end (Bedrock's day, Ollama's session) has no wait.
"""
SPEED = """\
## What it costs

CPU time on a shared 2-core machine under load, Python 3.11, the best of nine: **7.4 µs** for a 200 of OpenAI with 23 headers, 6 of them rate limits
(5.6 µs with these six alone); 10.6 µs for Anthropic's twelve and a `Date`; 2.7 µs if a profile names none; 0.12 ms for a 429 with a body.
"""


def page() -> str:
    """The whole page."""
    parts = (
        (HEAD, SHAPES, HEADERS),
        _table(("provider", "limit", "per", "headers", "left ±"), _header_rows()),
        ("",),
        _table(("provider", "also read"), _also_rows()),
        ("", MEANINGS),
        _table(("provider", "hosts", "who shares a limit", "counts", "means"), _meaning_rows()),
        ("", COMMON),
        _table(("kind", "statuses", "codes", "loose codes"), _common_rows()),
        ("",),
        _table(("sentence (regular expression)", "kind", "if the status is"), map(_phrase_row, PHRASES)),
        ("", UNVERIFIED, SPEED.rstrip("\n")),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _header_rows() -> Iterator[tuple[str, ...]]:
    for profile in PROFILES.values():
        for group in profile.limit_headers:
            period = "minute, or day by its refill" if group.maybe_daily else _PERIODS[group.period_s]
            yield (
                profile.name,
                _words(group.dimension),
                period,
                _names(group),
                f"{group.remaining_precision:g}",
            )


def _names(group: LimitHeaders) -> str:
    """The three names, combined if they differ in one word only."""
    names = [name for name in (group.limit, group.remaining, group.reset) if name]
    words = [
        word for word in ("limit", "remaining", "reset") if any(word in name.split("-") for name in names)
    ]
    stems = {name.replace(f"-{word}", "-*", 1) for name, word in zip(names, words, strict=False)}
    if len(stems) == 1 and len(names) > 1:
        return _code(stems.pop().replace("*", f"{{{','.join(words)}}}"))
    return ", ".join(map(_code, names))


def _also_rows() -> Iterator[tuple[str, ...]]:
    for profile in PROFILES.values():
        also = list(_also(profile))
        if also:
            yield profile.name, "; ".join(also)


def _also(profile: Profile) -> Iterator[str]:
    if profile.ietf:
        yield "`ratelimit-policy` and `ratelimit` (IETF drafts 7 to 11)"
    if profile.wait_headers:
        yield f"a wait from {', '.join(map(_code, profile.wait_headers))}"
    if profile.session is not None:
        yield f"a hold if {_code(profile.session.status)} is `{profile.session.rejected}`, until {_code(profile.session.reset)}"
    if profile.code_header:
        yield f"the code from {_code(profile.code_header)}"
    if profile.dimension_header:
        yield f"the dimension from {_code(profile.dimension_header)}"
    if profile.agent:
        yield "the structured events of its standard output"


def _meaning_rows() -> Iterator[tuple[str, ...]]:
    for profile in PROFILES.values():
        hosts = ", ".join(map(_code, profile.hosts)) or "–"
        yield (
            profile.name,
            hosts,
            profile.scope,
            _counts(profile.counting),
            "<br>".join(_meanings(profile)) or "–",
        )


def _counts(counting: Counting) -> str:
    output = "max_tokens" if counting.reserve_max_output else "output expected"
    settled = "settled" if counting.settle_output else "kept"
    return f"{output}, {settled}{', cache free' if counting.cached_free else ''}"


def _meanings(profile: Profile) -> Iterator[str]:
    for table in (profile.codes, profile.soft_codes, profile.statuses):
        for word, kind in table.items():
            yield f"{_code(str(word))} → {kind}"
    for known in profile.phrases:
        yield f"{_code(_pattern(known))} → {known.kind}"
    if profile.ramps:
        yield f"ramp caps: {', '.join(map(_code, sorted(profile.ramps)))}"
    if profile.quota_returns:
        yield "a quota that returns within the hour is a rate"
    if profile.zero_is_unknown:
        yield "−1 and 0 in resets are unknown"
    if profile.reset_reopens:
        yield "a reset is when a refused request may come back"
    if profile.day_zone:
        yield f"a day ends at midnight in {profile.day_zone}"


def _common_rows() -> Iterator[tuple[str, ...]]:
    for kind in Kind:
        statuses = [str(status) for status, meant in STATUSES.items() if meant is kind]
        if kind is Kind.INVALID:
            statuses.append("other 3xx and 4xx")
        elif kind is Kind.TRANSIENT:
            statuses.append("other 5xx")
        row = (", ".join(statuses), _listed(CODES, kind), _listed(SOFT_CODES, kind))
        if any(row):
            yield f"`{kind}`", *(cell or "–" for cell in row)


def _listed(table: Mapping[str, Kind], kind: Kind) -> str:
    return " ".join(_code(code) for code, meant in table.items() if meant is kind)


def _phrase_row(known: Phrase) -> tuple[str, ...]:
    statuses = ", ".join("none" if status == NO_STATUS else str(status) for status in sorted(known.statuses))
    return _code(_pattern(known)), f"`{known.kind}`", statuses or "any error"


def _pattern(known: Phrase) -> str:
    return known.pattern.pattern.replace("|", "\\|")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _code(text: str) -> str:
    """As code; a pattern that contains a backtick needs two around it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
