"""The settings of one client: its limits, its retries, the names of its lanes, and where its keys may go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import Any, Final

from headway.config.argument_checks import must_be_recordable, path_of
from headway.config.call_settings import Duration, Limits, Retry, seconds
from headway.config.near_names import near_name
from headway.errors import UsageError
from headway.install_hint import install_command
from headway.sdk.lane_registry import LaneSettings
from headway.sdk.origins import keep_keys_home, refuse_plain_keys
from headway.sdk.request_info import LaneOf, RequestInfo
from headway.sdk.store_sharing import StorePlace
from headway.wiring.store_access import open_store_file

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
        db: str | PathLike[str] | None = None,
    ) -> None:
        _check_limits(limits)
        _check(
            lane is None or callable(lane),
            "lane",
            lane,
            "use a function that returns the name of the lane of a request",
        )
        _check(isinstance(retry, Retry | None), "retry", retry, "use headway.Retry(max_attempts=…)")
        _check(isinstance(insecure_http, bool), "insecure_http", insecure_http, "use True or False")
        self._insecure_http = insecure_http
        self._limits, self._retry = limits, retry
        self.lane_of = lane
        self._db = shared_store(db)
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
                store=self._place(info),
            )
        return terms

    def _place(self, info: RequestInfo) -> StorePlace | None:
        """Where the lane of a request is shared with jobs."""
        if self._db is None:
            return None
        if info.stored_key is None:
            return named_place(self._db, info.lane)
        return StorePlace(self._db, info.stored_key, f"{info.host}/{info.model}", named=False)

    def _limits_of(self, info: RequestInfo) -> Limits | None:
        """By the lane's name, the model's, or the host's. None: they are learned, as in a batch."""
        limits = self._limits
        if not isinstance(limits, Mapping):
            return limits
        names = (info.lane, f"{info.host}/{info.model}", info.model, info.host)
        found = next((name for name in names if name in limits), None)
        if found is not None:
            return limits[found]
        _warn_of_near_name(info, limits)
        return None


def _warn_of_near_name(info: RequestInfo, limits: Mapping[str, Limits]) -> None:
    """Warn once for a lane without limits, if limits have almost its name: probably a typing error."""
    for name in (info.lane, info.model, info.host):
        if name and (near := near_name(name, limits)) is not None:
            warnings.warn(
                f"{name!r} has no limits; did you mean {near!r}, which has?", UserWarning, stacklevel=2
            )
            return


def _check(good: bool, name: str, value: object, hint: str) -> None:
    if not good:
        raise UsageError(f"{name} is {value!r}", hint=hint)


def _check_limits(limits: object) -> None:
    named = limits.items() if isinstance(limits, Mapping) else [("", limits)]
    for name, one in named:
        if not isinstance(one, Limits | None):
            what = f"limits of {name!r} are" if name else "limits is"
            raise UsageError(
                f"{what} {one!r}", hint="use headway.Limits(rpm=…, tpm=…), or a dictionary of such by model"
            )


def shared_store(db: str | PathLike[str] | None) -> str | None:
    """The path of a store, absolute because the program may change its working directory. It is opened once: better now than later."""
    path = path_of(db, "db")
    if path is None:
        return None
    path = path if "://" in path else os.path.abspath(path)
    open_store_file(path).close()
    return path


def named_place(db: str, name: str) -> StorePlace:
    """The place of a lane that the program has named."""
    must_be_recordable(name, "the lane")
    return StorePlace(db, lambda _: f"client:{name}", name, named=True)


def library_of(name: str | None) -> Any:
    """httpx2, or httpx."""
    if name is not None and name not in LIBRARIES:
        raise UsageError(f"library is {name!r}", hint=f"one of {', '.join(LIBRARIES)}")
    for each in LIBRARIES if name is None else (name,):
        try:
            return import_module(each)
        except ImportError:
            continue
    raise UsageError(f"{name or 'httpx2'} is not installed", hint=install_command("sdk"))
