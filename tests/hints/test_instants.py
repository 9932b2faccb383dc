"""Resets and waits by their format, and by which clock they are read."""

from __future__ import annotations

import pytest
from tests.hints.row import DATE, NOW, REQUESTS, http

from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.instants import http_date, iso_date, parse_wait
from headway.providers.limits.profiles import PROFILES


@pytest.mark.parametrize(
    ("value", "seconds", "step_s"),
    [
        ("2m59.56s", 179.56, 0.001),
        ("55", 55.0, 1.0),
        ("0.25", 0.25, 0.001),
        ("7.66", 7.66, 0.001),
        ("1794729630", 30.0, 1.0),
        ("1794729630.5", 30.5, 1.0),
        ("1794729630500", 30.5, 0.001),
        ("2026-11-15T08:00:07Z", 7.0, 1.0),
        ("2026-11-15T09:00:07+01:00", 7.0, 1.0),
        ("2026-11-15T08:00:07.250Z", 7.25, 0.001),
        ("2026-11-15T08:00:07", 7.0, 1.0),
        ("2026-11-15 08:00:07", 7.0, 1.0),
        ("Sun, 15 Nov 2026 08:00:30 GMT", 30.0, 1.0),
        ("Sunday, 15-Nov-26 08:00:30 GMT", 30.0, 1.0),
        ("Sun Nov 15 08:00:30 2026", 30.0, 1.0),
        (" 12 ", 12.0, 1.0),
        ("0", 0.0, 1.0),
        ("2026-11-15T07:59:00Z", 0.0, 1.0),
        ("1794729000", 0.0, 1.0),
    ],
)
def test_values_by_format(value: str, seconds: float, step_s: float) -> None:
    span = parse_wait(value, NOW)
    assert span is not None
    assert span.seconds == pytest.approx(seconds)
    assert span.step_s == step_s


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "-1",
        "-0.5",
        "nan",
        "inf",
        "NaN",
        "soon",
        "2026-11-15",
        "2026-13-45T99:99:99Z",
        "9999-12-31T23:59:59Z",
        "1000000000",
        "99999999999",
        "1e300",
        "40000000",
        "Xxx, 99 Foo 2026 08:00:30 GMT",
        "Sun, 15 Nov 9999 08:00:30 GMT",
    ],
)
def test_an_impossible_value_gives_nothing(value: str) -> None:
    assert parse_wait(value, NOW) is None


def test_the_three_http_dates_are_the_same_instant() -> None:
    dates = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994")
    assert {http_date(date) for date in dates} == {784_111_777.0}


def test_an_iso_date_without_a_zone_is_utc() -> None:
    assert iso_date("2026-11-15T08:00:00") == iso_date("2026-11-15T08:00:00Z") == NOW


@pytest.mark.parametrize("skew_s", [-7200.0, -30.0, 0.0, 30.0, 7200.0])
def test_with_a_date_header_the_local_clock_does_not_matter(skew_s: float) -> None:
    answers = (
        (
            "anthropic",
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-reset": "2026-11-15T08:00:07Z",
            },
        ),
        ("generic", {"x-ratelimit-limit": "50", "x-ratelimit-reset": "1794729607"}),
        ("openrouter", {"X-RateLimit-Limit": "50", "X-RateLimit-Reset": "1794729607000"}),
    )
    for name, headers in answers:
        facts = understand(RawResponse(200, {**headers, "Date": DATE}), PROFILES[name], now_utc=NOW + skew_s)
        assert [(report.dimension, report.reset_s) for report in facts.hint.reports] == [(REQUESTS, 7.0)]
    refused = http(429, "", Date=DATE, retry_after="Sun, 15 Nov 2026 08:00:30 GMT")
    assert understand(refused, PROFILES["generic"], now_utc=NOW + skew_s).hint.retry_after_s == 30.0


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 15 Nov 2026 08:00:00 CET"])
def test_without_a_readable_date_header_the_local_clock_is_used(date: str) -> None:
    refused = http(429, "", Date=date, retry_after="Sun, 15 Nov 2026 08:00:30 GMT")
    assert understand(refused, PROFILES["generic"], now_utc=NOW - 10.0).hint.retry_after_s == 40.0


def test_a_duration_needs_no_clock() -> None:
    refused = http(429, "", Date=DATE, retry_after="30")
    assert understand(refused, PROFILES["generic"], now_utc=0.0).hint.retry_after_s == 30.0


@pytest.mark.parametrize(
    ("headers", "seconds", "step_s"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5, 0.001),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0, 1.0),
        ({"retry-after-ms": "-1", "retry-after": "2"}, 2.0, 1.0),
        ({"retry-after": "0"}, 0.0, 1.0),
        ({"retry-after": "1m5s"}, 65.0, 0.001),
        ({"retry-after": "2", "x-ratelimit-reset": "9"}, 2.0, 1.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float, step_s: float) -> None:
    hint = understand(RawResponse(429, headers), PROFILES["together"], now_utc=NOW).hint
    assert (hint.retry_after_s, hint.precision_s) == (seconds, step_s)


def test_minus_one_and_zero_are_unknown_at_azure_and_nowhere_else() -> None:
    headers = {
        "x-ratelimit-limit-tokens": "5000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "0",
    }
    (azure,) = understand(RawResponse(200, headers), PROFILES["azure"], now_utc=NOW).hint.reports
    (xai,) = understand(RawResponse(200, headers), PROFILES["xai"], now_utc=NOW).hint.reports
    assert (azure.remaining, azure.reset_s) == (None, None)
    assert (xai.remaining, xai.reset_s) == (0.0, 0.0)
    assert (
        understand(RawResponse(429, {"retry-after": "0"}), PROFILES["azure"], now_utc=NOW).hint.retry_after_s
        is None
    )


@pytest.mark.parametrize("missing", ["limit", "remaining", "reset"])
def test_the_remainder_is_never_taken_as_the_limit(missing: str) -> None:
    values = {"limit": "5000", "remaining": "17", "reset": "12ms"}
    del values[missing]
    headers = {f"x-ratelimit-{name}-requests": value for name, value in values.items()}
    reports = understand(RawResponse(200, headers), PROFILES["openai"], now_utc=NOW).hint.reports
    assert [report.limit for report in reports] == ([] if missing == "limit" else [5000.0])


def test_a_tokens_reset_is_not_a_requests_reset_and_input_is_not_output() -> None:
    headers = {
        f"anthropic-ratelimit-{what}-limit": limit
        for what, limit in (("input-tokens", "400"), ("output-tokens", "80"))
    }
    headers["anthropic-ratelimit-output-tokens-reset"] = "2026-11-15T08:00:09Z"
    reports = understand(RawResponse(200, headers), PROFILES["anthropic"], now_utc=NOW).hint.reports
    assert [(str(report.dimension), report.limit, report.reset_s) for report in reports] == [
        ("input_tokens", 400.0, None),
        ("output_tokens", 80.0, 9.0),
    ]
