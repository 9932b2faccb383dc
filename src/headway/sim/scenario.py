"""A scenario: which lanes, what work, how their providers really behave, and what Headway is told.

Read from YAML, checked key by key. `extends: other.yaml` takes another scenario and lays this one over it.
docs/reference/scenarios.md documents every key; a test holds the two together.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from headway.core.model import Counting, LaneLimits
from headway.errors import UsageError

#: Quantities: never negative, and a share is a share.
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Lognormal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A lognormal quantity: its mean, the sigma of its logarithm, and where it is cut."""

    mean: Amount
    sigma: Amount = 0.0
    max: float | None = None


class LaneWork(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the units of a lane look like."""

    units: Annotated[int, msgspec.Meta(ge=1)]
    input_tokens: Lognormal = Lognormal(400)
    output_tokens: Lognormal = Lognormal(200)
    max_tokens: Positive | None = None
    #: Where given, Headway is told characters instead of tokens, and estimates for itself.
    chars_per_token: Positive | None = None
    #: The share of each unit's input that the provider finds in its cache, even between 0 and twice this.
    cached: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long an answer takes. The network is passed twice, each time with its own jitter."""

    first_token_s: Amount = 0.4
    per_token_s: Amount = 0.02
    network_s: Amount = 0.03
    jitter_s: Amount = 0.03
    #: A request that finds no idle connection opens one: half to one and a half times this long, by chance.
    connect_s: Amount = 0.0


class Span(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Something that lasts from one instant to another; `share` of the requests meet it."""

    from_s: Amount
    until_s: Amount
    share: Share = 1.0

    def __post_init__(self) -> None:
        if self.until_s <= self.from_s:
            raise ValueError(
                f"a span ends after it begins, not from {self.from_s:g} s until {self.until_s:g} s"
            )


class LimitChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From `at_s` on every limit is `factor` times what it was at the start."""

    at_s: Amount
    factor: Annotated[float, msgspec.Meta(gt=0)]


class ProviderSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A provider as it really is."""

    rpm: Amount = 0.0
    tpm: Amount = 0.0
    input_tpm: Amount = 0.0
    output_tpm: Amount = 0.0
    max_concurrency: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Requests a day, and how long a day is here; used up, the account closes until the next one.
    rpd: Annotated[int, msgspec.Meta(ge=0)] = 0
    day_s: Annotated[float, msgspec.Meta(gt=0)] = 86_400.0
    #: Whether it lets requests beyond `max_concurrency` wait instead of refusing them.
    queues: bool = False
    depth_s: Positive = 60.0
    #: Whether the whole allowance of `depth_s` seconds comes at once, at the start of each such window.
    fixed_windows: bool = False
    #: How far into a window the run begins: gateways count by the clock's minutes, and jobs begin at any second.
    window_offset_s: Amount = 0.0
    counting: Literal["reserved", "used"] = "reserved"
    #: "levels" tells limits and what is left of them, and not when they are full again (Mistral, xAI, Fireworks).
    headers: Literal["none", "openai", "anthropic", "levels"] = "none"
    #: Whether headers speak of a minute-deep bucket, whatever depth is enforced.
    headers_say_minute: bool = False
    #: Whether a 429 says which limit it is about.
    says_which: bool = True
    retry_after: Literal["none", "exact", "integer", "date", "text"] = "exact"
    latency: Latency = Latency()
    #: The share of admitted requests that end in a 500.
    errors: Share = 0.0
    #: How long after its arrival such a 500 is sent; left out: as late as the answer would have been.
    error_after_s: Amount | None = None
    storms: tuple[Span, ...] = ()
    outages: tuple[Span, ...] = ()
    holds: tuple[Span, ...] = ()
    changes: tuple[LimitChange, ...] = ()

    @property
    def core_counting(self) -> Counting:
        """How the client is told that this provider counts."""
        if self.counting == "reserved":
            return Counting(reserve_max_output=True, settle_output=False)
        return Counting(reserve_max_output=False, settle_output=True, cached_free=True)


class KnownLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What Headway is told about a lane's limits: all keys as in headway.toml, all optional."""

    rpm: Amount | None = None
    tpm: Amount | None = None
    input_tpm: Amount | None = None
    output_tpm: Amount | None = None
    max_concurrency: Annotated[int, msgspec.Meta(ge=0)] | None = None
    min_gap_s: Amount = 0.0
    burst_s: Amount | None = None

    @property
    def limits(self) -> LaneLimits:
        """As the core wants them."""
        return LaneLimits(**msgspec.structs.asdict(self))


class SimLane(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One lane of a scenario."""

    work: LaneWork
    provider: ProviderSpec
    #: "truth" is everything but the depth; otherwise the limits themselves; by default nothing.
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
    order: Literal["input", "longest"] = "input"
    concurrency: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Whether what an identical earlier run learned is known at the start.
    warm_start: bool = False
    #: Clients that share the work and the accounts and do not know of each other.
    clients: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: Clients that do know of each other, as the jobs of one store do: one for each weight.
    weights: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = ()
    #: How far estimates are off: the sigma of their logarithm.
    estimate_noise: Amount = 0.15


def load(path: Path) -> Scenario:
    """Read and check a scenario file; what is wrong is said in one line that names the key."""
    try:
        data = _read(path, seen=())
        where = ""
        lanes = data.get("lanes")
        if isinstance(lanes, dict):
            for name, lane in lanes.items():
                where = f"lanes.{name}"
                msgspec.convert(lane, SimLane)
        where = ""
        scenario = msgspec.convert(data, Scenario)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_explain(str(error), where)}") from None
    for key in ("lanes", "seeds"):
        if not getattr(scenario, key):
            raise UsageError(f"{path}: there are no {key}", hint="docs/reference/scenarios.md has an example")
    return scenario


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
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
            f"{path}: a scenario is a mapping with a key 'lanes'",
            hint="docs/reference/scenarios.md has an example",
        )
    base = data.pop("extends", None)
    if base is None:
        return data
    parent = (path.parent / str(base)).resolve()
    if parent in seen:
        raise UsageError(f"{path}: extends itself by way of {base}")
    return _overlay(_read(parent, (*seen, path.resolve())), data)


def _overlay(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """`top` over `base`, mapping by mapping; a null takes a key away."""
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
    """YAML as it is, but a key that stands twice is a mistake and not the second one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{key_node.value}' stands twice", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _explain(text: str, lane: str) -> str:
    """msgspec's words with the place in front, and the nearest known word where one is unknown."""
    what, _, place = text.partition(" - at `$")
    place = (lane + place.rstrip("`")).lstrip(".")
    said = f"{place}: {what}" if place else what
    for unknown, known in (("unknown field `", known_keys()), ("Invalid enum value '", _known_values())):
        _, found, rest = what.partition(unknown)
        if found:
            near = difflib.get_close_matches(rest.rstrip("`'"), known, n=1)
            said += f"; did you mean '{near[0]}'?" if near else ""
    return said


def _known_values() -> list[str]:
    return [
        "input",
        "longest",
        "reserved",
        "used",
        "none",
        "openai",
        "anthropic",
        "exact",
        "integer",
        "date",
        "text",
        "truth",
    ]


def known_keys() -> list[str]:
    """Every key that may stand in a scenario, on any level."""
    kinds = (Scenario, SimLane, LaneWork, Lognormal, ProviderSpec, Latency, Span, LimitChange, KnownLimits)
    return sorted({field for kind in kinds for field in kind.__struct_fields__} | {"extends"})
