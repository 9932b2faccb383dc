"""The settings of one client: its limits, its retries, the names of its lanes, and where its keys may go."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from headway.config.call_settings import Duration, Limits, Retry, seconds
from headway.errors import UsageError
from headway.sdk.lane_registry import LaneSettings
from headway.sdk.origins import keep_keys_home, refuse_plain_keys
from headway.sdk.request_info import LaneOf, RequestInfo

#: httpx2 first: the SDKs of OpenAI and Anthropic use it.
LIBRARIES: Final = ("httpx2", "httpx")


class ClientSettings:
    """The settings of a client, checked when it is made, and the lane settings of each request."""

    def __init__(
        self,
        limits: Limits | Mapping[str, Limits] | None = None,
        retry: Retry | None = None,
        lane: LaneOf | None = None,
        max_hold: Duration | None = None,
        insecure_http: bool = False,
    ) -> None:
        _check_limits(limits)
        _check(
            lane is None or callable(lane),
            "lane",
            lane,
            "it is a function of the request that gives the name of its lane",
        )
        _check(isinstance(retry, Retry | None), "retry", retry, "it is headway.Retry(max_attempts=…)")
        _check(isinstance(insecure_http, bool), "insecure_http", insecure_http, "it is True or False")
        self._insecure_http = insecure_http
        self._limits, self._retry = limits, retry
        self.lane_of = lane
        self._max_hold_s = None if max_hold is None else seconds(max_hold, "max_hold")
        self._terms: dict[str, LaneSettings] = {}

    def guard(self, request: Any, proxy: str = "") -> None:
        """Drop keys that a redirect would send elsewhere; refuse to send keys over plain http, also through a proxy."""
        keep_keys_home(request)
        if not self._insecure_http:
            refuse_plain_keys(request, proxy)

    def terms(self, info: RequestInfo) -> LaneSettings:
        """What a request wants of its lane."""
        terms = self._terms.get(info.lane)
        if terms is None:
            terms = self._terms[info.lane] = LaneSettings(
                info.lane,
                info.lane,
                info.profile.counting,
                self._limits_of(info),
                self._retry,
                self._max_hold_s,
                own_failures=True,
            )
        return terms

    def _limits_of(self, info: RequestInfo) -> Limits | None:
        """By the lane's name, the model's, or the host's. None: they are learned, as in a batch."""
        limits = self._limits
        if not isinstance(limits, Mapping):
            return limits
        names = (info.lane, f"{info.host}/{info.model}", info.model, info.host)
        return next((limits[name] for name in names if name in limits), None)


def _check(good: bool, name: str, value: object, hint: str) -> None:
    if not good:
        raise UsageError(f"{name} is {value!r}", hint=hint)


def _check_limits(limits: object) -> None:
    named = limits.items() if isinstance(limits, Mapping) else [("", limits)]
    for name, one in named:
        if not isinstance(one, Limits | None):
            what = f"limits of {name!r} are" if name else "limits is"
            raise UsageError(
                f"{what} {one!r}", hint="they are headway.Limits(rpm=…, tpm=…), or such by model"
            )


def library_of(name: str | None) -> Any:
    """httpx2, or httpx."""
    if name is not None and name not in LIBRARIES:
        raise UsageError(f"library is {name!r}", hint=f"one of {', '.join(LIBRARIES)}")
    for each in LIBRARIES if name is None else (name,):
        try:
            return import_module(each)
        except ImportError:
            continue
    raise UsageError(f"{name or 'httpx2'} is not installed", hint="run: pip install 'headway[sdk]'")
