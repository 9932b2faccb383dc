"""Gemini: generateContent, streamGenerateContent, and its errors. They name quotas in the body; there are no limit headers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headway.fake.apis.answer_format import AnswerFormat, format_or_text
from headway.fake.apis.api_request import ApiRequest, InvalidRequest, tokens_of
from headway.fake.apis.attached_media import gemini_tokens, media_of
from headway.fake.apis.error_dialects import ApiKeyErrors, ErrorResponse
from headway.fake.apis.message_content import MaxTokens, error_place
from headway.fake.apis.reply import ModelReply, StreamEvent, sse_data
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


class GeminiErrors(ApiKeyErrors):
    """Gemini's errors."""

    name = "gemini"
    request_id_header = ""  # The body has a `responseId` instead.
    charge = "used"

    def key_in(self, headers: Mapping[str, str]) -> str:
        """Gemini's own header. A key in the URL is ignored: it does not belong there."""
        return headers.get("x-goog-api-key", "")

    def error(self, code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
        """The error object."""
        error: dict[str, Any] = {"code": code, "message": message, "status": status}
        return {"error": error | ({"details": list(details)} if details else {})}

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429 with the quota and a retry delay; 503 for too many at once."""
        if refusal.reason == "concurrency":
            return self.server_error(503, "")
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

    def invalid(self, why: InvalidRequest, _request_id: str) -> ErrorResponse:
        """400."""
        return 400, _json(self.error(400, "INVALID_ARGUMENT", why.message))

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."
        return 400, _json(self.error(400, "INVALID_ARGUMENT", message))

    def content_blocked(self, request_id: str) -> ErrorResponse:
        """200 with a block reason and no candidates."""
        ratings = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH"}]
        feedback = {
            "promptFeedback": {"blockReason": "SAFETY", "safetyRatings": ratings},
            "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
            "modelVersion": "fake",
            "responseId": request_id,
        }
        return 200, _json(feedback)

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
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

    def window_closed(self, _claim: str, wait_s: float, _wall: float, request_id: str) -> ErrorResponse:
        """The limit of a day: there are no subscriptions."""
        return self.refused(Refusal("rpd", 1, 1, 1, wait_s), "the model", request_id)

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """429 with a limit of 0."""
        return 429, _json(self._exhausted(*_QUOTAS["rpd"], 0, 30.0, "gemini"))

    def unknown_path(self, _method: str, path: str, _request_id: str) -> ErrorResponse:
        """404."""
        return 404, _json(self.error(404, "NOT_FOUND", f"{path} is not found for API version v1beta."))

    def server_error(self, status: int, request_id: str) -> ErrorResponse:
        """5xx; 503 stands for 529."""
        status = 503 if status == 529 else status
        return status, _json(self.server_error_event(status, request_id))

    def server_error_event(self, status: int, _request_id: str) -> dict[str, Any]:
        """The same error as an event of a stream."""
        if status >= 503:
            return self.error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
        return self.error(500, "INTERNAL", "An internal error has occurred. Please retry or report.")


GEMINI = GeminiErrors()


class _GeminiPart(msgspec.Struct, gc=False):
    text: str | None = None
    inlineData: dict[str, Any] | None = None
    fileData: dict[str, Any] | None = None


class _GeminiContent(msgspec.Struct, gc=False):
    parts: list[_GeminiPart]
    role: str = "user"

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text)


def _media_chars(contents: list[_GeminiContent]) -> int:
    """The characters that images and documents count as. Each of them gets a text that says what it is."""
    chars = 0
    for part in (part for content in contents for part in content.parts if part.text is None):
        media = media_of(msgspec.structs.asdict(part), gemini_tokens)
        if media is not None:
            part.text = media.text
            chars += media.chars
    return chars


def _conversation_so_far(contents: list[_GeminiContent]) -> tuple[str | None, int]:
    """All texts of the user in a conversation of several contents, and the number of its answers."""
    if len(contents) == 1:
        return None, 0
    said = "\n".join(content.text for content in contents if content.role == "user")
    return said, sum(content.role == "model" for content in contents)


class _GenerationConfig(msgspec.Struct, gc=False, rename="camel"):
    max_output_tokens: MaxTokens | None = None
    candidate_count: MaxTokens | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None

    def fault(self) -> str:
        """Google's message for a schema that it cannot use; "" for a good one."""
        schemas = [self.response_schema, self.response_json_schema]
        if schemas.count(None) == 0:
            return "Only one of response_schema and response_json_schema may be set."
        if schemas.count(None) == 1 and self.response_mime_type != "application/json":
            where = "GenerateContentRequest.generation_config.response_mime_type"
            return f"* {where}: a response schema needs the type 'application/json'\n"
        return ""

    def wanted(self) -> AnswerFormat | None:
        """The JSON that is wanted; None: any text."""
        if self.response_mime_type != "application/json":
            return None
        return AnswerFormat(self.response_json_schema or self.response_schema)


class _GenerateContentRequest(msgspec.Struct, gc=False, rename="camel"):
    contents: list[_GeminiContent]
    system_instruction: _GeminiContent | None = None
    generation_config: _GenerationConfig | None = None


_decode = msgspec.json.Decoder(_GenerateContentRequest).decode


class GenerateContent:
    """`POST /v1beta/models/MODEL:generateContent`, or `:streamGenerateContent?alt=sse`"""

    dialect = GEMINI

    def __init__(self, model: str, *, stream: bool) -> None:
        self._model = model
        self._stream = stream

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        try:
            request = _decode(body)
        except msgspec.ValidationError as error:
            what, place = error_place(error)
            raise InvalidRequest(f"Invalid JSON payload received. {what} at '{place or 'body'}'") from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"Invalid JSON payload received. {error}") from None
        if not request.contents or not all(content.parts for content in request.contents):
            raise InvalidRequest("* GenerateContentRequest.contents: contents is not specified\n")
        config = request.generation_config or _GenerationConfig()
        if fault := config.fault():
            raise InvalidRequest(fault)
        more = _media_chars(request.contents)
        said, turn = _conversation_so_far(request.contents)
        system = request.system_instruction.text if request.system_instruction else ""
        return ApiRequest(
            model=self._model,
            chars=len(system) + sum(len(content.text) for content in request.contents) + more,
            last_text=request.contents[-1].text,
            said=said,
            turn=turn,
            max_tokens=config.max_output_tokens,
            stream=self._stream,
            choices=config.candidate_count or 1,
            wanted=format_or_text(config.wanted(), system),
        )

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        return _json(_answer(request, reply, reply.text, _FINISH[reply.finish]))

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as a stream; the last event has the finish reason."""
        pieces = reply.pieces_with_tokens() or [("", 0)]
        events = [
            StreamEvent(sse_data(_answer(request, reply, text, None)), weight) for text, weight in pieces[:-1]
        ]
        last, weight = pieces[-1]
        return [*events, StreamEvent(sse_data(_answer(request, reply, last, _FINISH[reply.finish])), weight)]


def _answer(request: ApiRequest, reply: ModelReply, text: str, finish: str | None) -> dict[str, Any]:
    input_tokens = tokens_of(request.chars)
    content = {"parts": [{"text": text}], "role": "model"}
    candidates: list[dict[str, Any]] = [
        {"content": content, "index": index} | ({"finishReason": finish} if finish else {})
        for index in range(request.choices)
    ]
    usage = {"promptTokenCount": input_tokens, "totalTokenCount": input_tokens + reply.output_tokens}
    if finish:
        usage["candidatesTokenCount"] = reply.output_tokens
    return {
        "candidates": candidates,
        "usageMetadata": usage,
        "modelVersion": request.model,
        "responseId": reply.id,
    }
