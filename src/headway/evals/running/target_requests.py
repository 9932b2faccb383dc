"""The requests of an eval: chats and embeddings in the format of each provider's API, by the same code as a batch's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from headway.batch.rows import RESPONSES, BadRow, Row, from_fields, parse
from headway.config import KINDS
from headway.config.kinds.eval_programs import EVAL_PROGRAMS
from headway.config.routing import Router, Target
from headway.config.settings import ProviderConfig
from headway.errors import UsageError
from headway.evals.programs.program_requests import PATH as PROGRAM_PATH
from headway.evals.programs.program_requests import program_request, program_version
from headway.evals.spec import EvalEndpoint

#: Keys of options that a row would take as its own.
_OF_ROWS: Final = frozenset(
    {"id", "custom_id", "prompt", "messages", "input", "model", "metadata", "priority", "serial", "conversation",
     "store_as", "attachments", "url", "body"}
)  # fmt: skip
_PROGRAMS: Final = frozenset(kind.name for kind in EVAL_PROGRAMS)
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function", "model"})


class SentRequest(NamedTuple):
    """A request that can be sent. `chars` is the length of its input."""

    path: str
    body: bytes
    chars: int
    max_tokens: int = 0


class OneTarget:
    """A router that knows one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.takes_any_row = KINDS[target.kind].takes_any_row

    def route(self, model: str | None) -> Target:
        return self._target

    def check_row(self, target: Target, payload: object) -> None:
        """Its row has a prompt, and no settings of its own."""


def target_request(
    target: Target, endpoint: EvalEndpoint, prompt: str | Sequence[Any], options: Mapping[str, Any]
) -> SentRequest:
    """A prompt for an endpoint of a provider."""
    if endpoint == "embeddings":
        return embedding_request(target, [_as_text(prompt)], options)
    if endpoint == "responses":
        return _response_request(target, prompt, options)
    return chat_request(target, prompt, options)


def _as_text(prompt: str | Sequence[Any]) -> str:
    return prompt if isinstance(prompt, str) else msgspec.json.encode(prompt).decode()


def _response_request(target: Target, prompt: str | Sequence[Any], options: Mapping[str, Any]) -> SentRequest:
    """A request to OpenAI's Responses API."""
    body = {"model": target.model, "input": prompt, **options}
    line = msgspec.json.encode({"custom_id": "-", "method": "POST", "url": RESPONSES, "body": body})
    return _checked(parse(1, line, cast(Router, OneTarget(target))))


def chat_request(target: Target, prompt: str | Sequence[Any], options: Mapping[str, Any]) -> SentRequest:
    """A prompt (one user message) or the messages of a chat. Raises UsageError if the API cannot take them."""
    router = OneTarget(target)
    fields: dict[str, Any] = {key: value for key, value in options.items() if key not in _OF_ROWS}
    if router.takes_any_row:
        return _sent(router, target, {"prompt": _as_text(prompt)})
    elif isinstance(prompt, str):
        fields["prompt"] = prompt or " "  # An empty prompt is no message.
    else:
        fields["messages"] = list(prompt)
    return _with_row_words(_sent(router, target, fields), options)


def embedding_request(target: Target, texts: Sequence[str], options: Mapping[str, Any]) -> SentRequest:
    """Texts to embed."""
    fields = {key: value for key, value in options.items() if key not in _OF_ROWS}
    request = _sent(OneTarget(target), target, {**fields, "input": list(texts)})
    return _with_row_words(request, options)


def _with_row_words(request: SentRequest, options: Mapping[str, Any]) -> SentRequest:
    """A request with the parameters that a row would have taken as its own, such as `metadata`."""
    more = {key: value for key, value in options.items() if key in _OF_ROWS}
    if not more:
        return request
    body = {**msgspec.json.decode(request.body), **more}
    return request._replace(body=msgspec.json.encode(body))


def _sent(router: OneTarget, target: Target, fields: dict[str, Any]) -> SentRequest:
    return _checked(from_fields(1, {"model": target.model, **fields}, cast(Router, router)))


def _checked(row: Row | BadRow) -> SentRequest:
    if isinstance(row, BadRow):
        raise UsageError(row.message)
    return SentRequest(row.path, row.body, row.chars, int(row.max_tokens))


def is_program(kind: str) -> bool:
    """Whether a kind of provider is a program or an address that only a configuration brings."""
    return kind in _PROGRAMS


class ProgramRequests:
    """Makes the requests of one provider that is a program or an address of the configuration."""

    def __init__(self, provider: ProviderConfig) -> None:
        self._version = program_version(provider)

    def request(self, prompt: str, around: Mapping[str, Any]) -> SentRequest:
        """`around`: what a script is told besides the prompt."""
        body = program_request(prompt, dict(around), self._version)
        return SentRequest(PROGRAM_PATH, body, len(body))


def messages_in(text: str) -> str | list[Any]:
    """The messages that a rendered prompt is, as JSON or YAML; otherwise the text itself."""
    start = text.lstrip()
    if start.startswith("["):
        try:
            value = msgspec.json.decode(start)
        except msgspec.DecodeError:
            return text
        return value if _are_messages(value) else text
    if start.startswith("- role:"):
        return _yaml_messages(text)
    return text


def _yaml_messages(text: str) -> str | list[Any]:
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if _are_messages(value) else text


def _are_messages(value: Any) -> bool:
    """Whether a value is a list of messages with roles."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and one.get("role") in _ROLES for one in value)
    )


def prompt_of(body: bytes) -> str:
    """The prompt of a request as it was sent: a text, or its messages as JSON."""
    try:
        request = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")
    if not isinstance(request, dict):
        return body.decode(errors="replace")
    if isinstance(request.get("prompt"), str):
        return str(request["prompt"])
    messages = request.get("messages") or request.get("contents")
    if not messages:
        return msgspec.json.encode(request.get("input", request)).decode()
    system = request.get("system") or request.get("systemInstruction")
    if len(messages) == 1 and not system and messages[0].get("role") == "user":
        own = _text_of(messages[0])
        if own is not None:
            return own
    told = [{"role": "system", "content": system}, *messages] if system else messages
    return msgspec.json.encode(told).decode()


def _text_of(message: Mapping[str, Any]) -> str | None:
    """The text of a message that is nothing else."""
    content = message.get("content", message.get("parts"))
    if isinstance(content, str):
        return content
    match content:
        case [{"text": str(text)}]:
            return text
    return None
