"""Every reason has its words, and reasons that older versions stored as words are read as what they were."""

from __future__ import annotations

import msgspec
import pytest

from headway.core.model import Dimension, Kind
from headway.core.reasons import (
    AccountRefused,
    AnswersAgain,
    DeadlinePassed,
    EndReason,
    FailuresInARow,
    GrowthLimited,
    HoldTooLong,
    LaneBudgetSpent,
    LimitsInForce,
    NeverAnswered,
    NoticeReason,
    OnlyFailures,
    OthersGone,
    OthersUseKey,
    ProviderMessage,
    Reopened,
    RunBudgetSpent,
    RunInterrupted,
    SameComplaint,
    StopReason,
    StopRequested,
    TakesLess,
    UpstreamUnfinished,
    Wait,
    WaitCode,
)
from headway.reason_text import notice_text, stop_text, unit_error, wait_text
from headway.stores.older_reasons import end_reason, lane_wait

SPENT = LaneBudgetSpent("alpha", 1_234.5, 1_200.25, 40.0)
#: A reason of a stop, the code and message of its units, and how the lane says it.
STOPS: list[tuple[StopReason, str, str, str]] = [
    (AccountRefused(Kind.AUTH, "no: key"), "auth", "no: key", "auth: no: key"),
    (AccountRefused(Kind.QUOTA, ""), "quota", "", "quota: "),
    (
        AccountRefused(Kind.AUTH, "Invalid URL (POST /x)", wrong_path=True),
        "auth",
        "Invalid URL (POST /x)",
        "auth: Invalid URL (POST /x)",
    ),
    (
        NeverAnswered(Kind.TRANSIENT, "no connection: refused", 41.0),
        "transient",
        "never an answer, tried for 41 s: no connection: refused",
        "transient: never an answer, tried for 41 s: no connection: refused",
    ),
    (HoldTooLong("resets 4pm"), "hold", "resets 4pm", "resets 4pm"),
    (HoldTooLong(""), "hold", "stopped", "stopped"),
    (
        SPENT,
        "budget",
        "alpha may cost $1,234.5 and has cost $1,200.2500; the next request may cost up to $40.0000",
        "budget: alpha may cost $1,234.5 and has cost $1,200.2500; the next request may cost up to $40.0000",
    ),
    (StopRequested("as asked"), "interrupted", "as asked", "as asked"),
    (
        OnlyFailures(Kind.OVERLOAD, "busy", 900.4),
        "interrupted",
        "nothing but failures for 900 s, the last was overload: busy",
        "nothing but failures for 900 s, the last was overload: busy",
    ),
    (
        OnlyFailures(Kind.OVERLOAD, "", 900.4),
        "interrupted",
        "nothing but failures for 900 s, the last was overload",
        "nothing but failures for 900 s, the last was overload",
    ),
    (
        SameComplaint(20, "unknown model"),
        "interrupted",
        "20 units in a row failed with: unknown model",
        "20 units in a row failed with: unknown model",
    ),
]
ENDS: list[tuple[EndReason, str, str]] = [
    *((reason, code, message) for reason, code, message, _ in STOPS),
    (RunBudgetSpent(), "budget", "the budget is used up; go on with a higher one"),
    (DeadlinePassed(), "deadline", "the run's deadline passed"),
    (RunInterrupted(), "interrupted", "the run was interrupted; go on with 'headway resume'"),
]
WAITS: list[tuple[Wait, str]] = [
    (Wait(WaitCode.STOPPED, stop=StopRequested("x")), "stopped: x"),
    (Wait(WaitCode.PAUSED), "paused"),
    (Wait(WaitCode.RUN_ENDING, message="aborted"), "aborted"),
    (Wait(WaitCode.HOLD, 5.0, "resets {4pm}"), "hold: resets {4pm}"),
    (Wait(WaitCode.BREAKER, 5.0, "overload"), "breaker: overload; the next probe"),
    (Wait(WaitCode.PROBE, message="overload"), "breaker: overload; its probe"),
    (Wait(WaitCode.OTHER_JOBS), "other jobs: they have all that may be in flight"),
    (Wait(WaitCode.CONCURRENCY, limit=4), "concurrency: 4 in flight"),
    (Wait(WaitCode.GLOBAL_CAP, limit=4), "global cap: 4 in flight"),
    (Wait(WaitCode.RETRY_AFTER, 5.0), "retry-after"),
    (Wait(WaitCode.START_DELAY, 5.0), "the delay between starts"),
    (Wait(WaitCode.BUDGET), "budget"),
    (Wait(WaitCode.PACE, 5.0, "requests per minute"), "requests per minute"),
    (Wait(WaitCode.CRASHED_TWICE, 5.0), "crash: a unit whose worker died twice waits to run alone"),
    (Wait(WaitCode.BACKOFF, 5.0, "overload"), "backoff: overload"),
    (Wait(WaitCode.SERIAL_FIRST), "serial units first"),
    (Wait(WaitCode.READING), "units: its next ones are being read"),
    (Wait(WaitCode.OTHER_UNITS), "other units"),
]
NOTICES: list[tuple[NoticeReason, str]] = [
    *((reason, text) for reason, _, _, text in STOPS),
    (ProviderMessage("resets 4pm"), "resets 4pm"),
    (Reopened(), "as asked"),
    (
        FailuresInARow(5, Kind.OVERLOAD, ""),
        "5 failures in a row; only probes go from now on. The last was overload",
    ),
    (AnswersAgain(), "the provider answers again"),
    (
        LimitsInForce(((3000, "requests per minute"), (200_000, "tokens per minute"))),
        "3,000 requests per minute, 200,000 tokens per minute",
    ),
    (
        GrowthLimited(1000.0, Dimension.INPUT, 300.0),
        "its use grew too fast for the provider: from 1,000 input tokens per minute it grows by half every 5 min",
    ),
    (OthersUseKey(0.4), "somebody else on this key uses about 40% of its limit"),
    (OthersGone(), "nobody else seems to use this key any more"),
    (
        TakesLess(0.5),
        "it takes 50% of what it took before: its limit was lowered, or somebody else uses this key too",
    ),
]


@pytest.mark.parametrize(("reason", "code", "message"), ENDS)
def test_units_that_are_left_have_a_code_and_a_message(reason: EndReason, code: str, message: str) -> None:
    assert unit_error(reason) == (code, message)


@pytest.mark.parametrize(("reason", "code", "message", "text"), STOPS)
def test_a_lane_that_stopped_says_why(reason: StopReason, code: str, message: str, text: str) -> None:
    assert stop_text(reason) == text


@pytest.mark.parametrize(("reason", "text"), NOTICES)
def test_a_notice_says_what_happened(reason: NoticeReason, text: str) -> None:
    assert notice_text(reason) == text


@pytest.mark.parametrize(("wait", "text"), WAITS)
def test_a_wait_says_for_what(wait: Wait, text: str) -> None:
    assert wait_text(wait) == text


def test_every_code_of_a_wait_has_its_words() -> None:
    assert {wait.code for wait, _ in WAITS} == set(WaitCode)


@pytest.mark.parametrize("reason", [reason for reason, *_ in ENDS])
def test_a_stored_reason_comes_back_as_it_was(reason: EndReason) -> None:
    assert msgspec.json.decode(msgspec.json.encode(reason), type=EndReason) == reason


def test_a_unit_that_waits_for_a_lane_that_stopped_says_so() -> None:
    reason: EndReason = UpstreamUnfinished()
    assert unit_error(reason) == ("upstream_failed", "a unit that it builds on could not finish")
    assert msgspec.json.decode(msgspec.json.encode(reason), type=EndReason) == reason


# -- what older versions stored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reason", "code", "message"), ENDS)
def test_what_older_versions_stored_says_the_same(reason: EndReason, code: str, message: str) -> None:
    read = end_reason(code, message)
    assert unit_error(read) == (code, message)
    if code != "interrupted" or isinstance(reason, RunInterrupted):
        assert read == (HoldTooLong("stopped") if reason == HoldTooLong("") else reason)


def test_a_code_that_is_not_known_is_only_a_message() -> None:
    assert end_reason("spoilt", "why") == StopRequested("why")
    assert end_reason("budget", "why") == StopRequested("why")


@pytest.mark.parametrize("wait", [wait for wait, _ in WAITS])
def test_what_a_lane_waited_for_in_older_versions_says_the_same(wait: Wait) -> None:
    read = lane_wait(wait_text(wait), wait.until)
    assert (wait_text(read), read.until) == (wait_text(wait), wait.until)
    if wait.code in (WaitCode.STOPPED, WaitCode.BREAKER, WaitCode.PROBE):
        assert read == wait


@pytest.mark.parametrize(("reason", "code", "message", "text"), STOPS)
def test_why_a_lane_stopped_in_older_versions(reason: StopReason, code: str, message: str, text: str) -> None:
    read = lane_wait(f"stopped: {text}", None)
    assert read.code is WaitCode.STOPPED
    assert read.stop is not None
    assert stop_text(read.stop) == text
    if code not in ("interrupted", "hold"):
        assert read.stop == reason
