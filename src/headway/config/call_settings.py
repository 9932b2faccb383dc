"""`headway.Limits` and `headway.Retry`: durations are texts such as "500ms", or seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headway.config.argument_checks import brief, must_be_number, must_be_whole
from headway.config.duration_setting import parse_duration
from headway.core import model
from headway.errors import UsageError

Duration = str | float

#: Calls at once in a lane without limits, until a refusal lowers it.
AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a lane may use. 0 means unlimited; a limit that is left out is unlimited until a refusal shows otherwise.

    `Limits()`, with none at all, means that the limits are unknown: the lane starts slowly and finds them.

    >>> Limits(rpm=500, tpm=200_000, max_concurrency=32)
    Limits(rpm=500, tpm=200000, max_concurrency=32)
    """

    rpm: float | None = None
    tpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    rpd: float | None = None
    tpd: float | None = None
    max_concurrency: int | None = None
    #: The minimum time between two starts.
    min_gap: Duration = 0.0
    #: The bucket's depth as a duration; "auto" finds it.
    burst: Duration = "auto"

    def __post_init__(self) -> None:
        self.to_core()

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.__slots__}
        given = {name: value for name, value in values.items() if value not in (None, 0.0, "auto")}
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def to_core(self) -> model.LaneLimits:
        """The scheduler's form."""
        names = ("rpm", "tpm", "input_tpm", "output_tpm", "rpd", "tpd", "max_concurrency")
        limits = {name: getattr(self, name) for name in names}
        for name, value in limits.items():
            if value is not None:
                must_be_number(value, name, "a limit is a number: 0 (none) or more")
        if self.max_concurrency is not None and self.max_concurrency != int(self.max_concurrency):
            raise UsageError(f"max_concurrency is {self.max_concurrency!r}", hint="use a whole number")
        burst_s = None if self.burst == "auto" else seconds(self.burst, "burst")
        return model.LaneLimits(**limits, min_gap_s=seconds(self.min_gap, "min_gap"), burst_s=burst_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How calls are retried. A wait that the provider asks for costs no attempt.

    `on` names further exceptions that are retried; those of HTTP clients and SDKs are known.

    >>> Retry(max_attempts=6, base="500ms").max_attempts
    6
    """

    max_attempts: int = 5
    max_throttles: int = 50
    base: Duration = "1s"
    cap: Duration = "60s"
    jitter: float = 0.2
    #: How long a lane waits after a limit that names no end, where backing off is not enough.
    default_wait: Duration = "60s"
    on: tuple[type[BaseException], ...] = field(default=())

    def __post_init__(self) -> None:
        self.to_core()

    def to_core(self) -> model.RetryPolicy:
        """The scheduler's form."""
        for name, least, why in (
            ("max_attempts", 1, "use a whole number of 1 or more; 1 means no retry"),
            ("max_throttles", 0, "use a whole number, 0 or more"),
        ):
            must_be_whole(getattr(self, name), name, least, why)
        on: object = self.on
        if not isinstance(on, tuple) or not all(isinstance(each, type) for each in on):
            raise UsageError(f"on is {on!r}", hint="a tuple of exceptions: on=(ConnectionError,)")
        jitter: object = self.jitter
        if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise UsageError(f"jitter is {self.jitter!r}", hint="use a share from 0 to 1")
        return model.RetryPolicy(
            max_attempts=self.max_attempts,
            max_throttles=self.max_throttles,
            base_s=seconds(self.base, "base"),
            cap_s=seconds(self.cap, "cap"),
            jitter=self.jitter,
            default_wait_s=seconds(self.default_wait, "default_wait"),
        )


def seconds(value: Duration, name: str) -> float:
    """A duration in seconds; errors name the argument."""
    given: object = value
    if not isinstance(given, str | int | float):
        raise UsageError(f"{name} is {value!r}", hint='a duration such as "10m", or seconds; 0 is none')
    try:
        return parse_duration(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is {value!r}", hint=str(error)) from None


def retry_of(given: object, default: Retry) -> Retry:
    """The `retry` argument, or the default."""
    if given is None:
        return default
    if not isinstance(given, Retry):
        raise UsageError(f"retry is {brief(given)}", hint="use headway.Retry(max_attempts=…)")
    return given


def limits_of(limits: Limits | Mapping[str, Limits] | None, lane: str) -> model.LaneLimits:
    """The limits of one lane, from the `limits` argument."""
    own = limits.get(lane) if isinstance(limits, Mapping) else limits
    return model.LaneLimits(max_concurrency=AT_ONCE) if own is None else own.to_core()
