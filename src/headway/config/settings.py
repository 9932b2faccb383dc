"""What a configuration is once it is read and checked: frozen records.

A key is never among them: a provider knows the *name* of the variable that holds it. Field names carry their unit
(`timeout_s`), the file's keys do not (`timeout`).
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from headway.core.model import LaneLimits, Price, RetryPolicy

Isolation = Literal["process", "thread", "inline"]
Preflight = Literal["canary", "command", "none"]
#: Which requests may be answered from the cache, and are kept in it.
CacheMode = Literal["off", "deterministic", "all"]
#: The most that is taken of one answer. The longest chat completions have a few MB; what is above this is a fault or an
#: attack, but for embeddings of thousands of texts in one request.
MAX_ANSWER_BYTES: Final = 64_000_000


class RetryConfig(msgspec.Struct, frozen=True):
    """`[providers.NAME.retry]`: everything of `core.model.RetryPolicy` but the attempts, which belong to the run."""

    base_s: float = 1.0
    cap_s: float = 60.0
    jitter: float = 0.2
    max_throttles: int = 50
    hold_margin_s: float = 2.0
    default_wait_s: float = 60.0


class WorkersConfig(msgspec.Struct, frozen=True):
    """What a provider of kind "python" has besides: a function, where it runs, and where its limits are looked for.

    `workers` and `recycle_after` of 0 are one a core, and never. `failure_logs` is a pattern below the file's
    directory; `limit_exit_codes` are those that say "a rate limit was met".
    """

    target: str
    isolation: Isolation = "process"
    workers: int = 0
    recycle_after: int = 0
    memory_ceiling: int = 0
    memory_limit: int = 0
    preflight: Preflight = "canary"
    preflight_command: tuple[str, ...] = ("claude", "--print", "ping")
    preflight_timeout_s: float = 30.0
    failure_logs: str = ""
    limit_exit_codes: tuple[int, ...] = ()
    #: The variables that workers and the preflight's command get; None: all.
    env: tuple[str, ...] | None = None


class ProviderConfig(msgspec.Struct, frozen=True):
    """`[providers.NAME]`: one way to ask one account.

    `base_url` is as it was written but for trailing slashes: with or without `/v1`, which adapters settle. `models`
    holds the limits of models that have their own, with what they inherit already in them. `key_optional`: a
    server on this machine for which no variable is named may do without a key. `key_withheld`: the vendor's usual key
    is not sent to this host, which is not the vendor's, because the config does not name the variable.
    """

    name: str
    #: One of `config.kinds`.
    kind: str
    base_url: str
    api_key_env: str
    model: str | None = None
    pool: str | None = None
    limits: LaneLimits = LaneLimits()
    retry: RetryConfig = RetryConfig()
    models: dict[str, LaneLimits] = {}
    #: By model; "" is for all that have none of their own. `likes`: whose price in the price list is meant.
    prices: dict[str, Price] = {}
    likes: dict[str, str] = {}
    #: What all of it may cost, and models that may cost no more than so much themselves, a job. 0 is no cap.
    max_cost_usd: float = 0.0
    max_costs: dict[str, float] = {}
    stream: bool | None = None
    key_optional: bool = False
    key_withheld: bool = False
    #: Whose headers and words it has, where neither its address nor its kind says so.
    profile: str | None = None
    #: Azure's: without one the paths are those of its v1 API.
    api_version: str | None = None
    #: AWS's.
    region: str | None = None
    #: Whether the key may go to another machine over plain http.
    insecure_http: bool = False
    #: The most that is taken of one answer; 0 is no ceiling.
    max_answer_bytes: int = MAX_ANSWER_BYTES
    #: What only its kind has.
    kind_settings: msgspec.Struct | None = None

    def limits_for(self, model: str) -> LaneLimits:
        """What is configured for one model: its own where it names them, the provider's otherwise."""
        return self.models.get(model, self.limits)

    def price_of(self, model: str) -> Price | None:
        """What a model's tokens cost, where that is configured."""
        own = self.prices.get(model)
        return self.prices.get("") if own is None and model not in self.likes else own

    def like(self, model: str) -> str:
        """Which model of the price list it costs as much as, where that is configured."""
        return self.likes.get(model) or self.likes.get("", "")

    def retry_for(self, max_attempts: int) -> RetryPolicy:
        """As the core wants it."""
        return RetryPolicy(max_attempts=max_attempts, **msgspec.structs.asdict(self.retry))


#: The longest hold that a run waits for: a day's quota fits, and two hours for clocks and time zones.
MAX_HOLD_S: Final = 26 * 3600.0


class RunConfig(msgspec.Struct, frozen=True):
    """`[run]`: what holds for a whole run. 0 is no cap, but for `max_hold_s`: None is none, 0 waits for no hold."""

    provider: str | None = None
    concurrency: int = 0
    max_attempts: int = 5
    timeout_s: float = 600.0
    max_duration_s: float = 0.0
    max_cost_usd: float = 0.0
    max_hold_s: float | None = MAX_HOLD_S
    weight: float = 1.0
    cache: CacheMode = "off"


class Config(msgspec.Struct, frozen=True):
    """All of it. `root` is the directory of the file, or the working directory where there is none."""

    path: Path | None
    root: Path
    #: An absolute path, or a postgresql:// address. That may hold a password: print `shown_db` instead.
    db: str
    providers: dict[str, ProviderConfig] = {}
    run: RunConfig = RunConfig()
    #: Whether a flag, the environment or the file names it. Otherwise it is where Headway looks by itself.
    db_is_named: bool = False

    @property
    def shown_db(self) -> str:
        """`db` as it may be printed: an address without user, password and parameters."""
        scheme, mark, rest = self.db.partition("://")
        if not mark:
            return self.db
        # The last @ ends the user's part: a password may hold one, and a slash too.
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

    def __repr__(self) -> str:
        return (
            f"Config(path={self.path!r}, root={self.root!r}, db={self.shown_db!r}, "
            f"providers={self.providers!r}, run={self.run!r})"
        )


def is_plain_http(base_url: str) -> bool:
    """Whether what is sent to an address leaves this machine without encryption."""
    return urlsplit(base_url).scheme == "http" and not is_loopback(base_url)


def is_loopback(base_url: str) -> bool:
    """Whether an address stays on this machine."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
