"""The headers about the windows of a subscription, as Anthropic sends them to a client with a login instead of a key.

`anthropic-ratelimit-unified-*`: the whole (`status`, `reset`, `representative-claim`: the window that decides), and each window
(`5h`, `7d` …: `status`, `reset`, `utilization`). Resets are whole seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from headway.fake.fake_config import Claim

_PREFIX = "anthropic-ratelimit-unified-"
#: By claim: the window's name in headers, and its length.
_WINDOWS = {
    "five_hour": ("5h", 5 * 3600.0),
    "seven_day": ("7d", 7 * 86_400.0),
    "seven_day_opus": ("7d_opus", 7 * 86_400.0),
    "seven_day_sonnet": ("7d_sonnet", 7 * 86_400.0),
}
#: From this used share on, a window is reported with a warning.
WARNED = 0.75


def window_rejected(claim: str, wait_s: float, wall: float) -> dict[str, str]:
    """The headers of a 429: this window is used up."""
    seconds = max(1, math.ceil(wait_s))
    short, reset = _WINDOWS[claim][0], str(math.ceil(wall + wait_s))
    return {
        "retry-after": str(seconds),
        **_named(status="rejected", reset=reset, **{"representative-claim": claim}),
        **_named(**{f"{short}-status": "rejected", f"{short}-reset": reset, f"{short}-utilization": "1"}),
        **_named(**{"overage-status": "rejected", "overage-disabled-reason": "org_level_disabled"}),
        "x-should-retry": "true",
    }


def windows_allowed(used: Mapping[Claim, float], started: float) -> dict[str, str]:
    """The headers of a good answer; windows began at `started` on the wall clock."""
    fullest = max(used, key=lambda claim: used[claim])
    headers = _named(
        status=_status(used[fullest]), reset=_reset(fullest, started), **{"representative-claim": fullest}
    )
    for claim, share in used.items():
        short = _WINDOWS[claim][0]
        headers |= _named(
            **{
                f"{short}-status": _status(share),
                f"{short}-reset": _reset(claim, started),
                f"{short}-utilization": f"{share:g}",
            }
        )
        if share >= WARNED:
            headers |= _named(**{f"{short}-surpassed-threshold": f"{WARNED:g}"})
    return headers


def _status(share: float) -> str:
    return "allowed_warning" if share >= WARNED else "allowed"


def _reset(claim: str, started: float) -> str:
    return str(math.ceil(started + _WINDOWS[claim][1]))


def _named(**fields: str) -> dict[str, str]:
    return {_PREFIX + name: value for name, value in fields.items()}
