"""Rows of agent CLIs and of exceptions: results, events, standard error, and what clients raise."""

from __future__ import annotations

from typing import Any, Final

from headway.core.model import Kind

from .row import DAY, INPUT, REQUESTS, TOKENS, Row, cli, raised, told

HOUR: Final = 3600.0


def result(
    text: str, *, error: bool = True, status: int | None = None, subtype: str = "success"
) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": error,
        "api_error_status": status,
        "duration_ms": 1200,
        "num_turns": 1,
        "result": text,
        "session_id": "8f1e",
        "total_cost_usd": 0,
    }


def window(status: str, **info: Any) -> dict[str, Any]:
    return {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": status, "resetsAt": 1794741540, "rateLimitType": "five_hour", **info},
    }


def _limit(name: str, text: str, wait: float | None, status: int | None = 429) -> Row:
    return Row(f"claude-{name}", "claude", cli(result(text, status=status)), Kind.HOLD, wait=wait)


CLAUDE: Final = (
    Row(
        "claude-ok",
        "claude",
        cli(result("Hello. You've hit your session limit · resets 4pm", error=False)),
        None,
    ),
    Row(
        "claude-ok-in-a-warned-window",
        "claude",
        cli(window("allowed_warning", utilization=0.91), result("done", error=False)),
        None,
    ),
    Row("claude-window-allowed", "claude", cli(window("allowed")), None),
    Row("claude-window-warning", "claude", cli(window("allowed_warning", utilization=0.91)), None),
    Row("claude-window-rejected", "claude", cli(window("rejected")), Kind.HOLD, wait=11_940.0),
    Row("claude-window-rejected-but-overage", "claude", cli(window("rejected", isUsingOverage=True)), None),
    Row(
        "claude-window-rejected-then-result",
        "claude",
        cli(window("rejected"), result("You've hit your session limit · resets 11:19am (UTC)", status=429)),
        Kind.HOLD,
        wait=11_940.0,
    ),
    Row(
        "claude-ok-after-a-rejected-window",
        "claude",
        cli(window("rejected"), result("done", error=False)),
        None,
    ),
    _limit("session-limit", "You've hit your session limit · resets 11:18am (UTC)", 3 * HOUR + 18 * 60),
    _limit(
        "session-limit-typographic",
        "You’ve hit your session limit · resets 11:18am (UTC)",
        3 * HOUR + 18 * 60,
    ),
    _limit("limit-los-angeles", "You've hit your limit · resets 4pm (America/Los_Angeles)", 16 * HOUR),
    _limit("weekly-limit", "You've reached your weekly limit · resets Nov 20, 6am", 4 * DAY + 22 * HOUR),
    _limit("opus-limit", "You've used your Opus limit · resets Nov 16 at 9am (UTC)", DAY + HOUR),
    _limit("sonnet-limit", "You've hit your Sonnet weekly limit ∙ resets 9am", HOUR),
    _limit("five-hour-limit", "5-hour limit reached ∙ resets 3pm", 7 * HOUR),
    _limit("extra-usage", "You're out of extra usage · resets 3pm (UTC)", 7 * HOUR),
    _limit("usage-limit-epoch", "Claude AI usage limit reached|1794741540", 11_940.0, None),
    _limit(
        "unknown-zone-is-utc",
        "You've hit your session limit · resets 11:18am (Moon/Tycho)",
        3 * HOUR + 18 * 60,
    ),
    _limit("will-reset-at", "Claude usage limit reached. Your limit will reset at 3pm (UTC).", 7 * HOUR),
    _limit("no-time", "You've hit your session limit", None),
    Row(
        "claude-plain-text",
        "claude",
        cli(text="You've hit your session limit · resets 11:18am (UTC)\n"),
        Kind.HOLD,
        wait=3 * HOUR + 18 * 60,
        code="usage_limit",
    ),
    Row(
        "claude-429",
        "claude",
        cli(
            result(
                "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 30,000 input "
                "tokens per minute (org: 9d50ef40, model: claude-sonnet-4-6).",
                status=429,
            )
        ),
        Kind.RATE,
        dimension=INPUT,
        reports=(told(INPUT, 30_000, None),),
    ),
    Row(
        "claude-529",
        "claude",
        cli(
            result(
                'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}',
                status=529,
            )
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "claude-529-text-alone",
        "claude",
        cli(result("API Error: 529 Overloaded. This is a server-side issue")),
        Kind.OVERLOAD,
    ),
    Row(
        "claude-500",
        "claude",
        cli(result("API Error: 500 Internal server error", status=500)),
        Kind.TRANSIENT,
    ),
    Row("claude-credit", "claude", cli(result("Credit balance is too low", status=400)), Kind.QUOTA),
    Row("claude-key", "claude", cli(result("Invalid API key · Please run /login", status=401)), Kind.AUTH),
    Row(
        "claude-model",
        "claude",
        cli(result("There's an issue with the selected model (x). It may not exist.", status=404)),
        Kind.AUTH,
    ),
    Row("claude-prompt", "claude", cli(result("Prompt is too long", status=400)), Kind.TOO_LARGE),
    Row("claude-connection", "claude", cli(result("API Error: Connection error.")), Kind.TRANSIENT),
    Row("claude-timeout", "claude", cli(result("API Error: Request timed out.")), Kind.TIMEOUT),
    Row(
        "claude-max-turns",
        "claude",
        cli(result("", subtype="error_max_turns")),
        Kind.INVALID,
        code="error_max_turns",
    ),
    Row("claude-max-budget", "claude", cli(result("", subtype="error_max_budget_usd")), Kind.INVALID),
    Row("claude-execution", "claude", cli(result("", subtype="error_during_execution")), Kind.TRANSIENT),
    Row(
        "claude-inner-retry",
        "claude",
        cli(
            {
                "type": "system",
                "subtype": "api_retry",
                "attempt": 1,
                "retry_delay_ms": 1000,
                "error_status": 429,
                "error": "rate_limit",
            }
        ),
        Kind.RATE,
        code="rate_limit",
    ),
    Row(
        "claude-ok-after-an-inner-retry",
        "claude",
        cli(
            {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"},
            result("done", error=False),
        ),
        None,
    ),
    Row(
        "claude-assistant-error",
        "claude",
        cli(
            {
                "type": "assistant",
                "error": "billing_error",
                "message": {"content": [{"type": "text", "text": "x"}]},
            }
        ),
        Kind.QUOTA,
    ),
    Row("claude-killed", "claude", cli({"type": "system", "subtype": "init"}, text="Killed"), Kind.TRANSIENT),
    Row("claude-nothing-said", "claude", cli({"type": "system", "subtype": "init"}), None),
)

_STARTED: Final = ({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"})


def _codex(message: str) -> Any:
    return cli(
        *_STARTED,
        {"type": "error", "message": message},
        {"type": "turn.failed", "error": {"message": message}},
    )


CODEX: Final = (
    Row(
        "codex-ok",
        "codex",
        cli(
            *_STARTED,
            {"type": "error", "message": "Reconnecting... 1/5"},
            {
                "type": "item.completed",
                "item": {"type": "agent_message", "text": "You've hit your usage limit."},
            },
            {"type": "turn.completed", "usage": {"input_tokens": 1}},
        ),
        None,
    ),
    Row(
        "codex-still-reconnecting",
        "codex",
        cli(*_STARTED, {"type": "error", "message": "Reconnecting... 1/5"}),
        None,
    ),
    Row(
        "codex-usage-limit",
        "codex",
        _codex(
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at 10:21 AM."
        ),
        Kind.HOLD,
        wait=2 * HOUR + 21 * 60,
        code="usage_limit",
    ),
    Row(
        "codex-usage-limit-straight",
        "codex",
        _codex("You've hit your usage limit. Try again at 10:21 AM."),
        Kind.HOLD,
        wait=2 * HOUR + 21 * 60,
    ),
    Row(
        "codex-usage-limit-dated",
        "codex",
        _codex(
            "You've hit your usage limit for gpt-5.2-codex. Switch to another model now, or try again at Nov 17th, 2026 6:15 PM."
        ),
        Kind.HOLD,
        wait=2 * DAY + 10 * HOUR + 15 * 60,
    ),
    Row(
        "codex-usage-limit-in",
        "codex",
        _codex("You've hit your usage limit. Try again in 3 hours 32 minutes."),
        Kind.HOLD,
        wait=3 * HOUR + 32 * 60,
        step=60.0,
    ),
    Row(
        "codex-usage-limit-later", "codex", _codex("You've hit your usage limit. Try again later."), Kind.HOLD
    ),
    Row(
        "codex-credits",
        "codex",
        _codex("Your workspace is out of credits. Add credits to continue."),
        Kind.QUOTA,
    ),
    Row(
        "codex-spend-cap",
        "codex",
        _codex("You hit your spend cap set in your workspace. Increase your spend cap to continue."),
        Kind.QUOTA,
    ),
    Row("codex-quota", "codex", _codex("Quota exceeded. Check your plan and billing details."), Kind.QUOTA),
    Row(
        "codex-429",
        "codex",
        _codex("exceeded retry limit, last status: 429 Too Many Requests, request id: req-1"),
        Kind.RATE,
    ),
    Row(
        "codex-401",
        "codex",
        _codex("unexpected status 401 Unauthorized: plain text error, url: http://127.0.0.1/v1/responses"),
        Kind.AUTH,
    ),
    Row(
        "codex-plan",
        "codex",
        _codex("To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus."),
        Kind.AUTH,
    ),
    Row(
        "codex-capacity",
        "codex",
        _codex("Selected model is at capacity. Please try a different model."),
        Kind.OVERLOAD,
    ),
    Row(
        "codex-context",
        "codex",
        _codex(
            "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "codex-disconnected",
        "codex",
        _codex("stream disconnected before completion: error sending request"),
        Kind.TRANSIENT,
    ),
    Row(
        "codex-rate-in-the-stream",
        "codex",
        _codex(
            "stream disconnected before completion: Rate limit reached for gpt-5.1 on tokens per min (TPM): Limit 30000, Used 22999, "
            "Requested 12528. Please try again in 11.054s."
        ),
        Kind.RATE,
        wait=11.054,
        dimension=TOKENS,
        reports=(told(TOKENS, 30_000, 7_001),),
    ),
    Row(
        "codex-body-of-the-backend",
        "codex",
        raised(
            "",
            429,
            {
                "error": {
                    "type": "usage_limit_reached",
                    "message": "The usage limit has been reached",
                    "plan_type": "pro",
                    "resets_at": 1794741540,
                }
            },
        ),
        Kind.HOLD,
        wait=11_940.0,
        code="usage_limit_reached",
    ),
)


def _gemini(kind: str, message: str, code: int = 1) -> str:
    return (
        "Loaded cached credentials.\nAttempt 1 failed with status 429. Retrying with backoff...\n"
        f'{{\n  "session_id": "s",\n  "error": {{\n    "type": "{kind}",\n    "message": "{message}",\n    "code": {code}\n  }}\n}}\n'
    )


GEMINI_CLI: Final = (
    Row(
        "gemini-cli-ok",
        "gemini-cli",
        cli(
            {
                "session_id": "s",
                "response": "The error was: quota exceeded, limit: 0",
                "stats": {"models": {}},
            }
        ),
        None,
    ),
    Row(
        "gemini-cli-a-day-at-midnight-pacific-is-due",
        "gemini-cli",
        cli(text=_gemini("TerminalQuotaError", "You have exhausted your daily quota on this model.", 429)),
        Kind.HOLD,
        wait=60.0,
        code="daily_quota",
    ),
    Row(
        "gemini-cli-says-when",
        "gemini-cli",
        cli(
            text=_gemini(
                "TerminalQuotaError",
                "You have exhausted your capacity on this model. Your quota will reset after 19h14m47s.",
                429,
            )
        ),
        Kind.HOLD,
        wait=19 * HOUR + 14 * 60 + 47,
    ),
    Row(
        "gemini-cli-a-minute",
        "gemini-cli",
        cli(
            text=_gemini(
                "RetryableQuotaError", "You exceeded your current quota. Please retry in 26.46s.", 429
            )
        ),
        Kind.RATE,
        wait=26.46,
    ),
    Row(
        "gemini-cli-limit-0",
        "gemini-cli",
        cli(
            text=_gemini(
                "TerminalQuotaError", "Quota exceeded for metric: x/y, limit: 0, model: gemini-2.0-flash", 429
            )
        ),
        Kind.QUOTA,
    ),
    Row(
        "gemini-cli-auth",
        "gemini-cli",
        cli(text=_gemini("FatalAuthenticationError", "Please set an Auth method", 41)),
        Kind.AUTH,
    ),
    Row(
        "gemini-cli-turns",
        "gemini-cli",
        cli(text=_gemini("FatalTurnLimitedError", "Reached max session turns", 53)),
        Kind.INVALID,
    ),
    Row(
        "gemini-cli-model",
        "gemini-cli",
        cli(text=_gemini("ModelNotFoundError", "Model not found", 404)),
        Kind.AUTH,
    ),
    Row(
        "gemini-cli-stream-error",
        "gemini-cli",
        cli(
            {"type": "init", "session_id": "s"},
            {"type": "message", "role": "assistant", "content": "limit: 0"},
            {
                "type": "result",
                "status": "error",
                "error": {"type": "ApiError", "message": "The model is overloaded."},
            },
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "gemini-cli-stream-ok",
        "gemini-cli",
        cli(
            {"type": "error", "severity": "warning", "message": "limit: 0"},
            {"type": "result", "status": "success"},
        ),
        None,
    ),
    Row(
        "gemini-cli-wrapped-api-error",
        "gemini-cli",
        cli(
            text='[API Error: {"error":{"message":"{\\n  \\"error\\": {\\n    \\"code\\": 429,\\n    \\"message\\": \\"Resource has been '
            'exhausted (e.g. check quota).\\",\\n    \\"status\\": \\"RESOURCE_EXHAUSTED\\"\\n  }\\n}\\n","code":429,"status":"Too Many '
            'Requests"}}]'
        ),
        Kind.RATE,
        code="RESOURCE_EXHAUSTED",
    ),
)

EXCEPTIONS: Final = (
    Row(
        "exception-openai-rate",
        "openai",
        raised(
            "openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o on requests per min (RPM): "
            "Limit 3, Used 3, Requested 1. Please try again in 20s.', 'type': 'requests', 'param': None, 'code': 'rate_limit_exceeded'}}"
        ),
        Kind.RATE,
        wait=20.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 3, 0),),
    ),
    Row(
        "exception-openai-quota",
        "openai",
        raised(
            "Error code: 429 - {'error': {'message': 'You exceeded your current quota', 'type': 'insufficient_quota', 'code': "
            "'insufficient_quota'}}"
        ),
        Kind.QUOTA,
    ),
    Row(
        "exception-anthropic-with-parts",
        "anthropic",
        raised(
            "RateLimitError",
            429,
            {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}},
            retry_after="5",
        ),
        Kind.RATE,
        wait=5.0,
    ),
    Row(
        "exception-anthropic-javascript",
        "anthropic",
        raised(
            'RateLimitError: 429 {"type":"error","error":{"type":"rate_limit_error","message":"Number of concurrent connections has exceeded your rate limit."}}'
        ),
        Kind.CONCURRENCY,
    ),
    Row(
        "exception-botocore",
        "bedrock",
        raised(
            "botocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) when calling the Converse operation "
            "(reached max retries: 4): Too many tokens per day, please wait before trying again."
        ),
        Kind.HOLD,
        dimension=TOKENS,
        code="ThrottlingException",
    ),
    Row(
        "exception-botocore-validation",
        "bedrock",
        raised(
            "An error occurred (ValidationException) when calling the InvokeModel operation: Malformed input request"
        ),
        Kind.INVALID,
    ),
    Row(
        "exception-aiohttp",
        "generic",
        raised(
            "aiohttp.client_exceptions.ClientResponseError: 429, message='Too Many Requests', url='http://x'"
        ),
        Kind.RATE,
    ),
    Row(
        "exception-requests",
        "generic",
        raised("requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://x"),
        Kind.OVERLOAD,
    ),
    Row(
        "exception-httpx",
        "generic",
        raised("httpx.HTTPStatusError: Client error '401 Unauthorized' for url 'http://x'"),
        Kind.AUTH,
    ),
    Row(
        "exception-urllib",
        "generic",
        raised("urllib.error.HTTPError: HTTP Error 500: Internal Server Error"),
        Kind.TRANSIENT,
    ),
    Row("exception-axios", "generic", raised("AxiosError: Request failed with status code 429"), Kind.RATE),
    Row(
        "exception-google-javascript",
        "gemini",
        raised(
            "[GoogleGenerativeAI Error]: Error fetching from https://generativelanguage.googleapis.com/v1beta/models/x: [429 Too Many "
            "Requests] You exceeded your current quota"
        ),
        Kind.RATE,
    ),
    Row("exception-bare-rate", "generic", raised("RuntimeError: Rate limit exceeded"), Kind.RATE),
    Row("exception-type-alone", "generic", raised("anthropic.RateLimitError"), Kind.RATE),
    Row("exception-timeout", "generic", raised("TimeoutError"), Kind.TIMEOUT),
    Row("exception-asyncio-timeout", "generic", raised("asyncio.exceptions.TimeoutError:"), Kind.TIMEOUT),
    Row(
        "exception-sdk-timeout", "generic", raised("openai.APITimeoutError: Request timed out."), Kind.TIMEOUT
    ),
    Row(
        "exception-subprocess-timeout",
        "generic",
        raised("subprocess.TimeoutExpired: Command 'x' timed out after 600 seconds"),
        Kind.TIMEOUT,
    ),
    Row(
        "exception-read-timeout",
        "generic",
        raised("httpx.ReadTimeout: The read operation timed out"),
        Kind.TRANSIENT,
    ),
    Row("exception-connect-timeout", "generic", raised("httpx.ConnectTimeout"), Kind.TRANSIENT),
    Row(
        "exception-reset",
        "generic",
        raised("ConnectionResetError: [Errno 104] Connection reset by peer"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-refused",
        "generic",
        raised("httpx.ConnectError: All connection attempts failed"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-disconnected",
        "generic",
        raised("aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-truncated",
        "generic",
        raised("aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed", 200),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-broken-json",
        "generic",
        raised(
            "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 429 (char 500)", 200
        ),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-name-resolution",
        "generic",
        raised("socket.gaierror: [Errno -3] Temporary failure in name resolution"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-of-ones-own",
        "generic",
        raised("ValueError: expected 429 rows but got 500 (see the rate limit section)"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-of-a-bank",
        "generic",
        raised("ValueError: insufficient funds, the model file was not found"),
        Kind.TRANSIENT,
    ),
    Row(
        "exception-whose-type-says-more-than-its-body",
        "bedrock",
        raised(
            "ThrottlingException: slow",
            None,
            {"message": "Too many tokens, please wait before trying again."},
        ),
        Kind.RATE,
        dimension=TOKENS,
        code="ThrottlingException",
    ),
    Row("exception-empty", "generic", raised(""), Kind.TRANSIENT),
    Row("exception-number-of-things", "generic", raised("429 items could not be parsed"), Kind.TRANSIENT),
    Row(
        "exception-credentials",
        "bedrock",
        raised("botocore.exceptions.NoCredentialsError: Unable to locate credentials"),
        Kind.AUTH,
    ),
)

OPENCODE: Final = (
    Row(
        "opencode-429",
        "opencode",
        cli(
            {
                "type": "error",
                "sessionID": "ses_1",
                "error": {
                    "name": "APIError",
                    "data": {
                        "message": "This request would exceed your organization's rate limit of 1,000 requests per minute.",
                        "statusCode": 429,
                        "isRetryable": True,
                    },
                },
            }
        ),
        Kind.RATE,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 1_000, 0.0),),
    ),
    Row(
        "opencode-with-headers",
        "opencode",
        cli(
            {
                "type": "error",
                "error": {
                    "name": "APIError",
                    "data": {
                        "message": "Slow down",
                        "statusCode": 429,
                        "responseHeaders": {"retry-after": "7"},
                    },
                },
            }
        ),
        Kind.RATE,
        wait=7.0,
    ),
)
