"""Profiles are consistent, and an address selects the right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.hints.row import NOW, http

from headway.core.model import Counting, Dimension, Kind
from headway.providers.error_messages import LONGEST, short_message
from headway.providers.limits.error_kinds import normalized_code
from headway.providers.limits.hints import SUCCESS_FACTS, RawResponse, understand
from headway.providers.limits.limit_headers import MOST_SPELLINGS
from headway.providers.limits.profile import Profile
from headway.providers.limits.profiles import GENERIC, PROFILES, profile_for

NAMES = (
    "openai anthropic azure bedrock gemini vertex groq mistral together openrouter cohere deepseek vllm xai fireworks "
    "ollama llamacpp claude codex gemini-cli opencode generic"
)


def test_every_provider_has_a_profile() -> None:
    assert set(PROFILES) == set(NAMES.split())


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com", "openai"),
        ("api.openai.com", "openai"),
        ("HTTPS://API.OPENAI.COM/v1/", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://mine.openai.azure.com/openai/v1", "azure"),
        ("https://mine.services.ai.azure.com", "azure"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
        ("https://generativelanguage.googleapis.com/v1beta", "gemini"),
        ("https://us-central1-aiplatform.googleapis.com/v1", "vertex"),
        ("https://aiplatform.googleapis.com/v1", "vertex"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.together.xyz/v1", "together"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.cohere.com/v2", "cohere"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.x.ai/v1", "xai"),
        ("https://api.fireworks.ai/inference/v1", "fireworks"),
        ("https://ollama.com/v1", "ollama"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://user:secret@api.groq.com:443/openai", "groq"),
        ("http://127.0.0.1:8900/v1", "generic"),
        ("https://api.openai.com.evil.example/v1", "generic"),
        ("https://notopenrouter.ai", "generic"),
        ("claude", "claude"),
        ("Gemini-CLI", "gemini-cli"),
        ("command", "generic"),
        ("", "generic"),
        ("://", "generic"),
        ("http://[", "generic"),
    ],
)
def test_an_address_or_a_kind_selects_its_profile(address: str, name: str) -> None:
    assert profile_for(address).name == name


def test_the_address_comes_before_the_kind() -> None:
    assert profile_for("https://api.groq.com/openai/v1", "openai").name == "groq"
    assert profile_for("http://127.0.0.1:8900/v1", "openai").name == "openai"
    assert profile_for("http://127.0.0.1:8900/v1", "command") is GENERIC
    assert profile_for() is GENERIC


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_keys_of_tables_are_spelled_as_they_are_looked_up(profile: Profile) -> None:
    codes = (*profile.all_codes, *profile.all_soft, *profile.ramps)
    assert [code for code in codes if normalized_code(code) != code] == []
    assert [name for name in profile.places if name != name.lower()] == []
    assert set(profile.all_codes).isdisjoint(set(profile.soft_codes))


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_all_limit_headers_are_read(profile: Profile) -> None:
    for group in profile.limit_headers:
        headers = {group.limit: "1000", **({group.remaining: "900"} if group.remaining else {})}
        facts = understand(
            http(200, "", **{name.replace("-", "_"): value for name, value in headers.items()}),
            profile,
            now_utc=NOW,
        )
        (report,) = facts.hint.reports
        assert (report.dimension, report.limit, report.remaining) == (
            group.dimension,
            1000.0,
            900.0 if group.remaining else None,
        )
        assert report.remaining_precision == group.remaining_precision
        assert report.period_s == (group.period_s or 60.0)


def test_ramp_caps_are_codes_of_facts() -> None:
    assert {name: set(profile.ramps) for name, profile in PROFILES.items() if profile.ramps} == {
        "openai": {"slow_down"},
        "azure": {"slow_down"},
        "codex": {"slow_down"},
        "anthropic": {"acceleration_limit"},
        "claude": {"acceleration_limit"},
    }


def test_how_tokens_are_counted() -> None:
    assert PROFILES["openai"].counting == Counting(
        reserve_max_output=True, settle_output=False, cached_free=False
    )
    assert PROFILES["anthropic"].counting == Counting(
        reserve_max_output=False, settle_output=True, cached_free=True
    )
    assert PROFILES["bedrock"].counting == Counting(
        reserve_max_output=True, settle_output=True, cached_free=True
    )
    assert PROFILES["groq"].counting.cached_free


def test_a_new_profile_is_a_few_lines() -> None:
    mine = Profile(
        "mine", statuses={420: Kind.RATE}, codes={"calm": Kind.CONCURRENCY}, wait_headers=("x-wait",)
    )
    assert understand(http(420, "", x_wait="5"), mine, now_utc=NOW).hint.retry_after_s == 5.0
    assert understand(http(420, {"error": {"code": "calm"}}), mine, now_utc=NOW).kind is Kind.CONCURRENCY


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("two\n  lines\t here ", "two lines here"),
        ("Incorrect API key provided: sk-proj-abcdefgh12345678ABCD.", "Incorrect API key provided: sk-proj…"),
        (
            "https://x/v1beta/models?key=AIzaSyA1234567890abcdef failed",
            "https://x/v1beta/models?key=AIza… failed",
        ),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer …"),
        ("api_key='0123456789abcdef' is wrong", "api_key='…' is wrong"),
        ("key_model_access_denied", "key_model_access_denied"),
        ("on requests per min (RPM): Limit 3, Used 3", "on requests per min (RPM): Limit 3, Used 3"),
    ],
)
def test_messages_are_one_line_without_secrets(message: str, line: str) -> None:
    assert short_message(message) == line


def test_messages_are_short() -> None:
    assert len(short_message("x" * 10_000)) == LONGEST
    assert understand(http(418, ""), GENERIC, now_utc=NOW).message == "HTTP 418"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai", '{"error": {"message": "Slow down", "type": "requests", "code": "slow_down"}}'),
        (
            "anthropic",
            '{"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your'
            ' organization’s maximum usage increase rate for input tokens per minute."}}',
        ),
    ],
)
def test_a_refusal_about_growth_is_recognized(name: str, body: str) -> None:
    assert understand(http(429, body), PROFILES[name], now_utc=NOW).hint.growing


def test_an_ordinary_refusal_is_not_about_growth() -> None:
    body = '{"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}'
    assert not understand(http(429, body), PROFILES["openai"], now_utc=NOW).hint.growing


@pytest.mark.parametrize(
    ("tokens", "known"), [("400000", False), ("80000", False), ("480000", True), ("50000", True)]
)
def test_a_header_that_repeats_the_tightest_limit_is_not_a_limit_of_its_own(tokens: str, known: bool) -> None:
    """Read as a limit of input and output together, it would jump between the two and stall the lane."""
    headers = {
        f"anthropic_ratelimit_{what}_{part}": value
        for what, limit in (("tokens", tokens), ("input_tokens", "400000"), ("output_tokens", "80000"))
        for part, value in (("limit", limit), ("remaining", limit))
    }
    facts = understand(http(200, "", **headers), PROFILES["anthropic"], now_utc=NOW)
    assert (Dimension.TOKENS in {report.dimension for report in facts.hint.reports}) is known


@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.title])
def test_headers_are_read_in_any_spelling(spelling: Callable[[str], str]) -> None:
    limits = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"}
    headers = {"Date": "Sun, 15 Nov 2026 08:00:00 GMT"} | {spelling(name): limits[name] for name in limits}
    for _ in ("first", "again"):
        [report] = understand(RawResponse(200, headers), PROFILES["openai"], now_utc=NOW).hint.reports
        assert (report.limit, report.remaining) == (60.0, 59.0)


def test_any_number_of_header_names_is_read_in_bounded_memory() -> None:
    profile = PROFILES["openai"]
    for number in range(3 * MOST_SPELLINGS):
        headers = {f"x-trace-{number}": "1", "X-RateLimit-Limit-Requests": "60"}
        assert understand(RawResponse(200, headers), profile, now_utc=NOW).hint.reports
    assert len(profile.spellings) <= MOST_SPELLINGS


def test_a_date_alone_reports_nothing() -> None:
    headers = {"Date": "Sun, 15 Nov 2026 08:00:00 GMT", "Content-Length": "7"}
    assert understand(RawResponse(200, headers), GENERIC, now_utc=NOW) == SUCCESS_FACTS
