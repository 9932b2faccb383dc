"""The first `headway.toml`: the accounts that the environment has keys for, in a commented file.

It names variables and addresses, never the content of a variable with a key. A line `#key = value`, without a space after
the mark, is a setting that can be switched on; a line `# …` is an explanation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headway.config import checks
from headway.config.kinds import KINDS
from headway.config.kinds.bedrock import AWS_VARIABLES
from headway.config.known_vendors import ALIASES, BY_NAME, REGION, VENDORS, Vendor
from headway.config.loading import BASE_URL_VARIABLES
from headway.config.settings import is_loopback
from headway.errors import ConfigError


class DetectedAccount(msgspec.Struct, frozen=True):
    """An account whose key was found. `where`: "environment" or ".env"; "" for the example of a local server."""

    provider: str
    title: str
    kind: str
    variable: str
    where: str
    base_url: str
    model: str = ""
    region: str = ""


#: Variables that hold addresses.
ADDRESS_VARIABLES: Final = {**BASE_URL_VARIABLES, "azure": "AZURE_OPENAI_ENDPOINT"}
#: The vendors whose keys `headway init` looks for. Servers on this machine have none.
HOSTS: Final = tuple(vendor for vendor in VENDORS if not is_loopback(vendor.base_url))
#: The address of the example of a local server: that of `headway fake` by default.
LOCAL_URL: Final = "http://127.0.0.1:8900/v1"
LOCAL_KEY: Final = "LOCAL_KEY"


def accounts(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> list[DetectedAccount]:
    """All accounts whose usual variable is set, in the environment or in `.env`, and whose address is known."""
    detected = []
    for host in HOSTS:
        named = _named(host, environ, dotenv)
        if named is None:
            continue
        variable, source = named
        address, region = _address(host, environ, source), _region(environ, source)
        if not address or (host.kind == "bedrock" and not region):
            continue
        where = "environment" if source is environ else ".env"
        address = address.replace(REGION, region)
        region = region if host.kind == "bedrock" else ""
        detected.append(
            DetectedAccount(host.name, host.title, host.kind, variable, where, address, host.model, region)
        )
    return detected


def lacking(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> list[str]:
    """Why accounts whose keys were found are left out."""
    notes = []
    for host in HOSTS:
        named = _named(host, environ, dotenv)
        if named is None:
            continue
        variable, source = named
        if not _address(host, environ, source):
            notes.append(
                f"{variable} is set, but not {ADDRESS_VARIABLES[host.name]}: {host.title} was left out"
            )
        elif host.kind == "bedrock" and not _region(environ, source):
            notes.append(f"{variable} is set, but not AWS_REGION: {host.title} was left out")
    return notes


def _named(
    host: Vendor, environ: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[str, Mapping[str, str]] | None:
    """The variable with an account's key, and the source that has it."""
    names = [host.variable, ALIASES.get(host.variable, "")]
    if host.kind == "bedrock":
        names.append(AWS_VARIABLES[0])
    for name in filter(None, names):
        for source in (environ, dotenv):
            if source.get(name):
                return name, source
    return None


def _address(host: Vendor, environ: Mapping[str, str], source: Mapping[str, str]) -> str:
    """The address for a key: the same as for runs without a file (`loading`)."""
    variable = ADDRESS_VARIABLES.get(host.name, "")
    address = environ.get(variable) or source.get(variable)
    if not address:
        return host.base_url
    try:
        return checks.base_url(address)
    except ValueError as error:
        raise ConfigError(f"{variable}: {error}") from None


def _region(environ: Mapping[str, str], source: Mapping[str, str]) -> str:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        value = environ.get(name) or source.get(name)
        if value:
            try:
                return checks.region(value)
            except ValueError as error:
                raise ConfigError(f"{name}: {error}") from None
    return ""


def starter(detected: Sequence[DetectedAccount]) -> str:
    """The text of the file. Without an account it has a server on this machine."""
    first, *others = detected or (_LOCAL,)
    parts = [_HEAD, _provider(first, full=True)]
    parts += [_provider(other, full=False) for other in others]
    parts.append(_run(first.provider, several=bool(others)))
    return "\n".join(parts)


_LOCAL: Final = DetectedAccount(
    "local", "A server on this machine", "openai", LOCAL_KEY, "", LOCAL_URL, "echo"
)

_HEAD: Final = """\
# headway.toml, written by 'headway init'. Change it as you like; 'headway doctor' checks it.
# A line such as '#rpm = 3000' is a setting that is off: remove its # (and that of its [table]) to use it.
# This file never contains keys. Keys are in the environment, or in a file .env beside this one.

# Where jobs, answers and learned limits are stored; a path is relative to this file.
#db = ".headway/headway.db"

# Providers: one table for each account. A row's model "NAME/model" goes to the provider NAME.
"""

_LIMITS: Final = """\
# The limits of this account. All are optional: lanes read limits from the provider's headers, or find them.
# A limit is a ceiling; 0 means unlimited.
#[providers.{name}.limits]
#rpm = 3000                     # requests per minute
#tpm = 200_000                  # tokens per minute, input and output together
#input_tpm = 100_000            # input tokens per minute
#output_tpm = 50_000            # output tokens per minute
#rpd = 10_000                   # requests per day
#tpd = 5_000_000                # tokens per day
#max_concurrency = 64           # requests in flight
#min_gap = "0s"                 # the least time between two starts
#burst = "auto"                 # the bucket's depth as a duration; "auto" finds it

# How units are retried after an error. A rate limit costs no attempt.
#[providers.{name}.retry]
#base = "1s"                    # the first backoff; each further one is twice as long
#cap = "60s"                    # the longest
#jitter = 0.2                   # the share by which they vary
#max_throttles = 50             # how often a unit may meet a limit
#hold_margin = "2s"             # how long after a reset the lane opens
#default_wait = "60s"           # how long a hold lasts if the provider does not say

# Prices in USD per million tokens, if they differ from the price list.
#[providers.{name}.prices]
#input = 0.0
#output = 0.0
#cached_input = 0.0            # read from the provider's cache
#cache_write = 0.0             # written to it

# A model with limits (or prices) of its own; what it does not set it inherits.
#[providers.{name}.models."{model}".limits]
#rpm = 500

# A model that the price list does not have (a deployment, a gateway's model) can use the price of one that it has.
#[providers.{name}.models."{model}".prices]
#like = "openai/gpt-4.1-mini"
"""


def _provider(account: DetectedAccount, *, full: bool) -> str:
    """The table of an account; with all settings if `full`."""
    lines = [f"# {account.title}. {_about_key(account)}", f"[providers.{account.provider}]"]
    lines += [_setting(*line) for line in _settings(account, full=full)]
    text = "\n".join(lines) + "\n"
    if not full:
        return text
    return text + "\n" + _LIMITS.format(name=account.provider, model=account.model or "MODEL")


def _about_key(account: DetectedAccount) -> str:
    if account.where:
        return f"The key is in {account.variable} ({account.where})."
    return (
        "'headway fake' is one for tests and takes any key; any server with OpenAI's API works.\n"
        "# For a server without a key, remove the line api_key_env."
    )


def _settings(account: DetectedAccount, *, full: bool) -> Iterator[tuple[str, str]]:
    """Settings, each with its explanation."""
    yield f'kind = "{account.kind}"', f"the API: {', '.join(KINDS)}"
    known = account.provider in BY_NAME and account.provider != account.kind
    if known or full:
        profile = account.provider if account.provider in BY_NAME else "generic"
        yield f'{"" if known else "#"}profile = "{profile}"', "whose limits, headers and errors it has"
    address = msgspec.json.encode(account.base_url).decode()  # TOML quotes strings as JSON does.
    yield f"base_url = {address}", ""
    if account.region:
        yield f'region = "{account.region}"', ""
    if account.variable not in AWS_VARIABLES:
        yield f'api_key_env = "{account.variable}"', "the NAME of the variable, never the key"
    if account.model:
        yield f'model = "{account.model}"', "for rows that name none"
    else:
        yield '#model = "MODEL"', "for rows that name none: one of your deployments or models"
    if full:
        yield '#pool = "all"', "all models share one limit, under this name"
        yield "#stream = true", "whether answers are streamed"
        yield "#insecure_http = false", "whether the key may go to another machine over plain http"
        yield '#max_answer_bytes = "64MB"', "the largest answer; 0: no ceiling"
        yield "#max_cost = 0", "USD that a job may spend here; 0: no cap"
        if account.kind == "azure":
            yield '#api_version = "2024-10-21"', "for deployments' own addresses; without it: the v1 API"


def _setting(line: str, explanation: str) -> str:
    return f"{line:<31} # {explanation}" if explanation else line


def _run(provider: str, *, several: bool) -> str:
    on = "" if several else "#"
    named = _setting(f'{on}provider = "{provider}"', "for models that name no provider")
    return f"""\
# Settings of a whole run. A flag of the same name wins.
[run]
{named}
#concurrency = 0                # requests in flight over all lanes; 0: each lane finds its own
#max_attempts = 5               # attempts per unit
#timeout = "10m"                # for one attempt
#max_duration = "0s"            # for the whole run; 0: none
#max_wait = "0s"                # for a unit in the queue, until its first start; 0: none
#max_cost = 0                   # USD for the whole run; 0: none; prices must be known
#max_hold = "26h"               # the longest hold that a run waits for; "unlimited": any
#weight = 1                     # share of lanes with other jobs: 3 gets three times as much as 1
#order = "auto"                 # which unit of a lane starts next: "input", "longest", or "auto": the longest once the end is near
#cache = "off"                  # "deterministic": a repeated request at temperature 0 or with a seed is not sent again; "all": any
#notify = []                    # web addresses or commands that get JSON at the end, on long holds, at 80 % of the budget
#notify_hold = "5m"             # how long a hold must last for that

# Traces and metrics for an OpenTelemetry collector (OTEL_EXPORTER_OTLP_ENDPOINT).
#[otel]
#enabled = false
#content = false                # whether texts of prompts and answers go along
#propagate = false              # whether providers over HTTP get a traceparent header

# The Ray cluster for functions, programs and agents with executor = "ray".
#[ray]
#address = "auto"               # a cluster on this machine; or "local", "HOST:6379", "ray://HOST:10001"
#travel = true                  # whether this folder is copied to the nodes; false: they all see it
#exclude = ["data/"]            # patterns of files that do not travel
#units_per_actor = 1            # units that share one actor and its process
#ask_ahead = 1                  # further actors that a full cluster is asked for

# Settings of headway review. Patterns are written as in .gitignore.
#[review]
#concurrency = 4                # files at a time; "auto": as many as the lanes take
#include = ["src/**"]           # review only these files
#exclude = ["*.lock"]           # leave these out
#max_file_size = "1MB"          # leave out larger files
#max_part_tokens = 30000        # split longer files at definitions
#out_dir = ".headway/reviews"   # a review for each file
"""
