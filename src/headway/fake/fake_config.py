"""The configuration of a fake provider: accounts with limits and delays, faults, tool calls, answers.

Plain records. docs/reference/fake.md documents every key; a test compares the two.
"""

from __future__ import annotations

import difflib
import math
from typing import Annotated, Any, Literal

import msgspec

from headway.errors import ConfigError
from headway.fake.quantities import Seconds, Spread, parse_spread, seconds

Limit = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]

#: The limits of an account, as keys. RPD and TPD are per day, the others are per minute.
LIMIT_KEYS = ("rpm", "rpd", "tpm", "tpd", "itpm", "otpm")

#: The vendors that can be imitated. `auto` follows the path of the request: OpenAI, Anthropic, Azure, Gemini or Bedrock.
Vendor = Literal[
    "auto", "openai", "azure", "groq", "mistral", "together", "openrouter", "cohere", "deepseek", "xai", "fireworks",
    "vllm", "ollama", "llamacpp",
]  # fmt: skip
#: The default secret of AWS keys.
SECRET = "fake-secret"

#: Every kind of fault, and what the client sees.
FAULTS = {
    "500": "500, the vendor's server error",
    "502": "502 with a proxy's HTML page",
    "503": "503, the vendor's unavailable error",
    "5xx": "one of these three at random",
    "529": "529 overloaded, before admission: nothing is charged",
    "401": "401 for a valid key, before admission",
    "blocked": "the vendor's refusal of a prompt for its content",
    "429": "429, too fast, with the wait `resets` (1 s), before admission",
    "subscription": "a subscription's window is used up: refused until it resets (`resets`, 5 h), before admission",
    "quota": "no credit left (429 insufficient_quota; Anthropic: 400 credit balance), before admission",
    "bad-headers": "rate-limit headers with meaningless values, on a 429 as well",
    "reset": "the connection is reset before the headers",
    "hang": "no answer at all; the connection stays open",
    "html": "200 with an HTML page",
    "truncated": "200 with JSON that ends in the middle; a stream ends without its last events",
    "reset-body": "the connection is reset in the middle of the body",
    "stall": "half of the body, then silence",
    "stream-error": "an error event in the middle of a stream; 500 for a plain request",
    "keep-alive": "blank lines (a stream: comments) before a good answer",
    "slow": "a good answer in small pieces over five seconds",
}

#: Faults that say when the account opens again, and how long that takes unless set.
RESETS = {"429": 1.0, "subscription": 5 * 3600.0}

#: The windows of a subscription, by Anthropic's names.
Claim = Literal["five_hour", "seven_day", "seven_day_opus", "seven_day_sonnet"]

#: Aliases of faults.
ALIASES = {"overloaded": "529", "auth": "401", "slow-loris": "slow"}


class Fault(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One fault: always, at random, every N requests, once at an instant, or during a period; or for some prompts."""

    kind: str | int
    chance: Share = 1.0
    every: Count | None = None
    at: Seconds | None = None
    between: tuple[Seconds, Seconds] | None = None
    #: Only requests whose user texts contain it.
    contains: str = ""
    #: `429` and `subscription`: when the account opens again.
    resets: Seconds | None = None
    #: `subscription`: which window is used up.
    claim: Claim = "five_hour"

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            near = difflib.get_close_matches(self.name, [*FAULTS, *ALIASES], n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(FAULTS)}"
            raise ValueError(f"unknown fault '{self.name}'; {hint}")
        if self.resets is not None and self.name not in RESETS:
            raise ValueError(f"'resets' is for {' and '.join(RESETS)}, not for '{self.name}'")
        if self.between is not None and not self.between[0] < self.between[1]:
            raise ValueError(
                f"'between' must end after it begins, not go from {self.between[0]:g} to {self.between[1]:g}"
            )

    @property
    def name(self) -> str:
        """The kind, aliases resolved; the statistics use this name."""
        return ALIASES.get(str(self.kind), str(self.kind))


class LimitUpdate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """New limits from `at` on. Limits that are not given stay."""

    at: Seconds
    rpm: Limit | None = None
    rpd: Limit | None = None
    tpm: Limit | None = None
    tpd: Limit | None = None
    itpm: Limit | None = None
    otpm: Limit | None = None
    max_concurrency: Count | None = None


class AccountConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One account. A limit that is left out is unlimited."""

    #: The API keys of this account; by default its name.
    key: str | tuple[str, ...] = ()
    rpm: Limit | None = None
    rpd: Limit | None = None
    tpm: Limit | None = None
    tpd: Limit | None = None
    itpm: Limit | None = None
    otpm: Limit | None = None
    max_concurrency: Count | None = None
    #: How many requests may wait beyond `max_concurrency`; by default they are refused.
    queue: Count | bool = False
    #: Depth of each bucket; by default a minute, with `headers: minute` a second.
    burst: Seconds | None = None
    window: Literal["sliding", "fixed"] = "sliding"
    #: A request larger than the bucket: always refused, or admitted when the bucket is full.
    oversize: Literal["refuse", "admit"] = "refuse"
    headers: Literal["auto", "openai", "anthropic", "none", "minute"] = "auto"
    #: The vendor whose errors and headers OpenAI's paths use.
    dialect: Vendor = "auto"
    #: How `tpm` is charged: `reserve` max_tokens; reserve and refund at the end (`settle`); or what was `used`. By default as the vendor does.
    charge: Literal["auto", "reserve", "settle", "used"] = "auto"
    #: The longest prompt in tokens; by default unlimited.
    context: Count | None = None
    #: The secret that requests with an AWS key of this account are signed with.
    secret: str = SECRET
    retry_after: bool | Literal["ms"] = True
    #: Output tokens charged to a request without max_tokens (OpenAI's own default for completions).
    default_max_tokens: Annotated[int, msgspec.Meta(ge=0)] = 16
    #: The length of answers; by default that of the echo.
    output_tokens: Spread | None = None
    latency: Spread = Spread(0.0)
    #: Time to a stream's first event; by default the latency.
    ttft: Spread | None = None
    #: Time to a server error or a reset; by default the latency.
    error_latency: Spread | None = None
    per_token: Seconds = Seconds(0.0)
    limits: tuple[LimitUpdate, ...] = ()
    #: The used share of each window of a subscription, which Anthropic's answers report.
    windows: dict[Claim, Share] = {}
    faults: tuple[Fault, ...] = ()

    @property
    def depth_s(self) -> float:
        """The depth of each bucket, in seconds of its refill."""
        if self.burst is None:
            return 1.0 if self.headers == "minute" else 60.0
        return float(self.burst)

    def keys(self, name: str) -> tuple[str, ...]:
        """The API keys of this account."""
        return (self.key,) if isinstance(self.key, str) else self.key or (name,)

    def __post_init__(self) -> None:
        if self.burst is not None and self.burst <= 0:
            raise ValueError("a burst must be longer than 0")


class ToolRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """If a user text contains `contains`, the answer is this tool call. After a tool's result the answer is text."""

    contains: str
    name: str
    arguments: dict[str, Any] = {}


class AnswerRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """If a user text contains `contains`, these are the answers, one for each turn of the conversation.

    A string is sent as it is, anything else as JSON. The last answer is repeated.
    """

    turns: Annotated[tuple[Any, ...], msgspec.Meta(min_length=1)]
    contains: str = ""

    def answer(self, turn: int) -> str:
        """The answer of this turn, counted from 0."""
        answer = self.turns[min(turn, len(self.turns) - 1)]
        return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()


class LengthRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """If a user text contains `contains`, the answer has this length, whatever the account says."""

    contains: str
    output_tokens: Spread


class FakeConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole provider."""

    accounts: dict[str, AccountConfig] = {}
    #: Whether unknown keys are refused; otherwise they belong to the account `default`.
    strict: bool = False
    seed: int = 1
    #: Faults of every account, tried after its own.
    faults: tuple[Fault, ...] = ()
    tools: tuple[ToolRule, ...] = ()
    answers: tuple[AnswerRule, ...] = ()
    lengths: tuple[LengthRule, ...] = ()
    #: How many different requests are remembered by fingerprint, at about 150 bytes each.
    remember: Count = 4_000_000
    #: How many seconds the provider's wall clock is ahead: visible in Date and in absolute resets.
    clock_skew: float = 0.0

    def __post_init__(self) -> None:
        if self.strict and not self.accounts:
            raise ValueError("strict needs accounts: without them every key is refused")
        if not math.isfinite(self.clock_skew):
            raise ValueError("clock_skew must be a finite number of seconds")


STRUCTS = (FakeConfig, AccountConfig, Fault, LimitUpdate, ToolRule, AnswerRule, LengthRule)


def known_keys() -> list[str]:
    """Every key of the configuration, on any level."""
    return sorted({field for kind in STRUCTS for field in kind.__struct_fields__})


def decode_hook(kind: type, value: object) -> object:
    """msgspec's hook for types of our own: durations and spreads."""
    if kind is Seconds:
        return seconds(value)
    if kind is Spread:
        return parse_spread(value)
    raise NotImplementedError(f"no decoder for {kind}")


def accounts_by_key(config: FakeConfig) -> dict[str, str]:
    """API key → account name. Two accounts with the same key are an error."""
    names: dict[str, str] = {}
    for name, account in config.accounts.items():
        for key in account.keys(name):
            if key in names:
                raise ConfigError(f"the accounts '{names[key]}' and '{name}' have the same key")
            names[key] = name
    return names
