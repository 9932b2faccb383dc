"""Virtual providers behave as the documentation of real ones says."""

from __future__ import annotations

import pytest

from headway.core.model import Dimension, Kind, Outcome, Usage
from headway.sim.scenario import LimitChange, ProviderSpec, Span
from headway.sim.virtual_provider import Admission, VirtualProvider
from headway.sim.workload import Truth


def truth(
    tokens: float = 100.0, *, cached: float = 0.0, output: float = 10.0, max_tokens: float = 50.0
) -> Truth:
    return Truth(Usage(tokens, output, cached), max_tokens, 0.0, 0.0, 0.1, 1.0)


def refused(answer: Admission | Outcome) -> Outcome:
    assert isinstance(answer, Outcome)
    return answer


def admitted(answer: Admission | Outcome) -> Admission:
    assert isinstance(answer, Admission)
    return answer


def test_an_empty_bucket_refuses_with_a_retry_time() -> None:
    provider = VirtualProvider(ProviderSpec(rpm=60, depth_s=2), "seed")
    for _ in range(2):
        admitted(provider.arrive(truth(), 0.0))
    outcome = refused(provider.arrive(truth(), 0.25))
    assert outcome.kind is Kind.RATE
    assert outcome.hint is not None
    assert outcome.hint.retry_after_s == pytest.approx(0.75)
    assert outcome.hint.dimension is Dimension.REQUESTS
    admitted(provider.arrive(truth(), 1.0))


@pytest.mark.parametrize(
    ("style", "wait_s", "precision_s"),
    [("none", None, 0.0), ("exact", 0.75, 0.0), ("integer", 1.0, 1.0), ("date", 0.75, 1.0)],
)
def test_retry_after_comes_in_four_styles(style: str, wait_s: float | None, precision_s: float) -> None:
    provider = VirtualProvider(ProviderSpec(rpm=60, depth_s=1, retry_after=style), "seed")  # type: ignore[arg-type]
    provider.arrive(truth(), 0.0)
    hint = refused(provider.arrive(truth(), 0.25)).hint
    assert hint is not None
    assert hint.retry_after_s == (None if wait_s is None else pytest.approx(wait_s))
    assert hint.precision_s == precision_s


def test_openai_reserves_max_tokens_and_refunds_nothing() -> None:
    provider = VirtualProvider(ProviderSpec(tpm=6000, depth_s=2, counting="reserved"), "seed")
    one = truth(100, max_tokens=50)
    provider.arrive(one, 0.0)
    provider.first_token(one, 0.0)
    provider.produced(one, 0.0)
    assert provider.buckets[Dimension.TOKENS].level == pytest.approx(200 - 150)


def test_anthropic_refunds_cached_input_and_charges_output_as_produced() -> None:
    provider = VirtualProvider(
        ProviderSpec(input_tpm=6000, output_tpm=6000, depth_s=2, counting="used"), "seed"
    )
    one = truth(100, cached=40, output=20)
    provider.arrive(one, 0.0)
    assert provider.buckets[Dimension.INPUT].level == pytest.approx(100)
    assert provider.buckets[Dimension.OUTPUT].level == pytest.approx(200)
    provider.first_token(one, 0.0)
    assert provider.buckets[Dimension.INPUT].level == pytest.approx(140)
    for _ in range(4):
        provider.produced(one, 0.0)
    assert provider.buckets[Dimension.OUTPUT].level == pytest.approx(180)


def test_headers_report_the_level_or_a_minute_that_is_not_enforced() -> None:
    honest = VirtualProvider(ProviderSpec(rpm=600, depth_s=1, headers="openai"), "seed")
    boastful = VirtualProvider(
        ProviderSpec(rpm=600, depth_s=1, headers="openai", headers_say_minute=True), "seed"
    )
    for provider, left, reset_s in ((honest, 9, 0.1), (boastful, 599, 0.1)):
        hint = admitted(provider.arrive(truth(), 0.0)).hint
        assert hint is not None
        (report,) = hint.reports
        assert (report.limit, report.remaining) == (600, left)
        assert report.reset_s == pytest.approx(reset_s)
    for _ in range(9):
        admitted(boastful.arrive(truth(), 0.0))
    assert refused(boastful.arrive(truth(), 0.0)).kind is Kind.RATE


def test_headers_may_report_levels_without_resets() -> None:
    provider = VirtualProvider(ProviderSpec(rpm=600, depth_s=1, headers="levels"), "seed")
    hint = admitted(provider.arrive(truth(), 0.0)).hint
    assert hint is not None
    (report,) = hint.reports
    assert (report.limit, report.remaining, report.reset_s) == (600, 9, None)


def test_anthropic_headers_are_rounded_as_documented() -> None:
    provider = VirtualProvider(
        ProviderSpec(input_tpm=60_000, depth_s=10, counting="used", headers="anthropic"), "seed"
    )
    hint = admitted(provider.arrive(truth(700), 0.5)).hint
    assert hint is not None
    (report,) = hint.reports
    assert (report.remaining, report.remaining_precision) == (9000, 500)
    assert report.reset_s == 2.0  # Full at 1.2, reported as 2, in an answer sent at 0.5 with the date 0.
    assert report.reset_precision_s == 2.0


def test_slots_storms_outages_and_holds_have_their_kinds() -> None:
    spec = ProviderSpec(
        max_concurrency=1, storms=(Span(10, 20),), outages=(Span(30, 40),), holds=(Span(50, 150),), errors=0.0
    )
    provider = VirtualProvider(spec, "seed")
    admitted(provider.arrive(truth(), 0.0))
    assert refused(provider.arrive(truth(), 0.0)).kind is Kind.CONCURRENCY
    provider.leave()
    admitted(provider.arrive(truth(), 1.0))
    provider.leave()
    assert refused(provider.arrive(truth(), 15.0)).kind is Kind.OVERLOAD
    assert refused(provider.arrive(truth(), 35.0)).kind is Kind.TRANSIENT
    hold = refused(provider.arrive(truth(), 60.0))
    assert hold.kind is Kind.HOLD
    assert hold.hint is not None
    assert hold.hint.retry_after_s == 90.0


def test_a_share_of_admitted_requests_ends_in_a_500() -> None:
    provider = VirtualProvider(ProviderSpec(errors=0.25), "seed")
    kinds = [admitted(provider.arrive(truth(), float(at))).outcome.kind for at in range(400)]
    assert 60 < kinds.count(Kind.TRANSIENT) < 140


def test_limits_change_at_the_instants_of_the_scenario() -> None:
    provider = VirtualProvider(ProviderSpec(rpm=60, depth_s=60, changes=(LimitChange(10, 0.5),)), "seed")
    provider.arrive(truth(), 20.0)
    bucket = provider.buckets[Dimension.REQUESTS]
    assert bucket.rate == pytest.approx(0.5)
    assert bucket.capacity == pytest.approx(30)


def test_a_failure_may_come_earlier_than_an_answer() -> None:
    provider = VirtualProvider(ProviderSpec(errors=1.0, error_after_s=0.02), "seed")
    assert admitted(provider.arrive(truth(), 0.0)).fails_after_s == 0.02


def test_windows_follow_the_clock_and_a_run_begins_within_one() -> None:
    spec = ProviderSpec(
        rpm=2, depth_s=60, fixed_windows=True, window_offset_s=37, headers="openai", retry_after="exact"
    )
    provider = VirtualProvider(spec, "seed")
    for at in (0.0, 1.0):
        admitted(provider.arrive(truth(), at))
    refusal = refused(provider.arrive(truth(), 3.0))
    assert refusal.hint is not None
    assert refusal.hint.retry_after_s == pytest.approx(20)
    admitted(provider.arrive(truth(), 23.0))
