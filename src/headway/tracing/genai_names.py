"""The names that OpenTelemetry's conventions for generative AI use, and which of their two versions is emitted.

The conventions are in development. Backends read the names of version 1.36 today; the latest ones are those of
open-telemetry/semantic-conventions-genai at 024a4f9. The conventions' own variable chooses, as other instrumentations do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

VARIABLE: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
_LATEST: Final = "gen_ai_latest_experimental"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
SYSTEM: Final = "gen_ai.system"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
TOKEN_TYPE: Final = "gen_ai.token.type"

#: Kinds of providers, and profiles of vendors, by the names of the conventions.
_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
    "gemini-cli": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
#: The ends of paths, and the operation that each is.
_OPERATIONS: Final = (
    ("/embeddings", "embeddings"),
    (":embedContent", "embeddings"),
    (":generateContent", "generate_content"),
    (":streamGenerateContent", "generate_content"),
    ("/chat/completions", "chat"),
    ("/completions", "text_completion"),
)


class Versions(msgspec.Struct, frozen=True):
    """Which versions of the conventions are emitted: the deployed one, the latest one, or both."""

    deployed: bool = True
    latest: bool = False


def versions(environ: Mapping[str, str]) -> Versions:
    """By the variable: `gen_ai_latest_experimental` is the latest alone, `gen_ai_latest_experimental/dup` is both."""
    chosen = {part.strip() for part in environ.get(VARIABLE, "").split(",")}
    if f"{_LATEST}/dup" in chosen:
        return Versions(latest=True)
    return Versions(deployed=_LATEST not in chosen, latest=_LATEST in chosen)


def provider_name(kind: str, profile: str) -> str:
    """The conventions' name of a provider."""
    name = profile if profile and profile != "generic" else kind
    return _PROVIDERS.get(name, name)


def operation_name(kind: str, path: str, *, is_agent: bool) -> str:
    """What a request does: by its path, or because a program or a function does it."""
    if is_agent:
        return "invoke_agent"
    if kind in ("python", "command"):
        return "execute_tool"
    return next((name for end, name in _OPERATIONS if path.endswith(end)), "chat")
