"""Rows of Groq, Mistral, Together, OpenRouter, Cohere, DeepSeek, xAI, Fireworks, local servers, and unknown ones."""

from __future__ import annotations

from typing import Final

from headway.core.model import Kind, LimitReport

from .row import DATE, DAY, INPUT, OUTPUT, REQUESTS, TOKENS, Row, http, midstream, told
from .rows_apis import openai_error, openai_headers

_GROQ: Final = "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on "
_UPGRADE: Final = "Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing"

GROQ: Final = (
    Row(
        "groq-ok-requests-are-a-day",
        "groq",
        http(200, "{}", **openai_headers(("14400", "14370", "2m59.56s"), ("18000", "17997", "7.66ms"))),
        None,
        reports=(
            LimitReport(REQUESTS, 14_400, 14_370, 179.56, DAY, reset_precision_s=0.001),
            LimitReport(TOKENS, 18_000, 17_997, 0.00766, reset_precision_s=0.001),
        ),
    ),
    Row(
        "groq-429-tokens-a-minute",
        "groq",
        http(
            429,
            openai_error(
                f"{_GROQ}tokens per minute (TPM): Limit 12000, Used 4437, Requested 9854. Please try again in 11.455s. {_UPGRADE}",
                "tokens",
            ),
            retry_after="12",
        ),
        Kind.RATE,
        wait=12.0,
        dimension=TOKENS,
        reports=(told(TOKENS, 12_000, 7_563),),
    ),
    Row(
        "groq-429-fractional-retry-after",
        "groq",
        http(429, openai_error("Rate limit reached", "tokens"), retry_after="7.66"),
        Kind.RATE,
        wait=7.66,
        step=0.001,
    ),
    Row(
        "groq-429-tokens-a-day",
        "groq",
        http(
            429,
            openai_error(
                f"{_GROQ}tokens per day (TPD): Limit 100000, Used 99867, Requested 1265. Please try again in 16m18.048s.",
                "tokens",
            ),
            retry_after="979",
        ),
        Kind.HOLD,
        wait=979.0,
        dimension=TOKENS,
        reports=(told(TOKENS, 100_000, 133, DAY),),
    ),
    Row(
        "groq-429-requests-a-day",
        "groq",
        http(
            429,
            openai_error(
                f"{_GROQ}requests per day (RPD): Limit 1000, Used 1000, Requested 1. Please try again in 1m26.4s."
            ),
        ),
        Kind.HOLD,
        wait=86.4,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 1000, 0, DAY),),
    ),
    Row(
        "groq-429-the-day-is-used-up-by-headers-alone",
        "groq",
        http(429, "", retry_after="86", **openai_headers(("1000", "0", "24h0m0s"), ("8000", "8000", "0s"))),
        Kind.HOLD,
        wait=86.0,
        dimension=REQUESTS,
        reports=(
            LimitReport(REQUESTS, 1000, 0, DAY, DAY, reset_precision_s=0.001),
            LimitReport(TOKENS, 8000, 8000, 0.0, reset_precision_s=0.001),
        ),
    ),
    Row(
        "groq-413-larger-than-the-limit",
        "groq",
        http(
            413,
            openai_error(
                "Request too large for model `openai/gpt-oss-20b` in organization `org_01` service tier `on_demand` on tokens "
                "per minute (TPM): Limit 8000, Requested 10098, please reduce your message size and try again.",
                "tokens",
            ),
        ),
        Kind.TOO_LARGE,
        dimension=TOKENS,
        reports=(told(TOKENS, 8000, None),),
    ),
    Row("groq-498", "groq", http(498, openai_error("Flex tier capacity exceeded", "x", None)), Kind.OVERLOAD),
    Row(
        "groq-503",
        "groq",
        http(503, openai_error("llama is currently over capacity.", "internal_server_error", None)),
        Kind.OVERLOAD,
    ),
    Row(
        "groq-401",
        "groq",
        http(401, openai_error("Invalid API Key", "invalid_request_error", "invalid_api_key")),
        Kind.AUTH,
    ),
    Row(
        "groq-400-restricted",
        "groq",
        http(400, openai_error("Restricted.", "invalid_request_error", "organization_restricted")),
        Kind.AUTH,
    ),
    Row(
        "groq-404",
        "groq",
        http(404, openai_error("No such model", "invalid_request_error", "model_not_found")),
        Kind.AUTH,
    ),
    Row(
        "groq-422",
        "groq",
        http(422, openai_error("Semantic error", "invalid_request_error", None)),
        Kind.INVALID,
    ),
    Row("groq-500", "groq", http(500, openai_error("Oops", "internal_server_error", None)), Kind.TRANSIENT),
)

MISTRAL: Final = (
    Row(
        "mistral-ok",
        "mistral",
        http(
            200,
            "{}",
            x_ratelimit_limit_tokens_minute="5000000",
            x_ratelimit_remaining_tokens_minute="4999911",
            x_ratelimit_tokens_query_cost="52",
            x_ratelimit_limit_req_minute="720",
            x_ratelimit_remaining_req_minute="717",
        ),
        None,
        reports=(LimitReport(REQUESTS, 720, 717), LimitReport(TOKENS, 5_000_000, 4_999_911)),
    ),
    Row(
        "mistral-429",
        "mistral",
        http(
            429,
            {
                "object": "error",
                "message": "Rate limit exceeded",
                "type": "rate_limited",
                "param": None,
                "code": "1300",
            },
        ),
        Kind.RATE,
        code="rate_limited",
    ),
    Row("mistral-429-requests", "mistral", http(429, {"message": "Requests rate limit exceeded"}), Kind.RATE),
    Row(
        "mistral-429-capacity",
        "mistral",
        http(
            429,
            {
                "object": "error",
                "message": "Service tier capacity exceeded for this model.",
                "type": "invalid_request_error",
                "code": None,
            },
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "mistral-429-capacity-by-code",
        "mistral",
        http(429, {"message": "No.", "type": "service_tier_capacity_exceeded", "code": "3505"}),
        Kind.OVERLOAD,
    ),
    Row(
        "mistral-429-the-month-is-used-up",
        "mistral",
        http(
            429,
            {"message": "Rate limit exceeded"},
            x_ratelimit_limit_tokens_month="1000000000",
            x_ratelimit_remaining_tokens_month="0",
        ),
        Kind.QUOTA,
        reports=(LimitReport(TOKENS, 1e9, 0, None, 30 * DAY),),
    ),
    Row("mistral-401", "mistral", http(401, {"detail": "Unauthorized"}), Kind.AUTH),
    Row(
        "mistral-400-model",
        "mistral",
        http(400, {"message": "Invalid model: x", "type": "invalid_model", "code": "1500"}),
        Kind.AUTH,
    ),
    Row(
        "mistral-400-large",
        "mistral",
        http(
            400,
            {
                "message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                "type": "invalid_request_invalid_args",
                "code": "3051",
            },
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "mistral-422",
        "mistral",
        http(422, {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required"}]}),
        Kind.INVALID,
    ),
    Row("mistral-503", "mistral", http(503, "upstream connect error"), Kind.OVERLOAD),
    Row(
        "mistral-500",
        "mistral",
        http(500, {"message": "Internal server error", "type": "internal_server_error"}),
        Kind.TRANSIENT,
    ),
)

TOGETHER: Final = (
    Row(
        "together-ok-a-second",
        "together",
        http(
            200,
            "{}",
            x_ratelimit_limit="10",
            x_ratelimit_remaining="9",
            x_ratelimit_reset="1",
            x_tokenlimit_limit="5000",
            x_tokenlimit_remaining="4200",
        ),
        None,
        reports=(LimitReport(REQUESTS, 10, 9, None, 1.0), LimitReport(TOKENS, 5000, 4200, None, 1.0)),
    ),
    Row(
        "together-429-requests",
        "together",
        http(429, openai_error("Too fast", "dynamic_request_limited", None), x_ratelimit_reset="4"),
        Kind.RATE,
        wait=4.0,
        code="dynamic_request_limited",
    ),
    Row(
        "together-429-tokens",
        "together",
        http(429, {"error": {"message": "Too fast", "error_type": "dynamic_token_limited"}}),
        Kind.RATE,
        code="dynamic_token_limited",
    ),
    Row(
        "together-503-capacity",
        "together",
        http(503, openai_error("Service unavailable", "service_unavailable", None)),
        Kind.OVERLOAD,
    ),
    Row(
        "together-402",
        "together",
        http(402, openai_error("Credit limit exceeded", "credit_limit", None)),
        Kind.QUOTA,
    ),
    Row(
        "together-401",
        "together",
        http(401, openai_error("Invalid API key provided", "invalid_request_error", "invalid_api_key")),
        Kind.AUTH,
    ),
    Row(
        "together-422-large",
        "together",
        http(
            422,
            openai_error(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 and 1000",
                "invalid_request_error",
                None,
            ),
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "together-400",
        "together",
        http(400, openai_error("Bad", "invalid_request_error", None)),
        Kind.INVALID,
    ),
    Row("together-500", "together", http(500, ""), Kind.TRANSIENT),
)

_MIDNIGHT_MS: Final = "1794787200000"

OPENROUTER: Final = (
    Row("openrouter-ok", "openrouter", http(200, "{}"), None),
    Row(
        "openrouter-429-free-a-day",
        "openrouter",
        http(
            429,
            {
                "error": {
                    "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
                    "code": 429,
                    "metadata": {
                        "limit_source": "openrouter_free_tier_daily",
                        "headers": {
                            "X-RateLimit-Limit": "50",
                            "X-RateLimit-Remaining": "0",
                            "X-RateLimit-Reset": _MIDNIGHT_MS,
                        },
                    },
                },
                "user_id": "user_x",
            },
        ),
        Kind.HOLD,
        wait=16 * 3600.0,
        dimension=REQUESTS,
        reports=(LimitReport(REQUESTS, 50, 0, 16 * 3600.0, DAY, reset_precision_s=0.001),),
        code="openrouter_free_tier_daily",
    ),
    Row(
        "openrouter-429-free-a-minute",
        "openrouter",
        http(
            429,
            {"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429}},
            X_RateLimit_Limit="20",
            X_RateLimit_Remaining="0",
            X_RateLimit_Reset="1794729630000",
        ),
        Kind.RATE,
        wait=30.0,
        dimension=REQUESTS,
        reports=(LimitReport(REQUESTS, 20, 0, 30.0, reset_precision_s=0.001),),
    ),
    Row(
        "openrouter-429-upstream",
        "openrouter",
        http(
            429,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {
                        "raw": "deepseek/deepseek-v4 is temporarily rate-limited upstream. Please retry shortly.",
                        "provider_name": "DeepInfra",
                        "provider_error_code": "engine_overloaded",
                        "limit_source": "upstream_provider_shared_pool",
                    },
                }
            },
            retry_after="23",
        ),
        Kind.OVERLOAD,
        wait=23.0,
    ),
    Row(
        "openrouter-502-upstream",
        "openrouter",
        http(502, {"error": {"message": "Provider returned error", "code": 502}}),
        Kind.OVERLOAD,
        code="upstream",
    ),
    Row(
        "openrouter-midstream-upstream",
        "openrouter",
        midstream(
            {"error": {"code": 429, "message": "openai/gpt-5.6-luna is temporarily rate-limited upstream."}}
        ),
        Kind.OVERLOAD,
    ),
    Row(
        "openrouter-400-upstream-is-still-invalid",
        "openrouter",
        http(400, {"error": {"message": "Provider returned error", "code": 400}}),
        Kind.INVALID,
    ),
    Row(
        "openrouter-402",
        "openrouter",
        http(
            402,
            {
                "error": {
                    "message": "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can "
                    "only afford 2666.",
                    "code": 402,
                }
            },
        ),
        Kind.QUOTA,
    ),
    Row(
        "openrouter-403-key-limit",
        "openrouter",
        http(403, {"error": {"message": "Key limit exceeded (total limit).", "code": 403}}),
        Kind.QUOTA,
    ),
    Row(
        "openrouter-403-moderation",
        "openrouter",
        http(
            403,
            {
                "error": {
                    "message": "openai/x requires moderation on OpenAI. Your input was flagged for 'x'.",
                    "code": 403,
                }
            },
        ),
        Kind.INVALID,
    ),
    Row(
        "openrouter-401",
        "openrouter",
        http(401, {"error": {"message": "User not found.", "code": 401}}),
        Kind.AUTH,
    ),
    Row(
        "openrouter-400-model",
        "openrouter",
        http(400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}),
        Kind.AUTH,
    ),
    Row(
        "openrouter-408",
        "openrouter",
        http(408, {"error": {"message": "Timed out", "code": 408}}),
        Kind.TRANSIENT,
    ),
)

COHERE: Final = (
    Row(
        "cohere-ok-trial",
        "cohere",
        http(
            200,
            "{}",
            x_endpoint_monthly_call_limit="1000",
            x_trial_endpoint_call_limit="20",
            x_trial_endpoint_call_remaining="19",
        ),
        None,
        reports=(LimitReport(REQUESTS, 20, 19),),
    ),
    Row(
        "cohere-429-a-minute",
        "cohere",
        http(
            429,
            {
                "message": "You are using a Trial key, which is limited to 20 API calls / minute. You can continue to use the Trial "
                "key for free or upgrade to a Production key with higher rate limits."
            },
        ),
        Kind.RATE,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 20, 0),),
    ),
    Row(
        "cohere-429-a-month",
        "cohere",
        http(429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}),
        Kind.QUOTA,
    ),
    Row("cohere-401", "cohere", http(401, {"message": "invalid api token"}), Kind.AUTH),
    Row(
        "cohere-400-large",
        "cohere",
        http(
            400,
            {"message": "too many tokens: total number of tokens in the prompt exceeds the limit of 4081"},
        ),
        Kind.TOO_LARGE,
    ),
    Row("cohere-404", "cohere", http(404, {"message": "model 'x' not found"}), Kind.AUTH),
    Row(
        "cohere-422",
        "cohere",
        http(422, {"message": "invalid request: texts must be at most 96"}),
        Kind.INVALID,
    ),
    Row("cohere-503", "cohere", http(503, {"message": "unavailable"}), Kind.OVERLOAD),
    Row("cohere-500", "cohere", http(500, {"message": "internal error"}), Kind.TRANSIENT),
)

DEEPSEEK: Final = (
    Row("deepseek-ok", "deepseek", http(200, "\n\n\n{}"), None),
    Row(
        "deepseek-429-too-many-at-once",
        "deepseek",
        http(429, openai_error("Rate limit reached", "rate_limit_reached", None)),
        Kind.CONCURRENCY,
    ),
    Row(
        "deepseek-402",
        "deepseek",
        http(402, openai_error("Insufficient Balance", "unknown_error", "invalid_request_error")),
        Kind.QUOTA,
    ),
    Row(
        "deepseek-401",
        "deepseek",
        http(401, openai_error("Authentication Fails", "authentication_error", "invalid_request_error")),
        Kind.AUTH,
    ),
    Row(
        "deepseek-400-model",
        "deepseek",
        http(400, openai_error("Model Not Exist", "invalid_request_error", "invalid_request_error")),
        Kind.AUTH,
    ),
    Row(
        "deepseek-422",
        "deepseek",
        http(422, openai_error("Invalid Parameters", "invalid_request_error", None)),
        Kind.INVALID,
    ),
    Row("deepseek-500", "deepseek", http(500, ""), Kind.TRANSIENT),
    Row(
        "deepseek-503",
        "deepseek",
        http(503, openai_error("Server Overloaded", "service_unavailable_error", None)),
        Kind.OVERLOAD,
    ),
)

XAI: Final = (
    Row(
        "xai-ok",
        "xai",
        http(
            200,
            "{}",
            x_ratelimit_limit_requests="480",
            x_ratelimit_remaining_requests="479",
            x_ratelimit_limit_tokens="2000000",
            x_ratelimit_remaining_tokens="1999000",
        ),
        None,
        reports=(LimitReport(REQUESTS, 480, 479), LimitReport(TOKENS, 2_000_000, 1_999_000)),
    ),
    Row(
        "xai-429-a-minute",
        "xai",
        http(
            429,
            {
                "code": "resource-exhausted",
                "error": "Too many requests for team f1692451 and model grok-4.5. Your team's rate limit is - Requests per Minute "
                "(actual/limit): 2/2.",
            },
            retry_after="60",
        ),
        Kind.RATE,
        wait=60.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 2, 0),),
    ),
    Row(
        "xai-429-a-second",
        "xai",
        http(429, "Too many requests for team x and model grok-4. Requests per Second (actual/limit): 2/2"),
        Kind.RATE,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 2, 0, 1.0),),
    ),
    Row(
        "xai-429-nothing-allowed",
        "xai",
        http(
            429,
            {
                "code": "resource-exhausted",
                "error": "Too many requests for team x. Requests per Minute (actual/limit): 0/0.",
            },
        ),
        Kind.QUOTA,
        code="no_allowance",
    ),
    Row(
        "xai-403-credits",
        "xai",
        http(
            403,
            {
                "code": "permission-denied",
                "error": "Your team x has either used all available credits or reached its monthly spending limit. To continue "
                "making API requests, please purchase more credits or raise your spending limit.",
            },
        ),
        Kind.QUOTA,
    ),
    Row(
        "xai-400-key",
        "xai",
        http(400, {"code": "invalid-argument", "error": "Incorrect API key provided. Invalid API key"}),
        Kind.AUTH,
    ),
    Row(
        "xai-403",
        "xai",
        http(403, {"code": "permission-denied", "error": "access to the chat endpoint is denied"}),
        Kind.AUTH,
    ),
    Row(
        "xai-503",
        "xai",
        http(503, {"code": "unavailable", "error": "Service temporarily unavailable"}),
        Kind.OVERLOAD,
    ),
)

FIREWORKS: Final = (
    Row(
        "fireworks-ok",
        "fireworks",
        http(
            200,
            "{}",
            X_Ratelimit_Limit_Tokens_Prompt="3600000",
            X_Ratelimit_Remaining_Tokens_Prompt="3599000",
            X_Ratelimit_Limit_Tokens_Generated="36000",
            X_Ratelimit_Remaining_Tokens_Generated="0",
        ),
        None,
        reports=(LimitReport(INPUT, 3_600_000, 3_599_000), LimitReport(OUTPUT, 36_000, 0)),
    ),
    Row(
        "fireworks-429-generated",
        "fireworks",
        http(
            429,
            {"error": {"message": "rate limit exceeded", "type": "error", "code": "rate_limit_exceeded"}},
            x_ratelimit_limit_tokens_generated="36000",
            x_ratelimit_remaining_tokens_generated="0",
        ),
        Kind.RATE,
        dimension=OUTPUT,
        reports=(LimitReport(OUTPUT, 36_000, 0),),
    ),
    Row(
        "fireworks-412-suspended",
        "fireworks",
        http(
            412,
            {
                "error": {
                    "message": "Account a is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices."
                }
            },
        ),
        Kind.QUOTA,
    ),
    Row("fireworks-503", "fireworks", http(503, {"error": "Service Overloaded"}), Kind.OVERLOAD),
    Row(
        "fireworks-404",
        "fireworks",
        http(
            404,
            {"error": {"message": "Model not found, inaccessible, and/or not deployed", "code": "NOT_FOUND"}},
        ),
        Kind.AUTH,
    ),
)

AT_HOME: Final = (
    Row("vllm-ok", "vllm", http(200, "{}"), None),
    Row(
        "vllm-400-context",
        "vllm",
        http(
            400,
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
                "type": "BadRequestError",
                "code": 400,
            },
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "vllm-404",
        "vllm",
        http(
            404,
            {
                "object": "error",
                "message": "The model `x` does not exist.",
                "type": "NotFoundError",
                "code": 404,
            },
        ),
        Kind.AUTH,
    ),
    Row(
        "vllm-400",
        "vllm",
        http(
            400,
            {"object": "error", "message": "top_p must be in (0, 1]", "type": "BadRequestError", "code": 400},
        ),
        Kind.INVALID,
    ),
    Row("vllm-500", "vllm", http(500, "Internal Server Error"), Kind.TRANSIENT),
    Row("vllm-503", "vllm", http(503, ""), Kind.OVERLOAD),
    Row("ollama-ok", "ollama", http(200, "{}"), None),
    Row(
        "ollama-503-queue",
        "ollama",
        http(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
        Kind.CONCURRENCY,
    ),
    Row("ollama-404", "ollama", http(404, {"error": "model 'llama9' not found"}), Kind.AUTH),
    Row(
        "ollama-429-session",
        "ollama",
        http(
            429,
            {
                "error": "you (someone) have reached your session usage limit, upgrade for higher limits: https://ollama.com/upgrade"
            },
        ),
        Kind.HOLD,
    ),
    Row(
        "ollama-429-weekly",
        "ollama",
        http(429, {"error": "you've reached your weekly usage limit, please wait or upgrade to continue"}),
        Kind.HOLD,
    ),
    Row("ollama-500", "ollama", http(500, {"error": "llama runner process has terminated"}), Kind.TRANSIENT),
    Row("llamacpp-ok", "llamacpp", http(200, "{}"), None),
    Row(
        "llamacpp-503-loading",
        "llamacpp",
        http(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        Kind.OVERLOAD,
    ),
    Row(
        "llamacpp-503-slots",
        "llamacpp",
        http(503, {"error": {"code": 503, "message": "no slot available", "type": "unavailable_error"}}),
        Kind.CONCURRENCY,
    ),
    Row(
        "llamacpp-400-context",
        "llamacpp",
        http(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size. try increasing the context size",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9000,
                    "n_ctx": 4096,
                }
            },
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "llamacpp-401",
        "llamacpp",
        http(401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}),
        Kind.AUTH,
    ),
)

GENERIC: Final = (
    Row(
        "generic-ok-ietf",
        "generic",
        http(200, "", RateLimit_Policy='"burst";q=100;w=60', RateLimit='"burst";r=45;t=30'),
        None,
        reports=(LimitReport(REQUESTS, 100, 45, 30.0, reset_precision_s=1.0),),
    ),
    Row(
        "generic-ok-ietf-two-policies",
        "generic",
        http(
            200,
            "",
            RateLimit_Policy='"burst";q=100;w=60,"daily";q=1000;w=86400, "bytes";q=9;w=60;qu="content-bytes"',
            RateLimit='"daily";r=400;t=3600, "burst";r=45;t=30',
        ),
        None,
        reports=(
            LimitReport(REQUESTS, 100, 45, 30.0, reset_precision_s=1.0),
            LimitReport(REQUESTS, 1000, 400, 3600.0, DAY, reset_precision_s=1.0),
        ),
    ),
    Row(
        "generic-ok-ietf-draft-7",
        "generic",
        http(200, "", RateLimit_Policy="100;w=60", RateLimit="limit=100, remaining=50, reset=5"),
        None,
        reports=(LimitReport(REQUESTS, 100, 50, 5.0, reset_precision_s=1.0),),
    ),
    Row(
        "generic-ok-ietf-draft-6",
        "generic",
        http(200, "", RateLimit_Limit="100", RateLimit_Remaining="50", RateLimit_Reset="50"),
        None,
        reports=(LimitReport(REQUESTS, 100, 50, 50.0, reset_precision_s=1.0),),
    ),
    Row(
        "generic-ok-an-hour",
        "generic",
        http(
            200,
            "",
            X_RateLimit_Limit="5000",
            X_RateLimit_Remaining="4999",
            X_RateLimit_Reset="1794731400",
            Date=DATE,
        ),
        None,
        reports=(LimitReport(REQUESTS, 5000, 4999, 1800.0, 3600.0, reset_precision_s=2.0),),
    ),
    Row(
        "generic-ok-openai-names",
        "generic",
        http(200, "{}", **openai_headers(("500", "499", "120ms"), ("30000", "29000", "2s"))),
        None,
        reports=(
            LimitReport(REQUESTS, 500, 499, 0.12, reset_precision_s=0.001),
            LimitReport(TOKENS, 30_000, 29_000, 2.0, reset_precision_s=0.001),
        ),
    ),
    Row(
        "generic-429-window",
        "generic",
        http(429, "slow down", X_RateLimit_Limit="60", X_RateLimit_Remaining="0", X_RateLimit_Reset="17"),
        Kind.RATE,
        wait=17.0,
        dimension=REQUESTS,
        reports=(LimitReport(REQUESTS, 60, 0, 17.0, reset_precision_s=1.0),),
    ),
    Row(
        "generic-429-date",
        "generic",
        http(429, "", Retry_After="Sun, 15 Nov 2026 08:00:30 GMT", Date=DATE),
        Kind.RATE,
        wait=30.0,
        step=1.0,
    ),
    Row("generic-429-plain", "generic", http(429, "Too Many Requests"), Kind.RATE),
    Row(
        "generic-429-concurrency",
        "generic",
        http(429, {"error": {"code": "concurrency_limit_exceeded", "message": "x"}}),
        Kind.CONCURRENCY,
    ),
    Row(
        "generic-429-session",
        "generic",
        http(
            429,
            {
                "error": {
                    "type": "rate_limit_error",
                    "message": "usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-11-15T15:00:00Z (2056)",
                }
            },
        ),
        Kind.HOLD,
        wait=7 * 3600.0,
    ),
    Row(
        "generic-429-quota-returns",
        "generic",
        http(429, openai_error("x", "insufficient_quota", "insufficient_quota"), retry_after="30"),
        Kind.RATE,
        wait=30.0,
    ),
    Row(
        "generic-429-quota",
        "generic",
        http(429, openai_error("x", "insufficient_quota", "insufficient_quota")),
        Kind.QUOTA,
    ),
    Row(
        "generic-429-cut-off-body",
        "generic",
        http(429, b'{"error":{"code":"rate_limit_exceeded","message":"Please try again in 2s. And'),
        Kind.RATE,
        wait=2.0,
    ),
    Row(
        "generic-200-says-it-is-empty",
        "generic",
        http(
            200,
            '{"error":{"code":"insufficient_quota"}}',
            X_RateLimit_Limit="60",
            X_RateLimit_Remaining="0",
            X_RateLimit_Reset="17",
            retry_after="60",
        ),
        None,
        reports=(LimitReport(REQUESTS, 60, 0, 17.0, reset_precision_s=1.0),),
    ),
    Row("generic-204", "generic", http(204, None), None),
    Row("generic-301", "generic", http(301, ""), Kind.INVALID),
    Row("generic-402", "generic", http(402, ""), Kind.QUOTA),
    Row("generic-404", "generic", http(404, "404 page not found"), Kind.AUTH),
    Row("generic-409", "generic", http(409, ""), Kind.TRANSIENT),
    Row("generic-413", "generic", http(413, ""), Kind.TOO_LARGE),
    Row("generic-422", "generic", http(422, {"detail": "nope"}), Kind.INVALID),
    Row("generic-501", "generic", http(501, ""), Kind.INVALID),
    Row("generic-520", "generic", http(520, "<html>cloudflare</html>"), Kind.TRANSIENT),
    Row("generic-529", "generic", http(529, ""), Kind.OVERLOAD),
    Row(
        "generic-500-speaks-of-429",
        "generic",
        http(500, {"error": "handler failed after 429 retries on line 500"}),
        Kind.TRANSIENT,
    ),
    Row(
        "generic-400-speaks-of-limits",
        "generic",
        http(400, {"error": {"message": "Unknown field 'rate limit exceeded, try again in 20s'"}}),
        Kind.INVALID,
    ),
)
