"""The IETF's RateLimit headers (draft-ietf-httpapi-ratelimit-headers, not an RFC), in the three forms in use.

    RateLimit-Policy: "burst";q=100;w=60, "daily";q=5000;w=86400        since draft 8: a list of named policies …
    RateLimit: "burst";r=45;t=30                                        … and what is left of them
    RateLimit: limit=100, remaining=45, reset=30                        draft 7: one dictionary
    RateLimit-Limit: 100 · RateLimit-Remaining: 45 · RateLimit-Reset: 30    until draft 6: headers like any other

`qu` is the unit; a policy with a unit that no meter counts (bytes, concurrent requests) is ignored.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import MINUTE_S, Dimension, LimitReport
from headway.lazy_pattern import lazy_pattern
from headway.providers.limits.durations import TimeSpan, parse_number, plausible_wait
from headway.providers.limits.limit_headers import HeaderRow, header_value, usual_window
from headway.providers.limits.profile import IETF_HEADERS, Profile

#: More policies than any provider has. The rest of a longer list is not read.
MOST_POLICIES: Final = 8

_UNITS: Final = {
    "requests": Dimension.REQUESTS,
    "tokens": Dimension.TOKENS,
    "input-tokens": Dimension.INPUT,
    "output-tokens": Dimension.OUTPUT,
}
_ITEM: Final = lazy_pattern(
    r'\s{0,4}(?:"(?P<name>[^"]{1,64})"|(?P<bare>[\w.-]{1,64}))(?P<rest>[^,]{0,200}),?'
)
_PARAMETER: Final = lazy_pattern(r';\s{0,4}(\w{1,8})=(?:"([^"]{0,32})"|([\w.:+/=-]{1,40}))')
_PAIR: Final = lazy_pattern(r"\b(limit|remaining|reset)\s?=\s?(\d{1,15})", re.IGNORECASE)

Policies = dict[str, dict[str, str]]


def reports_of(row: HeaderRow, profile: Profile) -> tuple[LimitReport, ...]:
    """The limits in the two headers: a report for each policy that has a number."""
    limits, policies = (header_value(row, profile, name) for name in IETF_HEADERS)
    if limits is None and policies is None:
        return ()
    policy_items = _list(policies or "")
    dictionary = {key.lower(): figure for key, figure in _PAIR.findall(limits or "")}
    if dictionary:
        return _from_dictionary(dictionary, policy_items)
    remaining_items = _list(limits or "")
    reports = (_report(policy_items[name], remaining_items.get(name, {})) for name in policy_items)
    return tuple(report for report in reports if report is not None)


def _list(text: str) -> Policies:
    """The items of a structured list: name → parameters."""
    items: Policies = {}
    position = 0
    while position < len(text) and len(items) < MOST_POLICIES:
        item = _ITEM.match(text, position)
        if item is None:
            break
        parameters = _PARAMETER.findall(item["rest"])
        items[item["name"] or item["bare"]] = {key: quoted or bare for key, quoted, bare in parameters}
        position = item.end()
    return items


def _report(policy: dict[str, str], left: dict[str, str]) -> LimitReport | None:
    dimension = _UNITS.get(policy.get("qu", "requests").lower())
    limit = parse_number(policy.get("q", ""))
    if dimension is None or not limit:
        return None
    reset_s = _seconds(left.get("t"))
    remaining = parse_number(left.get("r", ""))
    return _bounded_report(dimension, limit, remaining, reset_s, _seconds(policy.get("w")))


def _from_dictionary(dictionary: dict[str, str], policy_items: Policies) -> tuple[LimitReport, ...]:
    """Draft 7: the numbers are in one header, and the other has `100;w=60`."""
    limit = parse_number(dictionary.get("limit", ""))
    if not limit:
        return ()
    remaining = parse_number(dictionary.get("remaining", ""))
    period_s = next((_seconds(policy["w"]) for policy in policy_items.values() if "w" in policy), None)
    return (
        _bounded_report(Dimension.REQUESTS, limit, remaining, _seconds(dictionary.get("reset")), period_s),
    )


def _bounded_report(
    dimension: Dimension,
    limit: float,
    remaining: float | None,
    reset_s: float | None,
    period_s: float | None,
) -> LimitReport:
    if not period_s:
        period_s = usual_window(None if reset_s is None else TimeSpan(reset_s, 1.0))
    if reset_s is not None and reset_s > max(period_s, MINUTE_S):
        reset_s = None
    if remaining is not None and remaining > limit:
        remaining = limit
    return LimitReport(dimension, limit, remaining, reset_s, period_s, 1.0 if reset_s is not None else 0.0)


def _seconds(text: str | None) -> float | None:
    seconds = parse_number(text) if text else None
    return None if seconds is None else plausible_wait(seconds)
