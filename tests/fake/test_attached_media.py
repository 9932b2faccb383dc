"""The fake provider reads images and documents: it counts them, echoes what they are, and refuses what is none."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.batch.attachment_files import gif, jpeg, pdf, png, webp
from tests.fake.virtual_server import CHAT, ask, serving

MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
GEMINI = "/v1beta/models/gemini-2.5:generateContent"


def data_url(data: bytes, media: str = "image/png") -> str:
    return f"data:{media};base64,{b64encode(data).decode()}"


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def chat(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    "data",
    [
        png(1024, 1024),
        jpeg(1024, 1024),
        gif(1024, 1024),
        *(webp(form, 1024, 1024) for form in ("VP8X", "VP8L", "VP8 ")),
    ],
)
async def test_every_type_of_image_is_counted_and_echoed(data: bytes) -> None:
    async with serving() as server:
        body = (await ask(server, CHAT, chat(image_part(data_url(data)), {"type": "text", "text": "look"}))).json  # fmt: skip
    text = f"[image 1024x1024, {len(data)} bytes]\nlook"
    assert body["choices"][0]["message"]["content"] == f"echo: {text}"
    assert body["usage"]["prompt_tokens"] == 765 + -(-len(text) // 4)


async def test_every_api_counts_by_its_own_rule() -> None:
    image, document = b64encode(png(1000, 1000)).decode(), b64encode(pdf(3)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": image}
    file = {"filename": "d.pdf", "file_data": data_url(pdf(3), "application/pdf")}
    inline = {"inlineData": {"mimeType": "image/png", "data": image}}
    asked: list[tuple[str, dict[str, Any], int]] = [
        (CHAT, chat(image_part(data_url(png(1000, 1000))), {"type": "file", "file": file}), 765 + 4_500),
        (RESPONSES, {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": data_url(png(1000, 1000))}, {"type": "input_file", **file}]}]}, 765 + 4_500),
        (MESSAGES, {**chat({"type": "image", "source": source}, {"type": "document", "source": {**source, "data": document}}), "max_tokens": 99}, 1_296 + 4_500),
        (GEMINI, {"contents": [{"parts": [inline, {"inlineData": {"mimeType": "application/pdf", "data": document}}]}]}, 4 * 258 + 4_500),
    ]  # fmt: skip
    async with serving() as server:
        for path, body, tokens in asked:
            answer = (await ask(server, path, body, headers={"x-goog-api-key": "k"})).json
            usage = answer.get("usage") or answer["usageMetadata"]
            counted = usage.get("prompt_tokens") or usage.get("input_tokens") or usage["promptTokenCount"]
            assert tokens < counted < tokens + 30, path


@pytest.mark.parametrize("url", ["data:image/png;base64,%%%", data_url(b"text"), data_url(png()[:10])])
async def test_what_is_no_image_is_refused(url: str) -> None:
    async with serving() as server:
        answer = await ask(server, CHAT, chat(image_part(url)))
    assert answer.status == 400


async def test_an_address_is_not_read() -> None:
    async with serving() as server:
        body = (await ask(server, CHAT, chat(image_part("https://example.org/a.png")))).json
    assert body["choices"][0]["message"]["content"] == "echo: [address]"
    assert body["usage"]["prompt_tokens"] > 1_000
