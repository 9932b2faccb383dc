"""Every provider that can be configured, with an account of it at the fake: its settings and its limits.

Limits are low enough for a test: 50 requests per second with a bucket of one second, and 20 if only refusals report them.
Headers without a reset speak of a minute, as the real ones do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ACCESS: Final = "AKIAHEADWAYFAKE42"
SECRET: Final = "aws-secret-7d1f0c55e9b84a61"
LATENCY: Final = "latency: 20ms, burst: 1s"


class Vendor(NamedTuple):
    """`settings` are the lines of its table; `account` its limits at the fake."""

    name: str
    settings: str
    account: str
    variable: str
    model: str = "model-x"
    #: Limits that the run must have learned: dimension and number per minute, or per day if it says so.
    learned_limits: tuple[tuple[str, float, float], ...] = ()
    #: Whether answers have a request id.
    named: bool = True
    #: Whether limits are reported before any refusal.
    headers: bool = True

    @property
    def key(self) -> str:
        return ACCESS if self.name == "bedrock" else f"key-{self.name}-5b0f7d2e91c34aa8"

    @property
    def environ(self) -> Mapping[str, str]:
        if self.name == "bedrock":
            return {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        return {self.variable: self.key}

    @property
    def secret(self) -> str:
        return SECRET if self.name == "bedrock" else self.key


def _openai(
    name: str,
    account: str,
    variable: str,
    learned_limits: tuple[tuple[str, float, float], ...] = (),
    *,
    named: bool = True,
    headers: bool = True,
) -> Vendor:
    settings = f'kind = "openai"\nprofile = "{name}"'
    account = f"{account}, {LATENCY}, dialect: {name}"
    return Vendor(
        name, settings, account, variable, learned_limits=learned_limits, named=named, headers=headers
    )


MINUTE: Final = 60.0
DAY: Final = 86_400.0
_RPM: Final = (("requests", 3000.0, MINUTE),)
_BLIND: Final = (("requests", 1200.0, MINUTE),)

VENDORS: Final = (
    Vendor(
        "azure",
        'kind = "azure"',
        f"rpm: 3000, tpm: 600000, {LATENCY}",
        "AZURE_OPENAI_API_KEY",
        learned_limits=(*_RPM, ("tokens", 600_000.0, MINUTE)),
    ),
    Vendor(
        "azure-deployments",
        'kind = "azure"\napi_version = "2024-10-21"',
        f"rpm: 3000, tpm: 600000, {LATENCY}",
        "AZURE_OPENAI_API_KEY",
        learned_limits=(*_RPM, ("tokens", 600_000.0, MINUTE)),
    ),
    Vendor(
        "gemini",
        'kind = "gemini"',
        f"rpm: 1200, {LATENCY}",
        "GEMINI_API_KEY",
        "gemini-x",
        _BLIND,
        headers=False,
    ),
    Vendor(
        "gemini-streamed",
        'kind = "gemini"\nstream = true',
        f"itpm: 7200, {LATENCY}",
        "GOOGLE_API_KEY",
        "gemini-x",
        (("input_tokens", 7200.0, MINUTE),),
        headers=False,
    ),
    Vendor(
        "bedrock",
        'kind = "bedrock"\nregion = "eu-central-1"',
        f"rpm: 1200, tpm: 300000, secret: {SECRET}, {LATENCY}",
        "",
        "eu.anthropic.claude-x-20260101-v1:0",
        headers=False,
    ),
    _openai(
        "groq",
        "rpd: 100000, tpm: 66000",
        "GROQ_API_KEY",
        (("requests", 100_000.0, DAY), ("tokens", 66_000.0, MINUTE)),
    ),
    _openai(
        "mistral",
        "rpm: 3000, tpm: 600000, headers: minute",
        "MISTRAL_API_KEY",
        (*_RPM, ("tokens", 600_000.0, MINUTE)),
    ),
    _openai("together", "rpm: 3000", "TOGETHER_API_KEY", (("requests", 50.0, 1.0),)),
    _openai("openrouter", "rpm: 1200", "OPENROUTER_API_KEY", _BLIND, named=False, headers=False),
    _openai("cohere", "rpm: 3000, headers: minute", "COHERE_API_KEY", _RPM),
    _openai("deepseek", "max_concurrency: 4", "DEEPSEEK_API_KEY", headers=False),
    _openai(
        "xai",
        "rpm: 3000, tpm: 600000, headers: minute",
        "XAI_API_KEY",
        (*_RPM, ("tokens", 600_000.0, MINUTE)),
    ),
    _openai(
        "fireworks",
        "rpm: 3000, itpm: 600000, otpm: 600000, headers: minute",
        "FIREWORKS_API_KEY",
        (*_RPM, ("input_tokens", 600_000.0, MINUTE), ("output_tokens", 600_000.0, MINUTE)),
    ),
    _openai("vllm", "max_concurrency: 4, queue: true", "VLLM_API_KEY", headers=False),
    _openai("ollama", "max_concurrency: 1, queue: 1", "OLLAMA_API_KEY", named=False, headers=False),
    _openai("llamacpp", "max_concurrency: 4, queue: true", "LLAMA_API_KEY", named=False, headers=False),
)


def plan(extra: str = "") -> str:
    """The fake's file, with an account for each; `extra` is for all of them."""
    lines = ["strict: true", "accounts:"]
    lines += [f"  {vendor.name}: {{key: {vendor.key}, {vendor.account}{extra}}}" for vendor in VENDORS]
    return "\n".join(lines) + "\n"
