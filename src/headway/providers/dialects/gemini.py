"""Gemini's dialect: generateContent, and streamGenerateContent where streams are wanted.

Pure: the form of requests, the usage of answers, and how streamed chunks become the body that the unstreamed
call gives. The key goes into a header, never into the address. The transport is `http.http_adapter`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from yarl import URL

from headway.core.model import Usage
from headway.providers.dialects.addresses import address_of
from headway.providers.dialects.answer_errors import StreamedError
from headway.providers.dialects.lenient_json import AnyObject, counts, encoded, index_of, mapping, objects
from headway.providers.dialects.part_counter import PartCounter
from headway.providers.dialects.sse import Draft, SseDraft, SseEvent, event_object

#: The version of the API that rows are written for. An address may end with another version.
VERSION: Final = "v1beta"
_VERSIONS: Final = ("/v1beta", "/v1alpha", "/v1")
_PLAIN: Final = ":generateContent"
_STREAMED: Final = ":streamGenerateContent?alt=sse"

Count = Annotated[float, msgspec.Meta(ge=0)]
Message = dict[str, Any]


# -- answers ------------------------------------------------------------------------------------------------------


class _GeminiUsage(msgspec.Struct, gc=False, rename="camel"):
    """Thoughts count as output, results of tools as input; cached tokens are part of the prompt."""

    prompt_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    total_token_count: Count | None = None

    def counted(self) -> Usage | None:
        """The usage; None if nothing was counted. Zeros are left out, but no prompt has 0 tokens, and without an output the
        total is the input.
        """
        counts_in = (self.prompt_token_count, self.tool_use_prompt_token_count)
        counts_out = (self.candidates_token_count, self.thoughts_token_count)
        if (*counts_in, *counts_out) == (None,) * 4:
            return None
        tokens_in = (self.prompt_token_count or 0.0) + (self.tool_use_prompt_token_count or 0.0)
        tokens_out = (self.candidates_token_count or 0.0) + (self.thoughts_token_count or 0.0)
        cached = min(self.cached_content_token_count or 0.0, tokens_in)
        hidden_output = counts_out == (None, None) and (self.total_token_count or 0.0) > tokens_in
        return Usage(tokens_in, tokens_out, cached, partial=self.prompt_token_count is None or hidden_output)


class _PromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class GeminiAnswer(msgspec.Struct, gc=False, kw_only=True, rename="camel"):
    """An answer has candidates, or the reason why it has none."""

    candidates: list[AnyObject] = []
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: _GeminiUsage | None = None
    failure: AnyObject | None = msgspec.field(default=None, name="error")

    def __post_init__(self) -> None:
        if not self.candidates and self.error is None:
            raise ValueError("neither candidates nor a reason why there are none")

    @property
    def error(self) -> object | None:
        """Its error, or that its prompt was blocked."""
        if self.failure is not None:
            return self.failure
        blocked = self.prompt_feedback is not None and self.prompt_feedback.block_reason
        return self.prompt_feedback if blocked and not self.candidates else None

    def counted(self) -> Usage | None:
        """The usage."""
        return None if self.usage_metadata is None else self.usage_metadata.counted()


# -- streams ------------------------------------------------------------------------------------------------------


class _Candidate:
    """One candidate: consecutive texts are joined, other parts are kept as they are."""

    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter
        self._fields: dict[str, Any] = {}
        self._role = "model"
        self._parts: list[dict[str, Any]] = []
        #: The texts of the last part, if it is a text.
        self._texts: list[str] = []

    @property
    def finished(self) -> bool:
        return bool(self._fields.get("finishReason"))

    def add(self, piece: dict[str, Any]) -> None:
        content = mapping(piece.get("content"))
        self._role = content.get("role") or self._role
        for part in objects(content.get("parts")):
            self._part(part)
        self._counter.update(
            self._fields, {name: value for name, value in piece.items() if name != "content"}
        )

    def _part(self, part: dict[str, Any]) -> None:
        last = self._parts[-1] if self._parts else {}
        joined = part.keys() <= {"text", "thought"} and last.keys() <= {"text", "thought"} and last
        if joined and part.get("thought") == last.get("thought"):
            self._texts.append(str(part.get("text", "")))
        else:
            self._join()
            self._counter.add_fields(1, "parts")
            self._parts.append(dict(part))

    def _join(self) -> None:
        """Join the texts of the last part."""
        if self._texts:
            last = self._parts[-1]
            last["text"] = "".join((str(last.get("text", "")), *self._texts))
            self._texts = []

    def built(self) -> dict[str, Any]:
        self._join()
        return {"content": {"parts": self._parts, "role": self._role}, **self._fields}


class ContentDraft(SseDraft):
    """An answer from its chunks. Each chunk has the form of an answer."""

    begun = True
    ended = False  # Only the end of the stream ends it.

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._candidates: dict[int, _Candidate] = {}
        self._counter = PartCounter()

    @property
    def whole(self) -> bool:
        """Whether every candidate has its finish reason."""
        return bool(self._candidates) and all(c.finished for c in self._candidates.values())

    @property
    def usage(self) -> Usage | None:
        """The usage of the last chunk."""
        usage = counts(self._top.get("usageMetadata"))
        return msgspec.convert(usage, _GeminiUsage).counted() if usage else None

    def add(self, event: SseEvent) -> None:
        """Take a chunk."""
        chunk = event_object(event)
        candidates = objects(chunk.get("candidates"))
        blocked = mapping(chunk.get("promptFeedback")).get("blockReason")
        if chunk.get("error") or (blocked and not candidates and not self._candidates):
            raise StreamedError(event.data)
        self._counter.update(
            self._top, {name: value for name, value in chunk.items() if name != "candidates"}
        )
        for candidate in candidates:
            self._candidate(index_of(candidate)).add(candidate)
            if self.on_text is not None and index_of(candidate) == 0:
                for part in objects(mapping(candidate.get("content")).get("parts")):
                    if isinstance(piece := part.get("text"), str) and piece and not part.get("thought"):
                        self.on_text(piece)

    def _candidate(self, index: int) -> _Candidate:
        candidate = self._candidates.get(index)
        if candidate is None:
            self._counter.add_part("candidates")
            candidate = self._candidates[index] = _Candidate(self._counter)
        return candidate

    def body(self) -> bytes:
        """The answer."""
        candidates = [self._candidates[index].built() for index in sorted(self._candidates)]
        return encoded({"candidates": candidates, **self._top})


# -- endpoints ----------------------------------------------------------------------------------------------------


class GenerateContentEndpoint:
    """Content."""

    name = "generated content"
    shape: type[GeminiAnswer] = GeminiAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """The same request: only the URL of a stream differs."""
        return request

    def draft(self, request: bytes) -> Draft | None:
        """The draft of its stream."""
        return ContentDraft()

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The instruction, the contents and the first candidate, each with its parts."""
        fields = mapping(request)
        system = mapping(fields.get("systemInstruction") or fields.get("system_instruction"))
        messages = [{"role": "system", "content": system["parts"]}] if system.get("parts") else []
        messages += [_message(content) for content in objects(fields.get("contents"))]
        candidates = objects(mapping(answer).get("candidates"))[:1]
        return [*messages, *(_message(mapping(candidate.get("content"))) for candidate in candidates)]


def _message(content: dict[str, Any]) -> Message:
    role = content.get("role", "user")
    return {"role": "assistant" if role == "model" else role, "content": content.get("parts")}


class _ResponseId(msgspec.Struct, gc=False, rename="camel"):
    response_id: str = ""


_CONTENT: Final = GenerateContentEndpoint()
_response_id: Final = msgspec.json.Decoder(_ResponseId).decode


class GeminiDialect:
    """The dialect of Gemini."""

    kind = "gemini"
    root = "https://generativelanguage.googleapis.com"
    request_id = "x-goog-request-id"

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """The key."""
        if key:
            yield "x-goog-api-key", key

    def address(self, base_url: str) -> str:
        """The address with its version."""
        address = address_of(base_url)
        return address if address.endswith(_VERSIONS) else f"{address}/{VERSION}"

    def url(self, root: str, path: str) -> URL:
        """The URL of a model."""
        return URL(root + path.removeprefix(f"/{VERSION}"), encoded=True)

    def stream_url(self, root: str, path: str) -> URL:
        """The URL that answers with a stream of events."""
        return self.url(root, path.removesuffix(_PLAIN) + _STREAMED)

    def endpoint(self, path: str) -> GenerateContentEndpoint:
        """There is one."""
        return _CONTENT

    def named_in(self, body: bytes) -> str:
        """The id in the answer; no header has one."""
        try:
            return _response_id(body).response_id
        except ValueError:
            return ""
