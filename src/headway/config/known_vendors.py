"""Vendors that are known by name: the kind of their API, their address, the variable with their key, safe limits.

`kind = "openai"` and `profile = "groq"` is all that a configuration needs; one of these addresses works as well. What
their headers and error texts mean is in `providers.limits.profiles`, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from headway.lazy_pattern import lazy_pattern

#: The placeholder for the region.
REGION: Final = "{region}"


class Vendor(msgspec.Struct, frozen=True):
    """A vendor. `base_url` is "" if every account has an address of its own."""

    name: str
    title: str
    variable: str
    base_url: str
    kind: str = "openai"
    #: An inexpensive model, which `headway init` makes the default; "" where it depends on the account (deployments, regions).
    model: str = ""
    #: Limits where a configuration sets none.
    limits: Mapping[str, Any] = {}


#: In the order in which `headway init` writes them; the first with a key becomes the default provider.
VENDORS: Final = (
    Vendor("openai", "OpenAI", "OPENAI_API_KEY", "https://api.openai.com", model="gpt-4.1-mini"),
    Vendor(
        "anthropic",
        "Anthropic",
        "ANTHROPIC_API_KEY",
        "https://api.anthropic.com",
        "anthropic",
        "claude-haiku-4-5",
    ),
    Vendor("azure", "Azure OpenAI", "AZURE_OPENAI_API_KEY", "", "azure"),
    Vendor(
        "gemini",
        "Gemini",
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com",
        "gemini",
        "gemini-2.5-flash",
    ),
    Vendor(
        "bedrock",
        "Amazon Bedrock",
        "AWS_BEARER_TOKEN_BEDROCK",
        f"https://bedrock-runtime.{REGION}.amazonaws.com",
        "bedrock",
    ),
    Vendor("groq", "Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", model="openai/gpt-oss-20b"),
    Vendor(
        "mistral", "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", model="mistral-small-latest"
    ),
    Vendor(
        "together", "Together", "TOGETHER_API_KEY", "https://api.together.xyz/v1", model="openai/gpt-oss-120b"
    ),
    Vendor(
        "openrouter",
        "OpenRouter",
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/api/v1",
        model="openrouter/auto",
    ),
    Vendor("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", model="deepseek-chat"),
    Vendor("xai", "xAI", "XAI_API_KEY", "https://api.x.ai/v1", model="grok-4.3"),
    Vendor(
        "fireworks",
        "Fireworks",
        "FIREWORKS_API_KEY",
        "https://api.fireworks.ai/inference/v1",
        model="accounts/fireworks/models/gpt-oss-20b",
    ),
    Vendor(
        "cohere",
        "Cohere",
        "COHERE_API_KEY",
        "https://api.cohere.ai/compatibility/v1",
        model="command-a-03-2025",
    ),
    # Servers on this machine queue instead of refusing. The limit is what they serve at once by default, so that no attempt
    # waits in their queue. vLLM's max_num_seqs is 256; llama.cpp has four slots; Ollama serves one request at a time, and
    # a few more in flight keep it busy.
    Vendor("vllm", "vLLM", "VLLM_API_KEY", "http://127.0.0.1:8000/v1", limits={"max_concurrency": 256}),
    Vendor("ollama", "Ollama", "OLLAMA_API_KEY", "http://127.0.0.1:11434/v1", limits={"max_concurrency": 4}),
    Vendor(
        "llamacpp", "llama.cpp", "LLAMA_API_KEY", "http://127.0.0.1:8080/v1", limits={"max_concurrency": 4}
    ),
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}
#: A profile for every kind: reads any known header.
GENERIC: Final = "generic"
PROFILES: Final = (*BY_NAME, GENERIC)

#: Variables that may hold a key if the usual one is not set.
ALIASES: Final = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}

#: The hosts of vendors without a single address. Their clouds also have hosts of customers, which do not match.
_DOMAINS: Final = {
    "azure": lazy_pattern(
        r"[a-z0-9-]+\.(?:openai\.azure\.(?:com|us|cn)|cognitiveservices\.azure\.(?:com|us|cn)|services\.ai\.azure\.com)"
    ),
    "bedrock": lazy_pattern(
        r"bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?"
        r"|vpce-[a-z0-9-]+\.bedrock-runtime\.[a-z0-9-]+\.vpce\.amazonaws\.com(?:\.cn)?"
    ),
}


def is_own_host(vendor: Vendor, base_url: str) -> bool:
    """Whether an address is the vendor's own, so that its usual key may go there."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    if vendor.name in _DOMAINS:
        return _DOMAINS[vendor.name].fullmatch(host) is not None
    own = urlsplit(vendor.base_url).hostname or ""
    return host == own or host.endswith("." + own)


def vendor_at(base_url: str, kind: str) -> Vendor | None:
    """The vendor of this kind at an address; None if there is none. An address on this machine belongs to no vendor."""
    host = urlsplit(base_url).hostname
    for vendor in VENDORS:
        theirs = urlsplit(vendor.base_url)
        if theirs.scheme == "https" and theirs.hostname == host and vendor.kind == kind:
            return vendor
    return None
