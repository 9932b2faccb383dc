"""A program that uses an SDK as its users do, over `headway.httpx_client()`, in its own process for the benchmark.

It reads a file with a `Calls` in JSON, makes all calls at once, and prints the result. Requests and responses of the SDK are
counted by hooks of the client: one request per call means that the SDK itself retried nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

import headway


class Calls(msgspec.Struct):
    """The calls and their target. Without `limits` they are learned."""

    kind: Literal["openai", "anthropic"]
    url: str
    key: str
    streamed: bool
    limits: dict[str, float]
    bodies: list[dict[str, Any]]
    echoes: list[str]


class CallerResult(msgspec.Struct):
    """The result, as the SDK and its caller saw it."""

    ok: int = 0
    wrong: int = 0
    errors: dict[str, int] = {}
    sends: int = 0
    refused: int = 0


def _openai(calls: Calls, client: Any) -> Callable[[dict[str, Any]], Awaitable[str]]:
    import openai

    api = openai.AsyncOpenAI(api_key=calls.key, base_url=f"{calls.url}/v1", http_client=client, max_retries=0)

    async def plain(body: dict[str, Any]) -> str:
        answer = await api.chat.completions.create(model="model", **body)
        return str(answer.choices[0].message.content)

    async def streamed(body: dict[str, Any]) -> str:
        stream = await api.chat.completions.create(model="model", stream=True, **body)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    return streamed if calls.streamed else plain


def _anthropic(calls: Calls, client: Any) -> Callable[[dict[str, Any]], Awaitable[str]]:
    import anthropic

    api = anthropic.AsyncAnthropic(api_key=calls.key, base_url=calls.url, http_client=client, max_retries=0)

    async def plain(body: dict[str, Any]) -> str:
        answer = await api.messages.create(model="model", **body)
        return str(answer.content[0].text)

    async def streamed(body: dict[str, Any]) -> str:
        async with api.messages.stream(model="model", **body) as stream:
            return str(await stream.get_final_text())

    return streamed if calls.streamed else plain


async def main(calls: Calls) -> CallerResult:
    """Make all calls."""
    result = CallerResult()
    errors: Counter[str] = Counter()

    async def sent(_request: Any) -> None:
        result.sends += 1

    async def answered(response: Any) -> None:
        result.refused += response.status_code == 429

    limits = headway.Limits(**calls.limits) if calls.limits else None  # type: ignore[arg-type]  # All are numbers.
    hooks = {"request": [sent], "response": [answered]}
    async with headway.httpx_client(limits=limits, event_hooks=hooks) as client:
        ask = (_openai if calls.kind == "openai" else _anthropic)(calls, client)

        async def one(body: dict[str, Any], echo: str) -> None:
            try:
                text = await ask(body)
            except Exception as error:
                errors[type(error).__name__] += 1
                return
            result.ok += text == echo
            result.wrong += text != echo

        await asyncio.gather(*map(one, calls.bodies, calls.echoes))
    result.errors = dict(errors)
    return result


if __name__ == "__main__":
    import uvloop

    calls = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Calls)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(msgspec.json.encode(runner.run(main(calls))).decode())
