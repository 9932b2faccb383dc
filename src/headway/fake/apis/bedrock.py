"""Bedrock: Converse, Invoke with Claude's own body, and AWS's errors, whose type is in a header."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headway.fake.apis import aws_signature
from headway.fake.apis.answer_format import AnswerFormat, format_or_text
from headway.fake.apis.api_request import ApiRequest, InvalidRequest, tokens_of
from headway.fake.apis.attached_media import anthropic_tokens
from headway.fake.apis.aws_frames import event_frame
from headway.fake.apis.error_dialects import ErrorResponse, SignedRequest, bearer
from headway.fake.apis.message_content import (
    Content,
    MaxTokens,
    RequestMetadata,
    conversation_so_far,
    error_place,
    media_chars,
    text_of,
    unit_name,
)
from headway.fake.apis.messages import Messages
from headway.fake.apis.reply import ModelReply, StreamEvent
from headway.fake.limits.accounts import Refusal

_json: Callable[[object], bytes] = msgspec.json.Encoder().encode
_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use"}
_ERRORS = "http://internal.amazon.com/coral/com.amazon.bedrock/"
_TOO_MANY = {
    "rpm": "requests",
    "rpd": "requests per day",
    "tpm": "tokens",
    "tpd": "tokens per day",
    "itpm": "tokens",
    "otpm": "tokens",
    "concurrency": "connections",
}


class BedrockErrors:
    """Bedrock's errors."""

    name = "bedrock"
    request_id_header = "x-amzn-RequestId"
    charge = "settle"

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The access key of a signature, or a Bedrock API key."""
        return bearer(headers) or aws_signature.key_in(headers)

    def signature_error(self, request: SignedRequest, body: bytes, secret: str) -> ErrorResponse | None:
        """403 for a missing or wrong signature. A Bedrock API key needs none."""
        fault = (
            ""
            if bearer(request.headers)
            else aws_signature.signature_fault(request, body, secret, time.time())
        )
        return self.error(403, "InvalidSignatureException", fault) if fault else None

    def error(self, status: int, type_: str, message: str) -> ErrorResponse:
        """An error: its type in a header, its message in the body."""
        return status, _json({"message": message}), {"x-amzn-ErrorType": f"{type_}:{_ERRORS}"}

    def refused(self, refusal: Refusal, model: str, _request_id: str) -> ErrorResponse:
        """429 without a time to retry."""
        what = _TOO_MANY[refusal.reason]
        return self.error(429, "ThrottlingException", f"Too many {what}, please wait before trying again.")

    def invalid(self, why: InvalidRequest, _request_id: str) -> ErrorResponse:
        """400."""
        return self.error(400, "ValidationException", why.message)

    def context_exceeded(self, tokens: int, most: int, _request_id: str) -> ErrorResponse:
        """400."""
        return self.error(400, "ValidationException", "Input is too long for requested model.")

    def content_blocked(self, _request_id: str) -> ErrorResponse:
        """400."""
        message = "This request has been blocked by our content filters."
        return self.error(400, "ValidationException", message)

    def unauthorized(self, key: str, _request_id: str) -> ErrorResponse:
        """403."""
        if not key:
            return self.error(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
        message = "The security token included in the request is invalid."
        return self.error(403, "UnrecognizedClientException", message)

    def window_closed(self, _claim: str, wait_s: float, _wall: float, request_id: str) -> ErrorResponse:
        """The limit of a day: there are no subscriptions."""
        return self.refused(Refusal("rpd", 1, 1, 1, wait_s), "the model", request_id)

    def quota_exhausted(self, _request_id: str) -> ErrorResponse:
        """400."""
        message = "Your request exceeds the service quota for your account."
        return self.error(400, "ServiceQuotaExceededException", message)

    def unknown_path(self, _method: str, path: str, _request_id: str) -> ErrorResponse:
        """404."""
        return self.error(404, "UnknownOperationException", f"Unknown operation {path}")

    def server_error(self, status: int, _request_id: str) -> ErrorResponse:
        """500 or 503."""
        if status >= 503:
            return self.error(
                503, "ServiceUnavailableException", "Bedrock is unable to process your request."
            )
        message = "The system encountered an unexpected error during processing. Try your request again."
        return self.error(500, "InternalServerException", message)

    def server_error_event(self, status: int, _request_id: str) -> dict[str, Any]:
        """The same error as an event."""
        return {"message": f"Bedrock is unable to process your request ({status})."}


BEDROCK = BedrockErrors()


class _ConverseMessage(msgspec.Struct, gc=False):
    role: str
    content: Content


class _InferenceConfig(msgspec.Struct, gc=False, rename="camel"):
    max_tokens: MaxTokens | None = None


class _InputSchema(msgspec.Struct, gc=False):
    json: dict[str, Any]


class _ToolSpec(msgspec.Struct, gc=False, rename="camel"):
    name: str
    input_schema: _InputSchema


class _Tool(msgspec.Struct, gc=False, rename="camel"):
    tool_spec: _ToolSpec | None = None


class _ChosenTool(msgspec.Struct, gc=False):
    name: str


class _ToolChoice(msgspec.Struct, gc=False):
    auto: dict[str, Any] | None = None
    any: dict[str, Any] | None = None
    tool: _ChosenTool | None = None


class _ToolConfig(msgspec.Struct, gc=False, rename="camel"):
    tools: list[_Tool]
    tool_choice: _ToolChoice | None = None

    def forced_tool(self) -> _ToolSpec | None:
        """The tool that the answer must use."""
        specs = [tool.tool_spec for tool in self.tools if tool.tool_spec is not None]
        for place, spec in enumerate(specs):
            if spec.input_schema.json.get("type") != "object":
                raise InvalidRequest(
                    f"The value at toolConfig.tools.{place}.toolSpec.inputSchema.json.type must be one of the following: object."
                )
        chosen = self.tool_choice
        if chosen is None or (chosen.any is None and chosen.tool is None) or not specs:
            return None
        name = specs[0].name if chosen.tool is None else chosen.tool.name
        forced = next((spec for spec in specs if spec.name == name), None)
        if forced is None:
            raise InvalidRequest(f"The tool {name} of toolConfig.toolChoice is not in toolConfig.tools.")
        return forced


class _ConverseRequest(msgspec.Struct, gc=False, rename="camel"):
    messages: list[_ConverseMessage]
    system: Content = None
    inference_config: _InferenceConfig | None = None
    request_metadata: RequestMetadata | None = None
    tool_config: _ToolConfig | None = None


_decode = msgspec.json.Decoder(_ConverseRequest).decode


class Converse:
    """`POST /model/MODEL/converse`, or `/converse-stream`"""

    dialect = BEDROCK

    def __init__(self, model: str, *, stream: bool = False) -> None:
        self._model = model
        self._stream = stream

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        try:
            request = _decode(body)
        except msgspec.ValidationError as error:
            what, place = error_place(error)
            raise InvalidRequest(
                f"1 validation error detected: Value at '{place or 'body'}': {what}"
            ) from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"The request body is not valid JSON: {error}") from None
        if not request.messages or any(isinstance(one.content, str) for one in request.messages):
            raise InvalidRequest(
                "1 validation error detected: Value at 'messages' must be a list of messages with blocks"
            )
        config = request.inference_config or _InferenceConfig()
        more = media_chars((one.content for one in request.messages), anthropic_tokens)
        said, turn = conversation_so_far(request.messages)
        system = text_of(request.system)
        forced = request.tool_config.forced_tool() if request.tool_config else None
        return ApiRequest(
            model=self._model,
            chars=len(system) + sum(len(text_of(one.content)) for one in request.messages) + more,
            last_text=text_of(request.messages[-1].content),
            said=said,
            turn=turn,
            extra=forced.name if forced else "",
            max_tokens=config.max_tokens,
            stream=self._stream,
            unit=unit_name(request.request_metadata, None),
            wanted=format_or_text(AnswerFormat(forced.input_schema.json) if forced else None, system),
        )

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        message = {"role": "assistant", "content": [_block(request, reply)]}
        return _json({"output": {"message": message}, **_stop(request, reply), **_metadata(request, reply)})

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as a stream. The input of a tool comes in pieces of JSON."""
        frames = [StreamEvent(event_frame("messageStart", {"role": "assistant"}))]
        pieces: list[tuple[dict[str, Any], int]] = [
            ({"text": text}, tokens) for text, tokens in reply.pieces_with_tokens()
        ]
        if request.extra:
            tool = _block(request, reply)["toolUse"]
            pieces = [({"toolUse": {"input": _json(tool.pop("input")).decode()}}, reply.output_tokens)]
            start = {"start": {"toolUse": tool}, "contentBlockIndex": 0}
            frames.append(StreamEvent(event_frame("contentBlockStart", start)))
        for delta, tokens in pieces:
            event = {"delta": delta, "contentBlockIndex": 0}
            frames.append(StreamEvent(event_frame("contentBlockDelta", event), tokens))
        frames.append(StreamEvent(event_frame("contentBlockStop", {"contentBlockIndex": 0})))
        frames.append(StreamEvent(event_frame("messageStop", _stop(request, reply))))
        return [*frames, StreamEvent(event_frame("metadata", _metadata(request, reply)))]


def _stop(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    uses_tool = request.extra and reply.finish == "stop"
    return {"stopReason": "tool_use" if uses_tool else _FINISH[reply.finish]}


def _metadata(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    input_tokens = tokens_of(request.chars)
    return {
        "metrics": {"latencyMs": 1},
        "usage": {
            "inputTokens": input_tokens,
            "outputTokens": reply.output_tokens,
            "totalTokens": input_tokens + reply.output_tokens,
            "cacheReadInputTokens": 0,
            "cacheWriteInputTokens": 0,
        },
    }


def _block(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    """The text. If a tool must be used: its input, which is the text as JSON, or an object with the text."""
    if not request.extra:
        return {"text": reply.text}
    try:
        arguments = msgspec.json.decode(reply.text)
    except msgspec.DecodeError:  # Cut off, or no JSON.
        arguments = {} if reply.finish == "length" else {"text": reply.text}
    arguments = arguments if isinstance(arguments, dict) else {"value": arguments}
    return {"toolUse": {"toolUseId": f"tooluse_{reply.id}", "name": request.extra, "input": arguments}}


class Invoke(Converse):
    """`POST /model/MODEL/invoke` with Claude's own body: Anthropic's Messages without a model."""

    def __init__(self, model: str, messages: Messages) -> None:
        super().__init__(model)
        self._messages = messages

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        if not body.lstrip().startswith(b"{"):
            raise InvalidRequest("The request body is not valid JSON")
        return self._messages.parse(b'{"model":' + _json(self._model) + b"," + body.lstrip()[1:])

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        return self._messages.body(request, reply)
