"""What is a rate limit, and what only sounds like one: two columns, for every way to run work."""

from __future__ import annotations

import math
import subprocess
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec

import headway
from headway.core.model import Kind

CLAUDE = "You've hit your limit · resets 4pm (America/Los_Angeles)"
REJECTED = '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 4102444800}}'
EVENT = '{"type": "result", "is_error": true, "result": "API Error: Request rejected (429)"}'
ANSWER = '{"type": "result", "is_error": false, "result": "You\'ve hit your limit"}'


class RateLimitError(Exception):
    """The seed's exception: the details are in `info`."""

    def __init__(self, message: str, info: Any = None) -> None:
        super().__init__(message)
        self.info = info


class WeeklyLimitError(RateLimitError):
    """The same with another name."""


class AgentError(Exception):
    """An exception that a program defines."""


class ProcessError(Exception):
    """Like those of agent SDKs: the output of their program is in an attribute."""

    def __init__(self, message: str, stderr: Any) -> None:
        super().__init__(message)
        self.stderr = stderr


class SchemaMismatch(Exception):
    """Quotes the invalid value."""


class InvalidAnswer(ValueError):
    """The same."""


class _RemoteTraceback(Exception):
    """What concurrent.futures makes of an exception from another process: its traceback as text."""


@dataclass
class SubTestResult:
    """The seed's result."""

    subtest_id: str = "1"
    selection_reason: str = ""
    rate_limit_info: Any = None
    runs: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class SlottedResult:
    rate_limit_info: Any = None


class StructResult(msgspec.Struct):
    rate_limit_info: Any = None


@dataclass
class RateLimitInfo:
    """The seed's."""

    source: str = "agent"
    retry_after_seconds: float | None = None
    error_message: str = ""
    detected_at: str = "2026-01-10T00:00:00+00:00"


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def traceback_of(last: str) -> str:
    frame = '  File "agent.py", line 429, in run\n    raise ValueError("rate limit exceeded")\n    ^^^^^\n'
    return f'\n"""\nTraceback (most recent call last):\n{frame}{last}\n"""'


def failed(stderr: Any = None, stdout: Any = None) -> subprocess.CalledProcessError:
    return subprocess.CalledProcessError(1, ["claude", "-p", "x"], output=stdout, stderr=stderr)


#: The exception, the kind that it means, and the wait that it names (-1: until a time of day).
EXCEPTIONS: list[tuple[BaseException, Kind, float | None]] = [
    (RuntimeError(CLAUDE), Kind.HOLD, -1),
    (RuntimeError("You've hit your limit"), Kind.HOLD, None),
    (RuntimeError(f"claude failed: {CLAUDE}"), Kind.HOLD, -1),
    (RuntimeError(f"exit code 1, stderr={CLAUDE!r}"), Kind.HOLD, -1),
    (RuntimeError("429 rate limit exceeded"), Kind.RATE, None),
    (RuntimeError("429 rate limit exceeded, please try again in 3 seconds"), Kind.RATE, 3.0),
    (RuntimeError("Error 429: rate limit exceeded, try again in 30 seconds"), Kind.RATE, 30.0),
    (RuntimeError("rate_limit"), Kind.RATE, None),
    (RuntimeError("rate_limit_exceeded: slow down"), Kind.RATE, None),
    (RuntimeError("rate limited"), Kind.RATE, None),
    (RuntimeError("rate limit"), Kind.RATE, None),
    (RuntimeError("the request was rate-limited"), Kind.RATE, None),
    (RuntimeError("we are being rate limited by the API"), Kind.RATE, None),
    (RuntimeError("Too Many Requests"), Kind.RATE, None),
    (RuntimeError("server said: Too Many Requests"), Kind.RATE, None),
    (RuntimeError("Rate limit exceeded. Retry-After: 12"), Kind.RATE, 12.0),
    (RuntimeError("openai: rate-limit hit, retry after 3 seconds"), Kind.RATE, 3.0),
    (RuntimeError("hit the limit, retry in 7s"), Kind.RATE, 7.0),
    (RuntimeError("got 429 from the server"), Kind.RATE, None),
    (RuntimeError("request failed with status 429"), Kind.RATE, None),
    (RuntimeError("HTTP Error 429: Too Many Requests"), Kind.RATE, None),
    (RuntimeError("exceeded retry limit, last status: 429 Too Many Requests"), Kind.RATE, None),
    (RuntimeError("Request was throttled. Expected available in 5 seconds."), Kind.RATE, None),
    (RuntimeError("weekly usage limit: upgrade to continue"), Kind.HOLD, None),
    (RuntimeError("Claude AI usage limit reached"), Kind.HOLD, None),
    (RuntimeError("quota exceeded"), Kind.HOLD, None),
    (RuntimeError("insufficient_quota: pay first"), Kind.QUOTA, None),
    (RuntimeError("too many concurrent requests"), Kind.CONCURRENCY, None),
    (RuntimeError("the model is overloaded"), Kind.OVERLOAD, None),
    (Exception("API Error: Request rejected (429)"), Kind.RATE, None),
    (RuntimeError("ThrottlingException: Rate exceeded"), Kind.RATE, None),
    (RuntimeError("RateLimitError: slow down"), Kind.RATE, None),
    (RuntimeError("the agent failed: rate_limit_error"), Kind.RATE, None),
    (RuntimeError("anthropic api: 429"), Kind.RATE, None),
    (RuntimeError("limit reached, resets in 9s"), Kind.RATE, 9.0),
    (RuntimeError("rate limiting in effect, please wait 5 seconds"), Kind.RATE, 5.0),
    (AgentError("agent 3: rate limit exceeded"), Kind.RATE, None),
    (OSError("rate limit exceeded"), Kind.RATE, None),
    (ConnectionError("429 Too Many Requests"), Kind.RATE, None),
    (ValueError("429 too many requests"), Kind.RATE, None),
    (ValueError("rate limit exceeded, try again in 3s"), Kind.RATE, 3.0),
    (ValueError(CLAUDE), Kind.HOLD, -1),
    (RateLimitError("slower"), Kind.RATE, None),
    (RateLimitError("slower", RateLimitInfo(retry_after_seconds=7)), Kind.RATE, 7.0),
    (RateLimitError("slower", RateLimitInfo(retry_after_seconds=10**400)), Kind.RATE, None),
    (headway.RateLimited(retry_after=math.nan), Kind.RATE, None),
    (headway.RateLimited(retry_after=10**400), Kind.RATE, None),
    (RateLimitError("slower", {"retry_after": "8s"}), Kind.RATE, 8.0),
    (WeeklyLimitError(CLAUDE), Kind.HOLD, -1),
    (headway.RateLimited(retry_after=4), Kind.RATE, 4.0),
    (SystemExit(f"error: {CLAUDE}"), Kind.HOLD, -1),
    # A program that was run, and its output.
    (failed(CLAUDE.encode()), Kind.HOLD, -1),
    (failed(CLAUDE), Kind.HOLD, -1),
    (failed(b"starting\nError: 429 rate limit exceeded, retry in 2s\n"), Kind.RATE, 2.0),
    (failed(stdout=EVENT), Kind.RATE, None),
    (failed(stdout=CLAUDE), Kind.HOLD, -1),
    (failed(stdout=f"{CLAUDE}\n".encode()), Kind.HOLD, -1),
    (failed(stdout=f'{{"type": "system"}}\n{EVENT}\n'.encode()), Kind.RATE, None),
    (failed(stdout=f"{REJECTED}\n".encode()), Kind.HOLD, None),
    (subprocess.TimeoutExpired(["claude"], 5, stderr=CLAUDE.encode()), Kind.HOLD, -1),
    (subprocess.TimeoutExpired(["claude"], 5, output=EVENT.encode()), Kind.RATE, None),
    (ProcessError("Command failed (exit code: 1)", CLAUDE), Kind.HOLD, -1),
    (chained(RuntimeError("the agent failed"), failed(CLAUDE)), Kind.HOLD, -1),
    (chained(KeyError("x"), RuntimeError("429 rate limit exceeded")), Kind.RATE, None),
    (ExceptionGroup("two", [ValueError("x"), RuntimeError("rate limited")]), Kind.RATE, None),
    # An exception from another process.
    (_RemoteTraceback(traceback_of(f"RuntimeError: {CLAUDE}")), Kind.HOLD, -1),
    (
        RuntimeError(f"Error sending result: 'RuntimeError(\"{CLAUDE}\")'. Reason: 'PicklingError'"),
        Kind.HOLD,
        -1,
    ),
]

#: No limit of a provider's.
NO_EXCEPTIONS: list[BaseException] = [
    KeyError("rate_limit"),
    KeyError("rate limit exceeded"),
    IndexError("429 rate limit exceeded"),
    AttributeError("'Settings' object has no attribute 'rate_limit'"),
    NameError("name 'rate_limit_exceeded' is not defined"),
    ImportError("cannot import name 'rate_limit' from 'limits'"),
    ModuleNotFoundError("No module named 'rate_limit'"),
    TypeError("call() got an unexpected keyword argument 'rate_limit'"),
    AssertionError("429 == 200: too many requests"),
    NotImplementedError("rate limit exceeded"),
    RecursionError("maximum recursion depth exceeded"),
    ZeroDivisionError("rate limit exceeded"),
    UnicodeDecodeError("utf-8", b"rate limit exceeded", 0, 1, "rate limit exceeded"),
    FileNotFoundError(2, "No such file or directory", "rate limit exceeded.txt"),
    OSError(122, "Disk quota exceeded"),
    RuntimeError("Disk quota exceeded"),
    RuntimeError("recursion limit exceeded"),
    RuntimeError("time limit exceeded"),
    RuntimeError("You have exceeded your file size limit"),
    RuntimeError("the agent hit the time limit, retry in 5s"),
    RuntimeError("the answer hit the max_tokens limit"),
    RuntimeError("hit the token limit"),
    RuntimeError("reached the iteration limit"),
    RuntimeError("reached the limit of 10 turns"),
    RuntimeError("exceeded your context limit"),
    RuntimeError("upload limit exceeded"),
    RuntimeError("rate_limit must be positive"),
    RuntimeError("invalid rate_limit: -1"),
    RuntimeError("unknown option rate_limit"),
    RuntimeError("the rate limiter is ready"),
    RuntimeError("rate limit settings were not found"),
    RuntimeError("this was not a rate limit"),
    RuntimeError("the rate limit was not reached"),
    RuntimeError("the API is rate limited to 5 requests a second"),
    RuntimeError("rate limit: 40% used"),
    RuntimeError("the concurrency limit must be at least 1"),
    RuntimeError("at most 4 concurrent requests are made"),
    RuntimeError("the setting limit: 0 makes no sense"),
    RuntimeError("rate limit module missing"),
    RuntimeError("config error: rate_limit=0"),
    RuntimeError("Rate limit test failed: expected 5, got 4"),
    RuntimeError("could not pickle <class 'agent.RateLimitError'>"),
    RuntimeError("could not import RateLimitError"),
    RuntimeError("number of rows: 429"),
    RuntimeError("the connection limit was reached"),
    RuntimeError("too many open files"),
    RuntimeError("429 rows were read"),
    RuntimeError("wrote 1429 tokens"),
    RuntimeError("returned 429 rows"),
    RuntimeError("compiling overloaded methods"),
    # A value that is quoted may be an answer.
    RuntimeError(f"cannot parse the answer: {CLAUDE}"),
    RuntimeError("the model said: 429 rate limit exceeded"),
    RuntimeError(f"no grade in the answer:\n{CLAUDE}"),
    ValueError(f"not a grade: {CLAUDE!r}"),
    ValueError("Rate limit exceeded is not a valid grade"),
    ValueError("429 rows have too many requests"),
    ValueError("first line\nrate limit exceeded"),
    InvalidAnswer("'rate limit exceeded' is not of type 'object'"),
    SchemaMismatch("'You have hit your limit' does not fit"),
    # A program that was run: its command line may be a prompt, its plain output an answer.
    subprocess.CalledProcessError(1, ["claude", "-p", "why: 429 rate limit exceeded"]),
    subprocess.TimeoutExpired(["claude", "-p", f"explain: {CLAUDE}"], 5),
    failed(stdout=ANSWER),
    failed(stdout=f"Here is what I found.\n{CLAUDE}"),
    failed(stderr=b"KeyError: 'rate_limit'"),
    failed(stderr=traceback_of("KeyError: 'rate_limit_exceeded'").encode()),
    ProcessError("429 rate limit exceeded, says the prompt", "another failure"),
    _RemoteTraceback(traceback_of("KeyError: 'rate_limit'")),
    SystemExit(2),
    SystemExit("no such file"),
    headway.HeadwayError("429 rate limit exceeded"),
]

#: Results that report a limit in a field of their own.
RESULTS: list[tuple[Any, Kind, float | None]] = [
    ({"rate_limit": {"retry_after_s": 30, "message": "slower"}}, Kind.RATE, 30.0),
    ({"rate_limit": {"message": "slower"}}, Kind.RATE, None),
    ({"rate_limit": True}, Kind.RATE, None),
    ({"rate_limit": {"retry_after_s": math.nan}}, Kind.RATE, None),
    ({"rate_limit": {"retry_after_s": math.inf}}, Kind.RATE, None),
    ({"rate_limit": {"retry_after_s": 10**400}}, Kind.RATE, None),
    ({"rate_limit": {"retry_after_s": math.nan, "resets_at": "2s"}}, Kind.RATE, 2.0),
    ({"rate_limit": {"retry_after": "soon"}}, Kind.RATE, None),
    ({"rate_limit": {"retry_after": timedelta(seconds=3)}}, Kind.RATE, None),
    (SubTestResult(rate_limit_info=RateLimitInfo(retry_after_seconds=math.nan)), Kind.RATE, None),
    ({"rate_limit": "429 rate limit exceeded, retry in 3s"}, Kind.RATE, 3.0),
    ({"rate_limit_info": {"retry_after_seconds": 5, "error_message": CLAUDE}}, Kind.RATE, 5.0),
    ({"rate_limit_info": {"retry_after_seconds": None, "error_message": CLAUDE}}, Kind.HOLD, -1),
    ({"rate_limit_info": {"status": "rejected"}}, Kind.RATE, None),
    ({"rate_limit_info": {"status": "rejected", "resets_at": "2s"}}, Kind.RATE, 2.0),
    ({"rate_limit_info": RateLimitInfo(retry_after_seconds=6, error_message="x")}, Kind.RATE, 6.0),
    (SubTestResult(rate_limit_info=RateLimitInfo(retry_after_seconds=6)), Kind.RATE, 6.0),
    (SubTestResult(rate_limit_info={"error_message": CLAUDE}), Kind.HOLD, -1),
    (SubTestResult(selection_reason=f"RateLimitError: {CLAUDE}"), Kind.HOLD, -1),
    (SubTestResult(selection_reason="RateLimitError: slower"), Kind.RATE, None),
    ({"selection_reason": f"RateLimitError: {CLAUDE}"}, Kind.HOLD, -1),
    (SlottedResult({"retry_after": 2}), Kind.RATE, 2.0),
    (StructResult({"retry_after_s": 2.5}), Kind.RATE, 2.5),
    (SimpleNamespace(rate_limit_info={"retry_after": "1m"}), Kind.RATE, 60.0),
]

#: Answers, whatever they speak of.
NO_RESULTS: list[Any] = [
    {"answer": 42, "rate_limit": {"limit": 5000, "remaining": 4999, "resets_at": 4e9}},
    {"rate_limit_info": {"status": "ok", "resets_at": 4e9}},
    {"rate_limit": {"is_limited": False, "reason": "under quota"}},
    {"rate_limit": {"retry_after_seconds": 0, "is_limited": False}},
    CLAUDE,
    "429 rate limit exceeded",
    CLAUDE.encode(),
    None,
    429,
    [CLAUDE],
    ({"rate_limit": True},),
    {"answer": f"you hit your rate limit: {CLAUDE}"},
    {"error": "rate limit exceeded"},
    {"message": CLAUDE, "reason": "rate_limit"},
    {"rate_limit": None},
    {"rate_limit": False},
    {"rate_limit": {}},
    {"rate_limit": {"retry_after_s": None, "resets_at": ""}},
    {"rate_limit": {"retry_after_s": False}},
    {"rate_limit": 500},
    {"rate_limit": "100 requests per minute"},
    {"rate_limit": {"rpm": 500, "tpm": 1000}},
    {"rate_limit": [1, 2]},
    {"rate_limit_info": None},
    {"rate_limit_info": {"status": "allowed", "resetsAt": 4102444800}},
    {"rate_limit_info": {"status": "allowed_warning", "resetsAt": 4102444800}},
    {"rate_limit_info": {"status": "rejected", "isUsingOverage": True}},
    {"selection_reason": "best of three: RateLimitError: was rare"},
    {"selection_reason": "WorkerError: KeyError: 'rate_limit'"},
    {"nested": {"rate_limit_info": {"status": "rejected"}}},
    SubTestResult(),
    SubTestResult(selection_reason="it was the best"),
    SubTestResult(rate_limit_info=SimpleNamespace(status="allowed")),
    SlottedResult(),
    StructResult({"status": "allowed_warning"}),
    Mock(),
    RateLimitError,
]
