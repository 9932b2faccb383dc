"""A scenario: its lanes, their work, how their providers really behave, and what Headway knows of them.

Read from YAML, checked key by key. `extends: other.yaml` takes another scenario and overrides parts of it.
docs/reference/scenarios.md documents every key; a test compares the two.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml

from headway.core.model import Counting, LaneLimits, OrderName
from headway.errors import UsageError

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
T = TypeVar("T")


class Lognormal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A lognormal distribution: its mean, the sigma of its logarithm, and its maximum."""

    mean: Amount
    sigma: Amount = 0.0
    max: float | None = None


class LaneWork(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The units of a lane."""

    units: Annotated[int, msgspec.Meta(ge=1)]
    input_tokens: Lognormal = Lognormal(400)
    output_tokens: Lognormal = Lognormal(200)
    max_tokens: Positive | None = None
    #: If given, Headway knows only the number of characters and estimates the tokens itself.
    chars_per_token: Positive | None = None
    #: Mean share of a unit's input that the provider has cached; uniform between 0 and twice this.
    cached: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long an answer takes. The network is crossed twice, each time with its own jitter."""

    first_token_s: Amount = 0.4
    per_token_s: Amount = 0.02
    network_s: Amount = 0.03
    jitter_s: Amount = 0.03
    #: Time that the provider takes to refuse a request on its arrival. An answer takes its own time.
    refusal_s: Amount = 0.0
    #: Time to open a connection if none is idle: 0.5 to 1.5 times this, at random.
    connect_s: Amount = 0.0


class Span(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A period of trouble; `share` of the requests meet it."""

    from_s: Amount
    until_s: Amount
    share: Share = 1.0

    def __post_init__(self) -> None:
        if self.until_s <= self.from_s:
            raise ValueError(f"until_s ({self.until_s:g}) must be after from_s ({self.from_s:g})")


class LimitChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From `at_s` on, every limit is `factor` times its first value."""

    at_s: Amount
    factor: Annotated[float, msgspec.Meta(gt=0)]


class ProviderSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The true behaviour of a provider."""

    rpm: Amount = 0.0
    tpm: Amount = 0.0
    input_tpm: Amount = 0.0
    output_tpm: Amount = 0.0
    max_concurrency: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Requests per day, and the length of a day. When they are used up, the account is closed until the next day.
    rpd: Annotated[int, msgspec.Meta(ge=0)] = 0
    day_s: Annotated[float, msgspec.Meta(gt=0)] = 86_400.0
    #: Whether requests beyond `max_concurrency` wait in a queue instead of being refused.
    queues: bool = False
    depth_s: Positive = 60.0
    #: Whether the allowance of `depth_s` seconds is granted at once, at the start of each window of that length.
    fixed_windows: bool = False
    #: How far into a window the run begins: gateways count by clock minutes, and jobs begin at any second.
    window_offset_s: Amount = 0.0
    counting: Literal["reserved", "used"] = "reserved"
    #: "levels" reports limits and what remains of them, without a reset time (Mistral, xAI, Fireworks).
    headers: Literal["none", "openai", "anthropic", "levels"] = "none"
    #: Whether the headers report a bucket of a minute, whatever depth is enforced.
    headers_say_minute: bool = False
    #: Whether headers count a request only when it is answered, as LiteLLM's proxy does: what is in flight still seems to be left.
    headers_count_answers: bool = False
    #: Whether answers come in one piece, with their headers, as those of requests that are not streamed.
    whole_answers: bool = False
    #: How far into a minute of the provider's clock the run begins; by default `window_offset_s`.
    clock_offset_s: Amount | None = None
    #: Whether a 429 names the limit.
    says_which: bool = True
    #: "minute" is 60 s, whatever the limit needs (LiteLLM's proxy).
    retry_after: Literal["none", "exact", "integer", "date", "text", "minute"] = "exact"
    latency: Latency = Latency()
    #: The share of admitted requests that end in a 500.
    errors: Share = 0.0
    #: How long after its arrival such a request fails; by default as late as its answer would have come.
    error_after_s: Amount | None = None
    storms: tuple[Span, ...] = ()
    outages: tuple[Span, ...] = ()
    holds: tuple[Span, ...] = ()
    changes: tuple[LimitChange, ...] = ()

    @property
    def core_counting(self) -> Counting:
        """The client's setting for how this provider counts."""
        if self.counting == "reserved":
            return Counting(reserve_max_output=True, settle_output=False)
        return Counting(reserve_max_output=False, settle_output=True, cached_free=True)


class KnownLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What Headway knows about a lane's limits: keys as in headway.toml, all optional."""

    rpm: Amount | None = None
    tpm: Amount | None = None
    input_tpm: Amount | None = None
    output_tpm: Amount | None = None
    max_concurrency: Annotated[int, msgspec.Meta(ge=0)] | None = None
    min_gap_s: Amount = 0.0
    burst_s: Amount | None = None

    @property
    def limits(self) -> LaneLimits:
        """The same as limits of the core."""
        return LaneLimits(**msgspec.structs.asdict(self))


class SimLane(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One lane of a scenario."""

    work: LaneWork
    provider: ProviderSpec
    #: The limits that Headway knows; "truth" is all of them except the depth; by default none.
    told: KnownLimits | Literal["truth"] = KnownLimits()

    @property
    def limits(self) -> LaneLimits:
        """The limits that Headway starts with."""
        if isinstance(self.told, KnownLimits):
            return self.told.limits
        real = self.provider
        return LaneLimits(
            rpm=real.rpm or None,
            tpm=real.tpm or None,
            input_tpm=real.input_tpm or None,
            output_tpm=real.output_tpm or None,
            max_concurrency=real.max_concurrency or None,
        )


class Scenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole scenario."""

    lanes: dict[str, SimLane]
    about: str = ""
    seeds: tuple[int, ...] = (1,)
    order: OrderName = "input"
    concurrency: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Whether Headway starts with what it learned in an earlier run of the same scenario.
    warm_start: bool = False
    #: Number of clients that share the work and the accounts without knowing of each other.
    clients: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: Weights of clients that know of each other, as the jobs of one store do; one client for each weight.
    weights: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = ()
    #: The policies that are compared, unless others are named.
    policies: tuple[str, ...] = ()
    #: The error of estimates: the sigma of their logarithm.
    estimate_noise: Amount = 0.15


def load(path: Path) -> Scenario:
    """Read and check a scenario file. Errors are one line that names the key."""
    data = read_mapping(path)
    lanes = data.get("lanes")
    for name, lane in lanes.items() if isinstance(lanes, dict) else ():
        converted(path, lane, SimLane, f"lanes.{name}")
    scenario = converted(path, data, Scenario)
    for key in ("lanes", "seeds"):
        if not getattr(scenario, key):
            raise UsageError(f"{path}: '{key}' is empty", hint="docs/reference/scenarios.md has an example")
    return scenario


def converted(path: Path, value: Any, kind: type[T], place: str = "", keys: Collection[str] = ()) -> T:
    """A part of the file as a record. An error names the file and the key; `keys` are keys that it may mean."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_explain(str(error), place, keys or known_keys())}") from None


def read_mapping(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The content of a scenario file, with what it extends. Errors are one line."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_ScenarioLoader)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint="a checkout has some in scenarios/") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text file", hint="a scenario is a YAML file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise UsageError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(data, dict):
        raise UsageError(
            f"{path}: expected a mapping with the key 'lanes'",
            hint="docs/reference/scenarios.md has an example",
        )
    base = data.pop("extends", None)
    if base is None:
        return data
    parent = (path.parent / str(base)).resolve()
    if parent in seen:
        raise UsageError(f"{path}: extends itself through {base}")
    return _overlay(read_mapping(parent, (*seen, path.resolve())), data)


def _overlay(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Override `base` with `top`, mapping by mapping; null removes a key."""
    merged = dict(base)
    for key, value in top.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _overlay(merged[key], value)
        else:
            merged[key] = value
    return merged


class _ScenarioLoader(yaml.SafeLoader):
    """YAML in which a duplicate key is an error. Plain YAML keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key '{key_node.value}'", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _explain(text: str, start: str, keys: Collection[str]) -> str:
    """msgspec's message, with the place in front and the nearest known name for an unknown one."""
    what, _, place = text.partition(" - at `$")
    place = (start + place.rstrip("`")).lstrip(".")
    message = f"{place}: {what}" if place else what
    for unknown, known in (("unknown field `", keys), ("Invalid enum value '", _known_values())):
        _, separator, rest = what.partition(unknown)
        if separator:
            near = difflib.get_close_matches(rest.rstrip("`'"), known, n=1)
            message += f"; did you mean '{near[0]}'?" if near else ""
    return message


def _known_values() -> list[str]:
    return [
        "auto",
        "input",
        "longest",
        "reserved",
        "used",
        "none",
        "openai",
        "anthropic",
        "levels",
        "exact",
        "integer",
        "date",
        "text",
        "minute",
        "truth",
    ]


def known_keys() -> list[str]:
    """Every key of a scenario, on any level."""
    kinds = (Scenario, SimLane, LaneWork, Lognormal, ProviderSpec, Latency, Span, LimitChange, KnownLimits)
    return sorted({field for kind in kinds for field in kind.__struct_fields__} | {"extends"})
