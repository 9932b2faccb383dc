"""What agent CLIs print when they are refused → kind, wait and window; each message of reference/providers.md §3, through the same
code that judges a real run.
"""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

import pytest
from tests.executors.agent_runs import Event, judged, talk

from headway.core.lanes.account import hold_scope
from headway.core.model import Kind

IN_AN_HOUR: Final = int(time.time()) + 3600


def result(text: str, status: int | None = None, **more: Any) -> Event:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "api_error_status": status,
        "result": text,
        **more,
    }


def window(status: str, name: str | None = "five_hour", **info: Any) -> Event:
    named = {} if name is None else {"rateLimitType": name, "resetsAt": IN_AN_HOUR}
    return {"type": "rate_limit_event", "rate_limit_info": {"status": status, **named, **info}}


def failed(text: str) -> list[Event]:
    """Codex says it twice."""
    return [{"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}}]


class Refusal(NamedTuple):
    """A run, and what it means. `wait_s`: None means that nothing is said; a clock time is some time within a day."""

    cli: str
    events: list[Event] | str
    kind: Kind
    wait_s: float | str | None = None
    window: str = ""
    scope: str = ""
    stderr: str = ""
    code: int = 1


SESSION: Final = "You've hit your session limit · resets 11:18am (UTC)"
CODEX: Final = (
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
    "https://chatgpt.com/settings/usage to purchase more credits or try again at 12:00 PM."
)
REFUSALS: Final = {
    # Claude Code
    "five hours": Refusal("claude", [window("rejected"), result("You've hit your 5-hour limit · resets 12pm (UTC)", 429)], Kind.HOLD, 3600.0, "five_hour", "account"),
    "seven days": Refusal("claude", [window("rejected", "seven_day"), result("You've hit your weekly limit", 429)], Kind.HOLD, 3600.0, "seven_day", "account"),
    "one model": Refusal("claude", [window("rejected", "seven_day_opus"), result("You've hit your Opus limit", 429)], Kind.HOLD, 3600.0, "seven_day_opus", "model"),
    "overage is refused, too": Refusal("claude", [window("rejected", overageStatus="rejected"), result("You've hit your limit", 429)], Kind.HOLD, 3600.0, "five_hour", "account"),
    "session, without an event": Refusal("claude", [result(SESSION, 429)], Kind.HOLD, "clock", "five_hour", "account"),
    "session, as plain text": Refusal("claude", SESSION, Kind.HOLD, "clock", "five_hour", "account"),
    "weekly": Refusal("claude", [result("You've reached your weekly limit · resets 6am (UTC)", 429)], Kind.HOLD, "clock", "seven_day", "account"),
    "Opus": Refusal("claude", [result("You've used your Opus limit · resets 4pm (America/Los_Angeles)", 429)], Kind.HOLD, "clock", "seven_day_opus", "model"),
    "Sonnet": Refusal("claude", [result("You've hit your Sonnet limit · resets 4pm", 429)], Kind.HOLD, "clock", "seven_day_sonnet", "model"),
    "older builds": Refusal("claude", [result(f"Claude AI usage limit reached|{IN_AN_HOUR}")], Kind.HOLD, 3600.0, "usage", "account"),
    "no reset": Refusal("claude", [result("You've hit your session limit", 429)], Kind.HOLD, None, "five_hour", "account"),
    "429 of a key": Refusal("claude", [result("API Error: Request rejected (429) · This request would exceed your account's rate limit.", 429)], Kind.HOLD),
    "429 of the servers, with a login": Refusal("claude", [window("rejected", None, isUsingOverage=False), result("API Error: Server is temporarily limiting requests (not your usage limit) · Try later.", 429, api_error_type="rate_limit_error")], Kind.HOLD),
    "api_retry, then killed": Refusal("claude", [{"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 1000, "error_status": 429, "error": "rate_limit"}], Kind.HOLD),
    "overload": Refusal("claude", [result("API Error: 529 Overloaded. This is a server-side issue, usually temporary", 529)], Kind.OVERLOAD),
    "no credit": Refusal("claude", [{"type": "assistant", "error": "billing_error", "message": {"content": []}}, result("Credit balance is too low", 400)], Kind.QUOTA),
    "wrong key": Refusal("claude", [result("Invalid API key · Fix external API key", 401)], Kind.AUTH),
    "no login": Refusal("claude", [result("Not logged in · Please run /login", 401)], Kind.AUTH),
    "too many turns": Refusal("claude", [{"type": "result", "subtype": "error_max_turns", "is_error": True, "num_turns": 20}], Kind.INVALID),
    "over its budget": Refusal("claude", [{"type": "result", "subtype": "error_max_budget_usd", "is_error": True}], Kind.INVALID),
    # Codex
    "plan": Refusal("codex", failed(CODEX), Kind.HOLD, "clock", "usage", "account"),
    "plan, plain apostrophe": Refusal("codex", failed(CODEX.replace("’", "'")), Kind.HOLD, "clock", "usage", "account"),
    "plan, another day": Refusal("codex", failed("You've hit your usage limit. Try again in 3 days 2 hours."), Kind.HOLD, 266_400.0, "usage", "account"),
    "Codex 429": Refusal("codex", failed("exceeded retry limit, last status: 429 Too Many Requests, request id: req_1"), Kind.HOLD),
    "Codex no credit": Refusal("codex", failed("Quota exceeded. Check your plan and billing details."), Kind.QUOTA),
    "Codex wrong key": Refusal("codex", failed("unexpected status 401 Unauthorized: Incorrect API key provided: sk-r***ault., url: http://127.0.0.1/v1/responses"), Kind.AUTH),
    "Codex overload": Refusal("codex", failed("unexpected status 529 <unknown status code>: That model is currently overloaded with other requests. Please retry shortly."), Kind.OVERLOAD),
    "Codex on standard error": Refusal("codex", [], Kind.HOLD, "clock", "usage", "account", stderr=f"ERROR: {CODEX}"),
    # Gemini CLI
    "Gemini day": Refusal("gemini-cli", "", Kind.HOLD, "clock", "day", "account", stderr='{"session_id":"s","error":{"type":"TerminalQuotaError","message":"You have exhausted your daily quota on this model.","code":429}}', code=173),
    "Gemini turns": Refusal("gemini-cli", "", Kind.INVALID, stderr='{"session_id":"s","error":{"type":"FatalTurnLimitedError","message":"Reached max session turns","code":53}}', code=53),
    # opencode
    "opencode 429": Refusal("opencode", [{"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": "This request would exceed your rate limit", "statusCode": 429}}}], Kind.HOLD),
    "opencode wrong key": Refusal("opencode", [{"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": "invalid x-api-key", "statusCode": 401}}}], Kind.AUTH),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_each_message_is_recognised(name: str) -> None:
    cli, events, kind, wait_s, window_name, scope, stderr, code = REFUSALS[name]
    outcome = judged(cli, events, code=code, stderr=stderr).outcome
    assert outcome.kind is kind, outcome
    hint = outcome.hint
    said_s = None if hint is None else hint.retry_after_s
    if wait_s == "clock":
        assert said_s is not None
        assert 0.0 < said_s <= 86_400.0
    elif isinstance(wait_s, float):
        # The hour began when the tests were collected: others may have run since.
        left_s = IN_AN_HOUR - time.time() if wait_s == 3600.0 else wait_s
        assert said_s == pytest.approx(left_s, abs=60.0)
    else:
        assert said_s is None
    windows = [] if hint is None else [window.name for window in hint.windows if window.closed]
    assert windows == ([window_name] if window_name else [])
    assert hold_scope(hint) == scope


@pytest.mark.parametrize(("name", "code"), [("too many turns", "error_max_turns"), ("over its budget", "error_max_budget_usd")])  # fmt: skip
def test_an_error_without_a_text_names_its_code(name: str, code: str) -> None:
    cli, events, *_ = REFUSALS[name]
    assert code in judged(cli, events).outcome.message


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_after_a_long_conversation_is_recognised_too(name: str) -> None:
    cli, events, kind, *_, stderr, code = REFUSALS[name]
    if isinstance(events, str):
        return
    before = [
        event
        for _ in range(200)
        for event in talk(cli, "a rate limit is a promise")
        if event["type"] != "rate_limit_event"
    ]
    assert judged(cli, [*before, *events], code=code, stderr=stderr).outcome.kind is kind


@pytest.mark.parametrize(
    "info",
    [
        {"status": "allowed", "overageStatus": "rejected"},
        {"status": "allowed_warning", "utilization": 0.97},
        {"status": "rejected", "isUsingOverage": True},
    ],
)
def test_what_is_no_denial(info: dict[str, Any]) -> None:
    status = info.pop("status")
    done = {**result("done"), "is_error": False}
    outcome = judged("claude", [window(status, **info), done], code=0).outcome
    assert outcome.kind is None
    assert outcome.hint is not None
    assert outcome.hint.windows[0].name == "five_hour"
    assert outcome.hint.windows[0].used == info.get("utilization")


def test_all_windows_of_an_event_are_known() -> None:
    each = {
        "five_hour": {"utilization": 0.91, "resetsAt": IN_AN_HOUR, "status": "allowed_warning"},
        "seven_day": {"utilization": 0.3, "resetsAt": IN_AN_HOUR + 86_400, "status": "allowed"},
        "overage": {"status": "rejected"},
    }
    done = {**result("done"), "is_error": False}
    hint = judged("claude", [window("allowed_warning", unifiedWindows=each), done], code=0).outcome.hint
    assert hint is not None
    assert [(one.name, one.used, one.resets_utc) for one in hint.windows] == [
        ("five_hour", 0.91, IN_AN_HOUR),
        ("seven_day", 0.3, IN_AN_HOUR + 86_400),
    ]
