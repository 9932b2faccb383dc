"""Rows of Gemini and Vertex."""

from __future__ import annotations

from typing import Any, Final

from headway.core.model import Kind

from .row import DAY, INPUT, REQUESTS, Row, http, raised, told

_QUOTA_HELP: Final = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "head to: https://ai.google.dev/gemini-api/docs/rate-limits."
)
_TYPE: Final = "type.googleapis.com/google.rpc."
_FREE_REQUESTS: Final = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
PER_MINUTE: Final = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY: Final = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
INPUT_PER_MINUTE: Final = "GenerateContentInputTokensPerModelPerMinute-FreeTier"


def google_error(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def violation(quota: str, value: str | None = None) -> dict[str, Any]:
    stated = {"quotaMetric": _FREE_REQUESTS, "quotaId": quota, "quotaDimensions": {"location": "global"}}
    return stated if value is None else {**stated, "quotaValue": value}


def quota_failure(*violations: dict[str, Any]) -> dict[str, Any]:
    return {"@type": f"{_TYPE}QuotaFailure", "violations": list(violations)}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": f"{_TYPE}RetryInfo", "retryDelay": delay}


def error_info(reason: str, domain: str = "googleapis.com") -> dict[str, Any]:
    return {"@type": f"{_TYPE}ErrorInfo", "reason": reason, "domain": domain}


def exhausted(message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return google_error(429, "RESOURCE_EXHAUSTED", message, *details)


GEMINI: Final = (
    Row("gemini-ok", "gemini", http(200, "{}"), None),
    Row(
        "gemini-429-a-minute",
        "gemini",
        http(
            429,
            exhausted(
                f"{_QUOTA_HELP}\n* Quota exceeded for metric: {_FREE_REQUESTS}, limit: 15\nPlease retry in 26.465312s.",
                quota_failure(violation(PER_MINUTE, "15")),
                retry_info("26s"),
            ),
        ),
        Kind.RATE,
        wait=26.465312,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 15, 0),),
        code="RESOURCE_EXHAUSTED",
    ),
    Row(
        "gemini-429-input-tokens-a-minute",
        "gemini",
        http(
            429,
            exhausted(_QUOTA_HELP, quota_failure(violation(INPUT_PER_MINUTE, "250000")), retry_info("41s")),
        ),
        Kind.RATE,
        wait=41.0,
        dimension=INPUT,
        reports=(told(INPUT, 250_000, None),),
    ),
    Row(
        "gemini-429-a-day-reopens-at-midnight-pacific",
        "gemini",
        http(
            429,
            exhausted(_QUOTA_HELP, quota_failure(violation(PER_DAY, "20")), retry_info("38s")),
            date="Sun, 15 Nov 2026 20:00:00 GMT",
        ),
        Kind.HOLD,
        wait=DAY / 2,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 20, 0, DAY),),
    ),
    Row(
        "gemini-429-a-day-says-when",
        "gemini",
        http(429, exhausted(_QUOTA_HELP, quota_failure(violation(PER_DAY, "500")), retry_info("65205s"))),
        Kind.HOLD,
        wait=65_205.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 500, 0, DAY),),
    ),
    Row(
        "gemini-429-day-and-minute-is-the-day",
        "gemini",
        http(
            429,
            exhausted(
                _QUOTA_HELP,
                quota_failure(violation(PER_MINUTE, "5"), violation(PER_DAY, "20")),
                retry_info("65205s"),
            ),
        ),
        Kind.HOLD,
        wait=65_205.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 20, 0, DAY), told(REQUESTS, 5, 0)),
    ),
    Row(
        "gemini-429-limit-0-is-fatal",
        "gemini",
        http(
            429,
            exhausted(
                f"{_QUOTA_HELP}\n* Quota exceeded for metric: {_FREE_REQUESTS}, limit: 0, model: gemini-2.0-flash\n"
                "Please retry in 35.297076951s.",
                quota_failure(violation(PER_MINUTE), violation(PER_DAY)),
                retry_info("35s"),
            ),
        ),
        Kind.QUOTA,
        wait=35.297076951,
        code="no_allowance",
    ),
    Row(
        "gemini-429-no-hint",
        "gemini",
        http(429, exhausted("Resource has been exhausted (e.g. check quota).")),
        Kind.RATE,
    ),
    Row(
        "gemini-429-capacity",
        "gemini",
        http(429, exhausted("No capacity available", error_info("MODEL_CAPACITY_EXHAUSTED"))),
        Kind.OVERLOAD,
    ),
    Row(
        "gemini-503",
        "gemini",
        http(503, google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
        Kind.OVERLOAD,
    ),
    Row(
        "gemini-500",
        "gemini",
        http(500, google_error(500, "INTERNAL", "An internal error has occurred.")),
        Kind.TRANSIENT,
    ),
    Row(
        "gemini-504",
        "gemini",
        http(504, google_error(504, "DEADLINE_EXCEEDED", "Deadline expired.")),
        Kind.TRANSIENT,
    ),
    Row(
        "gemini-400-key",
        "gemini",
        http(
            400,
            google_error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                error_info("API_KEY_INVALID"),
            ),
        ),
        Kind.AUTH,
        code="API_KEY_INVALID",
    ),
    Row(
        "gemini-400-country",
        "gemini",
        http(
            400, google_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")
        ),
        Kind.AUTH,
    ),
    Row(
        "gemini-400-large",
        "gemini",
        http(
            400,
            google_error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        ),
        Kind.TOO_LARGE,
    ),
    Row(
        "gemini-400-invalid",
        "gemini",
        http(400, google_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")),
        Kind.INVALID,
    ),
    Row("gemini-403", "gemini", http(403, google_error(403, "PERMISSION_DENIED", "No.")), Kind.AUTH),
    Row(
        "gemini-404",
        "gemini",
        http(404, google_error(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta")),
        Kind.AUTH,
    ),
    Row(
        "gemini-exception-a-day",
        "gemini",
        raised(
            "google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'You exceeded your "
            "current quota', 'status': 'RESOURCE_EXHAUSTED', 'details': [{'violations': [{'quotaId': "
            "'GenerateRequestsPerDayPerProjectPerModel-FreeTier', 'quotaValue': '20'}]}, {'retryDelay': '65205s'}]}}"
        ),
        Kind.HOLD,
        wait=65_205.0,
        dimension=REQUESTS,
        reports=(told(REQUESTS, 20, 0, DAY),),
    ),
)

_SHARED: Final = (
    "Resource exhausted. Please try again later. Please refer to "
    "https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details."
)

VERTEX: Final = (
    Row("vertex-ok", "vertex", http(200, "[{}]"), None),
    Row("vertex-429-shared", "vertex", http(429, [exhausted(_SHARED)]), Kind.RATE, code="RESOURCE_EXHAUSTED"),
    Row(
        "vertex-429-a-minute",
        "vertex",
        http(
            429,
            exhausted(
                "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model "
                "with base model: gemini-pro. Please submit a quota increase request."
            ),
        ),
        Kind.RATE,
        dimension=REQUESTS,
    ),
    Row(
        "vertex-403-suspended",
        "vertex",
        http(403, [google_error(403, "PERMISSION_DENIED", "Suspended.", error_info("CONSUMER_SUSPENDED"))]),
        Kind.AUTH,
        code="CONSUMER_SUSPENDED",
    ),
    Row("vertex-503", "vertex", http(503, [google_error(503, "UNAVAILABLE", "Try later.")]), Kind.OVERLOAD),
    Row(
        "vertex-499",
        "vertex",
        http(499, [google_error(499, "CANCELLED", "The operation was cancelled.")]),
        Kind.TRANSIENT,
    ),
    Row("vertex-400", "vertex", http(400, [google_error(400, "INVALID_ARGUMENT", "Bad.")]), Kind.INVALID),
    Row(
        "vertex-500",
        "vertex",
        http(500, [google_error(500, "INTERNAL", "Internal error encountered.")]),
        Kind.TRANSIENT,
    ),
)
