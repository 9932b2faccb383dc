"""All known providers, as data, and which one an address belongs to.

Facts and their sources are in the project's notes on providers; the reference page marks guesses. To add a provider, add
a `Profile` here.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from headway.core.model import DAY_S, MINUTE_S, Counting, Dimension, Kind
from headway.providers.limits.durations import MONTH_S
from headway.providers.limits.error_kinds import NO_STATUS, phrase
from headway.providers.limits.profile import LimitHeaders, Profile, SessionHeaders

REQUESTS, TOKENS, INPUT, OUTPUT = Dimension.REQUESTS, Dimension.TOKENS, Dimension.INPUT, Dimension.OUTPUT

#: Anthropic documents its remaining tokens as rounded to the nearest thousand.
ANTHROPIC_ROUNDING: Final = 500.0

#: Input and max_tokens are charged when the request is accepted, and stay charged.
RESERVED: Final = Counting(reserve_max_output=True, settle_output=False)
#: The tokens used are charged.
USED: Final = Counting(reserve_max_output=False, settle_output=True)
USED_CACHE_FREE: Final = Counting(reserve_max_output=False, settle_output=True, cached_free=True)


def _x_ratelimit(
    dimension: Dimension, what: str, *, reset: bool = True, daily: bool = False, period_s: float = MINUTE_S
) -> LimitHeaders:
    """Header names that OpenAI introduced: x-ratelimit-{limit,remaining,reset}-…"""
    return LimitHeaders(
        dimension,
        f"x-ratelimit-limit-{what}",
        f"x-ratelimit-remaining-{what}",
        f"x-ratelimit-reset-{what}" if reset else "",
        period_s,
        maybe_daily=daily,
    )


def _anthropic(dimension: Dimension, what: str, precision: float, *, repeats: bool = False) -> LimitHeaders:
    limit, remaining, reset = (
        f"anthropic-ratelimit-{what}-{part}" for part in ("limit", "remaining", "reset")
    )
    return LimitHeaders(dimension, limit, remaining, reset, remaining_precision=precision, repeats=repeats)


_BARE: Final = LimitHeaders(REQUESTS, "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", None)
_ANTHROPIC: Final = (
    _anthropic(REQUESTS, "requests", 1.0),
    _anthropic(TOKENS, "tokens", ANTHROPIC_ROUNDING, repeats=True),
    _anthropic(INPUT, "input-tokens", ANTHROPIC_ROUNDING),
    _anthropic(OUTPUT, "output-tokens", ANTHROPIC_ROUNDING),
)
_ACCELERATION: Final = phrase(
    r"maximum usage increase rate|acceleration limit", Kind.RATE, NO_STATUS, 429, code="acceleration_limit"
)
_NO_ALLOWANCE: Final = phrase(
    r"\blimit: ?0(?![\d.])", Kind.QUOTA, NO_STATUS, 429, 499, 503, code="no_allowance"
)
_GOOGLE: Final = {
    "quota_exhausted": Kind.HOLD,
    "insufficient_g1_credits_balance": Kind.QUOTA,
    "validation_required": Kind.AUTH,
}
_PACIFIC: Final = "America/Los_Angeles"  # Gemini's day ends at midnight Pacific time.

_OPENAI: Final = Profile(
    "openai",
    hosts=("api.openai.com", "*.api.openai.com"),
    scope="organization, project, model",
    limit_headers=(
        _x_ratelimit(REQUESTS, "requests", daily=True),
        _x_ratelimit(TOKENS, "tokens"),
        _x_ratelimit(TOKENS, "project-tokens"),
    ),
    counting=RESERVED,
    codes={"slow_down": Kind.RATE},
    phrases=(
        phrase(r"^You exceeded your current quota, please check your plan", Kind.QUOTA, NO_STATUS, 429),
    ),
    ramps=frozenset({"slow_down"}),
)

_PROFILES: Final = (
    _OPENAI,
    Profile(
        "anthropic",
        hosts=("api.anthropic.com",),
        scope="organization, workspace, model class",
        limit_headers=_ANTHROPIC,
        session=SessionHeaders("anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset"),
        counting=USED_CACHE_FREE,
        phrases=(_ACCELERATION,),
        ramps=frozenset({"acceleration_limit"}),
    ),
    Profile(
        "azure",
        hosts=(
            "*.openai.azure.com",
            "*.cognitiveservices.azure.com",
            "*.services.ai.azure.com",
            "*.inference.ai.azure.com",
            "models.github.ai",
            "models.inference.ai.azure.com",
        ),
        scope="deployment",
        limit_headers=(_x_ratelimit(REQUESTS, "requests"), _x_ratelimit(TOKENS, "tokens")),
        wait_headers=("x-rate-limit-reset-tokens", "x-rate-limit-reset-requests"),
        dimension_header="x-ratelimit-type",
        counting=RESERVED,
        codes={"slow_down": Kind.RATE},
        ramps=frozenset({"slow_down"}),
        quota_returns=True,
        zero_is_unknown=True,
        reset_reopens=True,
    ),
    Profile(
        "bedrock",
        hosts=("bedrock*.amazonaws.com", "bedrock*.amazonaws.com.cn", "bedrock-mantle*.api.aws"),
        scope="account, region, model",
        code_header="x-amzn-errortype",
        counting=Counting(reserve_max_output=True, settle_output=True, cached_free=True),
        codes={"servicequotaexceededexception": Kind.QUOTA},
        phrases=(
            phrase(r"\btoo many connections\b", Kind.CONCURRENCY, NO_STATUS, 429),
            phrase(r"on-demand throughput isn.t supported", Kind.AUTH, NO_STATUS, 400),
        ),
    ),
    Profile(
        "gemini",
        hosts=("generativelanguage.googleapis.com",),
        scope="project, model",
        counting=USED,
        codes=_GOOGLE,
        soft_codes={"failed_precondition": Kind.AUTH},
        phrases=(_NO_ALLOWANCE,),
        day_zone=_PACIFIC,
    ),
    Profile(
        "vertex",
        hosts=("aiplatform.googleapis.com", "*-aiplatform.googleapis.com", "aiplatform.*.rep.googleapis.com"),
        scope="project, region, model; shared capacity",
        counting=USED,
        codes=_GOOGLE,
        soft_codes={"failed_precondition": Kind.AUTH},
        phrases=(_NO_ALLOWANCE,),
        day_zone=_PACIFIC,
    ),
    Profile(
        "groq",
        hosts=("api.groq.com",),
        scope="organization, model",
        limit_headers=(_x_ratelimit(REQUESTS, "requests", period_s=DAY_S), _x_ratelimit(TOKENS, "tokens")),
        counting=Counting(reserve_max_output=True, settle_output=False, cached_free=True),
        statuses={498: Kind.OVERLOAD},
        codes={"organization_restricted": Kind.AUTH},
    ),
    Profile(
        "mistral",
        hosts=("api.mistral.ai", "codestral.mistral.ai"),
        scope="workspace, model",
        limit_headers=(
            _x_ratelimit(REQUESTS, "req-minute", reset=False),
            _x_ratelimit(TOKENS, "tokens-minute", reset=False),
            _x_ratelimit(TOKENS, "tokens-month", reset=False, period_s=MONTH_S),
        ),
        counting=USED,
        stream_usage=False,
        request_id="mistral-correlation-id",
    ),
    Profile(
        "together",
        hosts=("api.together.xyz", "api.together.ai", "*.api.together.ai"),
        scope="organization, model; grows with use",
        limit_headers=(
            LimitHeaders(REQUESTS, "x-ratelimit-limit", "x-ratelimit-remaining", period_s=1.0),
            LimitHeaders(TOKENS, "x-tokenlimit-limit", "x-tokenlimit-remaining", period_s=1.0),
        ),
        wait_headers=("x-ratelimit-reset",),
        counting=USED,
    ),
    Profile(
        "openrouter",
        hosts=("openrouter.ai", "*.openrouter.ai"),
        scope="account",
        limit_headers=(_BARE,),
        counting=USED,
        codes={"openrouter_free_tier_daily": Kind.HOLD, "upstream_provider_shared_pool": Kind.OVERLOAD},
        phrases=(
            phrase(r"free-models-per-day", Kind.HOLD, NO_STATUS, 429),
            phrase(r"\bkey limit exceeded\b", Kind.QUOTA, NO_STATUS, 403, 429),
            phrase(r"\brequires moderation\b|\binput was flagged\b", Kind.INVALID, NO_STATUS, 403),
            phrase(
                r"^Provider returned error|\brate-limited upstream\b",
                Kind.OVERLOAD,
                *(NO_STATUS, 408, 429, 500, 502, 503, 504, 524, 529),
                code="upstream",
            ),
        ),
        reset_reopens=True,
    ),
    Profile(
        "cohere",
        hosts=("api.cohere.com", "api.cohere.ai"),
        scope="key",
        limit_headers=(
            LimitHeaders(REQUESTS, "x-trial-endpoint-call-limit", "x-trial-endpoint-call-remaining"),
        ),
        counting=USED,
        request_id="x-debug-trace-id",
    ),
    Profile(
        "deepseek",
        hosts=("api.deepseek.com",),
        scope="account; requests in flight",
        counting=USED,
        request_id="x-ds-trace-id",
        statuses={429: Kind.CONCURRENCY},
    ),
    Profile("vllm", scope="server; it queues", counting=USED),
    Profile(
        "xai",
        hosts=("api.x.ai", "*.api.x.ai"),
        scope="team, model",
        limit_headers=(_x_ratelimit(REQUESTS, "requests"), _x_ratelimit(TOKENS, "tokens")),
        counting=USED,
        phrases=(
            phrase(
                r"\(actual/limit\): \d{1,12}/0\b|free usage quota exceeded",
                Kind.QUOTA,
                NO_STATUS,
                429,
                code="no_allowance",
            ),
        ),
    ),
    Profile(
        "fireworks",
        hosts=("api.fireworks.ai",),
        scope="account, model; grows with use",
        limit_headers=(
            _x_ratelimit(REQUESTS, "requests", reset=False),
            _x_ratelimit(INPUT, "tokens-prompt", reset=False),
            _x_ratelimit(OUTPUT, "tokens-generated", reset=False),
        ),
        counting=USED,
        statuses={412: Kind.QUOTA},
    ),
    Profile(
        "ollama",
        hosts=("ollama.com", "*.ollama.com", "*:11434"),
        scope="server",
        counting=USED,
        phrases=(phrase(r"maximum pending requests", Kind.CONCURRENCY, NO_STATUS, 503),),
    ),
    Profile(
        "llamacpp",
        scope="server",
        counting=USED,
        phrases=(phrase(r"\bno slot available\b", Kind.CONCURRENCY, NO_STATUS, 503),),
    ),
    Profile(
        "claude",
        scope="subscription, or the key's organization",
        counting=USED_CACHE_FREE,
        codes={"error_max_turns": Kind.INVALID, "error_max_budget_usd": Kind.INVALID},
        soft_codes={"error_during_execution": Kind.TRANSIENT, "unknown": Kind.TRANSIENT},
        phrases=(
            phrase(
                r"\byou(?:['’ʼ]ve| have)? (?:hit|reached|used(?: up)?|exceeded) (?:all (?:of )?)?your "
                r"(?:[\w-]{1,20} ){0,5}limits?\b"
                r"|\b(?:usage|session|weekly|daily|hourly|opus|sonnet|haiku|\d{1,2}-hour) limit reached\b"
                r"|\bout of (?:extra )?usage\b",
                Kind.HOLD,
                NO_STATUS,
                403,
                429,
                code="usage_limit",
            ),
            phrase(r"\bplease run /login\b|\boauth token has expired\b", Kind.AUTH, NO_STATUS, 401, 403),
            phrase(r"\bissue with the selected model\b", Kind.AUTH, NO_STATUS, 400, 404),
            _ACCELERATION,
        ),
        ramps=frozenset({"acceleration_limit"}),
        agent=True,
    ),
    Profile(
        "codex",
        scope="plan or workspace",
        counting=RESERVED,
        codes={"slow_down": Kind.RATE},
        phrases=(
            phrase(
                r"\bworkspace is out of credits\b|\bhit your spend cap\b|^Quota exceeded\. Check your plan",
                Kind.QUOTA,
                NO_STATUS,
                429,
            ),
            phrase(
                r"\byou(?:['’ʼ]ve| have)? (?:hit|reached) your (?:[\w-]{1,20} ){0,3}limit\b",
                Kind.HOLD,
                NO_STATUS,
                429,
                code="usage_limit",
            ),
            phrase(
                r"\bupgrade to plus\b|\bnot signed in\b|\bplease log out and sign in\b", Kind.AUTH, NO_STATUS
            ),
            phrase(r"\bran out of room in the model.s context window\b", Kind.TOO_LARGE, NO_STATUS),
        ),
        ramps=frozenset({"slow_down"}),
        agent=True,
    ),
    Profile(
        "gemini-cli",
        scope="account or project, model",
        counting=USED,
        codes={
            **_GOOGLE,
            "fatalauthenticationerror": Kind.AUTH,
            "validationrequirederror": Kind.AUTH,
            "modelnotfounderror": Kind.AUTH,
            "fatalconfigerror": Kind.AUTH,
            "fatalinputerror": Kind.INVALID,
            "fatalturnlimitederror": Kind.INVALID,
        },
        soft_codes={"terminalquotaerror": Kind.HOLD, "retryablequotaerror": Kind.RATE},
        phrases=(
            _NO_ALLOWANCE,
            phrase(
                r"\bexhausted your daily quota\b",
                Kind.HOLD,
                NO_STATUS,
                429,
                499,
                503,
                code="daily_quota",
            ),
        ),
        day_zone=_PACIFIC,
        agent=True,
    ),
    Profile(
        "opencode",
        scope="account of the model's provider",
        counting=USED,
        codes={"providerautherror": Kind.AUTH, "messageabortederror": Kind.TRANSIENT},
        agent=True,
    ),
    Profile(
        "generic",
        scope="unknown",
        limit_headers=(
            _x_ratelimit(REQUESTS, "requests"),
            _x_ratelimit(TOKENS, "tokens"),
            _x_ratelimit(REQUESTS, "req-minute"),
            _x_ratelimit(TOKENS, "tokens-minute"),
            _x_ratelimit(TOKENS, "tokens-per-minute"),
            _x_ratelimit(REQUESTS, "requests-day", period_s=DAY_S),
            _x_ratelimit(TOKENS, "tokens-day", period_s=DAY_S),
            _x_ratelimit(TOKENS, "tokens-per-day", period_s=DAY_S),
            _BARE,
            LimitHeaders(REQUESTS, "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", None),
            *_ANTHROPIC,
        ),
        ietf=True,
        counting=RESERVED,
        quota_returns=True,
        reset_reopens=True,
    ),
)

PROFILES: Final = {profile.name: profile for profile in _PROFILES}
GENERIC: Final = PROFILES["generic"]


def profile_for(*names: str) -> Profile:
    """The profile of the first known name: a base URL (by its host), or a provider's kind. Otherwise the generic one.

    `profile_for(base_url, kind)` tries the address first: `kind = "openai"` with Groq's address is Groq.
    """
    for name in filter(None, names):
        named = PROFILES.get(name.strip().lower())
        if named is not None:
            return named
        host = _host(name)
        for profile in _PROFILES:
            if any(_matches(candidate, pattern) for pattern in profile.hosts for candidate in host):
                return profile
    return GENERIC


def _matches(host: str, pattern: str) -> bool:
    """Most patterns are the name of a host. Only those with a `*` are worth compiling."""
    return fnmatchcase(host, pattern) if "*" in pattern else host == pattern


def _host(address: str) -> tuple[str, str]:
    """The host of an address, without and with its port."""
    authority = address.strip().lower().partition("://")[2] or address.strip().lower()
    for end in "/?#":
        authority = authority.partition(end)[0]
    authority = authority.rpartition("@")[2]
    return authority.partition(":")[0], authority
