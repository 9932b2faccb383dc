"""The rate-limit headers of each vendor, from an account's buckets at one instant.

OpenAI: integers are rounded down, `reset` is the time until the bucket is full, to the millisecond. Anthropic: `reset`
is that instant in RFC 3339, rounded up to the second; tokens are rounded to the thousand; `tokens-*` repeats the
tightest of the token limits. The others are as in docs/reference/hints.md: which limits, in which unit, on every answer or only
with a refusal. DeepSeek, vLLM, Ollama, llama.cpp, Gemini and Bedrock send none.
"""

from __future__ import annotations

import math
import time

from headway.fake.limits.accounts import Account, AccountLimit, Refusal
from headway.fake.quantities import go_duration

Headers = dict[str, str]

#: OpenAI's two dimensions, and the limits that each may report, the first one that is set: `rpd` only without `rpm`.
_OPENAI = (("requests", ("rpm", "rpd")), ("tokens", ("tpm", "itpm")))

_ANTHROPIC = {"rpm": "requests", "itpm": "input-tokens", "otpm": "output-tokens"}

#: Values that a broken proxy may send. No client may crash on them.
NONSENSE = ("", "-1", "lots", "NaN", "9" * 40, "1e400", "soon", "0x10")


def style_of(account: Account, dialect: str) -> str:
    """The vendor whose headers this account sends, for a call to the API of `dialect`."""
    style = account.config.headers
    return dialect if style in ("auto", "minute") else style


def limit_headers(account: Account, style: str, now: float, wall: float) -> dict[str, str]:
    """The headers of every answer, in the style of a vendor; `wall` is the provider's wall clock."""
    if style == "openai":
        return _openai(account, now)
    if style == "anthropic":
        return _anthropic(account, now, wall)
    return _other_vendor(account, style, now)


def refusal_headers(account: Account, style: str, refusal: Refusal, wall: float) -> dict[str, str]:
    """The further headers of a 429: when to retry, and what some vendors report only there."""
    own = _other_vendor_refusal(style, refusal, wall)
    return own if own is not None else retry_after(account, refusal.wait_s)


def _openai(account: Account, now: float) -> dict[str, str]:
    headers: dict[str, str] = {}
    for what, names in _OPENAI:
        for name in names:
            account_limit = account.limits.get(name)
            if account_limit is not None:
                bucket = account_limit.reported
                headers[f"x-ratelimit-limit-{what}"] = str(int(bucket.limit))
                headers[f"x-ratelimit-remaining-{what}"] = str(remaining_of(account_limit, now))
                headers[f"x-ratelimit-reset-{what}"] = go_duration(bucket.full_in_s(now))
                break
    return headers


def _anthropic(account: Account, now: float, wall: float) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, what in _ANTHROPIC.items():
        if name in account.limits:
            _add_anthropic(headers, what, account.limits[name], now, wall)
    tokens = [account.limits[name] for name in ("tpm", "itpm", "otpm") if name in account.limits]
    if tokens:
        tightest = min(
            tokens,
            key=lambda account_limit: account_limit.reported.level(now) / account_limit.reported.capacity,
        )
        _add_anthropic(headers, "tokens", tightest, now, wall)
    return headers


def _add_anthropic(
    headers: dict[str, str], what: str, account_limit: AccountLimit, now: float, wall: float
) -> None:
    left = remaining_of(account_limit, now)
    if what != "requests":
        left = int(left / 1000 + 0.5) * 1000
    headers[f"anthropic-ratelimit-{what}-limit"] = str(int(account_limit.reported.limit))
    headers[f"anthropic-ratelimit-{what}-remaining"] = str(left)
    headers[f"anthropic-ratelimit-{what}-reset"] = rfc3339(wall + account_limit.reported.full_in_s(now))


def rfc3339(wall: float) -> str:
    """An instant to the second, rounded up."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(wall - 1e-6)))


def http_date(wall: float) -> str:
    """An instant in the format of the Date header."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(wall))


def retry_after(account: Account, wait_s: float) -> dict[str, str]:
    """Retry-After in whole seconds, rounded up; with `retry_after: ms` the milliseconds as well."""
    style = account.config.retry_after
    if style is False or wait_s <= 0.0:
        return {}
    headers = {"retry-after": str(math.ceil(wait_s))}
    if style == "ms":
        headers["retry-after-ms"] = str(math.ceil(wait_s * 1000))
    return headers


def garbled(headers: dict[str, str], number: int) -> dict[str, str]:
    """The same headers with meaningless values."""
    return {
        name: NONSENSE[(number + place) % len(NONSENSE)] if "ratelimit" in name or "retry" in name else value
        for place, (name, value) in enumerate(headers.items())
    }


def remaining_of(account_limit: AccountLimit, now: float) -> int:
    """What remains of a limit, in whole units."""
    return max(0, math.floor(account_limit.reported.level(now) + 1e-6))


def _other_vendor(account: Account, style: str, now: float) -> Headers:
    headers: Headers = {}
    match style:
        case "azure":
            for what, name in (("requests", "rpm"), ("tokens", "tpm")):
                _add_limit(headers, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.limits:
                    seconds = math.ceil(account.limits[name].reported.full_in_s(now))
                    headers[f"x-ratelimit-reset-{what}"] = str(seconds)
        case "groq":  # Requests are per day, tokens per minute.
            for what, name in (("requests", "rpd"), ("tokens", "tpm")):
                _add_limit(headers, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.limits:
                    headers[f"x-ratelimit-reset-{what}"] = go_duration(
                        account.limits[name].reported.full_in_s(now)
                    )
        case "mistral":
            _add_limit(headers, account, "rpm", "x-ratelimit-{}-req-minute", now)
            _add_limit(headers, account, "tpm", "x-ratelimit-{}-tokens-minute", now)
        case "together":  # Reported per second.
            _add_limit(headers, account, "rpm", "x-ratelimit-{}", now, 60)
            _add_limit(headers, account, "tpm", "x-tokenlimit-{}", now, 60)
        case "xai":
            _add_limit(headers, account, "rpm", "x-ratelimit-{}-requests", now)
            _add_limit(headers, account, "tpm", "x-ratelimit-{}-tokens", now)
        case "fireworks":
            _add_limit(headers, account, "rpm", "x-ratelimit-{}-requests", now)
            _add_limit(headers, account, "itpm", "x-ratelimit-{}-tokens-prompt", now)
            _add_limit(headers, account, "otpm", "x-ratelimit-{}-tokens-generated", now)
        case "cohere":
            _add_limit(headers, account, "rpm", "x-trial-endpoint-call-{}", now)
    return headers


def _add_limit(
    headers: Headers, account: Account, name: str, header: str, now: float, share: int = 1
) -> None:
    account_limit = account.limits.get(name)
    if account_limit is not None:
        limit = int(account_limit.reported.limit) // share
        headers[header.format("limit")] = str(limit)
        headers[header.format("remaining")] = str(min(limit, remaining_of(account_limit, now)))


def _other_vendor_refusal(style: str, refusal: Refusal, wall: float) -> Headers | None:
    """A vendor's own headers of a 429; None: the usual Retry-After."""
    seconds = str(max(1, math.ceil(refusal.wait_s)))
    match style:
        case "azure":
            kind = "Tokens" if refusal.reason.startswith("t") else "Requests"
            headers = {"x-ratelimit-type": kind, "retry-after": seconds}
            return headers | {"retry-after-ms": str(max(1, math.ceil(refusal.wait_s * 1000)))}
        case "together":
            return {"x-ratelimit-reset": seconds}
        case "openrouter":
            return {"X-RateLimit-" + name: value for name, value in _openrouter(refusal, wall).items()}
        case "mistral" | "cohere" | "deepseek" | "fireworks" | "vllm" | "ollama" | "llamacpp":
            return {}
        case "gemini" | "bedrock":
            return {}
    return None


def _openrouter(refusal: Refusal, wall: float) -> Headers:
    """OpenRouter's three headers. The reset is an instant in milliseconds."""
    reset = math.ceil((wall + refusal.wait_s) * 1000)
    return {"Limit": str(refusal.limit), "Remaining": "0", "Reset": str(reset)}
