"""What a fake provider is told to be: its accounts, their limits and delays, its faults and its tool calls.

Plain records. docs/reference/fake.md documents every key, and a test holds the two together.
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

#: Who can be imitated. `auto` is whoever's path is asked: OpenAI, Anthropic, Azure, Gemini or Bedrock.
Vendor = Literal[
    "auto", "openai", "azure", "groq", "mistral", "together", "openrouter", "cohere", "deepseek", "xai", "fireworks",
    "vllm", "ollama", "llamacpp",
]  # fmt: skip
#: The secret of AWS keys that have none of their own.
SECRET = "fake-secret"

#: Every fault: what the client meets.
FAULTS = {
    "500": "500, the vendor's server error",
    "502": "502 with a proxy's HTML page",
    "503": "503, the vendor's unavailable error",
    "5xx": "one of these three, by chance",
    "529": "529 overloaded, at the door: nothing is charged",
    "401": "401 for a key that was good, at the door",
    "blocked": "a prompt that is refused for what it says, as each vendor does it",
    "quota": "no money left (429 insufficient_quota; Anthropic: 400 credit balance), at the door",
    "bad-headers": "rate-limit headers that make no sense, on a 429 too",
    "reset": "the connection is reset before the headers",
    "hang": "no answer, ever; the connection stays open",
    "html": "200 with an HTML page",
    "truncated": "200 with JSON that ends in the middle; a stream ends without its last events",
    "reset-body": "the connection is reset in the middle of the body",
    "stall": "half of the body, then nothing more",
    "stream-error": "an error event in the middle of a stream; 500 for a plain request",
    "keep-alive": "blank lines (a stream: comments) before a good answer",
    "slow": "a good answer in small pieces over five seconds",
}

#: Other words for a fault.
ALIASES = {"overloaded": "529", "auth": "401", "slow-loris": "slow"}


class Fault(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Something that goes wrong: always, by chance, every so many requests, once at instants, or for a while."""

    kind: str | int
    chance: Share = 1.0
    every: Count | None = None
    at: Seconds | None = None
    between: tuple[Seconds, Seconds] | None = None

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            near = difflib.get_close_matches(self.name, [*FAULTS, *ALIASES], n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(FAULTS)}"
            raise ValueError(f"there is no fault '{self.name}'; {hint}")
        if self.between is not None and not self.between[0] < self.between[1]:
            raise ValueError(
                f"'between' ends after it begins, not {self.between[0]:g} and then {self.between[1]:g}"
            )

    @property
    def name(self) -> str:
        """The kind by the name that the statistics use."""
        return ALIASES.get(str(self.kind), str(self.kind))


class LimitUpdate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From `at` on these limits hold; what is not named stays."""

    at: Seconds
    rpm: Limit | None = None
    rpd: Limit | None = None
    tpm: Limit | None = None
    tpd: Limit | None = None
    itpm: Limit | None = None
    otpm: Limit | None = None
    max_concurrency: Count | None = None


class AccountConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One account. Without a limit there is none."""

    #: Which key is this account; without one the account's name is its key.
    key: str | tuple[str, ...] = ()
    rpm: Limit | None = None
    rpd: Limit | None = None
    tpm: Limit | None = None
    tpd: Limit | None = None
    itpm: Limit | None = None
    otpm: Limit | None = None
    max_concurrency: Count | None = None
    #: How many may wait beyond `max_concurrency`; without it they are refused.
    queue: Count | bool = False
    #: How deep each bucket is; by default a minute, with `headers: minute` a second.
    burst: Seconds | None = None
    window: Literal["sliding", "fixed"] = "sliding"
    #: A request above what a bucket holds: refused for ever, or admitted when the bucket is full.
    oversize: Literal["refuse", "admit"] = "refuse"
    headers: Literal["auto", "openai", "anthropic", "none", "minute"] = "auto"
    #: Whose words and headers OpenAI's paths have.
    dialect: Vendor = "auto"
    #: How `tpm` is charged: with max_tokens, with it until the answer is there, or what was used; by default as the vendor does.
    charge: Literal["auto", "reserve", "settle", "used"] = "auto"
    #: The longest prompt in tokens; without it any.
    context: Count | None = None
    #: What AWS keys of this account are signed with.
    secret: str = SECRET
    retry_after: bool | Literal["ms"] = True
    #: What a request without max_tokens is charged for its output (OpenAI's own default for completions).
    default_max_tokens: Annotated[int, msgspec.Meta(ge=0)] = 16
    #: How long answers are; without it as long as the echo.
    output_tokens: Spread | None = None
    latency: Spread = Spread(0.0)
    #: Until a stream's first event; without it as the latency.
    ttft: Spread | None = None
    per_token: Seconds = Seconds(0.0)
    limits: tuple[LimitUpdate, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def depth_s(self) -> float:
        """The depth of each bucket, in seconds of its refill."""
        if self.burst is None:
            return 1.0 if self.headers == "minute" else 60.0
        return float(self.burst)

    def keys(self, name: str) -> tuple[str, ...]:
        """The API keys that are this account."""
        return (self.key,) if isinstance(self.key, str) else self.key or (name,)

    def __post_init__(self) -> None:
        if self.burst is not None and self.burst <= 0:
            raise ValueError("a burst is longer than nothing")


class ToolRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the last user text contains `contains`, the answer is this call; where a tool answered, it is text."""

    contains: str
    name: str
    arguments: dict[str, Any] = {}


class AnswerRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the first user text contains `contains`, the answers are these, one a turn of the conversation.

    A text is said as it is, anything else as JSON; the last one is said again and again.
    """

    turns: Annotated[tuple[Any, ...], msgspec.Meta(min_length=1)]
    contains: str = ""

    def answer(self, turn: int) -> str:
        """The answer after so many answers."""
        answer = self.turns[min(turn, len(self.turns) - 1)]
        return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()


class LengthRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the last text contains `contains`, the answer is this long, whatever the account says."""

    contains: str
    output_tokens: Spread


class FakeConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole provider."""

    accounts: dict[str, AccountConfig] = {}
    #: Whether a key that no account has is refused; otherwise the account `default` takes it.
    strict: bool = False
    seed: int = 1
    #: For every account, after its own.
    faults: tuple[Fault, ...] = ()
    tools: tuple[ToolRule, ...] = ()
    answers: tuple[AnswerRule, ...] = ()
    lengths: tuple[LengthRule, ...] = ()
    #: How many different requests are remembered by their fingerprint, about 150 bytes each.
    remember: Count = 4_000_000
    #: How far the provider's wall clock is ahead: shows in Date and in absolute resets.
    clock_skew: float = 0.0

    def __post_init__(self) -> None:
        if self.strict and not self.accounts:
            raise ValueError("strict wants accounts: no key would be good")
        if not math.isfinite(self.clock_skew):
            raise ValueError("a clock's skew is a number of seconds")


STRUCTS = (FakeConfig, AccountConfig, Fault, LimitUpdate, ToolRule, AnswerRule, LengthRule)


def known_keys() -> list[str]:
    """Every key that may stand in a plan, on any level."""
    return sorted({field for kind in STRUCTS for field in kind.__struct_fields__})


def decode_hook(kind: type, answer: object) -> object:
    """msgspec's hook for what it does not know: durations and spreads."""
    if kind is Seconds:
        return seconds(answer)
    if kind is Spread:
        return parse_spread(answer)
    raise NotImplementedError(f"{kind} cannot stand in a plan")


def accounts_by_key(config: FakeConfig) -> dict[str, str]:
    """API key → account name; two accounts of one key are a mistake."""
    found: dict[str, str] = {}
    for name, account in config.accounts.items():
        for key in account.keys(name):
            if key in found:
                raise ConfigError(f"the accounts '{found[key]}' and '{name}' have one key")
            found[key] = name
    return found
