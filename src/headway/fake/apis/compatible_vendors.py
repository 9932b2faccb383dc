"""Vendors that speak OpenAI's API: the same answers, their own errors.

Each class overrides the errors in which the vendor differs from OpenAI. The texts are real ones (docs/reference/hints.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headway.fake.apis.api_request import InvalidRequest
from headway.fake.apis.error_dialects import OPENAI, ErrorDialect, ErrorResponse, OpenAIErrors, bearer
from headway.fake.limits.accounts import Refusal
from headway.fake.quantities import go_duration

_json: Callable[[object], bytes] = msgspec.json.Encoder().encode

_PER = {
    "rpm": ("requests", "requests per minute (RPM)"),
    "rpd": ("requests", "requests per day (RPD)"),
    "tpm": ("tokens", "tokens per minute (TPM)"),
    "tpd": ("tokens", "tokens per day (TPD)"),
    "itpm": ("tokens", "input tokens per minute (ITPM)"),
    "otpm": ("tokens", "output tokens per minute (OTPM)"),
}


class AzureErrors(OpenAIErrors):
    """Azure OpenAI: a code, and a message that names the operation."""

    name = "azure"
    request_id_header = "apim-request-id"

    def key_in(self, headers: Mapping[str, str]) -> str:
        """Azure's own header, or a bearer token from Entra."""
        return headers.get("api-key", "") or bearer(headers)

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        what = "token" if refusal.reason.startswith("t") else "call"
        message = (
            f"Your requests to {model} for {model} in Sweden Central have exceeded the {what} rate limit for your current "
            "AIServices S0 pricing tier. This request was for ChatCompletions_Create under Azure OpenAI API. "
            f"Please retry after {max(1, round(refusal.wait_s + 0.5))} seconds."
        )
        if refusal.too_large:
            return self._response(
                400, "context_length_exceeded", f"This request needs {refusal.requested} tokens."
            )
        return self._response(429, "429", message)

    def invalid(self, why: InvalidRequest, _request_id: str) -> ErrorResponse:
        """400."""
        return self._response(400, why.code or "BadRequest", why.message)

    def content_blocked(self, _request_id: str) -> ErrorResponse:
        """400."""
        inner = {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True}},
        }
        message = (
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please "
            "modify your prompt and retry."
        )
        error = {"message": message, "code": "content_filter", "status": 400, "innererror": inner}
        return 400, _json({"error": error})

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        message = (
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for "
            "an active subscription and use a correct regional API endpoint for your resource."
        )
        return self._response(401, "401", message)

    def unknown_path(self, method: str, path: str, _request_id: str) -> ErrorResponse:
        """404."""
        return self._response(404, "404", "Resource not found")

    def _response(self, status: int, code: str, message: str) -> ErrorResponse:
        return status, _json({"error": {"code": code, "message": message}})


class GroqErrors(OpenAIErrors):
    """Groq: requests per day, tokens per minute; its messages have all numbers."""

    name = "groq"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429; 413 for a request that never fits."""
        if refusal.reason == "concurrency":
            return 503, _json(self.error(f"{model} is currently over capacity.", "internal_server_error"))
        type_, limit = _PER[refusal.reason]
        scope = f"model `{model}` in organization `org_01` service tier `on_demand` on {limit}: Limit {refusal.limit}"
        if refusal.too_large:
            message = (
                f"Request too large for {scope}, Requested {refusal.requested}, please reduce your message size and "
                "try again. Need more tokens? Upgrade to Dev Tier today."
            )
            return 413, _json(self.error(message, type_, "rate_limit_exceeded"))
        message = (
            f"Rate limit reached for {scope}, Used {refusal.used}, Requested {refusal.requested}. Please try again in "
            f"{go_duration(refusal.wait_s)}. Need more tokens? Upgrade to Dev Tier today."
        )
        return 429, _json(self.error(message, type_, "rate_limit_exceeded"))

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return 401, _json(self.error("Invalid API Key", "invalid_request_error", "invalid_api_key"))

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """400: the account is restricted."""
        message = (
            "Organization has been restricted. Please reach out to support if you believe this was in error."
        )
        return 400, _json(self.error(message, "invalid_request_error", "organization_restricted"))


class MistralErrors(OpenAIErrors):
    """Mistral: a 429 without details."""

    name = "mistral"
    request_id_header = "mistral-correlation-id"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        return self._response(429, "Rate limit exceeded", "rate_limited", "1300")

    def invalid(self, why: InvalidRequest, _request_id: str) -> ErrorResponse:
        """422 with Pydantic's error list."""
        place = ["body", *(why.param or "").split(".")]
        return 422, _json({"detail": [{"type": "missing", "loc": place, "msg": why.message}]})

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = f"Prompt contains {tokens} tokens and 0 draft tokens, too large for model with {most} maximum context length"
        return self._response(400, message, "invalid_request_invalid_args", "3051")

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return 401, _json({"detail": "Unauthorized"})

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """402."""
        return self._response(402, "You have reached your monthly usage limit.", "payment_required", "1800")

    def _response(self, status: int, message: str, type_: str, code: str) -> ErrorResponse:
        error = {"object": "error", "message": message, "type": type_, "param": None, "code": code}
        return status, _json(error)


class TogetherErrors(OpenAIErrors):
    """Together: dynamic limits per second."""

    name = "together"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429; 503 if there is no capacity."""
        if refusal.reason == "concurrency":
            return 503, _json(self.error("Service unavailable", "service_unavailable"))
        what = "dynamic_token_limited" if refusal.reason.startswith("t") else "dynamic_request_limited"
        message = f"You have reached the dynamic rate limit of {model}. Please slow down."
        return 429, _json(self.error(message, what))

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """422."""
        message = (
            f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {most + 1}. Given: {tokens} `inputs` "
            "tokens and 0 `max_new_tokens`"
        )
        return 422, _json(self.error(message, "invalid_request_error"))

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """402."""
        return 402, _json(self.error("Credit limit exceeded, please navigate to billing.", "credit_limit"))


class OpenRouterErrors(OpenAIErrors):
    """OpenRouter: limits on requests; its headers come only with a refusal."""

    name = "openrouter"
    request_id_header = ""
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        if refusal.reason == "concurrency":
            details = {
                "raw": f"{model} is temporarily rate-limited upstream. Please retry shortly.",
                "provider_name": "Fake",
                "limit_source": "upstream_provider_shared_pool",
            }
            return self._response(429, "Provider returned error", details)
        per = "day" if refusal.reason == "rpd" else "min"
        source = {"limit_source": "openrouter_free_tier_daily"} if per == "day" else {}
        return self._response(429, f"Rate limit exceeded: free-models-per-{per}.", source)

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return self._response(401, "User not found." if key else "No auth credentials found")

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """402."""
        message = "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 26."
        return self._response(402, message)

    def _response(self, status: int, message: str, metadata: dict[str, Any] | None = None) -> ErrorResponse:
        error: dict[str, Any] = {"message": message, "code": status}
        if metadata:
            error["metadata"] = metadata
        return status, _json({"error": error, "user_id": "user_fake"})


class CohereErrors(OpenAIErrors):
    """Cohere: a message and nothing else. Trial keys see how many calls remain."""

    name = "cohere"
    request_id_header = "x-debug-trace-id"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        message = (
            f"You are using a Trial key, which is limited to {refusal.limit} API calls / minute. You can continue to use "
            "the Trial key for free or upgrade to a Production key with higher rate limits."
        )
        return 429, _json({"message": message})

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = f"too many tokens: total number of tokens in the prompt exceeds the limit of {most}"
        return 400, _json({"message": message})

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return 401, _json({"message": "invalid api token"})

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """429 by the monthly limit."""
        message = "You are using a Trial key, which is limited to 1000 API calls / month."
        return 429, _json({"message": message})


class DeepSeekErrors(OpenAIErrors):
    """DeepSeek: a limit only on requests at once."""

    name = "deepseek"
    request_id_header = "x-ds-trace-id"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        return 429, _json(self.error("Rate limit reached", "rate_limit_reached"))

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        message = "Authentication Fails, Your api key is invalid"
        return 401, _json(self.error(message, "authentication_error", "invalid_request_error"))

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """402."""
        return 402, _json(self.error("Insufficient Balance", "unknown_error", "invalid_request_error"))


class XAIErrors(OpenAIErrors):
    """xAI: the error is a text with the used and the allowed amount."""

    name = "xai"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        per = {"rpm": "Requests per Minute", "tpm": "Tokens per Minute"}.get(
            refusal.reason, "Requests per Minute"
        )
        used = max(refusal.used, refusal.limit)
        message = (
            f"Too many requests for team f1692451 and model {model}. Your team's rate limit is - {per} "
            f"(actual/limit): {used}/{refusal.limit}."
        )
        return self._response(429, "resource-exhausted", message)

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """400."""
        return self._response(400, "invalid-argument", "Incorrect API key provided. Invalid API key")

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """403."""
        message = "Your team has either used all available credits or reached its monthly spending limit."
        return self._response(403, "permission-denied", message)

    def _response(self, status: int, code: str, message: str) -> ErrorResponse:
        return status, _json({"code": code, "error": message})


class FireworksErrors(OpenAIErrors):
    """Fireworks: separate limits for prompts and generated tokens; no time to retry."""

    name = "fireworks"
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429."""
        return 429, _json(self.error("rate limit exceeded", "error", "rate_limit_exceeded"))

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """412."""
        message = (
            "Account fake is suspended, possibly due to reaching the monthly spending limit or failure to pay past "
            "invoices."
        )
        return 412, _json({"error": {"message": message}})


class VLLMErrors(OpenAIErrors):
    """vLLM: it queues every request."""

    name = "vllm"
    charge = "used"

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = (
            f"This model's maximum context length is {most} tokens. However, you requested {tokens} tokens."
        )
        return 400, _json({"object": "error", "message": message, "type": "BadRequestError", "code": 400})


class OllamaErrors(OpenAIErrors):
    """Ollama: it queues until the queue is full."""

    name = "ollama"
    request_id_header = ""
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """503."""
        return 503, _json({"error": "server busy, please try again.  maximum pending requests exceeded"})

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return 401, _json({"error": "unauthorized"})


class LlamaCppErrors(OpenAIErrors):
    """llama.cpp: slots with a queue."""

    name = "llamacpp"
    request_id_header = ""
    charge = "used"

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """503."""
        return self._response(503, "no slot available", "unavailable_error")

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = "the request exceeds the available context size. try increasing the context size or enable context shift"
        return self._response(400, message, "exceed_context_size_error", n_prompt_tokens=tokens, n_ctx=most)

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """401."""
        return self._response(401, "Invalid API Key", "authentication_error")

    def _response(self, status: int, message: str, type_: str, **more: int) -> ErrorResponse:
        return status, _json({"error": {"code": status, "message": message, "type": type_, **more}})


AZURE = AzureErrors()
VENDORS: dict[str, ErrorDialect] = {
    dialect.name: dialect
    for dialect in (
        OPENAI, AZURE, GroqErrors(), MistralErrors(), TogetherErrors(), OpenRouterErrors(), CohereErrors(), DeepSeekErrors(), XAIErrors(), FireworksErrors(), VLLMErrors(),
        OllamaErrors(), LlamaCppErrors(),
    )
}  # fmt: skip
