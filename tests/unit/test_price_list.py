"""The price list: which entry is used, and how it becomes a `Price`. Figures are compared with the package's own
calculation, so that a newer list breaks nothing.
"""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from genai_prices import Usage as ListUsage
from genai_prices import calc_price

from headway.config import price_list
from headway.config.price_list import PriceQuery, edition, look_up
from headway.core.model import Price, Usage

OPENAI = "https://api.openai.com"
ANTHROPIC = "https://api.anthropic.com"
AZURE = "https://ours.openai.azure.com/openai"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com"
GATEWAY = "https://llm.example.com/v1"
LOCAL = "http://127.0.0.1:8900/v1"


def price(base_url: str, model: str, kind: str = "openai", like: str = "") -> Price | None:
    [found] = look_up([PriceQuery(base_url, kind, model, like)])
    return found


def listed(provider: str, model: str, **usage: int) -> float:
    """The cost that the package itself computes."""
    return float(calc_price(ListUsage(**usage), model, provider_id=provider).total_price)


@pytest.mark.parametrize(
    ("base_url", "kind", "model", "provider", "means"),
    [
        (OPENAI, "openai", "gpt-4o", "openai", "gpt-4o"),
        (f"{OPENAI}/v1", "openai", "gpt-4o-2024-08-06", "openai", "gpt-4o"),
        (OPENAI, "openai", "openai/gpt-4o", "openai", "gpt-4o"),
        (OPENAI, "openai", "ft:gpt-4o-mini-2024-07-18:acme::x", "openai", "ft:gpt-4o-mini-2024-07-18:b::y"),
        (ANTHROPIC, "anthropic", "claude-haiku-4-5-20251001", "anthropic", "claude-haiku-4-5"),
        (AZURE, "azure", "gpt-4o", "azure", "gpt-4o"),
        (BEDROCK, "bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("https://openrouter.ai/api/v1", "openai", "openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        ("https://api.groq.com/openai/v1", "openai", "llama-3.3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
        (GATEWAY, "openai", "gpt-4o", "openai", "gpt-4o"),
        (GATEWAY, "openai", "anthropic/claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        (GATEWAY, "anthropic", "claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
    ],
)  # fmt: skip
def test_which_entry_is_used(base_url: str, kind: str, model: str, provider: str, means: str) -> None:
    found = price(base_url, model, kind)
    assert found is not None
    wanted = listed(provider, means, input_tokens=3000, output_tokens=700)
    assert found.cost(Usage(3000.0, 700.0)) == pytest.approx(wanted)
    assert wanted > 0.0


@pytest.mark.parametrize(
    ("base_url", "kind", "model"),
    [
        (OPENAI, "openai", "no-such-model"),
        (OPENAI, "openai", "claude-haiku-4-5"),  # Another vendor's model.
        (AZURE, "azure", "our-deployment"),
        (GATEWAY, "openai", "llama-3.3-70b"),  # A gateway sets its own prices.
        (GATEWAY, "command", "gpt-4o"),
        (LOCAL, "openai", "gpt-4o"),
        ("http://localhost:11434/v1", "openai", "gpt-4o"),
        (OPENAI, "openai", "whisper-1"),  # By the hour, not by the token.
    ],
)
def test_unknown_prices(base_url: str, kind: str, model: str) -> None:
    assert price(base_url, model, kind) is None


@pytest.mark.parametrize(
    ("base_url", "like", "provider"),
    [(AZURE, "gpt-4o", "azure"), (AZURE, "openai/gpt-4o", "openai"), (LOCAL, "gpt-4o", "openai"), (LOCAL, "azure/gpt-4o", "azure")],
)  # fmt: skip
def test_like_uses_the_price_of_another_entry(base_url: str, like: str, provider: str) -> None:
    kind = "azure" if base_url == AZURE else "openai"
    found = price(base_url, "our-deployment", kind, like)
    assert found is not None
    assert found.cost(Usage(1000.0, 100.0)) == pytest.approx(
        listed(provider, "gpt-4o", input_tokens=1000, output_tokens=100)
    )


@pytest.mark.parametrize("input_tokens", [1000, 200_000, 200_001, 900_000])
def test_long_requests_have_the_price_of_their_tier(input_tokens: int) -> None:
    found = price("https://generativelanguage.googleapis.com", "gemini-2.5-pro", "gemini")
    assert found is not None
    assert found.above, "otherwise this shows nothing"
    wanted = listed(
        "google", "gemini-2.5-pro", input_tokens=input_tokens, output_tokens=500, cache_read_tokens=300
    )
    assert found.cost(Usage(float(input_tokens), 500.0, 300.0)) == pytest.approx(wanted)


def test_cache_reads_and_writes_have_their_own_prices() -> None:
    found = price(ANTHROPIC, "claude-haiku-4-5", "anthropic")
    assert found is not None
    wanted = listed(
        "anthropic",
        "claude-haiku-4-5",
        input_tokens=10_000,
        cache_read_tokens=4000,
        cache_write_tokens=5000,
        output_tokens=10,
    )
    assert found.cost(Usage(10_000.0, 10.0, 4000.0, cache_write_tokens=5000.0)) == pytest.approx(wanted)


def test_an_embedding_has_only_an_input_price() -> None:
    assert price(OPENAI, "text-embedding-3-small") == Price(
        listed("openai", "text-embedding-3-small", input_tokens=1_000_000)
    )


def test_without_the_package_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_list, "edition", lambda: "")
    assert look_up([PriceQuery(OPENAI, "openai", "gpt-4o")]) == [None]


def test_the_edition_is_known_without_loading_the_list() -> None:
    script = (
        "import sys; from headway.config.price_list import edition; "
        "print(edition(), 'genai_prices' in sys.modules, 'pydantic' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.split() == [edition(), "False", "False"]


def test_queries_and_prices_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [PriceQuery(OPENAI, "openai", "gpt-4o"), PriceQuery(OPENAI, "openai", "nonsense")]
    out = io.BytesIO()

    class Stream:
        def __init__(self, buffer: Any) -> None:
            self.buffer = buffer

    monkeypatch.setattr(sys, "stdin", Stream(io.BytesIO(msgspec.json.encode(questions))))
    monkeypatch.setattr(sys, "stdout", Stream(out))
    price_list.main()
    assert msgspec.json.decode(out.getvalue(), type=list[Price | None]) == look_up(questions)
