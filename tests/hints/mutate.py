"""Seeded damage to rows of the table, for the long fuzz run. Runs with the same seed are equal."""

from __future__ import annotations

from random import Random
from typing import Literal

from headway.providers.limits.hints import RawResponse
from headway.providers.limits.profile import Profile
from headway.providers.limits.profiles import PROFILES

from .table import TABLE

#: Pieces that often break parsers.
NASTY: tuple[str, ...] = (
    "", "0", "-1", "-0", "1e999", "nan", "inf", "-inf", "1e-400", "9" * 400, "0x1f", "1_000", "1,000", "١٢", "²", "½",
    "1794741540", "1794741540000", "99999999999999999999", "6m0s", "120ms", "1h2m3s", "999999h", "1.2.3s", "5m5m5m5m5m5m5m5m",
    "2026-11-15T08:00:07Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "2026-13-45T99:99:99Z", "2026-11-15T08:00:07+99:99",
    "Sun, 15 Nov 2026 08:00:30 GMT", "Xxx, 99 Foo 9999 99:99:99 GMT", "resets 4pm (America)", "resets 13pm", "resets 0am",
    "resets Feb 30, 6am", "try again at 10:21 AM", "resets 4pm (../../etc/passwd)", "resets 4pm (\x00)", "limit reached|9999999999",
    "Limit 99999999999999, Used 1, Requested 5", "Limit 0, Used 0", "limit: 0", "Please try again in 1e9s.", "in 99999999 days",
    "\x00", "\ud800", "\U0010ffff", "\u202e", "\r\n", "\t", "'", '"', "\\", "{", "}", "[", "]", "(", ")", ":", ",", ";", "=", "|",
    "true", "null", '{"error":', '{"error":{"message":', "[[[[[[[[[[", '{"a":' * 40, '"burst";q=100;w=60', '"burst";r=45;t=30',
    'limit=1, remaining=2, reset=3', "API Error: 529 {", "Error code: 429 - {'error': {'code': '", "An error occurred (X) when calling",
    "data: {", '"quotaId":"PerDay"', '"retryDelay":"9e9s"', "resetsAt", "rejected", "is_error",
)  # fmt: skip
_ORIGINS: tuple[Literal["http", "exception", "cli"], ...] = ("http", "exception", "cli")
_STATUSES = (
    None,
    -1,
    0,
    100,
    199,
    200,
    204,
    299,
    300,
    400,
    401,
    402,
    403,
    404,
    413,
    418,
    429,
    498,
    500,
    503,
    529,
    599,
    600,
    99999,
)
_PROFILES = tuple(PROFILES.values())


def damaged(chance: Random) -> tuple[RawResponse, Profile, float]:
    """A damaged row of the table, or noise; a profile, perhaps of another row; and a current time."""
    row = chance.choice(TABLE)
    profile = PROFILES[row.profile] if chance.random() < 0.7 else chance.choice(_PROFILES)
    seen = row.seen if chance.random() < 0.93 else _noise(chance)
    hits = chance.choice((1, 1, 2, 3, 6))
    for _ in range(hits):
        seen = chance.choice((_status, _header, _header, _body, _body, _text))(seen, chance)
    now_utc = chance.choice((1794729600.0, chance.uniform(0.0, 4e9), chance.uniform(1.7e9, 1.9e9)))
    return seen, profile, now_utc


def _noise(chance: Random) -> RawResponse:
    noise = chance.randbytes(chance.randrange(400))
    body = noise.decode("utf-8", errors="surrogateescape") if chance.random() < 0.3 else noise
    return RawResponse(chance.choice(_STATUSES), {}, body, _garble("", chance), chance.choice(_ORIGINS))


def _status(seen: RawResponse, chance: Random) -> RawResponse:
    origin = seen.origin if chance.random() < 0.6 else chance.choice(_ORIGINS)
    return RawResponse(chance.choice(_STATUSES), seen.headers, seen.body, seen.text, origin)


def _header(seen: RawResponse, chance: Random) -> RawResponse:
    """Change a header's value, or add a header that some profile reads."""
    headers = dict(seen.headers)
    if headers and chance.random() < 0.6:
        name = chance.choice(list(headers))
    else:
        name = chance.choice(list(chance.choice(_PROFILES).places))
    headers[name] = chance.choice(NASTY) if chance.random() < 0.6 else _garble(headers.get(name, ""), chance)
    return RawResponse(seen.status, headers, seen.body, seen.text, seen.origin)


def _body(seen: RawResponse, chance: Random) -> RawResponse:
    body = seen.body or ""
    if isinstance(body, str) and chance.random() < 0.3:
        body = body.encode("utf-8", errors="surrogatepass")
    changed = _garble_bytes(body, chance) if isinstance(body, bytes) else _garble(body, chance)
    return RawResponse(seen.status, seen.headers, changed, seen.text, seen.origin)


def _text(seen: RawResponse, chance: Random) -> RawResponse:
    source = seen.text
    if not source and isinstance(seen.body, str):
        source = seen.body[:400]
    return RawResponse(seen.status, seen.headers, seen.body, _garble(source, chance), seen.origin)


def _garble(text: str, chance: Random) -> str:
    """Cut, double, splice or sprinkle."""
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.randrange(1, 40))
    way = chance.randrange(6)
    if way == 0:
        return text[:at]
    if way == 1:
        return text[:at] + text[end:]
    if way == 2:
        return text[:end] + text[at:]
    if way == 3:
        return text[:at] + chance.choice(NASTY) + text[end:]
    if way == 4:
        return text[:at] + chr(chance.randrange(0xD800)) + text[at + 1 :]
    other = chance.choice(TABLE).seen
    splice = other.body if isinstance(other.body, str) else other.text
    return text[:at] + splice[chance.randrange(len(splice) + 1) :]


def _garble_bytes(body: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(body) + 1)
    way = chance.randrange(4)
    if way == 0:
        return body[:at]
    if way == 1:
        return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
    if way == 2:
        return body[:at] + chance.randbytes(chance.randrange(1, 12)) + body[at:]
    return body[:at] + chance.choice(NASTY).encode("utf-8", errors="surrogatepass") + body[at:]
