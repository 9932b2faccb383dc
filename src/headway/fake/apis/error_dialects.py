"""The errors of each vendor: status, body, and headers other than those about limits (`limits.headers` has those).

This file has the contract (`ErrorDialect`), OpenAI and Anthropic. `compatible_vendors` has the vendors that speak OpenAI's
API with their own errors; `gemini` and `bedrock` have theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from headway.fake.apis.api_request import InvalidRequest
from headway.fake.limits.accounts import Refusal
from headway.fake.limits.windows import window_rejected
from headway.fake.quantities import go_duration

#: Status, body, and headers of its own if there are any.
ErrorResponse = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]

_ORGANIZATION = "org-headwayfake"
_VISIT = "Visit https://platform.openai.com/account/rate-limits to learn more."
_READ = "For details, refer to: https://docs.claude.com/en/api/rate-limits."
_LIMITS = {
    "rpm": ("requests", "requests per min (RPM)", "requests per minute"),
    "rpd": ("requests", "requests per day (RPD)", "requests per day"),
    "tpm": ("tokens", "tokens per min (TPM)", "tokens per minute"),
    "itpm": ("input_tokens", "input tokens per min (ITPM)", "input tokens per minute"),
    "otpm": ("output_tokens", "output tokens per min (OTPM)", "output tokens per minute"),
    "tpd": ("tokens", "tokens per day (TPD)", "tokens per day"),
}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
HTML_PAGE = b"<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%s</h1></center>\r\n</body>\r\n</html>\r\n"


class ErrorDialect(Protocol):
    """The errors of one vendor."""

    @property
    def name(self) -> str:
        """The vendor's name, which also selects its rate-limit headers."""

    @property
    def request_id_header(self) -> str:
        """The header with the request's id; "" if there is none."""

    @property
    def charge(self) -> str:
        """How `tpm` is charged: see `limits.accounts`."""

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The API key in a request's headers."""

    def signature_error(self, request: SignedRequest, body: bytes, secret: str) -> ErrorResponse | None:
        """An error for a missing or wrong signature, if the vendor wants one."""

    def refused(self, refusal: Refusal, model: str, request_id: str) -> ErrorResponse:
        """A limit refused the request."""

    def invalid(self, why: InvalidRequest, request_id: str) -> ErrorResponse:
        """The request cannot be parsed."""

    def context_exceeded(self, tokens: int, most: int, request_id: str) -> ErrorResponse:
        """The prompt is longer than the model's context."""

    def content_blocked(self, request_id: str) -> ErrorResponse:
        """The prompt is refused for its content."""

    def unauthorized(self, key: str, request_id: str) -> ErrorResponse:
        """The key is missing or wrong."""

    def quota_exhausted(self, request_id: str) -> ErrorResponse:
        """No credit is left. Waiting does not help."""

    def window_closed(self, claim: str, wait_s: float, wall: float, request_id: str) -> ErrorResponse:
        """A window of the subscription is used up until `wait_s` seconds from now, which is `wall`."""

    def unknown_path(self, method: str, path: str, request_id: str) -> ErrorResponse:
        """There is no API at this path."""

    def server_error(self, status: int, request_id: str) -> ErrorResponse:
        """5xx."""

    def server_error_event(self, status: int, request_id: str) -> dict[str, Any]:
        """The same error as an event of a stream."""


class SignedRequest(Protocol):
    """The parts of a request that a signature covers."""

    @property
    def method(self) -> str: ...

    @property
    def raw_path(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


def bearer(headers: Mapping[str, str]) -> str:
    """The token of an Authorization header."""
    value = headers.get("Authorization", "")
    return value[7:].strip() if value[:7].lower() == "bearer " else ""


class ApiKeyErrors:
    """Vendors whose requests have an API key and no signature."""

    charge = "reserve"

    def key_in(self, headers: Mapping[str, str]) -> str:
        """Authorization or x-api-key."""
        return bearer(headers) or headers.get("x-api-key", "")

    def signature_error(self, request: SignedRequest, body: bytes, secret: str) -> ErrorResponse | None:
        """No signature is needed."""
        return None


class OpenAIErrors(ApiKeyErrors):
    """OpenAI's errors."""

    name = "openai"
    request_id_header = "x-request-id"

    def error(
        self, message: str, type_: str, code: str | None = None, param: str | None = None
    ) -> dict[str, Any]:
        """The error object, in a body or in a stream."""
        return {"error": {"message": message, "type": type_, "param": param, "code": code}}

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429 for one limit."""
        if refusal.reason == "concurrency":
            message = f"Too many concurrent requests for {model}: at most {refusal.limit} at once. Please try again."
            return 429, _json(self.error(message, "requests", "rate_limit_exceeded"))
        type_, limit, _ = _LIMITS[refusal.reason]
        scope = f"{model} in organization {_ORGANIZATION} on {limit}: Limit {refusal.limit}"
        if refusal.too_large:
            message = (
                f"Request too large for {scope}, Requested {refusal.requested}. The input or output tokens must be "
                f"reduced in order to run successfully. {_VISIT}"
            )
        else:
            message = (
                f"Rate limit reached for {scope}, Used {refusal.used}, Requested {refusal.requested}. "
                f"Please try again in {go_duration(refusal.wait_s)}. {_VISIT}"
            )
        return 429, _json(self.error(message, type_, "rate_limit_exceeded"))

    def invalid(self, why: InvalidRequest, _request_id: str) -> ErrorResponse:
        """400."""
        return 400, _json(self.error(why.message, "invalid_request_error", why.code, why.param))

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = (
            f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )
        return 400, _json(self.error(message, "invalid_request_error", "context_length_exceeded", "messages"))

    def content_blocked(self, _request_id: str) -> ErrorResponse:
        """400."""
        message = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
        return 400, _json(self.error(message, "invalid_request_error", "invalid_prompt"))

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        if not key:
            message = (
                "You didn't provide an API key. You need to provide your API key in an Authorization header using "
                "Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
            )
            return 401, _json(self.error(message, "invalid_request_error"))
        message = (
            f"Incorrect API key provided: {_masked(key)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        )
        return 401, _json(self.error(message, "invalid_request_error", "invalid_api_key"))

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """429, although waiting does not help."""
        message = (
            "You exceeded your current quota, please check your plan and billing details. For more information on "
            "this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
        )
        return 429, _json(self.error(message, "insufficient_quota", "insufficient_quota"))

    def window_closed(self, _claim: str, wait_s: float, wall: float, _request_id: str) -> ErrorResponse:
        """429, as for users of Codex with a plan."""
        error = {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": math.ceil(wall + wait_s),
            "resets_in_seconds": math.ceil(wait_s),
        }
        return 429, _json({"error": error})

    def unknown_path(self, method: str, path: str, _request_id: str) -> ErrorResponse:
        """404."""
        return 404, _json(self.error(f"Invalid URL ({method} {path})", "invalid_request_error"))

    def server_error(self, status: int, request_id: str) -> ErrorResponse:
        """5xx."""
        return status, _json(self.server_error_event(status, request_id))

    def server_error_event(self, status: int, request_id: str) -> dict[str, Any]:
        """The same error as an event of a stream."""
        messages = {
            503: "The server is currently overloaded with other requests. Sorry about that! Please retry shortly.",
            529: "That model is currently overloaded with other requests. Please retry shortly.",
        }
        message = messages.get(
            status, f"The server had an error while processing your request. Sorry about that! ({request_id})"
        )
        return self.error(message, "server_error")


class AnthropicErrors(ApiKeyErrors):
    """Anthropic's errors."""

    name = "anthropic"
    request_id_header = "request-id"

    def error(self, message: str, type_: str, request_id: str) -> dict[str, Any]:
        """The error object, in a body or in a stream."""
        return {"type": "error", "error": {"type": type_, "message": message}, "request_id": request_id}

    def _response(self, status: int, message: str, request_id: str) -> ErrorResponse:
        return status, _json(self.error(message, _ANTHROPIC_TYPES.get(status, "api_error"), request_id))

    def refused(self, refusal: Refusal, model: str, request_id: str) -> ErrorResponse:
        """429 for one limit."""
        if refusal.reason == "concurrency":
            message = "Number of concurrent connections has exceeded your rate limit. Please try again later."
            return self._response(429, message, request_id)
        limit = f"your organization's rate limit of {refusal.limit:,} {_LIMITS[refusal.reason][2]}"
        if refusal.too_large:
            message = (
                f"Request too large: {refusal.requested:,} tokens would exceed {limit} by itself "
                f"(model: {model}). Reduce the prompt. {_READ}"
            )
        else:
            message = f"This request would exceed {limit} ({_ORGANIZATION}, model: {model}). {_READ}"
        return self._response(429, message, request_id)

    def invalid(self, why: InvalidRequest, request_id: str) -> ErrorResponse:
        """400."""
        message = f"{why.param}: {why.message}" if why.param else why.message
        return self._response(400, message, request_id)

    def context_exceeded(self, tokens: int, most: int, request_id: str) -> ErrorResponse:
        """400."""
        return self._response(400, f"prompt is too long: {tokens} tokens > {most} maximum", request_id)

    def content_blocked(self, request_id: str) -> ErrorResponse:
        """400."""
        return self._response(400, "Output blocked by content filtering policy", request_id)

    def unauthorized(self, key: str, request_id: str) -> ErrorResponse:
        """401."""
        return self._response(401, "invalid x-api-key" if key else "x-api-key header is required", request_id)

    def quota_exhausted(self, request_id: str) -> ErrorResponse:
        """400: no credit is left."""
        message = (
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade "
            "or purchase credits."
        )
        return self._response(400, message, request_id)

    def window_closed(self, claim: str, wait_s: float, wall: float, request_id: str) -> ErrorResponse:
        """429, with the headers that name the window and its reset."""
        message = "This request would exceed your account's rate limit. Please try again later."
        status, body, *_ = self._response(429, message, request_id)
        return status, body, window_rejected(claim, wait_s, wall)

    def unknown_path(self, _method: str, path: str, request_id: str) -> ErrorResponse:
        """404."""
        return self._response(404, f"Not found: {path}", request_id)

    def server_error(self, status: int, request_id: str) -> ErrorResponse:
        """5xx."""
        return status, _json(self.server_error_event(status, request_id))

    def server_error_event(self, status: int, request_id: str) -> dict[str, Any]:
        """The same error as an event of a stream."""
        if status == 529:
            return self.error("Overloaded", "overloaded_error", request_id)
        return self.error("Internal server error", "api_error", request_id)


OPENAI = OpenAIErrors()
ANTHROPIC = AnthropicErrors()

_json: Callable[[object], bytes] = msgspec.json.Encoder().encode


def _masked(key: str) -> str:
    return key if len(key) < 12 else f"{key[:8]}{'*' * (len(key) - 12)}{key[-4:]}"


def html_page(title: str) -> bytes:
    """The page that a proxy sends instead of the API's answer."""
    return HTML_PAGE % (title.encode(), title.encode())
