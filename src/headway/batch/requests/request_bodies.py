"""Converts the messages and settings of short rows to the request bodies of Gemini and Bedrock.

OpenAI's chat completions and Anthropic's messages take short rows nearly unchanged (see `rows`). Gemini and Bedrock have other
names: texts are parts, and settings are in an object of their own. Unknown settings go into the body unchanged. A message
that cannot be converted is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headway.batch import field_checks
from headway.errors import UsageError

#: Settings of short rows → their names in Gemini's `generationConfig`.
_GENERATION: Final = {
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
#: The same for Converse's `inferenceConfig`.
_INFERENCE: Final = {
    "max_tokens": "maxTokens",
    "max_completion_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
_SYSTEM_ROLES: Final = ("system", "developer")
_IMAGE_FORMATS: Final = ("png", "jpeg", "gif", "webp")

Row = dict[str, Any]
Part = dict[str, Any]


def for_gemini(messages: list[Any], row: Row) -> Row:
    """The body of generateContent."""
    instruction, turns = _split_messages(messages, row, "Gemini", _gemini_part)
    contents = [{"role": "model" if role == "assistant" else "user", "parts": parts} for role, parts in turns]
    config = _settings(row, _GENERATION, "generationConfig") | _schema(row)
    body: Row = {"contents": contents}
    if instruction:
        body["systemInstruction"] = {"parts": instruction}
    if config:
        body["generationConfig"] = config
    return body | row


def for_converse(messages: list[Any], row: Row) -> Row:
    """The body of Converse."""
    instruction, turns = _split_messages(messages, row, "Bedrock", _converse_part)
    config = _settings(row, _INFERENCE, "inferenceConfig")
    body: Row = {"messages": [{"role": role, "content": parts} for role, parts in turns]}
    if instruction:
        body["system"] = instruction
    if config:
        body["inferenceConfig"] = config
    return body | row


def _split_messages(
    messages: list[Any], row: Row, whose: str, part_of: Any
) -> tuple[list[Part], list[tuple[str, list[Part]]]]:
    """The parts of the system prompt, and every turn with its role and parts."""
    system = row.pop("system", None)
    if system is not None and type(system) is not str:
        raise UsageError('"system" must be a string')
    instruction: list[Part] = [{"text": system}] if system else []
    turns = []
    for place, message in enumerate(messages):
        role, at = message["role"], f"messages[{place}]"
        if role not in ("user", "assistant", *_SYSTEM_ROLES) or "tool_calls" in message:
            what = f'"{role}"' if "tool_calls" not in message else "a message with tool calls"
            raise UsageError(
                f'"{at}": {what} cannot be converted for {whose}: write a Batch row with its own body'
            )
        parts = [part_of(part, f"{at}.content") for part in _content(message.get("content"), at)]
        if role in _SYSTEM_ROLES:
            instruction += parts
        else:
            turns.append((role, parts))
    if not turns:
        raise UsageError('"messages" must have one that is not a system prompt')
    return instruction, turns


def _content(content: object, at: str) -> list[Any]:
    if type(content) is str:
        return [{"type": "text", "text": content}]
    if type(content) is list and content:
        return content
    raise UsageError(f'"{at}.content" must be a string or a list of parts')


def _gemini_part(part: object, at: str) -> Part:
    """A text, or an image as data."""
    if isinstance(part, dict):
        if part.get("type", "text") == "text" and type(part.get("text")) is str:
            return {"text": part["text"]}
        image = _image(part)
        if image is not None:
            return {"inlineData": {"mimeType": image[0], "data": image[1]}}
    raise UsageError(_UNKNOWN_PART.format(at=at))


def _converse_part(part: object, at: str) -> Part:
    if isinstance(part, dict):
        if part.get("type", "text") == "text" and type(part.get("text")) is str:
            return {"text": part["text"]}
        image = _image(part)
        if image is not None and image[0].removeprefix("image/") in _IMAGE_FORMATS:
            return {"image": {"format": image[0].removeprefix("image/"), "source": {"bytes": image[1]}}}
    raise UsageError(_UNKNOWN_PART.format(at=at))


_UNKNOWN_PART: Final = '"{at}" may have text and images with a data: address; for anything else write a Batch row with its own body'


def _image(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """The type and the base64 data of an image in OpenAI's format; None if the part has no data."""
    image_url = part.get("image_url")
    address = image_url.get("url") if isinstance(image_url, dict) else image_url
    if not isinstance(address, str) or not address.startswith("data:"):
        return None
    head, mark, data = address.removeprefix("data:").partition(";base64,")
    return (head, data) if mark and head.startswith("image/") and data else None


def _settings(row: Row, names: Mapping[str, str], within: str) -> Row:
    """The settings of a row under the API's names. Settings that the row has under those names take precedence."""
    own = row.pop(within, None)
    if own is not None and type(own) is not dict:
        raise UsageError(f'"{within}" must be an object')
    config: Row = {}
    for name, theirs in names.items():
        if name in ("max_tokens", "max_completion_tokens", "n"):
            field_checks.whole(row, name, "")
        value = row.pop(name, None)
        if value is not None:
            config[theirs] = [value] if name == "stop" and type(value) is str else value
    return config | (own or {})


def _schema(row: Row) -> Row:
    """OpenAI's `response_format` as settings of Gemini."""
    response_format = row.pop("response_format", None)
    if response_format is None:
        return {}
    match response_format:
        case {"type": "json_object"}:
            return {"responseMimeType": "application/json"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return {"responseMimeType": "application/json", "responseJsonSchema": schema}
        case {"type": "text"}:
            return {}
    raise UsageError('"response_format" must be of type text, json_object or json_schema')
