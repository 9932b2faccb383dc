"""Gemini: generateContent and streamGenerateContent, and its errors, which tell quotas in details and nothing in headers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headway.fake.apis.api_request import Asked, Unacceptable, tokens_of
from headway.fake.apis.error_dialects import Complaint, Unsigned
from headway.fake.apis.message_content import MaxTokens, place_of
from headway.fake.apis.reply import Event, Reply, data
from headway.fake.limits.accounts import Refusal

_json: Callable[[object], bytes] = msgspec.json.Encoder().encode
_TYPE = "type.googleapis.com/google.rpc."
_METRIC = "generativelanguage.googleapis.com/generate_content_free_tier_"
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool": "STOP"}
#: The quota and the metric of each limit.
_QUOTAS = {
    "rpm": ("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "requests"),
    "rpd": ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "requests"),
    "tpm": ("GenerateContentInputTokensPerModelPerMinute-FreeTier", "input_token_count"),
    "tpd": ("GenerateContentInputTokensPerModelPerDay-FreeTier", "input_token_count"),
    "itpm": ("GenerateContentInputTokensPerModelPerMinute-FreeTier", "input_token_count"),
    "otpm": ("GenerateContentOutputTokensPerModelPerMinute-FreeTier", "output_token_count"),
}


class Gemini(Unsigned):
    """As Google puts it."""

    name = "gemini"
    request_id_header = ""  # No header names an answer; its `responseId` does.
    charge = "used"

    def key_in(self, headers: Mapping[str, str]) -> str:
        """Its own header. A key in the address is not looked at: it does not belong there."""
        return headers.get("x-goog-api-key", "")

    def error(self, code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
        """The error object."""
        error: dict[str, Any] = {"code": code, "message": message, "status": status}
        return {"error": error | ({"details": list(details)} if details else {})}

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> Complaint:
        """429 with the quota and when to come back; 503 for too many at once."""
        if refusal.reason == "concurrency":
            return self.broken(503, "")
        quota, metric = _QUOTAS[refusal.reason]
        return 429, _json(self._exhausted(quota, metric, refusal.limit, refusal.wait_s, model))

    def _exhausted(self, quota: str, metric: str, limit: int, wait_s: float, model: str) -> dict[str, Any]:
        message = (
            "You exceeded your current quota, please check your plan and billing details. For more information on this "
            "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n"
            f"* Quota exceeded for metric: {_METRIC}{metric}, limit: {limit}, model: {model}\n"
            f"Please retry in {wait_s:.9f}s."
        )
        violation = {
            "quotaMetric": _METRIC + metric,
            "quotaId": quota,
            "quotaDimensions": {"location": "global", "model": model},
            "quotaValue": str(limit),
        }
        return self.error(
            429,
            "RESOURCE_EXHAUSTED",
            message,
            {"@type": f"{_TYPE}QuotaFailure", "violations": [violation]},
            {"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{math.floor(wait_s)}s"},
        )

    def invalid(self, why: Unacceptable, _request_id: str) -> Complaint:
        """400."""
        return 400, _json(self.error(400, "INVALID_ARGUMENT", why.message))

    def too_long(self, tokens: int, most: int, _request_id: str) -> Complaint:
        """400."""
        message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."
        return 400, _json(self.error(400, "INVALID_ARGUMENT", message))

    def blocked(self, request_id: str) -> Complaint:
        """200, with a reason and no candidates."""
        ratings = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH"}]
        said = {
            "promptFeedback": {"blockReason": "SAFETY", "safetyRatings": ratings},
            "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
            "modelVersion": "fake",
            "responseId": request_id,
        }
        return 200, _json(said)

    def unauthorized(self, key: str, _request_id: str) -> Complaint:
        """403 without a key, 400 with a wrong one."""
        if not key:
            message = (
                "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
                "other form of API consumer identity to call this API."
            )
            return 403, _json(self.error(403, "PERMISSION_DENIED", message))
        info = {"@type": f"{_TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        message = "API key not valid. Please pass a valid API key."
        return 400, _json(self.error(400, "INVALID_ARGUMENT", message, info))

    def out_of_money(self, _request_id: str) -> Complaint:
        """429, with a limit of nothing."""
        return 429, _json(self._exhausted(*_QUOTAS["rpd"], 0, 30.0, "gemini"))

    def unknown_path(self, _method: str, path: str, _request_id: str) -> Complaint:
        """404."""
        return 404, _json(self.error(404, "NOT_FOUND", f"{path} is not found for API version v1beta."))

    def broken(self, status: int, request_id: str) -> Complaint:
        """5xx; who is overloaded says 503."""
        status = 503 if status == 529 else status
        return status, _json(self.broken_event(status, request_id))

    def broken_event(self, status: int, _request_id: str) -> dict[str, Any]:
        """The same as an event."""
        if status >= 503:
            return self.error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
        return self.error(500, "INTERNAL", "An internal error has occurred. Please retry or report.")


GEMINI = Gemini()


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part]
    role: str = "user"

    @property
    def words(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text)


def _opened(contents: list[_Content]) -> tuple[str | None, int]:
    """How a conversation of several contents began, and how many answers it has."""
    if len(contents) == 1:
        return None, 0
    first = next((content.words for content in contents if content.role == "user"), None)
    return first, sum(content.role == "model" for content in contents)


class _Config(msgspec.Struct, gc=False, rename="camel"):
    max_output_tokens: MaxTokens | None = None
    candidate_count: MaxTokens | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None

    def fault(self) -> str:
        """What Google says to a schema that it cannot use."""
        schemas = [self.response_schema, self.response_json_schema]
        if schemas.count(None) == 0:
            return "Only one of response_schema and response_json_schema may be set."
        if schemas.count(None) == 1 and self.response_mime_type != "application/json":
            where = "GenerateContentRequest.generation_config.response_mime_type"
            return f"* {where}: a response schema needs the type 'application/json'\n"
        return ""


class _Request(msgspec.Struct, gc=False, rename="camel"):
    contents: list[_Content]
    system_instruction: _Content | None = None
    generation_config: _Config | None = None


_decode = msgspec.json.Decoder(_Request).decode


class GenerateContent:
    """`POST /v1beta/models/MODEL:generateContent`, or `:streamGenerateContent?alt=sse`"""

    dialect = GEMINI

    def __init__(self, model: str, *, stream: bool) -> None:
        self._model = model
        self._stream = stream

    def parse(self, body: bytes) -> Asked:
        """What is asked, or why it cannot be."""
        try:
            request = _decode(body)
        except msgspec.ValidationError as error:
            what, place = place_of(error)
            raise Unacceptable(f"Invalid JSON payload received. {what} at '{place or 'body'}'") from None
        except msgspec.DecodeError as error:
            raise Unacceptable(f"Invalid JSON payload received. {error}") from None
        if not request.contents or not all(content.parts for content in request.contents):
            raise Unacceptable("* GenerateContentRequest.contents: contents is not specified\n")
        config = request.generation_config or _Config()
        if fault := config.fault():
            raise Unacceptable(fault)
        opening, turn = _opened(request.contents)
        system = request.system_instruction.words if request.system_instruction else ""
        return Asked(
            model=self._model,
            chars=len(system) + sum(len(content.words) for content in request.contents),
            last_text=request.contents[-1].words,
            opening=opening,
            turn=turn,
            max_tokens=config.max_output_tokens,
            stream=self._stream,
            choices=config.candidate_count or 1,
        )

    def body(self, asked: Asked, reply: Reply) -> bytes:
        """The answer in one piece."""
        return _json(_answer(asked, reply, reply.text, _FINISH[reply.finish]))

    def events(self, asked: Asked, reply: Reply) -> list[Event]:
        """The answer as a stream of small ones; the last has the reason to finish."""
        pieces = reply.weighed() or [("", 0)]
        found = [Event(data(_answer(asked, reply, text, None)), weight) for text, weight in pieces[:-1]]
        last, weight = pieces[-1]
        return [*found, Event(data(_answer(asked, reply, last, _FINISH[reply.finish])), weight)]


def _answer(asked: Asked, reply: Reply, text: str, finish: str | None) -> dict[str, Any]:
    given = tokens_of(asked.chars)
    content = {"parts": [{"text": text}], "role": "model"}
    candidates: list[dict[str, Any]] = [
        {"content": content, "index": index} | ({"finishReason": finish} if finish else {})
        for index in range(asked.choices)
    ]
    usage = {"promptTokenCount": given, "totalTokenCount": given + reply.output_tokens}
    if finish:
        usage["candidatesTokenCount"] = reply.output_tokens
    return {
        "candidates": candidates,
        "usageMetadata": usage,
        "modelVersion": asked.model,
        "responseId": reply.id,
    }
