"""The families of metrics: names, types, labels and help texts. docs/reference/metrics.md is checked against this table."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MetricType = Literal["counter", "gauge", "histogram"]


class MetricFamily(msgspec.Struct, frozen=True):
    """A metric with its labels. The name of a counter ends in `_total`."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    help: str


UNITS: Final = MetricFamily(
    "headway_units",
    "gauge",
    ("job", "status"),
    "Units of the job by status, earlier runs of the job included.",
)
ATTEMPTS: Final = MetricFamily(
    "headway_attempts_total",
    "counter",
    ("lane", "outcome"),
    "Recorded attempts by how they ended: succeeded, throttled, failed, timed_out, cancelled or lost.",
)
REFUSALS: Final = MetricFamily(
    "headway_refusals_total",
    "counter",
    ("lane", "kind"),
    "Attempts that the provider refused because of a limit or because it was overloaded, by kind of error.",
)
TOKENS: Final = MetricFamily(
    "headway_tokens_total",
    "counter",
    ("lane", "direction"),
    "Tokens that providers reported: input (cached tokens included) and output.",
)
COST: Final = MetricFamily(
    "headway_cost_usd_total",
    "counter",
    ("lane",),
    "Known cost of the attempts in USD; an attempt without a price adds nothing.",
)
LIMIT: Final = MetricFamily(
    "headway_lane_limit",
    "gauge",
    ("lane", "meter"),
    "The limit in force, as an amount per period of the meter.",
)
LEVEL: Final = MetricFamily(
    "headway_lane_level",
    "gauge",
    ("lane", "meter"),
    "What is left in the bucket of the meter, in the unit of its limit.",
)
WINDOW: Final = MetricFamily(
    "headway_lane_window",
    "gauge",
    ("lane",),
    "How many requests the lane may have in flight; no sample if nothing limits it.",
)
IN_FLIGHT: Final = MetricFamily("headway_lane_in_flight", "gauge", ("lane",), "Requests in flight.")
QUEUED: Final = MetricFamily(
    "headway_lane_queued",
    "gauge",
    ("lane",),
    "Units that wait for the lane: neither in flight nor ended, and not waiting for other units.",
)
OLDEST_WAIT: Final = MetricFamily(
    "headway_lane_oldest_wait_seconds",
    "gauge",
    ("lane",),
    "How long the first unit in the lane's queue has been ready to start; 0 if none is.",
)
WAITS: Final = MetricFamily(
    "headway_wait_seconds_total",
    "counter",
    ("lane", "reason"),
    "Seconds in which the lane had a unit to start and waited, by what it waited for.",
)
COMMITS: Final = MetricFamily(
    "headway_store_commit_seconds", "histogram", (), "Duration of the commits of the run to its store."
)

#: In the order of the exposition.
FAMILIES: Final = (
    UNITS, ATTEMPTS, REFUSALS, TOKENS, COST, LIMIT, LEVEL, WINDOW, IN_FLIGHT, QUEUED, OLDEST_WAIT, WAITS, COMMITS,
)  # fmt: skip
