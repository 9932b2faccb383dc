"""`headway.ask` and `headway.aask`: one question to a configured provider, without an SDK."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any, TypedDict, TypeVar, Unpack, overload

from headway.api.asking.answer_types import AnswerType, answer_type
from headway.api.asking.provider_calls import PythonQuestion, ask_here, ask_on_loop
from headway.batch.answer_text import answer_of, decoded, text_of
from headway.config.argument_checks import brief, must_be_number, must_be_text, must_be_whole
from headway.config.call_settings import Duration, seconds
from headway.config.duration_setting import LONGEST_S
from headway.errors import UnitError, UsageError
from headway.providers.adapter import Answer

S = TypeVar("S")


class AskArguments(TypedDict, total=False):
    """The keyword arguments that `ask` and `aask` share.

    model: "MODEL" or "PROVIDER/MODEL" (default: the model of the provider in headway.toml).
    system: the system prompt.
    max_tokens: the longest answer.
    temperature: of the answer (default: the model's).
    timeout: of one attempt (default: that of headway.toml, ten minutes; 0 is none).
    config: another file than the nearest headway.toml.
    """

    model: str | None
    system: str | None
    max_tokens: int | None
    temperature: float | None
    timeout: Duration | None
    config: str | PathLike[str] | None


@overload
def ask(prompt: str, *, schema: None = None, **choices: Unpack[AskArguments]) -> str: ...
@overload
def ask(prompt: str, *, schema: type[S], **choices: Unpack[AskArguments]) -> S: ...
@overload
def ask(prompt: str, *, schema: Any, **choices: Unpack[AskArguments]) -> Any: ...
def ask(prompt: str, *, schema: Any = None, **choices: Unpack[AskArguments]) -> Any:
    """Ask one question of a provider in headway.toml, and return the text of the answer.

    With `schema` (a Pydantic model, a dataclass, a msgspec struct, or a JSON Schema as a dict) the answer is an instance of it,
    or what the JSON Schema describes. An answer that does not fit is requested once more, with what is wrong.

    All calls of a process share lanes and connections. A call that meets a rate limit waits, and is tried again. If there is no
    answer in the end, `headway.UnitError` says why.

    >>> import headway
    >>> headway.ask("Rate this review: …", model="gpt-x", schema=Review)  # doctest: +SKIP
    """
    kind, question = _question(prompt, schema, choices)
    return _value(ask_here(question), kind)


@overload
async def aask(prompt: str, *, schema: None = None, **choices: Unpack[AskArguments]) -> str: ...
@overload
async def aask(prompt: str, *, schema: type[S], **choices: Unpack[AskArguments]) -> S: ...
@overload
async def aask(prompt: str, *, schema: Any, **choices: Unpack[AskArguments]) -> Any: ...
async def aask(prompt: str, *, schema: Any = None, **choices: Unpack[AskArguments]) -> Any:
    """`ask` on an event loop: many questions at once with `asyncio.gather`.

    >>> import headway
    >>> await asyncio.gather(*(headway.aask(text, schema=Review) for text in texts))  # doctest: +SKIP
    """
    kind, question = _question(prompt, schema, choices)
    return _value(await ask_on_loop(question), kind)


def _question(prompt: str, schema: Any, choices: AskArguments) -> tuple[AnswerType | None, PythonQuestion]:
    for name in sorted(set(choices) - AskArguments.__annotations__.keys()):
        raise TypeError(
            f"there is no argument '{name}': {', '.join(sorted(AskArguments.__annotations__))}, schema"
        )
    given: object = prompt
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"prompt is {brief(prompt)}", hint="it is a text that is not empty")
    kind = None if schema is None else answer_type(schema)
    fields: dict[str, Any] = {"prompt": prompt}
    for name in ("model", "system"):
        must_be_text(choices.get(name), name, "it is a text")
        fields[name] = choices.get(name)
    if (most := choices.get("max_tokens")) is not None:
        must_be_whole(most, "max_tokens", 1, "it is a whole number above 0")
        fields["max_tokens"] = most
    if (temperature := choices.get("temperature")) is not None:
        must_be_number(temperature, "temperature", "it is a number")
        fields["temperature"] = temperature
    timeout = choices.get("timeout")
    timeout_s = None if timeout is None else seconds(timeout, "timeout") or LONGEST_S
    config = choices.get("config")
    return kind, PythonQuestion(fields, kind, timeout_s, None if config is None else os.fspath(config))


def _value(answer: Answer, kind: AnswerType | None) -> Any:
    if kind is None:
        return answer_of(answer.body)
    text = text_of(decoded(answer.body))
    if text is None:
        raise UnitError("invalid", "the answer has no text")
    return kind.parse(text)
