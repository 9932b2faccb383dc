"""Answers, thoughts, tool calls, tool results and printed files that talk about limits are never taken for one."""

from __future__ import annotations

import time
from typing import Final

import pytest
from tests.executors.agent_runs import ending, judged, talk

from headway.config.settings import CommandConfig
from headway.core.model import Kind
from headway.executors.commands import run_outcome
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.program import ProgramEnd
from headway.executors.limit_evidence import LimitDetector
from headway.providers.limits.limit_text import LIMIT_KINDS

#: Real wordings (reference/providers.md §3, and what the present versions print).
WORDINGS: Final = (
    "You've hit your session limit · resets 11:18am (UTC)",
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), or try again at 10:21 AM.",
    "You've hit your 5-hour limit · resets 12pm (UTC)",
    "You've reached your weekly limit · resets Apr 3, 6am",
    "You've used your Opus limit · resets 4pm (America/Los_Angeles)",
    "Claude AI usage limit reached|1794741540",
    "5-hour limit reached ∙ resets 3pm",
    "API Error: Request rejected (429) · This request would exceed your organization's rate limit",
    "API Error: Server is temporarily limiting requests (not your usage limit)",
    "API Error: 529 Overloaded. This is a server-side issue, usually temporary",
    "Credit balance is too low",
    "Invalid API key · Please run /login",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "Quota exceeded. Check your plan and billing details.",
    "Reconnecting... 1/5 (unexpected status 429 Too Many Requests)",
    "RESOURCE_EXHAUSTED: You have exhausted your daily quota on this model.",
    '{"type":"error","error":{"type":"rate_limit_error","message":"Too many requests"}}',
    '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794741540,"rateLimitType":"five_hour"}}',
    '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"Request rejected (429)"}',
    '{"type":"turn.failed","error":{"message":"You’ve hit your usage limit."}}',
    "HTTP/1.1 429 Too Many Requests\nretry-after: 3600\nanthropic-ratelimit-unified-status: rejected",
)
#: How people and programs quote them.
TEMPLATES: Final = (
    "{}",
    "The log says:\n{}\nso the client should back off.",
    "I fixed it: the test now expects `{}`.",
    'Traceback (most recent call last):\n  File "a.py", line 3\nRuntimeError: {}',
    "{}\n{}\n{}",
    "+    raise RateLimited({!r})",
    "# Limits\n\n| message | meaning |\n|---|---|\n| {} | wait |",
    "grep -rn 'limit' .\nsrc/a.py:3: {}",
    "1. {}\n2. Try again later.",
    "Error: {}",
)
TEXTS: Final = [
    template.format(*([wording] * template.count("{"))) for wording in WORDINGS for template in TEMPLATES
]


def test_there_are_enough_of_them() -> None:
    assert len(set(TEXTS)) >= 200


@pytest.mark.parametrize("cli", AGENT_CLIS)
def test_in_a_run_that_succeeds(cli: str) -> None:
    for text in TEXTS:
        result = judged(cli, [*talk(cli, text), *ending(cli, text)])
        assert result.end == "value", (text, result.outcome)
        assert result.outcome.hint is None or not any(w.closed for w in result.outcome.hint.windows), text


@pytest.mark.parametrize("cli", AGENT_CLIS)
@pytest.mark.parametrize("code", [1, -9])
def test_in_a_run_that_breaks_off_for_another_reason(cli: str, code: int) -> None:
    expected = {1: Kind.TRANSIENT, -9: Kind.CRASH}[code]
    for text in TEXTS:
        result = judged(cli, talk(cli, text), code=code, stderr="Segmentation fault" if code > 0 else "")
        assert result.outcome.kind is expected, (text, result.outcome)
        assert result.rate_limit is None


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("output", ["text", "jsonl"])
def test_as_the_output_of_any_program(code: int, output: str) -> None:
    """`cat file`, or a program that prints a model's answer and then fails for another reason.

    A line that is an event of an agent CLI, from a program that failed, is one: the program ran an agent.
    """
    settings = CommandConfig(("cat",), output=output)  # type: ignore[arg-type]
    for text in TEXTS:
        if code and any(line.startswith('{"type"') for line in text.splitlines()):
            continue
        printed = (
            text if output == "text" else "\n".join(f'{{"line": {line!r}}}' for line in text.splitlines())
        )
        end = ProgramEnd(code, False, printed.encode(), b"no such file" if code else b"", 1, time.time(), 0.1)
        result = run_outcome.of_command(end, settings, 600.0, 1_000_000)
        result = result if result.end == "value" else LimitDetector().read(result)
        assert result.outcome.kind not in LIMIT_KINDS, (text, result.outcome)
