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

from headway.core.model import Counting, Limits
from headway.errors import UsageError

#: Quantities: never negative, and a share is a share.
Amount = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Spread(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A lognormal quantity: its mean, the sigma of its logarithm, and where it is cut."""

    mean: Amount
    sigma: Amount = 0.0
    max: float | None = None


class Work(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the units of a lane look like."""

    units: Annotated[int, msgspec.Meta(ge=1)]
    input_tokens: Spread = Spread(400)
    output_tokens: Spread = Spread(200)
    max_tokens: float | None = None
    #: Where given, Headway is told characters instead of tokens, and estimates for itself.
    chars_per_token: float | None = None
    #: The share of each unit's input that the provider finds in its cache, even between 0 and twice this.
    cached: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0


class Latency(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long an answer takes. The network is passed twice, each time with its own jitter."""

    first_token_s: Amount = 0.4
    per_token_s: Amount = 0.02
    network_s: Amount = 0.03
    jitter_s: Amount = 0.03


class Span(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Something that lasts from one instant to another; `share` of the requests meet it."""

    from_s: Amount
    until_s: Amount
    share: Share = 1.0


class Change(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From `at_s` on every limit is `factor` times what it was at the start."""

    at_s: Amount
    factor: Annotated[float, msgspec.Meta(gt=0)]


class Provider(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
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
    depth_s: Amount = 60.0
    #: Whether the whole allowance of `depth_s` seconds comes at once, at the start of each such window.
    fixed_windows: bool = False
    counting: Literal["reserved", "used"] = "reserved"
    headers: Literal["none", "openai", "anthropic"] = "none"
    #: Whether headers speak of a minute-deep bucket, whatever depth is enforced.
    headers_say_minute: bool = False
    #: Whether a 429 says which limit it is about.
    says_which: bool = True
    retry_after: Literal["none", "exact", "integer", "date"] = "exact"
    latency: Latency = Latency()
    #: The share of admitted requests that end in a 500.
    errors: Share = 0.0
    storms: tuple[Span, ...] = ()
    outages: tuple[Span, ...] = ()
    holds: tuple[Span, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def core_counting(self) -> Counting:
        """How the client is told that this provider counts."""
        if self.counting == "reserved":
            return Counting(reserve_max_output=True, settle_output=False)
        return Counting(reserve_max_output=False, settle_output=True, cached_free=True)


class Told(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What Headway is told about a lane's limits: all keys as in headway.toml, all optional."""

    rpm: float | None = None
    tpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    max_concurrency: int | None = None
    min_gap_s: Amount = 0.0
    burst_s: float | None = None

    @property
    def limits(self) -> Limits:
        """As the core wants them."""
        return Limits(**msgspec.structs.asdict(self))


class SimLane(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One lane of a scenario."""

    work: Work
    provider: Provider
    #: "truth" is everything but the depth; otherwise the limits themselves; by default nothing.
    told: Told | Literal["truth"] = Told()

    @property
    def limits(self) -> Limits:
        """The limits that Headway starts with."""
        if isinstance(self.told, Told):
            return self.told.limits
        real = self.provider
        return Limits(
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
    #: How far estimates are off: the sigma of their logarithm.
    estimate_noise: Amount = 0.15


def load(path: Path) -> Scenario:
    """Read and check a scenario file; what is wrong is said in one line that names the key."""
    try:
        scenario = msgspec.convert(_read(path, seen=()), Scenario)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_explain(str(error))}") from None
    for key in ("lanes", "seeds"):
        if not getattr(scenario, key):
            raise UsageError(f"{path}: there are no {key}")
    return scenario


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint="scenarios ship in scenarios/") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise UsageError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a scenario is a mapping with a key 'lanes'")
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


def _explain(text: str) -> str:
    """msgspec's words, with the nearest known key where one is unknown."""
    _, found, rest = text.partition("unknown field `")
    if not found:
        return text
    wrong = rest.split("`", 1)[0]
    near = difflib.get_close_matches(wrong, known_keys(), n=1)
    return text + (f"; did you mean '{near[0]}'?" if near else "")


def known_keys() -> list[str]:
    """Every key that may stand in a scenario, on any level."""
    kinds = (Scenario, SimLane, Work, Spread, Provider, Latency, Span, Change, Told)
    return sorted({field for kind in kinds for field in kind.__struct_fields__} | {"extends"})
