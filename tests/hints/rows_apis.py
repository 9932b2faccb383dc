"""Rows of OpenAI, Anthropic, Azure and Bedrock: header sets and error bodies as they were sent."""

from __future__ import annotations

from typing import Any, Final

from headway.core.model import Kind, LimitReport

from .row import DATE, DAY, INPUT, OUTPUT, REQUESTS, TOKENS, Row, http, midstream, told


def openai_error(
    message: str, kind: str = "requests", code: str | None = "rate_limit_exceeded"
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def openai_headers(requests: tuple[str, str, str], tokens: tuple[str, str, str]) -> dict[str, str]:
    names = ("limit", "remaining", "reset")
    return {f"x_ratelimit_{name}_requests": value for name, value in zip(names, requests, strict=True)} | {
        f"x_ratelimit_{name}_tokens": value for name, value in zip(names, tokens, strict=True)
    }


_LEARN = "Visit https://platform.openai.com/account/rate-limits to learn more."
_PLAN = "You exceeded your current quota, please check your plan and billing details."

OPENAI: Final = (
    Row(
        "openai-ok",
        "openai",
        http(200, "{}", **openai_headers(("5000", "4999", "12ms"), ("800000", "799988", "0s"))),
        None,
        reports=(
            LimitReport(REQUESTS, 5000, 4999, 0.012, reset_precision_s=0.001),
            LimitReport(TOKENS, 800_000, 799_988, 0.0, reset_precision_s=0.001),
        ),
    ),
    Row(
        "openai-ok-documented-sample-is-not-believed",
        "openai",
        http(200, "{}", **openai_headers(("60", "59", "1s"), ("150000", "149984", "6m0s"))),
        None,
        reports=(
            LimitReport(REQUESTS, 60, 59, 1.0, reset_precision_s=0.001),
            LimitReport(TOKENS, 150_000, 149_984),
        ),
    ),
    Row(
        "openai-ok-requests-a-day",
        "openai",
        http(200, "{}", **openai_headers(("10000", "9999", "8.64s"), ("200000", "199980", "6ms"))),
        None,
        reports=(
            LimitReport(REQUESTS, 10_000, 9_999, 8.64, DAY, reset_precision_s=0.001),
            LimitReport(TOKENS, 200_000, 199_980, 0.006, reset_precision_s=0.001),
        ),
    ),
    Row(
        "openai-ok-project-limit-is-tighter",
        "openai",
        http(
            200,
            "{}",
            x_ratelimit_limit_tokens="800000",
            x_ratelimit_remaining_tokens="799000",
            x_ratelimit_reset_tokens="75ms",
            x_ratelimit_limit_project_tokens="30000",
            x_ratelimit_remaining_project_tokens="29000",
            x_ratelimit_reset_project_tokens="2s",
        ),
        None,
        reports=(LimitReport(TOKENS, 30_000, 29_000, 2.0, reset_precision_s=0.001),),
    ),
    Row(
        "openai-429-requests-a-minute",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 3, Used 3, "
                f"Requested 1. Please try again in 20s. {_LEARN}"
            ),
        ),
        Kind.RATE,
        wait=20.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 3, 0),),
        code="rate_limit_exceeded",
    ),
    Row(
        "openai-429-tokens-a-minute",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for gpt-5.1 in organization org-AAA on tokens per min (TPM): Limit 30000, Used 22999, "
                f"Requested 12528. Please try again in 11.054s. {_LEARN}",
                "tokens",
            ),
            **openai_headers(("500", "499", "120ms"), ("30000", "7001", "45.998s")),
        ),
        Kind.RATE,
        wait=11.054,
        dimension=TOKENS,
        reports=(
            LimitReport(REQUESTS, 500, 499, 0.12, reset_precision_s=0.001),
            LimitReport(TOKENS, 30_000, 7_001, 45.998, reset_precision_s=0.001),
        ),
    ),
    Row(
        "openai-429-milliseconds",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 40000, Used 39900, "
                "Requested 211. Please try again in 166ms.",
                "tokens",
            ),
        ),
        Kind.RATE,
        wait=0.166,
        dimension=TOKENS,
        reports=(told(TOKENS, 40_000, 100),),
        step=0.001,
    ),
    Row(
        "openai-429-minutes-and-seconds",
        "openai",
        http(429, openai_error("Rate limit reached for gpt-4. Please try again in 1m12.5s.", "tokens")),
        Kind.RATE,
        wait=72.5,
    ),
    Row(
        "openai-429-old-wording",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for default-gpt-3.5-turbo in organization org-x on requests per min. Limit: 3 / min. "
                "Please try again in 20s.",
                code=None,
            ),
        ),
        Kind.RATE,
        wait=20.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 3, 0),),
    ),
    Row(
        "openai-429-requests-a-day-is-a-hold",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for gpt-4o in organization org-x on requests per day (RPD): Limit 200, Used 200, "
                f"Requested 1. Please try again in 7m12s. {_LEARN}"
            ),
        ),
        Kind.HOLD,
        wait=432.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 200, 0, DAY),),
    ),
    Row(
        "openai-429-tokens-a-day-is-a-hold",
        "openai",
        http(
            429,
            openai_error(
                "Rate limit reached for gpt-4o on tokens per day (TPD): Limit 90000, Used 89999, Requested 500. "
                "Please try again in 7m59.04s.",
                "tokens",
            ),
        ),
        Kind.HOLD,
        wait=479.04,
        dimension=TOKENS,
        reports=(told(TOKENS, 90_000, 1, DAY),),
    ),
    Row(
        "openai-429-larger-than-the-limit",
        "openai",
        http(
            429,
            openai_error(
                "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 30601. "
                "The input or output tokens must be reduced in order to run successfully.",
                "tokens",
            ),
        ),
        Kind.TOO_LARGE,
        dimension=TOKENS,
        reports=(told(TOKENS, 30_000, None),),
    ),
    Row(
        "openai-429-retry-after-header-wins",
        "openai",
        http(429, openai_error("Rate limit reached. Please try again in 20s."), Retry_After="7"),
        Kind.RATE,
        wait=7.0,
        step=1.0,
    ),
    Row(
        "openai-429-retry-after-ms-wins-over-both",
        "openai",
        http(
            429,
            openai_error("Rate limit reached. Please try again in 20s."),
            retry_after="7",
            retry_after_ms="6512",
        ),
        Kind.RATE,
        wait=6.512,
        step=0.001,
    ),
    Row(
        "openai-429-insufficient-quota-never-comes-back",
        "openai",
        http(429, openai_error(_PLAN, "insufficient_quota", "insufficient_quota"), retry_after="20"),
        Kind.QUOTA,
        wait=20.0,
        code="insufficient_quota",
    ),
    *(
        Row(f"openai-429-{code}", "openai", http(429, openai_error("No.", code, code)), Kind.QUOTA, code=code)
        for code in (
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
            "billing_hard_limit_reached",
            "billing_not_active",
        )
    ),
    Row("openai-429-quota-by-sentence", "openai", http(429, openai_error(_PLAN, "x", None)), Kind.QUOTA),
    Row(
        "openai-503-slow-down-is-a-ramp-cap",
        "openai",
        http(503, openai_error("Slow down", "server_error", "slow_down")),
        Kind.RATE,
        code="slow_down",
    ),
    Row(
        "openai-429-overloaded",
        "openai",
        http(
            429,
            openai_error("The engine is currently overloaded, please try again later", "server_error", None),
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "openai-503-overloaded",
        "openai",
        http(
            503, openai_error("That model is currently overloaded with other requests.", "server_error", None)
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "openai-400-context",
        "openai",
        http(
            400,
            openai_error(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130500 tokens.",
                "invalid_request_error",
                "context_length_exceeded",
            ),
        ),
        Kind.TOO_LARGE,
        dimension=None,
        code="context_length_exceeded",
    ),
    Row(
        "openai-400-invalid",
        "openai",
        http(400, openai_error("Invalid value for 'temperature': 429", "invalid_request_error", None)),
        Kind.INVALID,
    ),
    Row(
        "openai-401",
        "openai",
        http(
            401,
            openai_error(
                "Incorrect API key provided: sk-ab***yz.", "invalid_request_error", "invalid_api_key"
            ),
        ),
        Kind.AUTH,
        code="invalid_api_key",
    ),
    Row(
        "openai-404-model",
        "openai",
        http(
            404,
            openai_error(
                "The model `gpt-9` does not exist or you do not have access to it.",
                "invalid_request_error",
                "model_not_found",
            ),
        ),
        Kind.AUTH,
    ),
    Row(
        "openai-403-country",
        "openai",
        http(
            403,
            openai_error(
                "Country not supported", "request_forbidden", "unsupported_country_region_territory"
            ),
        ),
        Kind.AUTH,
    ),
    Row(
        "openai-500",
        "openai",
        http(
            500,
            openai_error(
                "The server had an error while processing your request. Sorry!", "server_error", None
            ),
        ),
        Kind.TRANSIENT,
    ),
    Row(
        "openai-502-page",
        "openai",
        http(502, "<html><head><title>502 Bad Gateway</title></head>"),
        Kind.TRANSIENT,
    ),
    Row("openai-504", "openai", http(504, ""), Kind.TRANSIENT),
    Row("openai-408", "openai", http(408, None), Kind.TRANSIENT),
    Row(
        "openai-midstream-rate",
        "openai",
        midstream(
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {
                        "code": "rate_limit_exceeded",
                        "message": "Rate limit reached for gpt-5.1 on tokens per min (TPM): Limit 30000, Used 6899, "
                        "Requested 24050. Please try again in 1.898s.",
                    },
                },
            },
        ),
        Kind.RATE,
        wait=1.898,
        dimension=TOKENS,
        reports=(told(TOKENS, 30_000, 23_101),),
    ),
)


def anthropic_error(kind: str, message: str, **details: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": kind, "message": message}
    if details:
        error["details"] = details
    return {"type": "error", "error": error, "request_id": "req_011CYxCD2ZR4zxLEXUyPkjj7"}


_ANTHROPIC_HEADERS: Final = {
    "Date": DATE,
    "anthropic_ratelimit_requests_limit": "4000",
    "anthropic_ratelimit_requests_remaining": "3999",
    "anthropic_ratelimit_requests_reset": "2026-11-15T08:00:01Z",
    "anthropic_ratelimit_tokens_limit": "480000",
    "anthropic_ratelimit_tokens_remaining": "479000",
    "anthropic_ratelimit_tokens_reset": "2026-11-15T08:00:00Z",
    "anthropic_ratelimit_input_tokens_limit": "400000",
    "anthropic_ratelimit_input_tokens_remaining": "399000",
    "anthropic_ratelimit_input_tokens_reset": "2026-11-15T08:00:07Z",
    "anthropic_ratelimit_output_tokens_limit": "80000",
    "anthropic_ratelimit_output_tokens_remaining": "80000",
    "anthropic_ratelimit_output_tokens_reset": "2026-11-15T08:00:00Z",
}
_ANTHROPIC_REPORTS: Final = (
    LimitReport(REQUESTS, 4000, 3999, 1.0, reset_precision_s=2.0),
    LimitReport(TOKENS, 480_000, 479_000, 0.0, reset_precision_s=2.0, remaining_precision=500.0),
    LimitReport(INPUT, 400_000, 399_000, 7.0, reset_precision_s=2.0, remaining_precision=500.0),
    LimitReport(OUTPUT, 80_000, 80_000, 0.0, reset_precision_s=2.0, remaining_precision=500.0),
)
_TRY_LATER: Final = "Please reduce the prompt length or the maximum tokens requested, or try again later."

ANTHROPIC: Final = (
    Row("anthropic-ok", "anthropic", http(200, "{}", **_ANTHROPIC_HEADERS), None, reports=_ANTHROPIC_REPORTS),
    Row(
        "anthropic-429-input-tokens",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error",
                "This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: 5456025a, "
                f"model: claude-sonnet-4-20250514). For details, refer to: https://docs.claude.com. {_TRY_LATER}",
            ),
            retry_after="13",
        ),
        Kind.RATE,
        wait=13.0,
        dimension=INPUT,
        reports=(told(INPUT, 30_000, None),),
        step=1.0,
    ),
    Row(
        "anthropic-429-with-headers",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit"
            ),
            retry_after="3",
            **_ANTHROPIC_HEADERS,
        ),
        Kind.RATE,
        wait=3.0,
        dimension=TOKENS,
        reports=_ANTHROPIC_REPORTS,
    ),
    Row(
        "anthropic-429-daily",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error", "Number of request tokens has exceeded your daily rate limit"
            ),
        ),
        Kind.HOLD,
        dimension=TOKENS,
    ),
    Row(
        "anthropic-429-acceleration",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error",
                "This request would exceed your organization's maximum usage increase rate for input tokens per minute "
                "(org: f1c66ceb, model: claude-3-haiku-20240307). Your current limit is 58,276 input tokens per minute, and "
                "will increase to 68,276 at the next minute boundary. Please scale up your input tokens usage more gradually "
                "to stay within the acceleration limit.",
            ),
        ),
        Kind.RATE,
        dimension=INPUT,
        reports=(told(INPUT, 58_276, None),),
        code="acceleration_limit",
    ),
    Row(
        "anthropic-429-connections",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error",
                "Number of concurrent connections has exceeded your rate limit. Please try again later or contact sales.",
            ),
        ),
        Kind.CONCURRENCY,
    ),
    Row(
        "anthropic-429-spend-limit",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error",
                "You have reached your API usage limits: your organization has crossed its monthly API usage threshold. "
                "You will regain access on 2026-12-01 at 00:00 UTC.",
                error_code="enforced_spend_limit_reached",
            ),
        ),
        Kind.QUOTA,
        wait=15 * DAY + 16 * 3600.0,
        code="enforced_spend_limit_reached",
    ),
    Row(
        "anthropic-400-credit",
        "anthropic",
        http(
            400,
            anthropic_error(
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            ),
        ),
        Kind.QUOTA,
        code="invalid_request_error",
    ),
    Row(
        "anthropic-400-specified-limits",
        "anthropic",
        http(
            400,
            anthropic_error("invalid_request_error", "You have reached your specified API usage limits."),
        ),
        Kind.QUOTA,
    ),
    Row(
        "anthropic-402",
        "anthropic",
        http(402, anthropic_error("billing_error", "There's an issue with your billing.")),
        Kind.QUOTA,
    ),
    Row(
        "anthropic-429-subscription-window",
        "anthropic",
        http(
            429,
            anthropic_error(
                "rate_limit_error",
                "This request would exceed your account's rate limit. Please try again later.",
            ),
            Date=DATE,
            anthropic_ratelimit_unified_status="rejected",
            anthropic_ratelimit_unified_reset="1794741540",
            anthropic_ratelimit_unified_representative_claim="five_hour",
        ),
        Kind.HOLD,
        wait=11_940.0,
    ),
    Row(
        "anthropic-429-subscription-window-later-than-retry-after",
        "anthropic",
        http(
            429,
            anthropic_error("rate_limit_error", "Error"),
            Date=DATE,
            retry_after="60",
            anthropic_ratelimit_unified_status="rejected",
            anthropic_ratelimit_unified_reset="1794741540",
        ),
        Kind.HOLD,
        wait=11_940.0,
    ),
    Row(
        "anthropic-429-subscription-allowed",
        "anthropic",
        http(
            429,
            anthropic_error("rate_limit_error", "Error"),
            anthropic_ratelimit_unified_status="allowed",
            anthropic_ratelimit_unified_reset="1794741540",
        ),
        Kind.RATE,
    ),
    Row(
        "anthropic-529",
        "anthropic",
        http(529, anthropic_error("overloaded_error", "Overloaded")),
        Kind.OVERLOAD,
    ),
    Row(
        "anthropic-midstream-overloaded",
        "anthropic",
        midstream(anthropic_error("overloaded_error", "Overloaded")),
        Kind.OVERLOAD,
    ),
    Row(
        "anthropic-midstream-event",
        "anthropic",
        midstream(
            'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "anthropic-500",
        "anthropic",
        http(500, anthropic_error("api_error", "Internal server error")),
        Kind.TRANSIENT,
    ),
    Row(
        "anthropic-504",
        "anthropic",
        http(504, anthropic_error("timeout_error", "Request timed out")),
        Kind.TRANSIENT,
    ),
    Row(
        "anthropic-400-prompt",
        "anthropic",
        http(
            400,
            anthropic_error("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "anthropic-400-context-limit",
        "anthropic",
        http(
            400,
            anthropic_error(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "anthropic-413",
        "anthropic",
        http(
            413, anthropic_error("request_too_large", "Request exceeds the maximum allowed number of bytes.")
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "anthropic-400-invalid",
        "anthropic",
        http(400, anthropic_error("invalid_request_error", "messages: at least one message is required")),
        Kind.INVALID,
    ),
    Row(
        "anthropic-401",
        "anthropic",
        http(401, anthropic_error("authentication_error", "invalid x-api-key")),
        Kind.AUTH,
    ),
    Row(
        "anthropic-403", "anthropic", http(403, anthropic_error("permission_error", "Not allowed")), Kind.AUTH
    ),
    Row(
        "anthropic-404",
        "anthropic",
        http(404, anthropic_error("not_found_error", "model: claude-9")),
        Kind.AUTH,
    ),
)

_AZURE_429: Final = (
    "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-08-01-preview have exceeded "
    "{} rate limit of your current OpenAI S0 pricing tier. Please retry after {} seconds. Please go here: "
    "https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."
)


def azure_error(message: str, code: str = "429") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


AZURE: Final = (
    Row(
        "azure-ok",
        "azure",
        http(
            200,
            "{}",
            x_ratelimit_limit_requests="9000",
            x_ratelimit_limit_tokens="1500000",
            x_ratelimit_remaining_requests="8999",
            x_ratelimit_remaining_tokens="745399",
            x_ratelimit_renewalperiod_requests="10",
            x_ratelimit_renewalperiod_tokens="60",
            x_ratelimit_reset_requests="0",
            x_ratelimit_reset_tokens="30",
        ),
        None,
        reports=(
            LimitReport(REQUESTS, 9000, 8999),
            LimitReport(TOKENS, 1_500_000, 745_399, 30.0, reset_precision_s=1.0),
        ),
    ),
    Row(
        "azure-ok-unknown",
        "azure",
        http(
            200,
            "{}",
            x_ratelimit_limit_tokens="-1",
            x_ratelimit_remaining_tokens="-1",
            x_ratelimit_reset_tokens="0",
        ),
        None,
    ),
    Row(
        "azure-429-tokens",
        "azure",
        http(
            429,
            azure_error("Rate limit is exceeded."),
            retry_after="1",
            retry_after_ms="0",
            x_ratelimit_limit_requests="5",
            x_ratelimit_limit_tokens="5000",
            x_ratelimit_remaining_requests="4",
            x_ratelimit_remaining_tokens="0",
            x_ratelimit_reset_requests="12",
            x_ratelimit_reset_tokens="0",
            x_ratelimit_type="Tokens",
        ),
        Kind.RATE,
        wait=1.0,
        dimension=TOKENS,
        reports=(LimitReport(REQUESTS, 5, 4, 12.0, reset_precision_s=1.0), LimitReport(TOKENS, 5000)),
    ),
    Row(
        "azure-429-milliseconds",
        "azure",
        http(429, azure_error(_AZURE_429.format("token", 9)), retry_after="9", retry_after_ms="8730"),
        Kind.RATE,
        wait=8.73,
        dimension=TOKENS,
    ),
    Row(
        "azure-429-sentence-alone",
        "azure",
        http(429, azure_error(_AZURE_429.format("call", 9))),
        Kind.RATE,
        wait=9.0,
        dimension=REQUESTS,
        step=1.0,
    ),
    Row(
        "azure-429-a-day",
        "azure",
        http(429, azure_error(_AZURE_429.format("token", 86400))),
        Kind.HOLD,
        wait=86_400.0,
        dimension=TOKENS,
    ),
    Row(
        "azure-429-misspelled-reset-header",
        "azure",
        http(429, azure_error("Too much."), x_rate_limit_reset_tokens="55"),
        Kind.RATE,
        wait=55.0,
    ),
    Row(
        "azure-429-reset-instead-of-retry-after",
        "azure",
        http(
            429,
            azure_error("Rate limit is exceeded."),
            x_ratelimit_limit_tokens="5000",
            x_ratelimit_remaining_tokens="0",
            x_ratelimit_reset_tokens="17",
        ),
        Kind.RATE,
        wait=17.0,
        dimension=TOKENS,
        reports=(LimitReport(TOKENS, 5000, 0, 17.0, reset_precision_s=1.0),),
    ),
    Row(
        "azure-429-insufficient-quota-soon-is-a-rate",
        "azure",
        http(429, azure_error(_PLAN, "insufficient_quota"), retry_after="3600"),
        Kind.RATE,
        wait=3600.0,
        code="insufficient_quota",
    ),
    Row(
        "azure-429-insufficient-quota-late-is-a-quota",
        "azure",
        http(429, azure_error(_PLAN, "insufficient_quota"), retry_after="3601"),
        Kind.QUOTA,
        wait=3601.0,
    ),
    Row(
        "azure-429-insufficient-quota-alone",
        "azure",
        http(429, azure_error(_PLAN, "insufficient_quota")),
        Kind.QUOTA,
    ),
    Row(
        "azure-400-content-filter",
        "azure",
        http(
            400,
            azure_error("The response was filtered due to the prompt triggering a policy.", "content_filter"),
        ),
        Kind.INVALID,
    ),
    Row(
        "azure-404-deployment",
        "azure",
        http(404, azure_error("The API deployment for this resource does not exist.", "DeploymentNotFound")),
        Kind.AUTH,
    ),
    Row(
        "azure-401",
        "azure",
        http(401, azure_error("Access denied due to invalid subscription key.", "401")),
        Kind.AUTH,
    ),
    Row(
        "azure-408", "azure", http(408, azure_error("The operation was timeout.", "Timeout")), Kind.TRANSIENT
    ),
    Row(
        "azure-503",
        "azure",
        http(503, azure_error("The server is overloaded.", "ServiceUnavailable")),
        Kind.OVERLOAD,
    ),
)

_AWS: Final = ":http://internal.amazon.com/coral/com.amazon.bedrock/"

BEDROCK: Final = (
    Row("bedrock-ok", "bedrock", http(200, "{}", x_amzn_requestid="1"), None),
    Row(
        "bedrock-429-requests",
        "bedrock",
        http(
            429,
            {"message": "Too many requests, please wait before trying again."},
            x_amzn_ErrorType="ThrottlingException" + _AWS,
        ),
        Kind.RATE,
        dimension=REQUESTS,
        code="ThrottlingException",
    ),
    Row(
        "bedrock-429-tokens",
        "bedrock",
        http(429, {"message": "Too many tokens, please wait before trying again."}),
        Kind.RATE,
        dimension=TOKENS,
    ),
    Row(
        "bedrock-429-tokens-a-day",
        "bedrock",
        http(
            429,
            {"message": "Too many tokens per day, please wait before trying again."},
            x_amzn_errortype="ThrottlingException",
        ),
        Kind.HOLD,
        dimension=TOKENS,
    ),
    Row(
        "bedrock-400-throttling",
        "bedrock",
        http(
            400, {"__type": "com.amazon.coral.availability#ThrottlingException", "message": "Rate exceeded"}
        ),
        Kind.RATE,
        code="ThrottlingException",
    ),
    Row(
        "bedrock-429-connections",
        "bedrock",
        http(429, {"message": "Too many connections, please wait before trying again."}),
        Kind.CONCURRENCY,
    ),
    Row(
        "bedrock-429-not-ready",
        "bedrock",
        http(
            429, {"message": "Model is not ready for inference."}, x_amzn_errortype="ModelNotReadyException"
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "bedrock-400-service-quota",
        "bedrock",
        http(400, {"message": "Quota exceeded"}, x_amzn_errortype="ServiceQuotaExceededException"),
        Kind.QUOTA,
    ),
    Row(
        "bedrock-503",
        "bedrock",
        http(503, {"message": "Try again"}, x_amzn_errortype="ServiceUnavailableException"),
        Kind.OVERLOAD,
    ),
    Row(
        "bedrock-408",
        "bedrock",
        http(408, {"message": "Took too long"}, x_amzn_errortype="ModelTimeoutException"),
        Kind.TRANSIENT,
    ),
    Row(
        "bedrock-424",
        "bedrock",
        http(424, {"message": "Failed"}, x_amzn_errortype="ModelErrorException"),
        Kind.TRANSIENT,
    ),
    Row(
        "bedrock-500",
        "bedrock",
        http(500, {"message": "Oops"}, x_amzn_errortype="InternalServerException"),
        Kind.TRANSIENT,
    ),
    Row(
        "bedrock-400-long",
        "bedrock",
        http(
            400, {"message": "Input is too long for requested model."}, x_amzn_errortype="ValidationException"
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "bedrock-400-invalid",
        "bedrock",
        http(400, {"message": "1 validation error detected"}, x_amzn_errortype="ValidationException"),
        Kind.INVALID,
    ),
    Row(
        "bedrock-400-model",
        "bedrock",
        http(
            400,
            {"message": "The provided model identifier is invalid."},
            x_amzn_errortype="ValidationException",
        ),
        Kind.AUTH,
    ),
    Row(
        "bedrock-400-throughput",
        "bedrock",
        http(
            400,
            {"message": "Invocation of model ID x with on-demand throughput isn’t supported."},
            x_amzn_errortype="ValidationException",
        ),
        Kind.AUTH,
    ),
    Row(
        "bedrock-403",
        "bedrock",
        http(403, {"message": "No access"}, x_amzn_errortype="AccessDeniedException"),
        Kind.AUTH,
    ),
    Row(
        "bedrock-403-expired",
        "bedrock",
        http(403, {"message": "The security token is expired"}, x_amzn_errortype="ExpiredTokenException"),
        Kind.AUTH,
    ),
)
