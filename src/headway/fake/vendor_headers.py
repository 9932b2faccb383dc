"""The rate-limit headers of those who speak OpenAI's API in their own way, from an account's buckets at one instant.

Each is as docs/reference/hints.md has it: who says what in which unit, on every answer or only with a refusal. Whoever is
not here (DeepSeek, vLLM, Ollama, llama.cpp, Gemini, Bedrock) sends none.
"""

from __future__ import annotations

import math

from headway.fake.account import Account, Dimension, Refusal
from headway.fake.durations import in_go

Headers = dict[str, str]


def left_of(dimension: Dimension, now: float) -> int:
    """What is left of a limit, in whole units."""
    return max(0, math.floor(dimension.shown.level(now) + 1e-6))


def always(account: Account, style: str, now: float, wall: float) -> Headers:
    """What every answer says."""
    found: Headers = {}
    match style:
        case "azure":
            for what, name in (("requests", "rpm"), ("tokens", "tpm")):
                _tell(found, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.dimensions:
                    seconds = math.ceil(account.dimensions[name].shown.full_in_s(now))
                    found[f"x-ratelimit-reset-{what}"] = str(seconds)
        case "groq":  # Requests are always a day's, tokens always a minute's.
            for what, name in (("requests", "rpd"), ("tokens", "tpm")):
                _tell(found, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.dimensions:
                    found[f"x-ratelimit-reset-{what}"] = in_go(account.dimensions[name].shown.full_in_s(now))
        case "mistral":
            _tell(found, account, "rpm", "x-ratelimit-{}-req-minute", now)
            _tell(found, account, "tpm", "x-ratelimit-{}-tokens-minute", now)
        case "together":  # A minute's limit is shown by the second.
            _tell(found, account, "rpm", "x-ratelimit-{}", now, 60)
            _tell(found, account, "tpm", "x-tokenlimit-{}", now, 60)
        case "xai":
            _tell(found, account, "rpm", "x-ratelimit-{}-requests", now)
            _tell(found, account, "tpm", "x-ratelimit-{}-tokens", now)
        case "fireworks":
            _tell(found, account, "rpm", "x-ratelimit-{}-requests", now)
            _tell(found, account, "itpm", "x-ratelimit-{}-tokens-prompt", now)
            _tell(found, account, "otpm", "x-ratelimit-{}-tokens-generated", now)
        case "cohere":
            _tell(found, account, "rpm", "x-trial-endpoint-call-{}", now)
    return found


def _tell(found: Headers, account: Account, name: str, header: str, now: float, share: int = 1) -> None:
    dimension = account.dimensions.get(name)
    if dimension is not None:
        limit = int(dimension.shown.limit) // share
        found[header.format("limit")] = str(limit)
        found[header.format("remaining")] = str(min(limit, left_of(dimension, now)))


def when_refused(account: Account, style: str, refusal: Refusal, now: float, wall: float) -> Headers | None:
    """What a refusal says beside its words; None: what everybody says."""
    seconds = str(max(1, math.ceil(refusal.wait_s)))
    match style:
        case "azure":
            kind = "Tokens" if refusal.reason.startswith("t") else "Requests"
            found = {"x-ratelimit-type": kind, "retry-after": seconds}
            return found | {"retry-after-ms": str(max(1, math.ceil(refusal.wait_s * 1000)))}
        case "together":
            return {"x-ratelimit-reset": seconds}
        case "openrouter":
            return {"X-RateLimit-" + name: value for name, value in window(refusal, wall).items()}
        case "mistral" | "cohere" | "deepseek" | "fireworks" | "vllm" | "ollama" | "llamacpp":
            return {}
        case "gemini" | "bedrock":
            return {}
    return None


def window(refusal: Refusal, wall: float) -> Headers:
    """OpenRouter's three: the reset is an instant in milliseconds."""
    reset = math.ceil((wall + refusal.wait_s) * 1000)
    return {"Limit": str(refusal.limit), "Remaining": "0", "Reset": str(reset)}
