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
        "no answer in 41 s: no connection: refused",
        "transient: no answer in 41 s: no connection: refused",
    ),
    (HoldTooLong("resets 4pm"), "hold", "resets 4pm", "resets 4pm"),
    (HoldTooLong(""), "hold", "stopped", "stopped"),
    (
        SPENT,
        "budget",
        "alpha has cost $1,200.2500 of its max_cost of $1,234.5; the next request may cost up to $40.0000",
        "budget: alpha has cost $1,200.2500 of its max_cost of $1,234.5; the next request may cost up to $40.0000",
    ),
    (StopRequested("as asked"), "interrupted", "as asked", "as asked"),
    (
        OnlyFailures(Kind.OVERLOAD, "busy", 900.4),
        "interrupted",
        "only failures for 900 s; the last: overload: busy",
        "only failures for 900 s; the last: overload: busy",
    ),
    (
        OnlyFailures(Kind.OVERLOAD, "", 900.4),
        "interrupted",
        "only failures for 900 s; the last: overload",
        "only failures for 900 s; the last: overload",
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
    (RunBudgetSpent(), "budget", "the budget is used up; raise it to continue"),
    (DeadlinePassed(), "deadline", "the run's deadline passed"),
    (RunInterrupted(), "interrupted", "the run was interrupted; continue with 'headway resume'"),
]
WAITS: list[tuple[Wait, str]] = [
    (Wait(WaitCode.STOPPED, stop=StopRequested("x")), "stopped: x"),
    (Wait(WaitCode.PAUSED), "paused"),
    (Wait(WaitCode.RUN_ENDING, message="aborted"), "the run was interrupted: nothing new starts"),
    (Wait(WaitCode.DATABASE), "the database, which says what other jobs leave of it"),
    (Wait(WaitCode.HOLD, 5.0, "resets {4pm}"), "hold: resets {4pm}"),
    (
        Wait(WaitCode.BREAKER, 5.0, "overload"),
        "overload (too many failures: a single request tests the provider then)",
    ),
    (
        Wait(WaitCode.PROBE, message="overload"),
        "overload (too many failures: a single request tests the provider now)",
    ),
    (Wait(WaitCode.OTHER_JOBS), "other jobs use all of its concurrency"),
    (Wait(WaitCode.CONCURRENCY, limit=4), "concurrency: 4 in flight"),
    (Wait(WaitCode.GLOBAL_CAP, limit=4), "global cap: 4 in flight"),
    (Wait(WaitCode.GROUP_CAP, limit=4), "--concurrency: 4 at a time"),
    (Wait(WaitCode.RETRY_AFTER, 5.0), "retry-after"),
    (Wait(WaitCode.START_DELAY, 5.0), "delay between starts"),
    (Wait(WaitCode.BUDGET), "budget"),
    (Wait(WaitCode.PACE, 5.0, "requests per minute"), "requests per minute"),
    (Wait(WaitCode.CRASHED_TWICE, 5.0), "crash: a unit whose worker died twice waits to run alone"),
    (Wait(WaitCode.BACKOFF, 5.0, "overload"), "backoff: overload"),
    (Wait(WaitCode.SERIAL_FIRST), "serial units run first"),
    (Wait(WaitCode.READING), "its next units are being read"),
    (Wait(WaitCode.OTHER_UNITS), "other units that must finish first"),
    (Wait(WaitCode.ONE_AHEAD), "one unit runs ahead of the others, which start if it meets no limit"),
    (Wait(WaitCode.CONNECTIONS), "requests that started wait for their connections"),
    (Wait(WaitCode.ANSWERS), "more start as answers come: the limit is not known yet"),
    (Wait(WaitCode.SAME_DIRECTORY), "another unit in the same directory (--worktree gives each its own)"),
]
NOTICES: list[tuple[NoticeReason, str]] = [
    *((reason, text) for reason, _, _, text in STOPS),
    (ProviderMessage("resets 4pm"), "resets 4pm"),
    (Reopened(), "on request"),
    (
        FailuresInARow(5, Kind.OVERLOAD, ""),
        "overload (5 failures in a row: only single test requests are sent until the provider answers)",
    ),
    (AnswersAgain(), "the provider answers again"),
    (
        LimitsInForce(((3000, "requests per minute"), (200_000, "tokens per minute"))),
        "3,000 requests per minute, 200,000 tokens per minute",
    ),
    (
        GrowthLimited(1000.0, Dimension.INPUT, 300.0),
        "usage grew too fast for the provider: it now starts at 1,000 input tokens per minute and grows by half every 5 min",
    ),
    (OthersUseKey(0.4), "other users of this key take about 40% of its limit"),
    (OthersGone(), "this key seems to have no other users any more"),
    (
        TakesLess(0.5),
        "the provider accepts 50% of what it accepted before: its limit was lowered, or this key has other users",
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
    assert unit_error(reason) == ("upstream_failed", "a unit that it depends on could not finish")
    assert msgspec.json.decode(msgspec.json.encode(reason), type=EndReason) == reason


# -- what older versions stored ---------------------------------------------------------------------------------------

#: The code and message that a version up to schema 10 stored for the units of a stopped lane, and the reason that is read.
OLDER_STOPS: list[tuple[str, str, StopReason]] = [
    ("auth", "no: key", AccountRefused(Kind.AUTH, "no: key")),
    ("quota", "", AccountRefused(Kind.QUOTA, "")),
    ("auth", "Invalid URL (POST /x)", AccountRefused(Kind.AUTH, "Invalid URL (POST /x)", wrong_path=True)),
    (
        "transient",
        "never an answer, tried for 41 s: no connection: refused",
        NeverAnswered(Kind.TRANSIENT, "no connection: refused", 41.0),
    ),
    (
        "budget",
        "alpha may cost $1,234.5 and has cost $1,200.2500; the next request may cost up to $40.0000",
        SPENT,
    ),
]
#: Messages that older versions stored without their code in a lane's sentence: they are read as text.
OLDER_TEXTS = (
    "as asked",
    "nothing but failures for 900 s, the last was overload: busy",
    "20 units in a row failed with: unknown model",
)
OLDER_ENDS: list[tuple[str, str, EndReason]] = [
    *OLDER_STOPS,
    *(("interrupted", text, StopRequested(text)) for text in OLDER_TEXTS),
    ("hold", "resets 4pm", HoldTooLong("resets 4pm")),
    ("budget", "the budget is used up; go on with a higher one", RunBudgetSpent()),
    ("deadline", "the run's deadline passed", DeadlinePassed()),
    ("interrupted", "the run was interrupted; go on with 'headway resume'", RunInterrupted()),
]
OLDER_WAITS: list[tuple[str, Wait]] = [
    *((f"stopped: {code}: {message}", Wait(WaitCode.STOPPED, 5.0, stop=stop)) for code, message, stop in OLDER_STOPS),
    *((f"stopped: {text}", Wait(WaitCode.STOPPED, 5.0, stop=StopRequested(text))) for text in OLDER_TEXTS),
    ("stopped: resets 4pm", Wait(WaitCode.STOPPED, 5.0, stop=StopRequested("resets 4pm"))),
    ("breaker: overload; the next probe", Wait(WaitCode.BREAKER, 5.0, "overload")),
    ("breaker: overload; its probe", Wait(WaitCode.PROBE, 5.0, "overload")),
    ("hold: resets 4pm", Wait(WaitCode.PACE, 5.0, "hold: resets 4pm")),
    ("the delay between starts", Wait(WaitCode.PACE, 5.0, "the delay between starts")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "reason"), OLDER_ENDS)
def test_end_reasons_that_older_versions_stored_are_read(code: str, message: str, reason: EndReason) -> None:
    assert end_reason(code, message) == reason
    assert unit_error(end_reason(code, message))[0] == code


@pytest.mark.parametrize("message", OLDER_TEXTS)
def test_messages_of_older_versions_without_fields_stay_as_they_are(message: str) -> None:
    assert unit_error(end_reason("interrupted", message)) == ("interrupted", message)


def test_a_code_that_is_not_known_is_only_a_message() -> None:
    assert end_reason("spoilt", "why") == StopRequested("why")
    assert end_reason("budget", "why") == StopRequested("why")


@pytest.mark.parametrize(("sentence", "wait"), OLDER_WAITS)
def test_waits_that_older_versions_stored_are_read(sentence: str, wait: Wait) -> None:
    assert lane_wait(sentence, 5.0) == wait


def test_waits_of_older_versions_without_fields_keep_their_sentence() -> None:
    for sentence in ("hold: resets 4pm", "stopped: as asked", "the delay between starts"):
        assert wait_text(lane_wait(sentence, None)) == sentence
