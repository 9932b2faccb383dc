"""For any input: no exception, no impossible number, no endless search, and a success stays a success."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hints.mutate import NASTY, damaged
from tests.hints.row import NOW, Row
from tests.hints.sane import check
from tests.hints.table import TABLE

from headway.core.model import Kind
from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.profile import Profile
from headway.providers.limits.profiles import PROFILES

PROFILE_LIST = tuple(PROFILES.values())
HEADER_NAMES = sorted({name for profile in PROFILE_LIST for name in profile.places})

KEYS = [
    "error",
    "message",
    "code",
    "type",
    "status",
    "details",
    "metadata",
    "headers",
    "violations",
    "quotaId",
    "retryDelay",
    "resets_at",
    "result",
    "is_error",
    "rate_limit_info",
    "resetsAt",
    "response",
    "detail",
]

profiles = st.sampled_from(PROFILE_LIST)
origins = st.sampled_from(["http", "exception", "cli"])
texts = st.one_of(
    st.text(max_size=200),
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY), max_size=8).map("".join),
    st.sampled_from([row.seen.text for row in TABLE if row.seen.text]),
)
headers = st.dictionaries(
    st.one_of(
        st.sampled_from(HEADER_NAMES), st.sampled_from(HEADER_NAMES).map(str.title), st.text(max_size=20)
    ),
    st.one_of(texts, st.integers().map(str), st.floats().map(str)),
    max_size=12,
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
bodies = st.one_of(st.none(), st.binary(max_size=200), texts, json_values.map(json.dumps))
statuses = st.one_of(st.none(), st.integers(-10, 1000))


@settings(max_examples=3000, deadline=None)
@given(statuses, headers, bodies, texts, origins, profiles, st.floats(0.0, 4e9))
def test_no_input_raises_or_gives_impossible_facts(
    status: int | None,
    headers: dict[str, str],
    body: bytes | str | None,
    text: str,
    origin: Literal["http", "exception", "cli"],
    profile: Profile,
    now_utc: float,
) -> None:
    seen = RawResponse(status, headers, body, text, origin)
    facts = understand(seen, profile, now_utc=now_utc)
    check(facts)
    assert facts == understand(seen, profile, now_utc=now_utc)


@settings(max_examples=1000, deadline=None)
@given(st.integers(200, 299), headers, bodies, texts, profiles)
def test_a_success_stays_a_success(
    status: int, headers: dict[str, str], body: bytes | str | None, text: str, profile: Profile
) -> None:
    facts = understand(RawResponse(status, headers, body, text), profile, now_utc=NOW)
    assert facts.kind is None
    assert facts.hint.retry_after_s is None


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_row_does_not_raise_or_give_impossible_facts(seed: int) -> None:
    chance = Random(seed)
    for _ in range(500):
        seen, profile, now_utc = damaged(chance)
        check(understand(seen, profile, now_utc=now_utc))


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_the_case_of_header_names_does_not_matter(row: Row) -> None:
    profile = PROFILES[row.profile]
    seen = row.seen
    shouted = RawResponse(
        seen.status,
        {name.upper(): text for name, text in seen.headers.items()},
        seen.body,
        seen.text,
        seen.origin,
    )
    assert understand(shouted, profile, now_utc=NOW) == understand(seen, profile, now_utc=NOW)


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 200_000,
        "1" * 200_000,
        " " * 200_000,
        "Limit " * 40_000,
        "try again in " * 20_000,
        "resets " * 40_000,
        "resets Apr 3, " * 20_000,
        "tokens per " * 20_000,
        "You have reached your " + "usage " * 40_000,
        "model " * 40_000,
        '"code":"' * 30_000,
        "'message':'" * 20_000,
        '{"error":' * 20_000,
        "[" * 200_000,
        '"burst";q=1,' * 20_000,
        "5m" * 100_000,
        "1h " * 70_000,
        ": [" * 70_000,
        "x: " * 70_000,
        "<title" * 40_000,
        '{"type":"result"}\n' * 12_000,
    ],
    ids=lambda hostile: repr(hostile[:14]),
)
def test_a_hostile_text_takes_no_longer_than_a_long_one(hostile: str) -> None:
    began = time.process_time()
    for profile in (PROFILES["openai"], PROFILES["claude"], PROFILES["generic"]):
        for origin in ("http", "exception", "cli"):
            named = dict.fromkeys(profile.places, hostile)
            check(understand(RawResponse(429, named, hostile, hostile, origin), profile, now_utc=NOW))
    assert time.process_time() - began < 3.0


@pytest.mark.parametrize(
    ("depth", "kind"),
    [(1, Kind.QUOTA), (3, Kind.QUOTA), (30, Kind.RATE), (900, Kind.RATE), (100_000, Kind.RATE)],
)
def test_nested_errors_are_followed_only_so_deep(depth: int, kind: Kind) -> None:
    body = '{"error":' * depth + '{"code":"insufficient_quota"}' + "}" * depth
    facts = understand(RawResponse(429, {}, body), PROFILES["openai"], now_utc=NOW)
    check(facts)
    assert facts.kind is kind
