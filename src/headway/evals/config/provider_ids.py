"""The ids of providers: `openai:chat:gpt-x` → vendor, endpoint and model. A table has the vendors and why other ids are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.evals.spec import EvalEndpoint

_CHAT: Final[dict[str, EvalEndpoint]] = {"chat": "chat"}
_EMBEDDINGS: Final[dict[str, EvalEndpoint]] = {"embeddings": "embeddings", "embedding": "embeddings"}
_WITH_EMBEDDINGS: Final = _CHAT | _EMBEDDINGS
_NO_COMPLETIONS: Final = ("the API of completions is not used", "write chat instead of completion")
_TEXTS_ONLY: Final = ("answers are texts", "")
_AGENTS: Final = ("agents are not compared here", "run the agent's CLI: exec:COMMAND")


class VendorIds(msgspec.Struct, frozen=True):
    """The ids that begin with one word. `vendor` is the name in `config.known_vendors`."""

    vendor: str
    title: str
    #: The second word of an id and what it asks for. An id may leave it out: then it is `chat`.
    words: Mapping[str, EvalEndpoint] = msgspec.field(default_factory=lambda: _CHAT)
    refused: Mapping[str, tuple[str, str]] = {}
    #: Variables with the address, and with the host alone.
    address_variables: tuple[str, ...] = ()
    host_variables: tuple[str, ...] = ()
    #: A variable that promptfoo also takes a key from.
    other_key: str = ""


VENDOR_IDS: Final[Mapping[str, VendorIds]] = {
    "openai": VendorIds(
        "openai",
        "OpenAI",
        {"chat": "chat", "responses": "responses", **_EMBEDDINGS},
        {
            "completion": _NO_COMPLETIONS,
            "assistant": ("assistants are not used", "write openai:chat:MODEL"),
            "moderation": ("there are no moderation APIs", ""),
            "image": _TEXTS_ONLY,
            "video": _TEXTS_ONLY,
            "realtime": _TEXTS_ONLY,
            "speech": _TEXTS_ONLY,
            "transcription": _TEXTS_ONLY,
            "agents": _AGENTS,
            "chatkit": _AGENTS,
            "codex": _AGENTS,
            "codex-sdk": _AGENTS,
        },
        ("OPENAI_BASE_URL", "OPENAI_API_BASE_URL"),
        ("OPENAI_API_HOST",),
    ),
    "anthropic": VendorIds(
        "anthropic",
        "Anthropic",
        {"messages": "chat"},
        {"completion": _NO_COMPLETIONS, "claude-agent-sdk": _AGENTS, "claude-code": _AGENTS},
        ("ANTHROPIC_BASE_URL",),
    ),
    "azure": VendorIds(
        "azure",
        "Azure OpenAI; the model is the name of the deployment",
        {"chat": "chat", "responses": "responses", **_EMBEDDINGS},
        {"completion": _NO_COMPLETIONS, "assistant": ("assistants are not used", "write azure:chat:DEPLOYMENT"), "foundry-agent": _AGENTS},
        ("AZURE_API_BASE_URL", "AZURE_OPENAI_API_BASE_URL", "AZURE_OPENAI_BASE_URL"),
        ("AZURE_API_HOST", "AZURE_OPENAI_API_HOST"),
        "AZURE_API_KEY",
    ),
    "google": VendorIds(
        "gemini",
        "Gemini",
        _CHAT,
        {"live": _TEXTS_ONLY, "image": _TEXTS_ONLY, "video": _TEXTS_ONLY, "embedding": ("Gemini's embeddings are not used", "write openai:embeddings:MODEL")},
        ("GOOGLE_API_BASE_URL",),
        ("GOOGLE_API_HOST",),
    ),
    "bedrock": VendorIds(
        "bedrock",
        "Amazon Bedrock",
        {"converse": "chat", "completion": "chat"},
        {
            "embeddings": ("Bedrock's embeddings are not used", "write openai:embeddings:MODEL"),
            "kb": ("knowledge bases are not used", ""),
            "nova-sonic": _TEXTS_ONLY,
            "agents": _AGENTS,
        },
    ),
    "groq": VendorIds("groq", "Groq"),
    "mistral": VendorIds("mistral", "Mistral", _WITH_EMBEDDINGS, {}, ("MISTRAL_API_BASE_URL",), ("MISTRAL_API_HOST",)),
    "togetherai": VendorIds("together", "Together", _WITH_EMBEDDINGS, {"completion": _NO_COMPLETIONS}),
    "openrouter": VendorIds("openrouter", "OpenRouter"),
    "deepseek": VendorIds("deepseek", "DeepSeek"),
    "xai": VendorIds("xai", "xAI", _CHAT, {"image": _TEXTS_ONLY}),
    "fireworks": VendorIds("fireworks", "Fireworks", _WITH_EMBEDDINGS),
    "cohere": VendorIds("cohere", "Cohere", _CHAT, {"embedding": ("Cohere's embeddings are not used", "write openai:embeddings:MODEL")}),
    "ollama": VendorIds("ollama", "Ollama", _WITH_EMBEDDINGS, {"completion": _NO_COMPLETIONS}, ("OLLAMA_BASE_URL",)),
    "vllm": VendorIds("vllm", "vLLM", _WITH_EMBEDDINGS),
}  # fmt: skip
ALIASES: Final = {"azureopenai": "azure", "gemini": "google", "together": "togetherai"}
#: First words of ids that promptfoo has, why they are refused, and what to write instead.
REFUSED_IDS: Final[Mapping[str, tuple[str, str]]] = {
    "vertex": (
        "Google's service accounts are not used",
        "write google:MODEL, with the key in GEMINI_API_KEY",
    ),
    "palm": ("the API is gone", "write google:MODEL"),
    "huggingface": ("its APIs are not used", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "replicate": ("its API is not used", "write an http provider"),
    "localai": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl"),
    "webhook": ("addresses are called as http providers", "write https://… and a body"),
    "websocket": ("WebSockets are not used", "write an exec or python provider"),
    "ws": ("WebSockets are not used", "write an exec or python provider"),
    "wss": ("WebSockets are not used", "write an exec or python provider"),
    "browser": ("browsers are not driven", "write an exec or python provider"),
    "mcp": ("MCP servers are not called", "write an exec or python provider"),
    "package": ("packages are not loaded", "write an exec or python provider"),
    "golang": ("Go is not compiled", "write exec: and the program"),
    "ruby": ("Ruby is not run", "write exec: and the command"),
    "promptfoo": ("promptfoo's own services are not used", ""),
    "manual-input": ("a provider cannot ask the user", ""),
    "sequence": ("conversations are tests with a conversationId", "see conversationId in metadata"),
    "simulated-user": ("users are not simulated", ""),
    "cloudflare-ai": ("its API is not used", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "databricks": ("its API is not used", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "sagemaker": ("its API is not used", "write an exec or python provider"),
    "watsonx": ("its API is not used", "write an exec or python provider"),
    "litellm": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "portkey": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "perplexity": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "cerebras": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "github": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl and apiKeyEnvar"),
    "llama": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl"),
    "llamacpp": ("it has no name of its own", "write openai:chat:MODEL with apiBaseUrl"),
}
#: Ids of programs, for the page and for messages; `evals.programs` reads them.
PROGRAM_IDS: Final[Mapping[str, str]] = {
    "exec:": "A command: the prompt is its last argument but two, its standard output the answer.",
    "python:": "A function of a Python file, `call_api` unless another is named.",
    "file://": "A Python or JavaScript file with a provider; or a YAML or JSON file with providers.",
    "http://": "An address that is called with a body.",
    "https://": "An address that is called with a body.",
    "echo": "The prompt itself.",
}


class ProviderId(msgspec.Struct, frozen=True):
    """An id of a model that was understood. `word` is its first word."""

    word: str
    vendor: VendorIds
    endpoint: EvalEndpoint
    model: str


class RefusedId(msgspec.Struct, frozen=True):
    """Why an id is not supported."""

    why: str
    instead: str


def parse_id(text: str) -> ProviderId | RefusedId | None:
    """What an id names; None if its first word is unknown. A model may contain colons."""
    first, _, rest = text.partition(":")
    if first in REFUSED_IDS:
        return RefusedId(*REFUSED_IDS[first])
    vendor = VENDOR_IDS.get(ALIASES.get(first, first))
    if vendor is None:
        return None
    word, colon, model = rest.partition(":")
    if word in vendor.refused:
        return RefusedId(*vendor.refused[word])
    if word in vendor.words:
        return ProviderId(first, vendor, vendor.words[word], model if colon else "")
    return ProviderId(first, vendor, "chat", rest)


def known_beginnings() -> tuple[str, ...]:
    """How ids may begin, for messages."""
    return (*VENDOR_IDS, *(one.rstrip(":/") for one in PROGRAM_IDS))
