"""The settings, after reading and checking: frozen records.

They contain no key: a provider has the *name* of the variable that holds it. Field names have a unit (`timeout_s`), the
file's keys have none (`timeout`).
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from headway.config.database_address import shown_database
from headway.core.model import LaneLimits, OrderName, Price, RetryPolicy

Isolation = Literal["process", "thread", "inline"]
Preflight = Literal["canary", "command", "none"]
#: The language of code in an eval file. Python runs in a worker process, JavaScript in node.
CodeLanguage = Literal["javascript", "python"]
#: What a program prints.
CommandOutput = Literal["text", "json", "jsonl"]
#: Whether a unit's next attempt continues the session of the last one.
ResumeMode = Literal["session", "none"]
#: Where units run: on this machine, or on the nodes of a Ray cluster.
ExecutorName = Literal["local", "ray"]
#: Which requests may be answered from the cache, and are stored in it.
CacheMode = Literal["off", "deterministic", "all"]
#: The largest answer. The longest chat completions have a few MB; a larger one is a fault or an attack, except embeddings
#: of thousands of texts in one request.
MAX_ANSWER_BYTES: Final = 64_000_000


class RetryConfig(msgspec.Struct, frozen=True):
    """`[providers.NAME.retry]`: `core.model.RetryPolicy` without the attempts, which belong to the run."""

    base_s: float = 1.0
    cap_s: float = 60.0
    jitter: float = 0.2
    max_throttles: int = 50
    hold_margin_s: float = 2.0
    default_wait_s: float = 60.0


class UnitResources(msgspec.Struct, frozen=True):
    """`resources = {…}` of a provider with `executor = "ray"`: what each unit takes of a node. `custom` are names of the cluster's own."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int = 0
    custom: dict[str, float] = {}


class WorkersConfig(msgspec.Struct, frozen=True):
    """The settings of `kind = "python"`: a function, where it runs, and where its rate limits are searched for.

    `workers` of 0 is one for each core, `recycle_after` of 0 is never. `failure_logs` is a pattern below the file's
    directory; `limit_exit_codes` are the codes that mean "a rate limit was reached".
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
    executor: ExecutorName = "local"
    resources: UnitResources = UnitResources()


class ToolWorkersConfig(WorkersConfig, frozen=True):
    """Workers for the Python tools of a flow that are in one folder, which is the `target`. `directory` is where they work."""

    directory: str = "."


class CodeConfig(WorkersConfig, frozen=True):
    """Workers for the code of an eval file. Assertions and transforms come with each request. A provider that is a function has a `file`.

    `options` are what the function gets as its options; texts in it may be templates. `timeout_s` of 0 is the run's.
    """

    language: CodeLanguage = "python"
    directory: str = "."
    timeout_s: float = 0.0
    file: str = ""
    function: str = ""
    options: dict[str, Any] = {}
    #: Variables for templates, besides those of the environment.
    variables: dict[str, str] = {}


class UrlConfig(msgspec.Struct, frozen=True):
    """Plain HTTP as a provider: how a request is made of a prompt, and an output of its response.

    Texts in `url`, `headers`, `query` and `body` may be templates. `response` is a path (`json.choices[0].text`), a JavaScript
    expression, or the body of a function; `response_file` is a file with a function instead. With neither, the output is the JSON or
    the text of the response. `timeout_s` of 0 is the run's.
    """

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: Any = None
    request: str = ""
    response: str = ""
    response_file: str = ""
    response_function: str = ""
    directory: str = "."
    timeout_s: float = 0.0
    variables: dict[str, str] = {}


class CommandConfig(msgspec.Struct, frozen=True):
    """The settings of `kind = "command"` and of agent CLIs: the program, its options, and where its rate limits are searched for.

    `exit_codes` are exit codes that mean a kind of error. `directory` is relative to the file's directory.
    """

    command: tuple[str, ...]
    output: CommandOutput = "text"
    exit_codes: dict[int, str] = {}
    directory: str = "."
    args: tuple[str, ...] = ()
    env: tuple[str, ...] | None = None
    workers: int = 0
    max_turns: int = 0
    allowed_tools: tuple[str, ...] = ()
    #: The CLI's own word. Permissions are bypassed only if it stands here.
    permission_mode: str = ""
    max_unit_cost: float = 0.0
    resume: ResumeMode = "session"
    preflight: Preflight = "canary"
    preflight_command: tuple[str, ...] = ()
    preflight_timeout_s: float = 30.0
    failure_logs: str = ""
    #: What all its processes together may take: up to 1 a share of what is free, above that bytes; 0: no limit.
    memory_budget: float = 0.75
    executor: ExecutorName = "local"
    resources: UnitResources = UnitResources()


class ScriptConfig(CommandConfig, frozen=True):
    """A script of an eval file, which gets the prompt, its options and the context as arguments. Texts in `options` may be templates."""

    options: dict[str, Any] = {}
    #: Variables for templates, besides those of the environment.
    variables: dict[str, str] = {}


class ProviderConfig(msgspec.Struct, frozen=True):
    """`[providers.NAME]`: one account, and how to reach it.

    `base_url` is as written, without trailing slashes; adapters accept it with or without `/v1`. `models` holds the limits
    of models that have their own, with the inherited ones filled in. `key_optional`: a server on this machine needs no
    key if no variable is named. `key_withheld`: the vendor's usual key is not sent, because this host is not the vendor's
    and the config does not name the variable.
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
    #: By model; "" is for models without prices of their own. `likes`: entries of the price list to use.
    prices: dict[str, Price] = {}
    likes: dict[str, str] = {}
    #: The cap for a job on this provider, and the caps of single models. 0 is no cap.
    max_cost_usd: float = 0.0
    max_costs: dict[str, float] = {}
    stream: bool | None = None
    key_optional: bool = False
    key_withheld: bool = False
    #: The vendor whose headers and error texts it has, if its address and its kind do not say so.
    profile: str | None = None
    #: For Azure; without one the paths are those of its v1 API.
    api_version: str | None = None
    #: For AWS.
    region: str | None = None
    #: Whether the key may go to another machine over plain http.
    insecure_http: bool = False
    #: The largest answer; 0 is no ceiling.
    max_answer_bytes: int = MAX_ANSWER_BYTES
    #: Settings of its kind.
    kind_settings: msgspec.Struct | None = None

    def limits_for(self, model: str) -> LaneLimits:
        """The configured limits of a model: its own, or the provider's."""
        return self.models.get(model, self.limits)

    def price_of(self, model: str) -> Price | None:
        """The configured price of a model; None if there is none."""
        own = self.prices.get(model)
        return self.prices.get("") if own is None and model not in self.likes else own

    def like(self, model: str) -> str:
        """The entry of the price list that is configured for a model, or ""."""
        return self.likes.get(model) or self.likes.get("", "")

    def retry_for(self, max_attempts: int) -> RetryPolicy:
        """The core's retry policy."""
        return RetryPolicy(max_attempts=max_attempts, **msgspec.structs.asdict(self.retry))


#: The longest hold that a run waits for: a daily quota, and two hours for clocks and time zones.
MAX_HOLD_S: Final = 26 * 3600.0


class RunConfig(msgspec.Struct, frozen=True):
    """`[run]`: settings of a whole run. 0 is no cap, except for `max_hold_s`: None is no cap, 0 waits for no hold."""

    provider: str | None = None
    concurrency: int = 0
    max_attempts: int = 5
    timeout_s: float = 600.0
    max_duration_s: float = 0.0
    max_cost_usd: float = 0.0
    max_hold_s: float | None = MAX_HOLD_S
    weight: float = 1.0
    cache: CacheMode = "off"
    order: OrderName = "auto"
    max_wait_s: float = 0.0


#: A hold that lasts longer than this is told of.
NOTIFY_HOLD_S: Final = 300.0


class NotifyConfig(msgspec.Struct, frozen=True):
    """`[run] notify` and `notify_hold`. Addresses may be secrets, so they are not among the settings that a job records."""

    targets: tuple[str, ...] = ()
    hold_s: float = NOTIFY_HOLD_S


class OtelConfig(msgspec.Struct, frozen=True):
    """`[otel]`: whether runs are traced, whether texts of prompts and answers go along, and whether providers over HTTP get a
    `traceparent` header.
    """

    enabled: bool = False
    content: bool = False
    propagate: bool = False


class RayConfig(msgspec.Struct, frozen=True):
    """`[ray]`: the cluster for providers with `executor = "ray"`.

    `travel`: the folder of headway.toml is brought to the nodes, without what `exclude` names. `units_per_actor` units share one actor, which
    takes the resources of all of them. `ask_ahead` is how many further actors a full cluster is asked for.
    """

    address: str = "auto"
    travel: bool = True
    exclude: tuple[str, ...] = ()
    units_per_actor: int = 1
    ask_ahead: int = 1


class ReviewInstruction(msgspec.Struct, frozen=True):
    """`[[review.instructions]]`: what the reviewer of some files is told. `path` is a pattern, as in .gitignore."""

    path: str
    text: str


class ReviewConfig(msgspec.Struct, frozen=True):
    """`[review]`: what `headway review` does without flags. Paths and patterns are relative to the tree."""

    #: Files at once; 0: as many as the lanes take.
    concurrency: int = 4
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_file_size: int = 1_000_000
    #: The longest part of a file, in tokens as they are estimated.
    max_part_tokens: int = 30_000
    out_dir: str = ".headway/reviews"
    instructions: tuple[ReviewInstruction, ...] = ()


class Config(msgspec.Struct, frozen=True):
    """All settings. `root` is the directory of the file, or the working directory without a file."""

    path: Path | None
    root: Path
    #: An absolute path, or a postgresql:// address, which may hold a password: print `shown_db` instead.
    db: str
    providers: dict[str, ProviderConfig] = {}
    run: RunConfig = RunConfig()
    review: ReviewConfig = ReviewConfig()
    notify: NotifyConfig = NotifyConfig()
    otel: OtelConfig = OtelConfig()
    ray: RayConfig = RayConfig()
    #: Whether a flag, the environment or the file names `db`. Otherwise it is the default.
    db_is_named: bool = False
    #: Whether no file names `providers`: they stand for the keys that are set, and change with them.
    providers_are_guessed: bool = False
    #: Providers that an eval describes: their settings are in its file.
    of_eval: frozenset[str] = frozenset()

    @property
    def shown_db(self) -> str:
        """`db` as it may be printed: an address without user, password and parameters."""
        return shown_database(self.db)

    def __repr__(self) -> str:
        return (
            f"Config(path={self.path!r}, root={self.root!r}, db={self.shown_db!r}, "
            f"providers={self.providers!r}, run={self.run!r})"
        )


def is_plain_http(base_url: str) -> bool:
    """Whether requests to an address leave this machine without encryption."""
    return urlsplit(base_url).scheme == "http" and not is_loopback(base_url)


def is_loopback(base_url: str) -> bool:
    """Whether an address is on this machine."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
