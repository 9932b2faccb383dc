"""The rate-limit headers of OpenAI and Anthropic (the others' are `vendor_headers`'), from an account's buckets at one instant.

OpenAI: integers rounded down, `reset` is the time until the bucket is full, to the millisecond. Anthropic: `reset`
is that instant in RFC 3339, rounded up to the second; tokens are rounded to the thousand; `tokens-*` repeats the
tightest of the token limits.
"""

from __future__ import annotations

import math
import time

from headway.fake.limits.accounts import Account, AccountLimit, Refusal
from headway.fake.quantities import go_duration

Headers = dict[str, str]

#: OpenAI's two dimensions and what speaks for each: the day's requests only where there is no other limit (Groq).
_OPENAI = (("requests", ("rpm", "rpd")), ("tokens", ("tpm", "itpm")))

_ANTHROPIC = {"rpm": "requests", "itpm": "input-tokens", "otpm": "output-tokens"}

#: What a broken proxy makes of them: no client may fall over these.
NONSENSE = ("", "-1", "lots", "NaN", "9" * 40, "1e400", "soon", "0x10")


def style_of(account: Account, dialect: str) -> str:
    """Whose headers this account sends to someone who called the API of `dialect`."""
    said = account.config.headers
    return dialect if said in ("auto", "minute") else said


def limit_headers(account: Account, style: str, now: float, wall: float) -> dict[str, str]:
    """What is left of an account, in the words of `style`; `wall` is now as the provider's calendar has it."""
    if style == "openai":
        return _openai(account, now)
    if style == "anthropic":
        return _anthropic(account, now, wall)
    return vendor_headers(account, style, now, wall)


def refusal_headers(
    account: Account, style: str, refusal: Refusal, now: float, wall: float
) -> dict[str, str]:
    """What goes along with a 429: when to come back, and what some vendors tell only then."""
    more = vendor_refusal_headers(account, style, refusal, now, wall)
    return more if more is not None else retry_after(account, refusal.wait_s)


def _openai(account: Account, now: float) -> dict[str, str]:
    found: dict[str, str] = {}
    for what, names in _OPENAI:
        for name in names:
            account_limit = account.limits.get(name)
            if account_limit is not None:
                bucket = account_limit.reported
                found[f"x-ratelimit-limit-{what}"] = str(int(bucket.limit))
                found[f"x-ratelimit-remaining-{what}"] = str(remaining_of(account_limit, now))
                found[f"x-ratelimit-reset-{what}"] = go_duration(bucket.full_in_s(now))
                break
    return found


def _anthropic(account: Account, now: float, wall: float) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, what in _ANTHROPIC.items():
        if name in account.limits:
            _add_anthropic(found, what, account.limits[name], now, wall)
    tokens = [account.limits[name] for name in ("tpm", "itpm", "otpm") if name in account.limits]
    if tokens:
        tightest = min(
            tokens,
            key=lambda account_limit: account_limit.reported.level(now) / account_limit.reported.capacity,
        )
        _add_anthropic(found, "tokens", tightest, now, wall)
    return found


def _add_anthropic(
    found: dict[str, str], what: str, account_limit: AccountLimit, now: float, wall: float
) -> None:
    left = remaining_of(account_limit, now)
    if what != "requests":
        left = int(left / 1000 + 0.5) * 1000
    found[f"anthropic-ratelimit-{what}-limit"] = str(int(account_limit.reported.limit))
    found[f"anthropic-ratelimit-{what}-remaining"] = str(left)
    found[f"anthropic-ratelimit-{what}-reset"] = rfc3339(wall + account_limit.reported.full_in_s(now))


def rfc3339(wall: float) -> str:
    """An instant to the second, rounded up."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(wall - 1e-6)))


def http_date(wall: float) -> str:
    """An instant as the Date header has it."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(wall))


def retry_after(account: Account, wait_s: float) -> dict[str, str]:
    """When to come back: whole seconds, rounded up; and with `retry_after: ms` to the millisecond as well."""
    said = account.config.retry_after
    if said is False or wait_s <= 0.0:
        return {}
    found = {"retry-after": str(math.ceil(wait_s))}
    if said == "ms":
        found["retry-after-ms"] = str(math.ceil(wait_s * 1000))
    return found


def garbled(headers: dict[str, str], number: int) -> dict[str, str]:
    """The same names with values that mean nothing."""
    return {
        name: NONSENSE[(number + place) % len(NONSENSE)] if "ratelimit" in name or "retry" in name else value
        for place, (name, value) in enumerate(headers.items())
    }


def remaining_of(account_limit: AccountLimit, now: float) -> int:
    """What is left of a limit, in whole units."""
    return max(0, math.floor(account_limit.reported.level(now) + 1e-6))


def vendor_headers(account: Account, style: str, now: float, wall: float) -> Headers:
    """What every answer says."""
    found: Headers = {}
    match style:
        case "azure":
            for what, name in (("requests", "rpm"), ("tokens", "tpm")):
                _add_limit(found, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.limits:
                    seconds = math.ceil(account.limits[name].reported.full_in_s(now))
                    found[f"x-ratelimit-reset-{what}"] = str(seconds)
        case "groq":  # Requests are always a day's, tokens always a minute's.
            for what, name in (("requests", "rpd"), ("tokens", "tpm")):
                _add_limit(found, account, name, f"x-ratelimit-{{}}-{what}", now)
                if name in account.limits:
                    found[f"x-ratelimit-reset-{what}"] = go_duration(
                        account.limits[name].reported.full_in_s(now)
                    )
        case "mistral":
            _add_limit(found, account, "rpm", "x-ratelimit-{}-req-minute", now)
            _add_limit(found, account, "tpm", "x-ratelimit-{}-tokens-minute", now)
        case "together":  # A minute's limit is shown by the second.
            _add_limit(found, account, "rpm", "x-ratelimit-{}", now, 60)
            _add_limit(found, account, "tpm", "x-tokenlimit-{}", now, 60)
        case "xai":
            _add_limit(found, account, "rpm", "x-ratelimit-{}-requests", now)
            _add_limit(found, account, "tpm", "x-ratelimit-{}-tokens", now)
        case "fireworks":
            _add_limit(found, account, "rpm", "x-ratelimit-{}-requests", now)
            _add_limit(found, account, "itpm", "x-ratelimit-{}-tokens-prompt", now)
            _add_limit(found, account, "otpm", "x-ratelimit-{}-tokens-generated", now)
        case "cohere":
            _add_limit(found, account, "rpm", "x-trial-endpoint-call-{}", now)
    return found


def _add_limit(found: Headers, account: Account, name: str, header: str, now: float, share: int = 1) -> None:
    account_limit = account.limits.get(name)
    if account_limit is not None:
        limit = int(account_limit.reported.limit) // share
        found[header.format("limit")] = str(limit)
        found[header.format("remaining")] = str(min(limit, remaining_of(account_limit, now)))


def vendor_refusal_headers(
    account: Account, style: str, refusal: Refusal, now: float, wall: float
) -> Headers | None:
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
            return {"X-RateLimit-" + name: value for name, value in openrouter_headers(refusal, wall).items()}
        case "mistral" | "cohere" | "deepseek" | "fireworks" | "vllm" | "ollama" | "llamacpp":
            return {}
        case "gemini" | "bedrock":
            return {}
    return None


def openrouter_headers(refusal: Refusal, wall: float) -> Headers:
    """OpenRouter's three: the reset is an instant in milliseconds."""
    reset = math.ceil((wall + refusal.wait_s) * 1000)
    return {"Limit": str(refusal.limit), "Remaining": "0", "Reset": str(reset)}
