"""A key that an SDK sends is in none of our logs and errors, even if the provider quotes it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.providers.wire import http, serving

import headway
from headway import UnitError

#: Of no known form, and not in the environment: only the request tells that it is a key.
SECRET = "Zq8vT3mLw0Xk9Rb2+Nc7Yp4Hd6Jf1Gs5A"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
QUERY = "?key=Zq8vT3mLw0Xk9Rb2%2BNc7Yp4Hd6Jf1Gs5A"
COOKIE = {"Cookie": f"theme=dark; session={SECRET}"}


def refusal(text: str) -> bytes:
    error = {
        "message": f"Rate limit reached for {text}. Please try again in 95s.",
        "code": "rate_limit_exceeded",
    }
    return http({"error": error}, 429, retry_after="95")


async def post(client: Any, url: str, headers: dict[str, str]) -> str:
    """Everything of ours that the caller of a request sees."""
    try:
        await client.post(url, json=BODY, headers=headers)
    except UnitError as error:
        return f"{error} {error.__cause__!r}"
    return ""


@pytest.mark.parametrize("quoted", [SECRET, SECRET.replace("+", "%2b"), SECRET[:24]])
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"Authorization": f"Bearer {SECRET}"}, ""),
        ({"x-api-key": SECRET}, ""),
        ({}, QUERY),
        (COOKIE, ""),
    ],
    ids=["bearer", "header", "query", "cookie"],
)
async def test_a_refusal_that_quotes_the_key(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str], query: str, quoted: str
) -> None:
    caplog.set_level(logging.DEBUG, "headway")
    async with serving(refusal(quoted)) as server, headway.httpx_client(max_hold="10s") as client:
        url = f"{server.url}/v1/chat/completions{query}"
        errors = [await post(client, url, headers) for _ in range(2)]
    assert "Rate limit reached for ***" in caplog.text
    assert "Rate limit reached for ***" in errors[1]
    assert SECRET[:16] not in caplog.text + "".join(errors)


async def test_a_stream_that_quotes_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "headway")
    event = f'data: {{"error": {{"message": "Rate limit reached for {SECRET}. Please try again in 95s.", "code": "rate_limit_exceeded"}}}}\n\n'
    answer = http(event.encode(), 200, content_type="text/event-stream")
    async with serving(answer) as server, headway.httpx_client(max_hold="10s") as client:
        url = f"{server.url}/v1/chat/completions"
        await post(client, url, {"Authorization": f"Bearer {SECRET}"})
    assert "Rate limit reached for ***" in caplog.text
    assert SECRET[:16] not in caplog.text
