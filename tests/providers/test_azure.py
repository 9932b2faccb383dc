"""Azure's dialect: two surfaces, a key in a header of its own, OpenAI's answers."""

from __future__ import annotations

import pytest
from tests.providers.wire import KEY, Call, asked, completion, http, request

from headway.errors import ConfigError
from headway.providers.dialects.azure import AzureDialect, deployment_path

CHAT = deployment_path("gpt-x", "/chat/completions")


@pytest.mark.parametrize(
    ("base_url", "version", "path", "url"),
    [
        ("https://r.openai.azure.com", "", CHAT, "https://r.openai.azure.com/openai/v1/chat/completions"),
        ("https://r.openai.azure.com/openai/v1/", "", CHAT, "https://r.openai.azure.com/openai/v1/chat/completions"),
        ("https://gw/a/openai", "", "/v1/responses", "https://gw/a/openai/v1/responses"),
        ("https://r", "2024-10-21", CHAT, "https://r/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"),
        ("https://r/openai", "2025-04-01-preview", "/v1/responses", "https://r/openai/responses?api-version=2025-04-01-preview"),
        ("https://r", "2024-10-21", deployment_path("a b", "/embeddings"), "https://r/openai/deployments/a%20b/embeddings?api-version=2024-10-21"),
    ],
)  # fmt: skip
def test_addresses(base_url: str, version: str, path: str, url: str) -> None:
    azure = AzureDialect(version)
    assert str(azure.url(azure.address(base_url), path)) == url


def test_an_address_is_checked() -> None:
    with pytest.raises(ConfigError):
        AzureDialect().address("https://me:hunter22@host")


async def test_the_key_and_the_request_id() -> None:
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        await call.write(http(completion(), apim_request_id="apim-1", x_request_id="other"))

    got = await asked(script, request(CHAT), kind="azure", api_version="2024-10-21")
    assert (got.outcome.kind, got.request_id) == (None, "apim-1")
    [call] = seen
    assert call.headers["api-key"] == KEY
    assert "authorization" not in call.headers
    assert call.path == "/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"


async def test_the_milliseconds_win() -> None:
    body = {"error": {"code": "429", "message": "Rate limit is exceeded."}}
    got = await asked(http(body, 429, retry_after="1", retry_after_ms="40"), request(CHAT), kind="azure")
    assert got.outcome.hint is not None
    assert got.outcome.hint.retry_after_s == 0.04
